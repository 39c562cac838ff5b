"""Repairs of power logs, and the limits above which a log is refused.

Each device's readings are sorted by time. Repairs are counted per device, by the energy
and time of the affected readings. If they affect more than 1 % of a device's energy or
5 % of its time, the log is refused.

- If a local clock changes to or from summer time, in the night to Sunday, rows that are
  an hour early or late are corrected. This does not count as a loss.
- If rows are out of order or have repeated timestamps, the longest increasing
  subsequence is kept, and the other rows are dropped if they are within the limits.
  Otherwise the rows are sorted, if no two of them are then closer than the readings'
  interval (as in shuffled files). Rows that still overlap belong to several devices or
  to a clock that was set back, and are refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from diploee.base.errors import LogFormatError, plural
from diploee.base.tables import BoolArray, Float64Array, Int64Array
from diploee.profiles.profile import Repair
from diploee.profiles.resample import US_PER_S, EnergyCurve

MAX_LOST_ENERGY, MAX_LOST_TIME = 0.01, 0.05
"""Maximum fractions of a device's energy and time in lost or repeated rows.

For readings held at the ends only the time counts."""
GAP_INTERVALS = 3.0
"""Minimum length of a gap in usual intervals of the readings (`USUAL`)."""
LATE = 1.4
"""Wait in usual intervals above which a wait is counted as bridged, with no limit."""
USUAL = 0.9
"""Quantile of the intervals that is the usual interval, as readings are irregular."""
CLOSE = 0.75
"""Fraction of the interval below which readings are too close for one device."""
MIN_IN_TURN, IN_TURN = 30, 2.0
"""Minimum rows, and ratio of differences, that show two devices in alternating rows.

The ratio is of each row's difference from the next row to that from the row after."""
PAUSE_US = 2_000_000
"""Maximum pause of a logger at a clock change [us]."""

HOUR_US = 3_600 * US_PER_S
_WEEK_US, _SATURDAY_22_US, _NIGHT_US = 168 * HOUR_US, 70 * HOUR_US, 6 * HOUR_US
"""Length of a week, Saturday 22:00 in a week, and night from then to Sunday 4:00 [us].

A week starts on Thursday, as 1 January 1970 was a Thursday."""

OUT_OF_ORDER, REPEATED, SORTED = (
    "rows_out_of_order",
    "rows_at_a_repeated_time",
    "rows_sorted",
)
HELD, BRIDGED, FAILED = "reads_held_at_the_ends", "gaps_bridged", "failed_reads"
UNTIMED, CUT = "rows_without_time", "ends_that_not_all_devices_cover"
REPEATED_HOURS, SKIPPED_HOURS = "repeated_hours", "skipped_hours"
SHORT = "intervals_cut_short"
LIMITED = {
    OUT_OF_ORDER: "behind others in time",
    REPEATED: "at a time that is there already",
    HELD: "without a reading, to an end of the log",
    UNTIMED: "without a time",
    SHORT: "closer to the one before than the readings' interval",
}
"""Causes with limits (lost, repeated or held rows), with descriptions of the rows."""


_Entry = tuple[str, int, int, float, float]
"""Cause, first row, number of rows, energy [J] and time [s] of a kind of repair."""


@dataclass(frozen=True)
class PowerLog:
    """A log file of readings, with limits on its repairs."""

    path: Path
    # Maximum time without a good reading [s], at least `max_gap_intervals`
    max_gap_s: float
    # Maximum lost fraction of energy and time; None: MAX_LOST_ENERGY, MAX_LOST_TIME
    max_lost: float | None = None
    is_local: bool = False  # True if the clock may change to and from summer time
    max_gap_intervals: float = 0.0
    max_bridged: float = MAX_LOST_TIME  # maximum fraction of time in gaps


@dataclass
class RepairCount:
    """Counter of the repairs of one device's readings, in rows, energy and time."""

    log: PowerLog
    device: str
    where: Callable[[int], str]  # file and line by row number
    entries: list[_Entry] = field(default_factory=list)

    def add(self, cause: str, rows: Int64Array, energy_j: float, time_s: float) -> None:
        """Count repaired rows of a cause with their energy [J] and time [s]."""
        if rows.size:
            self.entries.append(
                (cause, int(rows[0]), rows.size, float(energy_j), float(time_s))
            )

    def repair_fractions(self, energy_j: float, time_s: float) -> tuple[Repair, ...]:
        """Return the repairs as fractions of a device's total energy [J] and time [s].

        Fail if the lost energy or time exceeds the limits.
        """
        for causes in ((HELD,), (OUT_OF_ORDER, REPEATED, UNTIMED, SHORT)):
            lost = [entry for entry in self.entries if entry[0] in causes]
            energy = fraction(sum(entry[3] for entry in lost), energy_j)
            time = fraction(sum(entry[4] for entry in lost), time_s)
            if exceeds(self.log.max_lost, 0.0 if causes == (HELD,) else energy, time):
                self._fail(lost, energy, time)
        return tuple(
            Repair(self.name, cause, n_rows, lost_j, fraction(lost_j, energy_j), lost_s)
            for cause, _, n_rows, lost_j, lost_s in self.entries
        )

    @property
    def name(self) -> str:
        """Name of the file and of the device in the file."""
        return " ".join(filter(None, (self.log.path.name, self.device)))

    def _fail(
        self, lost: list[tuple[str, int, int, float, float]], energy: float, time: float
    ) -> NoReturn:
        cause, first, *_ = max(lost, key=lambda entry: entry[3:])
        n_rows = sum(entry[2] for entry in lost if entry[0] == cause)
        named = self.device and f" of {self.device}"
        raise LogFormatError(
            f"{self.where(first)}: {plural(n_rows, 'row')}{named} {LIMITED[cause]}, "
            f"this the first: {loss_text(energy, time)}; distinguish devices of one "
            "name (--device-column, --gpus, query 'uuid'), correct a clock that was "
            "set back or comes to an hour twice (write offsets from UTC), remove "
            "copies, cut the log there, leave the device out (--devices)"
            f"{allowing_text(energy, time)}"
        )


def exceeds(max_lost: float | None, energy: float, time: float) -> bool:
    """Return True if a lost fraction of energy or time is above the limit."""
    limits = (
        (MAX_LOST_ENERGY, MAX_LOST_TIME) if max_lost is None else (max_lost, max_lost)
    )
    return energy > limits[0] or time > limits[1]


def fraction(part: float, whole: float) -> float:
    """Return part / whole, at most 1; 1 if the whole is 0 and the part is not."""
    return min(part / whole, 1.0) if whole > 0 else float(part > 0)


def loss_text(energy: float, time: float, owner: str = "its") -> str:
    """Return the lost fractions and their limits as text for an error."""
    return (
        f"{energy:.1%} of {owner} energy and {time:.1%} of {owner} time lost, doubled "
        f"or held, expected {MAX_LOST_ENERGY:.0%} and {MAX_LOST_TIME:.0%} at most"
    )


def allowing_text(energy: float, time: float) -> str:
    """Return text with the option ``--max-lost`` that would allow a loss."""
    return (
        ", or allow it (--max-lost "
        f"{min(np.ceil(max(energy, time) * 100 + 1e-6), 100) / 100:g})"
    )


def sort_timestamps(
    account: RepairCount, rows: Int64Array, t_us: Int64Array, power_w: Float64Array
) -> tuple[Int64Array, Int64Array]:
    """Return increasing timestamps on one clock [us], and the indices of their rows.

    Rows out of order or with repeated times are dropped or sorted, and counted. Fail if
    the dropped rows exceed the limits.
    """
    every = np.arange(t_us.size)
    step_us = np.diff(t_us)
    if (step_us > 0).all() and (
        not account.log.is_local or step_us.max(initial=0) < HOUR_US
    ):
        return t_us, every
    forward_us = step_us[step_us > 0]
    interval_us = float(np.median(forward_us)) if forward_us.size else 1.0
    if account.log.is_local:
        t_us = _undo_clock_changes(account, rows, t_us, power_w, interval_us)
        step_us = np.diff(t_us)
        if (step_us > 0).all():
            return t_us, every
    # A row represents half of the time to both neighbours; at a jump, half of the usual
    # interval.
    is_near = (step_us > 0) & (step_us <= GAP_INTERVALS * interval_us)
    sides_us = np.pad(
        np.where(is_near, step_us, interval_us), 1, constant_values=interval_us
    )
    row_s = (sides_us[:-1] + sides_us[1:]) / (2 * US_PER_S)
    row_j = np.nan_to_num(power_w) * row_s
    whole_j, whole_s = float(row_j.sum()), float(row_s.sum())

    def is_too_much(lost: Int64Array) -> bool:
        lost_j, lost_s = float(row_j[lost].sum()), float(row_s[lost].sum())
        energy, time = (
            fraction(lost_j, whole_j - lost_j),
            fraction(lost_s, whole_s - lost_s),
        )
        return exceeds(account.log.max_lost, energy, time)

    kept_rows = longest_increasing(t_us)
    dropped = np.setdiff1d(every, kept_rows, assume_unique=True)
    if is_too_much(dropped):
        order = np.argsort(t_us, kind="stable")
        is_new = np.diff(t_us[order], prepend=t_us[order[0]] - 1) > 0
        sorted_us = np.diff(t_us[order[is_new]])
        usual_us = float(np.median(sorted_us)) if sorted_us.size else 0.0
        close = order[is_new][1:][sorted_us < CLOSE * usual_us]
        # Rows of several devices come in clusters, those of one device evenly.
        wide_us = sorted_us[sorted_us > usual_us / CLOSE].sum()
        has_runs = GAP_INTERVALS * np.count_nonzero(step_us < 0) < rows.size
        overlaps = has_runs and usual_us < CLOSE * interval_us
        overlaps |= wide_us > MAX_LOST_TIME * sorted_us.sum()
        if not overlaps and not is_too_much(np.append(close, order[~is_new])):
            account.add(SORTED, rows[order != every], 0.0, 0.0)
            kept_rows, dropped = order[is_new], np.sort(order[~is_new])
    is_repeated = np.isin(t_us[dropped], t_us[kept_rows])
    for cause, is_cause in ((REPEATED, is_repeated), (OUT_OF_ORDER, ~is_repeated)):
        lost = dropped[is_cause]
        account.add(cause, rows[lost], row_j[lost].sum(), row_s[lost].sum())
    if is_too_much(dropped):
        account.repair_fractions(
            whole_j - float(row_j[dropped].sum()), float(row_s[kept_rows].sum())
        )
    return t_us[kept_rows], kept_rows


def _undo_clock_changes(
    account: RepairCount,
    rows: Int64Array,
    t_us: Int64Array,
    power_w: Float64Array,
    interval_us: float,
) -> Int64Array:
    """Return local timestamps with changes to and from summer time undone [us].

    A change is in the night to Sunday. In autumn, timestamps go back by an hour or half
    an hour, and this time is covered twice. In spring, exactly one hour is missing.
    """
    step_us = np.diff(t_us)
    shift_us = np.zeros(t_us.size, dtype=np.int64)
    for hour_us in (HOUR_US, HOUR_US // 2):
        for row in np.flatnonzero(clock_setbacks(t_us, hour_us)).tolist():
            past_us, next_us = t_us[: row + 1], t_us[row + 1 :]
            begin = int(np.max(np.flatnonzero(step_us[:row] <= 0), initial=-1)) + 1
            covered_us = t_us[row] - max(next_us[0], past_us[begin])
            n_before = np.count_nonzero(past_us[begin:] > next_us[0])
            goes_on = (
                next_us.size < 2
                or 0 < next_us[1] - next_us[0] <= GAP_INTERVALS * interval_us
            )
            if goes_on and n_before * interval_us >= covered_us / 2:
                shift_us[row + 1 :] += hour_us
                again = row + 1 + np.flatnonzero(next_us[: n_before + 1] <= t_us[row])
                energy_j = np.nan_to_num(power_w[again]).sum() * interval_us / US_PER_S
                account.add(
                    REPEATED_HOURS, rows[again[:1]], energy_j, hour_us / US_PER_S
                )
    skipped_us = t_us[1:] // HOUR_US * HOUR_US - HOUR_US
    skips = np.abs(step_us - HOUR_US - interval_us) <= interval_us / 2 + PAUSE_US
    skips &= _is_night(t_us) & (t_us[:-1] < skipped_us) & (interval_us <= HOUR_US)
    for row in np.flatnonzero(skips).tolist():
        shift_us[row + 1 :] -= HOUR_US
        account.add(SKIPPED_HOURS, rows[row + 1 : row + 2], 0.0, HOUR_US / US_PER_S)
    return t_us + shift_us


def count_bridged(
    account: RepairCount,
    rows: Int64Array,
    t_us: Int64Array,
    good: Int64Array,
    curve: EnergyCurve,
) -> float:
    """Count bridged gaps, held ends and short intervals of a curve as repairs.

    Return the longest time without a good reading [s], including both ends. Fail if a
    gap, or the total of all gaps, is too long.
    """
    first, last = good[[0, -1]].tolist()
    ends = [row for row in (0, t_us.size - 1) if not first <= row <= last]
    points = np.sort(np.append(good, ends)) if ends else good
    gap_us, steps_us = np.diff(t_us[points]), np.diff(t_us)
    interval_us, usual_us = np.quantile(steps_us, (0.5, USUAL))
    longest = int(np.argmax(gap_us))
    gap_s, span_s = gap_us[longest] / US_PER_S, (t_us[-1] - t_us[0]) / US_PER_S
    log, is_gap = account.log, gap_us > GAP_INTERVALS * usual_us
    bridged_s = float((gap_us[is_gap] - interval_us).sum()) / US_PER_S
    at_most = max(log.max_bridged, log.max_lost or 0.0)
    max_gap_s = max(log.max_gap_s, log.max_gap_intervals * interval_us / US_PER_S)
    if gap_s > max_gap_s or bridged_s > at_most * span_s:
        raise LogFormatError(
            f"{account.where(int(rows[points[longest + 1]]))}: {gap_s:,.1f} s without "
            f"a good reading{account.device and f' of {account.device}'}, expected "
            f"{max_gap_s:.4g} s at most, and {at_most:.0%} of its time in gaps at "
            f"most, found {bridged_s / span_s:.1%}; split the log here, or raise "
            "max_gap_s (--max-gap-s) or max_lost (--max-lost)"
        )
    energy_j = curve.energy_j
    end_rows = np.concatenate((np.arange(first), np.arange(last + 1, t_us.size)))
    account.add(
        HELD,
        rows[end_rows],
        energy_j[first] + energy_j[-1] - energy_j[last],
        (t_us[first] - t_us[0] + t_us[-1] - t_us[last]) / US_PER_S,
    )
    is_gap |= (np.diff(points) == 1) & (gap_us > LATE * usual_us)
    is_gap &= (points[:-1] >= first) & (points[1:] <= last)
    bridged = 1 - interval_us / gap_us[is_gap]
    gap_j = np.diff(energy_j[points])[is_gap]
    gaps_s = gap_us[is_gap] / US_PER_S
    account.add(BRIDGED, rows[points[1:][is_gap]], gap_j @ bridged, gaps_s @ bridged)
    if np.quantile(steps_us, 1 - USUAL) >= CLOSE * interval_us:
        # A short interval that no late reading explains shows a clock that was set
        # back by the missing time.
        two_us = np.pad(t_us[2:] - t_us[:-2], 1)
        is_short = steps_us < CLOSE * interval_us
        is_short &= np.maximum(two_us[:-1], two_us[1:]) < (1 + CLOSE) * interval_us
        short_us = steps_us[is_short]
        lost = interval_us / short_us - 1
        cut = np.flatnonzero(is_short) + 1
        account.add(
            SHORT,
            rows[cut],
            np.diff(energy_j)[is_short] @ lost,
            short_us @ lost / US_PER_S,
        )
    return float(gap_s)


def is_alternating(t_us: Int64Array, power_w: Float64Array) -> bool:
    """Return True if rows alternate between two power levels or two waits.

    This happens if two devices are read in turn.
    """
    wait_us = np.diff(t_us)
    if wait_us.size < MIN_IN_TURN:
        return False
    min_us = float(np.median(wait_us)) / 20  # smaller differences are from rounding
    for values, smallest in ((power_w[~np.isnan(power_w)], 0.0), (wait_us, min_us)):
        first, second = values[1:] - values[:-1], values[2:] - values[:-2]
        next_by, after_by = np.median(np.abs(first)), np.median(np.abs(second))
        if (
            next_by > max(IN_TURN * after_by, smallest)
            and np.mean(first[1:] * first[:-1] < 0) > USUAL
        ):
            return True
    return False


def clock_setbacks(t_us: Int64Array, hour_us: int) -> BoolArray:
    """Return a mask of steps back by `hour_us` [us] in the night to Sunday."""
    step_us = np.diff(t_us)
    forward_us = step_us[step_us > 0]
    interval_us = float(np.median(forward_us)) if forward_us.size else 0.0
    runs_on = np.abs(step_us + hour_us - interval_us) <= interval_us / 2 + PAUSE_US
    # In hourly rows, an hour back means equal timestamps.
    is_back = (step_us < 0) | ((step_us == 0) & (hour_us == HOUR_US))
    return np.asarray(runs_on & is_back & _is_night(t_us))


def _is_night(t_us: Int64Array) -> BoolArray:
    is_night = (t_us - _SATURDAY_22_US) % _WEEK_US <= _NIGHT_US
    return np.asarray(is_night[:-1] & is_night[1:])


def longest_increasing(t_us: Int64Array) -> Int64Array:
    """Return the row indices of the longest increasing subsequence of timestamps.

    It contains the first of several rows with equal timestamps.
    """
    if (t_us[1:] > t_us[:-1]).all():
        return np.arange(t_us.size)
    # Patience sorting: lowest last timestamp of all increasing subsequences with k + 1
    # rows so far.
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
    rows = np.empty(len(last_row), dtype=np.int64)
    row = last_row[-1]
    for k in reversed(range(rows.size)):
        rows[k] = row
        row = int(row_before[row])
    return rows
