"""Power samples of a serving node, from files or synthesized from a power curve.

The measured three-minute samples can't be shipped, so samples like them are
synthesized. Mean and peak are those of the power curve. The shape follows the
description of the measurements: noise, one to three drops of about 1 s, and near the
highest rates a regular dip every 8 s that deepens during the sample (arXiv:2604.07345,
Figure 13, and its data set). Each sample is periodic and has exactly the mean power of
the curve.

See also: docs/models/serving.md
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.loads.services.curves import PowerCurve, PowerSample
from diploee.profiles.profile import PUBLISHED_NODE

N_SAMPLES = 180 * MS_PER_S // PROFILE_STEP_MS
"""Number of values in a power sample: three minutes, as in the published data."""
_PER_S = MS_PER_S // PROFILE_STEP_MS

NOISE_W = (20.0, 60.0)
"""Range of the standard deviation of the noise [W]; the measured peak sets the
value."""
# Maximum number of drops of power in a sample
MAX_DROPS = 3
# Range of the node power during a drop [W]
DROP_TO_W = (800.0, 1900.0)
# Period of the regular dip [s]
DIP_EVERY_S = 8
DIP_W = (200.0, 300.0)
"""Depth of the regular dip at the highest rate, at a sample's start and end [W]."""

PROVENANCE = replace(
    PUBLISHED_NODE,
    sampling_interval_s=0.1,
    notes=(
        "Synthesised by diploee from the mean and peak power at a request rate and a "
        "description of the samples, not measured; summed over instances, each with "
        "its own phase."
    ),
)


def repeating_samples(curve: PowerCurve) -> tuple[PowerSample, ...]:
    """Return the samples of a curve by rising rate, each with the curve's mean power.

    Parameters
    ----------
    curve : PowerCurve
        Mean and peak power by request rate.
    """
    if not curve.samples:
        rates = zip(
            curve.rate_rps.tolist(), curve.mean_power_w, curve.peak_power_w, strict=True
        )
        return tuple(
            PowerSample(
                rate_rps,
                PROFILE_STEP_MS,
                _sample_w(curve, rate_rps, float(mean_w), float(peak_w)),
                curve.provenance or PROVENANCE,
            )
            for rate_rps, mean_w, peak_w in rates
        )
    rates_rps = [sample.rate_rps for sample in curve.samples]
    means_w = np.interp(rates_rps, curve.rate_rps, curve.mean_power_w)
    return tuple(
        replace(sample, power_w=sample.power_w * (mean_w / sample.power_w.mean()))
        for sample, mean_w in zip(curve.samples, means_w, strict=True)
    )


def _sample_w(
    curve: PowerCurve, rate_rps: float, mean_w: float, peak_w: float
) -> Float64Array:
    """Return a synthesized periodic power sample at one request rate [W]."""
    rng = named_rng(0, "profiles", "serving", curve.name, f"{rate_rps:g}")
    noise = average_1s(rng.standard_normal(N_SAMPLES))
    noise /= noise.std()
    depth_w = np.maximum(_drops_w(rng, mean_w), _dips_w(rate_rps / curve.rate_rps[-1]))
    # The peak is about the mean, plus the mean depth of drops and dips, plus the
    # noise.
    above_w = peak_w - mean_w - depth_w.mean()
    noise_w = float(np.clip(above_w / noise.max(), *NOISE_W))
    shape_w: Float64Array = noise_w * noise - depth_w
    sample_w: Float64Array = np.maximum(mean_w + shape_w - shape_w.mean(), 0.0)
    sample_w *= mean_w / sample_w.mean()
    return sample_w


def _drops_w(rng: np.random.Generator, mean_w: float) -> Float64Array:
    """Return one to three drops of 1 s to 0.8-1.9 kW, as depth below the mean [W]."""
    n_drops = int(rng.integers(1, MAX_DROPS + 1))
    starts = rng.permutation(N_SAMPLES // (4 * _PER_S))[:n_drops] * (4 * _PER_S)
    depth_w = np.zeros(N_SAMPLES)
    for start in starts:
        level_w = rng.uniform(*DROP_TO_W)
        depth_w[start : start + _PER_S] = max(0.0, mean_w - level_w)
    return average_1s(depth_w)


def _dips_w(relative_rate: float) -> Float64Array:
    """Return the regular dip, as depth below the mean [W].

    Assumed: the dip begins at half of the highest rate and grows linearly with the
    rate.
    """
    time_s = np.arange(N_SAMPLES) / _PER_S
    depth_w = DIP_W[0] + (DIP_W[1] - DIP_W[0]) * time_s / time_s[-1]
    in_dip = (time_s % DIP_EVERY_S) < 1
    return average_1s(np.where(in_dip, max(0.0, 2 * relative_rate - 1) * depth_w, 0.0))


def average_1s(values: Float64Array) -> Float64Array:
    """Return the moving average over 1 s of periodic values.

    The GPU driver reports power with this average.
    """
    wrapped = np.concatenate([values[-_PER_S + 1 :], values])
    return np.convolve(wrapped, np.full(_PER_S, 1 / _PER_S), mode="valid")
