"""`BenchmarkRuns`: what a source measured of one served model, whatever the source's format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel
from diploee.neighbours.openg2g.logistic import LogisticModel
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.tables import Float64Array

REPLICA_POWER = "GPUs of one model replica; no CPU packages, memory, network, fans or power supply"
"""Power boundary of serving benchmarks."""


@dataclass(frozen=True, eq=False)
class PowerReadings:
    """Power of one device in time."""

    t_s: Float64Array  # stamps [s], strictly increasing
    power_w: Float64Array  # power at the stamps [W]

    @classmethod
    def of_pairs(cls, t_s: Float64Array, power_w: Float64Array) -> tuple[PowerReadings, int]:
        """Sort readings by time and drop those at a stamp that is already there."""
        stamps, first = np.unique(t_s, return_index=True)
        return cls(stamps, power_w[first]), t_s.size - stamps.size


@dataclass(frozen=True, eq=False)
class BenchmarkRun:
    """One measurement of a model replica under a full load of requests."""

    batch_size: int  # sequences served at once at most, ``max_num_seqs``
    mean_power_w: float | None = None  # mean power of the replica's GPUs in the steady state [W]
    median_itl_s: float | None = None  # median inter-token latency [s]
    throughput_tps: float | None = None  # output tokens per second [1/s]
    # Power of every GPU, or one for their sum; empty where the source has none
    power: tuple[PowerReadings, ...] = ()
    # Start and end of the steady state on the readings' clock [s]; None means all readings
    steady_s: tuple[float, float] | None = None
    itl_samples_s: Float64Array | None = None  # inter-token latencies [s]
    itl_fit: ITLMixtureModel | None = None  # where the source gives a fit in their place


@dataclass(frozen=True, eq=False)
class BenchmarkRuns:
    """All measurements of one spec."""

    source: str  # where they come from, for errors and provenance
    licence: str  # licence of the data; ``"unknown"`` where it is not stated
    sha256: str  # hash of the source data
    runs: tuple[BenchmarkRun, ...]  # one or several for every batch size of the spec
    # Fits that the source gives of ``power``, ``itl`` and ``throughput``; usually none
    fits: Mapping[str, LogisticModel] = field(default_factory=dict)
    # Readings and samples dropped or repaired, by cause
    counts: Mapping[str, int] = field(default_factory=dict)

    def by_batch(self) -> dict[int, list[BenchmarkRun]]:
        """Return the runs by batch size, in increasing order."""
        found: dict[int, list[BenchmarkRun]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: run.batch_size):
            found[run.batch_size].append(run)
        return dict(found)


class BenchmarkSource(Protocol):
    """Reads the measurements of specs."""

    def read(self, spec: InferenceModelSpec, *, traces: bool = True) -> BenchmarkRuns:
        """Read all measurements of a spec.

        Parameters
        ----------
        spec : InferenceModelSpec
            Which model, GPU, task and batch sizes.
        traces : bool
            Whether power readings and latency samples are needed; a source may skip their download
            otherwise.
        """
        ...

    def sha256(self, spec: InferenceModelSpec) -> str:
        """Return the hash of the data that `read` would use."""
        ...
