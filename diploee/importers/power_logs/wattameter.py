"""Importer of WattAMeter logs: GPU and CPU power of all nodes of one job.

A node has one NVML log (GPUs) and one RAPL log (CPU packages), or one CodeCarbon log of
WattAMeter 0.5 with both. The job's power is the sum over all nodes, in the common time
of all logs. Resampling keeps the energy exact: each step of the profile has the
difference of the cumulative energy at its edges. Lines before the header are skipped. A
header may be repeated (append mode) with another order of columns. Rows may lack the
last power columns, which WattAMeter derives from energy counters.

Power and repairs, which are counted by cause:

- Power readings are joined by straight lines, as in the published data set. A failed
  reading (0 or negative) is bridged.
- A power reading above the limit (800 W) is replaced by the next valid one, or at the
  end of the log by the last valid one. The published cleaning of the data set
  (doi:10.7799/3025227) does the same.
- CPU power is the difference of the energy counter over the difference in time,
  constant between two timestamps. The logged power columns have the same values and are
  not used, as they are missing in the last row before each flush of the log. A failed
  reading (0) is omitted; the counter's difference over the longer interval keeps the
  energy. A GPU's counter is updated only every 20 to 100 ms (PETSc's
  PetscLogGpuEnergyMeter), so the energy between two readings may include one more
  update.
- If a counter drops within a run of the logger, it has wrapped around, provided that
  adding its range gives a power within the limit. All other drops and jumps, drops
  between two runs, and intervals long enough for an unnoticed wrap are bridged by the
  mean power of the two adjacent intervals.

References
----------
.. [1] WattAMeter, https://github.com/NatLabRockies/WattAMeter
.. [2] Data set of arXiv:2604.07345, doi:10.7799/3025227
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import pyarrow.compute as pc

from diploee.base.errors import LogFormatError, one_of, plural, shown
from diploee.base.tables import BoolArray, Float64Array, Int64Array
from diploee.importers.power_logs.options import WattAMeterOptions
from diploee.importers.power_logs.readings_to_profile import (
    DeviceReadings,
    check_devices,
    files_in,
    profile_of_devices,
    undo_averaging,
)
from diploee.importers.power_logs.repairs import (
    FAILED,
    PowerLog,
    RepairCount,
    count_bridged,
    sort_timestamps,
)
from diploee.importers.text.delimited_tables import HeaderTable, ReadTable, join_names
from diploee.importers.text.file_bytes import read_bytes
from diploee.importers.text.numbers_and_labels import Number, fail_values, numbers
from diploee.importers.text.text_lines import TextLines, decode_text
from diploee.importers.text.timestamps import parse_timestamps
from diploee.profiles.meter_response import known_meter
from diploee.profiles.profile import PowerProfile, Repair
from diploee.profiles.resample import US_PER_S, EnergyCurve

REFRESH_S = 0.1
"""Maximum time between two refreshes of a GPU's energy counter [s]."""
PARTNERS = {"gpu": "an NVML log (GPUs)", "cpu": "a RAPL log (CPU packages)"}
"""Required logs of each node by device type."""

_KIND_PREFIX = re.compile(r"^(nvml|rapl)(_\d+)*_", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_HOST = re.compile(r"node_([^_]+?)(?:\.log)?$")
_HEADER = re.compile(rb"^# ?timestamp\b[^\n]*", re.M)
_STAMP = r"^\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d\.\d{1,6}$"
_READING = Number(may_be_missing=False)
_COLUMN = re.compile(r"time\s+\(s\)|[a-z]+\s+\d+\s+\(W\)|[^\s\[\]]+\[[^\]]*\]|\S+")
_TAG = re.compile(
    r"(gpu|cpu)(?:-|\s+)([0-9]{1,4})(-r[0-9]+)?\s*(\[mW\]|\[mJ\]|\[uJ\]|\(W\))"
)
_DERIVED = re.compile(r".*\[W\]")
_POWER_TAGS = "'gpu-0[mW]', 'gpu-0[mJ]', 'cpu-0[uJ]', 'cpu 0 (W)' or 'gpu 0 (W)'"

Kind = Literal["power", "counter"]


@dataclass(frozen=True, order=True)
class Channel:
    """A log column with power or an energy counter of one device."""

    # Such as ``"gpu-0"``; devices of a log have a power or a counter column
    device: str
    kind: Kind  # power at the stamp, or an energy counter
    unit: float  # size of the column's unit [W or J]


_UNITS: Mapping[str, tuple[Kind, float]] = {
    "[mW]": ("power", 1e-3),
    "[mJ]": ("counter", 1e-3),
    "[uJ]": ("counter", 1e-6),
    "(W)": ("power", 1.0),
}
"""Kind and size of the unit by a column's unit tag, in order of preference.

One column is read per device, power before energy. A CPU package may be listed once per
interface (-r0, -r1), and the first is read. cpu-0-core is part of the package and not a
device."""


@dataclass(frozen=True, eq=False)
class WattAMeterLog:
    """The rows of one WattAMeter log, in increasing order of time."""

    path: Path
    t_us: Int64Array  # local times without zone, microseconds since 1970
    line: Int64Array  # line of each row, from 1
    # Header block of each row, from 0; the logger restarted at each block
    run: Int64Array
    # Readings in the unit of their column, failed ones included
    readings: dict[Channel, Float64Array]
    counts: dict[str, int]  # counts of odd rows, by cause
    account: RepairCount  # dropped or moved rows

    @property
    def device_types(self) -> frozenset[str]:
        """Device types in the log: ``"gpu"``, ``"cpu"`` or both."""
        return frozenset(channel.device[:3] for channel in self.readings)

    @property
    def interval_us(self) -> float:
        """Median interval between rows [us], 0 for a single row."""
        return float(np.median(np.diff(self.t_us))) if self.t_us.size > 1 else 0.0

    def where(self, row: int) -> str:
        """Return file and line of a row, for errors."""
        return f"{self.path}:{self.line[row]}"


class _Section(NamedTuple):
    """A section of a log: a header and the rows below the header."""

    sheet: HeaderTable
    channels: dict[Channel, str]  # column names by channel
    n_short: int  # rows without the last columns, if these may be missing


def import_wattameter(paths: Sequence[Path | str], **fields: Any) -> PowerProfile:
    """Import the WattAMeter logs of one job as one whole-job profile.

    Logs of a node are paired by the ``node_<host>`` part of the file name, else by the
    name after ``nvml_`` or ``rapl_``; a single pair may have any names. In a folder,
    the ``*.log`` files with ``nvml`` or ``rapl`` in the name are read, or all logs if
    there are none.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, or folders of logs.
    **fields
        Fields of `diploee.importers.WattAMeterOptions`; ``workload`` is required, and
        ``n_nodes``, if specified, must be the number of nodes in the logs.
    """
    options = WattAMeterOptions(**fields)
    chosen = _logs_of_one_job(_log_paths(paths), options.slurm_id)
    digest = hashlib.sha256()
    logs = {}
    for path in sorted(chosen, key=lambda path: (path.name, path)):
        data = read_bytes(path)
        digest.update(data)
        logs[path] = parse_log(path, data, options.max_gap_s, options.max_lost)
    logs = _select_devices(logs, options.devices)
    n_nodes = _count_nodes(logs)
    if options.n_nodes not in (None, n_nodes):
        raise LogFormatError(
            f"{chosen[0].parent}: logs of {plural(n_nodes, 'node')}, expected "
            f"{options.n_nodes}; give the logs of all nodes of one job, or correct "
            "the node count"
        )
    counts: Counter[str] = Counter()
    devices = [
        device for log in logs.values() for device in _log_power(log, options, counts)
    ]
    interval_us = float(np.median([log.interval_us for log in logs.values()]))
    polled_s = round(interval_us / US_PER_S, 6)
    kinds = {
        channel.kind
        for log in logs.values()
        for channel in log.readings
        if channel.device[:3] == "gpu"
    }
    field = "energy" if kinds == {"counter"} else "power.draw"
    meter = known_meter(field, options.gpu, polled_s, options.averaging_window_s)
    if options.restore:
        if mixed := [path for path, log in logs.items() if len(log.device_types) > 1]:
            raise LogFormatError(
                f"{mixed[0]}: GPUs and CPUs in one log can't be restored, as CPUs "
                "have another meter; import it without --restore"
            )
        gpus = {str(path) for path, log in logs.items() if log.device_types == {"gpu"}}
        devices = [
            undo_averaging(device, meter) if device.name in gpus else device
            for device in devices
        ]
    return profile_of_devices(
        devices,
        options.profile_identity(n_nodes),
        options.step_ms,
        options,
        what="logs",
        source=", ".join(path.name for path in sorted(logs)),
        source_sha256=digest.hexdigest(),
        meter=meter,
        counts=counts,
        notes=_notes(devices),
    )


def _select_devices(
    logs: dict[Path, WattAMeterLog], devices: list[str]
) -> dict[Path, WattAMeterLog]:
    """Return the logs with only the readings of the named devices (default: all)."""
    names = {channel.device for log in logs.values() for channel in log.readings}
    check_devices(next(iter(logs)), devices, names)
    if not devices:
        return logs
    selected = {
        path: {
            channel: values
            for channel, values in log.readings.items()
            if channel.device in devices
        }
        for path, log in logs.items()
    }
    return {
        path: replace(logs[path], readings=readings)
        for path, readings in selected.items()
        if readings
    }


def _slurm_id(path: Path) -> str:
    match = _SLURM_ID.search(path.name)
    return match[1] if match else ""


def _job_and_node(path: Path) -> tuple[str, str, Path]:
    """Return a log's sort key: Slurm job and node from its name, and its path."""
    host = _HOST.search(path.name)
    return _slurm_id(path), host[1] if host else _KIND_PREFIX.sub("", path.name), path


def _log_paths(paths: Sequence[Path | str]) -> list[Path]:
    result: list[Path] = []
    for path in map(Path, paths):
        logs = files_in(path, ".log")
        named = [log for log in logs if re.search("nvml|rapl", log.name, re.IGNORECASE)]
        result += named or logs
    if not result:
        raise LogFormatError(
            "no WattAMeter log given; give NVML and RAPL logs or their folder"
        )
    return sorted(dict.fromkeys(result), key=_job_and_node)


def _logs_of_one_job(paths: list[Path], slurm_id: str | None) -> list[Path]:
    ids = sorted(set(map(_slurm_id, paths)) - {""})
    if slurm_id not in ids and (slurm_id is not None or len(ids) > 1):
        raise LogFormatError(
            f"{paths[0].parent}: logs of Slurm jobs {one_of(ids)}, expected one job; "
            "choose one with 'slurm_id'"
        )
    return [path for path in paths if slurm_id in (None, _slurm_id(path))]


def _count_nodes(logs: dict[Path, WattAMeterLog]) -> int:
    """Return the number of nodes; fail unless each has one GPU log and one CPU log."""
    if len(logs) == 2:
        # One pair with any names, unless the names have two different hosts.
        hosts = {match[1] for path in logs if (match := _HOST.search(path.name))}
        kinds = {log.device_types for log in logs.values()}
        if len(hosts) < 2 and kinds == {frozenset({"gpu"}), frozenset({"cpu"})}:
            return 1
    n_nodes = 0
    for _, node in groupby(
        sorted(logs, key=_job_and_node), key=lambda path: _job_and_node(path)[:2]
    ):
        n_nodes += 1
        paths = list(node)
        for kind, what in PARTNERS.items():
            n_logs = sum(kind in logs[path].device_types for path in paths)
            if n_logs != 1:
                raise LogFormatError(
                    f"{paths[-1]}: {plural(n_logs, 'log')} of {kind.upper()} power of "
                    f"its node, no partner or a second one, expected {what} of each "
                    "node; give it 'node_<host>' in its name, or leave one out"
                )
    return n_nodes


def _notes(devices: list[DeviceReadings]) -> str:
    start = max(device.curve.t_us[0] for device in devices).astype("datetime64[us]")
    end = min(device.curve.t_us[-1] for device in devices).astype("datetime64[us]")
    longest = max(devices, key=lambda device: device.longest_gap_s)
    return (
        f"{start} to {end} naive local time; power readings joined by straight lines, "
        "CPU power from energy counters; a remainder of less than a step at the end "
        f"is left out; longest time between good readings {longest.longest_gap_s:g} s "
        f"({Path(longest.name).name})"
    )


def _log_power(
    log: WattAMeterLog, options: WattAMeterOptions, counts: Counter[str]
) -> list[DeviceReadings]:
    """Return the repaired sums of a log's power channels and counter channels."""
    if log.t_us.size < 2:
        raise LogFormatError(
            f"{log.path}:{log.line[0]}: a single row, expected two or more; give a "
            "complete log"
        )
    above = f"readings_above_{options.max_reading_w:g}_w"
    counts.update(log.counts | {"counter_wraps": 0})
    every, span_s = np.arange(log.t_us.size), float(np.ptp(log.t_us)) / US_PER_S
    longest_s = 0.0
    repairs: list[Repair] = []
    sums: dict[Kind, Float64Array] = {}
    for channel, values in log.readings.items():
        account = RepairCount(log.account.log, channel.device, log.where)
        good = values > 0
        over = np.zeros(values.size, dtype=bool)
        if channel.kind == "power":
            over = values * channel.unit > options.max_reading_w
            good &= ~over
        good_rows = np.flatnonzero(good)
        if good_rows.size < (1 if channel.kind == "power" else 2):
            _fail_device(log, channel, good_rows.size)
        if channel.kind == "power":
            filled_w = _filled_w(log.t_us, values * channel.unit, good, over)
            summed, curve = filled_w, EnergyCurve.from_readings(log.t_us, filled_w)
        else:
            counter_j = values[good] * channel.unit
            summed = _counter_energy_j(
                log, channel, counter_j, good, options, account, counts
            )
            curve = EnergyCurve(log.t_us, summed)
            filled_w = np.append(np.diff(summed) / np.diff(log.t_us), 0.0) * US_PER_S
        sums[channel.kind] = sums.get(channel.kind, 0.0) + summed
        interval_s = log.interval_us / US_PER_S
        for cause, is_lost in ((FAILED, ~good & ~over), (above, over)):
            lost = np.flatnonzero(is_lost)
            account.add(
                cause, lost, filled_w[lost].sum() * interval_s, lost.size * interval_s
            )
        longest_s = max(
            longest_s, count_bridged(account, every, log.t_us, good_rows, curve)
        )
        repairs += account.repair_fractions(float(curve.energy_j[-1]), span_s)
    curves = [
        EnergyCurve.from_readings(log.t_us, summed)
        if kind == "power"
        else EnergyCurve(log.t_us, summed)
        for kind, summed in sums.items()
    ]
    devices = [
        DeviceReadings(str(log.path), "", curve, log.interval_us, longest_s)
        for curve in curves
    ]
    whole_j = sum(float(device.curve.energy_j[-1]) for device in devices)
    row_repairs = log.account.repair_fractions(whole_j, span_s)
    devices[0] = replace(devices[0], repairs=(*row_repairs, *repairs))
    return devices


def _filled_w(
    t_us: Int64Array, watts: Float64Array, good: BoolArray, over: BoolArray
) -> Float64Array:
    rows = np.flatnonzero(good)
    filled = np.interp(t_us, t_us[rows], watts[rows])
    following = np.minimum(np.searchsorted(rows, np.flatnonzero(over)), rows.size - 1)
    filled[over] = watts[rows[following]]
    return filled


def _counter_energy_j(
    log: WattAMeterLog,
    channel: Channel,
    counter_j: Float64Array,
    good: BoolArray,
    options: WattAMeterOptions,
    account: RepairCount,
    counts: Counter[str],
) -> Float64Array:
    """Return one counter's energy since the log's first row [J], shape (n_rows,)."""
    t_us = log.t_us[good]
    dt_s = np.diff(t_us) / US_PER_S
    is_cpu = channel.device.startswith("cpu")
    range_j = options.counter_range_j if is_cpu else np.inf
    most_j = options.max_reading_w * (dt_s + (0.0 if is_cpu else REFRESH_S))
    step_j = np.diff(counter_j)
    drop = step_j < 0
    unwrapped_j = np.where(drop, step_j + range_j, step_j)
    plausible = (unwrapped_j >= 0) & (unwrapped_j <= most_j)
    plausible &= dt_s * options.max_reading_w < range_j
    plausible &= ~drop | (np.diff(log.run[good]) == 0)
    if not plausible.any():
        _fail_device(log, channel, 0)
    counts["counter_wraps"] += int(np.count_nonzero(drop & plausible))
    step_w = _bridge_implausible(
        np.where(plausible, unwrapped_j, 0.0) / dt_s, plausible
    )
    wrong = np.flatnonzero(~plausible)
    bridged_j, bridged_s = float(step_w[wrong] @ dt_s[wrong]), float(dt_s[wrong].sum())
    account.add(
        "counter_intervals_bridged", np.flatnonzero(good)[wrong], bridged_j, bridged_s
    )
    energy_j = np.concatenate(([0.0], np.cumsum(step_w * dt_s)))
    # Failed reads before the first and after the last good read: the nearest power
    # continues.
    before_s = np.maximum(t_us[0] - log.t_us, 0) / US_PER_S
    after_s = np.maximum(log.t_us - t_us[-1], 0) / US_PER_S
    at_rows_j = (
        np.interp(log.t_us, t_us, energy_j)
        - before_s * step_w[0]
        + after_s * step_w[-1]
    )
    return np.asarray(at_rows_j - at_rows_j[0], dtype=np.float64)


def _bridge_implausible(step_w: Float64Array, plausible: BoolArray) -> Float64Array:
    """Return power with implausible intervals set to their neighbours' mean [W]."""
    good = np.flatnonzero(plausible)
    wrong = np.flatnonzero(~plausible)
    right = np.searchsorted(good, wrong)
    previous = good[np.maximum(right - 1, 0)]
    following = good[np.minimum(right, good.size - 1)]
    previous = np.where(right == 0, following, previous)
    step_w[wrong] = (step_w[previous] + step_w[following]) / 2
    return step_w


def _fail_device(log: WattAMeterLog, channel: Channel, n_good: int) -> NoReturn:
    """Raise the error for a device without good readings; suggest the other devices."""
    others = [other.device for other in log.readings if log.readings[other].any()]
    raise LogFormatError(
        f"{log.path}:{log.line[0]}: {channel.device}: "
        f"{plural(n_good, f'good {channel.kind} reading')} in "
        f"{log.t_us.size:,} rows, as of a device that reports none or of the second "
        "die of a package; take the others "
        f"({' '.join(f'--devices {other}' for other in others) or 'of other logs'})"
    )


def parse_log(
    path: Path, data: bytes, max_gap_s: float = 3_600.0, max_lost: float | None = None
) -> WattAMeterLog:
    """Parse the bytes of one log, with rows in increasing order of time."""
    text = decode_text(path, data, "a WattAMeter log").single_spaced()
    blocks = _sections(text)
    tables = [
        sheet.read(
            {"timestamp": sheet.names[0]}
            | {channel.device: name for channel, name in channels.items()},
            "a WattAMeter header",
        )
        for sheet, channels, _ in blocks
    ]
    sizes = [len(table) for table in tables]
    if not sum(sizes):
        problem = "a header without rows, expected readings; give a complete log"
        text.fail(blocks[-1].sheet.header_line, problem)
    t_us = np.concatenate([_timestamps_us(table) for table in tables])
    readings = {
        channel: np.concatenate(
            [numbers(table, channel.device, _READING) for table in tables]
        )
        for channel in blocks[0].channels
    }
    lines = np.concatenate(
        [block.sheet.text.filled_line_numbers(0) for block in blocks]
    )
    limits = PowerLog(path, max_gap_s, max_lost, is_local=True)
    account = RepairCount(limits, "", lambda row: f"{path}:{lines[row]}")
    every = np.arange(t_us.size)
    interval_s = (
        float(np.median(np.abs(np.diff(t_us)))) / US_PER_S if t_us.size > 1 else 1.0
    )
    row_w = np.zeros(t_us.size)
    for channel, values in readings.items():
        row_w += _row_w(channel, values, interval_s)
    t_us, rows = sort_timestamps(account, every, t_us, row_w)
    counts = {
        "repeated_headers": len(blocks) - 1,
        "rows_without_power": sum(block.n_short for block in blocks),
    }
    run = np.repeat(np.arange(len(blocks)), sizes)
    readings = {channel: values[rows] for channel, values in readings.items()}
    return WattAMeterLog(path, t_us, lines[rows], run[rows], readings, counts, account)


def _row_w(channel: Channel, values: Float64Array, interval_s: float) -> Float64Array:
    """Estimate the power of a channel in each row, for the energy of lost rows [W]."""
    if channel.kind == "power":
        return np.maximum(values, 0.0) * channel.unit
    steps = np.diff(values[values > 0])
    usual_j = float(np.median(steps)) * channel.unit if steps.size else 0.0
    return np.full(values.size, max(usual_j, 0.0) / max(interval_s, 1e-6))


def _sections(text: TextLines) -> list[_Section]:
    starts = [match.start() for match in _HEADER.finditer(text.data)]
    preamble = text.before_offset(starts[0]) if starts else text
    rows = preamble.without_comments("#")
    if rows.first_row or not starts:
        text.fail(
            rows.start_line,
            "a row without a header '# timestamp reading-time[ns] ...' above it, the "
            f"first line is {shown(text.first_row)}; restore the file's beginning",
        )
    parts = zip(starts, [*starts[1:], len(text.data)], strict=True)
    blocks = [
        _read_section(text.before_offset(end).from_offset(start))
        for start, end in parts
    ]
    for block in blocks[1:]:
        if block.channels.keys() != blocks[0].channels.keys():
            text.fail(
                block.sheet.header_line,
                (
                    f"the devices change to {', '.join(block.channels.values())} from "
                    f"{', '.join(blocks[0].channels.values())} in line "
                    f"{blocks[0].sheet.header_line}, expected the same; split the log "
                    "here"
                ),
            )
    return blocks


def _read_section(part: TextLines) -> _Section:
    """Return the section that the header in the first line declares."""
    names = tuple(_COLUMN.findall(part.first_row.lstrip("# ")))
    tags = [match for name in names if (match := _TAG.fullmatch(name))]
    columns: dict[str, tuple[Channel, str]] = {}
    for unit, (kind, size) in _UNITS.items():
        for tag in sorted(tags, key=lambda tag: bool(tag[3])):
            if tag[4] == unit:
                device = f"{tag[1]}-{int(tag[2])}"
                columns.setdefault(device, (Channel(device, kind, size), tag[0]))
    if not columns:
        part.fail(
            part.first_line,
            (
                "no column of GPU or CPU package power in the header (found: "
                f"{join_names(names[1:9])}), expected tags such as {_POWER_TAGS}; give "
                "an NVML, RAPL or CodeCarbon log"
            ),
        )
    channels = dict(columns[device] for device in sorted(columns))
    n_least = len(names)
    if any(channel.kind == "counter" for channel in channels):
        while _DERIVED.fullmatch(names[n_least - 1]):  # the last rows may lack these
            n_least -= 1
    rows = part.from_offset(
        part.data.find(b"\n") + 1 or len(part.data)
    ).without_comments("#")
    rows, n_short = rows.pad_rows(" ", n_least, len(names))
    return _Section(
        HeaderTable(rows, names, " ", False, part.first_line), channels, n_short
    )


def _timestamps_us(table: ReadTable) -> Int64Array:
    words = table.columns["timestamp"]
    good = np.asarray(pc.match_substring_regex(words, _STAMP), dtype=bool)
    fail_values(table, "timestamp", good, "YYYY-mm-dd_HH:MM:SS.ffffff")
    iso = pc.replace_substring(words, "_", "T")
    return parse_timestamps(replace(table, columns={"timestamp": iso}), "timestamp").us
