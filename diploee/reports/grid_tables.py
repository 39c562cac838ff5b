"""Tables of the grid metrics: ramps, swings, bands and lines of the spectrum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diploee.errors import plural
from diploee.metric import NONE, number
from diploee.metrics.cause_words import cause_words, causes_of, event_words
from diploee.metrics.changes import SIZES
from diploee.reports.content import PageTable
from diploee.reports.data import RunData
from diploee.reports.grid_data import Entry, GridView, cells
from diploee.reports.words import interval, moment, pattern_for
from diploee.units import MS_PER_S, W_PER_MW, PowerUnit


def ramps_table(view: GridView) -> PageTable:
    """Return the ramps up and down by their length, those not supported with the reason."""
    block, unit = view.block["ramps"], view.unit.power
    return _table(
        view,
        "Ramps",
        ("Over", "", *_size_headers(unit), f"Largest [{unit}/min]", "When", "Why"),
        [e[way] | e | {"way": way} for e in block["intervals"] for way in ("up", "down")],
        block["absent"],
        lambda e: (seconds(e["interval_s"]), e.get("way", "up, down")),
        tuple(f"{size}_mw" for size in SIZES),
        lambda e: (_rate(view, e), view.when(e["time"]), _ramp_words(view, e)),
        f"Of {view.resolution} means. A ramp is the difference of the means of two adjacent "
        "intervals of the length given, at every start of an interval of the run; percentiles are "
        f"over all of them, {_error_words(block)}.{_event_window_words(view)}",
    )


def swings_table(view: GridView) -> PageTable | None:
    """Return the rolling ranges by window; None where no window is supported."""
    block = view.block["rolling_range"]
    if not block["windows"]:
        return None
    return _table(
        view,
        "Rapid load changes",
        ("Within", *_size_headers(view.unit.power), "From", ""),
        block["windows"],
        block["absent"],
        lambda e: (seconds(e["window_s"]),),
        tuple(f"{size}_mw" for size in SIZES),
        lambda e: (view.when(e["time"]), _bound_words(view, e)),
        f"Rolling range: the largest less the smallest of the {view.resolution} means within a "
        f"window, at every start of an interval of the run; percentiles are over all of them, "
        f"{_error_words(block)}.",
    )


def bands_table(view: GridView) -> PageTable | None:
    """Return the band levels of the 10-minute windows; None where no band is supported."""
    block, unit = view.block["spectrum"], view.unit.power
    if not block["bands"]:
        return None
    levels = (f"{size} rms [{unit}]" for size in ("P50", "P99", "Largest"))
    return _table(
        view,
        "Band levels",
        ("Band", *levels, "Worst window from", "Strongest there [Hz]", ""),
        block["bands"],
        block["absent"],
        lambda e: (band_name(e),),
        ("rms_p50_mw", "rms_p99_mw", "rms_max_mw"),
        lambda e: (
            moment(e["worst_window"]),
            number(e["worst_window_strongest_hz"], "{:.4f}"),
            f"flagged: {e['flag_reason']}" if e["flagged"] else "",
        ),
        _spectrum_words(view),
    )


_Cells = Callable[[Entry], tuple[str, ...]]


def _table(
    view: GridView,
    title: str,
    header: tuple[str, ...],
    entries: Sequence[Entry],
    absent: Sequence[Entry],
    names: _Cells,
    sizes: Sequence[str],
    rest: _Cells,
    note: str,
) -> PageTable:
    """Return a row for each entry, by length or frequency: names, sizes [MW], the rest.

    An entry that the run does not support stands with the reason.
    """
    columns = [view.cells([entry[size] for entry in entries]) for size in sizes]
    rows = [
        (entry, (*names(entry), *cells_, *rest(entry)))
        for entry, *cells_ in zip(entries, *columns, strict=True)
    ]
    for entry in absent:
        told = names(entry)
        nothing = [NONE] * (len(header) - len(told) - 1)
        rows.append((entry, (*told, *nothing, f"not supported: {entry['reason']}")))
    rows.sort(key=lambda row: next(row[0][k] for k in _ORDER if k in row[0]))
    n_names = len(names(rows[0][0]))
    return PageTable(title, header, tuple(row for _, row in rows), note, n_names, n_texts=1)


_ORDER = ("interval_s", "window_s", "low_hz")


def _size_headers(unit: str) -> tuple[str, ...]:
    return tuple(f"{size[0].upper()}{size[1:]} [{unit}]" for size in SIZES.values())


def _rate(view: GridView, entry: Entry) -> str:
    """Return the largest rate; rates differ by powers of ten, so each has decimals of its own."""
    rates = view.in_unit([entry["max_mw_per_min"]])
    return number(rates[0], pattern_for(rates, 3))


def lines_table(view: GridView) -> PageTable | None:
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
            flag if line["flagged"] else line.get("reason", ""),
        )
        for k, line in enumerate(lines)
    )
    return PageTable(
        "Strongest lines of the mean spectrum",
        ("Line", "Period [s]", f"Rms [{view.unit.power}]", "Over the floor", ""),
        rows,
        f"Of {view.resolution} means. Where the mean over all windows stands out of its own "
        "floor, the median of the bins around, by more than noise would.",
        n_texts=1,
    )


def causes_table(run: RunData, unit: PowerUnit) -> PageTable | None:
    """Return why each of the worst events came about; None of a run of an older version."""
    found = list(causes_of(run.metrics))
    if not found:
        return None
    changes = cells([cause["change_mw"] * W_PER_MW / unit.watts for _, _, cause in found])
    return PageTable(
        "Why",
        ("Event", f"Change [{unit.power}]", "When", "Causes"),
        tuple(
            (_event_name(key), change, moment(time, run.resolution_ms), cause_words(cause, unit))
            for (key, time, cause), change in zip(found, changes, strict=True)
        ),
        f"Of {interval(run.resolution_ms)} means, event windows of their own. The change between "
        "the means that were compared (of a swing the two extremes, of the peak against the mean "
        "of the run), by stream, service and stage: net, gross in brackets; a job counts from what "
        "its nodes draw idle. The metrics hold all parts.",
        n_texts=2,
    )


def _event_name(key: tuple[str, float, str]) -> str:
    words = event_words(key)
    return f"{words[:1].upper()}{words[1:]}"


def band_name(band: Entry) -> str:
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


def _error_words(block: Entry) -> str:
    error = number(block.get("percentile_relative_error"), "{:.1f}", 100)
    return f"within {error} % of their value"


def _event_window_words(view: GridView) -> str:
    if not view.run.run.event_windows:
        return ""
    return " The largest steps over 1 s, 10 s and 1 min stand below, with the worst windows."


def _ramp_words(view: GridView, entry: Entry) -> str:
    """Return why the largest ramp came about, in short, and whether it is a lower bound."""
    cause = entry.get("cause")
    why = cause_words(cause, view.unit, brief=True) if cause else ""
    return "; ".join(filter(None, (why, _bound_words(view, entry))))


def _bound_words(view: GridView, entry: Entry) -> str:
    if not entry["lower_bound"]:
        return ""
    window: Any = view.block["bandwidth"]["averaging_window_s"]
    return f"lower bound: the profiles average over {window:g} s"
