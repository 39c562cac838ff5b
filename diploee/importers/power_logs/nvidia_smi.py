"""Importer of logs of ``nvidia-smi --query-gpu=timestamp,power.draw,... --format=csv``.

The logs contain GPU power only, without the CPUs. This is stated in the profile's
boundary, unless the user adds a constant for the CPUs. A file is the log of one
machine; several are summed over their common time.

A file has one row per GPU and sampling time, often without the GPU's index, and values
with or without units. Failed readings are ``[N/A]``, ``[Not Supported]`` and the like,
or negative. Headers are repeated if a log was appended to, and the last line is
truncated if the logger was killed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.errors import LogFormatError, plural
from diploee.base.tables import Float64Array, Int64Array, arrow_numbers
from diploee.importers.power_logs.options import NvidiaSmiOptions
from diploee.importers.power_logs.readings_to_profile import (
    DeviceReadings,
    check_devices,
    files_in,
    joint_hash,
    profile_of_devices,
    repaired_device,
    undo_averaging,
)
from diploee.importers.power_logs.repairs import (
    FAILED,
    HOUR_US,
    UNTIMED,
    PowerLog,
    RepairCount,
    clock_setbacks,
    is_alternating,
)
from diploee.importers.text.delimited_tables import (
    DELIMITERS,
    HeaderTable,
    ReadTable,
    read_header,
)
from diploee.importers.text.numbers_and_labels import numbers, value_text
from diploee.importers.text.text_lines import read_text
from diploee.importers.text.timestamps import Timestamps, parse_timestamps_of_one_clock
from diploee.profiles.meter_response import MeterModel, known_meter
from diploee.profiles.profile import PLUS_CONSTANT, PowerBoundary, PowerProfile, Repair
from diploee.profiles.resample import US_PER_S

POWER_COLUMNS = ("power.draw", "power.draw.average", "power.draw.instant")
"""Columns of power in order of preference, as averaged readings contain no aliases."""
NAME_COLUMNS = ("name", "gpu_name")
"""Columns with the GPU model."""
UNIQUE_COLUMNS = ("uuid", "gpu_uuid", "serial", "gpu_serial")
"""Columns that identify a GPU among all machines."""
LOCAL_COLUMNS = ("index", "pci.bus_id", "gpu_bus_id")
"""Columns that identify a GPU within a machine."""
HOST_COLUMNS = ("host", "hostname", "node", "nodename", "machine", "server")
"""Columns with the machine's name, added by users who log several machines."""
SAME_SPAN = 0.05
"""Maximum difference of starts and ends of several machines' logs in one file.

The difference is a fraction of the logs' time."""
MAX_GPUS = 32
MIN_TICKS = 3
"""Minimum number of ticks for inferring GPUs; fewer may be a log with a gap."""
LOOK_AT_ROWS = 20_000
STAND_OUT = 1.5
"""Minimum ratio of waits between ticks to waits within a tick."""
TOLERATED = 0.02
"""Fraction of waits, at either end, that may be late or early."""
REGULAR = 0.9
"""Minimum fraction of ticks that have a row of every GPU."""

_COLUMNS = {
    "model": NAME_COLUMNS,
    "unique": UNIQUE_COLUMNS,
    "local": LOCAL_COLUMNS,
    "host": HOST_COLUMNS,
}
_EXPECTED = "'timestamp, power.draw [W]'"
_UNIT = r"(?i)\s*(m?W)$"
_FAILED = r"^\[.*\]$|^N/A$|^Not .*$|^Unknown.*$|^ERR.*$"
_BRACKETS = re.compile(r"\s*\[.*\]$")


def import_nvidia_smi(paths: Sequence[Path | str], **fields: Any) -> PowerProfile:
    """Import ``nvidia-smi`` logs of one job as one whole-job profile.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, one per machine, or folders with ``*.csv``, ``*.log`` and ``*.txt`` files,
        plain or compressed.
    **fields
        Fields of `diploee.importers.NvidiaSmiOptions`; ``workload`` is required. By
        default there is one node per file, and the meter follows from the power column
        and the GPU (``gpu``, or the log's column ``name``), see
        `diploee.profiles.known_meter`.
    """
    options = NvidiaSmiOptions(**fields)
    if not paths:
        raise LogFormatError("no nvidia-smi log given; give one per machine")
    files = [
        path
        for given_path in paths
        for path in files_in(Path(given_path), ".csv", ".log", ".txt")
    ]
    machines = [_read_machine(path, options) for path in files]
    nodes = options.n_nodes or sum(machine.n_hosts for machine in machines)
    gpus = [gpu for machine in machines for gpu in machine.gpus]
    _refuse_copies(machines)
    counts: Counter[str] = Counter()
    for machine in machines:
        counts.update(machine.counts)
    columns = sorted({machine.column for machine in machines})
    gpu = options.gpu or next(
        filter(None, (machine.model for machine in machines)), None
    )
    interval_s = round(max(gpu.interval_us for gpu in gpus) / US_PER_S, 6)
    meter = known_meter(columns[-1], gpu, interval_s, options.averaging_window_s)
    if options.restore:
        gpus = [undo_averaging(gpu, meter) for gpu in gpus]
    return profile_of_devices(
        gpus,
        options.profile_identity(nodes),
        options.step_ms,
        options,
        what="gpus",
        add_w=options.add_w * nodes,
        source=", ".join(path.name for path in files),
        source_sha256=joint_hash([machine.sha256 for machine in machines]),
        meter=meter,
        repairs=[repair for machine in machines for repair in machine.repairs],
        counts=counts,
        power_boundary=_boundary(options.add_w),
        notes=_notes(gpus, columns, meter),
        gpus_per_node=len(gpus) // nodes if len(gpus) % nodes == 0 else None,
    )


def _boundary(add_w: float) -> str:
    if add_w == 0:
        return PowerBoundary.GPUS
    return (
        f"GPU power as measured, {PLUS_CONSTANT} {add_w:g} W per node for its CPUs, "
        "which is assumed; no memory, network, fans or power supply"
    )


def _notes(gpus: list[DeviceReadings], columns: list[str], meter: MeterModel) -> str:
    averaging = "the driver does not average it"
    if meter.window_s:
        assumed = " (assumed)" if meter.kind == "unknown" else ""
        averaging = f"the driver averages it over {meter.window_s:g} s{assumed}"
    longest_s = max(gpu.longest_gap_s for gpu in gpus)
    return (
        f"'{', '.join(columns)}' of {len(gpus)} GPUs, naive local time; {averaging}; "
        "readings joined by straight lines; longest time between good readings of a "
        f"GPU {longest_s:g} s"
    )


class _Machine(NamedTuple):
    """The GPUs in one log file, of one machine or several."""

    column: str  # column of power that was read
    gpus: list[DeviceReadings]
    n_hosts: int
    model: str  # model of the first GPU; empty if not in the log
    sha256: str  # hash of the file
    counts: Counter[str]  # counts of odd rows, by cause
    repairs: list[Repair]  # repairs of rows without a GPU
    has_unique_names: bool


def _refuse_copies(machines: list[_Machine]) -> None:
    """Refuse logs with the same GPU twice, by file, unique name, or equal readings."""
    gpus = [gpu for machine in machines for gpu in machine.gpus]
    start_us = max(int(gpu.curve.t_us[0]) for gpu in gpus)
    end_us = min(int(gpu.curve.t_us[-1]) for gpu in gpus)
    owners: dict[object, tuple[_Machine, DeviceReadings]] = {}
    for machine in machines:
        for gpu in machine.gpus:
            t_us, power_w = gpu.curve.t_us, gpu.curve.power_w
            assert power_w is not None
            shared = slice(*np.searchsorted(t_us, (start_us, end_us)))
            keys: list[object] = [machine.sha256]
            if machine.has_unique_names:
                keys.append(gpu.label)
            if np.diff(power_w[shared]).any():
                keys.append((t_us[shared].tobytes(), power_w[shared].tobytes()))
            for key in keys:
                owner, other = owners.setdefault(key, (machine, gpu))
                if owner is not machine:
                    raise LogFormatError(
                        f"{gpu.name}: {gpu.label} has the name or the readings of "
                        f"{other.label} in {other.name}, expected each GPU once; leave "
                        "one out, or put the parts of one machine's log one after the "
                        "other in one file"
                    )


def _read_machine(path: Path, options: NvidiaSmiOptions) -> _Machine:
    """Read an nvidia-smi log file and repair the readings of each GPU."""
    sheet, n_cut = _read_table(path)
    plain = [_BRACKETS.sub("", name) for name in sheet.names]
    powers = [sheet.names[plain.index(name)] for name in POWER_COLUMNS if name in plain]
    powers = powers or ["power.draw [W]"]
    names = {"timestamp": "timestamp"} | {name: name for name in powers}
    for key, usual in _COLUMNS.items():
        columns = (sheet.names[plain.index(name)] for name in usual if name in plain)
        names |= {f"{key}.{k}": name for k, name in enumerate(columns)}
    table = sheet.read(names, "a log of nvidia-smi")
    times = parse_timestamps_of_one_clock(table, "timestamp")
    column, values_w = _power_w(sheet, table, powers)
    counts = Counter(repeated_headers=table.n_headers, cut_rows=n_cut)
    is_local = not times.is_aware.any()
    log = PowerLog(path, options.max_gap_s, options.max_lost, is_local)
    above = f"readings_above_{options.max_reading_w:g}_w"
    too_high = values_w > options.max_reading_w
    failed = ~(values_w >= 0)
    power_w = np.where(too_high | failed, np.nan, values_w)
    result = _gpus(table, times, power_w, options.n_gpus)
    gpus = []
    for name, rows in result.rows.items():
        if options.devices and name not in options.devices:
            continue
        label = name if result.has_unique_names else f"GPU {name}"
        if (
            options.n_gpus is None
            and not result.is_identified
            and is_alternating(times.us[rows], power_w[rows])
        ):
            table.fail(
                int(rows[1]),
                (
                    f"{label.strip()} alternates between two levels or waits, as two "
                    "machines with GPUs of one name: query 'uuid', log a column "
                    "'host', or give the GPUs of all machines in the file (--gpus "
                    f"{2 * len(result.rows)}; {len(result.rows)} of one)"
                ),
            )
        causes = {FAILED: failed[rows], above: too_high[rows]}
        account = RepairCount(log, label, table.where)
        gpus.append(
            repaired_device(account, rows, times.us[rows], power_w[rows], causes)
        )
    check_devices(path, options.devices, result.rows)
    mean_w, interval_s = float(np.nanmean(power_w)), gpus[0].interval_us / US_PER_S
    whole_s = sum(float(np.ptp(gpu.curve.t_us)) for gpu in gpus) / US_PER_S
    whole = RepairCount(log, "", table.where)
    for cause, lost in (
        (UNTIMED, np.flatnonzero(~times.is_present & ~np.isnan(power_w))),
        ("rows_of_incomplete_ticks", result.incomplete),
    ):
        whole.add(cause, lost, mean_w * lost.size * interval_s, lost.size * interval_s)
    repairs = whole.repair_fractions(
        sum(float(gpu.curve.energy_j[-1]) for gpu in gpus), whole_s
    )
    if result.n_hosts > 1:
        counts["machines_in_one_log"] = result.n_hosts
    model = (
        str(table.columns["model.0"][0]).strip()
        if "model.0" in table and len(table)
        else ""
    )
    column = _BRACKETS.sub("", column)
    return _Machine(
        column,
        gpus,
        result.n_hosts,
        model,
        sheet.text.sha256,
        counts,
        list(repairs),
        result.has_unique_names,
    )


def _read_table(path: Path) -> tuple[HeaderTable, int]:
    """Return the table from its header on, and 1 if the last line is cut, else 0."""
    text = read_text(path, f"columns {_EXPECTED}").without_comments("#")
    end = text.data.rfind(b"\n") + 1
    n_cut = int(end > 0 and not (text.data[end:].isspace() or end == len(text.data)))
    text = text.before_offset(end) if n_cut else text
    header = max(text.data.find(b"timestamp"), 0)
    text = text.from_offset(text.data.rfind(b"\n", 0, header) + 1)
    return read_header(text, DELIMITERS), n_cut


def _power_w(
    sheet: HeaderTable, table: ReadTable, names: list[str]
) -> tuple[str, Float64Array]:
    """Return name and values [W] of the first numeric power column.

    Failed readings are NaN.
    """
    for name in names:
        text = pc.utf8_trim_whitespace(table.columns[name])
        is_milli = pc.fill_null(pc.match_substring_regex(text, r"mW$"), False)
        text = pc.replace_substring_regex(text, _UNIT, "")
        failed = pc.match_substring_regex(text, _FAILED)
        text = pc.if_else(failed, pa.scalar("", text.type), text)
        values = numbers(replace(table, columns={name: text}), name)
        if not np.isnan(values).all():
            return name, np.where(
                np.asarray(is_milli, dtype=bool), values / 1000, values
            )
    if not len(table):
        raise LogFormatError(
            f"{sheet.header}: a header without rows, expected readings; give a "
            "complete log"
        )
    table.fail(
        0,
        (
            f"column '{names[0]}' is {value_text(table, names[0], 0)}, and no row "
            "has a number, expected watts; query a GPU that reports its power"
        ),
    )


class _Gpus(NamedTuple):
    """Rows of each GPU by name, identified by columns or inferred from times.

    The name is the GPU's unique id, machine and index, or the position of its rows
    among the rows of the same sampling time (tick).
    """

    rows: dict[str, Int64Array]
    n_hosts: int
    has_unique_names: bool
    is_identified: bool  # True if columns identify all GPUs
    incomplete: Int64Array  # rows in ticks without a row of every GPU


def _gpus(
    table: ReadTable, times: Timestamps, power_w: Float64Array, n_gpus: int | None
) -> _Gpus:
    timed = np.flatnonzero(times.is_present)
    unique, local, host = (
        _row_names(table, timed, key) for key in ("unique", "local", "host")
    )
    names = [
        column
        for column in ([host, local] if unique is None else [unique])
        if column is not None
    ]
    by_name = {"": timed}
    if names:
        encoded = pc.binary_join_element_wise(*names, " ").dictionary_encode()
        group, labels = (
            encoded.indices.to_numpy(zero_copy_only=False),
            encoded.dictionary.to_pylist(),
        )
        by_name = {
            labels[k]: timed[group == k]
            for k in sorted(range(len(labels)), key=labels.__getitem__)
        }
    n_hosts = 1 if host is None else len(pc.unique(host))
    is_one = unique is not None or (local is not None and host is not None)
    each = None if n_gpus is None else n_gpus // max(len(by_name), 1)
    if names and n_gpus and (n_gpus % len(by_name) or (is_one and each != 1)):
        raise LogFormatError(
            f"{table.path}: {plural(len(by_name), 'GPU')} by their column, expected "
            f"{n_gpus}; correct one"
        )
    if is_one:
        # The number of machines is the number of GPUs with the same index
        if host is None and local is not None:
            pairs = pc.unique(
                pc.binary_join_element_wise(local, unique, "\t")
            ).to_pylist()
            n_hosts = max(
                Counter(pair.partition("\t")[0] for pair in pairs).values(),
                default=1,
            )
        return _Gpus(by_name, n_hosts, unique is not None, True, timed[:0])
    split: dict[str, Int64Array] = {}
    lost, n_machines = [timed[:0]], 1
    for name, rows in by_name.items():
        is_known = bool(table.n_headers or each)
        blocks = _rows_by_machine(
            times.us, power_w, rows, None if local is None else each, is_known
        )
        for block, block_rows in enumerate(blocks):
            gpu, n = _gpus_in_ticks(
                table,
                times.us,
                power_w,
                block_rows,
                each and each // len(blocks),
                local,
            )
            machines = len(blocks) * (n if local is not None else 1)
            lost.append(block_rows[gpu < 0])
            for nth in range(n):
                parts, machine = [name], block * n + nth
                if local is None:
                    parts, machine = [*filter(None, [name]), str(nth)], block
                parts += [f"machine {machine + 1}"] * (machines > 1)
                split[" ".join(parts)] = block_rows[gpu == nth]
            n_machines = max(n_machines, machines)
    return _Gpus(
        split, n_hosts * n_machines, False, False, np.sort(np.concatenate(lost))
    )


def _row_names(table: ReadTable, rows: Int64Array, key: str) -> Any:
    """Return the GPU name of each row, from the first filled column of a kind.

    Return None if all columns of the kind are absent or empty.
    """
    for column in (
        table.columns[name] for name in table.columns if name.startswith(f"{key}.")
    ):
        text = pc.utf8_trim_whitespace(column)
        if not pc.all(
            pc.or_(pc.match_substring_regex(text, _FAILED), pc.equal(text, ""))
        ).as_py():
            if rows.size < len(text):
                text = text.take(arrow_numbers(rows))
            return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    return None


def _rows_by_machine(
    t_us: Int64Array,
    power_w: Float64Array,
    rows: Int64Array,
    n_specified: int | None,
    is_known: bool,
) -> list[Int64Array]:
    """Return the rows of each machine, for a file with several logs in sequence.

    Times restart at each log. Two cases are unclear and require the number of GPUs from
    the user: logs without a header between them (it may be one log whose clock was set
    back), and logs with equal content (these may be copies).
    """
    if n_specified == 1:
        return [rows]
    times_us = t_us[rows]
    step_us = np.diff(times_us)
    span_us = int(np.ptp(times_us)) if rows.size else 0
    restarts = np.flatnonzero(step_us < (2 * SAME_SPAN - 1) * span_us)
    if n_specified and n_specified > 1 and restarts.size != n_specified - 1:
        backmost = np.sort(np.argsort(step_us)[: n_specified - 1])
        restarts = backmost[step_us[backmost] < -span_us / 2]
    elif np.count_nonzero(step_us < 0) > restarts.size + (1 - REGULAR) * rows.size:
        return [rows]  # unordered
    elif clock_setbacks(times_us, HOUR_US)[restarts].any():
        return [rows]
    blocks = np.split(rows, restarts + 1)
    if n_specified == len(blocks):
        return blocks
    ends = np.array(
        [[t_us[block].min(), t_us[block].max()] for block in blocks if block.size]
    )
    readings = {(t_us[block].tobytes(), power_w[block].tobytes()) for block in blocks}
    if len(blocks) == 2 and not is_known:
        return [rows]
    apart = np.ptp(ends, axis=0).max() > SAME_SPAN * span_us if ends.size else True
    return [rows] if apart or len(readings) < len(blocks) else blocks


def _gpus_in_ticks(
    table: ReadTable,
    t_us: Int64Array,
    power_w: Float64Array,
    rows: Int64Array,
    n_specified: int | None,
    local: Any,
) -> tuple[Int64Array, int]:
    """Return each row's GPU number within its tick (-1 if none), and the GPU count.

    A tick is the group of rows of one sampling time.
    """
    # Most logs have one row of a GPU at a time, at even times
    if local is not None and n_specified is None:
        waits_us = np.abs(np.diff(t_us[rows][:LOOK_AT_ROWS]))
        if waits_us.size:
            low_us, high_us = np.quantile(waits_us, (TOLERATED, 1 - TOLERATED))
            if high_us <= STAND_OUT * low_us:
                return np.zeros(rows.size, dtype=np.int64), 1
    inferred = gpu_of_rows(t_us[rows], n_specified)
    if inferred is None:
        raise LogFormatError(
            f"{table.path}: the ticks do not have the rows of {n_specified} GPUs; "
            "correct the number of GPUs, or leave it out to have it inferred"
        )
    gpu, n = inferred
    if n_specified is None and n > 1:
        readings = {
            (t_us[gpu_rows].tobytes(), power_w[gpu_rows].tobytes())
            for gpu_rows in (rows[gpu == nth] for nth in range(n))
        }
        # GPUs of one or several machines may have the same constant power.
        varies = (
            np.nanmax(power_w[rows]) > np.nanmin(power_w[rows]) or local is not None
        )
        if len(readings) < n and varies:
            table.fail(
                int(rows[1]),
                (
                    f"{n} rows of each time have no names to distinguish GPUs, and "
                    "some the same readings throughout: remove rows that are copies, "
                    "query 'uuid', or give the number of GPUs (--gpus)"
                ),
            )
    return gpu, n


def gpu_of_rows(
    t_us: Int64Array, n_gpus: int | None = None
) -> tuple[Int64Array, int] | None:
    """Infer each row's GPU number (-1 in incomplete ticks), and the number of GPUs.

    Without a GPU column, the times of the rows identify GPUs: the rows of one sampling
    time (tick) are milliseconds apart, ticks are an interval apart. The result is the
    largest GPU count for which the waits between ticks are regular, and longer than the
    waits within ticks.
    """
    if t_us.size == 0:
        return np.zeros(0, dtype=np.int64), n_gpus or 1
    waits = np.abs(np.diff(t_us)).astype(np.float64)
    sample = waits[:LOOK_AT_ROWS]
    n_seen = _inferred_n_gpus(sample)
    if n_gpus is None or n_gpus == n_seen:
        return _gpu_numbers(waits, n_seen, _threshold(sample, n_seen))
    threshold = _threshold(sample, n_gpus)
    return (
        None
        if n_seen > 1 and threshold is None
        else _gpu_numbers(waits, n_gpus, threshold)
    )


def _inferred_n_gpus(waits: Float64Array) -> int:
    """Infer the number of GPUs per tick from waits [us], 1 if ticks have one row."""
    for candidate in range(min(MAX_GPUS, (waits.size + 1) // MIN_TICKS), 1, -1):
        threshold = _threshold(waits, candidate)
        if (
            threshold is not None
            and _gpu_numbers(waits, candidate, threshold) is not None
        ):
            return candidate
    return 1


def _threshold(waits: Float64Array, n_gpus: int) -> float | None:
    """Return a wait that separates waits within ticks from those between ticks [us].

    Return None if the two kinds of waits overlap. With `n_gpus` GPUs, one in `n_gpus`
    waits is between ticks.
    """
    n_between = max(1, round((waits.size + 1) / n_gpus) - 1)
    if n_gpus == 1 or waits.size <= n_between:
        return None
    ordered = np.sort(waits)
    within, between = ordered[:-n_between], ordered[-n_between:]
    high = float(np.quantile(within, 1 - TOLERATED))
    low = float(np.quantile(between, TOLERATED))
    return (high + low) / 2 if low > STAND_OUT * high else None


def _gpu_numbers(
    waits: Float64Array, n_gpus: int, threshold: float | None
) -> tuple[Int64Array, int] | None:
    if n_gpus == 1:
        return np.zeros(waits.size + 1, dtype=np.int64), 1
    n_rows = waits.size + 1
    # Without visible ticks, all rows are taken as complete
    if threshold is None:
        gpu = np.arange(n_rows) % n_gpus
        gpu[n_rows - n_rows % n_gpus :] = -1
        return gpu, n_gpus
    starts = np.concatenate(([0], np.flatnonzero(waits > threshold) + 1))
    sizes = np.diff(starts, append=n_rows)
    whole = sizes == n_gpus
    if np.count_nonzero(whole) < REGULAR * sizes.size:
        return None
    nth = np.arange(n_rows) - np.repeat(starts, sizes)
    return np.where(np.repeat(whole, sizes), nth, -1), n_gpus
