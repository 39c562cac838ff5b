"""The law of serving power against open traces of single nodes, where they are at hand."""  # noqa: E501

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from samples import PUBLISHED

from diploee.base.tables import Float64Array
from diploee.loads.services.batch_power_model import GPUS, served_power, served_profile
from diploee.profiles.meter_response import known_meter
from diploee.scenario.serving import BatchPowerModel

TRACES = PUBLISHED / "serving_power" / "vllm_traces.tar.gz"
pytestmark = pytest.mark.skipif(
    not TRACES.exists(), reason="the traces are not at hand"
)

STEPS = {4: (1, 8, 32, 64), 5: (1, 4, 8, 16, 32), 6: (1, 4, 8, 16, 32, 64)}
"""Sequences in flight of each level; the files name the last alone, the others are
assumed."""

STAIRS: dict[str, tuple[float, str, int]] = {
    "cov_deepseek_r1_llama8b_H200_fp16_11972034": (8.03, "fp16", 1),
    "cov_deepseek_r1_llama8b_H200_fp8_11972034": (8.03, "fp8", 1),
    "cov_deepseek_r1_qwen7b_H200_fp16_11972034": (7.62, "fp16", 1),
    "cov_llama_8b_H200_fp16_11972032": (8.03, "fp16", 1),
    "cov_llama_8b_H200_fp8_11972032": (8.03, "fp8", 1),
    "cov_qwen_0.5b_H200_fp16_11972033": (0.494, "fp16", 1),
    "cov_qwen_0.5b_H200_fp8_11972033": (0.494, "fp8", 1),
    "cov_qwen_72b_H200x1_fp8_11972043": (72.7, "fp8", 1),
    "cov_qwen_7b_H200_fp16_11972033": (7.62, "fp16", 1),
    "cov_qwen_7b_H200_fp8_11972033": (7.62, "fp8", 1),
    "cov_mixtral_8x7b_H200x2_fp16_11972044": (12.9, "fp16", 2),
    "cov_mixtral_8x7b_H200x2_fp8_11972044": (12.9, "fp8", 2),
}
"""Active parameters [1e9], precision and GPUs of each staircase."""

OTHERS: dict[str, tuple[str, float, int, int, float]] = {
    "exp1_llama8b_prefill_decode_A100_float16_11867853": ("A100", 8.03, 1, 1, 0.05),
    "exp1_llama8b_prefill_decode_L40S_float16_11867854": ("L40S", 8.03, 1, 1, 0.07),
    "exp7_A_llama8b_H100_fp16_11867864_config1": ("H100", 8.03, 1, 8, 0.05),
    "exp7_A_llama8b_H200_fp16_11971979_config2": ("H200", 8.03, 1, 8, 0.05),
    "exp7_B_H100x2_fp16_11867866_config1_70b": ("H100", 70.6, 2, 4, 0.05),
    "exp7_B_H200x2_fp16_11971980_config1_70b": ("H200", 70.6, 2, 4, 0.05),
    "exp7_C_H100x4_fp16_11867868_config1_72b": ("H100", 72.7, 4, 4, 0.05),
    "exp7_C_H100x4_fp16_11867868_config2_7b_quad": ("H100", 7.62, 1, 4, 0.05),
    "exp8_llama8b_A100_fp16_12021901": ("A100", 8.03, 1, 4, 0.07),
    "exp8_qwen7b_L40S_fp16_bssweep_12021903": ("L40S", 7.62, 1, 16, 0.05),
}
"""GPU, parameters [1e9], GPUs of a replica, sequences in flight in it, and the
tolerance."""


SWEPT_B = {
    "llama_1b": 1.24,
    "llama_3b": 3.21,
    "llama_8b": 8.03,
    "llama_70b": 70.6,
    "mistral7b": 7.25,
    "phi_mini": 3.82,
    "qwen7b": 7.62,
    "qwen72b": 72.7,
    "deepseek_r1_7b": 7.62,
    "qwen_coder_7b": 7.62,
}
"""Parameters [1e9] of models in bursts whose number of sequences no file names, taken
as one. Earlier runs, by number, hold bursts of a second."""


class Traces:
    """All traces by name."""

    def __init__(self) -> None:
        with tarfile.open(TRACES) as packed:
            self.names = {
                member.name.removesuffix(".json"): json.load(packed.extractfile(member))  # type: ignore[arg-type]
                for member in packed.getmembers()
            }

    def of(self, name: str) -> tuple[Float64Array, Float64Array]:
        """Return times [s] and the power of each GPU that works [W]."""
        content = self.names[name]
        power_w = np.array(list(content["per_gpu"].values()), dtype=np.float64)
        return np.array(content["ts"], dtype=np.float64), power_w[
            power_w.max(axis=1) > 150
        ]


@pytest.fixture(scope="module")
def trace() -> Traces:
    return Traces()


def levels_w(
    power_w: Float64Array, least_s: float, step_s: float = 1.0
) -> list[Float64Array]:
    """Return the readings of each stretch with work, less some at its ends."""
    warm_w = np.percentile(power_w, 5)
    on = power_w > warm_w + max(20, 0.15 * (np.percentile(power_w, 95) - warm_w))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], on.astype(int), [0]])))
    stretches = edges.reshape(-1, 2)
    skipped = round(5 / step_s)
    return [
        power_w[a + skipped : b - 3]
        for a, b in stretches
        if (b - a) * step_s >= least_s
    ]


BATCHES: dict[str, tuple[str, float, str, int, int, float]] = {
    "llama_70b_tp2_H100_bf16_v2_12108508": ("H100", 70.6, "bf16", 2, 16, 0.05),
    "llama_70b_tp2_H200_fp8_fp8_v2_12108504": ("H200", 70.6, "fp8", 2, 16, 0.05),
    "llama_70b_tp2_H200_bf16_v2_12108506": ("H200", 70.6, "bf16", 2, 16, 0.11),
    "qwen72b_tp2_H200_fp16_v2_12108510": ("H200", 72.7, "fp16", 2, 16, 0.11),
    "exp8_llama8b_H100_fp16_12020596": ("H100", 8.03, "fp16", 1, 4, 0.05),
    "exp8_llama8b_A100_fp16_12021901": ("A100", 8.03, "fp16", 1, 4, 0.07),
}
"""Batches one after the other: GPU, size, precision, GPUs, sequences, tolerance of the
energy."""


def as_read_w(
    gpu: str,
    size: float,
    precision: str,
    n_gpus: int,
    time_s: Float64Array,
    spans_s: list[tuple[float, float]],
    sequences: Sequence[int],
    experts: bool = False,
) -> Float64Array:
    """Return what the meter reads [W per GPU] where a number of requests stays for each
    span."""
    last_s = time_s[-1]
    # None of a length, which make the trace as long
    requests = [(0.0, 0.0), (last_s, last_s)]
    for span_s, n in zip(spans_s, sequences, strict=True):
        requests += [span_s] * n
    begin_s, end_s = np.array(requests).T
    stays_ms = np.rint((end_s - begin_s) * 1000)
    of_trace = np.stack([begin_s * 1e6, np.zeros_like(stays_ms), stays_ms]).astype(
        np.int64
    )
    speeds = {"prefill_tokens_per_s": 1.0, "time_per_token_s": 0.001}
    spec = spec_of(gpu, size, precision, n_gpus, experts, speeds)
    course_w = served_profile(spec, of_trace).power_w.astype(np.float64) / n_gpus
    meter = known_meter("power.draw", gpu, float(np.median(np.diff(time_s))))
    return meter.read(course_w, 0.1)[1]


def spans_of(
    time_s: Float64Array, power_w: Float64Array, part: float, most: float = 95
) -> list[tuple[float, float]]:
    """Return when power is above a part of its range, up to a percentile."""
    low_w, high_w = np.percentile(power_w, (5, most))
    on = np.concatenate(
        [[0], (power_w > low_w + part * (high_w - low_w)).astype(int), [0]]
    )
    edges = np.minimum(np.flatnonzero(np.diff(on)), time_s.size - 1).reshape(-1, 2)
    return [(float(time_s[a]), float(time_s[b])) for a, b in edges]


def law_of(
    gpu: str, size: float, precision: str, n_gpus: int, experts: bool = False
) -> Any:
    return served_power(spec_of(gpu, size, precision, n_gpus, experts))


def spec_of(
    gpu: str,
    size: float,
    precision: str,
    n_gpus: int,
    experts: bool,
    speeds: Any = None,
) -> BatchPowerModel:
    return BatchPowerModel(
        parameters_b=46.7 if experts else size,
        active_parameters_b=size if experts else None,
        precision=precision,  # type: ignore[arg-type]
        gpu=gpu,  # type: ignore[arg-type]
        gpus_per_replica=n_gpus,
        other_node_power_w=0,
        **(speeds or {}),
    )


@pytest.mark.parametrize("name", STAIRS)
def test_levels_are_the_laws(trace: Traces, name: str) -> None:
    size, precision, n_gpus = STAIRS[name]
    power_w = trace.of(name)[1].mean(axis=0)
    measured_w = np.array([np.median(level) for level in levels_w(power_w, 30)])
    sequences = np.array(STEPS[measured_w.size], dtype=np.float64)
    experts = "mixtral" in name
    law = law_of("H200", size, precision, n_gpus, experts)
    error = law.power_w(sequences) / measured_w - 1
    # fp8 leaves the embeddings at two bytes: much of 0.5e9 parameters, and the law's
    # one miss.
    allowed = (
        0.12 if experts else 0.09 if name.startswith("cov_qwen_0.5b_H200_fp8") else 0.07
    )
    assert np.abs(error).max() < allowed
    assert abs(error.mean()) < 0.06
    rise = np.log2(sequences) if experts else sequences - 1
    warm_w = float(np.median(power_w[:12]))
    each_w, first_w = np.polyfit(rise, measured_w - warm_w, 1)
    own = (warm_w + first_w + each_w * rise) / measured_w - 1
    assert np.abs(own).max() < (0.06 if experts else 0.04)


@pytest.mark.parametrize("name", OTHERS)
def test_levels_of_other_gpus_and_of_several_are_the_laws(
    trace: Traces, name: str
) -> None:
    gpu, size, n_gpus, sequences, allowed = OTHERS[name]
    time_s, power_w = trace.of(name)
    step_s = float(np.median(np.diff(time_s)))
    level = np.concatenate(levels_w(power_w.mean(axis=0), 15, step_s))
    found_w = law_of(gpu, size, "fp16", n_gpus).power_w(np.array(float(sequences)))
    assert float(found_w) == pytest.approx(float(np.median(level)), rel=allowed)


def test_bursts_of_sweeps_that_no_fit_has_seen_are_the_laws_of_one_sequence(
    trace: Traces,
) -> None:
    found: dict[str, float] = {}
    for name in trace.names:
        of = re.fullmatch(
            r"(.+)_tp(\d)_([A-Z]+\d+S?)_(fp16|bf16|fp8)(_fp8|_ctx)?_111\d+", name
        )
        if of is None or of[1] not in SWEPT_B:
            continue
        time_s, power_w = trace.of(name)
        mean_w = power_w.mean(axis=0) if len(power_w) else np.zeros(time_s.size)
        levels = [
            np.median(mean_w[(time_s > begin_s + 1.1) & (time_s < end_s - 1.1)])
            for begin_s, end_s in spans_of(time_s, mean_w, 0.5, 99.5)
            if end_s - begin_s >= 3
        ]
        if levels:
            law = law_of(of[3], SWEPT_B[of[1]], of[4], int(of[2]))
            found[name] = (
                float(law.power_w(np.array(1.0))) / float(np.median(levels)) - 1
            )
    errors = np.array(list(found.values()))
    assert errors.size > 30
    assert abs(np.median(errors)) < 0.04
    assert np.mean(np.abs(errors) < 0.12) > 0.9
    assert np.abs(errors).max() < 0.2  # 70e9 parameters on four L40S


def test_warm_levels_are_those_of_traces_before_their_first_request(
    trace: Traces,
) -> None:
    warm_w: dict[str, list[float]] = {gpu: [] for gpu in GPUS}
    for name in trace.names:
        gpu = next(gpu for gpu in GPUS if gpu in name)
        warm_w[gpu] += np.median(trace.of(name)[1][:, :10], axis=1).tolist()
    assert sum(map(len, warm_w.values())) > 150
    for gpu, of_gpus_w in warm_w.items():
        assert np.median(of_gpus_w) == pytest.approx(GPUS[gpu][0], abs=5)


def test_four_instances_swing_twice_as_much_as_one(trace: Traces) -> None:
    power_w = trace.of("exp7_C_H100x4_fp16_11867868_config2_7b_quad")[1]
    working = power_w[:, 25:200]
    one_w = np.sqrt(np.mean(np.var(working, axis=1)))
    assert working.sum(axis=0).std() == pytest.approx(2 * one_w, rel=0.2)


@pytest.mark.parametrize("name", STAIRS)
def test_requests_of_a_staircase_give_its_energy_and_its_distribution(
    trace: Traces, name: str
) -> None:
    time_s, power_w = trace.of(name)
    mean_w = power_w.mean(axis=0)
    spans_s = [
        span for span in spans_of(time_s, mean_w, 0.15) if span[1] - span[0] >= 30
    ]
    read_w = as_read_w(
        "H200", *STAIRS[name], time_s, spans_s, STEPS[len(spans_s)], "mixtral" in name
    )
    assert read_w.mean() == pytest.approx(mean_w.mean(), rel=0.065)
    for percent in (10, 50, 90):
        measured_w = np.percentile(mean_w, percent)
        assert np.percentile(read_w, percent) == pytest.approx(measured_w, rel=0.12)
    assert read_w.std() == pytest.approx(mean_w.std(), rel=0.15)


@pytest.mark.parametrize("name", BATCHES)
def test_batches_one_after_the_other_switch_as_they_are_read(
    trace: Traces, name: str
) -> None:
    gpu, size, precision, n_gpus, sequences, allowed = BATCHES[name]
    time_s, power_w = trace.of(name)
    mean_w = power_w.mean(axis=0)
    spans_s = spans_of(time_s, mean_w, 0.5)
    read_w = as_read_w(
        gpu, size, precision, n_gpus, time_s, spans_s, [sequences] * len(spans_s)
    )
    assert read_w.mean() == pytest.approx(mean_w.mean(), rel=allowed)
    assert read_w.std() == pytest.approx(mean_w.std(), rel=0.1)
    second = max(1, round(1 / float(np.median(np.diff(time_s)))))
    found_w, steps_w = (
        np.percentile(np.abs(of[second:] - of[:-second]), 99) for of in (read_w, mean_w)
    )
    assert found_w == pytest.approx(steps_w, rel=0.12)
