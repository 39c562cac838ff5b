"""One ``nvidia-smi --format=csv`` log as the energy of each GPU in it, repaired and counted.

One row per GPU and tick, often without the GPU's index; values with or without their unit; failed
reads as ``[N/A]``, ``[Not Supported]`` and the like; headers again where a log was appended to; a
last line cut where the logger was killed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import LogFormatError
from diploee.importers.power_logs.gpu_rows import gpu_of_rows
from diploee.importers.power_logs.increasing import longest_increasing
from diploee.profiles.resample import US_PER_S, EnergyCurve
from diploee.tables import Float64Array, Int64Array
from diploee.textio.sheets import Sheet, read_sheet
from diploee.textio.stamps import Stamps, stamps_of_one_clock
from diploee.textio.tables import ReadTable, listed
from diploee.textio.values import numbers, value_shown

POWER_COLUMNS = ("power.draw.instant", "power.draw", "power.draw.average")
"""Columns of power in the order of preference."""
GPU_COLUMNS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
"""Columns that tell the GPUs apart."""

_EXPECTED = "'timestamp, power.draw [W]'"
_UNIT = r"(?i)\s*(m?W)$"
_FAILED = r"^\[.*\]$|^N/A$|^Not .*$|^Unknown.*$|^ERR.*$"
_BRACKETS = re.compile(r"\s*\[.*\]$")


@dataclass(frozen=True, eq=False)
class MachineLog:
    """The GPUs of one machine."""

    path: Path  # the file
    column: str  # column of power that was read
    curves: list[EnergyCurve]  # energy of each GPU
    interval_s: float  # median interval between the readings of a GPU [s]
    longest_gap_s: float  # longest time between good readings of a GPU [s]
    sha256: str  # hash of the file
    counts: dict[str, int]  # rows dropped and readings bridged, by cause


def read_machine_log(
    path: Path, n_gpus: int | None, max_reading_w: float, max_gap_s: float
) -> MachineLog:
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
    counts = {
        "repeated_headers": table.n_headers,
        "cut_rows": sheet.n_cut,
        "rows_without_time": int((~times.there).sum()),
    }
    gpu, n_found = _gpus(table, times, n_gpus, counts)
    repair = _Repair(table, max_reading_w, max_gap_s, counts)
    curves = [
        repair.curve(f"GPU {number}", np.flatnonzero(gpu == number), times.us, values_w)
        for number in range(n_found)
    ]
    interval_us = max(float(np.median(np.diff(curve.t_us))) for curve in curves)
    return MachineLog(
        path=path,
        column=_BRACKETS.sub("", column),
        curves=curves,
        interval_s=round(interval_us / US_PER_S, 6),
        longest_gap_s=repair.longest_gap_s,
        sha256=sheet.sha256,
        counts=counts,
    )


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
    table: ReadTable, times: Stamps, n_gpus: int | None, counts: dict[str, int]
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


class _Repair:
    """Bridges the failed readings of one GPU after the other, and counts them."""

    def __init__(
        self, table: ReadTable, max_reading_w: float, max_gap_s: float, counts: dict[str, int]
    ) -> None:
        self._table = table
        self._max_reading_w = max_reading_w
        self._max_gap_s = max_gap_s
        self._counts = counts
        self._above = f"readings_above_{max_reading_w:g}_w"
        counts.update({"rows_out_of_order": 0, "failed_reads": 0, self._above: 0})
        self.longest_gap_s = 0.0

    def curve(
        self, name: str, rows: Int64Array, t_us: Int64Array, values_w: Float64Array
    ) -> EnergyCurve:
        kept = rows[longest_increasing(t_us[rows])] if rows.size else rows
        self._counts["rows_out_of_order"] += int(rows.size - kept.size)
        power_w = values_w[kept]
        if (power_w < 0).any():
            row = int(kept[np.argmax(power_w < 0)])
            raise LogFormatError(
                f"{self._table.where(row)}: power is {values_w[row]:g} W, expected 0 or more; "
                "correct or remove this row"
            )
        failed, above = np.isnan(power_w), power_w > self._max_reading_w
        self._counts["failed_reads"] += int(failed.sum())
        self._counts[self._above] += int(above.sum())
        good = np.flatnonzero(~failed & ~above)
        if kept.size < 2 or good.size == 0:
            raise LogFormatError(
                f"{self._table.path}: {name} has {good.size} good readings in {kept.size} rows, "
                "expected two rows or more, with a good reading; give a complete log"
            )
        self._check_gaps(name, kept, t_us, good)
        bridged_w = np.interp(t_us[kept], t_us[kept[good]], power_w[good])
        return EnergyCurve.from_readings(t_us[kept], bridged_w)

    def _check_gaps(self, name: str, rows: Int64Array, t_us: Int64Array, good: Int64Array) -> None:
        known = rows[np.unique(np.concatenate(([0], good, [rows.size - 1])))]
        gaps_s = np.diff(t_us[known]) / US_PER_S
        longest = int(np.argmax(gaps_s))
        self.longest_gap_s = max(self.longest_gap_s, float(gaps_s[longest]))
        if gaps_s[longest] > self._max_gap_s:
            raise LogFormatError(
                f"{self._table.where(int(known[longest + 1]))}: {gaps_s[longest]:,.1f} s without a "
                f"good reading of {name}, expected {self._max_gap_s:g} s at most; split the log "
                "here or raise 'max_gap_s'"
            )
