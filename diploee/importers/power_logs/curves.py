"""The one way from readings to a profile: repaired energy curves, summed over the devices.

A format's own module says which column is what, and how its logger fails; here the stamps that jump
are left out, failed readings bridged by straight lines up to a gap, and the devices summed over the
time that they share. All of it is counted by cause.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from diploee.errors import Brief, InputError, LogFormatError, plural
from diploee.importers.power_logs.options import Reading
from diploee.profiles.derived import trim_profile
from diploee.profiles.meters import Meter, reach
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.resample import (
    US_PER_MS,
    US_PER_S,
    EnergyCurve,
    joint_power_w,
    round_keeping_energy,
)
from diploee.tables import Float32Array, Float64Array, Int64Array
from diploee.units import MS_PER_S

MOST_HELD = 0.05
"""Share of a run that a log may lack at its ends, held at its first and last reading.

ASSUMPTION: the loggers of a run start and end within seconds of each other.
"""

LONGER = 1.05
"""A step counts as longer than the readings' interval from here on."""

_PLACE = re.compile(r"^(?:.*[/\\][^:]*|[^:]*\.(?:log|txt|parquet|csv)[^:]*)(?::\d+)*: ")


@dataclass(frozen=True, eq=False)
class Device:
    """Devices measured together: a GPU, a node, or all devices of a log."""

    name: str  # its file, for errors
    curve: EnergyCurve
    interval_us: float  # usual interval of the readings [us]
    longest_gap_s: float = 0.0  # longest time between good readings [s]
    sha256: str = ""  # hash of its file
    # Readings, and those dropped or bridged, by cause
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def span(self) -> str:
        """The time that it covers, for errors."""
        start, end = self.curve.t_us[[0, -1]].astype("datetime64[us]")
        return f"{self.name}: {start} to {end}"

    def held(self, start_us: int, end_us: int) -> Device:
        """Return the device from one moment to another, held at its ends up to `MOST_HELD`."""
        t_us, power_w = self.curve.t_us, self.curve.power_w
        assert power_w is not None
        whole_us = end_us - start_us
        covered_us = int(t_us[-1] - t_us[0])
        if whole_us - covered_us > MOST_HELD * whole_us:
            raise LogFormatError(
                f"{self.name}: readings of {covered_us / US_PER_S:,.1f} s of a run of "
                f"{whole_us / US_PER_S:,.1f} s, expected {1 - MOST_HELD:.0%} of it or more; "
                "complete the log, or leave the run out"
            )
        before, after = int(t_us[0] > start_us), int(t_us[-1] < end_us)
        t_us = np.concatenate(([start_us] * before, t_us, [end_us] * after)).astype(np.int64)
        held_w = np.pad(power_w, (before, after), mode="edge")
        return replace(self, curve=EnergyCurve.from_readings(t_us, held_w))


@dataclass(frozen=True)
class SkippedRun(Brief):
    """A run, or a folder of runs, that can't be read."""

    place: str  # which one
    problem: str  # why, in one line


def by_cause(skipped: Sequence[SkippedRun]) -> list[list[SkippedRun]]:
    """Return runs whose problems differ in places and figures alone together; the most first."""
    found: dict[str, list[SkippedRun]] = {}
    for run in skipped:
        where = _PLACE.match(run.problem)
        text = re.sub(r"\d[\d,.]*", "N", run.problem[where.end() :] if where else run.problem)
        found.setdefault(re.split(r"[,;(]", text)[0].strip(), []).append(run)
    return sorted(found.values(), key=len, reverse=True)


class ProfilesOfRuns(list[PowerProfile]):
    """Profiles of the runs in a folder; `skipped` names the runs that can't be read, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped: list[SkippedRun] = []

    def take(self, place: str, read: Callable[[], PowerProfile]) -> None:
        """Add the profile of a run, or its name to those that are skipped."""
        try:
            self.append(read())
        except InputError as error:
            self.skipped.append(SkippedRun(place, str(error)))


def longest_increasing(t_us: Int64Array) -> Int64Array:
    """Return the rows of the longest increasing run of stamps; of equal stamps the first."""
    if (t_us[1:] > t_us[:-1]).all():
        return np.arange(t_us.size)
    # Patience sorting: of all increasing runs of k + 1 stamps so far, the lowest last one.
    last_us: list[int] = []
    last_row: list[int] = []
    row_before = np.full(t_us.size, -1)
    for row, stamp_us in enumerate(t_us.tolist()):
        k = bisect_left(last_us, stamp_us)
        if k < len(last_us) and last_us[k] == stamp_us:
            continue
        last_us[k : k + 1] = [stamp_us]
        last_row[k : k + 1] = [row]
        if k:
            row_before[row] = last_row[k - 1]
    kept = np.empty(len(last_row), dtype=np.int64)
    row = last_row[-1]
    for k in reversed(range(kept.size)):
        kept[k] = row
        row = int(row_before[row])
    return kept


def longest_gap_s(
    t_us: Int64Array,
    good: Int64Array,
    max_gap_s: float,
    where: Callable[[int], str],
    name: str = "",
) -> float:
    """Return the longest time without a good reading [s], the ends included; refuse too long."""
    ends = [row for row in (0, t_us.size - 1) if not good.size or row not in good[[0, -1]]]
    known = np.sort(np.append(good, ends)) if ends else good
    gaps_s = np.diff(t_us[known]) / US_PER_S
    longest = int(np.argmax(gaps_s))
    if gaps_s[longest] > max_gap_s:
        raise LogFormatError(
            f"{where(int(known[longest + 1]))}: {gaps_s[longest]:,.1f} s without a good reading"
            f"{name and f' of {name}'}, expected {max_gap_s:g} s at most; split the log here, or "
            "raise max_gap_s (--max-gap-s)"
        )
    return float(gaps_s[longest])


def device_of(
    path: Path,
    t_us: Int64Array,
    power_w: Float64Array,
    max_gap_s: float,
    where: Callable[[int], str],
    name: str = "",
) -> Device:
    """Return readings [W] at increasing stamps as a device; those that are NaN are bridged."""
    good = np.flatnonzero(~np.isnan(power_w))
    if t_us.size < 2 or not good.size:
        raise LogFormatError(
            f"{path}: {name or 'the log'} has {plural(good.size, 'good reading')} in "
            f"{plural(t_us.size, 'row')}, expected two rows or more, with a good reading; give a "
            "complete log"
        )
    gap_s = longest_gap_s(t_us, good, max_gap_s, where, name)
    if good.size < t_us.size:
        power_w = np.interp(t_us, t_us[good], power_w[good])
    curve = EnergyCurve.from_readings(t_us, power_w)
    return Device(str(path), curve, float(np.median(np.diff(t_us))), gap_s)


def restored(device: Device, meter: Meter) -> Device:
    """Return a device with its meter's gain divided out of its readings."""
    step_us = max(round(meter.interval_s * US_PER_S), 1)
    power_w = meter.restore(joint_power_w([device.curve], step_us), step_us / US_PER_S)
    t_us = device.curve.t_us[0] + np.arange(power_w.size + 1) * step_us
    energy_j = np.concatenate(([0.0], np.cumsum(power_w))) * (step_us / US_PER_S)
    return replace(device, curve=EnergyCurve(t_us, energy_j))


def sum_w(devices: Sequence[Device], step_ms: int, *, add_w: float = 0.0) -> Float32Array:
    """Return the mean power of all devices in each whole step of the time that they share [W].

    It is rounded so that its energy is kept, `add_w` [W] included.
    """
    power_w = joint_power_w([device.curve for device in devices], step_ms * US_PER_MS)
    if not power_w.size:
        first = max(devices, key=lambda device: int(device.curve.t_us[0]))
        last = min(devices, key=lambda device: int(device.curve.t_us[-1]))
        shared_s = int(last.curve.t_us[-1] - first.curve.t_us[0]) / US_PER_S
        raise LogFormatError(
            f"{' and '.join(dict.fromkeys((first.span, last.span)))} share {max(shared_s, 0):g} s, "
            f"expected a step of {step_ms} ms or more; give complete logs of one job"
        )
    return round_keeping_energy(power_w + add_w)


def measured(
    profile_id: str,
    workload: str,
    n_nodes: int,
    step_ms: int,
    power_w: Float32Array,
    options: Reading,
    *,
    source: str,
    hashes: Sequence[str],
    meter: Meter,
    bandwidth_hz: float | None = None,
    **facts: Any,
) -> PowerProfile:
    """Return a profile of measured power, trimmed as the options say.

    `source` is taken where they name none; `hashes` are those of its files; the bandwidth is what
    the meter, and the step where it is longer than its interval, leave where it is not given.
    """
    interval_s, window_s, step_s = meter.polled_s or 0.0, meter.window_s or 0.0, step_ms / MS_PER_S
    if bandwidth_hz is None:
        bandwidth_hz = reach(window_s, meter.interval_s).flagged_hz
        if options.restore:
            bandwidth_hz = meter.restored_hz
        if step_s > LONGER * interval_s:
            bandwidth_hz = min(bandwidth_hz, reach(max(window_s, step_s), step_s).flagged_hz)
    is_assumed = (meter.kind, meter.field) == ("unknown", "other")
    joined = hashlib.sha256("".join(hashes).encode()).hexdigest()
    provenance = Provenance(
        kind="measured",
        source=options.source or source,
        licence=options.licence,
        sampling_interval_s=interval_s,
        averaging_window_s=None if is_assumed else meter.window_s,
        bandwidth_hz=bandwidth_hz,
        meter=meter,
        restored=options.restore,
        restored_hz=bandwidth_hz if options.restore else None,
        source_sha256=joined if len(hashes) > 1 else hashes[0],
        **({"gpu_model": meter.gpu} | facts),
    )
    profile = PowerProfile(profile_id, workload, n_nodes, step_ms, power_w, provenance)
    return trim_profile(profile, options.from_s, options.to_s, options.idle_w)
