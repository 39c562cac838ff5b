"""Sections of a run's results, the main results first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from diploee.base.metric import format_short
from diploee.base.units import W_PER_MW
from diploee.grid.dynamics.ride_through_study import RideThroughResult
from diploee.grid.limits.report import LimitReport, limits_section
from diploee.metrics.attribution_text import cause_text, event_label, read_causes
from diploee.metrics.load_changes import Key
from diploee.runs.formatting import format_time, interval, listed
from diploee.runs.lower_bounds import data_limits_note
from diploee.runs.metric_labels import LABELS
from diploee.runs.metric_order import FIRST, RANKED
from diploee.runs.provenance import provenance
from diploee.runs.reader import RunFolder
from diploee.runs.run_view import RunView
from diploee.runs.sections import Section, SectionTable, Statistic


def run_sections(
    run: RunFolder,
    limits: Sequence[LimitReport] = (),
    ride_through_result: RideThroughResult | None = None,
) -> list[Section]:
    """Return the sections of a run, the main results first.

    Parameters
    ----------
    run : RunFolder
        An open run.
    limits : sequence of LimitReport
        Compliance reports; each gives a line of the main results and a table.
    ride_through_result : RideThroughResult, optional
        Ride-through of the site.

    Returns
    -------
    list of Section
        Sections in the order of a page.
    """
    view = RunView(run)
    result = [_main_results(view, limits)]
    if limits:
        result.append(limits_section([(report, "") for report in limits]))
    result += [view.section(part) for part in RANKED]
    ramps = next(k for k, section in enumerate(result) if section.id == "ramps")
    result[ramps] = _add_causes(result[ramps], view)
    notes = {
        "poi": [*_billing_notes(run), *reactive_notes(run)],
        "ramps": voltage_notes(view),
    }
    notes["services"] = _latency_notes(run)
    result = [replace(s, notes=(*s.notes, *notes.get(s.id, ()))) for s in result if s]
    return [
        *result,
        *([ride_through_result.section()] if ride_through_result else []),
        provenance(run),
    ]


def reactive_notes(run: RunFolder) -> list[str]:
    """Return notes on assumed reactive power, unless an ensemble gives its range."""
    if run.bands or not run.manifest.get("assumed") or not run.metrics.get("poi"):
        return []
    return [
        (
            "Reactive power rests on assumed filters, capacitors and transformers: it "
            "is known to 30 % at best, and its sign may not be."
        ),
        (
            "The band of reactive power: diploee ensemble SITE --assumed --runs 40, "
            "then --bands."
        ),
    ]


def _billing_notes(run: RunFolder) -> list[str]:
    """Return notes on incomplete months, and on demand ratchets known in part only."""
    months = (run.metrics.get("billing") or {}).get("months") or []
    partial = [month["month"] for month in months if not month["complete"]]
    bound = [m["month"] for m in months if (m.get("billed") or {}).get("lower_bound")]
    notes = [f"Only what the run covers: {listed(partial)}."] if partial else []
    ratchet = "Lower bounds, as the ratchet knows fewer than 11 whole months"
    return [*notes, *([f"{ratchet}: {listed(bound)}."] if bound else [])]


def _latency_notes(run: RunFolder) -> list[str]:
    """Return the reasons for missing means of end-to-end latency."""
    services = (run.metrics.get("requests") or {}).get("services") or {}
    return [
        f"No mean end-to-end latency of {name}: {absent['reason']}."
        for name, of in services.items()
        for absent in (of.get("latency_s") or {}).get("absent", ())
        if absent["name"] == "mean"
    ]


def voltage_notes(view: RunView) -> list[str]:
    """Return notes on rapid voltage changes: lower bounds and collapses."""
    result = []
    if view.values.get("grid.voltage_change.lower_bound"):
        result.append(
            "Voltage changes are lower bounds, as no reactive power is modelled."
        )
    if n := view.values.get("grid.voltage_change.collapses"):
        result.append(
            f"The voltage collapses at {n:,} instants: two buses have no solution."
        )
    return result


def _main_results(view: RunView, limits: Sequence[LimitReport]) -> Section:
    """Return the main results: events, compliance, peak, worst ramp and energy."""
    metered = bool(view.run.metrics.get("poi"))
    left_out = (
        {"jobs.mean_queue_time_queued_h", "power.peak_to_average_ratio"}
        if metered
        else {"power.load_factor"}
    )
    used, contract_note = view.values.get(FIRST[0]), ""
    for unit in ("mw", "mva"):
        if used and (most := view.values.get(f"poi.headroom.contract_{unit}")):
            contract_note = (
                f"{format_short(used * most)} of {format_short(most)} {unit.upper()}"
            )
    notes = {
        "poi.headroom.use": contract_note,
        "requests.per_node_rps": _output_length_note(view),
    }
    unserved, incoming = (
        view.values.get(f"requests.{n}_rps") for n in ("incomplete", "incoming")
    )
    if unserved and incoming:
        share = 100 * unserved / incoming
        notes["requests.incomplete_rps"] = f"{share:.2g} % of all"
    result = [
        view.statistic(key, LABELS[key].name, notes.get(key, view.time_text(key)))
        for key in FIRST
        if key not in left_out and (key != FIRST[-1] or view.values.get(key))
    ]
    verdicts = tuple(
        Statistic(
            report.name or "limits",
            report.verdict,
            key="verdict",
            note="; ".join(filter(None, (report.margin_text(), report.counts_text()))),
        )
        for report in sorted(limits, key=LimitReport.rank)
    )
    events = _event_results(view.run)
    notes_text = [f"Power is taken at: {view.run.boundary()}."]
    notes_text += [view.run.bands.note] if view.run.bands else []
    figures = (*events, *verdicts, *filter(None, result))
    return Section(
        "answer", "At a glance", figures, (), ("overview",), tuple(notes_text)
    )


def _output_length_note(view: RunView) -> str:
    """Return a note on the output lengths of services, and on tokens per node."""
    lengths: dict[int | str, list[str]] = {}
    for stream in view.run.scenario.request_streams.values():
        for name, service in stream.services.items():
            lengths.setdefault(service.output_tokens, []).append(name)
    result = [
        f"{listed(names)}: answers as long as their trace's"
        if length == "trace"
        else f"{listed(names)}: answers of {length:,} tokens (output_tokens)"
        for length, names in lengths.items()
    ]
    rate = view.values.get("requests.per_node_rps")
    if rate and len(lengths) == 1 and isinstance(length := next(iter(lengths)), int):
        result.append(f"{format_short(rate * length)} tokens/s per node")
    return "; ".join(result)


_MAX_EVENTS = 4
"""Maximum number of events that the main results list one by one."""


def _event_results(run: RunFolder) -> list[Statistic]:
    """Return the result of each demand-response event: compliance and cost."""
    entries = (run.metrics.get("flexibility") or {}).get("events") or []
    measured = [
        e for e in entries if e.get("held_fraction") is not None and e["before_mw"]
    ]
    is_off = run.scenario.flexibility is not None and run.scenario.flexibility.is_off
    result = []
    for e in measured:
        start, end = (
            datetime.fromisoformat(e["times"][name]) for name in ("start", "end")
        )
        length = interval(round((end - start) / timedelta(milliseconds=1)))
        texts = [
            f"{100 * (1 - e['target_mw'] / e['before_mw']):.0f} % less for {length}"
        ]
        if is_off:
            texts.append("measured alone, controller: off")
        elif (work := e.get("weighted_performance")) is not None:
            texts.append(f"jobs did {100 * work:.0f} % of their work, weighted by tier")
        held_fraction = e["held_fraction"]
        value = (
            "held"
            if held_fraction == 1
            else f"held {int(100 * held_fraction)} % of it"
            if held_fraction
            else "not held"
        )
        result.append(
            Statistic(f"Event {e['name']}", value, note="; ".join(texts), key="event")
        )
    if len(result) <= _MAX_EVENTS:
        return result
    n_held = sum(e["held_fraction"] == 1 for e in measured)
    value = "held" if n_held == len(result) else f"{n_held} held"
    return [
        Statistic(
            f"{len(result)} events", value, note="each is in a table below", key="event"
        )
    ]


_COMMON_EVENTS = {("ramps", 60.0), ("changes", 600.0)}


def _is_common_event(key: Key) -> bool:
    """Return True for the peak, and for extreme events of the usual durations."""
    return key[0] == "peak" or key[:2] in _COMMON_EVENTS


def worst_weeks(metrics: Mapping[str, Any]) -> list[tuple[list[str], str]]:
    """Return names and time of extreme events by week, except the peak's week."""
    weeks: dict[tuple[int, int], tuple[list[str], str]] = {}
    of_peak = None
    for key, time, _ in read_causes(metrics):
        if _is_common_event(key):
            week = datetime.fromisoformat(time).isocalendar()[:2]
            of_peak = week if key[0] == "peak" else of_peak
            words = event_label(key)
            weeks.setdefault(week, ([], time))[0].append(
                f"{words[:1].upper()}{words[1:]}"
            )
    return [result for week, result in weeks.items() if week != of_peak]


def _add_causes(section: Section, view: RunView) -> Section:
    """Return the section of ramps with the causes of each extreme event."""
    per = W_PER_MW / view.unit.watts
    figures: dict[bool, list[Statistic]] = {True: [], False: []}
    elsewhere = {name for names, _ in worst_weeks(view.run.metrics) for name in names}
    for key, time, cause in read_causes(view.run.metrics):
        label = event_label(key)
        item = f"{label[:1].upper()}{label[1:]}"
        is_common = _is_common_event(key)
        chart_id = (
            "worst-weeks" if item in elsewhere else "peak-week" if is_common else ""
        )
        figures[is_common] += [
            Statistic(
                item, cause["change_mw"] * per, view.unit.power, quantity="Change"
            ),
            Statistic(
                item, format_time(time, view.step_ms), quantity="When", link=chart_id
            ),
            Statistic(item, cause_text(cause, view.unit), quantity="Causes"),
        ]
    note = (
        "By stream, service and stage: net, gross in brackets; a job counts from what "
        "its nodes draw idle."
    )
    main_table = SectionTable(
        "Why the worst events came about", tuple(figures[True]), note, "Event"
    )
    others = SectionTable("Why, of other lengths", tuple(figures[False]), note, "Event")
    grid = view.run.metrics.get("grid") or {}
    notes = [data_limits_note(grid)] if grid else []
    if filled_h := grid.get("transient_h"):
        notes.append(
            f"The first {filled_h:,.1f} h, in which the run filled up from an empty "
            "facility, are left out of peaks, demand, ramps, swings, spectrum and "
            "event windows."
        )
    tables = (
        *(table for table in (main_table, others) if table.figures),
        *section.tables,
    )
    return replace(section, tables=tables, notes=tuple(notes))
