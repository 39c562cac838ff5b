"""Tables of the grid metrics: ramps, swings, bands and lines of the spectrum."""

from __future__ import annotations

from typing import Any

from diploee.report.charts import Table
from diploee.report.grid_data import Block, GridView, cells
from diploee.report.words import NONE, interval, moment, number, pattern_for, plural
from diploee.units import MS_PER_S


def ramps_table(view: GridView) -> Table:
    """Return the ramps up and down by their length, those not supported with the reason."""
    block, unit = view.block["ramps"], view.unit.power
    entries = [(entry, side) for entry in block["intervals"] for side in ("up", "down")]
    keys = ("max_mw", "p999_mw", "p99_mw")
    columns = [view.cells([entry[side][key] for entry, side in entries]) for key in keys]
    # Rates differ by powers of ten, so each has decimals of its own.
    rates = view.in_unit(entry[side]["max_mw_per_min"] for entry, side in entries)
    columns.append([number(rate, pattern_for([rate], 3)) for rate in rates])
    rows = {
        (entry["interval_s"], k): (
            seconds(entry["interval_s"]),
            side,
            *(column[k] for column in columns),
            view.when(entry[side]["time"]),
            _bound_words(view, entry),
        )
        for k, (entry, side) in enumerate(entries)
    }
    for entry in block["absent"]:
        row = (seconds(entry["interval_s"]), "up, down", *[NONE] * 5, _absent_words(entry))
        rows[entry["interval_s"], 0] = row
    return Table(
        "Ramps",
        (
            "Over",
            "",
            f"Largest [{unit}]",
            f"P99.9 [{unit}]",
            f"P99 [{unit}]",
            f"Largest [{unit}/min]",
            "When",
            "",
        ),
        tuple(rows[key] for key in sorted(rows)),
        f"Of {view.resolution} means. A ramp is the difference of the means of two adjacent "
        "intervals of the length given, at every start of an interval of the run; percentiles are "
        f"over all of them, {_error_words(block)}.{_zoom_words(view)}",
        n_names=2,
        n_texts=1,
    )


def swings_table(view: GridView) -> Table | None:
    """Return the rolling ranges by window; None where no window is supported."""
    block, unit = view.block["rolling_range"], view.unit.power
    if not block["windows"]:
        return None
    entries, keys = block["windows"], ("max_mw", "p999_mw", "p99_mw")
    columns = [view.cells([entry[key] for entry in entries]) for key in keys]
    rows = {
        entry["window_s"]: (
            seconds(entry["window_s"]),
            *(column[k] for column in columns),
            view.when(entry["time"]),
            _bound_words(view, entry),
        )
        for k, entry in enumerate(entries)
    }
    for entry in block["absent"]:
        row = (seconds(entry["window_s"]), *[NONE] * 4, _absent_words(entry))
        rows[entry["window_s"]] = row
    return Table(
        "Rapid load changes",
        ("Within", f"Largest [{unit}]", f"P99.9 [{unit}]", f"P99 [{unit}]", "From", ""),
        tuple(rows[key] for key in sorted(rows)),
        f"Rolling range: the largest less the smallest of the {view.resolution} means within a "
        f"window, at every start of an interval of the run; percentiles are over all of them, "
        f"{_error_words(block)}.",
        n_texts=1,
    )


def bands_table(view: GridView) -> Table | None:
    """Return the band levels of the 10-minute windows; None where no band is supported."""
    block, unit = view.block["spectrum"], view.unit.power
    if not block["bands"]:
        return None
    entries, keys = block["bands"], ("rms_p50_mw", "rms_p99_mw", "rms_max_mw")
    levels = view.cells([entry[key] for entry in entries for key in keys])
    rows = {
        entry["low_hz"]: (
            band_name(entry),
            *levels[3 * k : 3 * k + 3],
            moment(entry["worst_window"]),
            number(entry["worst_window_strongest_hz"], "{:.4f}"),
            f"flagged: {entry['flag_reason']}" if entry["flagged"] else "",
        )
        for k, entry in enumerate(entries)
    }
    for entry in block["absent"]:
        rows[entry["low_hz"]] = (band_name(entry), *[NONE] * 5, _absent_words(entry))
    return Table(
        "Band levels",
        (
            "Band",
            f"P50 rms [{unit}]",
            f"P99 rms [{unit}]",
            f"Largest rms [{unit}]",
            "Worst window from",
            "Strongest there [Hz]",
            "",
        ),
        tuple(rows[key] for key in sorted(rows)),
        _spectrum_words(view),
        n_texts=1,
    )


def lines_table(view: GridView) -> Table | None:
    """Return the strongest lines of the mean spectrum; None where there are none."""
    lines = view.block["spectrum"]["lines"]
    if not lines:
        return None
    rms = view.cells([line["rms_mw"] for line in lines])
    over = cells([line["over_floor"] for line in lines])
    flag = "flagged: above what is trusted"
    rows = tuple(
        (
            f"{number(line['frequency_hz'], '{:.4f}')} Hz",
            number(line["period_s"], "{:.2f}"),
            rms[k],
            over[k],
            flag if line["flagged"] else "",
        )
        for k, line in enumerate(lines)
    )
    return Table(
        "Strongest lines of the mean spectrum",
        ("Line", "Period [s]", f"Rms [{view.unit.power}]", "Over the floor [1]", ""),
        rows,
        f"Of {view.resolution} means. Where the mean over all windows stands out of its own "
        "floor, the median of the bins around, by more than noise would.",
        n_texts=1,
    )


def band_name(band: Block) -> str:
    """Return a band such as ``0.01 to 0.1 Hz``."""
    return f"{band['low_hz']:g} to {band['high_hz']:g} Hz"


def seconds(length_s: float) -> str:
    """Return a length such as ``2 s`` or ``15 min``."""
    return interval(round(length_s * MS_PER_S))


def _spectrum_words(view: GridView) -> str:
    block = view.block["spectrum"]
    slow = any("note" in band for band in block["bands"])
    return (
        f"Of {view.resolution} means, over {plural(block['windows'], 'window')} of 10 minutes that "
        "overlap by half: linear trend taken out, Hann window (Welch). Not corrected for what the "
        "averaging takes away."
        + (" Below 0.01 Hz only 0.0017 to 0.0083 Hz is resolved." if slow else "")
    )


def _error_words(block: Block) -> str:
    error = number(block.get("percentile_relative_error"), "{:.1f}", 100)
    return f"within {error} % of their value"


def _zoom_words(view: GridView) -> str:
    if not view.run.run.zooms:
        return ""
    return " The largest steps over 1 s, 10 s and 1 min stand below, with the worst windows."


def _bound_words(view: GridView, entry: Block) -> str:
    if not entry["lower_bound"]:
        return ""
    window: Any = view.block["bandwidth"]["averaging_window_s"]
    return f"lower bound: the profiles average over {window:g} s"


def _absent_words(entry: Block) -> str:
    return f"not supported: {entry['reason']}"
