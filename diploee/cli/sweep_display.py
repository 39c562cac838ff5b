"""The display of a sweep: a table of the points, one of the spread."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from diploee.base.metric import Metric, find_metric
from diploee.base.units import W_PER_MW, power_unit
from diploee.cli.display import titled_table
from diploee.metrics.catalogue import declared_metrics, metrics_of_runs
from diploee.runs.ranked import ranks
from diploee.sweeps.ensemble import STANDS_OUT
from diploee.sweeps.execute import SweepResult
from diploee.sweeps.loading import Sweep

if TYPE_CHECKING:
    import pyarrow as pa

    from diploee.sweeps.ensemble import Ensemble, PointEnsemble

T = TypeVar("T")

MAX_ROWS = 40
MAX_FAILURES = 10
COLUMN_WIDTH = 12
"""Of a column in the tables; metrics that do not fit the terminal are left to the file."""  # noqa: E501


def show_sweep(sweep: Sweep, result: SweepResult) -> None:
    """Print a row per point over its seeds, then failures and places of files."""
    console = Console()
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in result.summary.to_pylist():
        rows.setdefault(row["point"], []).append(row)
    axes = list(result.runs[0].settings)
    fitting = max(2, console.width // COLUMN_WIDTH - len(axes) - 1)
    columns = _fitting_metrics(result.summary, sweep.spec.metrics)[:fitting]
    n_seeds = len(sweep.spec.seed_list(sweep.base.seed))
    note = f"  (mean over {n_seeds} seeds; max: the largest)" if n_seeds > 1 else ""
    names = [*(_short(name, axes) for name in axes), "runs"]
    titles = (textwrap.fill(metric.title, COLUMN_WIDTH) for metric in columns)
    table = titled_table(f"{sweep.name}{note}", (*names, *titles), len(axes))
    for of_point in list(rows.values())[:MAX_ROWS]:
        done = [row for row in of_point if row["status"] == "finished"]
        counted = (
            str(len(done))
            if len(done) == len(of_point)
            else f"{len(done)}/{len(of_point)}"
        )
        values = [_summed(done, metric) for metric in columns]
        table.add_row(
            *(escape(_value(of_point[0][name])) for name in axes), counted, *values
        )
    console.print(table)
    if len(rows) > MAX_ROWS:
        console.print(
            f"... and {len(rows) - MAX_ROWS:,} more points in summary.parquet"
        )
    show_failures(result)


def show_failures(result: SweepResult) -> None:
    """Print failed runs with their scenarios, the number done, places of files."""
    console = Console()
    failed = [run for run in result.runs if run.run in result.failed]
    for run in failed[:MAX_FAILURES]:
        values = [
            f"{key} = {value}"
            for key, value in {**run.settings, "seed": run.seed}.items()
        ]
        console.print(
            f"[red]failed[/] {escape(', '.join(values))}: "
            f"{escape(result.failed[run.run])}"
        )
    if len(failed) > MAX_FAILURES:
        console.print(
            f"... and {len(failed) - MAX_FAILURES:,} more failed, see summary.parquet"
        )
    for warning in result.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}")
    console.print(
        f"{len(result.runs):,} runs, {result.n_computed:,} computed now; files in "
        f"[bold]{escape(result.target)}[/]",
        soft_wrap=True,
    )


def _short(name: str, names: Sequence[str]) -> str:
    """Return the last part of a dotted key where that tells it from the others."""
    last = name.rpartition(".")[2]
    alone = [n.rpartition(".")[2] for n in names].count(last) == 1
    return last if alone and not last.isdigit() else name.removeprefix("facility.")


def _fitting_metrics(summary: pa.Table, chosen: Sequence[str]) -> list[Metric]:
    """Return the chosen metrics of the runs, powers in the unit of their size."""
    if "power.max_mw" not in summary.column_names:
        return []
    unit = power_unit((pc.max(summary["power.max_mw"]).as_py() or 0.0) * W_PER_MW)
    shown = metrics_of_runs(chosen)
    return [m.sized(unit) for m in shown if m.key in summary.column_names]


def _summed(rows: list[dict[str, Any]], metric: Metric) -> str:
    """Return the mean over the seeds, of a maximum the largest."""
    values = [row[metric.key] for row in rows if row[metric.key] is not None]
    if not values:
        return "-"
    largest = metric.key.rpartition(".")[2].startswith("max_")
    return metric.show(max(values) if largest else sum(values) / len(values))


def _value(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def show_ensemble(ensemble: Ensemble) -> None:
    """Print, per point, percentiles, seeds needed, and causes of spread."""
    console, of = Console(), "draws" if ensemble.draws else "seeds"
    for point in ensemble.points[:MAX_ROWS]:
        values = "".join(f", {key} = {_value(v)}" for key, v in point.settings.items())
        n_seeds = max(metric.n for metric in point.metrics.values())
        console.print(
            _spread_table(point, f"spread over {n_seeds} {of}{values}", ensemble)
        )
    if len(ensemble.points) > MAX_ROWS:
        console.print(
            f"... and {len(ensemble.points) - MAX_ROWS:,} more points in "
            "ensemble.parquet"
        )


def _spread_table(point: PointEnsemble, title: str, ensemble: Ensemble) -> Table:
    percent, drawn = f"{100 * ensemble.accuracy:g} %", bool(ensemble.draws)
    # With draws the headlines of the whole site
    spreads = [
        (metric, of)
        for metric, of in _shown_of(point.metrics)
        if not drawn or (metric.view == "main" and "pools." not in metric.key)
    ]
    order = ranks(metric.key for metric, _ in spreads)
    spreads.sort(key=lambda of: order.index(of[0].key))
    few = all(spread.p5 is None for _, spread in spreads)
    last = [] if drawn else ["seeds"]
    none = "too few runs to tell" if few else "none stands out"
    names = ("metric", *(("min", "P50", "max") if few else ("P5", "P50", "P95")), *last)
    table = titled_table(title, names, 1, box=box.SIMPLE_HEAD)
    if drawn:
        table.add_column("moved by", overflow="fold")
    table.caption = (
        (
            f"{len(ensemble.draws)} numbers drawn; moved by: rank correlation above "
            f"{STANDS_OUT:g}"
        )
        if drawn
        else f"seeds: how many give the mean to {percent}; ensemble.parquet has more"
    )
    table.caption_justify = "left"
    for metric, spread in spreads:
        if spread.std == 0:
            continue
        n_seeds = spread.seeds_for_mean
        moved = point.moved_by.get(metric.key, {}).items()
        said = ", ".join(
            f"{_short(key, ensemble.draws)} {rho:+.2f}" for key, rho in moved
        )
        ends = (
            (spread.min, spread.p50, spread.max)
            if few
            else (spread.p5, spread.p50, spread.p95)
        )
        table.add_row(
            escape(metric.title),
            *(
                "-" if value is None else _figure(value * metric.factor)
                for value in ends
            ),
            (said or none) if drawn else "-" if n_seeds is None else f"{n_seeds:,}",
        )
    return table


def _shown_of(values: Mapping[str, T]) -> Iterator[tuple[Metric, T]]:
    """Yield the values by key whose metric stands in tables."""
    declared = declared_metrics()
    for key, value in values.items():
        metric = find_metric(key, declared)
        if metric is not None and metric.view != "detail":
            yield metric, value
