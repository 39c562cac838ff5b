"""Public Python functions of `diploee`, one for each command but sweeps and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from diploee.base.errors import InputError, did_you_mean, one_of, shown
from diploee.base.files import check_output_folder
from diploee.base.files.paths import ShippedKind, shipped
from diploee.base.progress import NotebookProgress, Progress, Stopwatch, in_notebook
from diploee.grid.limits.file import Limits, limits_of, load_limits
from diploee.grid.limits.report import LimitReport, report_on, reports_of
from diploee.grid.limits.watch import WatchedLimits
from diploee.importers.inputs import load_inputs
from diploee.loads.inputs import Inputs
from diploee.loads.jobs import Utilization
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.runs.folder import RUN_FOLDER
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, as_html
from diploee.scenario.loading import (
    load_scenario,
    scenario_from_dict,
    target_values,
    with_set_keys,
    with_value,
)
from diploee.scenario.log_replay import ClassRule
from diploee.scenario.models import Scenario
from diploee.scenario.starter import SiteAnswers, starter_text
from diploee.scenario.yaml_lines import load_yaml_with_lines, read_text
from diploee.simulation import run as running
from diploee.simulation import steps
from diploee.simulation.layout_power import LayoutSpan, part_tables
from diploee.simulation.prepared import (
    AS_USUAL,
    NO_WATCH,
    PreparedSite,
    RunOptions,
    at_needed_step,
    expect,
    prepare,
    settle,
)

if TYPE_CHECKING:
    import pandas as pd

    from diploee.fits.jobs.job_log_fit import JobLogFit
    from diploee.grid.dynamics.events import Event
    from diploee.grid.dynamics.ride_through_study import RideThroughResult
    from diploee.grid.dynamics.site import Site
    from diploee.reports.drawing.pictures import Picture

Files = Path | str | Sequence[Path | str]


def scenarios(kind: ShippedKind = "scenario") -> dict[str, str]:
    """Return the shipped files, as a mapping of names to descriptions.

    Parameters
    ----------
    kind : {"scenario", "sweep", "limits"}
        Kind of the files.
    """
    return {name: _description(path, kind) for name, path in shipped(kind).items()}


def _description(path: Path, kind: ShippedKind) -> str:
    """Return a shipped file's description, name, or first comment."""
    content, _ = load_yaml_with_lines(path, "keys")
    first = path.read_text("utf-8").partition("\n")[0].removeprefix("#").strip()
    return str(content.get("name" if kind == "limits" else "description") or first)


class Run(RunFolder):
    """A finished run: the contents of its folder, and methods to evaluate these."""

    @cached_property
    def verdicts(self) -> tuple[LimitReport, ...]:
        """Compliance reports on the limits checked during the run, at its step."""
        return reports_of(self)

    def limits(self, limits: Limits | Path | str) -> LimitReport:
        """Check the run against limits: loaded ones, their file, or a preset's name.

        An entry that was already checked during the run, at its step, keeps that
        result.
        """
        loaded = limits if isinstance(limits, Limits) else load_limits(limits)
        return report_on(self, loaded)

    @cached_property
    def ride_through(self) -> RideThroughResult:
        """Response to the shipped event, by the settings ``facility.ride_through``."""
        return self.answer()

    def answer(
        self, event: Event | str = "nerc_2024_07_10", **options: Any
    ) -> RideThroughResult:
        """Simulate the ride-through response of the site to an event.

        Arguments as in `diploee.grid.dynamics.block_ride_through`; `event` may also be
        a CSV file ``t_s,voltage_pu[,frequency_hz]``.
        """
        from diploee.grid.dynamics.ride_through_study import ride_through

        event = load_event(event) if isinstance(event, str) else event
        return ride_through(self, event, **options)

    def site(self, at: datetime | None = None, **options: Any) -> Site:
        """Open the site for co-simulation; arguments as in `Site.open`."""
        from diploee.grid.dynamics.site import Site, has_stores
        from diploee.importers.inputs import InputReader

        if has_stores(self):
            options["weather"] = InputReader().weather(
                self.scenario, self.scenario.clock
            )
        return Site.open(self, at, **options)

    def export(
        self,
        format_name: str,
        out: Path | str | None = None,
        *,
        force: bool = False,
        **options: Any,
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
        **options : object
            Fields of `diploee.grid.export.Options`, such as ``step="15 min"``,
            `q_table` and `peaks` as paths.

        Returns
        -------
        pathlib.Path
            Path of the file or folder written.
        """
        from diploee.grid.export.base import Options
        from diploee.grid.export.registry import export_run
        from diploee.grid.export.series import ReactiveTable
        from diploee.importers.peak_intervals import read_peak_intervals
        from diploee.importers.site_tables import read_reactive_table

        if isinstance(peaks := options.get("peaks"), Path | str):
            options["peaks"] = read_peak_intervals(peaks)
        if isinstance(table := options.get("q_table"), Path | str):
            options["q_table"] = ReactiveTable(
                Path(table), *read_reactive_table(Path(table))
            )
        return export_run(self, format_name, out, Options(**options), force=force)

    def report(self, out: Path | str = "report.html", **options: Any) -> Path:
        """Write the run's report and return its path; options as in `write_report`."""
        from diploee.reports.build import report

        return report(self, out, **options)

    def plot(self, chart: str = "peak-week") -> Picture:
        """Draw a chart of the run's report by its id, for a notebook to show.

        Raises
        ------
        InputError
            If the report has no such chart; the text lists its charts.
        """
        from diploee.reports.build import picture

        return picture(self, chart)

    def sections(self, limits: Sequence[LimitReport] = ()) -> list[Section]:
        """Return the results as sections: main statistics first, compliance included.

        `limits` are reports on further limits.
        """
        from diploee.reports.run_sections import run_sections

        answer = self.ride_through if self.scenario.facility.ride_through else None
        return run_sections(self, [*dict.fromkeys([*self.verdicts, *limits])], answer)

    def _repr_html_(self) -> str:
        return as_html(f"{self.scenario.name}, {self.folder}", self.sections())

    def power(
        self,
        of: str,
        step: str | None = None,
        span: tuple[datetime | None, datetime | None] = (None, None),
        **options: Any,
    ) -> pd.DataFrame:
        """Return the power of a node, chassis, rack, row or hall, or of each of them.

        The loads of the run are simulated again, which takes as long as its schedule up
        to the end of the span. All nodes of a job, and of a service, consume an equal
        share of its power, so racks are fully coherent; real single nodes fluctuate at
        least as much.

        Parameters
        ----------
        of : str
            One node, chassis, rack, row or hall by its number from 0, such as
            ``"rack:17"``, or all of a level, ``"rack"``. They are those of
            `facility.layout`, numbered pool after pool.
        step : str, optional
            Interval such as ``"0.1 s"``; the run's resolution by default.
        span : (datetime.datetime or None, datetime.datetime or None), optional
            Start and end (excluded), local time; the whole run by default.
        **options : object
            Python arguments of the run: ``library``, ``policies``, ``controller``,
            ``stages`` and ``loads``, as for `simulate`.

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
        layout_span = LayoutSpan(of=of, step=step, first=span[0], until=span[1])
        tables = part_tables(self, site_of_run(self, **options), layout_span)
        frame: pd.DataFrame = pa.concat_tables(tables).to_pandas()
        return frame.set_index("timestamp")


def open_run(folder: Path | str) -> Run:
    """Open a run folder.

    Parameters
    ----------
    folder : path
        Folder that `diploee.run` wrote.

    Raises
    ------
    InputError
        If the folder is no run folder, or was written by a newer version.
    """
    return Run.open(folder)


def load_event(name: str) -> Event:
    """Return a shipped event, or the event of a CSV file.

    The file has columns ``t_s,voltage_pu[,frequency_hz]``, and each value holds until
    the next time. Instead of `voltage_pu` it may have `waveform_pu`, the instantaneous
    voltage [pu of its amplitude] at equal steps: its RMS over a cycle, updated every
    half cycle, is not filtered again.

    Raises
    ------
    InputError
        If the name is neither an event nor a file.
    """
    from diploee.grid.dynamics.block_ride_through import Voltage
    from diploee.grid.dynamics.events import EVENTS, Event
    from diploee.importers.site_tables import read_voltage

    path = Path(name)
    if name in EVENTS.by_name or not path.is_file():
        return EVENTS.named("--event", name, "; or give a file")
    time_s, pu, is_rms, frequency = read_voltage(path)
    series = Voltage(time_s, pu, is_rms)
    return Event(
        path.name, f"your file {path.name}", series=series, frequency=frequency
    )


def run(
    scenario: Scenario | Path | str,
    out: Path | str | None = None,
    *,
    target_utilization: float | None = None,
    seed: int | None = None,
    values: Mapping[str, Any] | None = None,
    profiles: Sequence[Path | str] = (),
    **options: Any,
) -> Run:
    """Simulate a scenario by name, file or object; a notebook shows the progress.

    Parameters
    ----------
    scenario : Scenario, path or str
        A scenario, its file, or the name of a shipped one such as
        ``"colocation_10mw"``.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    target_utilization : float, optional
        Target mean node occupancy (0-1) of the scenario's only stream.
    seed : int, optional
        Random seed.
    values : mapping, optional
        Values by dotted key, such as ``{"duration": "8 weeks"}``.
    profiles : sequence of path
        Folders of power profiles instead of the shipped ones.
    **options : object
        Further arguments of `simulate`, such as ``engine="compiled"``.

    Returns
    -------
    Run
        The finished run.

    Raises
    ------
    ScenarioError
        If the scenario or a value is invalid; the text names the key.
    InputError
        If there is no such option, or the profiles or the output folder are not usable.
    """
    changes = {**(values or {}), **({} if seed is None else {"seed": seed})}
    resolved, names = _with_values(scenario, changes, {}), {}
    if target_utilization is not None:
        target = target_values(resolved, target_utilization)
        names = dict.fromkeys(target, "target_utilization")
        resolved = _with_values(scenario, changes | target, names)
    if profiles:
        options["library"] = ProfileLibrary.open(*map(str, profiles))
    if in_notebook():
        options.setdefault("progress", NotebookProgress())
    return simulate(resolved, out, **options)


def simulate(
    scenario: Scenario,
    out: Path | str | None = None,
    *,
    library: ProfileLibrary | None = None,
    inputs: Inputs | None = None,
    limits: Sequence[Limits] = (),
    progress: Progress | None = None,
    **options: Any,
) -> Run:
    """Simulate a scenario and write its run folder.

    Parameters
    ----------
    scenario : Scenario
        The scenario to simulate.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    library : ProfileLibrary, optional
        Power profiles of the jobs; the shipped reference profiles by default.
    inputs : Inputs, optional
        All input data of the run, with profiles, if they were read before.
    limits : sequence of Limits
        Limits to check during the run, at the step that they need, in addition to the
        scenario's limits.
    progress : Progress, optional
        Called with the stages and their progress.
    **options : object
        Options of the run and its outputs:

        - ``engine``: ``"simpy"`` or ``"compiled"``; both give the same start times.
        - ``force``: replace a run folder that exists.
        - ``event_windows``: also write the extreme windows at 0.1 s in ``zooms/``.
        - ``by_load``: also write the power of each stream and service in the series,
          and aggregates by job class.
        - ``before_stores``: also write the load upstream of batteries and ramp limits,
          in double precision, as `diploee.grid.dynamics.Site` needs.
        - ``jobs_file``: write ``jobs.parquet``, the largest file of a run (default).
        - ``nodes_file``: write ``nodes.parquet``, the node allocations of jobs and
          services over time.
        - ``sinks``: custom consumers of the blocks, in addition to the files and
          metrics of the run folder.
        - ``n_threads``: threads of the power stage; by default the number of cores, at
          most four. 0 runs all stages on one core.
        - ``window_days``: days that are simulated at a time, in quarters of a day. The
          window bounds the memory and does not affect results.
        - ``at_most_s``, ``at_most_mb``: refuse a run with a longer forecast time [s] or
          a larger forecast memory [MB].
        - ``until_decided``: stop once no file of limits can be met any more, at both
          ends of a large job, with an `EarlyStopError` that has the `reports`.

        Python objects in the run: ``policies``, custom queue disciplines by pool name;
        ``stages``, placed after those of the scenario; ``controller``, which acts on
        the jobs of all pools before the policies; ``loads``, callables that open
        further loads of a scenario with its inputs, after the library's profiles.

    Returns
    -------
    Run
        The finished run, read back from its folder.

    Raises
    ------
    InputError
        If the scenario, the profiles or the output folder are not usable, or the run's
        forecast is too long.
    OutputError
        If the folder can't be written; no partial folder remains.
    EarlyStopError
        If the run stops as `until_decided` says; no folder remains.
    """
    names = [field.name for field in fields(RunOptions)]
    for name in options.keys() - names:
        names += ["library", "inputs", "limits", "progress", *signature(run).parameters]
        raise InputError(
            f"{name}: not an argument of diploee.run or simulate"
            f"{did_you_mean(name, names)}"
        )
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"scenario: expected a Scenario, as load_scenario gives, found "
            f"{shown(scenario)}; diploee.run takes names and files"
        )
    run_options, watch = RunOptions(**options), Stopwatch(progress or Progress())
    with watch.stage("read inputs"):
        if out is not None:  # check before reading
            check_output_folder(out, run_options.force, kind=RUN_FOLDER)
        site = site_of(scenario, library, run_options, inputs, limits)
    return open_run(running.simulate(site, out, watch))


def site_of(
    scenario: Scenario,
    library: ProfileLibrary | None = None,
    options: RunOptions = AS_USUAL,
    inputs: Inputs | None = None,
    limits: Sequence[Limits] = (),
) -> PreparedSite:
    """Prepare the site of a scenario: read its inputs, and add limits to check."""
    expect(isinstance(limits, tuple | list), "limits", "a list", limits)
    for item in limits:
        expect(isinstance(item, Limits), "limits", "Limits, as load_limits gives", item)
    all_limits = (*limits_of(scenario), *limits)
    watch = WatchedLimits(all_limits) if all_limits else NO_WATCH
    scenario = at_needed_step(scenario, options.stages, watch)
    return prepare(scenario, inputs or load_inputs(scenario, library), options, watch)


def site_of_run(
    run: Run, library: ProfileLibrary | None = None, **options: Any
) -> PreparedSite:
    """Prepare the site of a run for another simulation.

    `options` are the run's Python objects, such as policies and stages.
    """
    run_options = RunOptions(engine=run.manifest["engine"], **options)
    return prepare(run.scenario, load_inputs(run.scenario, library), run_options)


def generate_jobs(
    scenario: Scenario,
    library: ProfileLibrary | None = None,
    simulated_utilization: Utilization | None = None,
) -> steps.Workload:
    """Generate the list of jobs of all streams.

    Parameters
    ----------
    scenario : Scenario
        The scenario of the streams.
    library : ProfileLibrary, optional
        Power profiles of the job classes, which give the durations.
    simulated_utilization : callable, optional
        Function that schedules the jobs of a stream with ``match: simulated``, day
        after day, and returns the mean node occupancy (0-1) of its pool; by default
        with the pool's scheduler.

    Returns
    -------
    Workload
        Jobs in the order of submission; simultaneous ones in the order of their
        streams.

    Raises
    ------
    InputError
        If a class has no profile, a log can't be read or does not fit its rules, or a
        target can't be reached (the text gives the difference). Or if the scenario has
        a `facility.size`, which only `diploee.run` resolves; likewise in all steps.
    """
    return steps.generate_jobs(
        scenario, load_inputs(scenario, library), simulated_utilization
    )


DRAFT_NODES = 1000
"""Nodes of the draft site, whose power gives the node count of the requested site."""


def starter(answers: SiteAnswers, name: str) -> tuple[str, int]:
    """Return the YAML text of a site's first scenario, and its number of nodes."""
    # The draft's jobs have fixed node counts
    draft = answers.model_copy(update={"largest_job": 0.0})
    data, _ = read_text(starter_text(draft, name, DRAFT_NODES))
    data = with_value(
        data, "facility.size", {"poi_mw": answers.poi_mw}, lambda: "facility.size"
    )
    scenario = scenario_from_dict(data)
    n_nodes = settle(scenario, load_inputs(scenario))[0].facility.n_nodes
    text = starter_text(answers, name, n_nodes)
    scenario_from_dict(read_text(text)[0])
    return text, n_nodes


def _with_values(
    scenario: Scenario | Path | str, values: Mapping[str, Any], names: Mapping[str, str]
) -> Scenario:
    if not isinstance(scenario, Scenario):
        return load_scenario(scenario, values=values, names=names)
    data = scenario.model_dump(mode="json")
    for key, value in values.items():
        data = with_value(data, key, value, partial(str, names.get(key, key)))
    data = with_set_keys(data, scenario.model_dump(mode="json"), values)
    return scenario_from_dict(data).with_folder(scenario.folder) if values else scenario


def limits(run: Run | Path | str, against: Limits | Path | str) -> LimitReport:
    """Check a run against limits.

    Parameters
    ----------
    run : Run or path
        Run, or its folder.
    against : Limits, path or str
        Limits, their file, or the name of a preset.
    """
    return Run.open(run).limits(against)


def export(
    run: Run | Path | str,
    format_name: str,
    out: Path | str | None = None,
    **options: Any,
) -> Path:
    """Write a run's power in the format of a grid planning tool; return the path.

    Parameters
    ----------
    run : Run or path
        Run, or its folder.
    format_name : str
        A name in `diploee.grid.export.FORMATS`.
    out : path, optional
        File or folder to write; named after the run by default.
    **options : object
        Fields of `diploee.grid.export.Options`, and ``force=True``.
    """
    return Run.open(run).export(format_name, out, **options)


def datasheet(
    run: Run | Path | str, out: Path | str = "datasheet.html", **options: Any
) -> Path:
    """Write a data sheet of a load for an interconnection request; return its path.

    Parameters
    ----------
    run : Run or path
        A finished run, or its folder.
    out : path
        HTML page to write.
    **options : object
        Further arguments of `diploee.reports.datasheet.write_datasheet`, such as
        ``limits=["ercot_lcl_2026_06"]`` or ``csv_file=...``, `peaks` as a path.
    """
    from diploee.importers.peak_intervals import read_peak_intervals
    from diploee.reports.datasheet import write_datasheet

    if options.get("peaks"):
        options["peaks"] = read_peak_intervals(options["peaks"])
    return write_datasheet(Run.open(run).folder, out, **options)[0]


def fit(
    log: Path | str,
    workload: str | None = None,
    *,
    rules: Path | str | Sequence[ClassRule] | None = None,
    scenario: Scenario | Path | str | None = None,
    pool: str | None = None,
    stream: str = "jobs",
    profiles: Sequence[Path | str] = (),
    out: Path | str | None = None,
    force: bool = False,
    **options: Any,
) -> JobLogFit:
    """Fit a job stream to a job log: submission times, job sizes and durations.

    Equivalent of ``diploee fit``, with its options as arguments.

    Parameters
    ----------
    log : path
        The log, in any format of `diploee.importers.JOB_LOG_FORMATS`.
    workload : str, optional
        Workload whose profiles give the power of all jobs; else `rules`.
    rules : path or sequence of ClassRule, optional
        Rules that map jobs to workloads; the first match applies.
    scenario : Scenario, path or name, optional
        Scenario for the stream, which gives the pool, its nodes and GPUs, and the log
        options of its only log replay.
    pool : str, optional
        Pool of the stream; the scenario's only one by default, ``"main"`` without a
        scenario.
    stream : str
        Name of the stream.
    profiles : sequence of path
        Folders of power profiles instead of the shipped ones.
    out : path, optional
        YAML file of the stream or, with `scenario`, of the scenario with it in place of
        the streams of its pool.
    force : bool
        Replace an existing file at `out`.
    **options : object
        `log_format`, by default detected from the content; fields of `JobFitOptions`,
        such as ``months=False``, and of `LogReading`, such as
        ``columns={"submit": "came", ...}``, ``gpus_per_node=4`` or
        ``states=("completed",)``.

    Returns
    -------
    JobLogFit
        The fit. Its `fragment` is the text of `out`; its `figures` compare the log, the
        fitted stream and simulated jobs.

    Raises
    ------
    InputError
        If the log can't be read, neither or both of `workload` and `rules` are
        specified, or an option or a path is invalid.

    Examples
    --------
    >>> result = diploee.fit("sacct.txt", "llama2_70b_lora")  # doctest: +SKIP
    """
    from diploee.fits.fragment import Target, check_place, write_fragment
    from diploee.fits.jobs.arrivals import JobFitOptions
    from diploee.fits.jobs.from_log import fit_from_log

    fit_options = {
        key: options.pop(key) for key in [*options] if key in JobFitOptions.model_fields
    }
    path = None if out is None else Path(out)
    inputs = [item for item in (log, rules, scenario) if isinstance(item, Path | str)]
    check_place(path, force, *inputs)
    result = fit_from_log(
        Path(log),
        ProfileLibrary.open(*map(str, profiles)),
        options,
        JobFitOptions(**fit_options),
        Target(scenario, pool, stream, path),
        workload=workload,
        rules=rules,
    )
    write_fragment(result.fragment, path, force)
    return result


@overload
def import_profile(
    files: Files,
    source_format: Literal["nvidia-smi", "plain", "wattameter"],
    **facts: Any,
) -> PowerProfile: ...


@overload
def import_profile(
    files: Files, source_format: Literal["mlperf-power", "nlr-genai"], **facts: Any
) -> list[PowerProfile]: ...


def import_profile(
    files: Files,
    source_format: str,
    *,
    out: Path | str | None = None,
    force: bool = False,
    **facts: Any,
) -> PowerProfile | list[PowerProfile]:
    """Read measured power as profiles, as ``diploee profiles import`` does.

    Parameters
    ----------
    files : path or sequence of path
        Logs of one job, or the folder for ``"mlperf-power"`` and ``"nlr-genai"``.
    source_format : {"nvidia-smi", "plain", "wattameter", "mlperf-power", "nlr-genai"}
        Their format.
    out : path, optional
        Folder of a library to add the profiles to.
    force : bool
        Replace profiles of the same ids there.
    **facts : object
        Further options of the importer, such as ``workload`` (required for logs of one
        job), ``profile_id``, ``n_nodes``, ``licence``, or ``side`` of MLPerf's folders.

    Returns
    -------
    PowerProfile or list of PowerProfile
        The profile of one job, or the profiles of the runs in a folder; its ``skipped``
        lists unreadable runs.

    Raises
    ------
    InputError
        If there is no such format, or the files can't be read.
    """
    from diploee.importers.power_logs.read import (
        FORMATS,
        add_profiles,
        read_profiles,
    )

    if source_format not in FORMATS:
        near = did_you_mean(source_format, FORMATS)
        raise InputError(
            f"import_profile: no format '{source_format}' (have: "
            f"{one_of(FORMATS)}){near}"
        )
    paths = (
        [Path(files)]
        if isinstance(files, Path | str)
        else [Path(file) for file in files]
    )
    profiles = read_profiles(paths, source_format, **facts)
    if out is not None:
        add_profiles(profiles, Path(out), force, paths)
    return profiles if source_format in ("mlperf-power", "nlr-genai") else profiles[0]
