"""Conversion of power readings to a profile, shared by all formats.

Repaired energy curves, summed over the devices. A format's own module says which column
is what, and how its logger fails; here the readings of each device are put in order,
failed ones bridged by straight lines up to a gap, and the devices summed over the time
that they share. All of it is counted and limited (`guard`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from diploee.base.errors import Brief, InputError, LogFormatError, one_of, plural
from diploee.base.tables import BoolArray, Float32Array, Float64Array, Int64Array
from diploee.base.units import MS_PER_S
from diploee.importers.power_logs.options import Reading
from diploee.importers.power_logs.repairs import (
    CUT,
    FAILED,
    HELD,
    REPEATED_HOURS,
    SKIPPED_HOURS,
    RepairCount,
    allowing,
    bridge,
    exceeds,
    fraction,
    in_order,
    loss_text,
)
from diploee.profiles.derived import trim_profile
from diploee.profiles.meter_response import MeterModel, resolvable_range
from diploee.profiles.profile import PowerProfile, Provenance, Repair
from diploee.profiles.resample import (
    US_PER_MS,
    US_PER_S,
    EnergyCurve,
    common_power_w,
    round_keeping_energy,
    unshared_s,
)

LONGER = 1.05
"""A step counts as longer than the readings' interval from here on."""


@dataclass(frozen=True, eq=False)
class Device:
    """Devices measured together: a GPU, a node, or all devices of a log."""

    name: str  # its file, for errors
    label: str  # which device of the file, for errors; may be empty
    curve: EnergyCurve
    interval_us: float  # usual interval of the readings [us]
    longest_gap_s: float = 0.0  # longest time between good readings [s]
    sha256: str = ""  # hash of its file
    n_readings: int = 0  # rows of readings in its file
    repairs: tuple[Repair, ...] = ()

    @property
    def span(self) -> str:
        """The time that it covers, for errors."""
        start, end = self.curve.t_us[[0, -1]].astype("datetime64[us]")
        return f"{self.name}: {self.label and f'{self.label}, '}{start} to {end}"

    @property
    def clock_shift_s(self) -> float:
        """How far changes of its clock moved what comes after them [s]."""
        signs = {REPEATED_HOURS: 1, SKIPPED_HOURS: -1}
        return sum(signs.get(of.cause, 0) * of.time_s for of in self.repairs)

    def held(self, start_us: int, end_us: int, max_lost: float | None) -> Device:
        """Return the device over a span, held at its ends within the limits."""
        t_us, power_w = self.curve.t_us, self.curve.power_w
        assert power_w is not None
        before, after = int(t_us[0] > start_us), int(t_us[-1] < end_us)
        if not before + after:
            return self
        whole_us, covered_us = end_us - start_us, int(t_us[-1] - t_us[0])
        held_us = np.concatenate(([start_us] * before, t_us, [end_us] * after)).astype(
            np.int64
        )
        curve = EnergyCurve.from_readings(
            held_us, np.pad(power_w, (before, after), mode="edge")
        )
        held_j = float(curve.energy_j[-1] - self.curve.energy_j[-1])
        energy, time = (
            fraction(held_j, curve.energy_j[-1]),
            (whole_us - covered_us) / whole_us,
        )
        if exceeds(max_lost, 0.0, time):
            raise LogFormatError(
                f"{self.name}: readings of {covered_us / US_PER_S:,.1f} s of a run of "
                f"{whole_us / US_PER_S:,.1f} s: {loss_text(energy, time)}; complete "
                f"the log, leave the run out{allowing(energy, time)}"
            )
        device, held_s = Path(self.name).name, (whole_us - covered_us) / US_PER_S
        repair = Repair(device, HELD, before + after, held_j, energy, held_s)
        return replace(self, curve=curve, repairs=(*self.repairs, repair))


@dataclass(frozen=True)
class SkippedRun(Brief):
    """A run, or a folder of runs, that can't be read."""

    place: str  # which one
    problem: str  # why, in one line


class ProfilesOfRuns(list[PowerProfile]):
    """Profiles of the runs in a folder.

    `skipped` names the runs that can't be read, and why.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: list[SkippedRun] = []

    def take(self, place: str, read: Callable[[], PowerProfile]) -> None:
        """Add the profile of a run, or its name to those that are skipped."""
        try:
            self.append(read())
        except InputError as error:
            self.skipped.append(SkippedRun(place, str(error)))


def device_of(
    account: RepairCount,
    rows: Int64Array,
    t_us: Int64Array,
    power_w: Float64Array,
    failed: Mapping[str, BoolArray] | None = None,
) -> Device:
    """Return readings [W] of rows as a device.

    NaN are bridged, and counted by cause.
    """
    t_us, kept = in_order(account, rows, t_us, power_w)
    rows, power_w = rows[kept], power_w[kept]
    good = np.flatnonzero(~np.isnan(power_w))
    if t_us.size < 2 or not good.size:
        n_good, n_rows = plural(good.size, "good reading"), plural(t_us.size, "row")
        raise LogFormatError(
            f"{account.log.path}: {account.device or 'the log'} has {n_good} in "
            f"{n_rows}, expected two rows or more, with a good reading; give a "
            "complete log"
        )
    interval_us = float(np.median(np.diff(t_us)))
    filled_w = (
        np.interp(t_us, t_us[good], power_w[good]) if good.size < t_us.size else power_w
    )
    curve = EnergyCurve.from_readings(t_us, filled_w)
    for cause, is_cause in (failed or {FAILED: np.isnan(power_w)}).items():
        lost = np.flatnonzero(is_cause[kept] if failed else is_cause)
        of_us = lost.size * interval_us / US_PER_S
        account.add(
            cause,
            rows[lost],
            filled_w[lost].mean() * of_us if lost.size else 0.0,
            of_us,
        )
    gap_s = bridge(account, rows, t_us, good, curve)
    repairs = account.settle(float(curve.energy_j[-1]), (t_us[-1] - t_us[0]) / US_PER_S)
    return Device(
        str(account.log.path),
        account.device,
        curve,
        interval_us,
        gap_s,
        repairs=repairs,
    )


def restored(device: Device, meter: MeterModel) -> Device:
    """Return a device with its meter's gain divided out of its readings."""
    step_us = max(round(meter.interval_s * US_PER_S), 1)
    power_w = meter.restore(common_power_w([device.curve], step_us), step_us / US_PER_S)
    t_us = device.curve.t_us[0] + np.arange(power_w.size + 1) * step_us
    energy_j = np.concatenate(([0.0], np.cumsum(power_w))) * (step_us / US_PER_S)
    return replace(device, curve=EnergyCurve(t_us, energy_j))


def sum_w(
    devices: Sequence[Device],
    step_ms: int,
    max_lost: float | None,
    *,
    add_w: float = 0.0,
) -> tuple[Float32Array, list[Repair]]:
    """Return mean power of all devices in each whole step of shared time [W].

    It is rounded so that its energy is kept, `add_w` [W] included. The repairs are
    those of the devices, and what is cut off as not all devices cover it; too much of
    it is refused.
    """
    curves = [device.curve for device in devices]
    power_w = common_power_w(curves, step_ms * US_PER_MS)
    first = max(devices, key=lambda device: int(device.curve.t_us[0]))
    last = min(devices, key=lambda device: int(device.curve.t_us[-1]))
    start_us, end_us = int(first.curve.t_us[0]), int(last.curve.t_us[-1])
    if not power_w.size:
        raise LogFormatError(
            f"{' and '.join(dict.fromkeys((first.span, last.span)))} share "
            f"{max(end_us - start_us, 0) / US_PER_S:g} s, "
            f"expected a step of {step_ms} ms or more; give complete logs of one job"
        )
    shifts_s = [device.clock_shift_s for device in devices]
    if min(shifts_s) != max(shifts_s):
        changed = devices[int(np.argmax(np.abs(shifts_s)))]
        raise LogFormatError(
            f"{changed.span}: the clock changes to or from summer time here and not "
            "in all logs, so that their times do not fit; write timestamps with "
            "their offset from UTC"
        )
    whole_us = max(int(curve.t_us[-1]) for curve in curves) - min(
        int(c.t_us[0]) for c in curves
    )
    edges_us = np.array([start_us, end_us])
    whole_j = sum(float(curve.energy_j[-1]) for curve in curves)
    cut_j = max(
        whole_j - sum(float(np.diff(curve.at(edges_us))[0]) for curve in curves), 0.0
    )
    cut_us = whole_us - (end_us - start_us)
    energy, time = fraction(cut_j, whole_j), cut_us / whole_us
    late_us = start_us - min(int(curve.t_us[0]) for curve in curves)
    # Devices that are read in turn begin and end within one interval of each other.
    is_turn = max(late_us, cut_us - late_us) <= max(
        device.interval_us for device in devices
    )
    if not is_turn and exceeds(max_lost, energy, time):
        late = min((first, last), key=lambda device: int(np.ptp(device.curve.t_us)))
        raise LogFormatError(
            f"{late.span}, of {whole_us / US_PER_S:,.1f} s that others cover: "
            f"{loss_text(energy, time, 'the')}; complete the log, leave this device "
            f"out (--devices){allowing(energy, time)}"
        )
    repairs = [repair for device in devices for repair in device.repairs]
    if cut_us:
        repairs.append(Repair("all devices", CUT, 0, cut_j, energy, cut_us / US_PER_S))
    return round_keeping_energy(power_w + add_w), repairs


def repaired_rows(repairs: Sequence[Repair]) -> dict[str, int]:
    """Return the rows of repairs by cause.

    Devices that share a clock change it once.
    """
    rows: dict[str, list[int]] = {}
    for of in repairs:
        rows.setdefault(of.cause, []).append(of.n_rows)
    by_clock = (REPEATED_HOURS, SKIPPED_HOURS)
    result = {
        cause: (max if cause in by_clock else sum)(n) for cause, n in rows.items()
    }
    return {cause: n for cause, n in result.items() if n}


def files_in(path: Path, *endings: str) -> list[Path]:
    """Return the files in a folder by their endings, packed or not, or a path alone."""
    if not path.is_dir():
        return [path]
    result = sorted(p for p in path.iterdir() if {*endings} & {*p.suffixes[-2:]})
    if not result:
        raise LogFormatError(
            f"{path}: no {one_of(f'*{ending}' for ending in endings)} in this folder; "
            "give a folder of logs"
        )
    return result


def check_devices(path: Path, wanted: Sequence[str], known: Iterable[str]) -> None:
    """Raise `LogFormatError` for devices to take that are not there."""
    if missing := sorted({*wanted} - {*known}):
        raise LogFormatError(
            f"{path}: no device {one_of(missing)} (have: {one_of(sorted(known))}); "
            "correct devices (--devices)"
        )


def of_devices(
    devices: Sequence[Device],
    named: tuple[str, str, int],
    step_ms: int,
    options: Reading,
    *,
    what: str,
    counts: Mapping[str, int],
    add_w: float = 0.0,
    repairs: Sequence[Repair] = (),
    **facts: Any,
) -> PowerProfile:
    """Return the profile of devices, summed over the time that they share.

    `what` they are called in its counts; further arguments as for `measured`.
    """
    power_w, result = sum_w(devices, step_ms, options.max_lost, add_w=add_w)
    unshared = unshared_s([device.curve for device in devices])
    return measured(
        named,
        step_ms,
        power_w,
        options,
        repairs=[*result, *repairs],
        counts={**counts, f"seconds_that_not_all_{what}_cover": unshared},
        **facts,
    )


def joint_hash(hashes: Sequence[str]) -> str:
    """Return the hash of several files; of one it is its own."""
    joined = hashlib.sha256("".join(hashes).encode()).hexdigest()
    return joined if len(hashes) > 1 else hashes[0]


def measured(
    named: tuple[str, str, int],
    step_ms: int,
    power_w: Float32Array,
    options: Reading,
    *,
    source: str,
    meter: MeterModel,
    repairs: Sequence[Repair],
    counts: Mapping[str, int],
    bandwidth_hz: float | None = None,
    **facts: Any,
) -> PowerProfile:
    """Return a profile of measured power, trimmed as the options say.

    `named` are its id, workload and nodes; `source` is taken where they name none; the
    bandwidth is what the meter, and the step where it is longer than its interval,
    leave where it is not given.
    """
    interval_s, window_s, step_s = (
        meter.polled_s or 0.0,
        meter.window_s or 0.0,
        step_ms / MS_PER_S,
    )
    if bandwidth_hz is None:
        bandwidth_hz = resolvable_range(window_s, meter.interval_s).flagged_hz
        if options.restore:
            bandwidth_hz = meter.restored_hz
        if step_s > LONGER * interval_s:
            bandwidth_hz = min(
                bandwidth_hz, resolvable_range(max(window_s, step_s), step_s).flagged_hz
            )
    is_assumed = (meter.kind, meter.field) == ("unknown", "other")
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
        counts=repaired_rows(repairs) | dict(counts),
        repairs=list(repairs),
        **({"gpu_model": meter.gpu} | facts),
    )
    profile = PowerProfile(*named, step_ms, power_w, provenance)
    return trim_profile(profile, options.from_s, options.to_s, options.idle_w)
