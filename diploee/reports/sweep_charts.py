"""Sections of a sweep: metrics over its axes, spread over seeds, and compliance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.errors import InputError, plural
from diploee.base.metric import Metric
from diploee.base.tables import Float64Array, Kind, open_parquet, to_pandas_frame
from diploee.base.units import MS_PER_H, W_PER_MW, power_unit
from diploee.grid.limits.file import Limits, load_limits
from diploee.grid.limits.report import LimitReport, get_report
from diploee.metrics.catalogue import metrics_of_runs
from diploee.reports.aggregate import round_edges
from diploee.reports.chart_elements import WEEK_AXIS, histogram_layers, padded_range
from diploee.reports.drawing.charts import (
    PALETTE,
    PEAK,
    Area,
    Axis,
    Carpet,
    Chart,
    Line,
    Panel,
    colour,
    dash,
    log_axis,
    since_monday,
)
from diploee.reports.sweep_data import (
    MEAN_POWER,
    RUNS_FOLDER,
    SweepData,
    evenly_spaced,
    moving_axes,
    point_name,
    short_name,
    value_text,
)
from diploee.runs.formatting import MIN_RUNS, listed
from diploee.runs.parquet_files import FACILITY_FILE
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic

if TYPE_CHECKING:
    import pandas as pd

MAX_LINES = len(PALETTE)
"""Maximum number of values of an axis that are drawn as lines."""
MIN_RATIO = 8.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""
MAX_ROWS = 60
MAX_METRICS = 9
"""Maximum number of drawn metrics; the table has all, and `metrics` of the sweep sets
their order."""
MIN_SPREAD = 5
"""Minimum number of runs for a distribution."""
MAX_POINTS = 12
"""Maximum number of points whose spread is drawn."""
VERDICTS = ("not met", "inconclusive", "met")
ENSEMBLE_TABLE, ENVELOPE_TABLE = "ensemble.parquet", "envelope.parquet"
_PERCENTILES = ("p5", "p50", "p95")
_SPREAD: dict[str, Kind] = {
    "metric": "text",
    **dict.fromkeys(("point", "n", "mean", "min", "max", *_PERCENTILES), "number"),
    "seeds_for_mean": "any",
}
_LEVELS = ("p5_w", "p50_w", "p95_w", "min_w", "max_w")
_ENVELOPE: dict[str, Kind] = {
    "kind": "text",
    **dict.fromkeys(("point", "at", *_LEVELS), "number"),
}


def sweep_sections(sweep: SweepData, limits: Sequence[str]) -> list[Section]:
    """Return the sections of a sweep: points, ensemble spread and compliance."""
    title, charts = "Metrics against the axes", tuple(_axis_charts(sweep))
    points = Section("sweep", title, (), (_points_table(sweep),), charts)
    return [
        points,
        *filter(None, (_ensemble_section(sweep), _compliance_section(sweep, limits))),
    ]


def _summary_metrics(sweep: SweepData) -> list[Metric]:
    """Return the summary metrics of the sweep, with power in a suitable unit."""
    result = sweep.finished
    unit = power_unit(result.get("power.max_mw", result[MEAN_POWER]).max() * W_PER_MW)
    main = (metric.sized(unit) for metric in metrics_of_runs(sweep.metrics))
    return [m for m in main if m.key in result and result[m.key].any()]


def _metrics_to_draw(sweep: SweepData) -> tuple[list[Metric], str]:
    """Return the metrics that vary (all if none does), and notes on the others."""
    present = _summary_metrics(sweep)
    moving = [m for m in present if len(sweep.finished[m.key].dropna().unique()) > 1]
    drawn_metrics, notes = (moving or present)[:MAX_METRICS], ""
    for text, names in (
        (
            "The same in all runs, so not drawn",
            [m.label for m in present if m not in moving],
        ),
        ("In the table alone", [m.label for m in moving if m not in drawn_metrics]),
    ):
        notes += f" {text}: {listed(names)}." if names and moving else ""
    return drawn_metrics, notes


def _axis_charts(sweep: SweepData) -> Iterator[Chart]:
    """Yield a chart for each axis with several values, with a panel for each metric.

    Of zipped axes, only the first has a chart. With two axes there is also a map of
    each metric. A sweep over only seeds or draws has one chart, of the metrics'
    distributions.
    """
    moving, (metrics, words) = (
        moving_axes(sweep.finished, sweep.axes),
        _metrics_to_draw(sweep),
    )
    seeds = [plural(sweep.n_seeds, "seed")] if sweep.n_seeds > 1 else []
    if not moving and len(sweep.finished) >= MIN_SPREAD:
        yield Chart(
            "spread",
            "Spread of the metrics",
            (
                f"Share of the {plural(len(sweep.finished), 'run')} in each bin. The "
                "runs differ in their seed and in the drawn parameters, where there "
                f"are any.{words}"
            ),
            tuple(_spread_panel(sweep, metric) for metric in metrics),
        )
    for k, axis in enumerate(moving, start=1):
        others = [other for other in moving if other != axis]
        group = next(
            (o for o in others if sweep.finished[o].nunique() <= MAX_LINES), None
        )
        over = [*seeds, *(short_name(other) for other in others if other != group)]
        numeric, notes = _is_numeric(sweep.finished[axis]), ""
        if over:
            notes = (
                f" {'Lines join the' if numeric else 'Large points are'} medians over "
            )
            notes += (
                f"{listed(over)}; the {'band' if numeric and not group else 'bars'} "
                "from "
            )
            notes += f"{_band_quantiles(sweep, axis, group)[2]}."
        notes += f" Colour: {short_name(group)}." if group else ""
        yield Chart(
            f"axis-{k}",
            f"Metrics against {short_name(axis)}",
            f"Horizontal axis: the key {axis}. Each small point is a run."
            f"{notes}{words}",
            tuple(_panel(sweep, metric, axis, group) for metric in metrics),
        )
    if len(moving) > 1:
        over = [*seeds, *(short_name(axis) for axis in moving[2:])]
        yield Chart(
            "map",
            f"Metrics over {short_name(moving[0])} and {short_name(moving[1])}",
            (
                "Colour and number: "
                f"{f'median over {listed(over)}' if over else 'value of the run'}"
                f".{words}"
            ),
            tuple(_metric_map(sweep, metric, *moving[:2]) for metric in metrics),
        )


def _metric_map(sweep: SweepData, metric: Metric, across: str, up: str) -> Panel:
    """Return a map of a metric over two axes."""
    numeric = all(_is_numeric(sweep.finished[axis]) for axis in (across, up))
    table = sweep.finished.pivot_table(
        values=metric.key, index=up, columns=across, aggfunc="median", sort=numeric
    )
    z = table.to_numpy(float) * metric.factor
    x, y = (
        np.array([value_text(v) for v in names])
        for names in (table.columns, table.index)
    )
    ends = float(np.nanmin(z)), float(np.nanmax(z))
    carpet = Carpet(x, y, z, metric.suffix, *ends, metric.heading)
    x_axis, y_axis = (
        Axis(short_name(a).capitalize(), "category") for a in (across, up)
    )
    return Panel(x_axis, y_axis, (carpet,), metric.name, small=True)


def _spread_panel(sweep: SweepData, metric: Metric) -> Panel:
    values = sweep.finished[metric.key].dropna().to_numpy(float) * metric.factor
    n_bins = int(np.clip(2 * np.sqrt(values.size), 5, 20))
    edges = round_edges(float(values.min()), float(values.max()), n_bins)
    bars = histogram_layers([(0, "runs", values)], edges, "% of runs")
    y_axis = Axis("Share of the runs [%]", from_zero=True)
    return Panel(Axis(metric.heading), y_axis, bars, metric.name)


def _panel(sweep: SweepData, metric: Metric, axis: str, group: str | None) -> Panel:
    rows = sweep.finished[sweep.finished[metric.key].notna()]
    numeric, parts = _is_numeric(rows[axis]), [("median", rows)]
    if group is not None:
        grouped = rows.groupby(group, sort=_is_numeric(rows[group]))
        parts = [(f"{short_name(group)} {value_text(v)}", part) for v, part in grouped]
    layers: list[Line | Area] = []
    lower, upper, reach = _band_quantiles(sweep, axis, group)
    for k, (name, part) in enumerate(parts):
        values, main = part[metric.key] * metric.factor, colour(k)
        # Categories have no values between them to connect
        by_axis = values.groupby(part[axis], sort=numeric)
        low, y, high = (by_axis.quantile(level) for level in (lower, 0.5, upper))
        x, ends = y.index.to_numpy(), (low.to_numpy(), high.to_numpy())
        many, about = len(values) > len(y), (main, metric.suffix, metric.digits)
        is_band = many and numeric and group is None
        if is_band:
            layers.append(Area(x, *ends, reach, main, 0.14))
        layers.append(
            Line(
                x,
                y.to_numpy(),
                name,
                *about,
                dash(k),
                2.0 if numeric else 0.0,
                markers=True,
                legend=group is not None,
                limits=ends if many and not is_band else None,
            )
        )
        if many:
            layers.append(
                Line(
                    part[axis].to_numpy(),
                    values.to_numpy(),
                    name,
                    *about,
                    markers_only=True,
                    legend=False,
                )
            )
    label = short_name(axis).capitalize()
    x_axis = (
        _number_axis(label, rows[axis].to_numpy(float))
        if numeric
        else Axis(label, "category")
    )
    return Panel(x_axis, Axis(metric.heading), tuple(layers), metric.name)


def _band_quantiles(
    sweep: SweepData, axis: str, group: str | None
) -> tuple[float, float, str]:
    """Return the lower and upper quantile of bands, and a label such as `P5 to P95`."""
    fewest = sweep.finished.groupby([axis, *([group] if group else [])]).size().min()
    return (
        (0.05, 0.95, "P5 to P95")
        if fewest >= MIN_RUNS
        else (0.0, 1.0, "least to largest")
    )


def _number_axis(label: str, values: Float64Array) -> Axis:
    """Return a number axis, logarithmic if the values span a large ratio."""
    places = np.unique(values)
    if places.size < 3 or places[0] <= 0 or places[-1] / places[0] < MIN_RATIO:
        return Axis(label)
    uneven = [np.ptp(np.diff(p)) / np.diff(p).mean() for p in (places, np.log(places))]
    return log_axis(label, places) if uneven[1] < uneven[0] else Axis(label)


def _is_numeric(values: pd.Series[Any]) -> bool:
    return values.dtype.kind in "iuf"


def _points_table(sweep: SweepData) -> SectionTable:
    """Return the medians over seeds for each point of the axes."""
    metrics, by = _summary_metrics(sweep), list(sweep.axes) or (lambda _: "all")
    figures: list[Statistic] = []
    # In the order of the sweep's file
    points: Any = list(sweep.finished.groupby(by, sort=False))
    moving = moving_axes(sweep.finished, sweep.axes)
    for _, part in points[:MAX_ROWS]:
        item = point_name(part.iloc[0], moving) or "all"
        figures.append(Statistic(item, len(part), quantity="runs", pattern="{:,.0f}"))
        figures += [
            Statistic(
                item,
                float(part[m.key].median()) * m.factor,
                m.suffix,
                quantity=m.name,
                key=m.key,
                pattern=m.format,
            )
            for m in metrics
        ]
    over = f", medians over {sweep.n_seeds} seeds" if sweep.n_seeds > 1 else ""
    note = f"{plural(len(sweep.finished), 'run')}{over}."
    if len(points) > MAX_ROWS:
        note += (
            f" The first {MAX_ROWS} of {len(points)} points; summary.parquet holds all."
        )
    return SectionTable("Points of the sweep", tuple(figures), note, "Point")


def _ensemble_section(sweep: SweepData) -> Section | None:
    """Return the spread of load and metrics; None without an ensemble."""
    if not (sweep.folder / ENSEMBLE_TABLE).is_file() or "point" not in sweep.finished:
        return None
    spread, envelope = (
        _read_table(sweep, name, columns)
        for name, columns in ((ENSEMBLE_TABLE, _SPREAD), (ENVELOPE_TABLE, _ENVELOPE))
    )
    finished = sweep.finished.drop_duplicates("point")
    moving, metrics = moving_axes(finished, sweep.axes), _summary_metrics(sweep)
    names = {
        int(row["point"]): point_name(row, moving) for _, row in finished.iterrows()
    }
    result = [int(point) for point in spread["point"].unique() if point in names]
    rows, drawn = (
        {result[k]: names[result[k]] for k in evenly_spaced(len(result), most)}
        for most in (MAX_ROWS, MAX_POINTS)
    )
    supported = set(spread["point"][spread["p5"].notna()])
    return Section(
        "ensemble",
        "Spread over seeds and draws",
        (),
        tuple(_spread_tables(spread, rows, metrics, sweep.accuracy)),
        tuple(
            _envelopes(
                envelope,
                drawn,
                supported,
                _omission_note(drawn, result, ENVELOPE_TABLE),
            )
        ),
        tuple(filter(None, [_omission_note(rows, result, ENSEMBLE_TABLE)])),
    )


def _omission_note(shown: Sized, all_points: Sized, table: str) -> str:
    """Return a note with the number of shown points, if some are left out."""
    few = len(shown) < len(all_points)
    return (
        f"{len(shown)} of {len(all_points)} points, evenly spread; all are in {table}."
        if few
        else ""
    )


def _read_table(sweep: SweepData, name: str, columns: dict[str, Kind]) -> pd.DataFrame:
    with open_parquet(
        sweep.folder / name, columns, remedy="run the sweep again"
    ) as file:
        return to_pandas_frame(file.read())


def _envelopes(
    envelope: pd.DataFrame, named: dict[int, str], supported: set[int], cut: str
) -> Iterator[Chart]:
    unit = power_unit(float(envelope["max_w"].max()))
    share = Axis("Share of the time [%]", range=(0, 100))
    for kind, id_, title, axis, what in (
        (
            "hour_of_week_mean",
            "envelope-week",
            "The typical week and its spread",
            WEEK_AXIS,
            "Mean power by hour of the week",
        ),
        (
            "duration_curve",
            "envelope-duration",
            "Load duration and its spread",
            share,
            "Power exceeded for a share of the time",
        ),
    ):
        rows = envelope[
            (envelope["kind"] == kind) & envelope["point"].isin(list(named))
        ]
        ends = padded_range(
            rows["min_w"].min() / unit.watts, rows["max_w"].max() / unit.watts
        )
        power, panels = Axis(f"Facility power [{unit.power}]", range=ends), []
        for point, name in named.items():
            of = rows[rows["point"] == point]
            at = of["at"].to_numpy()
            x = (
                since_monday((at * MS_PER_H).astype(np.int64))
                if axis is WEEK_AXIS
                else at * 100
            )
            p5, p50, p95, low, high = (
                of[level].to_numpy() / unit.watts for level in _LEVELS
            )
            panels.append(
                Panel(
                    axis,
                    power,
                    (
                        Area(
                            x,
                            low,
                            high,
                            "all members",
                            PEAK,
                            0.18,
                            unit.power,
                            3,
                            "lowest",
                            "highest",
                        ),
                        *(
                            [
                                Area(
                                    x,
                                    p5,
                                    p95,
                                    "P5 to P95",
                                    colour(0),
                                    0.3,
                                    unit.power,
                                    3,
                                    "P5",
                                    "P95",
                                )
                            ]
                            if point in supported
                            else []
                        ),
                        Line(x, p50, "median", colour(0), unit.power, 3),
                    ),
                    name,
                )
            )
        if any(len(panel.layers[0].x) > 1 for panel in panels):
            words = (
                f"{what}, over the members of a point, at each place of the axis for "
                "itself."
            )
            yield Chart(id_, title, f"{words} {cut}".rstrip(), tuple(panels))


def _spread_tables(
    spread: pd.DataFrame, named: dict[int, str], metrics: list[Metric], accuracy: float
) -> Iterator[SectionTable]:
    """Yield one table of metrics for a single point, else one per metric."""
    alone, over = len(named) == 1, f"over {int(spread['n'].max())} members"
    note = (
        "Seeds that bring the 95 % confidence interval of the mean to "
        f"{100 * accuracy:g} %; ensemble.json describes the method."
    )
    of_metrics = {m: [*_spread_cells(spread, named, m, alone)] for m in metrics}
    if alone:
        figures = tuple(figure for of in of_metrics.values() for figure in of)
        yield SectionTable(f"Spread {over}", figures, note, "Metric")
        return
    for m, of in of_metrics.items():
        if of:
            yield SectionTable(f"{m.heading}, {over}", tuple(of), note, "Point")
            note = ""


def _spread_cells(
    spread: pd.DataFrame, named: dict[int, str], m: Metric, alone: bool
) -> Iterator[Statistic]:
    from pandas import notna

    rows = spread[(spread["metric"] == m.key) & spread["point"].isin(list(named))]
    ends = ("min", "p50", "max") if spread["p5"].isna().all() else _PERCENTILES
    for of in rows.to_dict("records"):
        item = m.heading if alone else named[int(of["point"])]
        for p in (p for p in ends if notna(of[p])):
            yield Statistic(
                item,
                float(of[p]) * m.factor,
                quantity=p.replace("p", "P"),
                pattern=m.format,
            )
        if notna(n_seeds := of["seeds_for_mean"]):
            yield Statistic(
                item, float(n_seeds), quantity="seeds for the mean", pattern="{:,.0f}"
            )
        if "moved_by" in of and ends is _PERCENTILES:
            yield Statistic(
                item, of["moved_by"] or "none stands out", quantity="moved by"
            )


Verdicts = dict[str, tuple[str, LimitReport]]
"""Point name and compliance report of each run, by run number."""


def sweep_verdicts(sweep: SweepData, limits: Limits) -> Verdicts:
    """Check every finished run of a sweep against limits."""
    result, moving = {}, moving_axes(sweep.finished, sweep.axes)
    for _, row in sweep.finished.iterrows():
        folder = sweep.folder / RUNS_FOLDER / str(row["run"])
        if not (folder / FACILITY_FILE).is_file():
            raise InputError(
                f"{folder}: keeps no power series to check against limits; sweep with "
                "'keep: series'"
            )
        report = get_report(RunFolder.open(folder), limits)
        result[str(row["run"])] = (point_name(row, moving) or "all", report)
    return result


def _compliance_section(sweep: SweepData, names: Sequence[str]) -> Section | None:
    """Return the fraction of violating runs at each point; None without limits."""
    tables, notes = [], list[str]()
    for name in names:
        limits = load_limits(name)
        result = sweep_verdicts(sweep, limits)
        notes += filter(None, (limits.origin, *limits.notes))
        figures: list[Statistic] = []
        for point in dict.fromkeys(point for point, _ in result.values()):
            counts = Counter(
                str(report.verdict) for of, report in result.values() if of == point
            )
            cells = {
                "runs": counts.total(),
                **{verdict: counts[verdict] for verdict in VERDICTS},
            }
            figures += [
                Statistic(point, n, quantity=q, pattern="{:,.0f}")
                for q, n in cells.items()
            ]
            share = 100 * counts["not met"] / counts.total()
            figures.append(
                Statistic(point, share, "%", "", "share not met", pattern="{:.1f}")
            )
        title = f"{limits.name or name}: {compliance_counts(result)}"
        tables.append(SectionTable(title, tuple(figures), first="Point"))
    return (
        Section("limits", "Limits", (), tuple(tables), (), tuple(notes))
        if tables
        else None
    )


def compliance_counts(verdicts: Verdicts) -> str:
    """Return the number of runs by verdict, as text."""
    counts = Counter(str(report.verdict) for _, report in verdicts.values())
    others = ", ".join(f"{verdict} in {counts[verdict]}" for verdict in VERDICTS[1:])
    n, share = counts.total(), 100 * counts["not met"] / max(counts.total(), 1)
    return (
        f"not met in {counts['not met']} of {plural(n, 'run')} ({share:.1f} %), "
        f"{others}"
    )
