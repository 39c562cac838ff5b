"""Frequency bands supported by the profiles' meters, and spectral metrics of the load.

The averaging window and the sampling interval of the meter's readings
(`diploee.profiles.meter_response`) determine the trusted band, the flagged band, and
the frequency above which nothing is reported. A power step within less than two
averaging windows or samples is a lower bound. The means over the run's intervals are a
further average, with aliasing near their Nyquist frequency. Synthetic profiles have no
meter, so only the run's step limits their band. No result is valid for flicker, torsion
or harmonics.

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
"""Maximum product of frequency and resolution of a reported band: 80 % of Nyquist."""
TRUSTED_OF_BANDWIDTH = 0.8
"""Trusted fraction of the provenance's bandwidth, if no averaging window limits it."""
FOLDED_SAMPLES = 100
"""Number of aliased readings whose mean has at most a tenth of their rms. Assumed: the
power is white above half of the sampling rate, so that the mean of n readings has
1/sqrt(n) of their rms."""

BANDS_HZ: tuple[tuple[float, float], ...] = (
    (0.001, 0.01),
    (0.01, 0.1),
    (0.1, 0.25),
    (0.25, 0.44),
    (0.44, 1.0),
    (1.0, 2.5),
)
"""Frequency bands that are reported if supported [Hz]; a band includes its lower
edge."""

# Text for results of synthetic profiles, and of a run without profiles
NO_METER, NO_PROFILE = "synthetic, no meter", "no profile, so means over 1 s"
NO_CLAIM = (
    "no claim on flicker, torsion or harmonics; a playback supports no fault study"
)


NONE: Mapping[str, float] = MappingProxyType({})
_ROUNDING = 1e-9
_HZ = ("trusted_hz", "flagged_hz")

# Support of a frequency band
Status = Literal["supported", "flagged", "absent"]


class Readings(NamedTuple):
    """Meter properties that limit the bands that a profile supports."""

    resolvable: ResolvableRange  # resolvable frequencies and steps
    reason: str  # text of the meter property that limits them
    window_s: float = 0.0  # averaging window of a reading [s]; 0 for none
    interval_s: float = 0.0  # time between two readings [s]; 0 for none
    is_synthesised: bool = False  # True for a profile without measured readings
    names: tuple[str, ...] = ()  # names of the profiles
    is_restored: bool = False  # True if the attenuation of the averaging was reversed

    @property
    def named(self) -> str:
        """Text of the limiting meter property, with the profiles."""
        return (
            f"{self.reason} ({_format_names(self.names)})"
            if self.names
            else self.reason
        )

    def entry(self, energy_j: Mapping[str, float]) -> dict[str, Any]:
        """Return the meter properties by name, with the profiles' energy fraction."""
        fraction, result = (
            None,
            {"name": self.reason, "note": _format_names(self.names)},
        )
        if total_j := sum(energy_j.values()):
            # Rounded, as the last digits of the energies depend on the windows
            fraction = round(
                sum(energy_j.get(name, 0.0) for name in self.names) / total_j, 6
            )
            result["note"] += f", {fraction:.0%} of the energy of jobs and services"
        if self.resolvable.flagged_hz == np.inf:
            return {**result, "energy_share": fraction}
        result["note"] = f"to {self.resolvable.flagged_hz:.2g} Hz, {result['note']}"
        return {
            **result,
            **dict(zip(_HZ, self.resolvable, strict=False)),
            "energy_share": fraction,
        }

    @classmethod
    def from_provenance(
        cls, origin: Provenance | Mapping[str, Any], name: str = ""
    ) -> Readings:
        """Return the meter properties of a profile, from its provenance.

        `origin` is a provenance or its entry in a manifest.
        """
        keys = origin if isinstance(origin, Mapping) else vars(origin)
        bandwidth_hz, names = keys["bandwidth_hz"], (name,) if name else ()
        if bandwidth_hz is None:
            return cls(
                resolvable_range(0.0, 0.0), NO_METER, is_synthesised=True, names=names
            )
        meter = keys.get("meter")
        if meter is None:
            meter = MeterModel(
                window_s=keys["averaging_window_s"],
                polled_s=keys.get("sampling_interval_s"),
            )
        elif isinstance(meter, Mapping):
            fields = meter.keys() & MeterModel.__dataclass_fields__.keys()
            meter = MeterModel(**{key: meter[key] for key in fields})
        is_reference = keys.get("kind") == "reference"
        window_s, interval_s, resolvable = (
            meter.window_s,
            meter.interval_s,
            meter.resolvable_range,
        )
        if window_s is None:
            window_s = FLAGGED_WINDOWS / (bandwidth_hz or _NO_HZ)
        reason = f"means over {window_s:.3g} s"
        restored_hz = keys.get("restored_hz")
        is_user_limit = (
            resolvable
            and keys.get("meter")
            and not restored_hz
            and bandwidth_hz > resolvable.flagged_hz
        )
        if resolvable is None or is_reference or is_user_limit or not interval_s:
            by_window_hz = TRUSTED_WINDOWS / window_s if window_s else np.inf
            resolvable = ResolvableRange(
                by_window_hz,
                bandwidth_hz,
                max(2 * window_s, 0.5 / (bandwidth_hz or _NO_HZ)),
                False,
            )
            reason = (
                f"{bandwidth_hz:.3g} Hz given on import" if is_user_limit else reason
            )
        elif resolvable.is_sampled:
            reason = (
                f"readings every {interval_s:.3g} "
                f"s{'' if resolvable.flagged_hz else ' fold'}"
            )
        if restored_hz:
            trusted_hz, flagged_hz = RESTORED_TRUSTED * restored_hz, restored_hz
            reason = f"{reason}, restored to {restored_hz:.2g} Hz"
        else:
            trusted_hz = min(resolvable.trusted_hz, TRUSTED_OF_BANDWIDTH * bandwidth_hz)
            flagged_hz = min(resolvable.flagged_hz, bandwidth_hz)
        resolvable = resolvable._replace(trusted_hz=trusted_hz, flagged_hz=flagged_hz)
        return cls(
            resolvable,
            reason,
            window_s,
            interval_s,
            is_reference,
            names,
            bool(restored_hz),
        )


_NO_HZ = 1e-9  # in place of 0, to avoid a division by 0


@dataclass(frozen=True)
class Support:
    """Supported frequencies and steps of a power series."""

    trusted_hz: float  # highest frequency at which band levels are trusted [Hz]
    flagged_hz: float  # highest frequency at which they are reported, with a flag [Hz]
    min_step_s: float  # duration below which a step is a lower bound [s]
    averaging_window_s: float  # longest window of the readings [s]; 0 for none
    readings_hz: float  # highest frequency supported by the readings [Hz]
    step_s: float = 0.0  # interval of the series [s]; 0 for the profiles alone
    # Highest frequency in the finest profile [Hz], and True if that is synthesized
    detail_hz: float = np.inf
    is_synthesised: bool = False
    interpolated_s: float = 0.0  # step within which a source is interpolated [s]
    # Meter properties of the profiles, grouped by limit, the weakest first
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
        """Return the status of a band up to `high_hz`, and the reason for it."""
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
        limiting = max(
            self.readings, key=lambda readings: readings.resolvable.min_step_s
        )
        return f"{limiting.named} smear steps under {self.min_step_s:g} s"

    def scope(self, high_hz: float, reported_hz: float) -> str:
        """Return the note on a band that is only partly supported.

        The band extends to `high_hz` and is reported up to `reported_hz`.
        """
        if self.is_interpolated(1 / high_hz):
            return f"a lower bound: {self.interpolation_reason}"
        if high_hz <= self.readings_hz * (1 + _ROUNDING):
            return ""
        kind = "restored" if self.readings[0].is_restored else "measured"
        text = f"to {min(self.readings_hz, reported_hz):.2g} Hz on {kind} detail"
        if self.detail_hz > self.readings_hz and reported_hz > self.readings_hz:
            origin = "synthesised" if self.is_synthesised else "finer"
            text += f", to {min(self.detail_hz, reported_hz):.2g} Hz on {origin} detail"
        return f"{text}; {self.readings[0].named} decide"

    def block(self, energy_j: Mapping[str, float] = NONE) -> dict[str, Any]:
        """Return the `bandwidth` block, from the energy of each profile [J]."""
        others = set(energy_j).difference(
            *(readings.names for readings in self.readings)
        )
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
                readings.entry(energy_j)
                for readings in (*self.readings, rest)
                if readings.names
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
    return [Readings.from_provenance(origin, name) for name, origin in origins.items()]


def profile_support(
    readings: Iterable[Readings | Provenance], interpolated_s: float = 0.0
) -> Support:
    """Return the joint support of several profiles: the weakest profile limits it.

    `interpolated_s` is the time step within which a source is interpolated.

    Without readings the limits of the published profiles apply: for a 1 s averaging
    window trusted up to 0.25 Hz and flagged up to 0.44 Hz, and steps under 2 s are
    lower bounds.
    """
    groups: dict[tuple[ResolvableRange, str], Readings] = {}
    for source in readings:
        readings_of_profile = (
            source if isinstance(source, Readings) else Readings.from_provenance(source)
        )
        group = groups.setdefault(
            (readings_of_profile.resolvable, readings_of_profile.reason),
            readings_of_profile._replace(names=()),
        )
        groups[readings_of_profile.resolvable, readings_of_profile.reason] = (
            group._replace(names=(*group.names, *readings_of_profile.names))
        )
    limits = [
        readings_of_profile._replace(
            names=tuple(sorted(set(readings_of_profile.names)))
        )
        for readings_of_profile in groups.values()
    ]
    limits = limits or [
        Readings(resolvable_range(UNKNOWN_WINDOW_S, 0.0), NO_PROFILE, UNKNOWN_WINDOW_S)
    ]
    limits.sort(
        key=lambda readings_of_profile: (
            readings_of_profile.resolvable.flagged_hz,
            readings_of_profile.resolvable.trusted_hz,
            readings_of_profile.reason,
        )
    )
    finest = max(
        limits,
        key=lambda readings_of_profile: readings_of_profile.resolvable.flagged_hz,
    )
    return Support(
        trusted_hz=min(
            readings_of_profile.resolvable.trusted_hz for readings_of_profile in limits
        ),
        flagged_hz=limits[0].resolvable.flagged_hz,
        min_step_s=max(
            readings_of_profile.resolvable.min_step_s for readings_of_profile in limits
        ),
        averaging_window_s=max(
            readings_of_profile.window_s for readings_of_profile in limits
        ),
        readings_hz=limits[0].resolvable.flagged_hz,
        detail_hz=finest.resolvable.flagged_hz,
        is_synthesised=finest.is_synthesised,
        interpolated_s=interpolated_s,
        readings=tuple(limits),
    )


def _format_names(names: Sequence[str]) -> str:
    """Return the text of the first few names and the number of the others."""
    others = f" and {plural(len(names) - 1, 'other')}" if len(names) > 1 else ""
    return f"'{names[0]}'{others}" if names else ""


METHOD = (  # text for results
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
    spectra: BandRms | None, clock: WallClock, support: Support, reason: str
) -> dict[str, Any]:
    """Return the `spectrum` block of the metrics.

    Unsupported bands are listed as absent with the reason.
    """
    resolution = {"resolution_s": clock.step_s}
    if spectra is None:
        return {
            **resolution,
            "bands": [],
            "absent": _absent_bands(support, reason),
            "lines": [],
        }
    n = spectra.starts_ms.size
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
        np.searchsorted(spectra.frequency_hz, support.flagged_hz, side="right")
    )
    return {
        **head,
        "bands": _band_entries(spectra, clock, support),
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
                spectra.frequency_hz, spectra.mean_psd, n, support.flagged_hz
            )
        ],
        "mean_psd_mw2_per_hz": spectra.mean_psd[1:n_claimed].tolist(),
    }


def _band_entries(
    spectra: BandRms, clock: WallClock, support: Support
) -> list[dict[str, Any]]:
    """Return the metrics entries of the reported bands."""
    entries = []
    for k, (low_hz, high_hz) in enumerate(reported_bands(support)):
        status, reason = support.band(high_hz)
        rms_mw = spectra.rms_mw[:, k]
        p50_mw, p99_mw = np.percentile(rms_mw, [50, 99])
        row = int(np.argmax(rms_mw))
        entry: dict[str, Any] = {
            "low_hz": low_hz,
            "high_hz": high_hz,
            "rms_p50_mw": float(p50_mw),
            "rms_p99_mw": float(p99_mw),
            "rms_max_mw": float(rms_mw[row]),
            "worst_window": clock.iso(int(spectra.starts_ms[row])),
            "worst_window_strongest_hz": float(spectra.strongest_hz[row, k]),
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
