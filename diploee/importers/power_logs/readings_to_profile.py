"""Conversion of power readings to a profile, shared by all formats.

Each device's readings are sorted by time, failed ones are bridged by straight lines up
to a maximum gap, and devices are summed over their common time. Every repair is counted
and limited (`repairs`). The module of a format defines its columns and detects failed
readings.
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
from diploee.importers.power_logs.options import ImportOptions
from diploee.importers.power_logs.repairs import (
    CUT,
    FAILED,
    HELD,
    REPEATED_HOURS,
    SKIPPED_HOURS,
    RepairCount,
    allowing_text,
    count_bridged,
    exceeds,
    fraction,
    loss_text,
    sort_timestamps,
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
    uncovered_s,
)

LONGER = 1.05
"""Ratio of step to readings' interval above which the step limits the bandwidth."""


@dataclass(frozen=True, eq=False)
class DeviceReadings:
    """Repaired readings of a GPU, a node, or all devices of a log."""

    name: str  # file name, for errors
    label: str  # device within the file, for errors; may be empty
    curve: EnergyCurve
    interval_us: float  # usual interval of the readings [us]
    longest_gap_s: float = 0.0  # longest time between good readings [s]
    sha256: str = ""  # hash of the file
    n_readings: int = 0  # rows of readings in the file
    repairs: tuple[Repair, ...] = ()

    @property
    def span(self) -> str:
        """Name, start and end of the readings, as text for errors."""
        start, end = self.curve.t_us[[0, -1]].astype("datetime64[us]")
        return f"{self.name}: {self.label and f'{self.label}, '}{start} to {end}"

    @property
    def clock_shift_s(self) -> float:
        """Total shift of timestamps by summer time changes of the clock [s]."""
        signs = {REPEATED_HOURS: 1, SKIPPED_HOURS: -1}
        return sum(
            signs.get(repair.cause, 0) * repair.time_s for repair in self.repairs
        )

    def extended_to(
        self, start_us: int, end_us: int, max_lost: float | None
    ) -> DeviceReadings:
        """Return the device with its first and last power held to a start and an end.

        Fail if a larger fraction of the time is missing than `max_lost`.
        """
        t_us, power_w = self.curve.t_us, self.curve.power_w
        assert power_w is not None
        n_before, n_after = int(t_us[0] > start_us), int(t_us[-1] < end_us)
        if not n_before + n_after:
            return self
        whole_us, covered_us = end_us - start_us, int(t_us[-1] - t_us[0])
        held_us = np.concatenate(
            ([start_us] * n_before, t_us, [end_us] * n_after)
        ).astype(np.int64)
        curve = EnergyCurve.from_readings(
            held_us, np.pad(power_w, (n_before, n_after), mode="edge")
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
                f"the log, leave the run out{allowing_text(energy, time)}"
            )
        device, held_s = Path(self.name).name, (whole_us - covered_us) / US_PER_S
        repair = Repair(device, HELD, n_before + n_after, held_j, energy, held_s)
        return replace(self, curve=curve, repairs=(*self.repairs, repair))


@dataclass(frozen=True)
class SkippedRun(Brief):
    """A run or folder of runs that could not be read, with the problem."""

    place: str  # path or name of the run
    problem: str  # reason, in one line


class ProfilesOfRuns(list[PowerProfile]):
    """List of the profiles of runs in a folder.

    `skipped` contains the unreadable runs with their problems.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: list[SkippedRun] = []

    def add_run(self, place: str, read: Callable[[], PowerProfile]) -> None:
        """Append the profile of a run, or add the run to `skipped` on an error."""
        try:
            self.append(read())
        except InputError as error:
            self.skipped.append(SkippedRun(place, str(error)))


def repaired_device(
    account: RepairCount,
    rows: Int64Array,
    t_us: Int64Array,
    power_w: Float64Array,
    failed: Mapping[str, BoolArray] | None = None,
) -> DeviceReadings:
    """Return a device with its readings [W] sorted by time and repaired.

    NaN readings are bridged by straight lines, and counted by cause.
    """
    t_us, kept_rows = sort_timestamps(account, rows, t_us, power_w)
    rows, power_w = rows[kept_rows], power_w[kept_rows]
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
        lost = np.flatnonzero(is_cause[kept_rows] if failed else is_cause)
        lost_s = lost.size * interval_us / US_PER_S
        account.add(
            cause,
            rows[lost],
            filled_w[lost].mean() * lost_s if lost.size else 0.0,
            lost_s,
        )
    gap_s = count_bridged(account, rows, t_us, good, curve)
    repairs = account.repair_fractions(
        float(curve.energy_j[-1]), (t_us[-1] - t_us[0]) / US_PER_S
    )
    return DeviceReadings(
        str(account.log.path),
        account.device,
        curve,
        interval_us,
        gap_s,
        repairs=repairs,
    )


def undo_averaging(device: DeviceReadings, meter: MeterModel) -> DeviceReadings:
    """Return a device with the meter's averaging undone.

    The spectrum of the readings is divided by the meter's gain.
    """
    step_us = max(round(meter.interval_s * US_PER_S), 1)
    power_w = meter.restore(common_power_w([device.curve], step_us), step_us / US_PER_S)
    t_us = device.curve.t_us[0] + np.arange(power_w.size + 1) * step_us
    energy_j = np.concatenate(([0.0], np.cumsum(power_w))) * (step_us / US_PER_S)
    return replace(device, curve=EnergyCurve(t_us, energy_j))


def sum_w(
    devices: Sequence[DeviceReadings],
    step_ms: int,
    max_lost: float | None,
    *,
    add_w: float = 0.0,
) -> tuple[Float32Array, list[Repair]]:
    """Return the devices' total mean power in each step of shared time, and repairs.

    `add_w` is added to the total [W]. Rounding conserves the energy. The repairs are
    those of the devices and the time that is cut off because not all devices cover it.
    Devices that share too little time are refused.
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
            f"out (--devices){allowing_text(energy, time)}"
        )
    repairs = [repair for device in devices for repair in device.repairs]
    if cut_us:
        repairs.append(Repair("all devices", CUT, 0, cut_j, energy, cut_us / US_PER_S))
    return round_keeping_energy(power_w + add_w), repairs


def repaired_rows(repairs: Sequence[Repair]) -> dict[str, int]:
    """Return the numbers of repaired rows by cause.

    A clock change counts once for all devices, as they share a clock.
    """
    rows: dict[str, list[int]] = {}
    for repair in repairs:
        rows.setdefault(repair.cause, []).append(repair.n_rows)
    by_clock = (REPEATED_HOURS, SKIPPED_HOURS)
    totals = {
        cause: (max if cause in by_clock else sum)(n) for cause, n in rows.items()
    }
    return {cause: n for cause, n in totals.items() if n}


def files_in(path: Path, *endings: str) -> list[Path]:
    """Return the path if it is a file, or a folder's files with certain endings."""
    if not path.is_dir():
        return [path]
    result = sorted(p for p in path.iterdir() if {*endings} & {*p.suffixes[-2:]})
    if not result:
        raise LogFormatError(
            f"{path}: no {one_of(f'*{ending}' for ending in endings)} in this folder; "
            "give a folder of logs"
        )
    return result


def check_devices(
    path: Path, requested: Sequence[str], available: Iterable[str]
) -> None:
    """Raise `LogFormatError` if requested devices are not in the log."""
    if missing := sorted({*requested} - {*available}):
        raise LogFormatError(
            f"{path}: no device {one_of(missing)} (have: {one_of(sorted(available))}); "
            "correct devices (--devices)"
        )


def profile_of_devices(
    devices: Sequence[DeviceReadings],
    named: tuple[str, str, int],
    step_ms: int,
    options: ImportOptions,
    *,
    what: str,
    counts: Mapping[str, int],
    add_w: float = 0.0,
    repairs: Sequence[Repair] = (),
    **facts: Any,
) -> PowerProfile:
    """Return the profile of devices' total power over their shared time.

    `what` is the word for devices in the profile's counts. Other arguments are those of
    `measured_profile`.
    """
    power_w, sum_repairs = sum_w(devices, step_ms, options.max_lost, add_w=add_w)
    unshared = uncovered_s([device.curve for device in devices])
    return measured_profile(
        named,
        step_ms,
        power_w,
        options,
        repairs=[*sum_repairs, *repairs],
        counts={**counts, f"seconds_that_not_all_{what}_cover": unshared},
        **facts,
    )


def joint_hash(hashes: Sequence[str]) -> str:
    """Return a common hash of several files, or the hash of a single file."""
    joined = hashlib.sha256("".join(hashes).encode()).hexdigest()
    return joined if len(hashes) > 1 else hashes[0]


def measured_profile(
    named: tuple[str, str, int],
    step_ms: int,
    power_w: Float32Array,
    options: ImportOptions,
    *,
    source: str,
    meter: MeterModel,
    repairs: Sequence[Repair],
    counts: Mapping[str, int],
    bandwidth_hz: float | None = None,
    **facts: Any,
) -> PowerProfile:
    """Return a profile of measured power, trimmed as the options specify.

    `named` is id, workload and number of nodes. `source` is used if the options have
    none. By default the bandwidth is that of the meter, or of means over the step if
    this is longer than the meter's interval.
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
