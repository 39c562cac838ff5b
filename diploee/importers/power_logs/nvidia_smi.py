"""Import ``nvidia-smi --query-gpu=timestamp,power.draw,... --format=csv -lms 100``: GPU power.

A file is the log of one machine; several are summed over the time that they share. Such logs know
nothing of the CPUs: the boundary says so, unless a constant is added for them.

One row per GPU and tick, often without the GPU's index; values with or without their unit; failed
reads as ``[N/A]``, ``[Not Supported]`` and the like, or below 0; headers again where a log was
appended to; a last line cut where the logger was killed.
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

from diploee.errors import LogFormatError
from diploee.importers.power_logs.curves import (
    Device,
    device_of,
    longest_increasing,
    measured,
    restored,
    sum_w,
)
from diploee.importers.power_logs.options import NvidiaSmiOptions
from diploee.profiles.meters import Meter, known_meter
from diploee.profiles.profile import GPU_POWER, PLUS_CONSTANT, PowerProfile
from diploee.profiles.resample import US_PER_S, unshared_s
from diploee.tables import Float64Array, Int64Array
from diploee.textio.sheets import Sheet, read_sheet
from diploee.textio.stamps import Stamps, stamps_of_one_clock
from diploee.textio.tables import ReadTable, listed
from diploee.textio.values import numbers, value_shown

POWER_COLUMNS = ("power.draw", "power.draw.average", "power.draw.instant")
"""Columns of power in the order of preference: what is not averaged before it is read folds."""
NAME_COLUMNS = ("name", "gpu_name")
"""Columns of the GPUs' model."""
GPU_COLUMNS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
"""Columns that tell the GPUs apart."""
MOST_GPUS = 32
LOOK_AT_ROWS = 20_000
STAND_OUT = 1.5
"""The waits between ticks are longer than those within by this factor, or more."""
TOLERATED = 0.02
"""Part of the waits, on either side, that may be late or early."""
REGULAR = 0.9
"""Least part of the ticks that must have a row of every GPU."""

_EXPECTED = "'timestamp, power.draw [W]'"
_UNIT = r"(?i)\s*(m?W)$"
_FAILED = r"^\[.*\]$|^N/A$|^Not .*$|^Unknown.*$|^ERR.*$"
_BRACKETS = re.compile(r"\s*\[.*\]$")


def import_nvidia_smi(paths: Sequence[Path | str], **given: Any) -> PowerProfile:
    """Import ``nvidia-smi`` logs of one job as one whole-job profile.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, one per machine; of a folder all ``*.csv``, ``*.log`` and ``*.txt`` in it, packed
        or not.
    **given
        Fields of `diploee.importers.NvidiaSmiOptions`, such as ``workload``, which is
        needed. The nodes are one per file where not given, the meter that of the column and the
        GPU (``gpu``, or the log's column ``name``), see `diploee.profiles.known_meter`.
    """
    options = NvidiaSmiOptions(**given)
    if not paths:
        raise LogFormatError("no nvidia-smi log given; give one per machine")
    files = [path for given_path in paths for path in _logs(Path(given_path))]
    machines = [_read_machine(path, options) for path in files]
    nodes = options.n_nodes or len(files)
    gpus = [gpu for machine in machines for gpu in machine.gpus]
    counts: Counter[str] = Counter()
    for machine in machines:
        counts.update(machine.counts)
    counts["seconds_that_not_all_gpus_cover"] = unshared_s([gpu.curve for gpu in gpus])
    columns = sorted({machine.column for machine in machines})
    gpu = options.gpu or next(filter(None, (machine.gpu for machine in machines)), None)
    interval_s = round(max(gpu.interval_us for gpu in gpus) / US_PER_S, 6)
    meter = known_meter(columns[-1], gpu, interval_s, options.averaging_window_s)
    if options.restore:
        gpus = [restored(gpu, meter) for gpu in gpus]
    return measured(
        *options.of_nodes(nodes),
        options.step_ms,
        sum_w(gpus, options.step_ms, add_w=options.add_w * nodes),
        options,
        source=", ".join(path.name for path in files),
        hashes=[machine.sha256 for machine in machines],
        meter=meter,
        counts=dict(counts),
        power_boundary=_boundary(options.add_w),
        notes=_notes(gpus, columns, meter),
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
        f"GPU power as measured, {PLUS_CONSTANT} {add_w:g} W per node for its CPUs, which is "
        "assumed; no memory, network, fans or power supply"
    )


def _notes(gpus: list[Device], columns: list[str], meter: Meter) -> str:
    how = "the driver does not average it"
    if meter.window_s:
        assumed = " (assumed)" if meter.kind == "unknown" else ""
        how = f"the driver averages it over {meter.window_s:g} s{assumed}"
    longest_s = max(gpu.longest_gap_s for gpu in gpus)
    return (
        f"'{', '.join(columns)}' of {len(gpus)} GPUs, naive local time; {how}; readings "
        f"joined by straight lines; longest time between good readings of a GPU {longest_s:g} s"
    )


class _Machine(NamedTuple):
    """The GPUs of one machine."""

    column: str  # column of power that was read
    gpus: list[Device]
    gpu: str  # model of the first, where the log says it
    sha256: str  # hash of the file
    counts: Counter[str]  # rows dropped and readings bridged, by cause


def _read_machine(path: Path, options: NvidiaSmiOptions) -> _Machine:
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
    models = [sheet.names[plain.index(name)] for name in NAME_COLUMNS if name in plain]
    if models:
        names["model"] = models[0]
    tags = [sheet.names[plain.index(name)] for name in GPU_COLUMNS if name in plain]
    if tags:
        names["gpu"] = tags[0]
    table = sheet.read(names, "a log of nvidia-smi")
    times = stamps_of_one_clock(table, "timestamp")
    column, values_w = _power_w(sheet, table, powers)
    counts = Counter(repeated_headers=table.n_headers, cut_rows=sheet.n_cut)
    counts["rows_without_time"] = int((~times.there).sum())
    gpu, n_found = _gpus(table, times, options.n_gpus, counts)
    above = f"readings_above_{options.max_reading_w:g}_w"
    counts.update({"rows_out_of_order": 0, "failed_reads": 0, above: 0})
    gpus = []
    for number in range(n_found):
        rows = np.flatnonzero(gpu == number)
        kept = rows[longest_increasing(times.us[rows])]
        power_w = values_w[kept]
        too_high = power_w > options.max_reading_w
        counts["rows_out_of_order"] += int(rows.size - kept.size)
        counts[above] += int(too_high.sum())
        power_w = np.where(too_high | (power_w < 0), np.nan, power_w)
        counts["failed_reads"] += int(np.isnan(power_w).sum() - too_high.sum())
        place = (table.where_of(kept), f"GPU {number}")
        gpus.append(device_of(path, times.us[kept], power_w, options.max_gap_s, *place))
    model = str(table.columns["model"][0]).strip() if models and len(table) else ""
    return _Machine(_BRACKETS.sub("", column), gpus, model, sheet.sha256, counts)


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


def gpu_of_rows(t_us: Int64Array, n_gpus: int | None = None) -> tuple[Int64Array, int] | None:
    """Return the GPU of each row from 0 on, -1 in incomplete ticks, and the number of GPUs.

    Without a column of GPUs the rhythm of the rows tells: those of one tick follow each other
    within milliseconds, ticks an interval apart. Of all GPU counts the largest is taken whose
    longest waits, as many as there would be ticks, stand out from the others and come regularly.
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
    """Return how many GPUs the ticks show, 1 where there are no ticks of several rows."""
    for candidate in range(min(MOST_GPUS, (waits.size + 1) // 2), 1, -1):
        threshold = _threshold(waits, candidate)
        if threshold is not None and _split(waits, candidate, threshold) is not None:
            return candidate
    return 1


def _threshold(waits: Float64Array, n_gpus: int) -> float | None:
    """Return a wait between those within a tick and those between ticks; None if they don't part.

    `n_gpus` GPUs make one in `n_gpus` waits a wait between ticks.
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
    if threshold is None:  # the ticks can't be seen, so every row is believed to be there
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
