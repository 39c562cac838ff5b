"""Repair the readings of one WattAMeter log and add its devices up to one energy curve each kind.

Rules, all counted by cause:

- A failed read (logged as 0, or below) of a power is bridged by a straight line.
- A power reading above the limit (800 W) takes the next good reading, as in the published cleaning
  of doi:10.7799/3025227; at the end of the log, the last good one.
- CPU power comes from the energy counter alone, difference over difference in time: it holds from
  one stamp to the next, and the logged power columns (which are the same, and are missing in the
  last row before each flush) are not read. A failed read (0) is left out: the counter's difference
  over the longer interval keeps the energy.
- A counter that drops within a run of the logger has wrapped if adding its range gives a power
  within the limit. Any other drop or jump, a drop from one run to the next, and an interval so long
  that the counter may have wrapped unseen, is bridged by the mean power of the two beside it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from diploee.errors import LogFormatError
from diploee.importers.power_logs.curves import Device, longest_gap_s
from diploee.importers.power_logs.wattameter_log import Channel, WattAMeterLog
from diploee.profiles.resample import US_PER_S, EnergyCurve
from diploee.tables import BoolArray, Float64Array, Int64Array

AMD_COUNTER_RANGE_J = 65_532.610987
"""Where the RAPL package counter of the measured EPYC nodes wraps (max_energy_range_uj)."""

GAP_INTERVALS = 5
"""A gap is longer than this many sampling intervals."""


@dataclass(frozen=True)
class ReadingLimits:
    """Bounds of a plausible reading."""

    max_reading_w: float  # highest plausible power of one device [W]
    counter_range_j: float  # energy at which a CPU counter wraps [J]
    max_gap_s: float  # longest gap that is bridged [s]


def log_power(log: WattAMeterLog, limits: ReadingLimits, counts: Counter[str]) -> list[Device]:
    """Repair a log and sum its devices: those with power columns, and those with counters."""
    if log.t_us.size < 2:
        raise LogFormatError(
            f"{log.path}:{log.line[0]}: a single row, expected two or more; give a complete log"
        )
    above = f"readings_above_{limits.max_reading_w:g}_w"
    n_gaps = int(np.count_nonzero(np.diff(log.t_us) > GAP_INTERVALS * log.interval_us))
    counts.update(log.counts | {"gaps": n_gaps, "failed_reads": 0, above: 0})
    counts.update({"counter_wraps": 0, "counter_intervals_bridged": 0})
    longest_s = 0.0
    power_w, energy_j = np.zeros(log.t_us.size), np.zeros(log.t_us.size)
    for channel, values in log.readings.items():
        failed = values <= 0
        counts["failed_reads"] += int(np.count_nonzero(failed))
        if channel.kind == "power":
            watts = values * channel.unit
            over = watts > limits.max_reading_w
            counts[above] += int(np.count_nonzero(over))
            good = ~failed & ~over
            _check_good(log, channel, good, 1)
            power_w += _fill(log.t_us, watts, failed, over, good)
        else:
            good = ~failed
            _check_good(log, channel, good, 2)
            counter_j = values[good] * channel.unit
            energy_j += _counter_energy_j(log, channel, counter_j, good, limits, counts)
        gap_s = longest_gap_s(
            log.t_us, np.flatnonzero(good), limits.max_gap_s, log.where, channel.device
        )
        longest_s = max(longest_s, gap_s)
    curves = {
        "power": EnergyCurve.from_readings(log.t_us, power_w),
        "counter": EnergyCurve(log.t_us, energy_j),
    }
    kinds = {channel.kind for channel in log.readings}
    return [
        Device(str(log.path), curve, log.interval_us, longest_s)
        for kind, curve in curves.items()
        if kind in kinds
    ]


def _fill(
    t_us: Int64Array, watts: Float64Array, failed: BoolArray, over: BoolArray, good: BoolArray
) -> Float64Array:
    at = np.flatnonzero(good)
    filled = watts.copy()
    filled[failed] = np.interp(t_us[failed], t_us[at], watts[at])
    following = np.minimum(np.searchsorted(at, np.flatnonzero(over)), at.size - 1)
    filled[over] = watts[at[following]]
    return filled


def _counter_energy_j(
    log: WattAMeterLog,
    channel: Channel,
    counter_j: Float64Array,
    good: BoolArray,
    limits: ReadingLimits,
    counts: Counter[str],
) -> Float64Array:
    """Return the energy of one counter since the log's first row [J], at every row."""
    t_us = log.t_us[good]
    dt_s = np.diff(t_us) / US_PER_S
    range_j = limits.counter_range_j if channel.device.startswith("cpu") else np.inf
    step_j = np.diff(counter_j)
    drop = step_j < 0
    unwrapped_j = np.where(drop, step_j + range_j, step_j)
    plausible = (unwrapped_j >= 0) & (unwrapped_j <= limits.max_reading_w * dt_s)
    plausible &= dt_s * limits.max_reading_w < range_j
    plausible &= ~drop | (np.diff(log.run[good]) == 0)
    if not plausible.any():
        _fail_device(log, channel, "no two readings whose difference is a plausible power")
    counts["counter_wraps"] += int(np.count_nonzero(drop & plausible))
    counts["counter_intervals_bridged"] += int(np.count_nonzero(~plausible))
    step_w = _bridge(np.where(plausible, unwrapped_j, 0.0) / dt_s, plausible)
    energy_j = np.concatenate(([0.0], np.cumsum(step_w * dt_s)))
    # Failed reads before the first and after the last good one: the nearest power goes on.
    before_s = np.maximum(t_us[0] - log.t_us, 0) / US_PER_S
    after_s = np.maximum(log.t_us - t_us[-1], 0) / US_PER_S
    at_rows_j = np.interp(log.t_us, t_us, energy_j) - before_s * step_w[0] + after_s * step_w[-1]
    return np.asarray(at_rows_j - at_rows_j[0], dtype=np.float64)


def _bridge(step_w: Float64Array, plausible: BoolArray) -> Float64Array:
    """Give each implausible interval the mean of the nearest plausible ones on either side."""
    at = np.flatnonzero(plausible)
    wrong = np.flatnonzero(~plausible)
    right = np.searchsorted(at, wrong)
    before = at[np.maximum(right - 1, 0)]
    after = at[np.minimum(right, at.size - 1)]
    before = np.where(right == 0, after, before)
    step_w[wrong] = (step_w[before] + step_w[after]) / 2
    return step_w


def _check_good(log: WattAMeterLog, channel: Channel, good: BoolArray, least: int) -> None:
    n_good = int(np.count_nonzero(good))
    if n_good < least:
        problem = f"{n_good} good {channel.kind} readings in {good.size} rows"
        _fail_device(log, channel, problem)


def _fail_device(log: WattAMeterLog, channel: Channel, problem: str) -> NoReturn:
    raise LogFormatError(
        f"{log.path}:{log.line[0]}: {channel.device}: {problem}, expected working readings; "
        "leave this log out or check the node's driver"
    )
