"""`diploee limits` and `diploee battery`: a run against limits, and what would keep them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Json, shipped_names
from diploee.errors import InputError
from diploee.metrics.limits import LimitReport, check_limits, load_limits, shipped_limits
from diploee.metrics.limits.mitigation import Mitigation, mitigate
from diploee.outputs import open_run
from diploee.reports.limits_section import SweepVerdicts, share_line, sweep_verdicts
from diploee.reports.sweep_data import is_sweep, read_sweep

EXIT_CODES = {"violated": 3, "not assessable": 4}


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
        bool, typer.Option("--list", help="Show the presets with source, date and status.")
    ] = False,
    fail: Annotated[
        bool,
        typer.Option(
            "--fail",
            help="Exit with 3 if a limit is violated, else with 4 if one is not assessable.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a run against limits on ramps, swings, bands, demand and reactive power."""
    if presets:
        _show_presets(as_json)
        return
    if limits is None or run_dir is None:
        raise InputError("limits: give LIMITS and RUN_DIR, or --list")
    loaded = load_limits(limits)
    if is_sweep(run_dir):
        _show_sweep(sweep_verdicts(read_sweep(run_dir), loaded), fail, as_json)
        return
    report = check_limits(open_run(run_dir), loaded)
    _show(report, (*report.head(), *report.lines()), as_json)
    _end([report], fail)


def battery_command(
    limits: Annotated[str, LIMITS],
    run_dir: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    as_json: Json = False,
) -> None:
    """Find the smallest battery that keeps a run's ramps, swings, bands and lines within limits."""
    found = mitigate(open_run(run_dir), load_limits(limits))
    _show(found, found.lines(), as_json)


def _show(found: LimitReport | Mitigation, lines: Iterable[str], as_json: bool) -> None:
    for line in [json.dumps(found.as_dict(), indent=2)] if as_json else lines:
        typer.echo(line)


def _end(reports: Sequence[LimitReport], fail: bool) -> None:
    verdicts = {report.verdict for report in reports} if fail else set()
    for verdict, code in EXIT_CODES.items():
        if verdict in verdicts:
            raise typer.Exit(code)


def _show_sweep(found: SweepVerdicts, fail: bool, as_json: bool) -> None:
    runs = [run for of_point in found.verdicts for run in of_point]
    if as_json:
        typer.echo(json.dumps({name: report.as_dict() for name, report in runs}, indent=2))
    else:
        typer.echo(f"{found.limits.name}: {share_line(found)}".removeprefix(": "))
        for line in filter(None, (found.limits.origin, *found.limits.notes)):
            typer.echo(line)
        for name, report in runs:
            typer.echo(f"{name}: {report.verdict_line()}")
    _end([report for _, report in runs], fail)


def _show_presets(as_json: bool) -> None:
    found = {name: load_limits(path) for name, path in shipped_limits().items()}
    if as_json:
        printed = {name: limits.model_dump(exclude_defaults=True) for name, limits in found.items()}
        typer.echo(json.dumps(printed, indent=2))
        return
    for name, limits in found.items():
        typer.echo(f"{name}: {limits.name}; {limits.origin or 'an example, no standard'}")
