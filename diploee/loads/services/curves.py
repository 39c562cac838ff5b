"""Latency and node power of a model instance as measured curves of its request rate.

See also: docs/models/serving.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy

from diploee.base.errors import Brief
from diploee.base.tables import Float64Array
from diploee.profiles.profile import Provenance
from diploee.scenario.serving import LatencyMetric

# Column of a latency table with the output length of each row [tokens]
OUTPUT_TOKENS_COLUMN = "max_output_tokens"
# Column of a latency table with the completed request rate [1/s]
THROUGHPUT_COLUMN = "request_throughput_rps"
# Column of a latency table for each latency metric [s]
LATENCY_COLUMNS: dict[LatencyMetric, str] = {
    "mean_e2e": "mean_e2e_latency_s",
    "p50_e2e": "p50_e2e_latency_s",
    "p90_e2e": "p90_e2e_latency_s",
    "mean_ttft": "mean_ttft_s",
    "p90_ttft": "p90_ttft_s",
    "mean_itl": "mean_itl_s",
    "p90_itl": "p90_itl_s",
}

END_TO_END: tuple[LatencyMetric, ...] = ("mean_e2e", "p50_e2e", "p90_e2e")
"""Latency metrics that are reported for every service, in addition to the capped
one."""

OUTPUT_LENGTHS = (256, 512, 1024)
"""Output lengths of the shipped latency curves [tokens]."""

FALL = 0.1
"""Largest relative fall of latency between two rates that is attributed to noise."""


@dataclass(frozen=True, eq=False)
class LatencyCurve(Brief):
    """Latencies and completed rate of one instance by offered request rate."""

    metric: LatencyMetric  # latency metric of `measured_latency_s`, capped if any is
    rate_rps: Float64Array  # offered request rates [1/s], strictly increasing
    measured_latency_s: Float64Array  # latency as measured [s]
    throughput_rps: Float64Array  # completed request rates [1/s]
    # Measured end-to-end latencies [s] by metric; only those in the file
    end_to_end_s: Mapping[LatencyMetric, Float64Array] = field(default_factory=dict)

    @cached_property
    def by_metric(self) -> dict[LatencyMetric, LatencyCurve]:
        """Latency curves by metric: end-to-end latency, and the latency with a cap."""
        others = {
            metric: replace(self, metric=metric, measured_latency_s=latency_s)
            for metric, latency_s in self.end_to_end_s.items()
        }
        return others | {self.metric: self}

    @cached_property
    def latency_s(self) -> Float64Array:
        """Latency made non-decreasing by a running maximum [s]."""
        return np.maximum.accumulate(self.measured_latency_s)

    @property
    def falls_far(self) -> bool:
        """Whether latency falls with rising rate by more than noise explains."""
        return bool(
            (self.latency_s - self.measured_latency_s > FALL * self.latency_s).any()
        )

    @property
    def largest_correction_s(self) -> float:
        """Largest increase of latency by the running maximum [s].

        The increase is 0 for a non-decreasing curve.
        """
        return float((self.latency_s - self.measured_latency_s).max())

    @property
    def sustained_throughput_rps(self) -> float:
        """Highest completed rate of one instance over all offered rates [1/s]."""
        return float(self.throughput_rps.max())

    @cached_property
    def _interpolator(self) -> scipy.interpolate.PchipInterpolator:
        return scipy.interpolate.PchipInterpolator(self.rate_rps, self.latency_s)

    def at(self, rate_rps: Float64Array) -> Float64Array:
        """Return the latency at offered request rates [s].

        Interpolation is cubic and shape-preserving (PCHIP), so the result does not fall
        with the rate. Rates outside the measured range get the latency of the nearest
        measured rate.
        """
        clipped_rps = np.clip(rate_rps, self.rate_rps[0], self.rate_rps[-1])
        return self._interpolator(clipped_rps)


@dataclass(frozen=True, eq=False)
class PowerSample:
    """Periodic sample of the power of each node of an instance, at one request rate."""

    rate_rps: float  # request rate of the instance [1/s]
    dt_ms: int  # step [ms]
    power_w: Float64Array  # mean power of one node over each step [W]
    provenance: Provenance  # source of the power data

    @property
    def length_ms(self) -> int:
        """Period of the sample [ms]."""
        return self.power_w.size * self.dt_ms


@dataclass(frozen=True, eq=False)
class PowerCurve(Brief):
    """Power of each node of an instance by the instance's request rate."""

    name: str  # name of the curve, for random streams and profile ids
    rate_rps: Float64Array  # sustained request rates [1/s], strictly increasing
    mean_power_w: Float64Array  # mean power of one node [W]
    peak_power_w: Float64Array  # peak power of one node [W]
    # Source of the curve; None if it is the source of the shipped samples
    provenance: Provenance | None = None
    # Measured samples by rising rate; without any, samples are synthesized
    samples: tuple[PowerSample, ...] = ()


@dataclass(frozen=True)
class CurveSource:
    """File from which a service's curves were read: name, path and hash."""

    name: str  # shipped name or relative path, as in the scenario
    path: Path  # path of the file
    sha256: str  # SHA-256 of its bytes, hexadecimal


@dataclass(frozen=True, eq=False)
class ServiceCurves:
    """Curves of one service, and the files that they were read from."""

    power: PowerCurve
    latency: LatencyCurve | None
    files: tuple[CurveSource, ...]


Curves = dict[tuple[str, str], ServiceCurves]
"""Curves by the names of the request stream and of the service."""


def nearest_length(
    mean_tokens: float, lengths: tuple[int, ...] = OUTPUT_LENGTHS
) -> int:
    """Return the output length nearest to a mean length by ratio [tokens].

    For a mean of 0, the result is the shortest length.
    """
    ratio = np.abs(np.log(np.array(lengths) / max(mean_tokens, 1e-9)))
    return int(lengths[int(np.argmin(ratio))])
