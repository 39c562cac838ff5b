"""Functions of `diploee` in Python beside sweeps and pages: one for each command."""

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
    """Return the files that ship, each name with its description.

    Parameters
    ----------
    kind : {"scenario", "sweep", "limits"}
        Kind of the files.
    """
    return {name: _told(path, kind) for name, path in shipped(kind).items()}


def _told(path: Path, kind: ShippedKind) -> str:
    """Return a file's description, its name, or its first comment."""
    content, _ = load_yaml_with_lines(path, "keys")
    first = path.read_text("utf-8").partition("\n")[0].removeprefix("#").strip()
    return str(content.get("name" if kind == "limits" else "description") or first)


class Run(RunFolder):
    """A finished run: what its folder holds, and what can be asked of it."""

    @cached_property
    def verdicts(self) -> tuple[LimitReport, ...]:
        """Reports on the limits that were checked while the run passed, at its step."""
        return reports_of(self)

    def limits(self, limits: Limits | Path | str) -> LimitReport:
        """Check the run against limits.

        Loaded ones, their file, or the name of a preset. What was checked while the run
        passed is given as it was found then, at the run's step, each entry of a file by
        itself.
        """
        loaded = limits if isinstance(limits, Limits) else load_limits(limits)
        return report_on(self, loaded)

    @cached_property
    def ride_through(self) -> RideThroughResult:
        """Answer to the shipped event, by ``facility.ride_through``."""
        return self.answer()

    def answer(
        self, event: Event | str = "nerc_2024_07_10", **options: Any
    ) -> RideThroughResult:
        """Return how the site answers an event, or that of a table of voltage over time.

        Arguments as in `diploee.grid.dynamics.block_ride_through`; `event` may also be a CSV
        file ``t_s,voltage_pu[,frequency_hz]``.
        """  # noqa: E501
        from diploee.grid.dynamics.ride_through_study import ride_through

        event = load_event(event) if isinstance(event, str) else event
        return ride_through(self, event, **options)

    def site(self, at: datetime | None = None, **options: Any) -> Site:
        """Open the site to be stepped by a simulator; arguments as in `Site.open`."""
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
        """Write the run's power in the format of a planner's tool.

        Parameters
        ----------
        format_name : str
            One of `diploee.grid.export.FORMATS`, such as ``"opendss"``.
        out : path, optional
            File or folder; ``<run folder>-<format>`` by default.
        force : bool
            Replace an export that stands there.
        **options : object
            Fields of `diploee.grid.export.Options`, such as ``step="15 min"``,
            `q_table` as a path.

        Returns
        -------
        pathlib.Path
            What was written.
        """
        from diploee.grid.export.base import Options
        from diploee.grid.export.registry import export_run
        from diploee.grid.export.series import ReactiveTable
        from diploee.importers.site_tables import read_reactive_table

        if isinstance(table := options.get("q_table"), Path | str):
            options["q_table"] = ReactiveTable(
                Path(table), *read_reactive_table(Path(table))
            )
        return export_run(self, format_name, out, Options(**options), force=force)

    def report(self, out: Path | str = "report.html", **options: Any) -> Path:
        """Write the run's page and return its place.

        Options as in `report.write_report`.
        """
        from diploee.reports.build import report

        return report(self, out, **options)

    def plot(self, chart: str = "peak-week") -> Picture:
        """Draw a chart of the run's report by its id.

        A notebook shows what this returns.

        Raises
        ------
        InputError
            If the report has no such chart; the text lists those it has.
        """
        from diploee.reports.build import picture

        return picture(self, chart)

    def sections(self, limits: Sequence[LimitReport] = ()) -> list[Section]:
        """Return the results as sections, the answer first.

        Verdicts of `limits` too.
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

        The loads of the run are played again, which takes as long as its schedule up to
        the end of the span. Nodes of a job, and of a service, draw alike, each its part
        of a sum: parts are as coherent as they can be, and each by itself swings at
        least as much as here.

        Parameters
        ----------
        of : str
            A part by its number from 0, such as ``"rack:17"``, or all of a level,
            ``"rack"``. Parts are those of `facility.layout`, numbered pool after pool.
        step : str, optional
            Interval such as ``"0.1 s"``; the run's resolution by default.
        span : (datetime.datetime or None, datetime.datetime or None), optional
            From when to before when, local time; the whole run by default.
        **options : object
            What the run took in Python besides: ``library``, ``policies``,
            ``controller``, ``stages`` and ``loads``, as `simulate` has them.

        Returns
        -------
        pandas.DataFrame
            ``it_power_w`` [W], ``busy_nodes`` and ``utilization``, and
            ``it_ac_power_w`` where the nodes' AC power is modelled, indexed by
            `timestamp`. Of several parts each has columns of its own, such as
            ``it_power_w.rack:17``, beside those of all together.

        Raises
        ------
        InputError
            If there is no such part, step or span, or what the run read has changed.
        """
        asked = LayoutSpan(of=of, step=step, first=span[0], until=span[1])
        tables = part_tables(self, site_of_run(self, **options), asked)
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
        If it is none, or was written by a newer version.
    """
    return Run.open(folder)


def load_event(name: str) -> Event:
    """Return an event that ships, or that of a table ``t_s,voltage_pu[,frequency_hz]``.

    Each value is held until the next stamp. In place of `voltage_pu`, `waveform_pu` is
    sampled at even steps, of its amplitude: its RMS over a cycle, renewed each half,
    isn't filtered again.

    Raises
    ------
    InputError
        If it is neither.
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
    """Simulate a scenario by name, file or object; a notebook shows how it goes.

    Parameters
    ----------
    scenario : Scenario, path or str
        A scenario, its file, or the name of a shipped one such as
        ``"colocation_10mw"``.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    target_utilization : float, optional
        Mean node occupancy to reach, 0-1, of the scenario's only stream.
    seed : int, optional
        Seed of every random draw.
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
        If the scenario or a value is wrong; the text names the key as it was given
        here.
    InputError
        If there is no such option, or the profiles or the output folder are not usable.
    """
    asked = {**(values or {}), **({} if seed is None else {"seed": seed})}
    resolved, names = _with_values(scenario, asked, {}), {}
    if target_utilization is not None:
        target = target_values(resolved, target_utilization)
        names = dict.fromkeys(target, "target_utilization")
        resolved = _with_values(scenario, asked | target, names)
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
        What to simulate.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    library : ProfileLibrary, optional
        Power profiles of the jobs; the shipped reference profiles by default.
    inputs : Inputs, optional
        All that the run reads, profiles too, where that was read before.
    limits : sequence of Limits
        Checked while the run passes, at the step that they need, with those of the
        scenario.
    progress : Progress, optional
        Called with the stages and their progress.
    **options : object
        How the run is made and what is kept of it:

        - ``engine``: ``"simpy"`` or ``"compiled"``; both give the same start times.
        - ``force``: replace a run folder that exists.
        - ``event_windows``: also keep the worst windows at 0.1 s in ``zooms/``.
        - ``by_load``: also keep the power of each stream and service in the series, and
          aggregates by job class.
        - ``before_stores``: also keep the load before batteries and ramp limits, and
          write in double precision: what `diploee.grid.dynamics.Site` starts from.
        - ``jobs_file``: write ``jobs.parquet``, the largest file of a run; it is by
          default.
        - ``nodes_file``: write ``nodes.parquet``, which nodes jobs and services hold
          from when to when.
        - ``sinks``: own takers of the blocks, beside the files and metrics of the run
          folder.
        - ``n_threads``: threads of the power stage; as many as there are cores, at most
          four, by default. 0 keeps the run to one core.
        - ``window_days``: days that are simulated at a time, to a quarter. It bounds
          the memory and changes no result.
        - ``at_most_s``, ``at_most_mb``: a run that is forecast to take longer [s], or
          more memory [MB], is refused.
        - ``until_decided``: stop once no file of limits can be met any more, at both
          ends of a large job, with a `EarlyStopError` that has the `reports`.

        And what takes part in it in Python: ``policies``, own queue disciplines by the
        name of their pool; ``stages``, behind those of the scenario; ``controller``,
        which acts on the jobs of all pools, before their policies; ``loads``, callables
        that open further loads of a scenario with its inputs, behind the profiles of a
        library.

    Returns
    -------
    Run
        The finished run, read back from its folder.

    Raises
    ------
    InputError
        If the scenario, the profiles or the output folder are not usable, or it takes
        too long.
    OutputError
        If the folder can't be written; nothing is kept then.
    EarlyStopError
        If it stops `until_decided`; nothing is kept then.
    """
    known = [field.name for field in fields(RunOptions)]
    for name in options.keys() - known:
        known += ["library", "inputs", "limits", "progress", *signature(run).parameters]
        raise InputError(
            f"{name}: not an argument of diploee.run or simulate"
            f"{did_you_mean(name, known)}"
        )
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"scenario: expected a Scenario, as load_scenario gives, found "
            f"{shown(scenario)}; diploee.run takes names and files"
        )
    how, watch = RunOptions(**options), Stopwatch(progress or Progress())
    with watch.stage("read inputs"):
        if out is not None:  # before all that is read
            check_output_folder(out, how.force, kind=RUN_FOLDER)
        site = site_of(scenario, library, how, inputs, limits)
    return open_run(running.simulate(site, out, watch))


def site_of(
    scenario: Scenario,
    library: ProfileLibrary | None = None,
    options: RunOptions = AS_USUAL,
    inputs: Inputs | None = None,
    limits: Sequence[Limits] = (),
) -> PreparedSite:
    """Return the site of a scenario with all that it names read, and the limits to check it by."""  # noqa: E501
    expect(isinstance(limits, tuple | list), "limits", "a list", limits)
    for of in limits:
        expect(isinstance(of, Limits), "limits", "Limits, as load_limits gives", of)
    every = (*limits_of(scenario), *limits)
    watch = WatchedLimits(every) if every else NO_WATCH
    scenario = at_needed_step(scenario, options.stages, watch)
    return prepare(scenario, inputs or load_inputs(scenario, library), options, watch)


def site_of_run(
    run: Run, library: ProfileLibrary | None = None, **own: Any
) -> PreparedSite:
    """Return the site of a run, to be simulated again.

    `own` is what it took in Python besides.
    """
    options = RunOptions(engine=run.manifest["engine"], **own)
    return prepare(run.scenario, load_inputs(run.scenario, library), options)


def generate_jobs(
    scenario: Scenario,
    library: ProfileLibrary | None = None,
    simulated_utilization: Utilization | None = None,
) -> steps.Workload:
    """Generate the list of jobs of all streams.

    Parameters
    ----------
    scenario : Scenario
        What to generate.
    library : ProfileLibrary, optional
        Profiles that the classes draw from; they give the durations.
    simulated_utilization : callable, optional
        Schedules the jobs of a stream with ``match: simulated``, day after day, and
        returns the mean node occupancy (0-1) of its pool; its own scheduler by default.

    Returns
    -------
    Workload
        Jobs in the order of submission; simultaneous ones in the order of their
        streams.

    Raises
    ------
    InputError
        If a class has no profile, a log can't be read or does not fit its rules, or a
        target can't be reached; the text says by how much. Or if the scenario has a
        `facility.size`, which `diploee.run` alone settles; so with all steps.
    """
    return steps.generate_jobs(
        scenario, load_inputs(scenario, library), simulated_utilization
    )


DRAFT_NODES = 1000
"""Nodes of the site whose power says how many make the one that is asked for."""


def starter(answers: SiteAnswers, name: str) -> tuple[str, int]:
    """Return a first scenario of a site as text, and how many nodes make its power."""
    # Whose job is of given nodes
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
    """Write a run's power in the format of a planner's tool, and return its path.

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
    """Write what an interconnection asks of a load on one page, and return its place.

    Parameters
    ----------
    run : Run or path
        A finished run, or its folder.
    out : path
        The page.
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
    """Learn from a job log when jobs come, how wide they are and how long they run.

    What ``diploee fit`` does, with its options as arguments.

    Parameters
    ----------
    log : path
        The log, in any format of `diploee.importers.JOB_LOG_FORMATS`.
    workload : str, optional
        Workload that all jobs take their power from; else `rules`.
    rules : path or sequence of ClassRule, optional
        Which jobs take their power from which workload; the first that fits.
    scenario : Scenario, path or name, optional
        What the stream is for: gives the pool, its nodes and GPUs, and how to read the
        log where its only replay of a log says so.
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
        `log_format`, which is recognised by content by default; fields of
        `JobFitOptions`, such as ``months=False``, and of `LogReading`, such as ``columns={"submit": "came", ...}``, ``gpus_per_node=4`` or
        ``states=("completed",)``.

    Returns
    -------
    JobLogFit
        Its `fragment` is what `out` holds or would hold; its `figures` compare the log,
        the fragment and the jobs that it generates.

    Raises
    ------
    InputError
        If the log can't be read, neither or both of `workload` and `rules` are given,
        or an option or a place is none.

    Examples
    --------
    >>> found = diploee.fit("sacct.txt", "llama2_70b_lora", out="stream.yaml")  # doctest: +SKIP
    """  # noqa: E501
    from diploee.fits.fragment import Target, check_place, write_fragment
    from diploee.fits.jobs.arrivals import JobFitOptions
    from diploee.fits.jobs.from_log import fit_from_log

    of_fit = {
        key: options.pop(key) for key in [*options] if key in JobFitOptions.model_fields
    }
    place = None if out is None else Path(out)
    read = [item for item in (log, rules, scenario) if isinstance(item, Path | str)]
    check_place(place, force, *read)
    result = fit_from_log(
        Path(log),
        ProfileLibrary.open(*map(str, profiles)),
        options,
        JobFitOptions(**of_fit),
        Target(scenario, pool, stream, place),
        workload=workload,
        rules=rules,
    )
    write_fragment(result.fragment, place, force)
    return result


@overload
def import_profile(
    files: Files,
    source_format: Literal["nvidia-smi", "plain", "wattameter"],
    **told: Any,
) -> PowerProfile: ...


@overload
def import_profile(
    files: Files, source_format: Literal["mlperf-power", "nlr-genai"], **told: Any
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
        Logs of one job; of ``"mlperf-power"`` and ``"nlr-genai"`` the folder.
    source_format : {"nvidia-smi", "plain", "wattameter", "mlperf-power", "nlr-genai"}
        Their format.
    out : path, optional
        Folder of a library to add the profiles to.
    force : bool
        Replace profiles of the same ids there.
    **facts : object
        What the importer takes besides, such as ``workload``, which logs of one job
        need, ``profile_id``, ``n_nodes``, ``licence``, or ``side`` of MLPerf's folders.

    Returns
    -------
    PowerProfile or list of PowerProfile
        The profile of one job, or those of the runs in a folder, of which ``skipped``
        names the runs that can't be read.

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
