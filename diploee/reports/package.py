"""Planner's package: a folder with all documents that a planner requests of a site."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Any

from diploee.base.clock import NamedSpan
from diploee.base.errors import InputError
from diploee.base.files import FolderKind, whole_folder
from diploee.base.metric import format_short
from diploee.base.progress import stage
from diploee.base.version import full_version
from diploee.facility.base import REACTIVE
from diploee.grid.dynamics.ride_through_study import ride_through
from diploee.grid.export.base import Options
from diploee.grid.export.by_year import SEASONS
from diploee.grid.export.registry import export_run
from diploee.grid.limits.report import get_reports, limits_section
from diploee.reports.build import Report, period_text, report_page
from diploee.reports.compare import compare
from diploee.reports.datasheet import data_sheet, write_csv
from diploee.runs.folder import LIMITS_FILE, MANIFEST, METRICS_FILE, write_json
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, as_lines

MARKER, RECORD, STUDIED = "package.json", "record", "as_studied"
PACKAGE_FOLDER = FolderKind(
    "a package",
    MARKER,
    ("diploee_version", "files"),
    lambda content: (MARKER, *map(escape, content["files"])),
)
LABELS = ("as studied", "as built")
KEPT = ("ride_through", "firm")
"""Pages whose key figures the page of differences compares."""
FASTEST = ("rise_1s", "drop_1s")
"""Event windows in the records for dynamics."""
SIDECAR = "its sidecar: units, steps, source and assumed terms"

Part = tuple[str, str, str, Callable[[Path], object]]
"""Part of a package: name of its files, the question that it answers, and the place
where its assumptions are listed. The function writes the part, or returns the section
or report of its page."""


def write_package(
    run: RunFolder,
    out: Path | str,
    *,
    peaks: Sequence[NamedSpan] | None = None,
    excel: bool = False,
    firm: Callable[[], Section],
    force: bool = False,
) -> None:
    """Write a run's package, with differences from an older package that it replaces.

    Parameters
    ----------
    run : RunFolder
        A run with event windows, checked against the limits to be reported.
    out : path
        Folder to write.
    peaks : sequence of NamedSpan, optional
        Hours of the cases of the table by year, and of the data sheet.
    excel : bool
        Also write the table by year as a workbook.
    firm : callable
        Returns the table of firm levels, or raises an `InputError` that says why not.
    force : bool
        Replace an older package.
    """
    sheet, options = data_sheet(run, (), peaks or ()), {"peaks": peaks, "excel": excel}
    parts = [
        *_parts(run, sheet, options),
        (
            "firm",
            "What does a megawatt cost that is not firm?",
            "notes",
            lambda _: firm(),
        ),
        (
            "differences",
            "What changed since the load was studied?",
            f"`{STUDIED}/`: the record of the first package in this place",
            lambda place: _differences_section(Path(out), place.parent),
        ),
    ]
    subtitle = f"{period_text(run)}; power: {run.boundary()}"
    rows, absent = list[str](), list[str]()
    whole = whole_folder(out, force, kind=PACKAGE_FOLDER)
    with stage("package") as update, whole as folder:
        for number, (name, question, assumed, write) in enumerate(parts):
            update(number / len(parts), name)
            try:
                page = write(folder / name)
            except InputError as error:  # the run's folder is a temporary one
                reason = str(error).replace(str(run.folder), run.scenario.name)
                absent.append(f"- {question} {reason}")
                continue
            if isinstance(page, Section):
                page_sections = (replace(page, charts=()),)
                page = Report(run.scenario.name, subtitle, page_sections, is_sheet=True)
            if isinstance(page, Report):
                (folder / f"{name}.html").write_text(report_page(page), "utf-8")
                write_csv(page, folder / f"{name}.csv")
                if name in KEPT:
                    shutil.copy(folder / f"{name}.csv", folder / RECORD)
            paths = sorted(folder.glob(f"{name}*"))
            files = ", ".join(f"`{path.name}{'/' * path.is_dir()}`" for path in paths)
            rows.append(f"| {question} | {files} | {assumed} |")
        absent += _lacking(run, folder, peaks is not None)
        title, *sources = as_lines([replace(sheet.sections[-1], tables=())])
        lines = (
            f"# {run.scenario.name}: what a planner asks",
            f"\n{subtitle}. Made by diploee {full_version()}.\n",
            "| question | file | what is assumed |",
            "|---|---|---|",
            *rows,
            "\n## Not here\n",
            *absent,
            f"\n## {title}\n",
            *(f"- {line}" for line in sources),
            "",
        )
        (folder / "README.md").write_text("\n".join(lines), "utf-8")
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        names = [path.relative_to(folder).as_posix() for path in paths]
        version = full_version()
        write_json(folder / MARKER, {"diploee_version": version, "files": names})


def _lacking(run: RunFolder, folder: Path, has_peaks: bool) -> Iterator[str]:
    """Yield questions that the files of a package leave open, with the reason."""
    if REACTIVE not in run.series().check():
        yield (
            "- What are its Mvar, power factor and record in a power flow (RAW)? the "
            "run has no reactive power: give facility.stages"
        )
    for row in _csv_rows(folder / "firm.csv")[:1]:
        if row["note"]:
            yield f"- What do jobs and services give up when called? {row['note']}"
    cases = {row["case"] for row in _csv_rows(folder / "by_year" / "by_year.csv")}
    seasons = [name for name in SEASONS if name not in cases]
    if seasons and not has_peaks:
        yield f"- What is its {' or '.join(seasons)}? the run has no such hours"


def _csv_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; none without it."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else ()
    return list(csv.DictReader(lines))


def _parts(run: RunFolder, sheet: Report, by_year: dict[str, Any]) -> Iterator[Part]:
    """Yield the parts of a package that need nothing but the run."""

    def export(format_name: str, **options: Any) -> Callable[[Path], object]:
        return lambda place: export_run(run, format_name, place, Options(**options))

    rides, has_q = run.scenario.facility.ride_through, REACTIVE in run.series().check()
    yield (
        RECORD,
        "Of which scenario and figures is all this?",
        "`manifest.json`: assumed keys and their ranges",
        lambda place: _write_record(run, place),
    )
    yield (
        "datasheet",
        "What does a utility's form ask: demand, ramps, reactive power, contract?",
        "its last section",
        lambda _: sheet,
    )
    yield (
        "by_year",
        f"What MW{', Mvar and power factor' * has_q} has each step in each year and "
        "peak?",
        "each column `*_basis`",
        export("by-year", **by_year),
    )
    yield (
        "8760.csv",
        "What does it draw in each hour of a year?",
        SIDECAR,
        export("8760", leap_day="drop-last-day"),
    )
    yield (
        "psse",
        f"What are its records in {'a power flow and in ' * has_q}a study of dynamics?",
        f"{SIDECAR}; not verified in PSS/E",
        export("psse", parts=["raw"] * has_q + ["cmld"] + ["perc1"] * bool(rides)),
    )
    for window in FASTEST:
        for name, suffix in (("pscad", ".txt"), ("comtrade", "")):
            yield (
                f"{name}_{window}{suffix}",
                f"What is its largest {window[:4]} within a second ({name})?",
                SIDECAR,
                export(name, event_window=window),
            )
    yield (
        "verdicts",
        "Which limits does it meet, at both ends of a large job?",
        "each row, and its notes",
        lambda _: _verdicts_section(run),
    )
    yield (
        "ride_through",
        "Which megawatts leave in a voltage dip, and which return?",
        "its notes",
        lambda _: ride_through(run).section(),
    )


def _verdicts_section(run: RunFolder) -> Section:
    reports = get_reports(run)
    if not reports:
        raise InputError("no limits were checked; name them with --limits")
    return limits_section([(report, "") for report in reports])


def _write_record(run: RunFolder, place: Path) -> None:
    """Write the files of a run that `compare` reads, without computing times."""
    place.mkdir()
    for name in (METRICS_FILE, LIMITS_FILE):
        if (run.folder / name).exists():
            shutil.copyfile(run.folder / name, place / name)
    manifest = {k: value for k, value in run.manifest.items() if k != "timing"}
    write_json(place / MANIFEST, manifest)


def _differences_section(older: Path, folder: Path) -> Section:
    """Return the differences from the first package here, and copy its record.

    The record of the first package is kept as `STUDIED`, so later packages are compared
    with the same one.
    """
    records = [path for name in (STUDIED, RECORD) if (path := older / name).is_dir()]
    pair = (*records[:1], folder / RECORD)
    comparison = compare(*pair, labels=LABELS) if records else None
    changed = (
        [row for row in comparison.rows if not row.has_equal_text] if comparison else []
    )
    if comparison is None or not (comparison.settings or changed):
        raise InputError("no earlier package in this place has other keys or figures")
    shutil.copytree(records[0], folder / STUDIED)
    verdicts = {**comparison.verdicts, **_changed_figures(*pair)}
    first = replace(comparison, rows=(), settings={}, stages={}, verdicts=verdicts)
    last = replace(comparison, rows=tuple(changed), verdicts={})
    (one,), (other,) = first.sections(), last.sections()
    return replace(other, tables=one.tables + other.tables)


def _changed_figures(*records: Path) -> dict[str, tuple[str | None, ...]]:
    """Return the key figures of pages that differ between two records, by name."""
    pair = [
        {
            row["item"]: f"{format_short(float(row['value']))} {row['unit']}"
            for name in KEPT
            for row in _csv_rows(record / f"{name}.csv")
            if row["value"] and not row["quantity"]
        }
        for record in records
    ]
    figures = {item: tuple(of.get(item) for of in pair) for item in chain(*pair)}
    return {item: texts for item, texts in figures.items() if len(set(texts)) > 1}
