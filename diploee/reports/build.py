"""Joins the parts: folders to a report, a report to its files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from diploee.drawing.charts import Chart
from diploee.drawing.pictures import Kind, Picture
from diploee.drawing.pictures import write_pictures as write_charts
from diploee.errors import InputError, did_you_mean, one_of, plural
from diploee.files import Writing, check_file, writing
from diploee.outputs import Run, open_run
from diploee.outputs.folder import run_files
from diploee.reports.band_charts import bands_chart, occupancy_chart
from diploee.reports.content import PageTable, Report, Section
from diploee.reports.data import RunData, boundary_of, read_run, run_labels
from diploee.reports.ensemble_section import ensemble_section
from diploee.reports.flexibility_section import flexibility_section
from diploee.reports.grid_section import grid_section
from diploee.reports.job_charts import queue_chart
from diploee.reports.limits_section import limit_lines, limits_section, sweep_limits_section
from diploee.reports.overview_chart import overview_chart
from diploee.reports.page import is_report, report_page
from diploee.reports.poi_section import poi_section
from diploee.reports.power_charts import (
    carpet_chart,
    distribution_chart,
    duration_chart,
    months_chart,
    peak_week_chart,
)
from diploee.reports.service_charts import services_charts
from diploee.reports.sweep_charts import sweep_charts, sweep_table
from diploee.reports.sweep_data import SweepData, is_sweep, read_sweep, runs_to_draw
from diploee.reports.tables import (
    key_figures,
    metrics_table,
    period,
    provenance_table,
    replica_tables,
    services_table,
    synchronous_table,
    warnings_of,
)
from diploee.reports.words import listed
from diploee.units import power_unit

MAX_RUNS = 12
MAX_SWEEP_RUNS = 6


def build_report(folders: Sequence[Path | str], limits: Sequence[str] = ()) -> Report:
    """Read run folders, or one sweep folder, and return what their report shows.

    Parameters
    ----------
    folders : sequence of path
        One or up to 12 run folders, or one sweep folder.
    limits : sequence of str
        Limits to check them against: names of presets, or files.

    Raises
    ------
    InputError
        If a folder is neither, or one of its files is damaged or incomplete.
    """
    places = [Path(folder) for folder in folders]
    if not places:
        raise InputError("no run folder given; 'diploee run' makes one")
    sweeps = [place for place in places if is_sweep(place)]
    if sweeps and len(places) > 1:
        raise InputError(f"{sweeps[0]}: is a sweep; give one sweep alone, or run folders")
    if sweeps:
        return _sweep_report(read_sweep(sweeps[0]), limits)
    if len(places) > MAX_RUNS:
        raise InputError(
            f"{len(places)} runs given, a page compares up to {MAX_RUNS}; make more of them a sweep"
        )
    labels = run_labels([open_run(place) for place in places])
    # Of one run alone: pools of several would be too many lines to tell apart.
    by_pool = len(places) == 1
    runs = [read_run(p, label, by_pool) for p, label in zip(places, labels, strict=True)]
    return _runs_report(runs, limits)


def write_report(
    folders: Sequence[Path | str],
    out: Path | str = "report.html",
    *,
    png: Path | str | None = None,
    svg: Path | str | None = None,
    force: bool = False,
    limits: Sequence[str] = (),
) -> list[Path]:
    """Write the page, and pictures on request; return the files.

    Parameters
    ----------
    folders : sequence of path
        Run folders, or one sweep folder.
    out : path
        The page; a report of diploee that stands there is replaced.
    png, svg : path, optional
        Folders for one picture of each figure.
    force : bool
        Replace any file at `out`, and pictures of the same names.
    limits : sequence of str
        Limits to check the runs against: names of presets, or files.

    Raises
    ------
    InputError
        If the folders are not usable, or a place is taken or a part of what is read.
    OutputError
        If a file can't be written; none is then.
    """
    inputs = [path for folder in map(Path, folders) for path in _read_from(folder)]
    check_file(out, force, inputs=inputs, replaces=is_report)  # before any work
    report = build_report(folders, limits)
    with writing(force, inputs) as files:
        page = files.file(out, replaces=is_report)
        page.write_text(report_page(report), encoding="utf-8")
        written = [Path(out)]
        if png is not None:
            written += write_pictures(report, Path(png), "png", joins=files)
        if svg is not None:
            written += write_pictures(report, Path(svg), "svg", joins=files)
    return written


def report(
    runs: Run | Path | str | Sequence[Run | Path | str],
    out: Path | str = "report.html",
    **options: Any,
) -> Path:
    """Write one page from runs or a sweep, and return its place.

    Parameters
    ----------
    runs : Run, path, or sequence of these
        Runs or their folders, or one sweep folder.
    out : path
        The page; a report of diploee that stands there is replaced.
    **options : object
        Further arguments of `write_report`, such as ``limits=["ercot_lcl_2026_06"]``.

    Raises
    ------
    InputError
        As `write_report`.
    """
    several = [runs] if isinstance(runs, Run | Path | str) else runs
    folders = [run.folder if isinstance(run, Run) else run for run in several]
    return write_report(folders, out, **options)[0]


def picture(run: Run, chart: str) -> Picture:
    """Return a chart of a run's report by its id."""
    charts = {found.id: found for found in build_report([run.folder]).charts}
    if chart not in charts:
        raise InputError(
            f"plot: no chart '{chart}' (have: {one_of(charts)}){did_you_mean(chart, charts)}"
        )
    return Picture(charts[chart])


def _read_from(folder: Path) -> list[Path]:
    """Return what must never be replaced: all of a sweep, the files of a run."""
    return [folder] if is_sweep(folder) else run_files(folder)


def write_pictures(
    report: Report, folder: Path, kind: Kind, force: bool = False, joins: Writing | None = None
) -> list[Path]:
    """Write one picture of each chart, named by its place and its id.

    Parameters and errors are those of `diploee.drawing.pictures.write_pictures`.

    Returns
    -------
    list of pathlib.Path
        The files.
    """
    named = {f"{k:02d}-{chart.id}": chart for k, chart in enumerate(report.charts, start=1)}
    return write_charts(named, folder, kind, force, joins, f"--{kind}")


def _runs_report(runs: Sequence[RunData], limits: Sequence[str]) -> Report:
    single = len(runs) == 1
    names = list(dict.fromkeys(str(run.manifest.get("scenario_name")) for run in runs))
    against = limits_section(runs, limits)
    return Report(
        title=names[0] if single else f"{plural(len(runs), 'run')} compared",
        subtitle=period(runs[0]) if single else listed(names),
        summary=_description(runs),
        verdicts=tuple(re.sub("; power boundary: .*", ")", n) for n in against.notes[1:])
        if against
        else (),
        figures=key_figures(runs[0]) if single else (),
        figures_note=f"Power is taken at: {runs[0].run.boundary()}." if single else "",
        sections=(
            *_with_boundary([*filter(None, [_overview_section(runs, limits), against])], runs),
            _metrics_section(runs),
            *_run_sections(runs, limits),
            _provenance_section(runs),
        ),
        warnings=warnings_of(runs),
    )


def _description(runs: Sequence[RunData]) -> tuple[str, ...]:
    texts = [(run.manifest.get("scenario") or {}).get("description") for run in runs]
    return tuple(dict.fromkeys(str(text) for text in texts if text))


def _with_boundary(sections: Sequence[Section], runs: Sequence[RunData]) -> list[Section]:
    """Return sections with where power is taken at each of their figures."""
    whole, by_pool = boundary_of(runs), boundary_of(runs, by_pool=True)
    pools = {part.label for run in runs for part in run.parts}

    def told(part: Chart | PageTable) -> Chart | PageTable:
        if not isinstance(part, Chart):
            return part
        names = {panel.title for panel in part.panels}
        names |= {getattr(layer, "name", "") for panel in part.panels for layer in panel.layers}
        return replace(part, boundary=by_pool if pools & names else whole)

    return [replace(section, content=tuple(map(told, section.content))) for section in sections]


def _overview_section(runs: Sequence[RunData], limits: Sequence[str]) -> Section | None:
    if len(runs) > 1:
        return None
    levels = limit_lines(runs[0], limits)
    chart = overview_chart(runs[0], power_unit(runs[0].max_w), levels)
    return Section("overview", "Overview", (chart,))


def _metrics_section(runs: Sequence[RunData]) -> Section:
    return Section("metrics", "Metrics", (metrics_table(runs),))


def _provenance_section(runs: Sequence[RunData]) -> Section:
    return Section("provenance", "Where the numbers come from", (provenance_table(runs),))


def _run_sections(runs: Sequence[RunData], limits: Sequence[str] = ()) -> list[Section]:
    unit = power_unit(max(run.max_w for run in runs))
    year = (carpet_chart(runs, unit), bands_chart(runs, unit), peak_week_chart(runs, unit))
    single = len(runs) == 1
    grid = grid_section(runs[0], unit, limit_lines(runs[0], limits)) if single else None
    poi = poi_section(runs[0], unit) if len(runs) == 1 else None
    flexibility = flexibility_section(runs[0], unit) if len(runs) == 1 else None
    months = months_chart(runs, unit)
    planning = (
        *([] if _has_duration(grid) else [duration_chart(runs, unit)]),
        distribution_chart(runs, unit),
        *([months] if months else []),
    )
    queue = queue_chart(runs)
    of_power = [
        Section("power", "Power over time", year, notes=_read_notes(runs)),
        Section("planning", "Peaks and energy", planning),
        *([flexibility] if flexibility else []),
        *([poi] if poi else []),
        *([grid] if grid else []),
    ]
    sections = [
        *_with_boundary(of_power, runs),
        Section(
            "nodes",
            "Nodes and queue" if any(run.waits for run in runs) else "Nodes",
            (occupancy_chart(runs), *([queue] if queue else [])),
            notes=_queue_notes(runs, queue is not None),
        ),
    ]
    if table := synchronous_table(runs):
        sections.append(Section("synchronous", "Synchronous training", (table,)))
    if tables := replica_tables(runs):
        sections.append(Section("replicas", "Replicas of served models", (*tables,)))
    services = services_charts(runs)
    if services:
        sections.append(
            Section(
                "services",
                "Inference services",
                (*services, *filter(None, [services_table(runs)])),
                _served_notes(services),
            )
        )
    return sections


def _has_duration(section: Section | None) -> bool:
    return section is not None and any(chart.id == "duration" for chart in section.charts)


def _read_notes(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Say which runs were averaged on reading."""
    reduced = [run.label for run in runs if run.step_ms != run.resolution_ms]
    if not reduced:
        return ()
    return (
        f"{listed(reduced)}: the figures use means of about a minute, for the number of intervals. "
        "Maximum and minimum, and the tables, are of the run's own intervals.",
    )


def _queue_notes(runs: Sequence[RunData], drawn: bool) -> tuple[str, ...]:
    if drawn or not any(run.waits for run in runs):
        return ()
    return ("No job waited: each started when it was submitted.",)


def _served_notes(services: Sequence[object]) -> tuple[str, ...]:
    drawn = {getattr(chart, "id", "") for chart in services}
    return () if "unserved" in drawn else ("All requests were served.",)


def _sweep_report(sweep: SweepData, limits: Sequence[str]) -> Report:
    runs = [read_run(place, label) for place, label in runs_to_draw(sweep, MAX_SWEEP_RUNS)]
    against = sweep_charts(sweep)
    sections = [Section("sweep", "Metrics against the axes", (*against, sweep_table(sweep)))]
    sections += filter(None, [ensemble_section(sweep), sweep_limits_section(sweep, limits)])
    if runs:
        sections += [*_run_sections(runs), _metrics_section(runs), _provenance_section(runs)]
    warnings = [*sweep.warnings]
    if sweep.n_failed:
        warnings.insert(
            0, f"{plural(sweep.n_failed, 'run')} of the sweep without a result; see summary.parquet"
        )
    detail = f"{plural(len(runs), 'run')} of one seed in detail" if runs else "no run in detail"
    return Report(
        title=sweep.name,
        subtitle=f"sweep of {plural(len(sweep.finished), 'finished run')} over "
        f"{listed([*sweep.axes, *(['seed'] if sweep.n_seeds > 1 else [])])}; {detail}",
        summary=_description(runs),
        figures=(),
        sections=tuple(sections),
        warnings=tuple(warnings),
    )
