"""Simulation pipeline: loads -> segments -> power -> stages -> blocks.

A run is computed window by window: loads yield the segments of a window, their power is
summed, and each finished block of power passes through the facility's stages. Memory is
limited by one window and the running jobs. `diploee.simulation.run` writes the blocks
to a run folder.

There are two time steps: `Scenario.step_ms` is the step of the computation, and
`Scenario.resolution_ms` that of the output, whose values are means over the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

import numpy as np

from diploee.base.boundary import import_object
from diploee.base.column_specs import Columns, ValueKind, catalogue, coarsen
from diploee.base.progress import Update
from diploee.base.tables import concat
from diploee.base.units import MS_PER_DAY, MS_PER_S
from diploee.facility.base import POWER, Block, Stages, concatenate_blocks
from diploee.facility.before_stores import BeforeStores, first_storage_index
from diploee.loads.base import Load, Loads, check_free_nodes, open_loads
from diploee.loads.jobs.load import JobsLoad, JobWindow
from diploee.loads.services.instance_groups import beyond_idle_w
from diploee.loads.services.load import ServicesLoad
from diploee.loads.services.service_plan import ServicePlan
from diploee.metrics.flexibility import BASELINE, BASELINE_COLUMNS
from diploee.metrics.spectral_bands import Readings
from diploee.power.blocks import (
    Method,
    PowerBlock,
    PowerModel,
    Window,
    device_block,
    power_stream,
)
from diploee.power.node_ac import with_ac_profiles
from diploee.power.segments import (
    ActiveSegments,
    Segments,
    absent_nodes,
    owner_class,
)
from diploee.profiles.flat import FLAT_WORKLOAD
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.extension_loads import load_kind
from diploee.scenario.models import Scenario
from diploee.simulation.prepared import PreparedSite, Sink

STEPS_OF_BLOCK = 1 << 16
"""Number of steps that the stages process at a time, if steps are finer than the
resolution."""


class LowerEnd:
    """The same run with its large jobs at the lower end of their power range.

    The run's power is changed by the difference of these jobs' power, and passes
    through the stages a second time.
    """

    def __init__(
        self, jobs: JobsLoad, site: PreparedSite, scenario: Scenario, stages: Stages
    ) -> None:
        self.sinks: Sequence[Sink] = ()  # receivers of the blocks
        self._lower_jobs, self._stages = jobs.at_end(scenario, site.inputs), stages
        self._states, self._end_ms = stages.start(), 0
        self._classes = [
            k
            for k, stream_class in enumerate(jobs.streams.classes)
            if scenario.streams[stream_class.stream]
            != site.scenario.streams[stream_class.stream]
        ]
        # Sign, power model and segments of the large jobs: those of the lower end are
        # added, those of the run are subtracted
        self._power_changes = [
            (
                sign,
                power_model(
                    site.scenario,
                    stream_class.library,
                    stream_class.profiles_of(self._classes),
                    ac_profiles={},
                    method="direct",
                ),
                ActiveSegments(),
            )
            for sign, stream_class in ((1, self._lower_jobs), (-1, jobs))
        ]
        jobs.sinks.append(self._add_jobs)

    def _add_jobs(self, window: JobWindow) -> None:
        """Add the large jobs of a window, of the run and of its lower end."""
        started, class_ids = window.started, owner_class(window.segments.owner)
        large = started.take(np.isin(started.jobs.class_id, self._classes))
        run_segments = window.segments.take(np.isin(class_ids, self._classes))
        segments_by_sign = self._lower_jobs.lower(large).segments, run_segments
        for (*_, active), segments in zip(
            self._power_changes, segments_by_sign, strict=True
        ):
            active.drop_before(self._end_ms)
            active.add(segments)

    def update(self, power: PowerBlock, block: Block) -> None:
        """Apply the stages to a block at the lower end, and pass it to the sinks.

        `power` and `block` are those of the run.
        """
        self._end_ms = power.end_ms
        for sign, model, active in self._power_changes:
            segments = active.within(power.t0_ms, power.end_ms)
            power = model.with_segments(power, segments, sign)
        columns = {**block.columns, **device_block(power, model.facility).columns}
        result, self._states = self._stages.apply(
            replace(block, columns=columns), self._states
        )
        for sink in self.sinks:
            sink.add(result)


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Pipeline of a site with open loads, from segments to blocks at the meter."""

    scenario: Scenario  # scenario at its final size
    jobs: JobsLoad  # load of the jobs, which determine the windows
    services: ServicesLoad | None  # load of the services, if any
    further: tuple[Load, ...]  # all other loads
    model: PowerModel  # power model that sums the loads' segments
    stages: Stages  # stages between the devices and the meter
    columns: Columns  # columns that its blocks may have
    is_measured: bool = False  # True if the baseline's power is a column, too
    # Pipeline of the same site without controller; None if it has no controller
    undisturbed: Pipeline | None = None
    lower_end: LowerEnd | None = None  # lower end of large jobs, if a watch needs it
    # Functions that receive each load's segments in a window, its start and end [ms]
    sinks: list[Callable[[Sequence[Segments], int, int], None]] = field(
        default_factory=list, init=False
    )
    # Time for which each profile was replayed, times weight [ms]
    _profile_ms: Counter[int] = field(default_factory=Counter, init=False)

    @classmethod
    def open(cls, site: PreparedSite) -> Pipeline:
        """Open the loads of a site; see `simulate` for errors."""
        scenario, inputs, controller = site.scenario, site.inputs, site.controller
        flexibility, policies = scenario.flexibility, site.options.policies
        has_control = controller is not None and flexibility is not None
        is_measured = has_control or (flexibility is not None and flexibility.is_off)
        initial_policies = deepcopy(policies)
        columns = site.columns
        loads = (*map(import_object, scenario.loads), *site.options.loads)
        jobs = JobsLoad(scenario, inputs, site.engine, policies, controller)
        services = uncontrolled_services = None
        opened: list[Load] = [jobs]
        if scenario.request_streams:
            services = uncontrolled_services = ServicesLoad(
                scenario, inputs, jobs.library, answering=has_control
            )
            opened.append(services)
        n_core_loads = len(opened)
        if scenario.replica_streams:
            loads = (load_kind("replica_streams").open, *loads)
        opened += open_loads(loads, scenario, inputs, opened[-1].library, columns)
        further, groups = (
            tuple(opened[n_core_loads:]),
            [bank for load in opened for bank in load.groups],
        )
        declared = {column.name for column in columns}
        columns = catalogue(
            columns,
            (c for load in further for c in load.columns if c.name not in declared),
        )
        if has_control and services is not None and services.responds_to_events:
            uncontrolled_services = ServicesLoad(scenario, inputs, opened[-1].library)
            opened.append(uncontrolled_services)
        library = opened[-1].library
        used = set[int]().union(*(load.profile_ids for load in opened))
        ac_profiles = {
            index: profile
            for load in opened
            for index, profile in load.ac_profiles.items()
        }
        model = power_model(scenario, library, used, ac_profiles=ac_profiles)
        idle_w = [
            scenario.facility.node_type_of(p).idle_power_w
            for p in scenario.facility.pools
        ]
        jobs.other_loads_w = lambda time_ms: beyond_idle_w(
            groups, model.tables, idle_w, time_ms, scenario.horizon_ms
        )
        if is_measured:
            columns = catalogue(columns, BASELINE_COLUMNS)
        pipeline = cls(
            scenario, jobs, services, further, model, site.stages, columns, is_measured
        )
        lower_scenario = site.watch.lower_end(scenario)
        if lower_scenario is not None:
            lower_end = LowerEnd(jobs, site, lower_scenario, site.stages)
            pipeline = replace(pipeline, lower_end=lower_end)
        if not has_control:
            return pipeline
        baseline = replace(
            pipeline,
            jobs=jobs.undisturbed(initial_policies),
            services=uncontrolled_services,
            is_measured=False,
            lower_end=None,
        )
        return replace(pipeline, undisturbed=baseline)

    def with_before_stores(self) -> Pipeline:
        """Return the pipeline with load columns upstream of storage."""
        stages, recorder = (
            list(self.stages),
            BeforeStores(self.scenario.facility.has_ac_power),
        )
        stages.insert(first_storage_index(stages), recorder)
        return replace(
            self,
            stages=Stages(stages),
            columns=catalogue(self.columns, recorder.columns),
        )

    @property
    def loads(self) -> tuple[Load, ...]:
        """All loads that draw power."""
        services = () if self.services is None else (self.services,)
        return (self.jobs, *services, *self.further)

    @property
    def plans(self) -> Sequence[ServicePlan]:
        """Service plans of each request stream."""
        return () if self.services is None else self.services.plans

    @property
    def readings(self) -> list[Readings]:
        """Meter properties of the profiles that the loads may replay."""
        loads = (*self.loads, *(self.undisturbed.loads if self.undisturbed else ()))
        used = sorted(set[int]().union(*(load.profile_ids for load in loads)))
        library = self.model.library
        return [
            Readings.from_provenance(library.entries[i].provenance, library.ids[i])
            for i in used
        ]

    @property
    def energy_j(self) -> dict[str, float]:
        """Energy of each profile in past windows, at its mean power [J], by id."""
        library, by_id = self.model.library, dict[str, float]()
        # Several services may have profiles with the same id
        for index, weighted_ms in self._profile_ms.items():
            energy_j = library[index].mean_power_w * weighted_ms / MS_PER_S
            by_id[library.ids[index]] = by_id.get(library.ids[index], 0.0) + energy_j
        return by_id

    @property
    def block_ms(self) -> int:
        """Duration of a block, equal to that of a window [ms].

        Data for the attribution of events is retained for this time.
        """
        return max(self.jobs.window_ms(), MS_PER_DAY)

    def windows(self, window_days: float | None, update: Update) -> Iterator[Window]:
        """Yield the segments that start in each window, and the window's end [ms]."""
        clock, jobs = self.scenario.clock, self.jobs
        loads, ends_ms = Loads(self.loads, self.model), jobs.edges(window_days)
        for begin_ms, end_ms in pairwise(chain([clock.begin_ms], ends_ms)):
            segments_by_load = loads.between(begin_ms, end_ms)
            segments = concat(segments_by_load)
            for sink in self.sinks:
                sink(segments_by_load, begin_ms, end_ms)
            del segments_by_load
            self._count_profile_time(segments)
            yield segments, end_ms
            fraction_done = (end_ms - clock.begin_ms) / clock.simulated_ms
            update(
                fraction_done,
                f"{clock.wall.at(end_ms):%Y-%m-%d}  {jobs.n_drawn:,} jobs",
            )

    def _count_profile_time(self, segments: Segments) -> None:
        """Add the time for which each profile is replayed in the run."""
        begin_ms, end_ms = np.clip(
            (segments.start_ms, segments.end_ms), 0, self.scenario.horizon_ms
        )
        weighted_ms = np.bincount(
            segments.profile_id, segments.weight * (end_ms - begin_ms)
        )
        self._profile_ms.update(
            {int(i): float(weighted_ms[i]) for i in np.flatnonzero(weighted_ms)}
        )

    def blocks(
        self, windows: Iterator[Window], n_threads: int | None
    ) -> Iterator[Block]:
        """Yield the run's blocks after all stages, as each becomes final."""
        baseline_blocks: Iterator[Block] = iter(())
        if self.undisturbed is not None:
            baseline_windows = self.undisturbed.windows(None, lambda *_: None)
            baseline_blocks = self.undisturbed.blocks(baseline_windows, n_threads)
        for block in self.stages.pass_blocks(self._device_blocks(windows, n_threads)):
            baseline_block = next(baseline_blocks) if self.undisturbed else block
            baseline_column = (
                {BASELINE: baseline_block.columns[POWER]} if self.is_measured else {}
            )
            yield Block(block.t0_ms, block.dt_ms, {**block.columns, **baseline_column})

    def averaged_blocks(
        self, blocks: Iterator[Block], at_step: Sequence[Sink] = ()
    ) -> Iterator[Block]:
        """Yield blocks at the output resolution, averaged by the kind of column.

        `at_step` receives the blocks at the step of the computation.
        """
        n_steps = self.scenario.resolution_ms // self.scenario.step_ms
        kinds = {column.name: column.kind for column in self.columns}
        remainder, averaged = list[Block](), list[Block]()
        for block in blocks:
            for sink in at_step:
                sink.add(block)
            if n_steps == 1:
                yield block
                continue
            joined = concatenate_blocks([*remainder, block])
            end_ms = joined.t0_ms + len(joined) // n_steps * n_steps * joined.dt_ms
            remainder = (
                [joined.part(end_ms, joined.end_ms)] if end_ms < joined.end_ms else []
            )
            if end_ms > joined.t0_ms:
                averaged.append(
                    self._average(joined.part(joined.t0_ms, end_ms), n_steps, kinds)
                )
            is_last = end_ms == self.scenario.horizon_ms
            if averaged and (is_last or end_ms - averaged[0].t0_ms >= self.block_ms):
                yield concatenate_blocks(averaged)
                averaged = []

    def _average(self, block: Block, n: int, kinds: Mapping[str, ValueKind]) -> Block:
        """Return a block averaged over `n` steps, by the kind of each column."""
        columns = {
            name: coarsen(values, n, kinds.get(name.partition(".")[0], "mean"))
            for name, values in block.columns.items()
        }
        result = Block(block.t0_ms, n * block.dt_ms, columns)
        if self.services is None:
            return result
        # Latency is missing in steps without requests, so it is not averaged.
        return replace(result, columns={**columns, **self.services.values(result)})

    def _device_blocks(
        self, windows: Iterator[Window], n_threads: int | None
    ) -> Iterator[Block]:
        """Yield blocks of device power with the columns of the loads."""
        n_steps, step_ms = (
            self.scenario.resolution_ms // self.scenario.step_ms,
            self.scenario.step_ms,
        )
        max_part_ms = (
            max(STEPS_OF_BLOCK // n_steps, 1) * n_steps * step_ms
            if n_steps > 1
            else self.scenario.horizon_ms
        )
        block_intervals = None  # a transform determines the block itself
        if self.model.fft_lengths is None:
            block_intervals = max(1, self.block_ms // self.model.dt_ms)
        loads = Loads(self.loads, self.model)
        for power in power_stream(
            self.model,
            windows,
            n_threads=n_threads,
            block_intervals=block_intervals,
        ):
            check_free_nodes(self.further, power, self.scenario)
            for begin_ms in range(power.t0_ms, power.end_ms, max_part_ms):
                part = power.part(begin_ms, min(begin_ms + max_part_ms, power.end_ms))
                block = device_block(part, self.model.facility)
                block = replace(block, columns=loads.values(block))
                if self.lower_end is not None:
                    self.lower_end.update(part, block)
                yield block
            del power, part, block  # frees memory before the next block


def power_model(
    scenario: Scenario,
    library: ProfileLibrary,
    profile_ids: Collection[int],
    *,
    ac_profiles: Mapping[int, PowerProfile] | None = None,
    step_ms: int | None = None,
    method: Method = "auto",
) -> PowerModel:
    """Return the power model for segments of library profiles or flat profiles.

    If `ac_profiles` is not None, the model also computes the nodes' AC power.
    `ac_profiles` has the ready-made AC profiles, by library index, for profiles that
    are sums over nodes.
    """
    facility, ac, entries = scenario.facility, None, enumerate(library.entries)
    flat = {i for i, entry in entries if entry.workload == FLAT_WORKLOAD}
    used = flat.union(profile_ids)
    if ac_profiles is not None and facility.has_ac_power:
        library, ac = with_ac_profiles(facility, library, used, ac_profiles)
    return PowerModel(
        facility,
        library,
        tuple(sorted(used)),
        step_ms or scenario.step_ms,
        scenario.horizon_ms,
        method,
        ac,
        absent_nodes(scenario),
    )
