"""The program in one line: inputs -> loads -> segments -> power -> stages -> sinks.

`simulate` takes a run through it a window of time at a time: the loads give the segments of a
window, power adds these up, and each finished block of power passes the facility's stages into the
sinks. Memory is that of one window and the running jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Protocol

from diploee.annexes import annex
from diploee.columns import Columns, catalogue
from diploee.facility import Block, Stage, Stages
from diploee.facility.base import POWER
from diploee.inputs import Inputs, load_inputs
from diploee.loads.base import Load
from diploee.loads.jobs.load import JobsLoad
from diploee.loads.services.banks import beyond_idle_w
from diploee.loads.services.load import ServicesLoad
from diploee.metrics import RunMetrics
from diploee.metrics.causes import causes_of
from diploee.metrics.flexibility import BASELINE, BASELINE_COLUMNS, flexibility_metrics
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
from diploee.power import EventWindowSearch, PowerModel, device_block, power_stream, with_twins
from diploee.power.blocks import Window
from diploee.power.occupancy import absent_nodes
from diploee.profiles import ProfileLibrary, Provenance
from diploee.profiles.flat import FLAT_WORKLOAD
from diploee.progress import Progress, Stopwatch, Update
from diploee.scenario import Scenario
from diploee.scenario.size import rated_w
from diploee.schedule import Engine, Policy
from diploee.schedule.surroundings import Controller
from diploee.steps import flexible_controller, open_stages, settle
from diploee.tables import concat
from diploee.units import MS_PER_DAY


class Sink(Protocol):
    """Takes the blocks of a run in the order of time, such as a file or a metric."""

    def add(self, block: Block) -> None:
        """Take in a block."""
        ...


OpenLoad = Callable[[Scenario, Inputs, ProfileLibrary], Load]


@dataclass(frozen=True, eq=False)
class Line:
    """A site whose loads are open, and its way from their segments to blocks at the meter.

    Parameters
    ----------
    scenario : Scenario
        The site, settled.
    jobs : JobsLoad
        The jobs, which set the windows.
    services : ServicesLoad
        The services.
    further : tuple of Load
        All else that draws power.
    model : PowerModel
        Sums the segments of the loads.
    stages : Stages
        What power passes on its way to the meter.
    columns : tuple of Column
        What its blocks may hold.
    is_measured : bool
        Whether its power without control is a column beside its own.
    undisturbed : Line, optional
        The same site under no controller; it is its own where none acts.
    """

    scenario: Scenario
    jobs: JobsLoad
    services: ServicesLoad
    further: tuple[Load, ...]
    model: PowerModel
    stages: Stages
    columns: Columns
    is_measured: bool = False
    undisturbed: Line | None = None

    @classmethod
    def open(
        cls,
        scenario: Scenario,
        inputs: Inputs,
        engine: Engine = "simpy",
        policies: Mapping[str, Policy] | None = None,
        stages: Sequence[Stage] = (),
        controller: Controller | None = None,
        loads: Sequence[OpenLoad] = (),
    ) -> Line:
        """Open the loads and stages of a settled site; arguments and errors as of `simulate`."""
        flexibility = scenario.flexibility
        answers = controller is not None and flexibility is not None
        is_measured = answers or (flexibility is not None and flexibility.is_off)
        untouched = deepcopy(policies)
        behind, columns = open_stages(scenario, stages, inputs.weather)
        jobs = JobsLoad(scenario, inputs, engine, policies, controller)
        services = ServicesLoad(scenario, inputs, jobs.library, answering=answers)
        opened: list[Load] = [jobs, services]
        if scenario.replica_streams:
            loads = (annex("ReplicasLoad"), *loads)
        for open_load in loads:
            opened.append(open_load(scenario, inputs, opened[-1].library))
        further, plain = tuple(opened[2:]), services
        declared = {column.name for column in columns}
        columns = catalogue(
            columns, (c for load in further for c in load.columns if c.name not in declared)
        )
        if answers and services.bend:
            plain = ServicesLoad(scenario, inputs, opened[-1].library)
            opened.append(plain)
        model = open_model(scenario, opened)
        idle_w = [scenario.facility.node_type_of(p).idle_power_w for p in scenario.facility.pools]
        banks = [bank for load in (services, *further) for bank in load.banks]
        jobs.beside_w = lambda time_ms: beyond_idle_w(
            banks, model.tables, idle_w, time_ms, scenario.horizon_ms
        )
        if is_measured:
            columns = catalogue(columns, BASELINE_COLUMNS)
        line = cls(scenario, jobs, services, further, model, behind, columns, is_measured)
        if not answers:
            return line
        twin = replace(
            line,
            jobs=jobs.undisturbed(untouched),
            services=plain,
            stages=open_stages(scenario, stages, inputs.weather)[0],
            is_measured=False,
        )
        return replace(line, undisturbed=twin)

    @property
    def loads(self) -> tuple[Load, ...]:
        """All that draws power."""
        return (self.jobs, self.services, *self.further)

    @property
    def readings(self) -> list[Provenance]:
        """Provenance of the profiles that the loads may play."""
        loads = (*self.loads, *(self.undisturbed.loads if self.undisturbed else ()))
        used = sorted(set[int]().union(*(load.profile_ids for load in loads)))
        return [self.model.library.entries[index].provenance for index in used]

    def windows(self, window_days: float | None, update: Update) -> Iterator[Window]:
        """Yield the segments that start in each window, and its end [ms]."""
        clock, jobs = self.scenario.clock, self.jobs
        ends_ms = jobs.edges(window_days)
        for begin_ms, end_ms in pairwise(chain([clock.begin_ms], ends_ms)):
            yield concat([load.between(begin_ms, end_ms) for load in self.loads]), end_ms
            done = (end_ms - clock.begin_ms) / clock.simulated_ms
            update(done, f"{clock.wall.at(end_ms):%Y-%m-%d}  {jobs.n_drawn:,} jobs")

    def blocks(
        self, windows: Iterator[Window], n_threads: int | None, executor: Executor | None
    ) -> Iterator[Block]:
        """Yield the blocks of a run behind all stages, as they become final."""
        beside: Iterator[Block] = iter(())
        if self.undisturbed is not None:
            others = self.undisturbed.windows(None, lambda *_: None)
            beside = self.undisturbed.blocks(others, n_threads, executor)
        for block in self.stages.through(self._device_blocks(windows, n_threads, executor)):
            other = next(beside) if self.undisturbed else block
            baseline = {BASELINE: other.columns[POWER]} if self.is_measured else {}
            yield Block(block.t0_ms, block.dt_ms, {**block.columns, **baseline})

    def _device_blocks(
        self, windows: Iterator[Window], n_threads: int | None, executor: Executor | None
    ) -> Iterator[Block]:
        """Yield blocks of device power with the columns of the loads."""
        block_intervals = None  # a transform sets its blocks itself
        if self.model.fft_lengths is None:
            # What the causes of events need is kept for a block: a window's default length.
            block_ms = max(self.jobs.window_ms(), MS_PER_DAY)
            block_intervals = max(1, block_ms // self.model.dt_ms)
        for power in power_stream(
            self.model,
            windows,
            n_threads=n_threads,
            executor=executor,
            block_intervals=block_intervals,
        ):
            block = device_block(power, self.model)
            values = (load.values(block) for load in self.loads)
            columns = dict(chain(block.columns.items(), *(of.items() for of in values)))
            yield Block(block.t0_ms, block.dt_ms, columns)


def open_model(scenario: Scenario, loads: Sequence[Load]) -> PowerModel:
    """Return what sums the segments of opened loads, of which the last has the whole library."""
    facility, library = scenario.facility, loads[-1].library
    used = set[int]().union(*(load.profile_ids for load in loads))
    used |= {i for i, entry in enumerate(library.entries) if entry.workload == FLAT_WORKLOAD}
    ac = None
    if facility.has_ac_power:
        twins = {i: profile for load in loads for i, profile in load.ac_twins.items()}
        library, ac = with_twins(facility, library, used, twins)
    return PowerModel(
        facility,
        library,
        tuple(sorted(used)),
        scenario.resolution_ms,
        scenario.horizon_ms,
        ac=ac,
        absent=absent_nodes(scenario),
    )


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
    loads: Sequence[OpenLoad] = (),
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
    loads : sequence of callable
        Open further loads of a scenario with its inputs, behind the profiles of a library.

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
    watch = Stopwatch(progress or Progress())
    numbered = (lambda: default_folder(scenario.name, scenario.sha256())) if out is None else None
    place = default_folder(scenario.name, scenario.sha256()) if out is None else out
    with new_run_folder(place, force, numbered) as new:
        with watch.stage("read inputs"):
            inputs = inputs or load_inputs(scenario, library)
            size, scenario = scenario.facility.size, settle(scenario, inputs, stages)
        with watch.stage("plan"):
            controller = controller or flexible_controller(scenario, inputs, stages)
            line = Line.open(scenario, inputs, engine, policies, stages, controller, loads)
            jobs, services, clock = line.jobs, line.services, scenario.clock
            jobs.watch = watch
            n_days = scenario.horizon_ms / MS_PER_DAY
            n_jobs = int(jobs.streams.jobs_per_day * n_days) if jobs_file else 0
            n_services = sum(len(plan.services) for plan in services.plans)
            new.needed_mb = expected_mb(scenario.n_intervals, clock.step_ms, n_services, n_jobs)
        for text in overfull_pools(scenario.facility, clock, jobs.streams):
            watch.progress.tell(text)
        with watch.stage("simulate") as update, ExitStack() as files:
            head = {
                "scenario": scenario.name,
                "scenario_sha256": scenario.sha256(),
                "seed": scenario.seed,
            }
            series = FacilityFile(new.folder / FACILITY_FILE, clock, line.columns, head)
            files.enter_context(series)
            causes = causes_of(scenario, line.model, jobs, services, line.further, line.stages)
            metrics = RunMetrics(
                scenario.facility,
                clock,
                rated_w(scenario, inputs.weather_year, stages),
                line.readings,
                line.stages,
                causes,
                jobs.transient,
            )
            jobs.sinks.append(causes.take)
            takers: list[Sink] = [series, metrics, *sinks]
            if jobs_file and scenario.streams:
                file = JobsFile(
                    new.folder / JOBS_FILE,
                    clock,
                    scenario.pool_names(),
                    list(scenario.streams),
                    jobs.streams.classes,
                    jobs.streams.library.ids,
                    scenario.facility,
                )
                files.callback(file.close)
                jobs.sinks.append(lambda w: file.add(w.submitted, w.started, w.energy_j))
            flexibility = None
            if line.is_measured:
                flexibility = flexibility_metrics(scenario, inputs.signals, jobs.streams.classes)
                jobs.sinks.append(flexibility.take)
                other_jobs = (line.undisturbed or line).jobs
                other_jobs.sinks.append(partial(flexibility.take, undisturbed=True))
                takers.append(flexibility)
            search, windows = None, line.windows(window_days, update)
            if event_windows:
                search = EventWindowSearch(line.model, line.stages, transient=jobs.transient)
                windows = search.watch(windows)
            for block in line.blocks(windows, n_threads, executor):
                with watch.lap("files and metrics"):
                    for taker in takers:
                        taker.add(block)
        found = metrics.blocks(line.loads)
        if flexibility is not None:
            found["flexibility"] = flexibility.block()
        if search is not None:
            with watch.stage("zooms"):
                found["zooms"] = write_event_windows(
                    new.folder, search, clock, line.columns, head, causes
                )
        matches = jobs.streams.matches()
        warnings = run_warnings(scenario, jobs, services.plans, inputs.curves, found)
        manifest = build_manifest(
            scenario,
            jobs.streams.library,
            line.columns,
            line.stages.metrics,
            inputs.hashes,
            engine,
            jobs.streams.classes,
            matches,
            warnings,
        ) | serving_entries(services.plans, inputs.curves)
        if size is not None:  # the scenario of the manifest has its size already
            manifest["size"] = size.model_dump(mode="json")
        write_json(new.folder / METRICS_FILE, found)
        write_json(new.folder / MANIFEST, {**manifest, "timing": watch.stages})
    return open_run(new.place)
