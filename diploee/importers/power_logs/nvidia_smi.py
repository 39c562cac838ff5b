"""Importer of ``nvidia-smi --query-gpu=timestamp,power.draw,... --format=csv``.

GPU power. A file is the log of one machine; several are summed over the time that they
share. Such logs know nothing of the CPUs: the boundary says so, unless a constant is
added for them.

One row per GPU and tick, often without the GPU's index; values with or without their
unit; failed reads as ``[N/A]``, ``[Not Supported]`` and the like, or below 0; headers
again where a log was appended to; a last line cut where the logger was killed.
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
    Device,
    check_devices,
    device_of,
    files_in,
    joint_hash,
    of_devices,
    restored,
)
from diploee.importers.power_logs.repairs import (
    FAILED,
    HOUR_US,
    UNTIMED,
    Log,
    RepairCount,
    falls_back,
    in_turn,
)
from diploee.importers.text.tables import (
    DELIMITERS,
    HeaderTable,
    ReadTable,
    read_header,
)
from diploee.importers.text.text import read_text
from diploee.importers.text.timestamps import Timestamps, stamps_of_one_clock
from diploee.importers.text.values import numbers, value_shown
from diploee.profiles.meter_response import MeterModel, known_meter
from diploee.profiles.profile import PLUS_CONSTANT, PowerBoundary, PowerProfile, Repair
from diploee.profiles.resample import US_PER_S

POWER_COLUMNS = ("power.draw", "power.draw.average", "power.draw.instant")
"""Columns of power in the order of preference: what is not averaged before it is read
folds."""
NAME_COLUMNS = ("name", "gpu_name")
"""Columns of the GPUs' model."""
UNIQUE_COLUMNS = ("uuid", "gpu_uuid", "serial", "gpu_serial")
"""Columns that tell all GPUs apart."""
LOCAL_COLUMNS = ("index", "pci.bus_id", "gpu_bus_id")
"""Columns that tell the GPUs of a machine apart."""
HOST_COLUMNS = ("host", "hostname", "node", "nodename", "machine", "server")
"""Columns of the machine, which those who log several write themselves."""
SAME_SPAN = 0.05
"""Part of their time by which logs of several machines begin or end apart in one file."""  # noqa: E501
MAX_GPUS = 32
MIN_TICKS = 3
"""Fewer ticks show no rhythm: they may be a log with a gap."""
LOOK_AT_ROWS = 20_000
STAND_OUT = 1.5
"""The waits between ticks are longer than those within by this factor, or more."""
TOLERATED = 0.02
"""Part of the waits, on either side, that may be late or early."""
REGULAR = 0.9
"""Least part of the ticks that must have a row of every GPU."""

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


def import_nvidia_smi(paths: Sequence[Path | str], **given: Any) -> PowerProfile:
    """Import ``nvidia-smi`` logs of one job as one whole-job profile.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, one per machine; of a folder all ``*.csv``, ``*.log`` and ``*.txt`` in it,
        packed or not.
    **given
        Fields of `diploee.importers.NvidiaSmiOptions`, such as ``workload``, which is
        needed. The nodes are one per file where not given, the meter that of the column
        and the GPU (``gpu``, or the log's column ``name``), see
        `diploee.profiles.known_meter`.
    """
    options = NvidiaSmiOptions(**given)
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
        gpus = [restored(gpu, meter) for gpu in gpus]
    return of_devices(
        gpus,
        options.of_nodes(nodes),
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


def _notes(gpus: list[Device], columns: list[str], meter: MeterModel) -> str:
    how = "the driver does not average it"
    if meter.window_s:
        assumed = " (assumed)" if meter.kind == "unknown" else ""
        how = f"the driver averages it over {meter.window_s:g} s{assumed}"
    longest_s = max(gpu.longest_gap_s for gpu in gpus)
    return (
        f"'{', '.join(columns)}' of {len(gpus)} GPUs, naive local time; {how}; "
        "readings joined by straight lines; longest time between good readings of a "
        f"GPU {longest_s:g} s"
    )


class _Machine(NamedTuple):
    """The GPUs of one file, of one machine or several."""

    column: str  # column of power that was read
    gpus: list[Device]
    n_hosts: int
    model: str  # model of the first, where the log says it
    sha256: str  # hash of the file
    counts: Counter[str]  # oddities met, by cause
    repairs: list[Repair]  # of rows that belong to no GPU
    has_unique_names: bool


def _refuse_copies(machines: list[_Machine]) -> None:
    """Refuse a GPU that is there twice, by a name of its own, its file or readings."""
    gpus = [gpu for machine in machines for gpu in machine.gpus]
    start_us = max(int(gpu.curve.t_us[0]) for gpu in gpus)
    end_us = min(int(gpu.curve.t_us[-1]) for gpu in gpus)
    seen: dict[object, tuple[_Machine, Device]] = {}
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
                of, other = seen.setdefault(key, (machine, gpu))
                if of is not machine:
                    raise LogFormatError(
                        f"{gpu.name}: {gpu.label} has the name or the readings of "
                        f"{other.label} in {other.name}, expected each GPU once; leave "
                        "one out, or put the parts of one machine's log one after the "
                        "other in one file"
                    )


def _read_machine(path: Path, options: NvidiaSmiOptions) -> _Machine:
    """Read a log and repair the readings of each GPU."""
    sheet, n_cut = _sheet(path)
    plain = [_BRACKETS.sub("", name) for name in sheet.names]
    powers = [sheet.names[plain.index(name)] for name in POWER_COLUMNS if name in plain]
    powers = powers or ["power.draw [W]"]
    names = {"timestamp": "timestamp"} | {name: name for name in powers}
    for key, known in _COLUMNS.items():
        there = (sheet.names[plain.index(name)] for name in known if name in plain)
        names |= {f"{key}.{k}": name for k, name in enumerate(there)}
    table = sheet.read(names, "a log of nvidia-smi")
    times = stamps_of_one_clock(table, "timestamp")
    column, values_w = _power_w(sheet, table, powers)
    counts = Counter(repeated_headers=table.n_headers, cut_rows=n_cut)
    is_local = not times.is_aware.any()
    log = Log(path, options.max_gap_s, options.max_lost, is_local)
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
            and not result.is_told
            and in_turn(times.us[rows], power_w[rows])
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
        gpus.append(device_of(account, rows, times.us[rows], power_w[rows], causes))
    check_devices(path, options.devices, result.rows)
    mean_w, interval_s = float(np.nanmean(power_w)), gpus[0].interval_us / US_PER_S
    whole_s = sum(float(np.ptp(gpu.curve.t_us)) for gpu in gpus) / US_PER_S
    whole = RepairCount(log, "", table.where)
    for cause, lost in (
        (UNTIMED, np.flatnonzero(~times.there & ~np.isnan(power_w))),
        ("rows_of_incomplete_ticks", result.incomplete),
    ):
        whole.add(cause, lost, mean_w * lost.size * interval_s, lost.size * interval_s)
    repairs = whole.settle(sum(float(gpu.curve.energy_j[-1]) for gpu in gpus), whole_s)
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


def _sheet(path: Path) -> tuple[HeaderTable, int]:
    """Return the file from its header on, and how many lines at its end were cut."""
    text = read_text(path, f"columns {_EXPECTED}").without_comments("#")
    end = text.data.rfind(b"\n") + 1
    n_cut = int(end > 0 and not (text.data[end:].isspace() or end == len(text.data)))
    text = text.upto(end) if n_cut else text
    header = max(text.data.find(b"timestamp"), 0)
    text = text.after(text.data.rfind(b"\n", 0, header) + 1)
    return read_header(text, DELIMITERS), n_cut


def _power_w(
    sheet: HeaderTable, table: ReadTable, names: list[str]
) -> tuple[str, Float64Array]:
    """Return the first power column with numbers [W], NaN for failed reads."""
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
            f"column '{names[0]}' is {value_shown(table, names[0], 0)}, and no row "
            "has a number, expected watts; query a GPU that reports its power"
        ),
    )


class _Gpus(NamedTuple):
    """Rows of each GPU by its name.

    Of its own, else of machine and index, else by their times.
    """

    rows: dict[str, Int64Array]
    n_hosts: int
    has_unique_names: bool
    is_told: bool  # whether columns tell all of them apart
    incomplete: Int64Array  # rows in ticks that not all GPUs have


def _gpus(
    table: ReadTable, times: Timestamps, power_w: Float64Array, n_gpus: int | None
) -> _Gpus:
    timed = np.flatnonzero(times.there)
    unique, local, host = (
        _names(table, timed, key) for key in ("unique", "local", "host")
    )
    names = [
        of for of in ([host, local] if unique is None else [unique]) if of is not None
    ]
    by_name = {"": timed}
    if names:
        encoded = pc.binary_join_element_wise(*names, " ").dictionary_encode()
        group, known = (
            encoded.indices.to_numpy(zero_copy_only=False),
            encoded.dictionary.to_pylist(),
        )
        by_name = {
            known[k]: timed[group == k]
            for k in sorted(range(len(known)), key=known.__getitem__)
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
        # As many machines as GPUs have one index
        if host is None and local is not None:
            of_index = pc.unique(
                pc.binary_join_element_wise(local, unique, "\t")
            ).to_pylist()
            n_hosts = max(
                Counter(pair.partition("\t")[0] for pair in of_index).values(),
                default=1,
            )
        return _Gpus(by_name, n_hosts, unique is not None, True, timed[:0])
    split: dict[str, Int64Array] = {}
    lost, n_machines = [timed[:0]], 1
    for name, rows in by_name.items():
        is_known = bool(table.n_headers or each)
        blocks = _blocks(
            times.us, power_w, rows, None if local is None else each, is_known
        )
        for block, of_block in enumerate(blocks):
            gpu, n = _in_ticks(
                table, times.us, power_w, of_block, each and each // len(blocks), local
            )
            machines = len(blocks) * (n if local is not None else 1)
            lost.append(of_block[gpu < 0])
            for nth in range(n):
                parts, machine = [name], block * n + nth
                if local is None:
                    parts, machine = [*filter(None, [name]), str(nth)], block
                parts += [f"machine {machine + 1}"] * (machines > 1)
                split[" ".join(parts)] = of_block[gpu == nth]
            n_machines = max(n_machines, machines)
    return _Gpus(
        split, n_hosts * n_machines, False, False, np.sort(np.concatenate(lost))
    )


def _names(table: ReadTable, rows: Int64Array, key: str) -> Any:
    """Return what the first column of a kind that has names says of some rows.

    None without one.
    """
    for column in (
        table.columns[result]
        for result in table.columns
        if result.startswith(f"{key}.")
    ):
        text = pc.utf8_trim_whitespace(column)
        if not pc.all(
            pc.or_(pc.match_substring_regex(text, _FAILED), pc.equal(text, ""))
        ).as_py():
            if rows.size < len(text):
                text = text.take(arrow_numbers(rows))
            return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    return None


def _blocks(
    t_us: Int64Array,
    power_w: Float64Array,
    rows: Int64Array,
    n_told: int | None,
    is_known: bool,
) -> list[Int64Array]:
    """Return the rows of each machine, where logs of one time are in turn.

    The time begins anew at each. Two that no header parts may be one log whose clock
    was set back, and a copy of a log is no block; there the number must be given.
    """
    if n_told == 1:
        return [rows]
    of_us = t_us[rows]
    step_us = np.diff(of_us)
    span_us = int(np.ptp(of_us)) if rows.size else 0
    restarts = np.flatnonzero(step_us < (2 * SAME_SPAN - 1) * span_us)
    if n_told and n_told > 1 and restarts.size != n_told - 1:
        backmost = np.sort(np.argsort(step_us)[: n_told - 1])
        restarts = backmost[step_us[backmost] < -span_us / 2]
    elif np.count_nonzero(step_us < 0) > restarts.size + (1 - REGULAR) * rows.size:
        return [rows]  # in no order
    elif falls_back(of_us, HOUR_US)[restarts].any():
        return [rows]
    blocks = np.split(rows, restarts + 1)
    if n_told == len(blocks):
        return blocks
    ends = np.array(
        [[t_us[block].min(), t_us[block].max()] for block in blocks if block.size]
    )
    readings = {(t_us[block].tobytes(), power_w[block].tobytes()) for block in blocks}
    if len(blocks) == 2 and not is_known:
        return [rows]
    apart = np.ptp(ends, axis=0).max() > SAME_SPAN * span_us if ends.size else True
    return [rows] if apart or len(readings) < len(blocks) else blocks


def _in_ticks(
    table: ReadTable,
    t_us: Int64Array,
    power_w: Float64Array,
    rows: Int64Array,
    n_told: int | None,
    local: Any,
) -> tuple[Int64Array, int]:
    """Return each row's GPU within its tick (-1: none), and their number."""
    # Most have one row of a GPU at a time, evenly
    if local is not None and n_told is None:
        waits_us = np.abs(np.diff(t_us[rows][:LOOK_AT_ROWS]))
        if waits_us.size:
            low_us, high_us = np.quantile(waits_us, (TOLERATED, 1 - TOLERATED))
            if high_us <= STAND_OUT * low_us:
                return np.zeros(rows.size, dtype=np.int64), 1
    inferred = gpu_of_rows(t_us[rows], n_told)
    if inferred is None:
        raise LogFormatError(
            f"{table.path}: the ticks do not have the rows of {n_told} GPUs; correct "
            "the number of GPUs, or leave it out to have it inferred"
        )
    gpu, n = inferred
    if n_told is None and n > 1:
        result = {
            (t_us[of].tobytes(), power_w[of].tobytes())
            for of in (rows[gpu == nth] for nth in range(n))
        }
        # Machines may be at one power at the same times, as GPUs of one machine may.
        varies = (
            np.nanmax(power_w[rows]) > np.nanmin(power_w[rows]) or local is not None
        )
        if len(result) < n and varies:
            table.fail(
                int(rows[1]),
                (
                    f"{n} rows of each time have no names to tell GPUs apart, and some "
                    "the same readings throughout: remove rows that are copies, query "
                    "'uuid', or give the number of GPUs (--gpus)"
                ),
            )
    return gpu, n


def gpu_of_rows(
    t_us: Int64Array, n_gpus: int | None = None
) -> tuple[Int64Array, int] | None:
    """Return each row's GPU (-1 in incomplete ticks), and the number of GPUs.

    Without a column of GPUs the rhythm of the rows tells: those of one tick follow each
    other within milliseconds, ticks an interval apart. Of all GPU counts the largest is
    taken whose longest waits, as many as there would be ticks, stand out from the
    others and come regularly.
    """
    if t_us.size == 0:
        return np.zeros(0, dtype=np.int64), n_gpus or 1
    waits = np.abs(np.diff(t_us)).astype(np.float64)
    sample = waits[:LOOK_AT_ROWS]
    shown = _shown_gpus(sample)
    if n_gpus is None or n_gpus == shown:
        return _split(waits, shown, _threshold(sample, shown))
    threshold = _threshold(sample, n_gpus)
    return None if shown > 1 and threshold is None else _split(waits, n_gpus, threshold)


def _shown_gpus(waits: Float64Array) -> int:
    """Return the number of GPUs in ticks, 1 where no tick has several rows."""
    for candidate in range(min(MAX_GPUS, (waits.size + 1) // MIN_TICKS), 1, -1):
        threshold = _threshold(waits, candidate)
        if threshold is not None and _split(waits, candidate, threshold) is not None:
            return candidate
    return 1


def _threshold(waits: Float64Array, n_gpus: int) -> float | None:
    """Return a wait between those within a tick and those between ticks.

    None if they don't part. `n_gpus` GPUs make one in `n_gpus` waits a wait between
    ticks.
    """
    n_between = max(1, round((waits.size + 1) / n_gpus) - 1)
    if n_gpus == 1 or waits.size <= n_between:
        return None
    ordered = np.sort(waits)
    within, between = ordered[:-n_between], ordered[-n_between:]
    high = float(np.quantile(within, 1 - TOLERATED))
    low = float(np.quantile(between, TOLERATED))
    return (high + low) / 2 if low > STAND_OUT * high else None


def _split(
    waits: Float64Array, n_gpus: int, threshold: float | None
) -> tuple[Int64Array, int] | None:
    if n_gpus == 1:
        return np.zeros(waits.size + 1, dtype=np.int64), 1
    n_rows = waits.size + 1
    # The ticks can't be seen, so every row is believed to be there
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
