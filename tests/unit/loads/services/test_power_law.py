"""Power of served models by size, precision, GPU and sequences in flight: closed forms."""  # noqa: E501

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_builders import load_curves, one_service, plan_of, serving_scenario

from diploee.base.errors import InputError, ScenarioError
from diploee.base.tables import Int64Array
from diploee.importers import read_request_trace
from diploee.importers.serving.service_curves import load_power_curve
from diploee.loads.services.batch_power_model import (
    sequences_in_flight,
    served_power,
    served_profile,
)
from diploee.loads.services.curves import PowerCurve
from diploee.loads.services.instance_groups import instance_sums_w
from diploee.loads.services.samples import repeating_samples
from diploee.profiles import ProfileLibrary
from diploee.scenario.serving import BatchPowerModel

EIGHT_B: dict[str, Any] = {
    "parameters_b": 8.03,
    "precision": "bf16",
    "gpu": "H100",
    "replicas_per_instance": 4,
    "other_node_power_w": 200,
}
SPEEDS = {
    "input_tokens": 1000,
    "prefill_tokens_per_s": 10_000,
    "time_per_token_s": 0.01,
}
STAY_S = 1000 / 10_000 + 512 * 0.01


def law_of(**keys: Any) -> BatchPowerModel:
    return BatchPowerModel(**{**EIGHT_B, **keys})


def served_by(law: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return one_service(
        power_curve=None, latency_curve=None, batch_power_model=law, **keys
    )


def curve_of(law: dict[str, Any], **keys: Any) -> PowerCurve:
    curves = load_curves(serving_scenario(served_by(law, **keys)))
    return curves["chat", "coding"].power


def test_first_sequence_adds_d_each_further_one_s_up_to_the_cap() -> None:
    law = served_power(law_of(gpu="H200"))
    weights_gb = 2 * 8.03
    d_w = 414 * weights_gb / (weights_gb + 2.7)
    power_w = law.power_w(np.array([0.0, 0.5, 1.0, 2.0, 1000.0]))
    assert power_w[:3] == pytest.approx([116, 116 + d_w / 2, 116 + d_w])
    assert power_w[3] == pytest.approx(116 + d_w + 2.5, abs=0.05)
    assert power_w[4] == 0.985 * 700


def test_weights_are_shared_by_the_gpus_of_a_replica_and_halved_by_fp8() -> None:
    halved = served_power(law_of(precision="fp8"))
    assert served_power(law_of(gpus_per_replica=2)) == halved
    assert halved.first_w < served_power(law_of()).first_w


def test_experts_add_power_by_the_doubling() -> None:
    law = served_power(law_of(parameters_b=46.7, active_parameters_b=12.9, gpu="H200"))
    assert np.diff(law.power_w(2.0 ** np.arange(4))) == pytest.approx([38.5] * 3)


@settings(max_examples=30)
@given(st.floats(0.01, 30))
def test_mean_of_random_arrivals_is_the_closed_form_below_the_cap(mean: float) -> None:
    law = served_power(law_of(gpu="H200"))
    busy = 1 - math.exp(-mean)
    expected_w = law.warm_w + (law.first_w - law.each_w) * busy + law.each_w * mean
    assert float(law.mean_power_w(np.array(mean))) == pytest.approx(
        expected_w, rel=1e-6
    )


@given(
    st.lists(st.tuples(st.floats(0, 90), st.floats(0, 30)), max_size=30),
    st.sampled_from([0.1, 1.0, 7.0, 60.0]),
)
def test_sequences_in_flight_are_the_time_that_requests_stay(
    requests: list[tuple[float, float]], step_s: float
) -> None:
    arrive_s, stays_s = np.array(requests).reshape(-1, 2).T
    n_steps = math.ceil(121 / step_s)
    in_flight = sequences_in_flight(arrive_s, stays_s, n_steps, step_s)
    begin_s = np.arange(n_steps)[:, np.newaxis] * step_s
    inside_s = np.clip(arrive_s + stays_s - begin_s, 0, step_s)
    inside_s -= np.clip(arrive_s - begin_s, 0, step_s)
    assert in_flight * step_s == pytest.approx(inside_s.sum(axis=1), abs=1e-9)


def test_curve_has_the_mean_of_the_law_by_littles_rate() -> None:
    curve = curve_of({**EIGHT_B, **SPEEDS})
    law = served_power(law_of())
    in_flight = curve.rate_rps * STAY_S / 4
    expected_w = 200 + 4 * law.mean_power_w(in_flight)
    assert curve.rate_rps[[0, -1]].tolist() == [0, 100]
    assert curve.mean_power_w == pytest.approx(expected_w)
    assert curve.mean_power_w[0] == 200 + 4 * 113
    means_w = [float(sample.power_w.mean()) for sample in repeating_samples(curve)]
    assert means_w == pytest.approx(curve.mean_power_w, rel=1e-12)


def test_samples_switch_between_warm_and_busy_at_low_rates() -> None:
    law = served_power(law_of())
    curve = curve_of({**EIGHT_B, **SPEEDS, "replicas_per_instance": 1})
    in_flight = curve.rate_rps * STAY_S
    rare_w = curve.samples[int(np.argmin(np.abs(in_flight - 0.3)))].power_w - 200
    assert (np.abs(rare_w - law.warm_w) < 1).mean() == pytest.approx(
        math.exp(-0.3), abs=0.2
    )
    assert np.median(rare_w[rare_w > law.warm_w + 100]) == pytest.approx(
        law.warm_w + law.first_w, abs=6
    )


def test_noise_of_instances_grows_with_the_root_of_their_number() -> None:
    curve = curve_of({**EIGHT_B, **SPEEDS, "replicas_per_instance": 1})
    sample_w = curve.samples[int(np.searchsorted(curve.rate_rps * STAY_S, 30))].power_w
    seconds_w = sample_w.reshape(-1, 10).mean(axis=1)
    rng = np.random.default_rng(0)
    sums_w = np.stack(
        [
            instance_sums_w(sample_w, rng.integers(0, sample_w.size, 4), [4])[0]
            for _ in range(200)
        ]
    )
    sums_w = sums_w.reshape(200, -1, 10).mean(axis=2)
    assert np.sqrt(np.mean(np.var(sums_w, axis=1))) == pytest.approx(
        2 * seconds_w.std(), rel=0.2
    )


@pytest.mark.parametrize("requests", ["coding", "conversation"])
def test_the_papers_node_draws_what_the_law_says_by_its_latencies(
    requests: str,
) -> None:
    """Llama-3 70B on four H100 is none of the law's models. 200 W are its CPUs',
    assumed."""
    law = {
        **EIGHT_B,
        "parameters_b": 70.6,
        "gpus_per_replica": 4,
        "replicas_per_instance": 1,
    }
    latency = f"llama3_70b_{requests}_latency"
    changes = one_service(
        power_curve=None, latency_curve=latency, batch_power_model=law
    )
    found = load_curves(serving_scenario(changes))["chat", "coding"].power
    measured, _ = load_power_curve(f"llama3_70b_{requests}_power", Path())
    at_rates_w = np.interp(measured.rate_rps, found.rate_rps, found.mean_power_w)
    assert np.abs(at_rates_w / measured.mean_power_w - 1).max() < 0.09


def test_run_says_that_it_is_experimental() -> None:
    plan = plan_of(serving_scenario(served_by({**EIGHT_B, **SPEEDS})))
    assert any(
        "batch_power_model is experimental: energy within 12 %" in text
        for text in plan.warnings
    )


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (
            EIGHT_B,
            "'batch_power_model' needs 'latency_curve'",
        ),
        (
            {**EIGHT_B, "time_per_token_s": 9},
            "'time_per_token_s' needs 'prefill_tok",
        ),
        (
            {**EIGHT_B, **SPEEDS, "active_parameters_b": 9},
            "active_parameters_b 9 is above param",
        ),
    ],
)
def test_what_the_law_lacks_is_asked_for_by_name(
    law: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        serving_scenario(served_by(law))


def requests_at(*arrivals_s: float) -> Int64Array:
    """Return requests of 1,000 tokens and 512 back."""
    times_us = np.array(arrivals_s) * 1e6
    return np.stack(
        [times_us, np.full(times_us.size, 1000), np.full(times_us.size, 512)]
    ).astype(np.int64)


def test_requests_far_apart_each_draw_one_sequence_for_their_stay() -> None:
    law = served_power(law_of())
    profile = served_profile(
        law_of(**SPEEDS, replicas_per_instance=2),
        requests_at(100, 0, 200, 300),
        n_nodes=1,
    )
    rest_j = (200 + 2 * law.warm_w) * profile.duration_ms / 1000
    assert profile.duration_ms == pytest.approx((300 + STAY_S) * 1000, abs=200)
    assert profile.energy_j - rest_j == pytest.approx(
        4 * STAY_S * law.first_w, rel=0.01
    )
    assert profile.power_w[:30].mean() == pytest.approx(
        200 + 2 * law.warm_w + law.first_w, rel=0.01
    )


def test_requests_at_once_share_the_replicas() -> None:
    law = served_power(law_of())
    for n_replicas, each in ((1, 8), (4, 2)):
        spec = law_of(**SPEEDS, replicas_per_instance=n_replicas)
        profile = served_profile(spec, requests_at(*[0.0] * 8))
        expected_w = 200 + n_replicas * float(law.power_w(np.array(each)))
        assert profile.power_w[:50].mean() == pytest.approx(expected_w, rel=0.01)


def test_trace_of_requests_becomes_a_profile(tmp_path: Path) -> None:
    rows = [f"2023-11-16 18:17:{s:02d}.0000000,1000,512" for s in (0, 30)]
    trace = tmp_path / "azure.csv"
    trace.write_text(
        "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n", "utf-8"
    )
    keys = {**EIGHT_B, **SPEEDS, "replicas_per_instance": 1}
    settings_ = [f"--set={key}={value}" for key, value in keys.items()]
    ended = call(
        "serving-trace", str(trace), *settings_, "--out", str(tmp_path / "lib")
    )
    assert ended.code == 0
    assert "experimental: energy within 12 %" in ended.out
    assert "Rows: 2 rows, 2 kept" in ended.out
    (profile,) = ProfileLibrary.open(tmp_path / "lib").entries
    kept = read_request_trace(trace, requests=True).requests
    assert kept is not None
    assert (np.diff(kept) == [[30_000_000], [0], [0]]).all()
    expected = served_profile(BatchPowerModel(**keys), kept)
    assert np.array_equal(
        ProfileLibrary.open(tmp_path / "lib")[0].power_w, expected.power_w
    )
    assert profile.provenance.kind == "reference"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--set=parameters=8", "--set parameters=8: expected KEY=VALUE with a key of"),
        ("--set=gpu=H100", "--set parameters_b: this key is missing; add it"),
    ],
)
def test_wrong_settings_of_a_serving_trace_are_one_line(
    tmp_path: Path, setting: str, message: str
) -> None:
    (tmp_path / "t.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n", "utf-8"
    )
    ended = call(
        "serving-trace",
        str(tmp_path / "t.csv"),
        setting,
        "--out",
        str(tmp_path / "lib"),
    )
    assert ended.code != 0
    assert message in ended.problems[0]


def test_profile_of_requests_needs_speeds_and_lengths() -> None:
    with pytest.raises(InputError, match="the law needs prefill_tokens_per_s"):
        served_profile(law_of(), requests_at(0.0))
    with pytest.raises(InputError, match="no request with tokens of prompt and answer"):
        served_profile(law_of(**SPEEDS), None)
