"""`diploee limits`: a run against limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from diploee.base.errors import InputError
from diploee.base.files.places import shipped
from diploee.base.units import MS_PER_S
from diploee.cli.options import Json, print_result, shipped_names
from diploee.grid.limits.check import Need
from diploee.grid.limits.file import LIMITS as KINDS
from diploee.grid.limits.file import Limits, load_limits
from diploee.grid.limits.mitigation import sizing_steps_ms
from diploee.grid.limits.report import LimitReport, report_on
from diploee.reports.sweep_charts import share_line, sweep_verdicts
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
            help=(
                "Exit with 3 if a limit is not met, else with 4 if one is inconclusive."
            ),
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
    report = report_on(RunFolder.open(run_dir), loaded)
    lines = [
        *report.brief(),
        *next_steps(report, limits, run_dir),
        "",
        "How each was read:",
    ]
    lines += [
        f"power is that at: {report.boundary}",
        *report.head()[1:],
        *report.lines(),
    ]
    print_result(report.as_dict(), lines, as_json=as_json)
    _end([report], fail)


def next_steps(report: LimitReport, limits: str, run_dir: Path) -> Iterator[str]:
    """Yield what would meet missed limits, and what settles open ones."""
    kinds = {result.key.partition(".")[0] for result in report.not_met}
    if any(KINDS.by_name[kind].is_sized_for for kind in kinds):
        scenario = RunFolder.open(run_dir).scenario
        most_ms, shows_all_ms = sizing_steps_ms(load_limits(limits), scenario)
        battery = f"diploee battery {run_dir} --limits {limits}"
        if scenario.resolution_ms > most_ms:
            step = f"{min(most_ms, shows_all_ms) / MS_PER_S:g} s"
            battery = (
                f"diploee run SITE --set 'resolution={step}', then diploee battery on "
                "that run"
            )
        yield f"next: {battery}"
    if "inconclusive" in (report.verdict, *(of.verdict for of in report.results)):
        yield f"next: {_settled_by(report, limits)}"


def _settled_by(report: LimitReport, limits: str) -> str:
    needs = {of.need for of in report.unchecked}
    needs |= {of.need for of in report.results if of.verdict == "inconclusive"}
    steps = ["change what the reasons above name"] if Need.OTHER in needs else []
    year = ", of a whole year" if Need.LONGER in needs or report.is_part else ""
    step = ", at the step that it needs" if Need.FINER in needs else ""
    return ", then ".join([*steps, f"diploee run SITE --limits {limits}{year}{step}"])


def _end(reports: Sequence[LimitReport], fail: bool) -> None:
    verdicts = {report.verdict for report in reports} if fail else set()
    for verdict, code in EXIT_CODES.items():
        if verdict in verdicts:
            raise typer.Exit(code)


def _show_sweep(run_dir: Path, limits: Limits, fail: bool, as_json: bool) -> None:
    found = sweep_verdicts(read_sweep(run_dir), limits)
    lines = [
        f"{limits.name}: {share_line(found)}".removeprefix(": "),
        *filter(None, (limits.origin, *limits.notes)),
        *(f"{name}: {report.verdict_line()}" for name, (_, report) in found.items()),
    ]
    reports = {name: report for name, (_, report) in found.items()}
    content = {name: report.as_dict() for name, report in reports.items()}
    print_result(content, lines, as_json=as_json)
    _end([*reports.values()], fail)


def _show_presets(as_json: bool) -> None:
    found = {name: load_limits(path) for name, path in shipped("limits").items()}
    content = {
        name: limits.model_dump(exclude_defaults=True) for name, limits in found.items()
    }
    lines = (
        f"{name}: {limits.name}; {limits.origin or 'an example, no standard'}"
        for name, limits in found.items()
    )
    print_result(content, lines, as_json=as_json)
