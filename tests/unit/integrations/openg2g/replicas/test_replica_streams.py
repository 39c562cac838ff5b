"""Replicas of served models: their power, latency and batch sizes, alone and in a run."""  # noqa: E501

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy
from benchmark_builders import (
    MIXTURE,
    THROUGHPUT,
    tiny_spec,
    write_openg2g,
    write_results,
)
from builders import tiny_library

from diploee import run as simulate
from diploee.base.errors import InputError, ScenarioError
from diploee.importers.input_reader import load_inputs
from diploee.integrations.openg2g import (
    InferenceData,
    ITLMixtureModel,
    LogisticModelStore,
    ResultsSource,
    specs_of,
)
from diploee.integrations.openg2g.replicas.load import (
    ReplicasLoad,
    find_data,
    replicas_at,
)
from diploee.integrations.openg2g.replicas.settings import ReplicaModel
from diploee.metrics.attribution_text import cause_text, read_causes
from diploee.scenario import load_scenario, scenario_from_dict

SIZES, PERIOD = (8, 64), 50
NODE = {"n_gpus": 8, "gpu_tdp_w": 700, "n_cpus": 2, "cpu_tdp_w": 300, "idle_power_w": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data whose traces last 5 s, are no constants and close on
    themselves."""
    place = tmp_path_factory.mktemp("data")
    write_openg2g(place / "tiny", tiny_spec(batch_sizes=SIZES))
    rows = ["batch_size,relative_time_s,power_total_W"]
    for size in SIZES:
        rows += [
            f"{size},{k / 10},{1000 + 10 * size + 200 * np.sin(2 * np.pi * k / PERIOD)}"
            for k in range(PERIOD + 1)
        ]
    (place / "tiny" / "trace.csv").write_text("\n".join(rows) + "\n")
    return place


def scenario_of(
    folder,
    replicas=6,
    duration="100 s",
    resolution="1 s",
    node=None,
    model=None,
    **keys,
):
    served = {"data": "tiny", "replicas": replicas, "batch_size": 8, **(model or {})}
    data: dict[str, Any] = {
        "name": "r",
        "start": "2018-01-01",
        "duration": duration,
        "resolution": resolution,
        "facility": {
            "node_types": {"n": NODE | (node or {})},
            "pools": {"p": {"node_type": "n", "n_nodes": 4}},
        },
        "replica_streams": {"chat": {"pool": "p", "models": {"tiny": served}, **keys}},
    }
    seed = data["replica_streams"]["chat"].pop("seed", 0)
    return scenario_from_dict(data | {"seed": seed}).with_folder(folder)


def planned(scenario):
    library = tiny_library()
    return ReplicasLoad(scenario, load_inputs(scenario, library), library).plans[0]


def run_of(scenario, tmp_path, name="run", **options):
    return simulate(scenario, tmp_path / name, profiles=tiny_library(), **options)


# --- power


def test_the_energy_is_that_of_the_templates_times_the_replicas(folder, tmp_path):
    scenario = scenario_of(folder)  # whole periods, so that no phase matters
    run = run_of(scenario, tmp_path)
    expected_j = 6 * (1000 + 80) * 100
    assert planned(scenario).power_w.sum() * 0.1 == pytest.approx(expected_j, rel=1e-6)
    drawn_w = run.facility()["it_power_w"]
    assert drawn_w.sum() == pytest.approx(expected_j, rel=1e-5)
    energy_mwh = run.metrics["replicas"]["streams"]["chat"]["energy_mwh"]
    assert energy_mwh * 3.6e9 == pytest.approx(expected_j, rel=1e-6)
    peak = run.metrics["grid"]["peak"]["cause"]["parts"][0]
    assert (peak["of"], peak["what"], peak["count"]) == ("chat", "replicas", 6)


def test_no_replicas_draw_nothing_and_have_no_latency(folder, tmp_path):
    run = run_of(scenario_of(folder, replicas=0, noise_fraction=0.1), tmp_path)
    series = run.facility()
    of_tiny = [f"{name}.tiny" for name in ("n_replicas", "itl_s", "tokens_per_s")]
    for name in ("it_power_w", "utilization", *of_tiny):
        assert not series[name].any()
    of_model = run.metrics["replicas"]["models"]["tiny"]
    assert of_model["itl_s"] == {"mean": None, "p50": None, "p99": None}
    assert of_model["tokens_per_s"] == 0


def test_busy_nodes_draw_their_other_power_and_the_rest_idles(folder, tmp_path):
    # Six replicas of two GPUs fill three nodes of four
    node = {"idle_power_w": 500, "n_gpus": 4}
    run = run_of(scenario_of(folder, node=node, other_node_power_w=100), tmp_path)
    assert run.facility()["it_power_w"].mean() == pytest.approx(
        6 * 1080 + 3 * 100 + 500, rel=1e-5
    )
    assert run.facility()["utilization"].mean() == pytest.approx(0.75)


def test_replicas_start_at_places_of_their_own_with_amplitudes_of_their_own(folder):
    together = planned(scenario_of(folder, replicas=16, staggered=False)).power_w
    apart = planned(scenario_of(folder, replicas=16)).power_w
    template_w = together[:PERIOD] / 16
    assert np.ptp(template_w) == pytest.approx(400, rel=0.01)
    assert together[PERIOD : 2 * PERIOD] == pytest.approx(together[:PERIOD])
    assert np.ptp(apart) < 0.7 * np.ptp(together)
    assert apart.mean() == pytest.approx(together.mean())
    low, high = 0.5, 1.5
    scaled = planned(
        scenario_of(folder, replicas=16, amplitude_range=[low, high])
    ).power_w
    factor = scaled.mean() / apart.mean()
    assert low < factor < high
    assert abs(factor - 1) < 4 * (high - low) / np.sqrt(12 * 16)
    assert factor != pytest.approx(1, abs=1e-6)


def test_a_sum_over_replicas_is_that_of_each_of_them(folder):
    whole = planned(scenario_of(folder, replicas=5)).power_w
    one = [planned(scenario_of(folder, replicas=n)).power_w for n in range(6)]
    of_each = [after - before for before, after in pairwise(one)]
    assert sum(of_each) == pytest.approx(whole)
    template_w = planned(scenario_of(folder, replicas=1, staggered=False)).power_w[
        :PERIOD
    ]
    for drawn_w in of_each:  # each is the template from some place on
        shifts = [
            np.abs(np.roll(template_w, -k) - drawn_w[:PERIOD]).max()
            for k in range(PERIOD)
        ]
        assert min(shifts) < 1e-6


def test_noise_of_independent_replicas_grows_with_their_root(folder):
    def deviation(n):
        keys = {"replicas": n, "duration": "1000 s"}
        quiet, noisy = (
            planned(scenario_of(folder, noise_fraction=f, **keys)).power_w
            for f in (0.0, 0.05)
        )
        return float((noisy - quiet).std())

    one, sixteen = deviation(1), deviation(16)
    mean_square = 1080**2 + 200**2 / 2
    assert one == pytest.approx(0.05 * np.sqrt(mean_square), rel=0.03)
    assert sixteen == pytest.approx(4 * one, rel=0.04)


def test_the_seed_alone_sets_what_is_drawn_however_a_run_is_cut(folder, tmp_path):
    keys = {"noise_fraction": 0.05, "amplitude_range": [0.9, 1.1], "duration": "13 h"}
    keys |= {"step_s": 1, "control_interval_s": 60}
    scenario = scenario_of(folder, resolution="1 h", **keys)
    first = run_of(scenario, tmp_path, "whole").facility()
    again = run_of(scenario, tmp_path, "cut", window_days=0.25).facility()
    assert first.equals(again)
    other = planned(scenario_of(folder, seed=1, noise_fraction=0.05)).power_w
    assert not np.allclose(
        other, planned(scenario_of(folder, noise_fraction=0.05)).power_w
    )


def test_nodes_draw_at_their_ac_input_what_their_model_says_of_their_devices(
    folder, tmp_path
):
    node = {"ac_power": "air_hgx", "idle_power_w": 500, "busy_power_factor": 1.1}
    ramps = [{"begin_s": 50, "end_s": 50, "replicas": 12}]
    scenario = scenario_of(
        folder, node=node, replicas=8, model={"ramps": ramps}, staggered=False
    )
    series = run_of(scenario, tmp_path).facility()
    of_node = scenario.facility.node_types["n"].ac_power_w
    power_w = planned(scenario).power_w.reshape(100, 10)
    for second, busy in ((20, 2), (70, 3)):
        expected = busy * of_node(1.1 * power_w[second] / busy).mean() + (
            4 - busy
        ) * of_node(500.0)
        assert series["facility_power_w"].iloc[second] == pytest.approx(
            expected, rel=1e-4
        )


# --- replicas in time


def test_ramps_are_linear_and_hold_their_end(folder, tmp_path):
    ramps = [
        {"begin_s": 10, "end_s": 20, "replicas": 0},
        {"begin_s": 50, "end_s": 50, "replicas": 4},
    ]
    model = ReplicaModel(data="x", replicas=10, batch_size=8, ramps=ramps)
    times_s = np.array([0, 10, 13, 20, 49, 50, 99.0])
    assert replicas_at(model, times_s).tolist() == [10, 10, 7, 0, 0, 4, 4]
    run = run_of(scenario_of(folder, replicas=10, model={"ramps": ramps}), tmp_path)
    series = run.facility()
    assert series["n_replicas.tiny"].iloc[[5, 13, 30, 60]].tolist() == [10, 7, 0, 4]
    assert not series["it_power_w"].iloc[21:50].any()
    # Four of two GPUs, one node
    assert series["utilization"].iloc[60] == pytest.approx(1 / 4)
    assert series["it_power_w"].iloc[60:95].mean() == pytest.approx(4 * 1080, rel=1e-5)


def test_events_and_reports_say_what_replicas_did(folder, tmp_path):
    ramps = [{"begin_s": 3000, "end_s": 3030, "replicas": 2}]
    node = {"idle_power_w": 500}
    coarse = {
        "duration": "2 h",
        "resolution": "10 s",
        "step_s": 0.5,
        "control_interval_s": 10,
    }
    scenario = scenario_of(folder, node=node, model={"ramps": ramps}, **coarse)
    run = run_of(scenario, tmp_path)
    n_ramps = 0
    for key, _, cause in read_causes(run.metrics):
        drops = cause["parts"][0]
        if key[0] == "ramps" and key[1] >= 900 and key[2] == "down":
            n_ramps += 1
            # Four replicas leave one of two nodes, which idles from then on: all of the
            # change.
            assert drops["mw"] == pytest.approx(cause["change_mw"], rel=1e-4)
            assert -4 * 1080 + 500 <= 1e6 * drops["mw"] < -3000
            assert "replicas of stream chat -" in cause_text(cause)
            assert " to 2.0 replicas" in cause_text(cause)
    assert n_ramps
    (section,) = (section for section in run.sections() if section.id == "replicas")
    of_models, of_streams = section.tables
    assert list(of_models.rows) == ["tiny"] and list(of_streams.rows) == ["chat"]
    assert of_models.rows["tiny"]["Batch size"].unit == "sequences"


# --- latency


def test_latencies_are_drawn_from_the_mixture_of_the_batch_size(folder):
    model = planned(scenario_of(folder, replicas=1, duration="2000 s")).models[0]
    assert model.itl_s.size == 2000
    assert scipy.stats.kstest(model.itl_s, MIXTURE.cdf).pvalue > 0.01
    many = planned(scenario_of(folder, replicas=16, duration="2000 s")).models[0].itl_s
    assert many.mean() == pytest.approx(MIXTURE.mean_s, rel=0.02)
    assert many.var() == pytest.approx(MIXTURE.variance_s2 / 16, rel=0.2)


# --- controllers


def test_scheduled_sizes_take_hold_at_the_next_decision_and_throughput_follows(
    folder, tmp_path
):
    changes = [
        {"at_s": 39.5, "batch_size": {"tiny": 64}},
        {"at_s": 80, "batch_size": {"tiny": 8}},
    ]
    controller = {"kind": "schedule", "changes": changes}
    run = run_of(scenario_of(folder, controller=controller), tmp_path)
    sizes = run.facility()["batch_size.tiny"].to_numpy()
    assert (sizes[:40] == 8).all()
    assert (sizes[40:80] == 64).all()
    assert (sizes[80:] == 8).all()
    tokens = run.facility()["tokens_per_s.tiny"].to_numpy()
    assert tokens[[0, 50]] == pytest.approx(6 * THROUGHPUT.eval([8, 64]), rel=1e-5)
    assert run.metrics["replicas"]["models"]["tiny"]["batch_changes_per_hour"] == 2 * 36


class Toggle:
    """A controller of a user's own: another size at every decision."""

    def __init__(self, setting, first):
        self._sizes = [first, *setting.models["tiny"].feasible]

    def decide(self, view):
        return {"tiny": self._sizes[round(view.time_s) % len(self._sizes)]}


def test_an_own_controller_is_named_by_import_path(folder):
    own = {"path": f"{__name__}:Toggle", "first": 64}
    sizes = planned(scenario_of(folder, controller=own)).models[0].batch_size
    assert sizes[:7].tolist() == [8, 8, 64, 64, 8, 64, 64]
    with pytest.raises(
        InputError, match="controller: it chose 5 for 'tiny', which is not feasible"
    ):
        planned(scenario_of(folder, controller=own | {"first": 5}))


def test_feedback_keeps_a_cap_between_two_sizes_on_average(folder, tmp_path):
    cap_mw = 6 * (1000 + 10 * 36) / 1e6  # between 8 and 64 sequences
    signal = {"kind": "cap", "steps": [{"since_s": 0, "mw": cap_mw}]}
    keys = {"controller": "feedback", "signal": signal, "duration": "1000 s"}
    run = run_of(scenario_of(folder, model={"itl_deadline_s": 10}, **keys), tmp_path)
    power_w = run.facility()["it_power_w"].iloc[300:]
    assert power_w.mean() == pytest.approx(cap_mw * 1e6, rel=0.05)
    assert set(run.facility()["batch_size.tiny"]) == {8, 64}
    assert run.facility()["cap_w.chat"].iloc[0] == pytest.approx(cap_mw * 1e6)
    violation = run.metrics["replicas"]["streams"]["chat"]
    over_h = (run.facility()["it_power_w"] > cap_mw * 1e6).sum() / 3600
    assert violation["violation_h"] == pytest.approx(over_h)


# --- what can't be


def change(model, size):
    return {"at_s": 1, "batch_size": {model: size}}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"replicas": 17}, "take up to 5 nodes of 8 GPUs, pool 'p' has 4; give fewer"),
        ({"model": {"batch_size": 9}}, "tiny: batch_size: '9' is not among the"),
        ({"model": {"feasible_batch_sizes": [8, 9]}}, "the data .have: '8', '64'"),
        ({"model": {"data": "none"}}, "no folder 'none' next to the scenario and no"),
        (
            {"controller": {"kind": "schedule", "changes": [change("b", 8)]}},
            "controller: it chose for 'b' .have: 'tiny'",
        ),
        (
            {"controller": {"kind": "schedule", "changes": [change("tiny", 9)]}},
            "controller: it chose 9 for 'tiny', which is not feasible",
        ),
        ({"duration": "100 d", "resolution": "1 h"}, "20,000,000 steps of 0.1 s;"),
    ],
)
def test_streams_that_can_not_be_run_are_one_line(folder, keys, words):
    with pytest.raises(InputError, match=words) as error:
        planned(scenario_of(folder, **keys))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"control_interval_s": 0.25}, "be a multiple of step_s, 0.1 s, found 0.25"),
        ({"step_s": 0.3, "control_interval_s": 3}, "not divide the duration of 100 s"),
        ({"pool": "q"}, "must be a pool .*, found 'q'"),
        (
            {"controller": "feedbak"},
            "must be a kind of batch size controller .*found 'feedbak'; did you mean",
        ),
        ({"controller": {"path": "no.such:Thing"}}, "can't import 'no.such:Thing'"),
        ({"node": {"n_gpus": 0}}, "needs nodes with GPUs, 'p' has none"),
        (
            {"model": {"ramps": [{"begin_s": 5, "end_s": 1, "replicas": 1}]}},
            "end_s is 1, expected begin_s, 5, or more",
        ),
        (
            {"signal": {"kind": "cap", "steps": [{"since_s": 5}, {"since_s": 5}]}},
            "steps must follow each other in time",
        ),
    ],
)
def test_keys_that_do_not_fit_are_refused(folder, keys, words):
    with pytest.raises(ScenarioError, match=words):
        scenario_of(folder, **keys)


def test_compiled_data_are_played_from_their_folder(tmp_path):
    source = ResultsSource(write_results(tmp_path / "raw", sizes=SIZES))
    spec = tiny_spec(batch_sizes=SIZES)
    for kind in (InferenceData, LogisticModelStore):
        kind.generate([spec], source).save(tmp_path)
    plan = planned(scenario_of(tmp_path, model={"data": spec.cache_hash()}))
    (trace_w, *_) = InferenceData.load(tmp_path, [spec])["Tiny"].power_w.values()
    assert trace_w.size == 200  # 20 s, whole periods of the run
    assert plan.power_w.mean() == pytest.approx(6 * trace_w.mean(), rel=1e-9)


# --- what ships

PUBLISHED_ITL_MS = {
    8: (16.57, 16.91, 17.02, 21.12),
    128: (27.87, 34.00, 54.68, 121.33),
    1024: (105.61, 151.67, 219.92, 592.87),
}
"""50th, 90th, 95th and 99th percentile: ML.ENERGY leaderboard, Llama-3.1-70B on 4 x
H100."""


def test_the_shipped_data_have_the_published_latencies_and_power(tmp_path):
    ((place, spec),) = specs_of(find_data("llama31_70b_4xh100", tmp_path)).items()
    data = InferenceData.read(place, spec)
    for size, published_ms in PUBLISHED_ITL_MS.items():
        mixture: ITLMixtureModel = data.itl[size]
        found_ms = 1e3 * mixture.quantile([0.5, 0.9, 0.95, 0.99])
        assert found_ms == pytest.approx(np.array(published_ms), rel=1e-3)
    for size, published_w in {8: 1765.4, 128: 2183.8, 1024: 2547.5}.items():
        assert data.power_w[size].mean() == pytest.approx(published_w, rel=1e-3)


def test_the_shipped_scenario_comes_back_under_its_cap(tmp_path):
    run = simulate(load_scenario("replicas_under_a_cap"), tmp_path / "run")
    block = run.metrics["replicas"]
    series = run.facility()
    gpus_w = series["it_power_w"] - 340 * np.ceil(series["n_replicas.llama31_70b"] / 2)
    # A minute and a half on
    assert gpus_w.iloc[1000:2100].mean() == pytest.approx(86e3, rel=0.03)
    assert gpus_w.iloc[860:900].max() > 90e3
    assert block["models"]["llama31_70b"]["itl_s"]["mean"] < 0.08
    assert block["streams"]["chat"]["violation_end"] == 0
    kinds = {p["provenance"]["kind"] for p in run.manifest["profiles"].values()}
    assert "measured" not in kinds
