"""Power samples of instances, their sums, and whole runs with request streams"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_builders import (
    CODING,
    one_service,
    plan_of,
    services_load,
    serving_scenario,
)

from diploee import run as simulate
from diploee.base.errors import ScenarioError
from diploee.base.tables import Float64Array
from diploee.importers.serving.service_curves import load_power_curve
from diploee.loads.services.curves import PowerCurve
from diploee.loads.services.instance_groups import (
    InstanceGroupLoad,
    bank_sums_w,
    shared_counts,
)
from diploee.loads.services.samples import N_SAMPLES, repeating_samples
from diploee.power import PowerBlock
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.simulation.steps import power_blocks

IDLE_W = 400
CHAT = "request_streams.chat"


@pytest.fixture(scope="module", params=["coding", "conversation"])
def curve(request: pytest.FixtureRequest) -> PowerCurve:
    return load_power_curve(f"llama3_70b_{request.param}_power", Path())[0]


@pytest.fixture(scope="module")
def samples_w(curve: PowerCurve) -> Float64Array:
    return np.stack([sample.power_w for sample in repeating_samples(curve)])


def constant(
    rate_rps: float, changes: dict[str, Any] | None = None, **keys: Any
) -> Scenario:
    """Return half a day of one service at a constant rate."""
    steady = {
        f"{CHAT}.calendar": None,
        f"{CHAT}.request_rate_rps": rate_rps,
        "duration": "12 h",
    }
    return serving_scenario({**one_service(**keys), **steady, **(changes or {})})


def lower(scenario: Scenario) -> InstanceGroupLoad:
    return services_load(scenario)


def blocks_of(scenario: Scenario) -> list[PowerBlock]:
    load = lower(scenario)
    return list(power_blocks(load.segments, scenario, load.library))


def power_w(scenario: Scenario) -> Float64Array:
    return np.concatenate([block.it_power_w[0] for block in blocks_of(scenario)])


def test_samples_have_the_measured_mean(
    curve: PowerCurve, samples_w: Float64Array
) -> None:
    assert samples_w.mean(axis=1) == pytest.approx(curve.mean_power_w, rel=1e-12)


def test_samples_peak_near_the_measured_peak(
    curve: PowerCurve, samples_w: Float64Array
) -> None:
    error = samples_w.max(axis=1) / curve.peak_power_w - 1
    assert np.abs(error).max() < 0.06
    assert np.median(np.abs(error)) < 0.01


def test_samples_drop_one_to_three_times_to_0_8_to_1_9_kw(
    samples_w: Float64Array,
) -> None:
    for sample_w in samples_w[20:]:
        low = np.flatnonzero(sample_w < np.median(sample_w) - 500)
        assert 1 <= 1 + (np.diff(low) > 10).sum() <= 3
        assert 700 < sample_w.min() < 2050


def test_highest_rate_dips_every_eight_seconds_by_200_to_300_w(
    samples_w: Float64Array,
) -> None:
    folded = samples_w[-1][: 22 * 80].reshape(22, 80)
    profile = np.median(folded, axis=0)
    assert 150 < np.median(profile) - profile.min() < 350


def test_sum_over_instances_takes_each_at_its_own_phase(
    samples_w: Float64Array,
) -> None:
    phases = np.array([0, 7, 1799, 400])
    sums = bank_sums_w(samples_w[0], phases, [1, 3, 4])
    assert sums[0] == pytest.approx(samples_w[0])
    expected = sum(np.roll(samples_w[0], -phase) for phase in phases[:3])
    assert sums[1] == pytest.approx(expected)
    assert sums[2].mean() == pytest.approx(4 * samples_w[0].mean())


def test_summed_instances_neither_smooth_to_nothing_nor_beat(
    samples_w: Float64Array,
) -> None:
    n = 200
    phases = np.random.default_rng(0).integers(0, N_SAMPLES, n)
    (total_w,) = bank_sums_w(samples_w[-1], phases, [n])
    assert 0.5 < total_w.std() / (np.sqrt(n) * samples_w[-1].std()) < 2


def test_profiles_grow_with_the_logarithm_of_the_instances() -> None:
    counts = np.arange(200_000)
    shared = shared_counts(counts)
    assert np.array_equal(shared[:257], counts[:257])
    assert np.abs(shared[1:] / counts[1:] - 1).max() < 1 / 256
    assert np.unique(shared).size < 256 * 7


@pytest.mark.parametrize(
    ("rate_rps", "n_instances", "of_each_w"),
    [
        pytest.param(129, 2, (2829.8 + 2829.9) / 2, id="between two measured"),
        pytest.param(0.2, 1, 2069.5, id="below the lowest measured"),
    ],
)
def test_constant_rate_draws_the_interpolated_mean_power(
    rate_rps: float, n_instances: int, of_each_w: float
) -> None:
    # What part of the sample each minute plays is left to chance.
    scenario = constant(rate_rps)
    expected_w = n_instances * of_each_w + (12 - n_instances) * IDLE_W
    assert power_w(scenario).mean() == pytest.approx(expected_w, rel=2e-3)
    assert all((b.busy_nodes == n_instances).all() for b in blocks_of(scenario))


@pytest.mark.slow
@pytest.mark.parametrize("rate_rps", [12 * 40.0, 12 * 40.5])
def test_a_bank_goes_on_at_a_like_level_where_its_sample_jumps_or_changes(
    rate_rps: float,
) -> None:
    fine = {"duration": "1 d", "resolution": "0.1 s"}
    scenario = constant(rate_rps, fine, max_request_rate_rps=40.6)
    (bank,) = lower(scenario).banks
    edges_ms, at_ms = bank.edges_ms, bank.offset_ms
    ahead_ms = np.diff(at_ms) - np.diff(edges_ms)[:-1]
    moved = (ahead_ms % (N_SAMPLES * 100) != 0) | (np.diff(bank.profile_id) != 0)
    assert 400 < np.count_nonzero(moved) < 800  # every two minutes
    step_w = np.diff(power_w(scenario))
    interval = edges_ms[1:-1][moved] // 100
    there = np.zeros(step_w.size, dtype=bool)
    there[interval - 1] = there[interval[interval < step_w.size]] = True
    sizes_w = [float(np.sqrt((step_w[rows] ** 2).mean())) for rows in (there, ~there)]
    assert sizes_w[0] < 1.25 * sizes_w[1]
    assert np.abs(step_w[there]).max() < 1.25 * np.abs(step_w[~there]).max()


WARM = {"facility.node_types.node.warm_power_w": 700}


def test_warm_standby_draws_the_level_of_loaded_models_and_is_not_busy() -> None:
    scenario = constant(65, WARM, standby="warm")
    busy = blocks_of(scenario)[0].busy_nodes
    assert (busy == 1).all()
    assert power_w(scenario).mean() == pytest.approx(2829.9 + 11 * 700, rel=2e-3)


def test_warm_standby_takes_nothing_from_a_pool_without_a_free_node() -> None:
    cold, warm = (
        power_w(constant(1200, WARM, standby=kind)) for kind in ("cold", "warm")
    )
    assert np.array_equal(cold, warm)


def test_warm_standby_needs_the_level_of_its_nodes() -> None:
    with pytest.raises(
        ScenarioError, match=r"coding.standby: warm needs warm_power_w of node"
    ):
        constant(65, standby="warm")


@pytest.mark.parametrize("warm_w", [IDLE_W - 1, 9000])
def test_warm_level_is_between_idle_and_rated(warm_w: float) -> None:
    with pytest.raises(ScenarioError, match=r"warm_power_w: must be at (least|most)"):
        constant(65, {"facility.node_types.node.warm_power_w": warm_w})


def test_idle_is_read_as_cold() -> None:
    services = constant(65, standby="idle").request_streams["chat"].services
    assert services["coding"].standby == "cold"


def test_starting_instances_draw_the_level_of_loaded_models() -> None:
    rise = {f"{CHAT}.calendar": {"hour_of_day": [1.0] * 6 + [9.0] * 18}}
    scenario = constant(500, {**WARM, **rise}, startup_s=7200)
    served, load = plan_of(scenario).services[0].served, lower(scenario)
    starting = served.n_instances - served.n_serving
    _, loading = load.banks
    assert starting.max() > 3
    assert np.array_equal(loading.n_nodes, starting)
    assert np.array_equal(loading.weight, starting)
    assert load.library[int(loading.profile_id[0])].power_w.max() == 700


def test_instances_run_at_their_target_until_all_are_up() -> None:
    (below,) = plan_of(constant(601, instance_utilization=0.6)).services
    assert below.served.n_instances.max() == 11
    assert below.instance_rate_rps.max() == pytest.approx(601 / 11)
    (full,) = plan_of(constant(1190, instance_utilization=0.6)).services
    assert full.served.n_instances.max() == 12
    assert not full.served.unserved_rps.any()


def test_requests_are_unserved_only_where_all_instances_are_full() -> None:
    rising = {
        f"{CHAT}.calendar": {"hour_of_day": list(range(1, 25))},
        "duration": "1 d",
    }
    paper, spread = (
        plan_of(constant(800, rising, instance_utilization=share)).services[0].served
        for share in (1, 0.6)
    )
    lost = [served.unserved_rps @ served.step_s for served in (paper, spread)]
    assert lost[0] > 0
    assert lost[1] == pytest.approx(lost[0], rel=1e-4)


@pytest.mark.slow
def test_instances_that_start_up_are_busy_at_the_lowest_power() -> None:
    ramp = [1.0] * 12 + [5.0] * 12
    keys = {
        **one_service(startup_s=3600),
        f"{CHAT}.calendar": {"hour_of_day": ramp},
        f"{CHAT}.request_rate_rps": 300,
    }
    scenario = serving_scenario(keys)
    plan = plan_of(scenario)
    served = plan.services[0].served
    assert (served.n_instances - served.n_serving).max() > 0
    busy = np.concatenate([block.busy_nodes[0] for block in blocks_of(scenario)])
    at_start = (
        np.searchsorted(served.edges_ms, np.arange(24 * 60) * 60_000, side="right") - 1
    )
    assert np.array_equal(busy, served.n_instances[at_start])


def test_inference_run_has_its_files_and_no_block_of_the_other_mode(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    run = simulate(
        serving_scenario({f"{CHAT}.request_rate_rps": 900}),
        tmp_path / "run",
        profiles=library,
    )
    frame = run.facility()
    assert {"incoming_rps.coding", "n_instances.conversation"} <= set(frame.columns)
    busy = frame["n_instances.coding"] + frame["n_instances.conversation"]
    assert np.array_equal(frame["busy_nodes"], busy)
    incoming = frame["served_rps.coding"] + frame["unserved_rps.coding"]
    assert incoming.to_numpy() == pytest.approx(
        frame["incoming_rps.coding"].to_numpy(), rel=1e-5
    )
    assert "jobs" not in run.metrics
    assert run.metrics["requests"]["incoming_rps"] == pytest.approx(900, rel=1e-5)
    assert not (run.folder / "jobs.parquet").exists()
    assert len(run.manifest["curves"]) == 4


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="rejected"),
        pytest.param(
            {f"{CHAT}.overload": "queue", f"{CODING}.startup_s": 90}, id="queued"
        ),
    ],
)
def test_latency_column_weighted_by_requests_is_the_mean_latency_metric(
    changes: dict[str, Any], tmp_path: Path, library: ProfileLibrary
) -> None:
    """The column of the intervals adds up to the metric; no request, no latency."""
    calendar = {
        f"{CHAT}.calendar": {"hour_of_day": [0, 0, 1, 1, 2, 9] * 4},
        "duration": "6 h",
    }
    scenario = serving_scenario(
        {f"{CHAT}.request_rate_rps": 900, **calendar, **changes}
    )
    run = simulate(scenario, tmp_path / "run", profiles=library)
    for service, found in run.metrics["requests"]["services"].items():
        names = [
            f"{name}.{service}"
            for name in ("incoming_rps", "unserved_rps", "latency_s")
        ]
        incoming, unserved, latency_s = run.series().read(names).columns.values()
        taken, known = incoming - unserved, ~np.isnan(latency_s)
        assert not known.all()
        np.testing.assert_allclose(taken[~known], 0, atol=1e-4)
        mean_s = np.average(latency_s[known], weights=np.maximum(taken[known], 0))
        assert mean_s == pytest.approx(found["latency_s"]["mean"], rel=1e-5)
        assert latency_s[known].max() <= found["latency_s"]["max_mean"] * (1 + 1e-6)
        assert (
            run.facility()[f"latency_s.{service}"].isna().to_numpy().tolist()
            == (~known).tolist()
        )


def test_service_without_latency_curve_has_no_latency_column(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    scenario = serving_scenario({f"{CODING}.latency_curve": None, "duration": "1 h"})
    names = simulate(scenario, tmp_path / "run", profiles=library).facility().columns
    assert "latency_s.coding" not in names
    assert "latency_s.conversation" in names
