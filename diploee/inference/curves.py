"""Measured curves of a model instance against its request rate: latency and node power."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.interpolate import PchipInterpolator

from diploee.errors import InputError
from diploee.inference.curve_files import (
    CurveFile,
    curve_columns,
    read_curve_file,
    rows_where,
)
from diploee.profiles import Provenance
from diploee.scenario import LatencyMetric
from diploee.tables import Float64Array

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


@dataclass(frozen=True, eq=False)
class LatencyCurve:
    """Latency and completed rate of one instance against the rate offered to it.

    Parameters
    ----------
    metric : str
        Which latency.
    rate_rps : numpy.ndarray, shape (n,), float64
        Offered request rates [1/s], strictly increasing.
    measured_latency_s : numpy.ndarray, shape (n,), float64
        Latency as measured [s].
    throughput_rps : numpy.ndarray, shape (n,), float64
        Completed request rates [1/s].
    """

    metric: LatencyMetric
    rate_rps: Float64Array
    measured_latency_s: Float64Array
    throughput_rps: Float64Array

    @cached_property
    def latency_s(self) -> Float64Array:
        """Latency made non-decreasing by a running maximum [s]."""
        rising: Float64Array = np.maximum.accumulate(self.measured_latency_s)
        return rising

    @property
    def largest_correction_s(self) -> float:
        """Largest rise that the running maximum made [s]; 0 for a non-decreasing curve."""
        return float((self.latency_s - self.measured_latency_s).max())

    @property
    def sustained_throughput_rps(self) -> float:
        """Highest completed rate of one instance [1/s], over all offered rates."""
        return float(self.throughput_rps.max())

    @cached_property
    def _interpolator(self) -> PchipInterpolator:
        return PchipInterpolator(self.rate_rps, self.latency_s)

    def at(self, rate_rps: Float64Array) -> Float64Array:
        """Return the latency [s] at offered rates [1/s]; beyond the measured ones, the nearest.

        Shape-preserving cubic interpolation (PCHIP), so that it is non-decreasing.
        """
        inside = np.clip(rate_rps, self.rate_rps[0], self.rate_rps[-1])
        latency_s: Float64Array = self._interpolator(inside)
        return latency_s


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """Power of each node of an instance against the instance's request rate.

    Parameters
    ----------
    name : str
        Name of the curve, for random streams and profile ids.
    rate_rps : numpy.ndarray, shape (n,), float64
        Sustained request rates [1/s], strictly increasing.
    mean_power_w, peak_power_w : numpy.ndarray, shape (n,), float64
        Mean and peak power of one node [W].
    provenance : Provenance, optional
        Where it comes from; None for that of the shipped samples.
    """

    name: str
    rate_rps: Float64Array
    mean_power_w: Float64Array
    peak_power_w: Float64Array
    provenance: Provenance | None = None


@dataclass(frozen=True, eq=False)
class ServiceCurves:
    """The curves of one service and the files that they come from."""

    power: PowerCurve
    latency: LatencyCurve | None
    files: tuple[CurveFile, ...]


Curves = dict[tuple[str, str], ServiceCurves]
"""Curves by the names of the request stream and the service."""


def load_power_curve(name: str, folder: Path) -> tuple[PowerCurve, CurveFile]:
    """Read a power curve by shipped name or by path relative to `folder`.

    Raises
    ------
    InputError
        If it is missing or not usable; the text names the file and the line.
    """
    file = read_curve_file(name, folder)
    rate_rps, mean_w, peak_w = curve_columns(file, ("mean_power_w", "peak_power_w"))
    for k in np.flatnonzero(peak_w < mean_w)[:1]:
        line, _ = file.rows[k]
        raise InputError(
            f"{file.path}:{line}: peak_power_w must be at least mean_power_w, {mean_w[k]:g}, "
            f"found {peak_w[k]:g}"
        )
    return PowerCurve(file.path.stem, rate_rps, mean_w, peak_w), file


def load_latency_curve(
    name: str, folder: Path, metric: LatencyMetric = "mean_e2e", output_tokens: int = 512
) -> tuple[LatencyCurve, CurveFile]:
    """Read a latency curve by shipped name or by path relative to `folder`.

    Raises
    ------
    InputError
        If it is missing or not usable; the text names the file and the line.
    """
    file = read_curve_file(name, folder)
    of_length = rows_where(file, OUTPUT_TOKENS_COLUMN, output_tokens)
    columns = curve_columns(of_length, (LATENCY_COLUMNS[metric], THROUGHPUT_COLUMN))
    return LatencyCurve(metric, *columns), file
