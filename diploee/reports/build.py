"""Joins the parts: folders to a report, a report to its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diploee.drawing.charts import Chart
from diploee.drawing.pictures import Kind, Picture
from diploee.drawing.pictures import write_pictures as write_charts
from diploee.errors import InputError, did_you_mean, one_of, plural
from diploee.files import Writing, check_file, writing
from diploee.metrics.limits import LimitReport, load_limits
from diploee.outputs import Run, open_run
from diploee.outputs.folder import run_files
from diploee.outputs.ranked import limits_section, run_sections
from diploee.outputs.sections import Section, beside
from diploee.outputs.words import interval, listed
from diploee.progress import stage
from diploee.reports.common import MAX_TOGETHER, one_chart
from diploee.reports.data import RunData, boundary_of, read_run, run_labels
from diploee.reports.event_charts import event_charts, event_windows_chart
from diploee.reports.grid_charts import ramps_chart, spectrum_chart, swings_chart
from diploee.reports.limit_charts import LimitLine, limit_charts, limit_lines
from diploee.reports.page import is_report, report_page
from diploee.reports.power_charts import (
    carpet_charts,
    duration_chart,
    months_chart,
    peak_week_chart,
    worst_weeks_chart,
)
from diploee.reports.stack_charts import overview_chart, poi_charts, pools_chart
from diploee.reports.sweep_charts import sweep_sections
from diploee.reports.sweep_data import SweepData, is_sweep, read_sweep, runs_to_draw
from diploee.reports.weekly_charts import (
    bands_chart,
    instances_chart,
    occupancy_chart,
    queue_chart,
    rates_chart,
    unserved_chart,
)
from diploee.units import PowerUnit, power_unit

MAX_RUNS = 12
MAX_SWEEP_RUNS = 6


@dataclass(frozen=True)
class Report:
    """All that a page shows; the first section is its answer."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    kind: str = "diploee report"
    notes: tuple[str, ...] = ()

    is_sheet: bool = False  # a data sheet: figures and tables alone, none folded

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts of all sections, in their order."""
        return tuple(chart for section in self.sections for chart in section.charts)


def build_report(
    folders: Sequence[Path | str],
    limits: Sequence[str] = (),
    *,
    drawn: bool = True,
    by_load: bool = False,
) -> Report:
    """Read run folders, or one sweep folder, and return what their report shows.

    Parameters
    ----------
    folders : sequence of path
        One or up to 12 run folders, or one sweep folder.
    limits : sequence of str
        Limits to check them against: names of presets, or files.
    drawn : bool
        With its charts.
    by_load : bool
        Split the stacks of a single run by stream and service.

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
    if by_load and (sweeps or len(places) > 1):
        raise InputError("--by-load: is of one run; give its folder alone")
    if sweeps:
        return _sweep_report(read_sweep(sweeps[0]), limits, drawn)
    if len(places) > MAX_RUNS:
        raise InputError(
            f"{len(places)} runs given, a page compares up to {MAX_RUNS}; make more of them a sweep"
        )
    labels = run_labels([open_run(place) for place in places])
    # Of one run alone: pools of several would be too many lines to tell apart.
    alone, named = len(places) == 1, zip(places, labels, strict=True)
    runs = [read_run(place, label, alone, by_load) for place, label in named]
    names = list(dict.fromkeys(run.run.scenario.name for run in runs))
    return Report(
        title=names[0] if alone else f"{plural(len(runs), 'run')} compared",
        subtitle=period(runs[0].run) if alone else listed(names),
        summary=_descriptions(runs),
        sections=_runs_sections(runs, limits, drawn),
        warnings=warnings_of(runs),
    )


@stage("report")
def write_report(
    folders: Sequence[Path | str],
    out: Path | str = "report.html",
    *,
    png: Path | str | None = None,
    svg: Path | str | None = None,
    force: bool = False,
    limits: Sequence[str] = (),
    by_load: bool = False,
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
    by_load : bool
        Split the stacks of a single run by stream and service.

    Raises
    ------
    InputError
        If the folders are not usable, or a place is taken or a part of what is read.
    OutputError
        If a file can't be written; none is then.
    """
    inputs = [path for folder in map(Path, folders) for path in _read_from(folder)]
    check_file(out, force, inputs=inputs, replaces=is_report)  # before any work
    report = build_report(folders, limits, by_load=by_load)
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


@dataclass(frozen=True)
class _Drawn:
    """Data that the charts of a page are drawn from."""

    runs: Sequence[RunData]
    unit: PowerUnit
    levels: Sequence[LimitLine]  # what limits allow, of a single run
    verdicts: Sequence[Sequence[LimitReport]]  # by run, one of each limits

    @property
    def run(self) -> RunData:
        """The only run."""
        return self.runs[0]


_Makes = Callable[[_Drawn], Chart | list[Chart] | None]

_SINGLE: Mapping[str, _Makes] = {
    "overview": lambda d: overview_chart(d.run, d.unit, d.levels),
    "pools": lambda d: pools_chart(d.run, d.unit),
    "ramps": lambda d: ramps_chart(d.run, d.unit, d.levels),
    "swings": lambda d: swings_chart(d.run, d.unit, d.levels),
    "worst-weeks": lambda d: worst_weeks_chart(d.run, d.unit),
    "zooms": lambda d: event_windows_chart(d.run, d.unit),
    "spectrum": lambda d: spectrum_chart(d.run, d.unit),
    "poi": lambda d: poi_charts(d.run, d.unit),
    "events": lambda d: event_charts(d.run, d.unit),
}
"""Charts of one run alone, by id; each returns None where the run has nothing to draw."""

_TOGETHER: Mapping[str, _Makes] = {
    "limits": lambda d: limit_charts(d.runs, d.verdicts),
    "carpet": lambda d: carpet_charts(d.runs, d.unit),
}
"""Charts of one run or any number of them."""

_FEW: Mapping[str, _Makes] = {
    "peak-week": lambda d: peak_week_chart(d.runs, d.unit),
    "bands": lambda d: bands_chart(d.runs, d.unit),
    "duration": lambda d: duration_chart(d.runs, d.unit),
    "months": lambda d: months_chart(d.runs, d.unit),
    "occupancy": lambda d: occupancy_chart(d.runs),
    "queue": lambda d: queue_chart(d.runs),
    "request-rates": lambda d: rates_chart(d.runs),
    "unserved": lambda d: unserved_chart(d.runs),
    "instances": lambda d: instances_chart(d.runs),
}
"""Charts of up to `MAX_TOGETHER` runs; of more each run has panels of its own."""

_OF_POOLS = ("pools", "carpet-pools")
"""Charts behind those of the whole facility."""


def _charts(name: str, page: _Drawn) -> list[Chart]:
    """Return the charts of an id; none where the runs have nothing to draw."""
    tables = (_FEW, _TOGETHER, *([_SINGLE] if len(page.runs) == 1 else []))
    make = next((table[name] for table in tables if name in table), None)
    if make is None:
        return []
    if len(page.runs) > MAX_TOGETHER and name in _FEW:
        alone = [(run.label, make(replace(page, runs=[run]))) for run in page.runs]
        found = [(label, chart) for label, chart in alone if isinstance(chart, Chart)]
        return [one_chart(found)] if found else []
    made = make(page)
    return made if isinstance(made, list) else [made] if made else []


def _runs_sections(
    runs: Sequence[RunData], names: Sequence[str], drawn: bool = True
) -> tuple[Section, ...]:
    """Return the sections of runs, side by side where there are several, with their charts."""
    loaded = [load_limits(name) for name in names]
    verdicts = [[run.run.limits(limits) for limits in loaded] for run in runs]
    by_run = {
        run.label: {section.id: section for section in run_sections(run.run, of_run)}
        for run, of_run in zip(runs, verdicts, strict=True)
    }
    unit = power_unit(max(run.max_w for run in runs))
    levels = limit_lines(runs[0], names) if len(runs) == 1 else []
    page, found = _Drawn(runs, unit, levels, verdicts), []
    for name in dict.fromkeys(name for of_run in by_run.values() for name in of_run):
        of_section = {label: s[name] for label, s in by_run.items() if name in s}
        section = beside(of_section)
        if name == "limits":
            pairs = zip(runs, verdicts, strict=True)
            section = limits_section([(run.run, r, run.label) for run, of in pairs for r in of])
        made = [chart for id_ in section.charts if drawn for chart in _charts(id_, page)]
        made.sort(key=lambda chart: chart.id in _OF_POOLS)
        notes = (*section.notes, *(_read_notes(runs) if name == "demand" else ()))
        found.append(replace(section, charts=tuple(_with_boundary(made, runs)), notes=notes))
    return tuple(found)


def _read_notes(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Say which runs were averaged on reading."""
    reduced = [run.label for run in runs if run.step_ms != run.resolution_ms]
    if not reduced:
        return ()
    return (
        f"{listed(reduced)}: the figures use means of about a minute, for the number of intervals. "
        "Maximum and minimum, and the tables, are of the run's own intervals.",
    )


def _with_boundary(charts: Sequence[Chart], runs: Sequence[RunData]) -> list[Chart]:
    """Return charts with where power is taken at each of those that show it."""
    whole, in_parts = boundary_of(runs), boundary_of(runs, in_parts=True)
    pools = {part.label for run in runs for part in run.parts}
    of_power = {"W", "kW", "MW", "GW"}
    found = []
    for chart in charts:
        names = {panel.title for panel in chart.panels}
        names |= {getattr(layer, "name", "") for panel in chart.panels for layer in panel.layers}
        units = {getattr(layer, "unit", "") for panel in chart.panels for layer in panel.layers}
        text = in_parts if pools & names else whole
        found.append(replace(chart, boundary=text if units & of_power else ""))
    return found


def _sweep_report(sweep: SweepData, limits: Sequence[str], drawn: bool) -> Report:
    chosen = runs_to_draw(sweep, MAX_SWEEP_RUNS)
    runs = [read_run(place, label, in_parts=len(chosen) == 1) for place, label in chosen]
    sections = sweep_sections(sweep, limits)
    if runs:
        sections += [replace(section, folded=True) for section in _runs_sections(runs, (), drawn)]
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
        sections=tuple(sections),
        warnings=tuple(warnings),
        summary=_descriptions(runs),
    )


def _descriptions(runs: Sequence[RunData]) -> tuple[str, ...]:
    texts = (run.run.scenario.description for run in runs)
    return tuple(dict.fromkeys(text for text in texts if text))


def warnings_of(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Return each warning of the runs once, with the runs that have it where there are several."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for warning in dict.fromkeys(map(str, run.manifest.get("warnings") or ())):
            found.setdefault(warning, []).append(run.label)
    if len(runs) == 1:
        return tuple(found)
    return tuple(
        f"{f'all {len(runs)} runs' if len(of) == len(runs) else ', '.join(of)}: {warning}"
        for warning, of in found.items()
    )


def period(run: Run) -> str:
    """Return what a run covers in words."""
    scenario = run.scenario
    return (
        f"{scenario.duration} from {scenario.start:%Y-%m-%d}, {interval(scenario.resolution_ms)} "
        f"means, {plural(scenario.facility.n_nodes, 'node')}, seed {scenario.seed}"
    )
