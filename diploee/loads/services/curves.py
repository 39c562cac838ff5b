"""Measured curves of a model instance over its request rate.

Latency and node power.

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

OUTPUT_TOKENS_COLUMN = "max_output_tokens"
THROUGHPUT_COLUMN = "request_throughput_rps"
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
"""Latencies that are reported of every service, whatever its cap."""

OUTPUT_LENGTHS = (256, 512, 1024)
"""Output lengths of the shipped latency curves [tokens]."""

FALL = 0.1
"""Relative fall of a latency between two rates that a repeated test may show."""


@dataclass(frozen=True, eq=False)
class LatencyCurve(Brief):
    """Latencies and completed rate of one instance against the rate offered to it."""

    metric: LatencyMetric  # latency that a cap is of
    rate_rps: Float64Array  # offered request rates [1/s], strictly increasing
    measured_latency_s: Float64Array  # latency as measured [s]
    throughput_rps: Float64Array  # completed request rates [1/s]
    # End-to-end latencies as measured [s], those there are
    end_to_end_s: Mapping[LatencyMetric, Float64Array] = field(default_factory=dict)

    @cached_property
    def by_metric(self) -> dict[LatencyMetric, LatencyCurve]:
        """Curves of end-to-end latencies and the capped one, each with a metric."""
        others = {
            metric: replace(self, metric=metric, measured_latency_s=of)
            for metric, of in self.end_to_end_s.items()
        }
        return others | {self.metric: self}

    @cached_property
    def latency_s(self) -> Float64Array:
        """Latency made non-decreasing by a running maximum [s]."""
        return np.maximum.accumulate(self.measured_latency_s)

    @property
    def falls_far(self) -> bool:
        """Whether the latency falls by more than scatter explains while the rate rises."""  # noqa: E501
        return bool(
            (self.latency_s - self.measured_latency_s > FALL * self.latency_s).any()
        )

    @property
    def largest_correction_s(self) -> float:
        """Largest rise that the running maximum made [s].

        0 for a non-decreasing curve.
        """
        return float((self.latency_s - self.measured_latency_s).max())

    @property
    def sustained_throughput_rps(self) -> float:
        """Highest completed rate of one instance [1/s], over all offered rates."""
        return float(self.throughput_rps.max())

    @cached_property
    def _interpolator(self) -> scipy.interpolate.PchipInterpolator:
        return scipy.interpolate.PchipInterpolator(self.rate_rps, self.latency_s)

    def at(self, rate_rps: Float64Array) -> Float64Array:
        """Return the latency [s] at offered rates [1/s].

        Beyond the measured ones, the nearest. Shape-preserving cubic interpolation
        (PCHIP), so that it is non-decreasing.
        """
        inside = np.clip(rate_rps, self.rate_rps[0], self.rate_rps[-1])
        return self._interpolator(inside)


@dataclass(frozen=True, eq=False)
class PowerSample:
    """Power of each node of an instance in time, at one request rate; it repeats."""

    rate_rps: float  # request rate of the instance [1/s]
    dt_ms: int  # step [ms]
    power_w: Float64Array  # mean power of one node over each step [W]
    provenance: Provenance  # where it comes from

    @property
    def length_ms(self) -> int:
        """Time after which it repeats [ms]."""
        return self.power_w.size * self.dt_ms


@dataclass(frozen=True, eq=False)
class PowerCurve(Brief):
    """Power of each node of an instance against the instance's request rate."""

    name: str  # name of the curve, for random streams and profile ids
    rate_rps: Float64Array  # sustained request rates [1/s], strictly increasing
    mean_power_w: Float64Array  # mean power of one node [W]
    peak_power_w: Float64Array  # peak power of one node [W]
    # Where it comes from; None for that of the shipped samples
    provenance: Provenance | None = None
    # Measured samples, by rising rate; they are synthesised where there are none
    samples: tuple[PowerSample, ...] = ()


@dataclass(frozen=True)
class ServingFile:
    """A file of a service that was read."""

    name: str  # shipped name or relative path, as the scenario gives it
    path: Path  # where it was read from
    sha256: str  # SHA-256 of its bytes, hexadecimal


@dataclass(frozen=True, eq=False)
class ServiceCurves:
    """The curves of one service and the files that they come from."""

    power: PowerCurve
    latency: LatencyCurve | None
    files: tuple[ServingFile, ...]


Curves = dict[tuple[str, str], ServiceCurves]
"""Curves by the names of the request stream and the service."""


def nearest_length(
    mean_tokens: float, lengths: tuple[int, ...] = OUTPUT_LENGTHS
) -> int:
    """Return the length nearest to a mean by ratio [tokens].

    The shortest where the mean is 0.
    """
    ratio = np.abs(np.log(np.array(lengths) / max(mean_tokens, 1e-9)))
    return int(lengths[int(np.argmin(ratio))])
