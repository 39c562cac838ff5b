"""Frequency bands supported by the profiles' meters, and spectral metrics of the load.

The averaging window and the sampling interval of the readings
(`diploee.profiles.meter_response`) set the trusted band, the flagged band, and the
frequency above which nothing is reported. A step over less than two windows or samples
is a lower bound. The run's own interval means are another average, and alias near their
Nyquist frequency. Synthetic profiles have no meter, so that the run's step sets their
band. No result here supports a claim on flicker, torsion or harmonics.

See also: docs/models/metrics.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.errors import plural
from diploee.base.measures.spectrum import (
    RESOLUTION_HZ,
    STRIDE_MS,
    WINDOW_MS,
    BandRms,
    strongest_lines,
)
from diploee.base.units import MS_PER_S
from diploee.profiles.meter_response import (
    FLAGGED_WINDOWS,
    RESTORED_TRUSTED,
    TRUSTED_WINDOWS,
    UNKNOWN_WINDOW_S,
    MeterModel,
    ResolvableRange,
    resolvable_range,
)
from diploee.profiles.profile import Provenance

FLAGGED_STEPS = 0.4
"""Frequency times resolution up to which a band is reported at all: 80 % of Nyquist."""
TRUSTED_OF_BANDWIDTH = 0.8
"""Part of the provenance's bandwidth that is trusted, where no averaging window limits
it."""
FOLDED_SAMPLES = 100
"""Means over this many readings that fold hold a tenth of their rms, or less.

ASSUMPTION [A]: the power is white beyond half of their rate, so that n readings leave
1/sqrt(n).
"""

BANDS_HZ: tuple[tuple[float, float], ...] = (
    (0.001, 0.01),
    (0.01, 0.1),
    (0.1, 0.25),
    (0.25, 0.44),
    (0.44, 1.0),
    (1.0, 2.5),
)
"""Bands that are reported where they are supported [Hz]; the lower edge belongs to a
band."""

NO_METER, NO_PROFILE = "synthetic, no meter", "no profile, so means over 1 s"
NO_CLAIM = (
    "no claim on flicker, torsion or harmonics; a playback supports no fault study"
)


NONE: Mapping[str, float] = MappingProxyType({})
_ROUNDING = 1e-9
_HZ = ("trusted_hz", "flagged_hz")

Status = Literal["supported", "flagged", "absent"]


class Readings(NamedTuple):
    """Meter properties of a profile, which limit the supported bands."""

    reach: ResolvableRange
    why: str  # what limits them
    window_s: float = 0.0  # that each is averaged over; 0 for none
    interval_s: float = 0.0  # between two; 0 for none
    is_synthesised: bool = False
    names: tuple[str, ...] = ()  # of the profiles
    is_restored: bool = False  # what the averaging takes away was put back

    @property
    def named(self) -> str:
        """Label of the limiting meter property, with the profiles."""
        return f"{self.why} ({_format_names(self.names)})" if self.names else self.why

    def entry(self, energy_j: Mapping[str, float]) -> dict[str, Any]:
        """Return the meter properties by name, with the profiles' energy fraction."""
        share, result = None, {"name": self.why, "note": _format_names(self.names)}
        if whole_j := sum(energy_j.values()):
            # Energies are summed window by window: no more digits than all windows have
            share = round(
                sum(energy_j.get(name, 0.0) for name in self.names) / whole_j, 6
            )
            result["note"] += f", {share:.0%} of the energy of jobs and services"
        if self.reach.flagged_hz == np.inf:
            return {**result, "energy_share": share}
        result["note"] = f"to {self.reach.flagged_hz:.2g} Hz, {result['note']}"
        return {
            **result,
            **dict(zip(_HZ, self.reach, strict=False)),
            "energy_share": share,
        }

    @classmethod
    def of(cls, origin: Provenance | Mapping[str, Any], name: str = "") -> Readings:
        """Return the meter properties of a profile, from provenance or manifest."""
        has = origin if isinstance(origin, Mapping) else vars(origin)
        most_hz, names = has["bandwidth_hz"], (name,) if name else ()
        if most_hz is None:
            return cls(
                resolvable_range(0.0, 0.0), NO_METER, is_synthesised=True, names=names
            )
        meter = has.get("meter")
        if meter is None:
            meter = MeterModel(
                window_s=has["averaging_window_s"],
                polled_s=has.get("sampling_interval_s"),
            )
        elif isinstance(meter, Mapping):
            known = meter.keys() & MeterModel.__dataclass_fields__.keys()
            meter = MeterModel(**{key: meter[key] for key in known})
        is_reference = has.get("kind") == "reference"
        window_s, interval_s, result = (
            meter.window_s,
            meter.interval_s,
            meter.resolvable_range,
        )
        if window_s is None:
            window_s = FLAGGED_WINDOWS / (most_hz or _NO_HZ)
        why = f"means over {window_s:.3g} s"
        restored_hz = has.get("restored_hz")
        is_given = (
            result
            and has.get("meter")
            and not restored_hz
            and most_hz > result.flagged_hz
        )
        if result is None or is_reference or is_given or not interval_s:
            by_window_hz = TRUSTED_WINDOWS / window_s if window_s else np.inf
            result = ResolvableRange(
                by_window_hz,
                most_hz,
                max(2 * window_s, 0.5 / (most_hz or _NO_HZ)),
                False,
            )
            why = f"{most_hz:.3g} Hz given on import" if is_given else why
        elif result.is_sampled:
            why = (
                f"readings every {interval_s:.3g} "
                f"s{'' if result.flagged_hz else ' fold'}"
            )
        if restored_hz:
            trusted_hz, flagged_hz = RESTORED_TRUSTED * restored_hz, restored_hz
            why = f"{why}, restored to {restored_hz:.2g} Hz"
        else:
            trusted_hz = min(result.trusted_hz, TRUSTED_OF_BANDWIDTH * most_hz)
            flagged_hz = min(result.flagged_hz, most_hz)
        result = result._replace(trusted_hz=trusted_hz, flagged_hz=flagged_hz)
        return cls(
            result, why, window_s, interval_s, is_reference, names, bool(restored_hz)
        )


_NO_HZ = 1e-9  # in place of 0, by which nothing is divided


@dataclass(frozen=True)
class Support:
    """Supported frequencies and steps of a power series."""

    trusted_hz: float  # up to which levels of bands are trusted
    # Up to which they are given, with a flag; nothing is claimed above
    flagged_hz: float
    min_step_s: float  # a step over less is a lower bound
    averaging_window_s: float  # longest of the readings; 0 where they are not averaged
    readings_hz: float  # what these support at most
    step_s: float = 0.0  # interval of the series; 0 for the profiles alone
    # Up to where the finest profile has detail, and whether that is synthesised
    detail_hz: float = np.inf
    is_synthesised: bool = False
    interpolated_s: float = 0.0  # within which a source is interpolated between records
    # What the profiles show, those of one limit together, the weakest first
    readings: tuple[Readings, ...] = ()

    def at_resolution(self, step_ms: int) -> Support:
        """Return the support of a series of interval means."""
        step_s = step_ms / MS_PER_S
        return replace(
            self,
            trusted_hz=min(self.trusted_hz, TRUSTED_WINDOWS / step_s),
            flagged_hz=min(self.flagged_hz, FLAGGED_STEPS / step_s),
            step_s=step_s,
        )

    def band(self, high_hz: float) -> tuple[Status, str]:
        """Return the supported limit of a band up to `high_hz`, and its reason."""
        if self.is_interpolated(1 / high_hz) and high_hz <= self.flagged_hz * (
            1 + _ROUNDING
        ):
            return "flagged", f"at least: {self.interpolation_reason}"
        if high_hz <= self.trusted_hz * (1 + _ROUNDING):
            return "supported", ""
        if high_hz <= self.flagged_hz * (1 + _ROUNDING):
            return "flagged", f"above {self.trusted_hz:.3g} Hz levels read low or alias"
        if self.aliasing_reason:
            return "absent", self.aliasing_reason
        if high_hz > self.readings_hz * (1 + _ROUNDING):
            return (
                "absent",
                f"the profiles support nothing above {self.readings_hz:.3g} Hz",
            )
        return "absent", f"the run's resolution of {self.step_s:g} s does not hold it"

    def gain(self, frequency_hz: float) -> float:
        """Return the amplitude gain of both averages at a frequency [Hz].

        Reported values are not corrected for it.
        """
        windows = (self.averaging_window_s, self.step_s)
        return float(
            np.prod([abs(np.sinc(frequency_hz * window)) for window in windows])
        )

    def is_lower_bound(self, window_s: float) -> bool:
        """Return True if a step over a window is smoothed by the readings."""
        return window_s < self.min_step_s * (1 - _ROUNDING) or self.is_interpolated(
            window_s
        )

    def is_interpolated(self, window_s: float) -> bool:
        """Return True if a source is interpolated over a step's window."""
        return window_s < 2 * self.interpolated_s * (1 - _ROUNDING)

    @property
    def interpolation_reason(self) -> str:
        """Text of the reason that interpolated sources limit the support."""
        return (
            "clouds are not seen within the weather's records of "
            f"{self.interpolated_s:g} s"
        )

    @property
    def aliasing_reason(self) -> str:
        """Text of the reason that aliasing leaves no supported band.

        Empty if there is a supported band.
        """
        if self.readings_hz:
            return ""
        return f"{self.readings[0].named}: fast swings show as slow ones"

    @property
    def smoothing_reason(self) -> str:
        """Text of the reason that steps are lower bounds."""
        most = max(self.readings, key=lambda of: of.reach.min_step_s)
        return f"{most.named} smear steps under {self.min_step_s:g} s"

    def scope(self, high_hz: float, seen_hz: float) -> str:
        """Return the note on a band to `high_hz` supported only to `seen_hz`."""
        if self.is_interpolated(1 / high_hz):
            return f"a lower bound: {self.interpolation_reason}"
        if high_hz <= self.readings_hz * (1 + _ROUNDING):
            return ""
        kind = "restored" if self.readings[0].is_restored else "measured"
        words = f"to {min(self.readings_hz, seen_hz):.2g} Hz on {kind} detail"
        if self.detail_hz > self.readings_hz and seen_hz > self.readings_hz:
            of = "synthesised" if self.is_synthesised else "finer"
            words += f", to {min(self.detail_hz, seen_hz):.2g} Hz on {of} detail"
        return f"{words}; {self.readings[0].named} decide"

    def block(self, energy_j: Mapping[str, float] = NONE) -> dict[str, Any]:
        """Return the `bandwidth` block, with the energy of each profile by name."""
        others = set(energy_j).difference(*(of.names for of in self.readings))
        rest = Readings(
            resolvable_range(0.0, 0.0), "constant power", names=tuple(sorted(others))
        )
        return {
            "trusted_hz": self.trusted_hz,
            "flagged_hz": max(self.flagged_hz, self.trusted_hz),
            "lower_bound_below_s": max(self.min_step_s, 2 * self.interpolated_s),
            **({"interpolated_s": self.interpolated_s} if self.interpolated_s else {}),
            "averaging_window_s": self.averaging_window_s,
            "resolution_s": self.step_s,
            "note": NO_CLAIM,
            "of_profiles": [
                of.entry(energy_j) for of in (*self.readings, rest) if of.names
            ],
        }


def recorded_readings(manifest: dict[str, Any]) -> list[Readings]:
    """Return the meter properties of a run's profiles, from its manifest."""
    origins = {
        name: entry["provenance"]
        for name, entry in manifest.get("profiles", {}).items()
    }
    for service, rates in manifest.get("power_samples", {}).items():
        origins |= {f"{service} at {rate} requests/s": of for rate, of in rates.items()}
    return [Readings.of(origin, name) for name, origin in origins.items()]


def profile_support(
    readings: Iterable[Readings | Provenance], interpolated_s: float = 0.0
) -> Support:
    """Return the joint support of several profiles: the weakest profile limits it.

    `interpolated_s` is the time step within which a source is interpolated.

    Without readings the limits of the published profiles apply: for a 1 s averaging
    window trusted up to 0.25 Hz and flagged up to 0.44 Hz, and steps under 2 s are
    lower bounds.
    """
    alike: dict[tuple[ResolvableRange, str], Readings] = {}
    for each in readings:
        of = each if isinstance(each, Readings) else Readings.of(each)
        before = alike.setdefault((of.reach, of.why), of._replace(names=()))
        alike[of.reach, of.why] = before._replace(names=(*before.names, *of.names))
    result = [of._replace(names=tuple(sorted(set(of.names)))) for of in alike.values()]
    result = result or [
        Readings(resolvable_range(UNKNOWN_WINDOW_S, 0.0), NO_PROFILE, UNKNOWN_WINDOW_S)
    ]
    result.sort(key=lambda of: (of.reach.flagged_hz, of.reach.trusted_hz, of.why))
    finest = max(result, key=lambda of: of.reach.flagged_hz)
    return Support(
        trusted_hz=min(of.reach.trusted_hz for of in result),
        flagged_hz=result[0].reach.flagged_hz,
        min_step_s=max(of.reach.min_step_s for of in result),
        averaging_window_s=max(of.window_s for of in result),
        readings_hz=result[0].reach.flagged_hz,
        detail_hz=finest.reach.flagged_hz,
        is_synthesised=finest.is_synthesised,
        interpolated_s=interpolated_s,
        readings=tuple(result),
    )


def _format_names(names: Sequence[str]) -> str:
    """Return the text of the first few names and the number of the others."""
    others = f" and {plural(len(names) - 1, 'other')}" if len(names) > 1 else ""
    return f"'{names[0]}'{others}" if names else ""


METHOD = (
    "Welch: linear detrend, Hann window, one-sided periodogram, windows overlap by "
    "half; a band holds the bins k/600 Hz from its lower edge to below its upper; the "
    "mean over the windows is listed from k = 1 on; not corrected for gain"
)
SLOW_BAND_NOTE = (
    "a 10-minute window resolves 1/600 Hz and loses its trend: of 0.001-0.01 Hz the "
    "five bins from 0.0017 to 0.0083 Hz are counted, slower content is left out"
)
NO_FLOOR = "a strictly periodic load: there is no floor beside the line"
BAND = "rms in {}"


def no_spectrum_reason(step_ms: int) -> str:
    """Return the reason that a resolution has no spectrum, or an empty string."""
    if STRIDE_MS % step_ms:
        return (
            f"the run's resolution of {step_ms / MS_PER_S:g} s does not divide 5 "
            "minutes"
        )
    return ""


def spectrum_block(
    found: BandRms | None, clock: WallClock, support: Support, reason: str
) -> dict[str, Any]:
    """Return the `spectrum` block of the metrics.

    Unsupported bands are listed as absent with the reason.
    """
    resolution = {"resolution_s": clock.step_s}
    if found is None:
        return {
            **resolution,
            "bands": [],
            "absent": _absent_bands(support, reason),
            "lines": [],
        }
    n = found.starts_ms.size
    head = {
        "window_s": WINDOW_MS / MS_PER_S,
        "windows": n,
        **resolution,
        "frequency_resolution_hz": RESOLUTION_HZ,
        "method": METHOD,
    }
    if not n:
        reason = "the run holds no whole 10-minute window"
        return {
            **head,
            "bands": [],
            "absent": _absent_bands(support, reason),
            "lines": [],
        }
    n_claimed = int(
        np.searchsorted(found.frequency_hz, support.flagged_hz, side="right")
    )
    return {
        **head,
        "bands": _bands(found, clock, support),
        "absent": _absent_bands(support),
        "lines": [
            {
                "frequency_hz": line.frequency_hz,
                "period_s": 1 / line.frequency_hz,
                "rms_mw": line.rms_mw,
                "over_floor": line.over_floor,
                "flagged": line.frequency_hz > support.trusted_hz,
                **({"reason": NO_FLOOR} if line.over_floor is None else {}),
            }
            for line in strongest_lines(
                found.frequency_hz, found.mean_psd, n, support.flagged_hz
            )
        ],
        "mean_psd_mw2_per_hz": found.mean_psd[1:n_claimed].tolist(),
    }


def _bands(found: BandRms, clock: WallClock, support: Support) -> list[dict[str, Any]]:
    entries = []
    for k, (low_hz, high_hz) in enumerate(reported_bands(support)):
        status, reason = support.band(high_hz)
        rms_mw = found.rms_mw[:, k]
        p50_mw, p99_mw = np.percentile(rms_mw, [50, 99])
        worst = int(np.argmax(rms_mw))
        entry: dict[str, Any] = {
            "low_hz": low_hz,
            "high_hz": high_hz,
            "rms_p50_mw": float(p50_mw),
            "rms_p99_mw": float(p99_mw),
            "rms_max_mw": float(rms_mw[worst]),
            "worst_window": clock.iso(int(found.starts_ms[worst])),
            "worst_window_strongest_hz": float(found.strongest_hz[worst, k]),
            "gain_at_high": support.gain(high_hz),
            "flagged": status == "flagged",
        }
        entry |= {"flag_reason": reason} if reason else {}
        entry |= {"note": SLOW_BAND_NOTE} if low_hz < RESOLUTION_HZ else {}
        entries.append(entry)
    return entries


def reported_bands(support: Support) -> tuple[tuple[float, float], ...]:
    """Return the reported bands, flagged bands included."""
    return tuple(band for band in BANDS_HZ if support.band(band[1])[0] != "absent")


def _absent_bands(support: Support, reason: str = "") -> list[dict[str, Any]]:
    """Return the unreported bands, each with its own or a common reason."""
    return [
        {"low_hz": low, "high_hz": high, "reason": reason or support.band(high)[1]}
        for low, high in BANDS_HZ
        if reason or support.band(high)[0] == "absent"
    ]
