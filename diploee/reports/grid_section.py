"""The section "As the grid sees it": the grid metrics of one run and its worst windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diploee.drawing.charts import Chart
from diploee.reports.content import PageTable, Section
from diploee.reports.data import RunData
from diploee.reports.demand_tables import demand_table, months_table
from diploee.reports.event_window_charts import event_windows_chart, read_event_window
from diploee.reports.grid_charts import (
    months_chart,
    no_swings,
    ramps_chart,
    spectrum_chart,
    swings_chart,
)
from diploee.reports.grid_data import Entry, GridView, LimitLine, grid_view
from diploee.reports.grid_tables import (
    bands_table,
    causes_table,
    lines_table,
    ramps_table,
    seconds,
    swings_table,
)
from diploee.reports.power_charts import duration_chart
from diploee.reports.words import listed
from diploee.units import PowerUnit


def grid_section(run: RunData, unit: PowerUnit, levels: Sequence[LimitLine] = ()) -> Section | None:
    """Return the section; None for a run of an older version, without grid metrics and windows.

    `levels` are what limits allow, as lines in its figures.
    """
    view = grid_view(run, unit, levels)
    notes: tuple[str, ...] = ()
    content: list[Chart | PageTable] = []
    if view is not None:
        notes = (_means_note(view), withheld(view.block), *_empty_notes(view))
        content += _metrics(view)
    entries = run.run.event_windows.values()
    if entries:
        content.append(
            event_windows_chart(run, [read_event_window(run, entry) for entry in entries], unit)
        )
    if why := causes_table(run, unit):
        content.append(why)
    if not content:
        return None
    return Section("grid", "As the grid sees it", tuple(content), notes)


def _metrics(view: GridView) -> Iterator[Chart | PageTable]:
    parts = (
        duration_chart([view.run], view.unit),
        demand_table(view),
        months_chart(view),
        months_table(view),
        ramps_chart(view),
        ramps_table(view),
        swings_chart(view),
        swings_table(view),
        spectrum_chart(view),
        bands_table(view),
        lines_table(view),
    )
    return (part for part in parts if part is not None)


def _means_note(view: GridView) -> str:
    transient_h = view.block.get("transient_h", 0.0)
    left_out = (
        f" The first {transient_h:,.1f} h, in which the run filled up from an empty facility, are "
        "left out of peaks, demand, ramps, swings, spectrum and event windows."
    )
    return (
        f"Every value here is of the run's own {view.resolution} means of facility power, or of "
        "longer means made of them where a length is given. Times are local: the start of an "
        f"interval; of a ramp, that of the earlier one.{left_out if transient_h else ''}"
    )


def _empty_notes(view: GridView) -> tuple[str, ...]:
    return () if swings_chart(view) else (no_swings(view),)


def withheld(block: Entry) -> str:
    """Return in one line what is not reported or marked, and why."""
    reasons: dict[str, list[str]] = {}
    kinds = (
        ("maximum demand over", block["maximum_demand"]["absent"], _interval_of),
        ("ramps over", block["ramps"]["absent"], _length_of),
        ("swings within", block["rolling_range"]["absent"], _length_of),
    )
    for kind, absent, name in kinds:
        by_reason: dict[str, list[str]] = {}
        for entry in absent:
            by_reason.setdefault(entry["reason"], []).append(name(entry))
        for reason, names in by_reason.items():
            reasons.setdefault(reason, []).append(f"{kind} {listed(names)}")
    for reason, low_hz, high_hz in _joined(block["spectrum"]["absent"]):
        reasons.setdefault(reason, []).append(f"the spectrum from {low_hz:g} to {high_hz:g} Hz")
    parts = [f"{listed(names)} ({reason})" for reason, names in reasons.items()]
    text = f"Withheld: {'; '.join(parts)}. " if parts else ""
    return f"{text}{_marked(block)}{_sentence(block['bandwidth']['note'])}"


def _marked(block: Entry) -> str:
    """Return what is given with a mark."""
    flagged = [
        f"{band['low_hz']:g} to {band['high_hz']:g} Hz ({band['flag_reason']})"
        for band in block["spectrum"]["bands"]
        if band["flagged"]
    ]
    bound = [
        *(f"ramps over {_length_of(e)}" for e in block["ramps"]["intervals"] if e["lower_bound"]),
        *(
            f"swings within {_length_of(e)}"
            for e in block["rolling_range"]["windows"]
            if e["lower_bound"]
        ),
    ]
    window_s = block["bandwidth"]["averaging_window_s"]
    words = f"Flagged: {listed(flagged)}. " if flagged else ""
    if bound:
        words += f"Lower bounds: {listed(bound)} (the profiles average over {window_s:g} s). "
    return words


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _interval_of(entry: Entry) -> str:
    return f"{entry['interval_min']} min"


def _length_of(entry: Entry) -> str:
    return seconds(entry["interval_s"] if "interval_s" in entry else entry["window_s"])


def _joined(absent: list[Entry]) -> Iterator[tuple[str, float, float]]:
    """Yield reason and range of the bands, adjacent ones of one reason as one."""
    found: list[tuple[str, float, float]] = []
    for band in absent:
        if found and found[-1][0] == band["reason"] and found[-1][2] == band["low_hz"]:
            found[-1] = (band["reason"], found[-1][1], band["high_hz"])
        else:
            found.append((band["reason"], band["low_hz"], band["high_hz"]))
    yield from found
