"""Deconvolution: loads of known submissions give these submissions back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from builders import profile, tiny_library, tiny_scenario, write_scenario
from command_line import call
from typer.testing import CliRunner

from diploee.cli.deconvolve import deconvolve_command
from diploee.clock import RunClock
from diploee.errors import InputError, OutputExistsError, WorkloadError
from diploee.importers.power_logs.observed import ObservedSeries, read_observed_series
from diploee.inputs import load_inputs
from diploee.learn.deconvolution.kernel import Kernel, Observed, mix_kernel
from diploee.learn.deconvolution.recover import (
    RecoveredWeights,
    recover_weights,
    recovered_text,
)
from diploee.loads.jobs.rates import hourly_rates
from diploee.loads.jobs.source import draw_submissions
from diploee.outputs import Run
from diploee.profiles import ProfileLibrary
from diploee.profiles.playing import played_mean_power_w
from diploee.scenario import Calendar, Scenario, load_scenario, scenario_from_dict
from diploee.simulation import simulate
from diploee.site import settle
from diploee.steps import stream_classes

HOUR_S = 3_600
BY_HOUR = 1.2 + np.sin(np.arange(168) / 24 * 2 * np.pi) + 0.5 * (np.arange(168) % 7 == 0)
LASTING = {
    "lognormal": [{"weight": 1, "median_s": 5_000, "sigma": 0.8}],
    "max_s": 100_000,
}
both = pytest.mark.parametrize("observed", ["utilization", "power"])


def week() -> np.ndarray:
    weights = np.array(load_scenario("colocation_10mw").streams["training"].calendar.week_weights())
    return weights / weights.mean()


def series(values: np.ndarray, **fields: Any) -> ObservedSeries:
    given: dict[str, Any] = {
        "start": datetime(2018, 1, 1),
        "step_ms": 3_600_000,
        "power_w": np.full(values.size, np.nan),
        "utilization": values,
        "source": "made.csv",
    }
    return ObservedSeries(**given | fields)


def kernel_of(scenario: Scenario, observed: Observed = "utilization") -> Kernel:
    classes, library = stream_classes(scenario, tiny_library())
    stream = scenario.streams["training"]
    node_type = scenario.facility.node_type_of("main")
    return mix_kernel(classes, library, node_type, stream.startup, observed)


def load_of(rate: np.ndarray, scenario: Scenario) -> np.ndarray:
    """Expected occupancy in every hour of submissions at a rate [jobs/h]."""
    return kernel_of(scenario).load_of(rate) / scenario.facility.n_nodes


KINDS: dict[str, Mapping[str, Any]] = {
    "profiles": {},
    "drawn durations": {f"streams.training.classes.{k}.duration": LASTING for k in range(3)},
    "start-up": {"streams.training.startup": {"quantiles_s": {0: 100, 1: 2_000}}},
    "scaled": {
        "streams.training.classes.2": {
            "workload": "draw",
            "n_nodes": 3,
            "scale_from_n_nodes": 1,
            "probability": 0.25,
        },
        "facility.node_types.node.busy_power_factor": 1.1,
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_kernel_sums_to_the_mean_node_time_and_energy(kind: str) -> None:
    scenario = tiny_scenario(KINDS[kind])
    stream, library = scenario.streams["training"], tiny_library()
    node_type = scenario.facility.node_type_of("main")
    node_s = energy_j = 0.0
    for c in stream_classes(scenario, library)[0]:
        one, profiles = c.job_class, [library[k] for k in c.profile_ids]
        run_s = np.mean([p.duration_ms for p in profiles]) / 1000
        played_j = np.mean([p.energy_j for p in profiles])
        if one.duration is not None:
            played_j = np.mean([p.mean_power_w for p in profiles]) * one.duration.mean_s()
            run_s = one.duration.mean_s()
        late_s = 0.0 if stream.startup is None else stream.startup.mean_s()
        node_s += one.probability * one.n_nodes * (run_s + late_s)
        above = played_j * c.extrapolation_ratio * node_type.busy_power_factor
        energy_j += one.probability * (above - node_type.idle_power_w * one.n_nodes * run_s)
    assert kernel_of(scenario).hourly.sum() * HOUR_S == pytest.approx(node_s, rel=1.1e-3)
    assert kernel_of(scenario, "power").hourly.sum() * HOUR_S == pytest.approx(energy_j, rel=1.1e-3)


@pytest.mark.parametrize("observed", ["utilization", "power"])
def test_a_job_on_half_of_a_nodes_gpus_has_half_its_kernel(observed: Observed) -> None:
    classes, pool = "streams.training.classes", {"facility.pools.main.allocate": "gpus"}
    one: dict[str, Any] = {"workload": "draw", "n_nodes": 1, "probability": 1}
    starting = KINDS["start-up"] | pool
    whole, half = (
        kernel_of(tiny_scenario(starting | {classes: [of]}), observed).hourly
        for of in (one, one | {"n_gpus": 2})
    )
    np.testing.assert_allclose(2 * half, whole)


@pytest.mark.parametrize("kind", ["profiles", "drawn durations", "start-up"])
def test_kernel_is_the_mean_of_many_jobs_of_one_hour(kind: str) -> None:
    scenario, n = tiny_scenario(KINDS[kind]), 60_000
    stream, rng = scenario.streams["training"], np.random.default_rng(0)
    kernel = kernel_of(scenario).hourly
    found, squares = np.zeros(kernel.size), np.zeros(kernel.size)
    edges = np.arange(kernel.size + 1) * HOUR_S
    for c in stream_classes(scenario, tiny_library())[0]:
        own_s = np.array([tiny_library()[k].duration_ms / 1000 for k in c.profile_ids])
        model = c.job_class.duration
        run_s = rng.choice(own_s, n) if model is None else model.draw(rng, n)
        if stream.startup is not None:
            run_s = run_s + stream.startup.draw(rng, n)
        begin_s = rng.random(n) * HOUR_S
        upto = np.clip(edges[:, None], begin_s, begin_s + run_s) - begin_s
        share = c.job_class.n_nodes * np.diff(upto, axis=0) / HOUR_S
        found += c.job_class.probability * share.mean(axis=1)
        squares += (c.job_class.probability * share.std(axis=1)) ** 2 / n
    assert np.all(np.abs(found - kernel) < 5 * np.sqrt(squares) + 1e-5)


@pytest.mark.slow
def test_expected_load_is_that_of_jobs_drawn_at_the_rates() -> None:
    scenario, rate = tiny_scenario(), np.array([0.0, 1, 6, 3, 0, 0, 2, 2, 5, 0, 0, 0])
    clock = RunClock(datetime(2018, 1, 1), UTC, rate.size * HOUR_S * 1000, HOUR_S * 1000)
    rates = hourly_rates(Calendar(hour_of_day=(*rate, *[0.0] * 12)), clock)
    rng, found = np.random.default_rng(0), np.zeros(rate.size)
    per_day = 24e5 * rate.mean()
    for c in stream_classes(scenario, tiny_library())[0]:
        begin_s = draw_submissions(rng, rates, per_day) / 1000
        run_s = rng.choice(
            [tiny_library()[k].duration_ms / 1000 for k in c.profile_ids], begin_s.size
        )
        upto = np.clip(np.arange(rate.size + 1)[:, None] * HOUR_S, begin_s, begin_s + run_s)
        ran = np.diff(upto.sum(axis=1)) / HOUR_S
        found += c.job_class.probability * c.job_class.n_nodes * ran
    expected = kernel_of(scenario).load_of(rate)
    np.testing.assert_allclose(found / 1e5, expected, atol=0.005 * expected.max())
    steps = np.convolve(rate, kernel_of(scenario).hourly)[: rate.size]
    assert np.abs(steps - expected).max() > 0.01 * expected.max()


@pytest.mark.parametrize("kind", KINDS)
def test_an_expected_load_gives_its_rates_exactly(kind: str) -> None:
    scenario = tiny_scenario(KINDS[kind] | {"facility.pools.main.n_nodes": 50_000})
    rate = np.tile(100 * BY_HOUR, 8)
    found = recover_weights(series(load_of(rate, scenario)), scenario, tiny_library())
    np.testing.assert_allclose(found.hour_of_week, BY_HOUR / BY_HOUR.mean(), rtol=1e-4)
    assert found.jobs_per_day == pytest.approx(24 * 100 * BY_HOUR.mean(), rel=1e-5)
    assert found.r2 > 1 - 1e-8
    assert (found.full_share, found.notes) == (0, ())


def test_limits_hold_the_weights_of_a_scattered_load_and_close_on_those_of_an_exact_one() -> None:
    scenario = tiny_scenario({"facility.pools.main.n_nodes": 50_000})
    rate = np.tile(100 * BY_HOUR, 24)
    exact = recover_weights(series(load_of(rate, scenario)), scenario, tiny_library())
    np.testing.assert_allclose(exact.hour_of_week_low, exact.hour_of_week_high, atol=1e-3)
    truth, inside, count_inside = BY_HOUR / BY_HOUR.mean(), [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        weeks = rng.gamma(100, 0.01, 24).repeat(168)
        load = load_of(rng.poisson(rate * weeks) * 1.0, scenario)
        found = recover_weights(series(load), scenario, tiny_library())
        inside.append((found.hour_of_week_low <= truth) & (truth <= found.hour_of_week_high))
        per_day = 24 * 100 * BY_HOUR.mean()
        count_inside.append(found.jobs_per_day_low <= per_day <= found.jobs_per_day_high)
        assert np.median(found.hour_of_week_high - found.hour_of_week_low) < 0.3
    assert 0.9 <= np.mean(inside) <= 0.99
    assert sum(count_inside) >= 2


def test_jobs_from_before_the_series_do_not_matter() -> None:
    scenario = tiny_scenario({"facility.pools.main.n_nodes": 50_000})
    rate = np.tile(100 * BY_HOUR, 9)
    load = load_of(rate, scenario)[168:]  # the first hours hold jobs of the week before
    found = recover_weights(series(load), scenario, tiny_library())
    np.testing.assert_allclose(found.hour_of_week, BY_HOUR / BY_HOUR.mean(), rtol=1e-4)


def test_months_are_recovered_with_the_week() -> None:
    scenario = tiny_scenario({"facility.pools.main.n_nodes": 50_000})
    hours = np.datetime64("2018-01-01T00", "h") + np.arange(8_760, dtype="timedelta64[h]")
    month = np.array([1.4, 0.6, 0.8, 1.0, 1.2, 1.5, 0.7, 0.9, 1.1, 1.0, 0.5, 1.3])
    of_hour = month[hours.astype("datetime64[M]").astype(int) % 12]
    rate = 40 * np.resize(BY_HOUR, 8_760) * of_hour
    found = recover_weights(series(load_of(rate, scenario)), scenario, tiny_library())
    assert found.month is not None
    days = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    np.testing.assert_allclose(found.month, month / (month @ days / 365), rtol=1e-3)
    np.testing.assert_allclose(found.hour_of_week, BY_HOUR / BY_HOUR.mean(), rtol=1e-3)
    wanted = 24 * 40 * BY_HOUR.mean() * (month @ days / 365)
    assert found.jobs_per_day == pytest.approx(wanted, rel=1e-3)
    alone = recover_weights(series(load_of(rate, scenario)), scenario, tiny_library(), months=False)
    assert alone.month is None
    assert alone.r2 < found.r2


@pytest.mark.parametrize("minutes", [5, 15, 60])
def test_steps_and_zones_are_brought_to_local_hours(minutes: int) -> None:
    """A series in UTC that begins within an hour, of a facility seven hours behind."""
    scenario = tiny_scenario(
        {"facility.pools.main.n_nodes": 50_000, "facility.utc_offset": "-07:00"}
    )
    load = load_of(np.tile(100 * BY_HOUR, 9), scenario)  # from Monday 00:00 local time
    fine = np.repeat(load, 60 // minutes)
    skipped = 1 if minutes < 60 else 0
    start = datetime(2018, 1, 1, 7, skipped * minutes, tzinfo=UTC)
    given = series(fine[skipped:], start=start, step_ms=minutes * 60_000)
    found = recover_weights(given, scenario, tiny_library())
    np.testing.assert_allclose(found.hour_of_week, BY_HOUR / BY_HOUR.mean(), rtol=1e-4)


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scenario, ObservedSeries, float]:
    """Eight weeks of a facility at 20 %, its load read back, and its daily number of jobs."""
    scenario = tiny_scenario(
        {
            "duration": "8 weeks",
            "resolution": "600 s",
            "facility.pools.main.n_nodes": 1_500,
            "streams.training.target_utilization": 0.2,
            "streams.training.calendar": {"hour_of_week": week().tolist()},
        }
    )
    run = simulate(
        scenario,
        tmp_path_factory.mktemp("run") / "own",
        library=tiny_library(),
        engine="compiled",
        jobs_file=False,
    )
    jobs_per_day = run.manifest["workload"][0]["jobs_per_day"]
    return scenario, read_observed_series(run.folder / "facility.parquet"), jobs_per_day


def check(found: RecoveredWeights, wanted: np.ndarray, jobs_per_day: float) -> None:
    assert np.corrcoef(found.hour_of_week, wanted)[0, 1] > 0.99
    assert found.jobs_per_day == pytest.approx(jobs_per_day, rel=0.01)
    assert found.hour_of_week.min() >= 0
    assert found.hour_of_week.mean() == pytest.approx(1)


@both
def test_an_own_run_gives_its_weights_back(
    own_run: tuple[Scenario, ObservedSeries, float], observed: Observed
) -> None:
    scenario, load, jobs_per_day = own_run
    found = recover_weights(load, scenario, tiny_library(), observed=observed)
    check(found, week(), jobs_per_day)
    assert found.r2 > 0.95
    np.testing.assert_allclose(found.fitted_mean.mean(), found.observed_mean.mean(), rtol=0.01)
    # What the fit does not explain is chance: it has no course of its own over the week.
    residual = (found.observed_mean - found.fitted_mean)[: 7 * 168].reshape(-1, 168).mean(axis=0)
    assert residual.std() < 0.2 * found.observed_mean.std()


SITES: dict[str, dict[str, Any]] = {
    "another size": {"facility.size": {"nodes_factor": 3.5}},
    "a size at the meter": {"facility.size": {"poi_mw": 4.0}},
    "phases": {
        "facility.pools.main.phases": [
            {"since": "2018-01-01", "n_nodes": 200},
            {"since": "2018-01-17", "n_nodes": 400},
            {"since": "2018-02-04", "n_nodes": 1_000},
        ]
    },
    "another size with phases": {
        "facility.size": {"nodes_factor": 0.6},
        "facility.pools.main.phases": [
            {"since": "2018-01-01", "n_nodes": 300},
            {"since": "2018-01-20", "n_nodes": 1_000},
        ],
    },
}


@pytest.fixture(scope="module", params=SITES)
def settled_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Scenario, Run]:
    scenario = tiny_scenario(
        SITES[request.param]
        | {
            "duration": "8 weeks",
            "resolution": "1 h",
            "facility.pools.main.n_nodes": 1_000,
            "facility.stages": [{"kind": "auxiliary_load", "design_share": 0.1}],
            "streams.training.target_utilization": 0.1,
            "streams.training.calendar": {"hour_of_week": week().tolist()},
        }
    )
    folder = tmp_path_factory.mktemp("run") / "own"
    return scenario, simulate(scenario, folder, library=tiny_library(), engine="compiled")


@pytest.mark.slow
@both
def test_a_run_in_its_size_and_phases_gives_its_submissions_back(
    settled_run: tuple[Scenario, Run], observed: Observed
) -> None:
    scenario, own = settled_run
    load = read_observed_series(own.folder / "facility.parquet", power_column="it_power_w")
    found = recover_weights(load, scenario, tiny_library(), observed=observed)
    submitted = len(own.jobs()) / 56
    assert found.jobs_per_day_low <= submitted <= found.jobs_per_day_high
    assert found.jobs_per_day_high < 1.1 * submitted
    check(found, week(), submitted)
    # The file says itself where its power is taken, whatever scenario it is read with.
    bare = tiny_scenario({"facility.pools.main.n_nodes": 1_000})
    behind = read_observed_series(own.folder / "facility.parquet", power_column="facility_power_w")
    with pytest.raises(WorkloadError, match=r"'facility_power_w' .*--column it_power_w"):
        recover_weights(behind, bare, tiny_library(), observed="power")
    if scenario.facility.size is None:
        return
    # What is written, scaled by the size, is the count again.
    pasted = tiny_scenario(
        yaml.safe_load(recovered_text(found, scenario, "facility.parquet", observed))
        | {"facility": scenario.model_dump(mode="json")["facility"], "duration": "8 weeks"}
    )
    settled = settle(pasted, load_inputs(pasted, tiny_library()))
    per_day = settled.streams["training"].jobs_per_day
    assert per_day == pytest.approx(found.jobs_per_day, rel=1e-4)


def test_power_behind_stages_is_refused_and_that_of_the_devices_named() -> None:
    stages = {"facility.stages": [{"kind": "auxiliary_load", "power_kw": 50}]}
    metered = series(np.full(8 * 168, 0.2), power_w=np.full(8 * 168, 6e3), power_column="meter")
    for changes, column in ((stages, "meter"), (stages, "facility_power_w"), ({}, "poi_power_w")):
        given = replace(metered, power_column=column)
        with pytest.raises(WorkloadError, match=rf"'{column}' .*'it_power_w' .--column it_power_w"):
            recover_weights(given, tiny_scenario(changes), tiny_library(), observed="power")
    # Busy nodes are the same on both sides of them.
    recover_weights(metered, tiny_scenario(stages), tiny_library())


@pytest.mark.slow
def test_power_of_drawn_durations_counts_start_and_end_once(tmp_path: Path) -> None:
    """Jobs with long starts at low power, on average twice as long as their profile."""
    power_w = np.repeat([500.0, 2_000.0, 600.0], [600, 1_200, 300])
    library = ProfileLibrary([profile("tune-1n", power_w)])
    lasting = {"lognormal": [{"weight": 1, "median_s": 3_600, "sigma": 0.6}]}
    scenario = tiny_scenario(
        {
            "duration": "6 weeks",
            "resolution": "600 s",
            "facility.pools.main.n_nodes": 800,
            "streams.training.target_utilization": 0.3,
            "streams.training.classes": [
                {"workload": "tune", "n_nodes": 1, "probability": 1.0, "duration": lasting}
            ],
        }
    )
    run = simulate(scenario, tmp_path / "run", library=library, engine="compiled", jobs_file=False)
    load = read_observed_series(run.folder / "facility.parquet")
    wanted = run.manifest["workload"][0]["jobs_per_day"]
    found = recover_weights(load, scenario, library, observed="power").jobs_per_day
    assert found == pytest.approx(wanted, rel=0.01)


def test_a_profile_played_at_its_own_length_has_its_own_mean_power() -> None:
    for one in (tiny_library()[k] for k in range(4)):
        found = played_mean_power_w(one, np.array([1e-3, 1.0, 1.0, 3.0]) * one.duration_ms / 1000)
        np.testing.assert_allclose(found[1:3], one.mean_power_w, rtol=1e-6)
        assert one.power_w.min() <= found.min() <= found.max() <= one.power_w.max()


@pytest.mark.slow
@both
def test_the_shipped_year_at_20_percent_gives_its_weights_back(
    tmp_path: Path, observed: Observed
) -> None:
    values = {"streams.training.target_utilization": 0.2}
    scenario, library = load_scenario("colocation_10mw", values=values), ProfileLibrary.open()
    run = simulate(scenario, tmp_path / "year", engine="compiled", jobs_file=False)
    load = read_observed_series(run.folder / "facility.parquet")
    assert load.step_ms == 60_000
    found = recover_weights(load, scenario, library, observed=observed)
    check(found, week(), run.manifest["workload"][0]["jobs_per_day"])
    month = np.array(scenario.streams["training"].calendar.month_weights())
    assert found.month is not None
    np.testing.assert_allclose(found.month, month, rtol=0.03)


def test_a_full_facility_is_reported() -> None:
    scenario = tiny_scenario({"facility.pools.main.n_nodes": 250})
    load = np.minimum(load_of(np.tile(120 * BY_HOUR, 8), scenario), 1.0)
    assert (load == 1).mean() > 0.05
    found = recover_weights(series(load), scenario, tiny_library())
    assert found.full_share > 0.05
    assert "the facility was full" in found.notes[0]


def bad_inputs() -> dict[str, tuple[dict[str, Any], ObservedSeries, dict[str, Any], str]]:
    load = np.full(8 * 168, 0.2)
    two = {"streams.more": tiny_scenario().streams["training"].model_dump(mode="json")}
    return {
        "short": ({}, series(load[:300]), {}, "12.5 days, .* expected at least 2 weeks"),
        "two streams": (two, series(load), {}, "found 'training', 'more'"),
        "no power": ({}, series(load), {"observed": "power"}, "made.csv: has no power"),
        "no use": (
            {},
            series(load, power_w=load, utilization=None),
            {},
            "made.csv: has no utilization",
        ),
        "coarse": ({}, series(load, step_ms=7_200_000), {}, "steps of 2 h"),
        "idle": ({}, series(0 * load), {}, "never rises above"),
        "months": ({}, series(load), {"months": True}, "month 3 .10 of 12 are missing"),
    }


@pytest.mark.parametrize("name", bad_inputs())
def test_what_cannot_be_recovered_is_one_line(name: str) -> None:
    changes, load, options, text = bad_inputs()[name]
    with pytest.raises(WorkloadError, match=text) as caught:
        recover_weights(load, tiny_scenario(changes), tiny_library(), **options)
    assert "\n" not in str(caught.value)


APP = typer.Typer()
APP.command()(deconvolve_command)


def run(*arguments: object) -> str:
    ended = CliRunner().invoke(APP, [str(a) for a in arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_command_gives_a_stream_that_loads(tmp_path: Path, library_folder: Path) -> None:
    changes = {"facility.pools.main.n_nodes": 50_000, "streams.training.dispersion": 0.5}
    base = write_scenario(tmp_path / "base.yaml", changes)
    load = load_of(np.tile(100 * BY_HOUR, 8), load_scenario(base))
    stamps = np.datetime64("2018-01-01T00:00") + np.arange(load.size) * np.timedelta64(1, "h")
    rows = [f"{stamp},{value:.9f}" for stamp, value in zip(stamps, load, strict=True)]
    file, out = tmp_path / "load.csv", tmp_path / "stream.yaml"
    file.write_text("\n".join(["timestamp,busy", *rows]) + "\n", "utf-8")
    options = (file, "--scenario", base, "--profiles", library_folder, "--column", "busy")
    options = (*options, "--observed", "utilization")

    text = run(*options)
    assert "explains 100.00% of the variance" in text
    stream = scenario_from_dict(
        yaml.safe_load(base.read_text("utf-8")) | yaml.safe_load(text)
    ).streams["training"]
    assert stream.jobs_per_day == pytest.approx(2_400 * BY_HOUR.mean(), rel=1e-4)
    assert stream.target_utilization is None and stream.dispersion is None
    assert stream.classes == load_scenario(base).streams["training"].classes
    np.testing.assert_allclose(stream.calendar.week_weights(), BY_HOUR / BY_HOUR.mean(), rtol=1e-3)
    said = run(*options, "--out", out)
    assert out.read_text("utf-8") == text
    assert f"Written: {out}" in said
    with pytest.raises(OutputExistsError):
        run(*options, "--out", out)
    found = json.loads(run(*options, "--json"), parse_constant=pytest.fail)
    assert len(found["hour_of_week"]) == 168
    assert len(found["fitted_mean"]) == len(found["observed_mean"])


@pytest.fixture
def power_file(tmp_path: Path) -> Path:
    """Eight weeks of a facility of 50,000 nodes, in kilowatts, two rows missing."""
    scenario = tiny_scenario({"facility.pools.main.n_nodes": 50_000})
    above_w = kernel_of(scenario, "power").load_of(np.tile(100 * BY_HOUR, 8))
    idle_w = 50_000 * scenario.facility.node_type_of("main").idle_power_w
    stamps = np.datetime64("2018-01-01T00:00") + np.arange(8 * 168) * np.timedelta64(1, "h")
    rows = [f"{stamp},{(w + idle_w) / 1000:.6f}" for stamp, w in zip(stamps, above_w, strict=True)]
    file = tmp_path / "power.csv"
    file.write_text("\n".join(["timestamp,meter", *rows[:500], *rows[502:]]) + "\n", "utf-8")
    return file


def test_a_unit_of_power_means_power_and_filled_gaps_are_reported(
    power_file: Path, tmp_path: Path, library_folder: Path
) -> None:
    base = write_scenario(tmp_path / "base.yaml", {"facility.pools.main.n_nodes": 50_000})
    options = (power_file, "--scenario", base, "--profiles", library_folder, "--column", "meter")
    found = json.loads(run(*options, "--power-unit", "kW", "--json"))
    assert found["jobs_per_day"] == pytest.approx(2_400 * BY_HOUR.mean(), rel=1e-2)
    assert "2 missing rows and values were filled by straight lines" in found["notes"]
    with pytest.raises(InputError, match="--power-unit: is for --observed power"):
        run(*options, "--power-unit", "kW", "--observed", "utilization")
    with pytest.raises(WorkloadError, match=r"power.csv: a mean power of .* MW.*--power-unit"):
        run(*options, "--power-unit", "MW")
    with pytest.raises(InputError, match="--max-gap-s"):
        run(*options, "--power-unit", "kW", "--max-gap-s", 3_600)
    before = power_file.read_bytes()
    for place in (power_file, base):
        with pytest.raises(InputError, match=r"--out: .* is an input"):
            run(*options, "--power-unit", "kW", "--out", place, "--force")
    assert power_file.read_bytes() == before


def test_a_load_above_the_rating_is_refused_with_the_limit(
    power_file: Path, tmp_path: Path, library_folder: Path
) -> None:
    changes = {"facility.pools.main.n_nodes": 50_000, "facility.rated_power_mw": 1.5}
    base = write_scenario(tmp_path / "base.yaml", changes)
    options = (power_file, "--scenario", base, "--profiles", library_folder, "--column", "meter")
    with pytest.raises(WorkloadError, match=r"it is rated at 1.5 MW") as caught:
        run(*options, "--power-unit", "kW")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        ("--column", "timestamp"),
        ("--time-column", "utilization"),
        ("--observed", "power", "--column", "utilization"),
        ("--observed", "power", "--column", "timestamp"),
    ],
)
def test_a_column_of_two_meanings_is_named(tmp_path: Path, options: tuple[str, ...]) -> None:
    load = tmp_path / "load.csv"
    load.write_text("timestamp,power_w,utilization\n2018-01-01,1,0.5\n2018-01-02,1,0.5\n", "utf-8")
    scenario = write_scenario(tmp_path / "tiny.yaml")
    ended = call("deconvolve", load, "--scenario", scenario, *options)
    assert ended.code == 2
    assert ended.problem.startswith(f"{load}:1: column '{options[-1]}' is read as ")
