"""Import WattAMeter logs: the measured GPU and CPU power of all nodes of one job.

A node is one NVML log (GPUs) with one RAPL log (CPU packages), or one CodeCarbon log of
WattAMeter 0.5 that holds both. The job's power is their sum over the nodes, over the time that all
logs share. The resampling is exact in energy: each step of the profile is the difference of the
cumulative energy at its edges. How readings are repaired, all counted by cause:

- Readings of power are joined by straight lines, as in the published data set. A failed read
  (logged as 0, or below) is bridged by one.
- A power reading above the limit (800 W) takes the next good reading, as in the published cleaning
  of doi:10.7799/3025227; at the end of the log, the last good one.
- CPU power comes from the energy counter alone, difference over difference in time: it holds from
  one stamp to the next, and the logged power columns (which are the same, and are missing in the
  last row before each flush) are not read. A failed read (0) is left out: the counter's difference
  over the longer interval keeps the energy.
- A counter that drops within a run of the logger has wrapped if adding its range gives a power
  within the limit. Any other drop or jump, a drop from one run to the next, and an interval so long
  that the counter may have wrapped unseen, is bridged by the mean power of the two beside it.

References
----------
.. [1] WattAMeter, https://github.com/NatLabRockies/WattAMeter
.. [2] Data set of arXiv:2604.07345, doi:10.7799/3025227
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from diploee.errors import LogFormatError, one_of
from diploee.importers.power_logs.curves import Device, longest_gap_s, measured, sum_w
from diploee.importers.power_logs.options import WattAMeterOptions
from diploee.importers.power_logs.wattameter_log import Channel, WattAMeterLog, parse_log
from diploee.profiles.profile import PowerProfile
from diploee.profiles.resample import US_PER_S, EnergyCurve, unshared_s
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.textio.source import read_bytes

GAP_INTERVALS = 5
"""A gap is longer than this many sampling intervals."""
PARTNERS = {"gpu": "an NVML log (GPUs)", "cpu": "a RAPL log (CPU packages)"}
"""Logs that each node has, by the devices in them."""

_KIND_PREFIX = re.compile(r"^(nvml|rapl)(_\d+)*_", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_HOST = re.compile(r"node_([^_]+?)(?:\.log)?$")


def import_wattameter(paths: Sequence[Path | str], **given: Any) -> PowerProfile:
    """Import the WattAMeter logs of one job as one whole-job profile.

    Logs are paired by the ``node_<host>`` part of their names, else by the name after ``nvml_`` or
    ``rapl_``; a single pair needs no such name. In a folder, the ``*.log`` files with ``nvml`` or
    ``rapl`` in their name are taken, or all where there is none.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, or folders of logs.
    **given
        Fields of `diploee.importers.WattAMeterOptions`, such as ``workload``, which is
        needed; the logs must be of as many nodes as ``n_nodes``, if that is given.
    """
    options = WattAMeterOptions(**given)
    chosen = _one_job(_find(paths), options.slurm_id)
    digest = hashlib.sha256()
    logs = {}
    for path in sorted(chosen, key=lambda path: (path.name, path)):
        data = read_bytes(path)
        digest.update(data)
        logs[path] = parse_log(path, data)
    n_nodes = _count_nodes(logs)
    if options.n_nodes not in (None, n_nodes):
        raise LogFormatError(
            f"{chosen[0].parent}: logs of {n_nodes} nodes, expected {options.n_nodes}; "
            "give the logs of all nodes of one job, or correct the node count"
        )
    counts: Counter[str] = Counter()
    devices = [device for log in logs.values() for device in _log_power(log, options, counts)]
    power_w = sum_w(devices, options.step_ms)
    counts["seconds_that_not_all_logs_cover"] = unshared_s([device.curve for device in devices])
    interval_us = float(np.median([log.interval_us for log in logs.values()]))
    return measured(
        *options.of_nodes(n_nodes),
        options.step_ms,
        power_w,
        options,
        source=", ".join(path.name for path in sorted(logs)),
        hashes=[digest.hexdigest()],
        interval_s=round(interval_us / US_PER_S, 6),
        window_s=options.averaging_window_s,
        counts=dict(counts),
        notes=_notes(devices),
    )


def _slurm_id(path: Path) -> str:
    found = _SLURM_ID.search(path.name)
    return found[1] if found else ""


def _place(path: Path) -> tuple[str, str, Path]:
    """Return the Slurm job and the node that a log's name tells, and the log."""
    host = _HOST.search(path.name)
    return _slurm_id(path), host[1] if host else _KIND_PREFIX.sub("", path.name), path


def _find(paths: Sequence[Path | str]) -> list[Path]:
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            logs = sorted(path.glob("*.log"))
            if not logs:
                raise LogFormatError(f"{path}: no *.log in this folder; give a folder of logs")
            known = [log for log in logs if re.search("nvml|rapl", log.name, re.IGNORECASE)]
            found.update(dict.fromkeys(known or logs))
        else:
            found[path] = None
    if not found:
        raise LogFormatError("no WattAMeter log given; give NVML and RAPL logs or their folder")
    return sorted(found, key=_place)


def _one_job(paths: list[Path], slurm_id: str | None) -> list[Path]:
    ids = sorted(set(map(_slurm_id, paths)) - {""})
    folder = paths[0].parent
    if slurm_id is not None:
        if slurm_id not in ids:
            raise LogFormatError(
                f"{folder}: no log of Slurm job {slurm_id} (have: {one_of(ids)}); choose one"
            )
        return [path for path in paths if _slurm_id(path) == slurm_id]
    if len(ids) > 1:
        raise LogFormatError(
            f"{folder}: logs of {len(ids)} Slurm jobs ({one_of(ids)}), expected one; "
            "choose one with 'slurm_id'"
        )
    return paths


def _count_nodes(logs: dict[Path, WattAMeterLog]) -> int:
    """Return the number of nodes once each has its GPUs and its CPUs."""
    if len(logs) == 2:
        # Just one pair, whatever the names: they name two nodes only where both hold a host.
        hosts = {match[1] for path in logs if (match := _HOST.search(path.name))}
        kinds = {log.device_types for log in logs.values()}
        if len(hosts) < 2 and kinds == {frozenset({"gpu"}), frozenset({"cpu"})}:
            return 1
    n_nodes = 0
    for _, node in groupby(sorted(logs, key=_place), key=lambda path: _place(path)[:2]):
        n_nodes += 1
        paths = list(node)
        having = {kind: [p for p in paths if kind in logs[p].device_types] for kind in PARTNERS}
        for kind, of_kind in having.items():
            if len(of_kind) > 1:
                raise LogFormatError(
                    f"{of_kind[1]}: a second log of {kind.upper()} power of one node, after "
                    f"{of_kind[0].name}, expected one; leave one out"
                )
        for kind, of_kind in having.items():
            if not of_kind:
                raise LogFormatError(
                    f"{paths[0]}: no partner, expected {PARTNERS[kind]} of the same node; "
                    "add it, with the same 'node_<host>' in its name"
                )
    return n_nodes


def _notes(devices: list[Device]) -> str:
    start = max(device.curve.t_us[0] for device in devices).astype("datetime64[us]")
    end = min(device.curve.t_us[-1] for device in devices).astype("datetime64[us]")
    longest = max(devices, key=lambda device: device.longest_gap_s)
    return (
        f"{start} to {end} naive local time; "
        "power readings joined by straight lines, CPU power from energy counters; "
        "a remainder of less than a step at the end is left out; longest time between good "
        f"readings {longest.longest_gap_s:g} s ({Path(longest.name).name})"
    )


def _log_power(
    log: WattAMeterLog, options: WattAMeterOptions, counts: Counter[str]
) -> list[Device]:
    """Repair a log and sum its devices: those with power columns, and those with counters."""
    if log.t_us.size < 2:
        raise LogFormatError(
            f"{log.path}:{log.line[0]}: a single row, expected two or more; give a complete log"
        )
    above = f"readings_above_{options.max_reading_w:g}_w"
    n_gaps = int(np.count_nonzero(np.diff(log.t_us) > GAP_INTERVALS * log.interval_us))
    counts.update(log.counts | {"gaps": n_gaps, "failed_reads": 0, above: 0})
    counts.update({"counter_wraps": 0, "counter_intervals_bridged": 0})
    longest_s = 0.0
    power_w, energy_j = np.zeros(log.t_us.size), np.zeros(log.t_us.size)
    for channel, values in log.readings.items():
        good = values > 0
        counts["failed_reads"] += int(np.count_nonzero(~good))
        if channel.kind == "power":
            over = values * channel.unit > options.max_reading_w
            counts[above] += int(np.count_nonzero(over))
            good &= ~over
        n_good = int(np.count_nonzero(good))
        if n_good < (1 if channel.kind == "power" else 2):
            problem = f"{n_good} good {channel.kind} readings in {good.size} rows"
            _fail_device(log, channel, problem)
        if channel.kind == "power":
            power_w += _filled_w(log.t_us, values * channel.unit, good, over)
        else:
            counter_j = values[good] * channel.unit
            energy_j += _counter_energy_j(log, channel, counter_j, good, options, counts)
        gap_s = longest_gap_s(
            log.t_us, np.flatnonzero(good), options.max_gap_s, log.where, channel.device
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


def _filled_w(
    t_us: Int64Array, watts: Float64Array, good: BoolArray, over: BoolArray
) -> Float64Array:
    at = np.flatnonzero(good)
    filled = np.interp(t_us, t_us[at], watts[at])
    following = np.minimum(np.searchsorted(at, np.flatnonzero(over)), at.size - 1)
    filled[over] = watts[at[following]]
    return filled


def _counter_energy_j(
    log: WattAMeterLog,
    channel: Channel,
    counter_j: Float64Array,
    good: BoolArray,
    options: WattAMeterOptions,
    counts: Counter[str],
) -> Float64Array:
    """Return the energy of one counter since the log's first row [J], at every row."""
    t_us = log.t_us[good]
    dt_s = np.diff(t_us) / US_PER_S
    range_j = options.counter_range_j if channel.device.startswith("cpu") else np.inf
    step_j = np.diff(counter_j)
    drop = step_j < 0
    unwrapped_j = np.where(drop, step_j + range_j, step_j)
    plausible = (unwrapped_j >= 0) & (unwrapped_j <= options.max_reading_w * dt_s)
    plausible &= dt_s * options.max_reading_w < range_j
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


def _fail_device(log: WattAMeterLog, channel: Channel, problem: str) -> NoReturn:
    raise LogFormatError(
        f"{log.path}:{log.line[0]}: {channel.device}: {problem}, expected working readings; "
        "leave this log out or check the node's driver"
    )
