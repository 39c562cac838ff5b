"""Traces of the steady state: energy, devices, durations, the profile made from them."""  # noqa: E501

from __future__ import annotations

import numpy as np
import pytest
from benchmark_builders import MIXTURE, POWER, tiny_spec, write_results
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.base.errors import InputError
from diploee.integrations.openg2g import InferenceData
from diploee.integrations.openg2g.benchmark_runs import (
    BenchmarkRun,
    PowerReadings,
    median_trace_w,
    run_power_w,
)
from diploee.integrations.openg2g.sources import ResultsSource

EPOCH_S = 1.7e9


def run(*devices, steady_s=None):
    readings = tuple(
        PowerReadings(np.array(t, float), np.array(w, float)) for t, w in devices
    )
    return BenchmarkRun(8, power=readings, steady_s=steady_s)


def flat(duration_s, power_w, start_s=0.0):
    return run(([start_s, start_s + duration_s], [power_w, power_w]))


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.1, 0.25, 1.0]))
def test_trace_keeps_the_energy_of_all_devices(seed, dt_s):
    rng = np.random.default_rng(seed)
    devices = []
    for _ in range(rng.integers(1, 5)):
        t_us = np.cumsum(rng.integers(1_000, 200_000, 300))
        devices.append((EPOCH_S + t_us / 1e6, rng.uniform(0, 700, 300)))
    start_s, end_s = EPOCH_S + 3.0, EPOCH_S + 15.0
    trace_w = run_power_w(run(*devices, steady_s=(start_s, end_s)), dt_s)
    assert trace_w.size == round(12 / dt_s)
    expected_j = 0.0
    for t_s, power_w in devices:
        inner = t_s[(t_s > start_s) & (t_s < end_s)]
        t_cut = np.concatenate([[start_s], inner, [end_s]])
        expected_j += np.trapezoid(np.interp(t_cut, t_s, power_w), t_cut - EPOCH_S)
    assert trace_w.sum() * dt_s == pytest.approx(expected_j, rel=1e-5)


def test_time_that_not_all_devices_share_is_left_out():
    two = run(([0.0, 10.0], [100, 100]), ([2.0, 9.05], [50, 50]))
    assert np.allclose(run_power_w(two, 0.1), 150)
    assert run_power_w(two, 0.1).size == 70


def test_several_runs_give_their_median_over_the_median_duration():
    runs = [flat(3.0, 100), flat(5.0, 200, EPOCH_S), flat(9.0, 600)]
    trace_w = median_trace_w(runs, 1.0)
    # All three last 3 s, then the two longer ones up to the median duration.
    assert np.allclose(trace_w, [200, 200, 200, 400, 400])
    assert np.allclose(median_trace_w(runs[:1], 1.0), 100)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (run(), "no power in time"),
        (run(([1.0], [5.0])), "fewer than two power readings"),
        (run(([0, 10], [5, 5]), steady_s=(20.0, 30.0)), "hold 0 s of the steady state"),
        (flat(0.05, 100), "of the steady state, expected at least one step of 0.1 s"),
    ],
)
def test_run_without_a_step_of_power_is_refused(bad, text):
    with pytest.raises(InputError, match=text):
        run_power_w(bad, 0.1)


def test_warm_up_is_cut_and_gpus_are_summed(tmp_path):
    source = ResultsSource(write_results(tmp_path, sizes=(8, 64)))
    model = InferenceData.generate([tiny_spec(batch_sizes=(8, 64))], source)["Tiny"]
    for size in (8, 64):
        trace_w = model.power_w[size]
        assert trace_w.size == 200
        # About 200 readings of each GPU's 20 W noise; the warm-up drew 100 W a GPU.
        assert trace_w.mean() == pytest.approx(
            float(POWER.eval(size)), abs=4 * 20 * 2 / 200**0.5
        )
        assert trace_w.min() > 250
        assert model.itl[size].mean_s == pytest.approx(MIXTURE.mean_s, rel=0.1)


def test_several_seeds_are_combined_and_counted(tmp_path):
    source = ResultsSource(write_results(tmp_path, sizes=(8,), seeds=3))
    model = InferenceData.generate([tiny_spec(batch_sizes=(8,))], source)["Tiny"]
    assert model.power_w[8].size == 240  # runs of 20, 24 and 28 s
    assert model.details["runs"] == {"8": 3}
    assert model.itl[8].n_samples == 3_000
    assert "median over 3 runs" in model.profile(8).provenance.notes


def test_profile_of_a_batch_size_says_what_it_is(tmp_path):
    source = ResultsSource(write_results(tmp_path, sizes=(8,)), licence="CC0-1.0")
    spec = tiny_spec(batch_sizes=(8,), model_label="Tiny 8B/x")
    model = InferenceData.generate([spec], source)["Tiny 8B/x"]
    profile = model.profile(8)
    assert (profile.profile_id, profile.dt_ms, profile.n_nodes) == (
        "serving-Tiny_8B_x-batch8",
        100,
        1,
    )
    assert profile.energy_j == pytest.approx(0.1 * model.power_w[8].sum(), rel=1e-6)
    provenance = profile.provenance
    assert (provenance.kind, provenance.licence) == ("measured", "CC0-1.0")
    assert provenance.source_sha256 == source.read(spec).sha256
    assert provenance.sampling_interval_s == pytest.approx(0.1, abs=0.01)
    assert provenance.power_boundary.startswith("GPUs of one model replica; no CPU")
    with pytest.raises(InputError, match=r"no trace of batch size 9 \(have: '8'\)"):
        model.profile(9)


def test_too_few_latencies_name_model_and_batch_size(tmp_path):
    source = ResultsSource(write_results(tmp_path, sizes=(8,)))
    read = source.read

    def few(spec, traces=True):
        runs = read(spec)
        object.__setattr__(runs.runs[0], "itl_samples_s", np.full(30, 0.02))
        return runs

    source.read = few
    with pytest.raises(
        InputError, match="'Tiny': batch size 8: all 30 latency samples"
    ):
        InferenceData.generate([tiny_spec(batch_sizes=(8,))], source)


@pytest.mark.parametrize("dt_s", [0, -1, 0.0005, 0.1001])
def test_step_must_be_whole_milliseconds(dt_s):
    with pytest.raises(ValueError, match=r"whole number of milliseconds"):
        InferenceData.generate([tiny_spec()], dt_s=dt_s)
