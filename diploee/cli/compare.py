"""``diploee compare``: how runs differ, metric by metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diploee.base.errors import plural
from diploee.base.metric import NONE
from diploee.cli.options import Force, Json, place_option, print_result

if TYPE_CHECKING:
    from diploee.reports.compare import Comparison, MetricRow

MOST_ROWS, MOST_SETTINGS = 10, 3
"""Differences and keys that are listed without ``--all``."""

ALWAYS = (
    "power.max_mw",
    "power.energy_mwh",
    "jobs.mean_queue_time_queued_h",
    "jobs.unstarted",
    "jobs.queued_fraction",
)
"""Metrics that head the list, equal or not."""


def compare_command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DIR...", help="Run folders; the first is the base."
        ),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="All metrics, settings and warnings.")
    ] = False,
    out: Annotated[
        Path | None, place_option("CSV file of all metrics and changes.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare runs: what differs, the most asked for first."""
    from diploee.base.errors import cell
    from diploee.base.files import check_file, whole_file
    from diploee.reports.compare import compare

    if out is not None:
        check_file(out, force, inputs=folders)
    found = compare(*folders)
    if out is not None:
        with whole_file(out, force, inputs=folders) as path:
            found.frame().rename(columns=cell).to_csv(path)
    if as_json:
        print_result(_as_dict(found))
        return
    _show(found, everything)


def _show(found: Comparison, everything: bool) -> None:
    from diploee.cli.display import show_lines

    for line in found.stages:
        typer.echo(line)
    settings = [
        f"{key}: {' -> '.join(map(_setting, v))}" for key, v in found.settings.items()
    ]
    if settings:
        shown = settings if everything else settings[:MOST_SETTINGS]
        more = (
            f"; {len(settings) - len(shown)} more" if len(shown) < len(settings) else ""
        )
        typer.echo(
            f"{plural(len(settings), 'setting')} changed: {'; '.join(shown)}{more}"
        )
    for text, of_runs in found.verdicts.items():
        typer.echo(f"verdict changed: {text}: {' -> '.join(of_runs)}")
    differing = [row for row in found.rows if not row.is_shown_equal]
    first = [row for row in found.rows if row.metric.key in ALWAYS]
    first.sort(key=lambda row: ALWAYS.index(row.metric.key))
    differing = [row for row in differing if row not in first]
    rows = list(found.rows) if everything else (first + differing)[:MOST_ROWS]
    header = ("", *found.labels, *(f"change of {label}" for label in found.labels[1:]))
    show_lines("", header, [_cells(row, len(found.labels)) for row in rows])
    if everything:
        for warning, labels in found.warnings.items():
            of = "all" if len(labels) == len(found.labels) else ", ".join(labels)
            typer.echo(f"warning ({of}): {warning}")
    elif left := len(first + differing) - len(rows):
        same = sum(row.is_shown_equal for row in found.rows)
        typer.echo(
            f"{plural(left, 'more metric differs', 'more metrics differ')}, {same} "
            "are equal; --all shows them and the warnings."
        )


def _cells(row: MetricRow, n_runs: int) -> tuple[str, ...]:
    shown = [row.shown(run) for run in range(n_runs)]
    return (
        row.metric.heading,
        *shown,
        *(row.change_text(run) for run in range(1, n_runs)),
    )


def _setting(value: Any) -> str:
    text = NONE if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _as_dict(found: Comparison) -> dict[str, Any]:
    return {
        "runs": list(found.labels),
        "settings": {
            key: [str(v) for v in values] for key, values in found.settings.items()
        },
        "stages": list(found.stages),
        "verdicts": {text: list(of_runs) for text, of_runs in found.verdicts.items()},
        "metrics": {
            row.metric.key: {
                "unit": row.metric.suffix,
                "values": [
                    None if v is None else v * row.metric.factor for v in row.values
                ],
                "changes": [row.change(run) for run in range(1, len(found.labels))],
                **({"lower_bounds": list(row.bounds)} if any(row.bounds) else {}),
            }
            for row in found.rows
        },
        "warnings": [
            {"text": text, "runs": list(of)} for text, of in found.warnings.items()
        ],
    }
