"""Simulation pipeline: loads -> segments -> power -> stages -> blocks.

A run passes it window by window: loads yield the segments of a window, power sums them,
and each finished block of power passes the facility's stages. Memory is bounded by one
window and the running jobs. `diploee.simulation.run` writes the blocks to a run folder.

It has two time steps: `Scenario.step_ms` is the step of the computation, and
`Scenario.resolution_ms` that of the output, whose values are means over the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

import numpy as np

from diploee.base.column_specs import Columns, ValueKind, catalogue, coarsen
from diploee.base.progress import Update
from diploee.base.tables import concat
from diploee.base.units import MS_PER_DAY, MS_PER_S
from diploee.facility.base import POWER, Block, Stages, concatenate_blocks
from diploee.facility.before_stores import BeforeStores, first_storage_index
from diploee.loads.base import Load, Loads, open_loads, refuse_overfull
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
    class_of_owner,
)
from diploee.profiles.flat import FLAT_WORKLOAD
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.models import Scenario
from diploee.scenario.plugged import load_kind
from diploee.simulation.prepared import PreparedSite, Sink

STEPS_OF_BLOCK = 1 << 16
"""Steps that pass the stages at a time where they are finer than the resolution."""


class LowerEnd:
    """The same run at the lower end of the power of its large jobs.

    The difference of their power to the run is added to the run's power, which passes
    the stages a second time.
    """

    def __init__(
        self, jobs: JobsLoad, site: PreparedSite, scenario: Scenario, stages: Stages
    ) -> None:
        self.sinks: Sequence[Sink] = ()  # of its blocks
        self._lower, self._stages = jobs.at_end(scenario, site.inputs), stages
        self._states, self._end_ms = stages.start(), 0
        self._classes = [
            k
            for k, of in enumerate(jobs.streams.classes)
            if scenario.streams[of.stream] != site.scenario.streams[of.stream]
        ]
        # What its large jobs add, and what those of the run take off
        self._draws = [
            (
                sign,
                power_model(
                    site.scenario,
                    of.library,
                    of.profiles_of(self._classes),
                    ac_profiles={},
                    method="direct",
                ),
                ActiveSegments(),
            )
            for sign, of in ((1, self._lower), (-1, jobs))
        ]
        jobs.sinks.append(self._take)

    def _take(self, window: JobWindow) -> None:
        started, own = window.started, class_of_owner(window.segments.owner)
        large = started.take(np.isin(started.jobs.class_id, self._classes))
        of_run = window.segments.take(np.isin(own, self._classes))
        played = self._lower.lowered(large).segments, of_run
        for (*_, active), segments in zip(self._draws, played, strict=True):
            active.drop_before(self._end_ms)
            active.add(segments)

    def see(self, power: PowerBlock, block: Block) -> None:
        """Pass a block of the run with its power through the stages to the sinks."""
        self._end_ms = power.end_ms
        for sign, model, active in self._draws:
            segments = active.within(power.t0_ms, power.end_ms)
            power = model.with_segments(power, segments, sign)
        columns = {**block.columns, **device_block(power, model.facility).columns}
        passed, self._states = self._stages.apply(
            replace(block, columns=columns), self._states
        )
        for sink in self.sinks:
            sink.add(passed)


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Pipeline of a site with open loads, from segments to blocks at the meter."""

    scenario: Scenario  # the site, settled
    jobs: JobsLoad  # the jobs, which set the windows
    services: ServicesLoad | None  # the services, where there are any
    further: tuple[Load, ...]  # all else that draws power
    model: PowerModel  # sums the segments of the loads
    stages: Stages  # what power passes on its way to the meter
    columns: Columns  # what its blocks may hold
    # Whether its power without control is a column beside its own
    is_measured: bool = False
    # The same site under no controller; it is its own where none acts
    undisturbed: Pipeline | None = None
    lower_end: LowerEnd | None = None  # where a watch asks for it
    # Takers of what each load plays in a window, with its start and end [ms]
    sinks: list[Callable[[Sequence[Segments], int, int], None]] = field(
        default_factory=list, init=False
    )
    # Weighted time that each profile was played [ms]
    _played_ms: Counter[int] = field(default_factory=Counter, init=False)

    @classmethod
    def open(cls, site: PreparedSite) -> Pipeline:
        """Open the loads of a site; see `simulate` for errors."""
        scenario, inputs, controller = site.scenario, site.inputs, site.controller
        flexibility, policies = scenario.flexibility, site.options.policies
        answers = controller is not None and flexibility is not None
        is_measured = answers or (flexibility is not None and flexibility.is_off)
        untouched = deepcopy(policies)
        columns, loads = site.columns, site.options.loads
        jobs = JobsLoad(scenario, inputs, site.engine, policies, controller)
        services = plain = None
        opened: list[Load] = [jobs]
        if scenario.request_streams:
            services = plain = ServicesLoad(
                scenario, inputs, jobs.library, answering=answers
            )
            opened.append(services)
        n_own = len(opened)
        if scenario.replica_streams:
            loads = (load_kind("replica_streams").open, *loads)
        opened += open_loads(loads, scenario, inputs, opened[-1].library, columns)
        further, banks = (
            tuple(opened[n_own:]),
            [bank for load in opened for bank in load.banks],
        )
        declared = {column.name for column in columns}
        columns = catalogue(
            columns,
            (c for load in further for c in load.columns if c.name not in declared),
        )
        if answers and services is not None and services.bend:
            plain = ServicesLoad(scenario, inputs, opened[-1].library)
            opened.append(plain)
        library = opened[-1].library
        used = set[int]().union(*(load.profile_ids for load in opened))
        ac_profiles = {
            i: profile for load in opened for i, profile in load.ac_profiles.items()
        }
        model = power_model(scenario, library, used, ac_profiles=ac_profiles)
        idle_w = [
            scenario.facility.node_type_of(p).idle_power_w
            for p in scenario.facility.pools
        ]
        jobs.beside_w = lambda time_ms: beyond_idle_w(
            banks, model.tables, idle_w, time_ms, scenario.horizon_ms
        )
        if is_measured:
            columns = catalogue(columns, BASELINE_COLUMNS)
        pipeline = cls(
            scenario, jobs, services, further, model, site.stages, columns, is_measured
        )
        lower = site.watch.lower_end(scenario)
        if lower is not None:
            of_end = LowerEnd(jobs, site, lower, site.stages)
            pipeline = replace(pipeline, lower_end=of_end)
        if not answers:
            return pipeline
        twin = replace(
            pipeline,
            jobs=jobs.undisturbed(untouched),
            services=plain,
            is_measured=False,
            lower_end=None,
        )
        return replace(pipeline, undisturbed=twin)

    def with_before_stores(self) -> Pipeline:
        """Return the pipeline with load columns upstream of storage."""
        stages, kept = (
            list(self.stages),
            BeforeStores(self.scenario.facility.has_ac_power),
        )
        stages.insert(first_storage_index(stages), kept)
        return replace(
            self, stages=Stages(stages), columns=catalogue(self.columns, kept.columns)
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
        """Meter properties of the profiles that the loads may play."""
        loads = (*self.loads, *(self.undisturbed.loads if self.undisturbed else ()))
        used = sorted(set[int]().union(*(load.profile_ids for load in loads)))
        library = self.model.library
        return [
            Readings.of(library.entries[i].provenance, library.ids[i]) for i in used
        ]

    @property
    def energy_j(self) -> dict[str, float]:
        """Energy of each profile in past windows, at its mean power [J], by id."""
        library, result = self.model.library, dict[str, float]()
        # Services may have profiles of one id
        for i, weighted_ms in self._played_ms.items():
            energy_j = library[i].mean_power_w * weighted_ms / MS_PER_S
            result[library.ids[i]] = result.get(library.ids[i], 0.0) + energy_j
        return result

    @property
    def block_ms(self) -> int:
        """Duration of a block [ms], over which data for attribution is retained.

        Equals the duration of a window.
        """
        return max(self.jobs.window_ms(), MS_PER_DAY)

    def windows(self, window_days: float | None, update: Update) -> Iterator[Window]:
        """Yield the segments that start in each window, and the window's end [ms]."""
        clock, jobs = self.scenario.clock, self.jobs
        loads, ends_ms = Loads(self.loads, self.model), jobs.edges(window_days)
        for begin_ms, end_ms in pairwise(chain([clock.begin_ms], ends_ms)):
            parts = loads.between(begin_ms, end_ms)
            segments = concat(parts)
            for sink in self.sinks:
                sink(parts, begin_ms, end_ms)
            del parts
            self._count(segments)
            yield segments, end_ms
            done = (end_ms - clock.begin_ms) / clock.simulated_ms
            update(done, f"{clock.wall.at(end_ms):%Y-%m-%d}  {jobs.n_drawn:,} jobs")

    def _count(self, segments: Segments) -> None:
        """Add the time that each profile is played within the run."""
        begin_ms, end_ms = np.clip(
            (segments.start_ms, segments.end_ms), 0, self.scenario.horizon_ms
        )
        weighted_ms = np.bincount(
            segments.profile_id, segments.weight * (end_ms - begin_ms)
        )
        self._played_ms.update(
            {int(i): float(weighted_ms[i]) for i in np.flatnonzero(weighted_ms)}
        )

    def blocks(
        self, windows: Iterator[Window], n_threads: int | None
    ) -> Iterator[Block]:
        """Yield the run's blocks after all stages, as each becomes final."""
        beside: Iterator[Block] = iter(())
        if self.undisturbed is not None:
            others = self.undisturbed.windows(None, lambda *_: None)
            beside = self.undisturbed.blocks(others, n_threads)
        for block in self.stages.pass_blocks(self._device_blocks(windows, n_threads)):
            other = next(beside) if self.undisturbed else block
            baseline = {BASELINE: other.columns[POWER]} if self.is_measured else {}
            yield Block(block.t0_ms, block.dt_ms, {**block.columns, **baseline})

    def averaged_blocks(
        self, blocks: Iterator[Block], at_step: Sequence[Sink] = ()
    ) -> Iterator[Block]:
        """Yield blocks at the output resolution, averaged by the kind of column.

        `at_step` receives the blocks at the step of the computation.
        """
        n = self.scenario.resolution_ms // self.scenario.step_ms
        kinds = {column.name: column.kind for column in self.columns}
        held, averaged = list[Block](), list[Block]()
        for block in blocks:
            for sink in at_step:
                sink.add(block)
            if n == 1:
                yield block
                continue
            whole = concatenate_blocks([*held, block])
            end_ms = whole.t0_ms + len(whole) // n * n * whole.dt_ms
            held = [whole.part(end_ms, whole.end_ms)] if end_ms < whole.end_ms else []
            if end_ms > whole.t0_ms:
                averaged.append(
                    self._average(whole.part(whole.t0_ms, end_ms), n, kinds)
                )
            is_last = end_ms == self.scenario.horizon_ms
            if averaged and (is_last or end_ms - averaged[0].t0_ms >= self.block_ms):
                yield concatenate_blocks(averaged)
                averaged = []

    def _average(self, block: Block, n: int, kinds: Mapping[str, ValueKind]) -> Block:
        columns = {
            name: coarsen(values, n, kinds.get(name.partition(".")[0], "mean"))
            for name, values in block.columns.items()
        }
        result = Block(block.t0_ms, n * block.dt_ms, columns)
        if self.services is None:
            return result
        # Their latency is missing where nothing arrives: not a mean of steps.
        return replace(result, columns={**columns, **self.services.values(result)})

    def _device_blocks(
        self, windows: Iterator[Window], n_threads: int | None
    ) -> Iterator[Block]:
        """Yield blocks of device power with the columns of the loads."""
        n, step_ms = (
            self.scenario.resolution_ms // self.scenario.step_ms,
            self.scenario.step_ms,
        )
        most_ms = (
            max(STEPS_OF_BLOCK // n, 1) * n * step_ms
            if n > 1
            else self.scenario.horizon_ms
        )
        block_intervals = None  # a transform sets its blocks itself
        if self.model.fft_lengths is None:
            block_intervals = max(1, self.block_ms // self.model.dt_ms)
        loads = Loads(self.loads, self.model)
        for power in power_stream(
            self.model,
            windows,
            n_threads=n_threads,
            block_intervals=block_intervals,
        ):
            refuse_overfull(self.further, power, self.scenario)
            for begin_ms in range(power.t0_ms, power.end_ms, most_ms):
                part = power.part(begin_ms, min(begin_ms + most_ms, power.end_ms))
                block = device_block(part, self.model.facility)
                block = replace(block, columns=loads.values(block))
                if self.lower_end is not None:
                    self.lower_end.see(part, block)
                yield block
            del power, part, block  # before the next is waited for


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

    With `ac_profiles`, those of sums over nodes, it also computes the nodes' AC power.
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
