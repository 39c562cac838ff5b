"""Report of run folders or a sweep, written as a page and chart images.

A page is one HTML file with its style, charts and script, and makes no network
requests. `page.html` is its template; jinja2 escapes all text of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

from pydantic import InstanceOf

from diploee.base.arguments import allowed, as_list, checked_arguments
from diploee.base.errors import InputError, did_you_mean, one_of, plural
from diploee.base.files import check_output_file, whole_file
from diploee.base.progress import stage
from diploee.base.units import PowerUnit, power_unit
from diploee.base.version import full_version
from diploee.grid.limits.file import AnyLimits, load_limits
from diploee.grid.limits.report import get_reports, limits_section
from diploee.reports.chart_elements import MAX_TOGETHER, join_charts
from diploee.reports.compare import runs_by_warning
from diploee.reports.data import RunData, boundary_text, read_run, run_labels
from diploee.reports.drawing.charts import Chart
from diploee.reports.drawing.engine import DrawingError
from diploee.reports.drawing.page import POLICY, Figures, render_template
from diploee.reports.drawing.pictures import Kind, Picture
from diploee.reports.drawing.pictures import write_pictures as write_charts
from diploee.reports.event_charts import event_charts, event_windows_chart
from diploee.reports.grid_charts import (
    LimitLine,
    limit_lines,
    ramps_chart,
    spectrum_chart,
    swings_chart,
)
from diploee.reports.power_charts import (
    carpet_chart,
    duration_chart,
    months_chart,
    peak_week_chart,
    worst_weeks_chart,
)
from diploee.reports.ride_through_chart import ride_through_chart
from diploee.reports.run_sections import run_sections
from diploee.reports.stack_charts import overview_chart, poi_charts
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
from diploee.runs.folder import run_files
from diploee.runs.formatting import interval, listed
from diploee.runs.metric_order import RANKED
from diploee.runs.reader import AnyRun, RunFolder
from diploee.runs.sections import Section, side_by_side

_HERE = Path(__file__).resolve().parent
MARK = '<meta name="generator" content="diploee'
_HEAD_BYTES = 2_000

MAX_RUNS = 12
MAX_SWEEP_RUNS = 6


@dataclass(frozen=True)
class Report:
    """Contents of a report page; the first section has the main results."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    kind: str = "diploee report"
    notes: tuple[str, ...] = ()

    is_sheet: bool = False  # a data sheet: figures and tables alone, none folded
    source: str = ""  # runs or sweep of the page, by `scenarios_text`

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Charts of all sections, in order."""
        return tuple(chart for section in self.sections for chart in section.charts)


def build_report(
    folders: Sequence[Path | str],
    limits: Sequence[str] = (),
    *,
    with_charts: bool = True,
    by_load: bool = False,
    bands: Path | str | None = None,
) -> Report:
    """Read run folders, or one sweep folder, and return their report.

    Arguments and errors are those of `write_report`. Without `with_charts` the
    report has no charts.
    """
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise InputError("no run folder specified; create one with 'diploee run'")
    sweeps = [path for path in paths if is_sweep(path)]
    if sweeps and len(paths) > 1:
        raise InputError(
            f"{sweeps[0]}: is a sweep; give one sweep alone, or run folders"
        )
    if (by_load or bands is not None) and (sweeps or len(paths) > 1):
        option = "--by-load" if by_load else "--bands"
        raise InputError(f"{option}: is of one run; give its folder alone")
    if sweeps:
        return _sweep_report(read_sweep(sweeps[0]), limits, with_charts)
    if len(paths) > MAX_RUNS:
        raise InputError(
            f"{len(paths)} runs given, a page compares up to {MAX_RUNS}; make more "
            "of them a sweep"
        )
    labels = run_labels([RunFolder.open(path) for path in paths])
    # Pools are drawn for a single run alone: several runs would have too many lines
    is_single, named = len(paths) == 1, zip(paths, labels, strict=True)
    runs = [read_run(path, label, is_single, by_load) for path, label in named]
    if bands is not None:
        runs = [replace(run, run=run.run.with_bands(bands)) for run in runs]
    names = list(dict.fromkeys(run.run.scenario.name for run in runs))
    return Report(
        title=names[0] if is_single else f"{plural(len(runs), 'run')} compared",
        subtitle=period_text(runs[0].run) if is_single else listed(names),
        summary=_descriptions(runs),
        sections=_runs_sections(runs, limits, with_charts),
        warnings=_labelled_warnings(runs),
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
    bands: Path | str | None = None,
) -> list[Path]:
    """Write the page of a report, and chart images on request.

    Parameters
    ----------
    folders : sequence of path
        Run folders, or one sweep folder.
    out : path
        The page; an existing page of the same runs is replaced.
    png, svg : path, optional
        Folders for one image of each chart.
    force : bool
        Replace any file at `out`, and images of the same names.
    limits : sequence of str
        Names of presets or files of limits to check, in addition to each run's limits.
    by_load : bool
        Split the power of a single run by stream and service.
    bands : path, optional
        Folder of an ensemble of a single run's scenario; the report shows its P5 and
        P95.

    Returns
    -------
    list of pathlib.Path
        The written files, the page first.

    Raises
    ------
    InputError
        If the folders are not usable, or an output path is taken or is an input.
    OutputError
        If a file can't be written; every file is complete or unchanged.
    """
    paths = [Path(folder) for folder in folders]
    # Files that are never replaced: all of a sweep, the files of a run
    inputs = [p for at in paths for p in ([at] if is_sweep(at) else run_files(at))]
    source = scenarios_text(paths)
    replaces = partial(is_page_of, source)
    check_output_file(out, force, inputs=inputs, replaces=replaces)  # before any work
    report = build_report(folders, limits, by_load=by_load, bands=bands)
    report = replace(report, source=source)
    written, drawing_error = [Path(out)], None
    try:
        if png is not None:
            written += write_pictures(report, Path(png), "png", force, inputs)
        if svg is not None:
            written += write_pictures(report, Path(svg), "svg", force, inputs)
    except DrawingError as error:
        drawing_error = error
    with whole_file(out, force, inputs=inputs, replaces=replaces) as path:
        path.write_text(report_page(report), encoding="utf-8")
    if drawing_error is not None:
        raise DrawingError(
            f"{drawing_error}; {out} is written, with all figures"
        ) from drawing_error
    return written


@runtime_checkable
class _SweepFolder(Protocol):
    """Protocol of a sweep's result: an object with the sweep's folder."""

    target: str  # its folder


AnyRuns: TypeAlias = Annotated[
    AnyRun | InstanceOf[_SweepFolder] | Sequence[AnyRun],
    allowed("runs or their folders, or one sweep or its folder"),
]


@checked_arguments
def report(
    runs: AnyRuns,
    out: Path | str = "report.html",
    *,
    png: Path | str | None = None,
    svg: Path | str | None = None,
    force: bool = False,
    limits: AnyLimits = (),
    by_load: bool = False,
    bands: Path | str | None = None,
) -> Path:
    """Write one page from runs or a sweep, and return its path.

    Parameters
    ----------
    runs : Run, SweepResult or path, or a list of these
        Runs or their folders, or one sweep or its folder.
    out : path
        The page; an existing page of the same runs is replaced.
    png, svg, force, limits, by_load, bands
        As in `write_report`; one name of limits may be given without a list.

    Returns
    -------
    pathlib.Path
        The page.

    Raises
    ------
    InputError
        As `write_report`.
    """
    return write_report(
        [_folder(run) for run in as_list(runs)],
        out,
        png=png,
        svg=svg,
        force=force,
        limits=as_list(limits),
        by_load=by_load,
        bands=bands,
    )[0]


def _folder(run: Any) -> Path:
    """Return the folder of a run, of the result of a sweep, or of a path."""
    place = run.folder if isinstance(run, RunFolder) else getattr(run, "target", run)
    return Path(place)


def picture(run: RunFolder, chart: str) -> Picture:
    """Return the chart image of a run's report that has a given id."""
    charts = {result.id: result for result in build_report([run.folder]).charts}
    name = CHART_NAMES.get(chart, chart)
    if name not in charts:
        names = [*charts, *(key for key, id_ in CHART_NAMES.items() if id_ in charts)]
        raise InputError(
            f"chart: must be one of {one_of(names)}, found "
            f"'{chart}'{did_you_mean(chart, names)}"
        )
    return Picture(charts[name])


CHART_NAMES = {"year": "carpet", "week": "peak-week", "event-windows": "zooms"}
"""Further names of charts, by the id of the chart in the report."""


def write_pictures(
    report: Report,
    folder: Path,
    kind: Kind,
    force: bool = False,
    inputs: Sequence[Path] = (),
) -> list[Path]:
    """Write an image of each chart, named by number and id; return the files."""
    named = {
        f"{k:02d}-{chart.id}": chart for k, chart in enumerate(report.charts, start=1)
    }
    return write_charts(named, folder, kind, force, inputs)


@dataclass(frozen=True)
class _PageData:
    """Runs, power unit and limits of a page's charts."""

    runs: Sequence[RunData]
    unit: PowerUnit
    levels: Sequence[LimitLine] = ()  # lines of limits, for a single run

    @property
    def run(self) -> RunData:
        """The run of a page with a single run."""
        return self.runs[0]


_Charts = Chart | Sequence[Chart] | None
_ChartFunctions = Mapping[str, Callable[[_PageData], _Charts]]

_SINGLE: _ChartFunctions = {
    "carpet-pools": lambda d: (
        carpet_chart(d.run.parts, d.unit) if d.run.parts else None
    ),
    "overview": lambda d: overview_chart(d.run, d.unit, d.levels),
    "ramps": lambda d: ramps_chart(d.run, d.unit, d.levels),
    "swings": lambda d: swings_chart(d.run, d.unit, d.levels),
    "worst-weeks": lambda d: worst_weeks_chart(d.run, d.unit),
    "zooms": lambda d: event_windows_chart(d.run, d.unit),
    "spectrum": lambda d: spectrum_chart(d.run, d.unit),
    "poi": lambda d: poi_charts(d.run, d.unit),
    "events": lambda d: event_charts(d.run, d.unit),
    "ride-through": lambda d: (
        ride_through_chart(d.run.ride_through_result)
        if d.run.ride_through_result
        else None
    ),
}
"""Charts of a single run by id; each returns None if the run lacks the data."""

_ANY: _ChartFunctions = {
    "carpet": lambda d: carpet_chart(d.runs, d.unit),
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
"""Charts of one run or several; more than `MAX_TOGETHER` runs have separate panels."""


def _make_charts(name: str, page: _PageData) -> list[Chart]:
    """Return the charts with an id; empty if the runs lack the data."""
    charts: _Charts = None
    if name in _ANY and name != "carpet" and len(page.runs) > MAX_TOGETHER:
        charts_by_run = [
            (run.label, _ANY[name](replace(page, runs=[run]))) for run in page.runs
        ]
        result = [
            (label, chart) for label, chart in charts_by_run if isinstance(chart, Chart)
        ]
        charts = join_charts(result) if result else None
    else:
        functions = {**_ANY, **(_SINGLE if len(page.runs) == 1 else {})}
        charts = functions[name](page) if name in functions else None
    return [charts] if isinstance(charts, Chart) else list(charts or ())


def _runs_sections(
    runs: Sequence[RunData], names: Sequence[str], with_charts: bool = True
) -> tuple[Section, ...]:
    """Return the sections of one run, or of several runs side by side, with charts."""
    loaded = [load_limits(name) for name in names]
    verdicts = [get_reports(run.run, loaded) for run in runs]
    by_run = {
        run.label: {
            section.id: section
            for section in run_sections(run.run, run_reports, run.ride_through_result)
        }
        for run, run_reports in zip(runs, verdicts, strict=True)
    }
    unit = power_unit(max(run.max_w for run in runs))
    levels = limit_lines(runs[0], names) if len(runs) == 1 else []
    page, result = _PageData(runs, unit, levels), []
    order = [
        "answer",
        "limits",
        *(part.id for part in RANKED),
        "ride-through",
        "provenance",
    ]
    for name in sorted(
        {name for run_reports in by_run.values() for name in run_reports},
        key=order.index,
    ):
        section = side_by_side(
            {label: s[name] for label, s in by_run.items() if name in s}
        )
        if name == "limits":
            pairs = zip(runs, verdicts, strict=True)
            section = limits_section([(r, run.label) for run, of in pairs for r in of])
        charts = [
            _with_boundary(chart, runs)
            for id_ in section.charts
            if with_charts
            for chart in _make_charts(id_, page)
        ]
        notes = (*section.notes, *(_averaging_notes(runs) if name == "demand" else ()))
        if section or charts:  # tables of a single run stay as they are
            result.append(replace(section, charts=tuple(charts), notes=notes))
    return tuple(result)


def _averaging_notes(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Return a note on runs that were averaged to minutes when read."""
    reduced = [run.label for run in runs if run.step_ms != run.resolution_ms]
    note = (
        f"{listed(reduced)}: the figures use means of about a minute, for the number "
        "of intervals. Maximum and minimum, and the tables, are of the run's own "
        "intervals."
    )
    return (note,) if reduced else ()


def _with_boundary(chart: Chart, runs: Sequence[RunData]) -> Chart:
    """Return a chart with the boundary of its power; unchanged if it has no power."""
    layers = [layer for panel in chart.panels for layer in panel.layers]
    if not {"W", "kW", "MW", "GW"} & {getattr(layer, "unit", "") for layer in layers}:
        return chart
    names = {getattr(layer, "name", "") for layer in layers} | {
        p.title for p in chart.panels
    }
    in_parts = any(part.label in names for run in runs for part in run.parts)
    return replace(chart, boundary=boundary_text(runs, in_parts))


def _sweep_report(sweep: SweepData, limits: Sequence[str], with_charts: bool) -> Report:
    """Return the report of a sweep, with some runs in detail."""
    chosen = runs_to_draw(sweep, MAX_SWEEP_RUNS)
    runs = [
        read_run(place, label, in_parts=len(chosen) == 1) for place, label in chosen
    ]
    sections = sweep_sections(sweep, limits)
    if runs:
        sections += [
            replace(section, folded=True)
            for section in _runs_sections(runs, (), with_charts)
        ]
    failed = (
        f"{plural(sweep.n_failed, 'run')} of the sweep without a result; see "
        "summary.parquet"
    )
    detail = (
        f"{plural(len(runs), 'run')} of one seed in detail"
        if runs
        else "no run in detail"
    )
    return Report(
        title=sweep.name,
        subtitle=f"sweep of {plural(len(sweep.finished), 'finished run')} over "
        f"{listed([*sweep.axes, *(['seed'] if sweep.n_seeds > 1 else [])])}; {detail}",
        sections=tuple(sections),
        warnings=(*([failed] if sweep.n_failed else []), *sweep.warnings),
        summary=_descriptions(runs),
    )


def _descriptions(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Return the descriptions of the runs' scenarios, each once."""
    texts = (run.run.scenario.description for run in runs)
    return tuple(dict.fromkeys(text for text in texts if text))


def _labelled_warnings(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Return each warning once, with the labels of its runs if there are several."""
    result = runs_by_warning([run.run for run in runs], [run.label for run in runs])
    if len(runs) == 1:
        return tuple(result)
    every = f"all {len(runs)} runs"
    return tuple(
        f"{every if len(of) == len(runs) else ', '.join(of)}: {warning}"
        for warning, of in result.items()
    )


def is_report(path: Path, mark: str = MARK) -> bool:
    """Return True if a file is a report page of diploee, with a mark in its head."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            return MARK.encode() in head and mark.encode() in head
    except OSError:
        return False


def scenarios_text(folders: Sequence[Path]) -> str:
    """Return a text that identifies the scenarios of runs, or the folder of a sweep."""
    return " ".join(
        folder.name
        if is_sweep(folder)
        else RunFolder.open(folder).scenario.sha256()[:16]
        for folder in folders
    )


def is_page_of(source: str, path: Path) -> bool:
    """Return True for a page of the same runs: it may be replaced."""
    return is_report(path, f'<meta name="diploee-source" content="{source}">')


def report_page(report: Report) -> str:
    """Return the HTML text of a report or data sheet."""
    return render_template(
        "page.html",
        version=full_version(),
        mark=MARK,
        policy=POLICY,
        style=(_HERE / "page.css").read_text("utf-8"),
        figures=Figures(),
        report=report,
    )


def period_text(run: RunFolder) -> str:
    """Return the period, step, size and seed of a run as text."""
    scenario = run.scenario
    return (
        f"{scenario.duration} from {scenario.start:%Y-%m-%d}, "
        f"{interval(scenario.resolution_ms)} means, "
        f"{plural(scenario.facility.n_nodes, 'node')}, seed {scenario.seed}"
    )
