"""Import ``nvidia-smi --query-gpu=timestamp,power.draw,... --format=csv -lms 100``: GPU power.

A file is the log of one machine; several are summed over the time that they share. Such logs know
nothing of the CPUs: the boundary says so, unless a constant is added for them.

One row per GPU and tick, often without the GPU's index; values with or without their unit; failed
reads as ``[N/A]``, ``[Not Supported]`` and the like, or below 0; headers again where a log was
appended to; a last line cut where the logger was killed.

References
----------
.. [1] NVML API reference, nvmlDeviceGetPowerUsage: "On Ampere (except GA100) or newer GPUs, the API
   returns power averaged over 1 sec interval". ``power.draw`` and ``power.draw.average`` show it;
   ``power.draw.instant`` does not average.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import LogFormatError
from diploee.importers.power_logs.curves import (
    Device,
    device_of,
    longest_increasing,
    measured,
    sum_w,
)
from diploee.importers.power_logs.gpu_rows import gpu_of_rows
from diploee.profiles.profile import GPU_POWER, PowerProfile, check_argument
from diploee.profiles.resample import US_PER_S
from diploee.scenario.loading import MAX_NODES, MAX_POWER_W
from diploee.tables import Float64Array, Int64Array
from diploee.textio.sheets import Sheet, read_sheet
from diploee.textio.stamps import Stamps, stamps_of_one_clock
from diploee.textio.tables import ReadTable, listed
from diploee.textio.values import numbers, value_shown
from diploee.units import MS_PER_DAY, MS_PER_S, PROFILE_STEP_MS

POWER_COLUMNS = {"power.draw.instant": 0.0, "power.draw": 1.0, "power.draw.average": 1.0}
"""Columns of power in the order of preference, with the window of the driver's average [s]."""
GPU_COLUMNS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
"""Columns that tell the GPUs apart."""
MAX_READING_W = 2_500.0
MAX_GAP_S = 3_600.0

_EXPECTED = "'timestamp, power.draw [W]'"
_UNIT = r"(?i)\s*(m?W)$"
_FAILED = r"^\[.*\]$|^N/A$|^Not .*$|^Unknown.*$|^ERR.*$"
_BRACKETS = re.compile(r"\s*\[.*\]$")


def import_nvidia_smi(
    paths: Sequence[Path | str],
    *,
    workload: str,
    profile_id: str | None = None,
    n_nodes: int | None = None,
    n_gpus: int | None = None,
    add_w: float = 0.0,
    step_ms: int = PROFILE_STEP_MS,
    source: str = "",
    licence: str = "unknown",
    averaging_window_s: float | None = None,
    max_reading_w: float = MAX_READING_W,
    max_gap_s: float = MAX_GAP_S,
) -> PowerProfile:
    """Import ``nvidia-smi`` logs of one job as one whole-job profile.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, one per machine; of a folder all ``*.csv``, ``*.log`` and ``*.txt`` in it, packed
        or not.
    workload : str
        Workload, as scenarios name it.
    profile_id : str, optional
        Id of the profile, ``<workload>-<nodes>n`` by default.
    n_nodes : int, optional
        Nodes of the job; one per file where not given.
    n_gpus : int, optional
        GPUs of a file without a column that tells them apart; inferred from the ticks where not
        given.
    add_w : float
        Constant that stands for the CPUs of a node, which such logs don't have [W].
    step_ms : int
        Step of the profile [ms].
    source, licence : str
        For the provenance; the source is the file names where not given.
    averaging_window_s : float, optional
        Window over which the driver averages [s]; where not given, 0 for ``power.draw.instant``
        and 1 s for the others, as on Ampere (but GA100) and newer.
    max_reading_w : float
        Readings of one GPU above this are bridged like failed ones [W].
    max_gap_s : float
        Longest gap that is bridged [s]; longer ones are refused.
    """
    check_argument("n_nodes", n_nodes, 1, MAX_NODES)
    check_argument("n_gpus", n_gpus, 1, MAX_NODES)
    check_argument("step_ms", step_ms, 1, MS_PER_DAY)
    check_argument("add_w", add_w, 0, MAX_POWER_W)
    check_argument("averaging_window_s", averaging_window_s, 0, MS_PER_DAY / MS_PER_S)
    if not paths:
        raise LogFormatError("no nvidia-smi log given; give one per machine")
    machines = [
        _read_machine(path, n_gpus, max_reading_w, max_gap_s)
        for given in paths
        for path in _logs(Path(given))
    ]
    nodes = len(machines) if n_nodes is None else n_nodes
    gpus = [gpu for machine in machines for gpu in machine.gpus]
    counts = {
        cause: sum(machine.counts.get(cause, 0) for machine in machines)
        for cause in dict.fromkeys(cause for machine in machines for cause in machine.counts)
    }
    unshared = "seconds_that_not_all_gpus_cover"
    power_w = sum_w(gpus, step_ms, counts, unshared, add_w=add_w * nodes)
    columns = sorted({machine.column for machine in machines})
    window_s = averaging_window_s
    if window_s is None:
        window_s = max(POWER_COLUMNS[column] for column in columns)
    return measured(
        profile_id or f"{workload}-{nodes}n",
        workload,
        nodes,
        step_ms,
        power_w,
        hashes=[machine.sha256 for machine in machines],
        interval_s=round(max(gpu.interval_us for gpu in gpus) / US_PER_S, 6),
        window_s=window_s,
        counts=counts,
        source=source or ", ".join(machine.path.name for machine in machines),
        licence=licence,
        power_boundary=_boundary(add_w),
        notes=_notes(gpus, columns, window_s, averaging_window_s is None),
        gpus_per_node=len(gpus) // nodes if len(gpus) % nodes == 0 else None,
    )


def _logs(path: Path) -> list[Path]:
    """Return the logs of a folder, or the one that was given."""
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.iterdir() if {".csv", ".log", ".txt"} & set(p.suffixes[-2:]))
    if not found:
        raise LogFormatError(f"{path}: no log in this folder, expected '*.csv', '*.log' or '*.txt'")
    return found


def _boundary(add_w: float) -> str:
    if add_w == 0:
        return GPU_POWER
    return (
        f"GPU power as measured, plus a constant {add_w:g} W per node for its CPUs, which is "
        "assumed; no memory, network, fans or power supply"
    )


def _notes(gpus: list[Device], columns: list[str], window_s: float, assumed: bool) -> str:
    how = (
        "the driver does not average it"
        if window_s == 0
        else f"the driver averages it over {window_s:g} s"
    )
    longest_s = max(gpu.longest_gap_s for gpu in gpus)
    return (
        f"'{', '.join(columns)}' of {len(gpus)} GPUs, naive local time; {how}"
        f"{' (as on Ampere, but GA100, and newer)' if assumed and window_s else ''}; readings "
        f"joined by straight lines; longest time between good readings of a GPU {longest_s:g} s"
    )


@dataclass(frozen=True, eq=False)
class _Machine:
    """The GPUs of one machine."""

    path: Path  # the file
    column: str  # column of power that was read
    gpus: list[Device]
    sha256: str  # hash of the file
    counts: Counter[str]  # rows dropped and readings bridged, by cause


def _read_machine(
    path: Path, n_gpus: int | None, max_reading_w: float, max_gap_s: float
) -> _Machine:
    """Read a log and repair the readings of each GPU."""
    sheet = _sheet(path)
    plain = [_BRACKETS.sub("", name) for name in sheet.names]
    powers = [sheet.names[plain.index(name)] for name in POWER_COLUMNS if name in plain]
    if not powers:
        raise LogFormatError(
            f"{sheet.header}: no column of power (found: {listed(sheet.names)}), expected "
            f"{_EXPECTED}; query 'power.draw.instant' or 'power.draw'"
        )
    names = {"timestamp": "timestamp"} | {name: name for name in powers}
    for name in GPU_COLUMNS:
        if name in plain and "gpu" not in names:
            names["gpu"] = sheet.names[plain.index(name)]
    table = sheet.read(names, "a log of nvidia-smi")
    times = stamps_of_one_clock(table, "timestamp")
    column, values_w = _power_w(sheet, table, powers)
    above = f"readings_above_{max_reading_w:g}_w"
    counts = Counter(
        {
            "repeated_headers": table.n_headers,
            "cut_rows": sheet.n_cut,
            "rows_without_time": int((~times.there).sum()),
        }
    )
    gpu, n_found = _gpus(table, times, n_gpus, counts)
    counts.update({"rows_out_of_order": 0, "failed_reads": 0, above: 0})
    gpus = []
    for number in range(n_found):
        rows = np.flatnonzero(gpu == number)
        kept = rows[longest_increasing(times.us[rows])] if rows.size else rows
        power_w = values_w[kept]
        too_high = power_w > max_reading_w
        counts["rows_out_of_order"] += int(rows.size - kept.size)
        counts[above] += int(too_high.sum())
        power_w = np.where(too_high | (power_w < 0), np.nan, power_w)
        counts["failed_reads"] += int(np.isnan(power_w).sum() - too_high.sum())
        where = partial(_where, table, kept)
        gpus.append(device_of(path, times.us[kept], power_w, max_gap_s, where, f"GPU {number}"))
    return _Machine(path, _BRACKETS.sub("", column), gpus, sheet.sha256, counts)


def _where(table: ReadTable, rows: Int64Array, nth: int) -> str:
    return table.where(int(rows[nth]))


def _sheet(path: Path) -> Sheet:
    """Return the file from its header on; say which columns another table has."""
    expected = f"columns {_EXPECTED}"
    try:
        return read_sheet(path, expected, header_word="timestamp", may_be_cut=True)
    except LogFormatError as error:
        sheet = read_sheet(path, expected, may_be_cut=True)  # empty or no text: refused here
        raise LogFormatError(
            f"{sheet.header}: no column 'timestamp' (found: {listed(sheet.names)}), expected "
            f"columns {_EXPECTED}; give a log of nvidia-smi with its header"
        ) from error


def _power_w(sheet: Sheet, table: ReadTable, names: list[str]) -> tuple[str, Float64Array]:
    """Return the first column of power that has a number, in W, NaN where a read failed."""
    for name in names:
        text = pc.utf8_trim_whitespace(table.columns[name])
        is_milli = pc.fill_null(pc.match_substring_regex(text, r"mW$"), False)
        text = pc.replace_substring_regex(text, _UNIT, "")
        failed = pc.match_substring_regex(text, _FAILED)
        text = pc.if_else(failed, pa.scalar("", text.type), text)
        values = numbers(replace(table, columns={name: text}), name)
        if not np.isnan(values).all():
            return name, np.where(np.asarray(is_milli, dtype=bool), values / 1000, values)
    if not len(table):
        raise LogFormatError(
            f"{sheet.header}: a header without rows, expected readings; give a complete log"
        )
    table.fail(
        0,
        f"column '{names[0]}' is {value_shown(table, names[0], 0)}, and no row has a number, "
        "expected watts; query a GPU that reports its power",
    )


def _gpus(
    table: ReadTable, times: Stamps, n_gpus: int | None, counts: Counter[str]
) -> tuple[Int64Array, int]:
    """Return the GPU of each row, -1 for none, and their number."""
    gpu = np.full(len(table), -1, dtype=np.int64)
    rows = np.flatnonzero(times.there)
    if "gpu" in table:
        names = np.asarray(pc.utf8_trim_whitespace(table.columns["gpu"]).to_pylist(), dtype=np.str_)
        found, gpu[rows] = np.unique(names[rows], return_inverse=True)
        if n_gpus is not None and n_gpus != found.size:
            raise LogFormatError(
                f"{table.path}: {found.size} GPUs by their column, expected {n_gpus}; correct one"
            )
        return gpu, int(found.size)
    inferred = gpu_of_rows(times.us[rows], n_gpus)
    if inferred is None:
        raise LogFormatError(
            f"{table.path}: the ticks do not have the rows of {n_gpus} GPUs; correct the number "
            "of GPUs, or leave it out to have it inferred"
        )
    gpu[rows], count = inferred
    counts["rows_of_incomplete_ticks"] = int(np.count_nonzero(gpu[rows] < 0))
    return gpu, count
