"""``diploee compare``: how runs differ, metric by metric and week by week."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diploee.cli.options import Force, Json, place_option
from diploee.errors import plural
from diploee.metric import NONE
from diploee.reports.words import interval

if TYPE_CHECKING:
    from diploee.reports.compare import Comparison, MetricRow

BRIEF = ("power.", "utilization.", "jobs.", "poi.", "requests.", "synchronous.", "grid.", "limits.")
LONG = re.compile(
    r"requests\.services|rainflow\.classes|bandwidth|grid\.(mean_mw|load_factor)|\d{4}-\d\d"
)
"""Of those, what only ``--all`` shows: owners, classes and months, and what stands there twice."""
MOST_SETTINGS = 12


def compare_command(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN_DIR...", help="Run folders; the first is the base.")
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Also pools, services, months, and what is equal.")
    ] = False,
    out: Annotated[Path | None, place_option("CSV file of all metrics and changes.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare runs: every metric, the grid section included, shared calendar weeks, warnings."""
    from diploee.errors import cell
    from diploee.files import check_file, whole_file
    from diploee.reports.compare import compare

    if out is not None:
        check_file(out, force, inputs=folders)
    found = compare(*folders)
    if out is not None:
        with whole_file(out, force, inputs=folders) as path:
            found.frame().rename(columns=cell).to_csv(path)
    if as_json:
        typer.echo(json.dumps(_as_dict(found), indent=2))
        return
    _show(found, everything)


def _show(found: Comparison, everything: bool) -> None:
    from diploee.cli.display import show_table

    differing = [(key, *map(_setting, values)) for key, values in found.settings.items()]
    if differing:
        most = len(differing) if everything else MOST_SETTINGS
        show_table("Settings", ("key", *found.labels), differing[:most])
        if more := differing[most:]:
            typer.echo(f"{plural(len(more), 'more key differs', 'more keys differ')} (--all).")
        typer.echo()
    rows = [row for row in found.rows if everything or _is_brief(row)]
    shown = [row for row in rows if everything or not row.is_equal]
    header = ("metric", *found.labels, *(f"change of {label}" for label in found.labels[1:]))
    show_table("Results", header, [_cells(row, len(found.labels)) for row in shown])
    if len(shown) < len(rows):
        typer.echo(f"{plural(len(rows) - len(shown), 'metric')} are equal (--all shows them).")
    typer.echo()
    if found.weeks.empty:
        typer.echo("The runs share no whole calendar week.")
    else:
        title = (
            f"Weeks that lie furthest apart, of {len(found.weeks)} that all cover; peaks of "
            f"{interval(found.means_ms)} means"
        )
        table = found.furthest_weeks()
        cells = [
            (f"{monday:%Y-%m-%d}", *(f"{value:,.3f}" for value in values))
            for monday, values in zip(table.index, table.to_numpy().tolist(), strict=True)
        ]
        show_table(title, ("week of", *map(str, table.columns)), cells)
    for warning, labels in found.warnings.items():
        of = "all" if len(labels) == len(found.labels) else ", ".join(labels)
        typer.echo(f"warning ({of}): {warning}")


def _is_brief(row: MetricRow) -> bool:
    return row.metric.key.startswith(BRIEF) and not LONG.search(row.metric.key)


def _cells(row: MetricRow, n_runs: int) -> tuple[str, ...]:
    changes = [row.change(run) for run in range(1, n_runs)]
    shown = [row.metric.show(value) for value in row.values]
    return (
        row.metric.heading,
        *shown,
        *(NONE if change is None else f"{100 * change:+.1f} %" for change in changes),
    )


def _setting(value: Any) -> str:
    text = NONE if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _as_dict(found: Comparison) -> dict[str, Any]:
    weeks = found.weeks.reset_index()
    weeks["week of"] = weeks["week of"].dt.strftime("%Y-%m-%d")
    return {
        "runs": list(found.labels),
        "settings": {key: [str(v) for v in values] for key, values in found.settings.items()},
        "metrics": {
            row.metric.key: {
                "unit": row.metric.suffix,
                "values": [None if v is None else v * row.metric.factor for v in row.values],
                "changes": [row.change(run) for run in range(1, len(found.labels))],
            }
            for row in found.rows
        },
        "means_s": found.means_ms / 1000,
        "weeks": weeks.to_dict("records"),
        "warnings": [{"text": text, "runs": list(of)} for text, of in found.warnings.items()],
    }
