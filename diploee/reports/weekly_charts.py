"""Charts of power, occupancy, queues and services by time of day and week."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from diploee.base.metric import format_number
from diploee.base.units import (
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_WEEK,
    S_PER_H,
    PowerUnit,
)
from diploee.reports.aggregate import profile_by_time, round_edges, statistics_by_date
from diploee.reports.chart_elements import (
    DAY_AXIS,
    FEW_DAYS,
    WEEK_AXIS,
    days_axis,
    equalize_scales,
    histogram_layers,
    power_axis,
    run_colour,
    step_text,
)
from diploee.reports.data import RunData
from diploee.reports.drawing.charts import (
    PEAK,
    Area,
    Array,
    Axis,
    Chart,
    Line,
    Panel,
    colour,
    dash,
    since_monday,
)

BIN_MS = 15 * MS_PER_MIN
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
N_BINS = 50
RATE = "Requests per second [1/s]"

_Named = Iterable[tuple[int, str, RunData, Array]]
"""Colour index, name, run and values of each series."""


def bands_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the chart of percentile bands of power, by time of day and of week."""
    periods = [(DAY_AXIS, MS_PER_DAY, "By time of day")]
    if _have_a_week(runs):
        periods.append((WEEK_AXIS, MS_PER_WEEK, "By time of week"))
    parts = runs[0].parts if len(runs) == 1 else ()
    panels = [
        Panel(
            x,
            power_axis(drawn, unit),
            _percentile_layers(drawn, "power_w", period_ms, unit.watts, unit.power),
            f"{title}{by_part}",
        )
        for drawn, by_part in ((runs, ""), (parts, f", {runs[0].parts_text}"))
        for x, period_ms, title in periods
        if drawn
    ]
    caption = _bands_text(runs)
    if parts:
        caption += (
            f" {runs[0].parts_text.capitalize()}: medians, and bands from the 25th to "
            "the 75th"
        )
        caption += " percentile."
    return Chart(
        "bands",
        "Typical day and typical week",
        (
            f"{caption} Percentiles are taken over all {step_text(runs)} means that "
            "fall in the same quarter-hour, over the whole period; nothing is "
            "averaged first. Half of them lie below the median line."
        ),
        tuple(panels),
    )


def occupancy_chart(runs: Sequence[RunData]) -> Chart:
    """Return node occupancy by time of week, and by day (or time of day)."""
    percent, panels = Axis("Node occupancy [%]", range=(0, 102)), []
    first, last = _end_day(runs, 0), _end_day(runs, -1)
    caption = _bands_text(runs)
    if _have_a_week(runs):
        layers = _percentile_layers(runs, "utilization", MS_PER_WEEK, 0.01, "%")
        panels.append(Panel(WEEK_AXIS, percent, layers, "By time of week"))
    if first == last:
        layers = _percentile_layers(runs, "utilization", MS_PER_DAY, 0.01, "%")
        panels.append(Panel(DAY_AXIS, percent, layers, "By time of day"))
    else:
        named = (
            (k, run.label, run, run.utilization * 100) for k, run in enumerate(runs)
        )
        layers = tuple(_daily_layers(named, "%", 1, spread=len(runs) == 1))
        panels.append(Panel(days_axis(first, last), percent, layers, "By day"))
        span = (
            ", and the range from the lowest to the highest value"
            if len(runs) == 1
            else ""
        )
        caption = (
            f"{caption if len(panels) > 1 else ''} By day: the mean{span}.".strip()
        )
    return Chart(
        "occupancy",
        "Node occupancy",
        (
            "Busy nodes over all nodes (the paper's utilization, Eq. 1); it says "
            f"nothing on how hard the GPUs work. {caption}"
        ),
        tuple(panels),
    )


def queue_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return the chart of queue times; None if no job waited."""
    hours = [
        (k, run.label, run.waits / S_PER_H)
        for k, run in enumerate(runs)
        if run.waits is not None and run.waits.any()
    ]
    if not hours:
        return None
    edges = round_edges(0, max(float(waits.max()) for *_, waits in hours), N_BINS)
    alone, weekly, queued = len(hours) == 1, list[Line](), []
    for k, name, waits_h in hours:
        ms, (mean, p95) = profile_by_time(
            waits_h.index.to_numpy(), waits_h.to_numpy(), MS_PER_WEEK, MS_PER_H, (0.95,)
        )
        x, main = since_monday(ms), colour(k)
        if alone:
            weekly.append(Line(x, p95, "95 %", main, "h", dash="dot"))
        weekly.append(Line(x, mean, "mean" if alone else name, main, "h", dash=dash(k)))
        share = format_number(float((waits_h > 0).mean()), "{:.1f}", 100)
        queued.append(
            f"{'' if alone else f'{name}: '}{share} % of the started jobs queued at "
            "all."
        )
    samples = [(k, name, waits_h[waits_h > 0].to_numpy()) for k, name, waits_h in hours]
    return Chart(
        "queue",
        "Queue times",
        (
            "How long: share of the queued jobs by queue time. When: queue time by "
            "the hour of the week in which a job was submitted, over all started "
            "jobs, also those that did not wait; "
        )
        + ("solid: mean, dotted: 95th percentile." if alone else "lines are means."),
        (
            Panel(
                Axis("Queue time of queued jobs [h]", range=(0, edges[-1])),
                Axis("Share of queued jobs [%]", from_zero=True),
                histogram_layers(samples, edges, "% of queued jobs"),
                "How long queued jobs wait",
                notes=tuple(queued),
            ),
            Panel(
                WEEK_AXIS,
                Axis("Queue time [h]", from_zero=True),
                tuple(weekly),
                "When jobs wait",
            ),
        ),
    )


def rates_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return request rates by time of week; None for runs without services."""
    kinds = {"incoming_rps": "Incoming", "served_rps": "Served"}
    return _service_chart(
        "request-rates",
        "Request rates by service",
        "Mean rate",
        [_weekly_panel(runs, kind, RATE, title) for kind, title in kinds.items()],
    )


def instances_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return instances in use by time of week; None for runs without services."""
    panels = [_weekly_panel(runs, "n_instances", "Instances in use")]
    return _service_chart(
        "instances",
        "Model instances by service",
        "Mean number of instances in use",
        panels,
    )


def unserved_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return the unserved requests; None if all are served."""
    lost = list(_service_series(runs, "unserved_rps"))
    if not any(values.any() for *_, values in lost):
        return None
    shares = []
    for (_, name, _, offered), (*_, values) in zip(
        _service_series(runs, "incoming_rps"), lost, strict=True
    ):
        part = float(values.sum(dtype=np.float64)) / (
            float(offered.sum(dtype=np.float64)) or 1.0
        )
        shares.append(f"{name}: {100 * part:.2f} % of its requests.")
    per_day = ((k, name, run, values * 86_400 / 1e6) for k, name, run, values in lost)
    daily = Panel(
        days_axis(_end_day(runs, 0), _end_day(runs, -1)),
        Axis("Unserved requests per day [million]", from_zero=True),
        tuple(_daily_layers(per_day, "million", 3)),
        "By day",
        notes=tuple(shares),
    )
    return _service_chart(
        "unserved",
        "Unserved requests",
        (
            "Requests above the capacity of the running instances. By day: their sum. "
            "Else: mean rate"
        ),
        [_weekly_panel(runs, "unserved_rps", RATE, "By time of week"), daily],
    )


def _service_chart(
    id_: str, title: str, what: str, panels: Sequence[Panel]
) -> Chart | None:
    """Return a chart of services by time of week; None if all panels are empty."""
    drawn = equalize_scales([panel for panel in panels if panel.layers])
    words = (
        f"{what} by time of week, in bins of a quarter-hour over all weeks of the "
        "period."
    )
    return Chart(id_, title, words, drawn) if drawn else None


def _service_series(
    runs: Sequence[RunData], kind: str
) -> Iterator[tuple[int, str, RunData, Array]]:
    """Yield colour index, name, run and values of a column for each service."""
    columns_by_service = [
        (run, name, columns) for run in runs for name, columns in run.services.items()
    ]
    for k, (run, service, columns) in enumerate(columns_by_service):
        if kind in columns:
            name = f"{run.label}: {service}" if len(runs) > 1 else service
            yield k, name, run, columns[kind]


def _weekly_panel(
    runs: Sequence[RunData], kind: str, label: str, title: str = ""
) -> Panel:
    """Return the panel of a service column's means by time of week."""
    layers = []
    for k, name, run, values in _service_series(runs, kind):
        ms, (mean,) = profile_by_time(
            run.local_ms, values, MS_PER_WEEK, max(BIN_MS, run.step_ms)
        )
        unit = "instances" if kind == "n_instances" else "1/s"
        layers.append(Line(since_monday(ms), mean, name, colour(k), unit, 1, dash(k)))
    return Panel(WEEK_AXIS, Axis(label, from_zero=True), tuple(layers), title)


def _daily_layers(
    named: _Named, unit: str, digits: int, spread: bool = False
) -> Iterator[Area | Line]:
    """Yield daily means, and with `spread` the daily minimum and maximum."""
    for k, name, run, values in named:
        days = statistics_by_date(run.local_ms, values, "D")
        x, few = days.index.to_numpy().astype("datetime64[D]"), len(days) <= FEW_DAYS
        mean, low, high = days[["mean", "min", "max"]].to_numpy().T
        if spread:
            name, ends = "daily mean", ("lowest", "highest")
            yield Area(
                x, low, high, "lowest to highest", colour(k), 0.16, unit, digits, *ends
            )
        yield Line(x, mean, name, colour(k), unit, digits, dash(k), 1.5, markers=few)


def _percentile_layers(
    runs: Sequence[RunData], field: str, period_ms: int, divisor: float, unit: str
) -> tuple[Area | Line, ...]:
    """Return median and percentile bands of a run's field, by time of day or week."""
    layers: list[Area | Line] = []
    for k, run in enumerate(runs):
        values, bin_ms = getattr(run, field), max(BIN_MS, run.step_ms)
        ms, result = profile_by_time(run.local_ms, values, period_ms, bin_ms, LEVELS)
        _, p5, p25, p50, p75, p95, top = result / divisor
        x, main, median = since_monday(ms), run_colour(k, run), run.label
        if len(runs) == 1:
            median = "median"
            layers.append(Line(x, top, "maximum", PEAK, unit, width=1.2))
            layers.append(
                Area(x, p5, p95, "5 to 95 %", main, 0.16, unit, 2, "5 %", "95 %")
            )
            layers.append(
                Area(x, p25, p75, "25 to 75 %", main, 0.34, unit, 2, "25 %", "75 %")
            )
        else:
            layers.append(Area(x, p25, p75, run.label, main, 0.16, legend=False))
        layers.append(Line(x, p50, median, main, unit, dash=dash(k), width=2.2))
    return tuple(layers)


def _bands_text(runs: Sequence[RunData]) -> str:
    if len(runs) > 1:
        return "Lines: medians. Bands: 25th to 75th percentile."
    return (
        "Line: median. Dark band: 25th to 75th percentile. Light band: 5th to 95th. "
        "Thin grey line: the highest value."
    )


def _have_a_week(runs: Sequence[RunData]) -> bool:
    return all(run.local_ms.size * run.step_ms >= MS_PER_WEEK for run in runs)


def _end_day(runs: Sequence[RunData], end: int) -> np.datetime64:
    """Return the first (`end` 0) or the last (-1) calendar day of all runs."""
    days = [
        run.local_ms[end].astype("datetime64[ms]").astype("datetime64[D]")
        for run in runs
    ]
    result: np.datetime64 = max(days) if end else min(days)
    return result
