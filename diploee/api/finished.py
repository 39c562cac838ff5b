"""Evaluation of finished runs: the class `Run`, and its methods as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property, wraps
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    overload,
)

import pyarrow as pa
from pydantic import InstanceOf

from diploee.api.sites import AnyProfiles, open_library, site_of_run
from diploee.base.arguments import (
    UNCHECKED,
    AnyDuration,
    AnyTime,
    LocalTime,
    allowed,
    as_list,
    checked_arguments,
)
from diploee.base.errors import InputError, did_you_mean, one_line, one_of, shown
from diploee.facility.base import Stage
from diploee.grid import dynamics
from diploee.grid.limits.file import AnyLimits, Limits, load_limits
from diploee.grid.limits.report import LimitReport, get_report, get_reports
from diploee.loads.base import OpenLoad
from diploee.runs.reader import AnyRun, ColumnNames, RunFolder
from diploee.runs.sections import Section, as_html
from diploee.scenario.ride_through import RideThrough
from diploee.schedule.context import Controller
from diploee.schedule.policy import Policy
from diploee.simulation.layout_power import LayoutSpan, part_tables

if TYPE_CHECKING:
    import pandas as pd
    import xarray

    from diploee.grid.dynamics.quality_tests import ModelQuality
    from diploee.reports.drawing.pictures import Picture

P = ParamSpec("P")
R = TypeVar("R")

AnyEvent: TypeAlias = Annotated[
    "InstanceOf[dynamics.Event] | Path | str",
    allowed("an event, its name or its CSV file"),
]
Span = tuple[LocalTime | None, LocalTime | None]


class Run(RunFolder):
    """A finished run: the contents of its folder, and methods to evaluate these."""

    @cached_property
    def verdicts(self) -> tuple[LimitReport, ...]:
        """Compliance reports on the limits checked during the run, at its step."""
        return get_reports(self)

    @overload
    def limits(
        self, limits: Limits | Mapping[str, Any] | Path | str
    ) -> LimitReport: ...

    @overload
    def limits(
        self, limits: list[Any] | tuple[Any, ...]
    ) -> tuple[LimitReport, ...]: ...

    @checked_arguments
    def limits(self, limits: AnyLimits) -> LimitReport | tuple[LimitReport, ...]:
        """Check the run against limits.

        A limit that was already checked during the run, at its step, keeps that result.

        Parameters
        ----------
        limits : Limits, mapping, path or str, or a list of these
            Limits, their content as a dict, their file, or the name of a preset such as
            ``"ercot_nprr1191"``.

        Returns
        -------
        LimitReport or tuple of LimitReport
            One report for each file of limits; a tuple for a list.
        """
        if isinstance(limits, Limits | Mapping | Path | str):
            return get_report(self, load_limits(limits))
        return tuple(get_report(self, load_limits(item)) for item in limits)

    @checked_arguments
    def statistics(
        self,
        name: str | None = None,
        *,
        pool: str | None = None,
        month: Annotated[str | int | date | None, UNCHECKED] = None,
    ) -> pd.DataFrame:
        """Return metrics with their units and labels, one per row.

        Parameters
        ----------
        name : str, optional
            Dotted key, a part of one such as ``"grid.ramps"`` or ``"pue"``, or a
            pattern such as ``"*.max_mw"``; all metrics by default.
        pool : str, optional
            Metrics of this pool only.
        month : str, int, datetime.date or pandas.Period, optional
            Metrics of this month only, such as ``"2018-01"``, or 1 for each January.

        Returns
        -------
        pandas.DataFrame
            Columns ``value``, ``unit`` and ``label``, indexed by the dotted key.

        Raises
        ------
        InputError
            If the run has no such metric; the text suggests the closest key.
        """
        import pandas as pd

        parts = {key: key.split(".") for key in self.values}
        for argument, wanted in (("pool", pool), ("month", month)):
            if wanted is not None:
                present = _parts_after(parts.values(), argument)
                text, number = str(wanted), None
                if argument == "month":
                    text, number = text[: len("2018-01")], text.zfill(2)
                names = {each for each in present if text == each or number == each[5:]}
                if not names:
                    raise InputError(
                        f"{argument}: must be one of {one_of(present)}, found "
                        f"'{wanted}'{did_you_mean(text, present)}"
                    )
                parts = {key: words for key, words in parts.items() if names & {*words}}
        if name is not None:
            result = [
                key
                for key in parts
                if fnmatchcase(key, name) or f".{name}." in f".{key}."
            ]
            if not result:
                self.metric(name)  # its error suggests the closest key
            parts = {key: parts[key] for key in result}
        metrics = [self.metric(key) for key in parts]
        return pd.DataFrame(
            {
                "value": [metric.value for metric in metrics],
                "unit": [metric.unit for metric in metrics],
                "label": [metric.label for metric in metrics],
            },
            index=pd.Index(parts, name="key"),
        )

    @checked_arguments
    def to_xarray(self, columns: ColumnNames | None = None) -> xarray.Dataset:
        """Return the power series as a dataset, with units and boundaries.

        Needs the extra ``xarray``; ``dataset.to_netcdf(path)`` writes NetCDF.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Columns of ``facility.parquet``; all by default.

        Returns
        -------
        xarray.Dataset
            A variable per column along ``time``, the start of each interval in UTC. The
            attributes follow the CF conventions (https://cfconventions.org): ``units``,
            ``long_name`` and ``cell_methods``, and ``boundary``, the point of
            measurement.

        Raises
        ------
        InputError
            If xarray is not installed, or the run has no such column.
        """
        from diploee.reports.dataset import power_dataset

        return power_dataset(self, columns if columns is None else as_list(columns))

    @cached_property
    def ride_through(self) -> dynamics.RideThroughResult:
        """Response to the default event with the settings `facility.ride_through`."""
        return self.answer()

    @checked_arguments
    def answer(
        self,
        event: AnyEvent = "nerc_2024_07_10",
        at: LocalTime | None = None,
        settings: Annotated[Mapping[str, RideThrough] | None, UNCHECKED] = None,
    ) -> dynamics.RideThroughResult:
        """Simulate the ride-through response of the site to a grid disturbance.

        Parameters
        ----------
        event : Event, path or str
            An event, the name of a shipped one, or a CSV file
            ``t_s,voltage_pu[,frequency_hz]``.
        at : datetime.datetime, optional
            Start of the event, local time; by default at the 5th, 50th and 95th
            percentile of the load.
        settings : mapping of str to RideThrough, optional
            Settings by block in place of the scenario's ``facility.ride_through``.
        """
        event = load_event(event) if isinstance(event, Path | str) else event
        return dynamics.ride_through(self, event, at, settings)

    @checked_arguments
    def site(
        self,
        at: LocalTime | None = None,
        *,
        event_window: str | None = None,
        settings: Annotated[Mapping[str, RideThrough] | None, UNCHECKED] = None,
        drives: float = 0.0,
        nominal_hz: float = 60.0,
        state: Annotated[dynamics.SiteState | None, UNCHECKED] = None,
        hold: bool = False,
    ) -> dynamics.Site:
        """Open the site for co-simulation; arguments as in `Site.open`."""
        from diploee.grid.dynamics.site import has_stores
        from diploee.importers.input_reader import InputReader

        weather = None
        if has_stores(self):
            weather = InputReader().weather(self.scenario, self.scenario.clock)
        return dynamics.Site.open(
            self,
            at,
            event_window=event_window,
            settings=settings,
            drives=drives,
            nominal_hz=nominal_hz,
            state=state,
            weather=weather,
            hold=hold,
        )

    @checked_arguments
    def model_quality(
        self,
        at: LocalTime | None = None,
        *,
        settings: Annotated[Mapping[str, RideThrough] | None, UNCHECKED] = None,
        drives: float = 0.0,
        nominal_hz: float = 60.0,
    ) -> ModelQuality:
        """Run a planner's tests of the site's dynamic model (model-quality tests).

        The load is constant, with its value at the time `at`; by default the time of
        the run's peak. Other arguments are those of `Site.open`.
        `diploee.reports.write_model_quality` writes an HTML page of the result.
        """
        from diploee.grid.dynamics.quality_tests import model_quality, peak_time

        at = at or peak_time(self)
        site = self.site(
            at, settings=settings, drives=drives, nominal_hz=nominal_hz, hold=True
        )
        return model_quality(self, site, at)

    @checked_arguments
    def export(
        self,
        format_name: str,
        out: Path | str | None = None,
        *,
        force: bool = False,
        column: str | None = None,
        step: AnyDuration | None = None,
        first: AnyTime | None = None,
        until: AnyTime | None = None,
        event_window: str | None = None,
        year: int | None = None,
        leap_day: Literal["drop-feb29", "drop-last-day"] | None = None,
        time_zone: str | None = None,
        q_table: Path | str | None = None,
        peaks: Path | str | None = None,
        excel: bool | None = None,
        name: str | None = None,
        bus: str | None = None,
        kv: float | None = None,
        actual: bool | None = None,
        mva: float | None = None,
        at: AnyTime | None = None,
        zone: str | None = None,
        area: str | None = None,
        bus_number: int | None = None,
        parts: Sequence[str] | None = None,
        drives: float | None = None,
        vd1: float | None = None,
        vd2: float | None = None,
        frcel: float | None = None,
        perc1_head: str | None = None,
        hz: float | None = None,
        fast_hz: float | None = None,
        equal: str | None = None,
        signal: str | None = None,
    ) -> Path:
        """Write the run's power in the file format of a grid planning tool.

        Parameters
        ----------
        format_name : str
            One of `diploee.grid.export.FORMATS`, such as ``"opendss"``.
        out : path, optional
            File or folder; ``<run folder>-<format>`` by default.
        force : bool
            Replace an existing export.
        column : str, optional
            Power column; by default ``facility_power_w``.
        step : str, optional
            Coarser step, such as ``"15 min"``.
        first, until : datetime.datetime, optional
            Start and end, local time; the whole run by default.
        event_window : str, optional
            One of the run's event windows at 0.1 s in place of the whole run.
        q_table : path, optional
            CSV file ``p_mw,q_mvar`` for reactive power.
        peaks, excel : path and bool, optional
            CSV file of peak hours, and a workbook in addition (by-year).
        year, leap_day : int and {"drop-feb29", "drop-last-day"}, optional
            Calendar year of an 8760 format, and the day that a leap year loses.
        time_zone : str, optional
            Time zone of the timestamps (csv); the facility's by default.
        name, bus, kv, actual : str, str, float and bool, optional
            Name of the load, name of its bus, rated voltage [kV], and whether
            multipliers are in kW instead of per unit (OpenDSS, PyPSA).
        mva : float, optional
            Base of per-unit values [MVA] (andes, pscad).
        at, bus_number, parts : datetime, int and sequence of str, optional
            Time of the load in the study, bus number, and records to write (psse).
        zone, area : str, optional
            Zone and area (pjm-lla).
        drives, vd1, vd2, frcel, perc1_head : float and str, optional
            Parameters of the composite load model, and the first fields of PERC1's DYR
            record (psse).
        hz, fast_hz, equal, signal : float and str, optional
            Parameters of a periodic waveform (psse), and signal to write (pscad).

        Returns
        -------
        pathlib.Path
            Path of the file or folder written.
        """
        choices = {
            key: value
            for key, value in locals().items()
            if key not in ("self", "format_name", "out", "force") and value is not None
        }
        from diploee.grid.export import Options, export_run
        from diploee.grid.export.series import ReactiveTable
        from diploee.importers.peak_intervals import read_peak_intervals
        from diploee.importers.site_tables import read_reactive_table

        if q_table is not None:
            path = Path(q_table)
            choices["q_table"] = ReactiveTable(path, *read_reactive_table(path))
        if peaks is not None:
            choices["peaks"] = read_peak_intervals(peaks)
        return export_run(self, format_name, out, Options(**choices), force=force)

    @checked_arguments
    def report(
        self,
        out: Path | str = "report.html",
        *,
        png: Path | str | None = None,
        svg: Path | str | None = None,
        force: bool = False,
        limits: AnyLimits = (),
        by_load: bool = False,
        bands: Path | str | None = None,
    ) -> Path:
        """Write the run's report; arguments and result as of `diploee.report`."""
        from diploee.reports.build import report

        return report(
            self,
            out,
            png=png,
            svg=svg,
            force=force,
            limits=limits,
            by_load=by_load,
            bands=bands,
        )

    @checked_arguments
    def datasheet(
        self,
        out: Path | str = "datasheet.html",
        *,
        csv_file: Path | str | None = None,
        limits: AnyLimits = (),
        peaks: Path | str | None = None,
        bands: Path | str | None = None,
        force: bool = False,
    ) -> Path:
        """Write a data sheet for an interconnection request; return its path.

        Parameters
        ----------
        out : path
            HTML page to write.
        csv_file : path, optional
            CSV file of the data sheet's values, to be written too.
        limits : Limits, path or str, or a list of these
            Limits to check, in addition to those that the run was checked against.
        peaks : path, optional
            CSV file of a utility's peak intervals.
        bands : path, optional
            Folder of an ensemble of the run's scenario, for P5 and P95 of the values.
        force : bool
            Replace existing files.
        """
        from diploee.importers.peak_intervals import read_peak_intervals
        from diploee.reports.datasheet import write_datasheet

        return write_datasheet(
            self.folder,
            out,
            csv_file=None if csv_file is None else Path(csv_file),
            limits=as_list(limits),
            peaks=() if peaks is None else read_peak_intervals(peaks),
            bands=bands,
            force=force,
        )[0]

    @checked_arguments
    def plot(self, chart: str = "peak-week") -> Picture:
        """Draw a chart of the run's report, as a picture for notebooks.

        Parameters
        ----------
        chart : str
            Id of the chart, such as ``"carpet"``, ``"year"``, ``"week"``,
            ``"duration"``, ``"spectrum"``, ``"ramps"`` or ``"months"``.

        Returns
        -------
        Picture
            Its `spec` is a Vega-Lite specification, as `altair.Chart.from_dict` takes
            it; ``save("chart.png")`` writes PNG, SVG or HTML.

        Raises
        ------
        InputError
            If the report has no such chart; the text lists its charts.
        """
        from diploee.reports.build import picture

        return picture(self, chart)

    def sections(self, limits: Sequence[LimitReport] = ()) -> list[Section]:
        """Return the run's results as sections, the main statistics first.

        `limits` are compliance reports to show in addition to those of the run.
        """
        from diploee.reports.run_sections import run_sections

        answer = self.ride_through if self.scenario.facility.ride_through else None
        return run_sections(self, [*dict.fromkeys([*self.verdicts, *limits])], answer)

    def __repr__(self) -> str:
        return one_line(f"Run({shown(str(self.folder))})")

    def _repr_html_(self) -> str:
        return as_html(f"{self.scenario.name}, {self.folder}", self.sections())

    @checked_arguments
    def power(
        self,
        of: str,
        step: AnyDuration | None = None,
        span: Span = (None, None),
        *,
        profiles: AnyProfiles = (),
        policies: Annotated[Mapping[str, Policy] | None, UNCHECKED] = None,
        controller: Annotated[Controller | None, UNCHECKED] = None,
        stages: Annotated[Sequence[Stage], UNCHECKED] = (),
        loads: Annotated[Sequence[OpenLoad], UNCHECKED] = (),
    ) -> pd.DataFrame:
        """Return the power of a node, chassis, rack, row or hall, or of each of them.

        The run's loads are simulated again up to the end of `span`. All nodes of a job
        or service have equal power at any time, which is an assumption: real single
        nodes fluctuate at least as much.

        Parameters
        ----------
        of : str
            A node, chassis, rack, row or hall of `facility.layout` by its number from
            0, such as ``"rack:17"``, or all of a level, such as ``"rack"``. Numbers
            continue from pool to pool.
        step : str, optional
            Interval such as ``"0.1 s"``; the run's resolution by default.
        span : (datetime.datetime or None, datetime.datetime or None), optional
            Start and end (excluded), local time; the whole run by default.
        profiles, policies, controller, stages, loads
            Profiles and Python objects of the run, as in `diploee.run`.

        Returns
        -------
        pandas.DataFrame
            ``it_power_w`` [W], ``busy_nodes`` and ``utilization``, and
            ``it_ac_power_w`` where the nodes' AC power is modelled, indexed by
            `timestamp`. With several racks, each has its own columns, such as
            ``it_power_w.rack:17``, in addition to those of the sum.

        Raises
        ------
        InputError
            If there is no such rack, step or span, or an input of the run has changed.
        """
        site = site_of_run(
            self,
            open_library(profiles),
            policies=policies,
            controller=controller,
            stages=stages,
            loads=loads,
        )
        layout_span = LayoutSpan(of=of, step=step, first=span[0], until=span[1])
        frame: pd.DataFrame = pa.concat_tables(
            part_tables(self, site, layout_span)
        ).to_pandas()
        return frame.set_index("timestamp")


MONTHLY = ("monthly", "monthly_peaks", "months")
"""Parts of metric keys that a month follows."""


def _parts_after(keys: Iterable[Sequence[str]], argument: str) -> list[str]:
    """Return the names that an argument selects in split keys, such as pool names."""
    pairs = (pair for words in keys for pair in pairwise(words))
    heads = ("pools",) if argument == "pool" else MONTHLY
    return sorted({after for before, after in pairs if before in heads})


def _as_function(
    method: Callable[Concatenate[Run, P], R],
) -> Callable[Concatenate[Run | Path | str, P], R]:
    """Return a method of `Run` as a function of a run or its folder."""

    @wraps(method)
    def call(run: Run | Path | str = "", /, *args: P.args, **kwargs: P.kwargs) -> R:
        if run == "":
            raise InputError(f"{method.__name__}: needs a run or its folder first")
        return method(open_run(run), *args, **kwargs)

    heading = "Parameters\n        ----------\n"
    call.__doc__ = (method.__doc__ or "").replace(
        heading,
        f"{heading}        run : Run or path\n            Run, or its folder.\n",
    )
    first, *others = signature(method).parameters.values()
    call.__signature__ = signature(method).replace(  # type: ignore[attr-defined]
        parameters=[first.replace(name="run"), *others]
    )
    return call


export = _as_function(Run.export)
datasheet = _as_function(Run.datasheet)


@overload
def limits(
    run: AnyRun, limits: Limits | Mapping[str, Any] | Path | str
) -> LimitReport: ...


@overload
def limits(
    run: AnyRun, limits: list[Any] | tuple[Any, ...]
) -> tuple[LimitReport, ...]: ...


@checked_arguments
def limits(run: AnyRun, limits: AnyLimits) -> Any:
    """Check a run against limits.

    Parameters
    ----------
    run : Run or path
        Run, or its folder.
    limits : Limits, mapping, path or str, or a list of these
        Limits, their content, their file, or the name of a preset; a list gives a tuple
        of reports.
    """
    reports: Any = open_run(run).limits
    return reports(limits)


@checked_arguments
def open_run(folder: AnyRun) -> Run:
    """Open a run folder; an open run is returned unchanged.

    Parameters
    ----------
    folder : path or Run
        Folder that `diploee.run` wrote.

    Raises
    ------
    InputError
        If the folder is no run folder, or was written by a newer version.
    """
    if isinstance(folder, Run):
        return folder
    return Run.open(folder.folder if isinstance(folder, RunFolder) else folder)


def load_event(name: Path | str) -> dynamics.Event:
    """Return a grid event, shipped or from a CSV file.

    The file has columns ``t_s,voltage_pu[,frequency_hz]``, and each value lasts until
    the next time. Instead of `voltage_pu` it may have `waveform_pu`, the instantaneous
    voltage at equal steps, per unit of its amplitude. The RMS of the waveform over a
    cycle, updated every half cycle, then replaces the model's own RMS filter.

    Parameters
    ----------
    name : path or str
        Name of a shipped event, or a CSV file.

    Raises
    ------
    InputError
        If the name is neither an event nor a file.
    """
    from diploee.importers.site_tables import read_voltage

    path = Path(name)
    if str(name) in dynamics.EVENTS.by_name or not path.is_file():
        return dynamics.EVENTS.named("--event", str(name), "; or give a file")
    time_s, pu, is_rms, frequency = read_voltage(path)
    series = dynamics.Voltage(time_s, pu, is_rms)
    return dynamics.Event(
        path.name, f"your file {path.name}", series=series, frequency=frequency
    )
