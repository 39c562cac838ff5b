"""`BenchmarkRuns`: measurements of one served model, in any source format.

A source returns the measurements that a spec selects, or fails and lists the available
ones. The steady-state power of a replica is the sum of its devices' readings,
resampled with exact energy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from diploee.base.errors import InputError, did_you_mean, one_of
from diploee.base.tables import Float64Array, Int64Array
from diploee.integrations.openg2g.inference_model_spec import InferenceModelSpec
from diploee.profiles.resample import US_PER_S, EnergyCurve

REPLICA_POWER = (
    "GPUs of one model replica; no CPU packages, memory, network, fans or power supply"
)
"""Power boundary of serving benchmarks, as text of a profile's provenance."""


@dataclass(frozen=True, eq=False)
class PowerReadings:
    """Power readings of one device over time."""

    t_s: Float64Array  # times [s], strictly increasing
    power_w: Float64Array  # power at the times [W]

    @classmethod
    def from_pairs(
        cls, t_s: Float64Array, power_w: Float64Array
    ) -> tuple[PowerReadings, int]:
        """Return readings sorted by time, and the number of dropped repeated times."""
        stamps, first = np.unique(t_s, return_index=True)
        return cls(stamps, power_w[first]), t_s.size - stamps.size


@dataclass(frozen=True, eq=False)
class BenchmarkRun:
    """One measurement of a model replica at full load, at a batch size."""

    batch_size: int  # maximum sequences served at once, ``max_num_seqs``
    # Mean power of the replica's GPUs in the steady state [W]
    mean_power_w: float | None = None
    median_itl_s: float | None = None  # median inter-token latency [s]
    throughput_tps: float | None = None  # output tokens per second [1/s]
    # Power of every GPU, or of all GPUs together; empty if the source has none
    power: tuple[PowerReadings, ...] = ()
    # Start and end of the steady state on the readings' clock [s]; None means all
    # readings
    steady_s: tuple[float, float] | None = None
    # Inter-token latencies [s]; empty if the source has none
    itl_samples_s: Float64Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False)
class BenchmarkRuns:
    """All measurements of one model spec, with source and licence."""

    source: str  # origin of the data, for errors and provenance
    licence: str  # licence of the data; ``"unknown"`` if not stated
    sha256: str  # hash of the source data
    runs: tuple[BenchmarkRun, ...]  # one or several for every batch size of the spec
    # Readings and samples dropped or repaired, by cause
    counts: Mapping[str, int] = field(default_factory=dict)

    def by_batch(self) -> dict[int, list[BenchmarkRun]]:
        """Return the runs by batch size, with batch sizes in increasing order."""
        result: dict[int, list[BenchmarkRun]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: run.batch_size):
            result[run.batch_size].append(run)
        return dict(result)


MATCHED = {
    "model_id": "model",
    "task": "task",
    "gpu_model": "GPU",
    "gpus_per_replica": "number of GPUs",
    "tensor_parallel": "tensor parallelism",
    "expert_parallel": "expert parallelism",
    "precision": "precision",
}
"""Spec fields that select measurements, with descriptions, in the order of checks."""


@dataclass(frozen=True)
class Measurement:
    """One available measurement of a source, before it is read."""

    # Values by the names of `MATCHED`; None or absent if not available
    known: Mapping[str, Any]
    batch_size: int  # maximum sequences served at once
    data: Any  # the source's own record or file


def select_measurements(
    measured: Iterable[Measurement], spec: InferenceModelSpec, source: str
) -> list[Measurement]:
    """Select a spec's measurements from a source, by increasing batch size.

    Fail with the available values if a field of the spec matches nothing, or if the
    source has several values of a field that the spec leaves out.
    """
    result = list(measured)
    if not result:
        raise InputError(f"{source}: has no measurements of language models")
    for name, what in MATCHED.items():
        required = getattr(spec, name)
        values = {value for one in result if (value := one.known.get(name)) is not None}
        # Files may mix types
        have = sorted(map(str, values))
        matches = [one for one in result if one.known.get(name) in (None, required)]
        if required is None and len(have) > 1:
            raise InputError(
                f"{source}: '{spec.model_label}' was measured with {what} "
                f"{one_of(have)}; set {name} to one of them"
            )
        if required is not None and not matches:
            raise InputError(
                f"{source}: no {what} '{required}' of '{spec.model_label}' (have: "
                f"{one_of(have)}); set {name}{did_you_mean(str(required), have)}"
            )
        result = result if required is None else matches
    sizes = sorted({one.batch_size for one in result})
    missing = sorted(set(spec.batch_sizes) - set(sizes))
    if missing:
        raise InputError(
            f"{source}: no batch size {one_of(missing)} of '{spec.model_label}' "
            f"(have: {one_of(sizes)}); remove it from batch_sizes"
        )
    matches = [one for one in result if one.batch_size in (spec.batch_sizes or sizes)]
    return sorted(matches, key=lambda one: one.batch_size)


class BenchmarkSource(ABC):
    """Base class of sources of benchmark measurements for model specs.

    Unreadable data raise `LogFormatError`; a model, task, GPU or batch size that is not
    in the source raises `InputError`.
    """

    licence: str = "unknown"

    def read(self, spec: InferenceModelSpec, *, traces: bool = True) -> BenchmarkRuns:
        """Read the measurements of a spec.

        With `traces` False, power readings and latency samples may be left out, which
        saves their download.
        """
        counts, digest, runs = Counter[str](), sha256(), []
        for one in self.selected(spec):
            content, run = self._read_run(one, spec, traces, counts)
            digest.update(content)
            runs.append(run)
        title, result = self._source_title(spec), tuple(runs)
        return BenchmarkRuns(
            title, self.licence, digest.hexdigest(), result, dict(counts)
        )

    @abstractmethod
    def _source_title(self, spec: InferenceModelSpec) -> str:
        """Return the title of the source, for errors and provenance."""

    @abstractmethod
    def selected(self, spec: InferenceModelSpec) -> list[Measurement]:
        """Return the available measurements of a spec, without reading them."""

    @abstractmethod
    def _read_run(
        self,
        one: Measurement,
        spec: InferenceModelSpec,
        traces: bool,
        counts: Counter[str],
    ) -> tuple[bytes, BenchmarkRun]:
        """Read one measurement: its bytes for the hash, and its run.

        Dropped and repaired data are added to the counts.
        """


def run_power_w(run: BenchmarkRun, dt_s: float) -> Float64Array:
    """Return a run's steady-state power, summed over its devices [W], shape (n_steps,).

    Power is linear between readings. The value of a step is its mean power, from the
    difference of cumulative energy at its edges. An incomplete last step is dropped.
    """
    start_s, end_s = _span_s(run)
    dt_us = round(dt_s * US_PER_S)
    n_steps = round((end_s - start_s) * US_PER_S) // dt_us
    if n_steps < 1:
        raise InputError(
            f"the power readings hold {max(end_s - start_s, 0):g} s of the steady "
            f"state, expected at least one step of {dt_s:g} s"
        )
    edges_us = np.arange(n_steps + 1, dtype=np.int64) * dt_us
    energy_j = np.zeros(n_steps + 1)
    for readings in run.power:
        energy_j += _energy_j(readings, start_s, edges_us)
    return np.asarray(np.diff(energy_j) / (dt_us / US_PER_S), dtype=np.float64)


def _span_s(run: BenchmarkRun) -> tuple[float, float]:
    """Return start and end of the steady state covered by all devices [s]."""
    if not run.power:
        raise InputError(
            "the source has no power in time; use one that has, such as results.json"
        )
    if any(readings.t_s.size < 2 for readings in run.power):
        raise InputError(
            "a device has fewer than two power readings; leave this batch size out"
        )
    start_s, end_s = run.steady_s or (-np.inf, np.inf)
    start_s = max(start_s, *(float(readings.t_s[0]) for readings in run.power))
    end_s = min(end_s, *(float(readings.t_s[-1]) for readings in run.power))
    return start_s, end_s


def _energy_j(
    readings: PowerReadings, start_s: float, edges_us: Int64Array
) -> Float64Array:
    t_us = np.rint((readings.t_s - start_s) * US_PER_S).astype(np.int64)
    # Drop readings within one microsecond
    distinct = np.concatenate(([True], np.diff(t_us) > 0))
    curve = EnergyCurve.from_readings(t_us[distinct], readings.power_w[distinct])
    return curve.at(np.clip(edges_us, t_us[0], t_us[-1]))


def sampling_interval_s(runs: Sequence[BenchmarkRun]) -> float:
    """Return the median interval between the power readings of runs [s]."""
    steps_s = [np.diff(readings.t_s) for run in runs for readings in run.power]
    return float(np.median(np.concatenate(steps_s)))


def median_trace_w(runs: Sequence[BenchmarkRun], dt_s: float) -> Float64Array:
    """Return the median power of runs at each step, for their median duration [W].

    At each step the median is taken over the runs that have not ended. With several
    runs the median fluctuates less than each run.
    """
    traces = [run_power_w(run, dt_s) for run in runs]
    n_steps = int(np.median([trace.size for trace in traces]))
    table = np.full((len(traces), n_steps), np.nan)
    for row, trace in zip(table, traces, strict=True):
        row[: trace.size] = trace[:n_steps]
    return np.asarray(np.nanmedian(table, axis=0), dtype=np.float64)
