"""`diploee limits`: check a run or sweep against a grid operator's limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from diploee.base.errors import InputError
from diploee.base.files.paths import shipped
from diploee.cli.display import next_steps, show_sections
from diploee.cli.options import Json, print_result, shipped_names
from diploee.grid.limits.file import Limits, load_limits
from diploee.grid.limits.report import LimitReport, get_report
from diploee.reports.sweep_charts import compliance_counts, sweep_verdicts
from diploee.reports.sweep_data import is_sweep, read_sweep
from diploee.runs.reader import RunFolder

EXIT_CODES = {"not met": 3, "inconclusive": 4}


LIMITS = typer.Argument(
    help="Name of a preset, or a YAML file of limits.",
    metavar="LIMITS",
    autocompletion=shipped_names("limits"),
)


def limits_command(
    limits: Annotated[str | None, LIMITS] = None,
    run_dir: Annotated[
        Path | None, typer.Argument(help="Folder of a finished run, or of a sweep.")
    ] = None,
    presets: Annotated[
        bool,
        typer.Option("--list", help="Show the presets with source, date and status."),
    ] = False,
    fail: Annotated[
        bool,
        typer.Option(
            "--fail",
            help=("Exit with 3 if a limit is not met, with 4 if one is inconclusive."),
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a run against a grid operator's limits, such as those on ramps."""
    if presets:
        _show_presets(as_json)
        return
    if limits is None or run_dir is None:
        raise InputError("limits: give LIMITS and RUN_DIR, or --list")
    loaded = load_limits(limits)
    if is_sweep(run_dir):
        _show_sweep(run_dir, loaded, fail, as_json)
        return
    report = get_report(RunFolder.open(run_dir), loaded)
    if not as_json:
        show_sections(report.sections())
    steps = (*next_steps(report, limits, run_dir), f"Boundary: {report.boundary}.")
    print_result(report.as_dict(), steps, as_json=as_json)
    _exit_with_verdict([report], fail)


def _exit_with_verdict(reports: Sequence[LimitReport], fail: bool) -> None:
    verdicts = {report.verdict for report in reports} if fail else set()
    for verdict, code in EXIT_CODES.items():
        if verdict in verdicts:
            raise typer.Exit(code)


def _show_sweep(run_dir: Path, limits: Limits, fail: bool, as_json: bool) -> None:
    result = sweep_verdicts(read_sweep(run_dir), limits)
    lines = [
        f"{limits.name}: {compliance_counts(result)}".removeprefix(": "),
        *filter(None, (limits.origin, *limits.notes)),
        *(f"{name}: {report.title}" for name, (_, report) in result.items()),
    ]
    reports = {name: report for name, (_, report) in result.items()}
    content = {name: report.as_dict() for name, report in reports.items()}
    print_result(content, lines, as_json=as_json)
    _exit_with_verdict([*reports.values()], fail)


def _show_presets(as_json: bool) -> None:
    result = {name: load_limits(path) for name, path in shipped("limits").items()}
    content = {
        name: limits.model_dump(exclude_defaults=True)
        for name, limits in result.items()
    }
    lines = (
        f"{name}: {limits.name}; {limits.origin or 'an example, no standard'}"
        for name, limits in result.items()
    )
    print_result(content, lines, as_json=as_json)
