"""The program in one line: inputs -> jobs, services -> segments -> power -> stages -> sinks.

`simulate` takes a run through it a window of time at a time: the jobs of a window are drawn and
scheduled, those that start become segments, power adds these up, and each finished block of power
passes the facility's stages into the sinks. Memory is that of one window and the running jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import pairwise, tee
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from diploee.callable_modules import callable_module
from diploee.columns import catalogue
from diploee.facility import Block, Stage, Stages
from diploee.facility.base import POWER
from diploee.inference import service_columns
from diploee.inputs import Inputs, load_inputs
from diploee.metrics import (
    Attribution,
    Causes,
    QueueLength,
    QueueMetrics,
    RunMetrics,
    SynchronousMetrics,
)
from diploee.metrics.flexibility import BASELINE, BASELINE_COLUMNS, FlexibilityMetrics
from diploee.metrics.flexible_jobs import FlexibleJobs
from diploee.metrics.grid.clock import Clock
from diploee.outputs import (
    FACILITY_FILE,
    JOBS_FILE,
    MANIFEST,
    METRICS_FILE,
    FacilityFile,
    JobsFile,
    Run,
    build_manifest,
    default_folder,
    expected_mb,
    new_run_folder,
    open_run,
    serving_entries,
    write_event_windows,
    write_json,
)
from diploee.plausibility import overfull_pools, run_warnings
from diploee.power import (
    EventWindowSearch,
    JobLoad,
    PowerModel,
    Segments,
    absent_nodes,
    device_block,
    lower_jobs,
    lower_runs,
    power_stream,
    serving_segments,
    with_levels,
    with_twins,
)
from diploee.power.replicas import with_replicas
from diploee.profiles import ProfileLibrary
from diploee.profiles.flat import FLAT_WORKLOAD
from diploee.progress import NotebookProgress, Progress, Stopwatch, Update, in_notebook
from diploee.replicas import plan_replicas, replica_columns
from diploee.scenario import Scenario, load_scenario, scenario_from_dict, target_values
from diploee.scenario.dotted_keys import with_value
from diploee.scenario.size import rated_w
from diploee.schedule import (
    ActedSchedule,
    Cluster,
    Engine,
    Policy,
    Schedule,
    Transient,
    chosen_policies,
    levels_of,
)
from diploee.schedule.surroundings import Controller
from diploee.steps import (
    class_nodes,
    flexible_controller,
    open_stages,
    open_streams,
    plan_services,
    settle,
    simulations,
    surroundings,
)
from diploee.tables import Float64Array, concat
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_WEEK
from diploee.workload import JobTable, StreamClass
from diploee.workload.rates import hourly_rates
from diploee.workload.source import DRAW_MS

JOBS_PER_WINDOW = 200_000
"""Jobs that a window is to hold; it is at least one draw and at most four weeks."""

MOST_DRAWS = 4 * MS_PER_WEEK // DRAW_MS


class Sink(Protocol):
    """Takes the blocks of a run in the order of time, such as a file or a metric."""

    def add(self, block: Block) -> None:
        """Take in a block."""
        ...


def simulate(
    scenario: Scenario,
    out: Path | str | None = None,
    *,
    library: ProfileLibrary | None = None,
    inputs: Inputs | None = None,
    engine: Engine = "simpy",
    force: bool = False,
    event_windows: bool = False,
    jobs_file: bool = True,
    n_threads: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    policies: Mapping[str, Policy] | None = None,
    stages: Sequence[Stage] = (),
    sinks: Sequence[Sink] = (),
    window_days: float | None = None,
    controller: Controller | None = None,
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
    engine : {"simpy", "compiled"}
        Scheduler; both give the same start times.
    force : bool
        Replace a run folder that exists.
    event_windows : bool
        Also keep the worst windows at 0.1 s in ``zooms/``.
    jobs_file : bool
        Write ``jobs.parquet``, the largest file of a run.
    n_threads : int, optional
        Threads of the power stage; as many as there are cores, at most four, by default. 0 keeps
        the run to one core.
    executor : concurrent.futures.Executor, optional
        Computes the power blocks instead of threads, as `power_stream` says.
    progress : Progress, optional
        Told of the stages and their progress.
    policies : mapping of str to Policy, optional
        Own queue disciplines of pools by name.
    stages : sequence of Stage, optional
        Own stages of the facility, behind those of the scenario.
    sinks : sequence of Sink, optional
        Own takers of the blocks, beside the files and metrics of the run folder.
    window_days : float, optional
        Days that are simulated at a time, to a quarter. It bounds the memory and changes no result.
    controller : Controller, optional
        Acts on the jobs of all pools, before their policies.

    Returns
    -------
    Run
        The finished run, read back from its folder.

    Raises
    ------
    InputError
        If the scenario, the profiles or the output folder are not usable.
    OutputError
        If the folder can't be written; nothing is kept then.
    """
    clock = Stopwatch(progress or Progress())

    def default() -> Path:
        return default_folder(scenario.name, scenario.sha256())

    numbered = default if out is None else None
    with new_run_folder(default() if out is None else out, force, numbered) as new:
        with clock.stage("read inputs"):
            inputs = inputs or load_inputs(scenario, library)
            asked, scenario = scenario.facility.size, settle(scenario, inputs, stages)
        with clock.stage("plan"):
            controller = controller or flexible_controller(scenario, inputs, stages)
            line = _Line(scenario, inputs, engine, policies, stages, clock, controller)
            new.needed_mb = line.expected_mb(jobs_file)
        for text in overfull_pools(scenario.facility, scenario.clock, line.streams):
            clock.progress.tell(text)
        with clock.stage("simulate") as update, ExitStack() as files:
            metrics = RunMetrics(
                scenario.facility,
                scenario.clock,
                rated_w(scenario, inputs.weather_year, stages),
                line.provenances,
                line.stages,
                line.causes,
                line.transient,
            )
            series = FacilityFile(
                new.folder / FACILITY_FILE, scenario.clock, line.columns, line.head
            )
            search = None
            if event_windows:
                search = EventWindowSearch(line.model, line.stages, transient=line.transient)
            jobs = line.jobs_file(new.folder / JOBS_FILE) if jobs_file else None
            files.enter_context(series)
            if jobs is not None:
                files.callback(jobs.close)
            windows = line.own(line.windows(window_days, jobs, update))
            blocks = line.blocks(search.watch(windows) if search else windows, n_threads, executor)
            takers: list[Sink] = [series, metrics, *sinks]
            if line.twin is not None:
                takers.append(line.twin.power)
            for block in line.beside_twin(line.stages.through(blocks), n_threads, executor):
                with clock.lap("files and metrics"):
                    for sink in takers:
                        sink.add(block)
        found = (
            metrics.blocks(line.queues, line.queue, line.plans, line.replicas)
            | line.synchronous.block()
        )
        if line.twin is not None:
            found["flexibility"] = line.twin.block()
        if search is not None:
            with clock.stage("zooms"):
                found["zooms"] = write_event_windows(
                    new.folder, search, scenario.clock, line.columns, line.head, line.causes
                )
        matches = line.streams.matches()
        warnings = run_warnings(
            scenario.facility, scenario.clock, {n: s.pool for n, s in scenario.streams.items()},
            line.streams.library, line.streams.classes, matches, line.queues, line.plans,
            inputs.curves, found,
        )  # fmt: skip
        manifest = build_manifest(
            scenario, line.streams.library, line.columns, line.stages.metrics, inputs.hashes,
            engine, line.streams.classes, matches, warnings,
        ) | serving_entries(line.plans, inputs.curves)  # fmt: skip
        if asked is not None:  # the scenario of the manifest has its size already
            manifest["size"] = asked.model_dump(mode="json")
        write_json(new.folder / METRICS_FILE, found)
        write_json(new.folder / MANIFEST, {**manifest, "timing": clock.stages})
    return open_run(new.place)


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
        A scenario, its file, or the name of a shipped one such as ``"colocation_10mw"``.
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
        If the scenario or a value is wrong; the text names the key as it was given here.
    InputError
        If the profiles or the output folder are not usable.
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


def _with_values(
    scenario: Scenario | Path | str, values: Mapping[str, Any], names: Mapping[str, str]
) -> Scenario:
    if not isinstance(scenario, Scenario):
        return load_scenario(scenario, values=values, names=names)
    data = scenario.model_dump(mode="json")
    for key, value in values.items():
        data = with_value(data, key, value, partial(str, names.get(key, key)))
    return scenario_from_dict(data).beside(scenario.folder) if values else scenario


class _Line:
    """The parts of a run, joined: what `simulate` goes through."""

    def __init__(
        self,
        scenario: Scenario,
        inputs: Inputs,
        engine: Engine,
        policies: Mapping[str, Policy] | None,
        stages: Sequence[Stage],
        clock: Stopwatch,
        controller: Controller | None = None,
    ) -> None:
        self._scenario, self._clock = scenario, clock
        facility, horizon_ms = scenario.facility, scenario.horizon_ms
        self._idle_w = [facility.node_type_of(name).idle_power_w for name in facility.pools]
        run_clock = scenario.clock
        chosen = chosen_policies(facility.pools, policies)
        undisturbed = chosen_policies(facility.pools, deepcopy(policies))
        self.stages, self.columns = open_stages(scenario, stages, inputs.weather)
        self.head = {
            "scenario": scenario.name,
            "scenario_sha256": scenario.sha256(),
            "seed": scenario.seed,
        }
        flexibility = scenario.flexibility
        has_twin = controller is not None and flexibility is not None
        is_measured = has_twin or (flexibility is not None and flexibility.is_off)
        self.plans = plan_services(scenario, inputs=inputs, answering=has_twin)
        bends = has_twin and any(of.cap is not None for plan in self.plans for of in plan.services)
        undisturbed_plans = plan_services(scenario, inputs=inputs) if bends else []
        self.streams = open_streams(scenario, inputs)
        levels = levels_of(chosen.values(), controller)
        around = surroundings(scenario, self.streams, levels, inputs.signals)
        self.streams.settle(simulations(scenario, policies, around))
        around = replace(around, controller=controller, service_power_w=self._service_power_w)
        self.cluster = Cluster(
            facility.pools,
            horizon_ms,
            engine,
            chosen,
            run_clock.begin_ms,
            scenario.standing_nodes(),
            around,
            facility.slots,
        )
        self.twin: _Twin | None = None
        self._other: tuple[Cluster, Stages] | None = None
        if has_twin:
            self._other = (
                Cluster(
                    facility.pools, horizon_ms, engine, undisturbed, run_clock.begin_ms,
                    scenario.standing_nodes(), replace(around, controller=None),
                ),
                open_stages(scenario, stages, inputs.weather)[0],
            )  # fmt: skip
        if is_measured:
            self.twin = _Twin(scenario, inputs, self.streams.classes)
            self.columns = catalogue(self.columns, BASELINE_COLUMNS)
        library, used = self.streams.library, set[int]()
        if self.cluster.acts:
            kinds = [around.flexibility_of(k).kind for k in range(len(self.streams.classes))]
            nodes = list(class_nodes(scenario, self.streams))
            library, self._levels = with_levels(
                library, self.streams.classes, nodes, kinds, around.levels
            )
            used |= self._levels.profile_ids
        self._library = library
        self._serving = serving_segments(
            self.plans, inputs.curves, facility, scenario.seed, library
        )
        specs = scenario.replica_streams
        self.replicas = plan_replicas(specs, facility, run_clock, scenario.seed, inputs.replicas)
        self._serving = with_replicas(self._serving, self.replicas, specs, facility)
        self._twin_serving = self._serving
        if bends:
            undisturbed_serving = serving_segments(
                undisturbed_plans, inputs.curves, facility, scenario.seed, self._serving.library
            )
            self._twin_serving = with_replicas(undisturbed_serving, self.replicas, specs, facility)
        used |= {index for c in self.streams.classes for index in c.profile_ids}
        used |= self._serving.profile_ids | self._twin_serving.profile_ids
        library = self._twin_serving.library
        self.provenances = [library.entries[index].provenance for index in sorted(used)]
        used |= {
            index for index, entry in enumerate(library.entries) if entry.workload == FLAT_WORKLOAD
        }
        ac = None
        if facility.has_ac_power:
            library, ac = with_twins(
                facility, library, used, {**self._serving.twins, **self._twin_serving.twins}
            )
        self.model = PowerModel(
            facility,
            library,
            tuple(sorted(used)),
            scenario.resolution_ms,
            horizon_ms,
            ac=ac,
            absent=absent_nodes(scenario),
        )
        self.causes = Causes(
            Attribution(
                self.model,
                {name: spec.pool for name, spec in scenario.streams.items()},
                [of_class.stream for of_class in self.streams.classes],
                self._serving,
                self.plans,
                {
                    name: hourly_rates(
                        spec.calendar, scenario.clock, scenario.seed, "workload", name
                    )
                    for name, spec in scenario.streams.items()
                    if spec.replay is None
                    and spec.synchronous is None
                    and (spec.zeus is None or spec.zeus.groups is None)
                },
                self.replicas,
            ),
            self.stages,
        )
        self.queue = QueueMetrics(horizon_ms, bool(scenario.streams))
        with_jobs = {spec.pool for spec in scenario.streams.values()}
        self.queues = {p: QueueMetrics(horizon_ms, p in with_jobs) for p in facility.pools}
        self.synchronous = SynchronousMetrics(
            self.streams,
            [n for n, spec in scenario.streams.items() if spec.synchronous is not None],
        )
        self._queue_length = QueueLength()
        asked = {p: self.streams.asked_nodes(name) for p, name in enumerate(facility.pools)}
        self.transient = Transient(run_clock, {p: n for p, n in asked.items() if n > 0})

    def _draws_per_window(self, window_days: float | None = None) -> int:
        if window_days is not None:
            return max(1, round(window_days * MS_PER_DAY / DRAW_MS))
        per_draw = max(self.streams.jobs_per_day * DRAW_MS / MS_PER_DAY, 1.0)
        return max(1, min(MOST_DRAWS, int(JOBS_PER_WINDOW / per_draw)))

    def expected_mb(self, jobs_file: bool) -> float:
        """Estimate the size of the run folder [MB]."""
        n_days = self._scenario.horizon_ms / MS_PER_DAY
        return expected_mb(
            self._scenario.n_intervals,
            self._scenario.resolution_ms,
            sum(len(plan.services) for plan in self.plans),
            int(self.streams.jobs_per_day * n_days) if jobs_file else 0,
        )

    def jobs_file(self, path: Path) -> JobsFile | None:
        """Open the file of the jobs; None where there are no job streams."""
        scenario = self._scenario
        if not scenario.streams:
            return None
        return JobsFile(
            path,
            scenario.clock,
            scenario.pool_names(),
            list(scenario.streams),
            self.streams.classes,
            self.streams.library.ids,
            scenario.facility,
        )

    def windows(
        self, window_days: float | None, jobs_file: JobsFile | None, update: Update
    ) -> Iterator[tuple[Segments, Segments | None, int]]:
        """Yield what runs in each window, in the run and its twin, and the window's end [ms]."""
        scenario, n_jobs, begin_ms = self._scenario, 0, self._scenario.clock.begin_ms
        n_draws, from_ms = self._draws_per_window(window_days), begin_ms
        for drawn in self._timed_jobs(n_draws):
            draws_end_ms = min((from_ms // DRAW_MS + n_draws) * DRAW_MS, scenario.horizon_ms)
            for jobs, until_ms in self._held_at_once(drawn, from_ms, draws_end_ms):
                n_jobs += len(jobs)
                yield *self._window(jobs, from_ms, until_ms, jobs_file), until_ms
                from_ms = until_ms
                date = scenario.clock.wall.at(until_ms)
                done = (until_ms - begin_ms) / scenario.clock.simulated_ms
                update(done, f"{date:%Y-%m-%d}  {n_jobs:,} jobs")
            del drawn, jobs  # before the next are drawn: a gigawatt's fill some 50 MB

    def _held_at_once(
        self, jobs: JobTable, from_ms: int, until_ms: int
    ) -> Iterator[tuple[JobTable, int]]:
        """Cut the jobs of a window where they are too many; yields them, and until when [ms]."""
        n_parts = 1 if self.cluster.acts else max(1, -(-len(jobs) // JOBS_PER_WINDOW))
        part_ms = -(-(until_ms - from_ms) // (n_parts * MS_PER_H)) * MS_PER_H
        ends_ms = [*range(from_ms + part_ms, until_ms, part_ms), until_ms]
        cuts = [0, *np.searchsorted(jobs.submit_ms, ends_ms[:-1]).tolist(), len(jobs)]
        for (first, last), end_ms in zip(pairwise(cuts), ends_ms, strict=True):
            yield jobs.take(slice(first, last)), end_ms

    def _window(
        self, jobs: JobTable, from_ms: int, until_ms: int, jobs_file: JobsFile | None
    ) -> tuple[Segments, Segments | None]:
        """Return what runs in a window, in the run and its twin."""
        with self._clock.lap("schedule"):
            started = self.cluster.advance(jobs, until_ms)
            undisturbed = started
            if self._other is not None:
                undisturbed = self._other[0].advance(jobs, until_ms)
        with self._clock.lap("segments and jobs"):
            load, energy_j = self._lowered(started)
            self._count(jobs, started, until_ms)
            self.synchronous.add(started)
            class_id = started.jobs.class_id[started.of_energy]
            self.causes.keep(load.segments, class_id, energy_j)
            if jobs_file is not None:
                jobs_file.add(jobs, started, energy_j)
            baseline = None
            serving = self._serving.between(from_ms, until_ms)
            if self.twin is not None:
                self.twin.count(jobs, started, undisturbed)
            if self._other is not None:
                twin_load, _ = self._lowered(undisturbed)
                beside = self._twin_serving.between(from_ms, until_ms)
                baseline = concat([twin_load.segments, beside])
            return concat([load.segments, serving]), baseline

    def own(
        self, windows: Iterator[tuple[Segments, Segments | None, int]]
    ) -> Iterator[tuple[Segments, int]]:
        """Return the windows of the run; those of its twin wait for `beside_twin`."""
        if self._other is not None:
            windows, self._of_twin = tee(windows)
        return map(itemgetter(0, 2), windows)  # holds no window while the next one is made

    def beside_twin(
        self, blocks: Iterator[Block], n_threads: int | None, executor: Executor | None
    ) -> Iterator[Block]:
        """Yield the blocks, each with the power of the twin beside its own."""
        if self._other is None:
            for block in blocks:
                own = {} if self.twin is None else {BASELINE: block.columns[POWER]}
                yield Block(block.t0_ms, block.dt_ms, {**block.columns, **own})
            return
        windows = (
            (segments, until_ms) for _, segments, until_ms in self._of_twin if segments is not None
        )
        twin = self._other[1].through(self._power(windows, n_threads, executor))
        for block, other in zip(blocks, twin, strict=True):
            baseline = {BASELINE: other.columns[POWER]}
            yield replace(block, columns={**block.columns, **baseline})

    def _lowered(self, started: Schedule) -> tuple[JobLoad, Float64Array]:
        """Return what jobs draw, and the energy [J] of each job or stretch."""
        facility, library = self._scenario.facility, self._library
        if isinstance(started, ActedSchedule):
            load = lower_runs(started, library, self._levels, facility, self.streams.course)
        else:
            load = lower_jobs(started, library, facility, self.streams.course)
        return load, load.energy_j(library)

    def _service_power_w(self, time_ms: int) -> float:
        """Return the mean power of services over a minute beyond their nodes' idle power [W]."""
        horizon_ms = self._scenario.horizon_ms
        begin_ms = min(max(0, time_ms), horizon_ms - 1) // MS_PER_MIN * MS_PER_MIN
        end_ms = min(begin_ms + MS_PER_MIN, horizon_ms)
        total_w = 0.0
        for bank in self._serving.banks:
            power_w, n_nodes, _ = bank.means(self.model.tables, begin_ms, end_ms)
            total_w += power_w - n_nodes * self._idle_w[bank.pool_id]
        return total_w

    def blocks(
        self,
        windows: Iterator[tuple[Segments, int]],
        n_threads: int | None,
        executor: Executor | None,
    ) -> Iterator[Block]:
        """Yield blocks of device power with queue and services, as they become final."""
        for block in self._power(windows, n_threads, executor):
            queued = {"queued_jobs": self._queue_length.at(block.starts_ms)}
            services = service_columns(self.plans, block.t0_ms, block.dt_ms, len(block))
            replicas = replica_columns(self.replicas, block.t0_ms, block.dt_ms, len(block))
            columns = {**block.columns, **queued, **services, **replicas}
            yield Block(block.t0_ms, block.dt_ms, columns)

    def _power(
        self,
        windows: Iterator[tuple[Segments, int]],
        n_threads: int | None,
        executor: Executor | None,
    ) -> Iterator[Block]:
        """Yield blocks of device power."""
        for power in power_stream(
            self.model,
            windows,
            n_threads=n_threads,
            executor=executor,
            block_intervals=self._block_intervals,
        ):
            yield device_block(power, self.model)

    @property
    def _block_intervals(self) -> int | None:
        """Intervals of a block: a window of the default length, whatever the run's windows are.

        What the causes of events need is kept for a block. A transform sets its blocks itself.
        """
        if self.model.fft_lengths is not None:
            return None
        block_ms = max(self._draws_per_window() * DRAW_MS, MS_PER_DAY)
        return max(1, block_ms // self.model.dt_ms)

    def _timed_jobs(self, n_draws: int) -> Iterator[JobTable]:
        windows = self.streams.windows(n_draws)
        while True:
            with self._clock.lap("generate jobs"):
                jobs = next(windows, None)
            if jobs is None:
                return
            yield jobs
            del jobs

    def _count(self, jobs: JobTable, started: Schedule, until_ms: int) -> None:
        self.transient.see(started, until_ms)
        submit_ms, start_ms = jobs.submit_ms, started.start_ms[started.first]
        if isinstance(started, ActedSchedule):
            submit_ms = np.concatenate([submit_ms, started.requeued_ms])
            start_ms = np.concatenate([start_ms, started.restarted_ms])
        self._queue_length.add(submit_ms, start_ms)
        if until_ms <= 0:  # what came and went before the run is not held
            self._queue_length.at(np.array([until_ms - 1]))
        in_run = jobs.pool_id[jobs.submit_ms >= 0]
        self.queue.add(in_run.size, started)
        for pool_id, queue in enumerate(self.queues.values()):
            n_submitted = int(np.count_nonzero(in_run == pool_id))
            of_pool = started
            if len(self.queues) > 1:
                of_pool = started.take(started.jobs.pool_id == pool_id)
            queue.add(n_submitted, of_pool)


class _Twin:
    """Measures a run against the same one without its controller: itself where that is off."""

    def __init__(self, scenario: Scenario, inputs: Inputs, classes: Sequence[StreamClass]) -> None:
        assert scenario.flexibility is not None
        clock, events = scenario.clock, scenario.flexibility.events_in(scenario.clock)
        self.power = FlexibilityMetrics(
            events, Clock(clock.start_with_zone, clock.step_ms), inputs.signals
        )
        tolerated = [of_class.job_class.flexibility for of_class in classes]
        self._jobs = FlexibleJobs(tolerated, events, clock.wall, clock.horizon_ms)

    def count(self, jobs: JobTable, own: Schedule, twin: Schedule) -> None:
        """Take in a window: what was submitted, and what became of it in both."""
        self._jobs.submit(jobs)
        self._jobs.add(own, twin)

    def block(self) -> dict[str, Any]:
        """Return the `flexibility` block of the metrics."""
        found = self.power.block()
        jobs = zip(found["events"], self._jobs.performance(), self._jobs.drawn(), strict=True)
        for event, performance, drawn in jobs:
            event |= {"weighted_performance": performance, "widest_jobs": drawn}
        return {**found, "jobs": self._jobs.block()}


callable_module(__name__, run)
