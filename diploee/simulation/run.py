"""`simulate`: a scenario through the line into a run folder.

`check`: all that a run needs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, get_args

from diploee.base.columns import catalogue, find_column
from diploee.base.errors import InputError, RunTooLongError, one_line, one_of, shown
from diploee.base.files import writing
from diploee.base.metric import is_number
from diploee.base.progress import Progress, Stopwatch, stage
from diploee.base.tables import MAX_SIZE
from diploee.base.units import MS_PER_DAY, W_PER_MW
from diploee.facility.base import POWER, Stage, interpolated_s, naming
from diploee.grid.limits.file import Limits, load_limits
from diploee.grid.limits.report import LimitReport
from diploee.grid.limits.watch import LimitWatch, asks_for_peak, at_needed_step
from diploee.importers.inputs import load_inputs
from diploee.loads.base import OpenLoad
from diploee.loads.inputs import Inputs
from diploee.loads.jobs.streams import JobStreams
from diploee.loads.services.load import ServicesLoad
from diploee.metrics.aggregates import Aggregates
from diploee.metrics.at_step import StepExtremes
from diploee.metrics.attribution import LOAD_COLUMNS, Attribution
from diploee.metrics.bands import profile_support
from diploee.metrics.catalogue import added_metrics
from diploee.metrics.causes import Causes
from diploee.metrics.flexibility import FlexibilityMetrics, flexibility_metrics
from diploee.metrics.run_metrics import RunMetrics
from diploee.metrics.voltage_change import voltage_of
from diploee.power.blocks import Window
from diploee.power.event_windows import EventWindowSearch
from diploee.profiles.library import ProfileLibrary
from diploee.runs.folder import (
    LIMITS_FILE,
    MANIFEST,
    METRICS_FILE,
    RUN_FOLDER,
    build_manifest,
    default_folder,
    expected_mb,
    serving_entries,
    write_json,
)
from diploee.runs.parquet_files import (
    FACILITY_FILE,
    JOBS_FILE,
    NODES_FILE,
    FacilityFile,
    JobsFile,
    NodesFile,
    write_event_windows,
)
from diploee.runs.reader import RunFolder
from diploee.scenario.models import Scenario
from diploee.schedule.context import Controller
from diploee.schedule.policy import Policy
from diploee.schedule.schedule import Engine
from diploee.simulation.forecast import Forecast, forecast_of
from diploee.simulation.layout_power import PARTS_FILE, NodePlaces, PartSums
from diploee.simulation.own_parts import own_parts
from diploee.simulation.pipeline import Line, Sink
from diploee.simulation.plausibility import (
    odd_contracts,
    overfull_pools,
    run_warnings,
    unanswered_events,
)
from diploee.simulation.site import flexible_controller, open_stages, rated_w, settle


def simulate(
    scenario: Scenario,
    out: Path | str | None = None,
    *,
    library: ProfileLibrary | None = None,
    inputs: Inputs | None = None,
    engine: Engine = "simpy",
    force: bool = False,
    event_windows: bool = False,
    by_load: bool = False,
    before_stores: bool = False,
    jobs_file: bool = True,
    nodes_file: bool = False,
    n_threads: int | None = None,
    progress: Progress | None = None,
    policies: Mapping[str, Policy] | None = None,
    stages: Sequence[Stage] = (),
    sinks: Sequence[Sink] = (),
    window_days: float | None = None,
    controller: Controller | None = None,
    loads: Sequence[OpenLoad] = (),
    limits: Sequence[Limits] = (),
    at_most_s: float | None = None,
    at_most_mb: float | None = None,
) -> RunFolder:
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
    engine : {"simpy", "compiled"}
        Scheduler; both give the same start times.
    force : bool
        Replace a run folder that exists.
    event_windows : bool
        Also keep the worst windows at 0.1 s in ``zooms/``.
    by_load : bool
        Also keep the power of each stream and service in the series, and aggregates by
        job class.
    before_stores : bool
        Also keep the load before batteries and ramp limits, and write in double
        precision: what `diploee.grid.dynamics.Site` starts from.
    jobs_file : bool
        Write ``jobs.parquet``, the largest file of a run.
    nodes_file : bool
        Write ``nodes.parquet``, which nodes jobs and services hold from when to when.
    n_threads : int, optional
        Threads of the power stage; as many as there are cores, at most four, by
        default. 0 keeps the run to one core.
    progress : Progress, optional
        Called with the stages and their progress.
    policies : mapping of str to Policy, optional
        Own queue disciplines of pools by name.
    stages : sequence of Stage, optional
        Own stages of the facility, behind those of the scenario.
    sinks : sequence of Sink, optional
        Own takers of the blocks, beside the files and metrics of the run folder.
    window_days : float, optional
        Days that are simulated at a time, to a quarter. It bounds the memory and
        changes no result.
    controller : Controller, optional
        Acts on the jobs of all pools, before their policies.
    loads : sequence of callable
        Open further loads of a scenario with its inputs, behind the profiles of a
        library.
    limits : sequence of Limits
        Checked while the run passes, at the step that they need, with those of the
        scenario.
    at_most_s : float, optional
        A run that is forecast to take longer is refused [s].
    at_most_mb : float, optional
        A run that is forecast to take more memory is refused [MB].

    Returns
    -------
    RunFolder
        The finished run, read back from its folder.

    Raises
    ------
    InputError
        If the scenario, the profiles or the output folder are not usable, or it takes
        too long.
    OutputError
        If the folder can't be written; nothing is kept then.
    """
    _check_lists(loads=loads, stages=stages, sinks=sinks, limits=limits)
    _check_given(sinks, limits, policies, engine)
    _check_numbers(
        window_days=window_days,
        n_threads=n_threads,
        at_most_s=at_most_s,
        at_most_mb=at_most_mb,
    )
    watch = Stopwatch(progress or Progress())
    limits = [*limits_of(scenario), *limits]
    scenario = at_needed_step(scenario, stages, limits)
    numbered = (
        (lambda: default_folder(scenario.name, scenario.sha256()))
        if out is None
        else None
    )
    place = default_folder(scenario.name, scenario.sha256()) if out is None else out
    with writing(force) as files:
        new = files.folder(place, RUN_FOLDER)
        new.other_place = numbered
        with watch.stage("read inputs"):
            inputs = inputs or load_inputs(scenario, library)
            size, scenario = scenario.facility.size, settle(scenario, inputs, stages)
            acting = () if controller is None else (controller,)
            of_run = {
                "policy": (policies or {}).values(),
                "stage": stages,
                "load": loads,
            }
            own = own_parts(scenario, inputs, None, limits, controller=acting, **of_run)
        with watch.stage("plan"):
            controller = controller or flexible_controller(scenario, inputs, stages)
            kept = deepcopy((controller, policies))

            def again(other: Scenario) -> Line:
                """Open another scenario with the jobs' surroundings as before."""
                of_controller, of_policies = deepcopy(kept)
                return Line.open(
                    other, inputs, engine, of_policies, stages, of_controller, loads
                )

            line = Line.open(
                scenario, inputs, engine, policies, stages, controller, loads
            )
            if by_load:
                line = replace(line, columns=catalogue(line.columns, LOAD_COLUMNS))
            if before_stores:
                line = line.keeping_before_stores()
            line.jobs.watch = watch
            if at_most_s is not None or scenario.step_ms < scenario.resolution_ms:
                text = _time_in_words(
                    line, engine, jobs_file, len(limits), at_most_s, at_most_mb
                )
                watch.progress.forecast(text)
            needed_mb = _expected_mb(line, jobs_file)
            files.needed_mb = lambda _written_mb: needed_mb
        for text in overfull_pools(
            scenario.facility, scenario.clock, line.jobs.streams
        ):
            watch.progress.tell(text)
        with watch.stage("simulate") as update, ExitStack() as closing:
            rated_power_w = rated_w(scenario, inputs.weather_year, stages)
            peak_mw = None
            if any(asks_for_peak(each, scenario) for each in limits):
                coarse = scenario.model_copy(update={"step": None})
                peak_mw = _peak_mw(again(coarse), n_threads)  # a line that goes at once
            watches = _watches(line, limits, rated_power_w, peak_mw)
            taken = _Taken(
                line,
                inputs,
                rated_power_w,
                new.path,
                closing,
                jobs_file,
                nodes_file,
                by_load,
            )
            windows = line.windows(window_days, update)
            windows = taken.watched(windows, event_windows)
            at_step = (*taken.at_step, *watches)
            for block in line.written(line.blocks(windows, n_threads), at_step):
                block = taken.causes.by_load(block) if by_load else block
                with watch.lap("files and metrics"):
                    for sink in taken.sinks:
                        sink.add(block)
                    for sink in sinks:
                        with naming(sink, "add", _sink_error):
                            sink.add(block)
        found = taken.metrics_found(watch)
        manifest = _manifest(line, inputs, engine, found)
        if own:
            manifest["own_parts"] = [asdict(part) for part in own]
        if size is not None:  # the scenario of the manifest has its size already
            manifest["size"] = size.model_dump(mode="json")
        results = {METRICS_FILE: write_json(new.path / METRICS_FILE, found)}
        if watches:
            boundary = find_column(POWER, line.columns)[0].boundary or "unknown"
            reports = [(each.limits, each.report(found, boundary)) for each in watches]
            lower = lower_end(scenario)
            if lower is not None and not any(report.not_met for _, report in reports):
                reports = [
                    (of, replace(r, notes=(*r.notes, UPPER_END))) for of, r in reports
                ]
            elif lower is not None:
                # With the energies of the profiles
                del line, taken, windows, at_step, block, sink
                gc.collect()  # they refer to each other
                with watch.stage("lower end"):
                    opened = again(lower)
                    ends = _watches(opened, limits, rated_power_w, peak_mw)
                    windows = opened.windows(window_days, lambda *_: None)
                    for _ in opened.written(opened.blocks(windows, n_threads), ends):
                        pass
                reports = [
                    (of, report.beside(end.report({}, boundary), LOWER_END))
                    for (of, report), end in zip(reports, ends, strict=True)
                ]
            results[LIMITS_FILE] = write_json(
                new.path / LIMITS_FILE, limits_entries(reports)
            )
        manifest |= {"results_sha256": results, "timing": watch.stages}
        write_json(new.path / MANIFEST, manifest)
    return RunFolder.open(new.place)


def _expect(is_so: bool, name: str, expected: str, value: object) -> None:
    """Refuse a value that is not as expected."""
    if not is_so:
        raise InputError(f"{name}: expected {expected}, found {one_line(shown(value))}")


def _check_lists(**given: object) -> None:
    """Refuse one object where a list is expected."""
    for name, value in given.items():
        _expect(isinstance(value, tuple | list), name, "a list", value)


def _check_numbers(**given: object) -> None:
    """Refuse what is no number from 0 on; None leaves it open."""
    for name, value in given.items():
        is_so = value is None or is_number(value, 0, MAX_SIZE)
        is_so = is_so or (isinstance(value, float) and value == inf)
        _expect(is_so, name, "a number from 0 on, or None", value)


def _check_given(
    sinks: Iterable[object], limits: Iterable[object], policies: object, engine: object
) -> None:
    """Refuse objects of the user's that a run can't use."""
    for sink in sinks:
        can_add = not isinstance(sink, type) and callable(getattr(sink, "add", None))
        _expect(can_add, "sinks", "objects with a method add(block)", sink)
    for each in limits:
        _expect(
            isinstance(each, Limits), "limits", "Limits, as load_limits gives", each
        )
    by_pool = isinstance(policies, Mapping | None)
    _expect(by_pool, "policies", "a policy by name of its pool", policies)
    _expect(engine in get_args(Engine), "engine", one_of(get_args(Engine)), engine)


def _sink_error(text: str) -> InputError:
    return InputError(f"sinks: a sink{text}")


class _Taken:
    """The files and metrics of a run folder, as sinks of its line."""

    def __init__(
        self,
        line: Line,
        inputs: Inputs,
        rated_power_w: float,
        folder: Path,
        closing: ExitStack,
        jobs_file: bool,
        nodes_file: bool,
        by_load: bool,
    ) -> None:
        self._line, self._folder = line, folder
        scenario, clock, jobs = line.scenario, line.scenario.written_clock, line.jobs
        self._head = {
            "scenario": scenario.name,
            "scenario_sha256": scenario.sha256(),
            "seed": scenario.seed,
        }
        series = FacilityFile(folder / FACILITY_FILE, clock, line.columns, self._head)
        closing.enter_context(series)
        model = line.model.at(scenario.resolution_ms)
        attribution = Attribution(
            scenario, line.model, jobs, line.services, line.further
        )
        self.causes = Causes(attribution, line.stages)
        jobs.sinks.append(self.causes.take)
        self._metrics = RunMetrics(
            scenario.facility,
            clock,
            rated_power_w,
            line.readings,
            line.stages,
            self.causes,
            jobs.transient,
        )
        self.at_step: list[Sink] = [self._metrics.stages]
        self._extremes: StepExtremes | None = None
        if scenario.step_ms < scenario.resolution_ms:
            self._extremes = StepExtremes(scenario.clock, jobs.transient)
            self.at_step.append(self._extremes)
        grid = scenario.site.short_circuit
        if voltage := voltage_of(grid, scenario.clock, jobs.transient):
            self.at_step.append(voltage)
        self._voltage = voltage
        classes = jobs.streams.classes if by_load else ()
        self._aggregates = Aggregates(
            model, classes, [scenario.streams[of.stream].pool for of in classes]
        )
        jobs.sinks.append(self._aggregates.take)
        self.sinks: list[Sink] = [series, self._metrics, self._aggregates]
        if jobs_file and scenario.streams:
            streams = jobs.streams
            file = JobsFile(
                folder / JOBS_FILE, scenario, streams.classes, streams.library.ids
            )
            closing.callback(file.close)
            jobs.sinks.append(lambda w: file.add(w.submitted, w.started, w.energy_j))
        self._parts, layout = None, scenario.facility.layout
        if nodes_file or layout:
            places = NodePlaces(line)
        if layout:
            self._parts = PartSums(places, model, layout)
        if nodes_file:
            nodes = NodesFile(
                folder / NODES_FILE, scenario, jobs.streams.classes, places.labels
            )
            places.sinks.append(nodes.add)
            closing.callback(nodes.close)
            closing.callback(lambda: nodes.add(places.rest()))
        self._flexibility: FlexibilityMetrics | None = None
        if line.is_measured:
            measured = flexibility_metrics(
                scenario, inputs.signals, jobs.streams.classes
            )
            jobs.sinks.append(measured.take)
            other_jobs = (line.undisturbed or line).jobs
            other_jobs.sinks.append(partial(measured.take, undisturbed=True))
            self.sinks.append(measured)
            self._flexibility = measured
        self._search: EventWindowSearch | None = None

    def watched(
        self, windows: Iterator[Window], event_windows: bool
    ) -> Iterator[Window]:
        """Return the windows, added up by part and searched for events."""
        line = self._line
        if self._parts is not None:
            windows = self._parts.watch(windows)
        if not event_windows:
            return windows
        self._search = EventWindowSearch(
            line.model, line.stages, transient=line.jobs.transient
        )
        return self._search.watch(windows)

    def metrics_found(self, watch: Stopwatch) -> dict[str, Any]:
        """Return the metrics of the run, and write the event windows found."""
        line = self._line
        found = self._metrics.blocks(line.loads, line.energy_j)
        found["aggregates"] = self._aggregates.block()
        if self._extremes is not None:
            found["grid"]["at_step"] = self._extremes.block()
        if self._voltage is not None:
            found["grid"]["voltage_change"] = self._voltage.block()
        if self._flexibility is not None:
            found["flexibility"] = self._flexibility.block()
        if self._parts is not None:
            found["layout"] = self._parts.write(self._folder / PARTS_FILE)
        if self._search is not None:
            with watch.stage("zooms"):
                clock, head = line.scenario.clock, self._head
                found["zooms"] = write_event_windows(
                    self._folder, self._search, clock, line.columns, head, self.causes
                )
        return found


LOWER_END = "at the lower end of a large job's lag_s and edge_s"
UPPER_END = (
    "checked at the upper end of a large job's lag_s and edge_s; as nothing is not "
    "met there, where it swings most, the lower end was not run"
)


def lower_end(scenario: Scenario) -> Scenario | None:
    """Return a scenario whose large jobs swing least of what is known.

    None where none differs.
    """
    streams = dict(scenario.streams)
    for name, stream in scenario.streams.items():
        if stream.synchronous is None or stream.power_smoothing is not None:
            continue
        n_gpus = scenario.facility.node_type_of(stream.pool).n_gpus
        jobs = tuple(job.lower_end(n_gpus) or job for job in stream.synchronous.jobs)
        if jobs != stream.synchronous.jobs:
            training = stream.synchronous.model_copy(update={"jobs": jobs})
            streams[name] = stream.model_copy(update={"synchronous": training})
    return (
        scenario.model_copy(update={"streams": streams})
        if streams != scenario.streams
        else None
    )


def limits_of(scenario: Scenario) -> list[Limits]:
    """Return the limits that a scenario names: files beside it, or presets."""
    besides = ((name, scenario.folder / name) for name in scenario.limits)
    return [
        load_limits(beside if beside.exists() else name) for name, beside in besides
    ]


def _watches(
    line: Line,
    limits: Sequence[Limits],
    rated_power_w: float,
    peak_mw: float | None,
) -> list[LimitWatch]:
    """Return what checks limits while a run passes."""
    scenario = line.scenario
    names = {column.name for column in line.columns}
    support = profile_support(line.readings, interpolated_s(line.stages))
    of_run = scenario, support, (rated_power_w / W_PER_MW, "rated power")
    return [
        LimitWatch(each, *of_run, names, line.jobs.transient, peak_mw=peak_mw)
        for each in limits
    ]


def _peak_mw(line: Line, n_threads: int | None) -> float:
    """Return a site's peak, the largest of its means once it has filled up [MW]."""
    most_w = 0.0
    windows = line.windows(None, lambda *_: None)
    for block in line.blocks(windows, n_threads):
        n_left_out = max(line.jobs.transient.end_ms - block.t0_ms, 0) // block.dt_ms
        most_w = max(most_w, float(block.columns[POWER][n_left_out:].max(initial=0.0)))
    return most_w / W_PER_MW


def _time_in_words(
    line: Line,
    engine: Engine,
    jobs_file: bool,
    n_watched: int,
    at_most_s: float | None,
    at_most_mb: float | None,
) -> str:
    """Return what a run takes in its steps.

    Refuse one that takes more than asked for.
    """
    scenario, plans = line.scenario, line.plans
    jobs_per_day = line.jobs.streams.jobs_per_day
    forecast = forecast_of(scenario, jobs_per_day, plans, engine, jobs_file, n_watched)
    time_s, again = forecast.time_s, ""
    if n_watched and lower_end(scenario) is not None:
        again = (
            ", and as long again for the lower end of a large job where a limit is "
            "not met"
        )
    if at_most_mb is not None and forecast.memory_mb > at_most_mb:
        raise InputError(
            f"the run takes {forecast.words()}, more than the {at_most_mb:,.0f} MB "
            "that it may; take fewer nodes or a shorter duration"
        )
    if at_most_s is None or time_s <= at_most_s:
        steps = f"computed in steps of {scenario.step_ms / 1000:g} s"
        return f"{steps}, on one core {forecast.words()}{again}"
    days = scenario.horizon_ms / MS_PER_DAY
    fewer = max(int(days * at_most_s / time_s), 1)
    error = RunTooLongError(
        f"the run takes about {time_s / 60:.0f} min in steps of "
        f"{scenario.step_ms / 1000:g} s{again}, more than --at-most "
        f"{at_most_s / 60:g}; raise it, or set duration to '{fewer} d', which can "
        "only show that limits are not met, or a coarser step, which leaves some "
        "inconclusive"
    )
    error.time_s = time_s * (1 + bool(again))
    raise error


def limits_entries(reports: Sequence[tuple[Limits, LimitReport]]) -> dict[str, Any]:
    """Return the content of ``limits.json``."""
    return {
        "checked": [
            {
                "limits": limits.model_dump(mode="json", exclude_defaults=True),
                "verdict": report.verdict,
                "report": asdict(report),
            }
            for limits, report in reports
        ]
    }


def _expected_mb(line: Line, jobs_file: bool) -> float:
    """Estimate the size of the run folder [MB]."""
    scenario, n_days = line.scenario, line.scenario.horizon_ms / MS_PER_DAY
    n_jobs = int(line.jobs.streams.jobs_per_day * n_days) if jobs_file else 0
    n_services = sum(len(plan.services) for plan in line.plans)
    return expected_mb(scenario.n_intervals, scenario.resolution_ms, n_services, n_jobs)


def _manifest(
    line: Line, inputs: Inputs, engine: Engine, found: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest of a run, without its timing."""
    jobs = line.jobs
    return build_manifest(
        line.scenario,
        jobs.streams.library,
        line.columns,
        [*line.stages.metrics, *added_metrics()],
        inputs.hashes,
        engine,
        jobs.streams.classes,
        jobs.streams.matches(),
        run_warnings(
            line.scenario, jobs, line.plans, inputs.curves, found, inputs.weather
        ),
    ) | serving_entries(line.plans, inputs.curves)


@dataclass(frozen=True)
class _Checked:
    """Result of a check.

    `scenario` is the site as a run has it, in its size, and `rated_mw` its `rated_w`
    [MW]; `warnings` name pools that are asked for more nodes than they have, and
    unanswered events.
    """

    scenario: Scenario
    rated_mw: float
    n_classes: int
    forecast: Forecast
    warnings: tuple[str, ...]


@stage("validate")
def check(
    scenario: Scenario,
    library: ProfileLibrary | None = None,
    *,
    engine: Engine = "simpy",
    jobs_file: bool = True,
) -> _Checked:
    """Read and check all that a run of a scenario needs, without simulating."""
    inputs = load_inputs(scenario, library)
    limits = limits_of(scenario)
    scenario = at_needed_step(settle(scenario, inputs), limits=limits)
    streams = JobStreams(scenario, inputs)
    for index in {index for c in streams.classes for index in c.profile_ids}:
        _ = streams.library[index]  # reads the file and checks its values
    plans = ServicesLoad(scenario, inputs, streams.library).plans
    stages, _ = open_stages(scenario, weather=inputs.weather)
    of_site_w = rated_w(scenario, inputs.weather_year)
    RunMetrics(scenario.facility, scenario.clock, of_site_w, (), stages)
    forecast = forecast_of(
        scenario, streams.jobs_per_day, plans, engine, jobs_file, len(limits)
    )
    warnings = (
        *overfull_pools(scenario.facility, scenario.clock, streams),
        *unanswered_events(scenario, streams.classes),
        *odd_contracts(scenario.facility, of_site_w / W_PER_MW),
    )
    return _Checked(
        scenario, of_site_w / W_PER_MW, len(streams.classes), forecast, warnings
    )
