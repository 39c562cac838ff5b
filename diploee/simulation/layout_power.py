"""Power by location: nodes allocated to loads, and power of racks, rows and halls.

`NodeAllocations` assigns nodes to the segments of a run's loads. `LayoutPower` divides
the segments over racks, rows and halls, and `diploee.power` then computes their power
like that of pools.

Assumed (judgement): all nodes of a load draw the same power at each time. The power of
a real rack fluctuates at least as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from pydantic import Field

from diploee.base.errors import InputError, WorkloadError, did_you_mean, one_of, shown
from diploee.base.files import whole_file
from diploee.base.model import Choices, document_fields
from diploee.base.tables import Int64Array, arrow_numbers, concat, repeated
from diploee.base.units import MS_PER_S, W_PER_KW
from diploee.facility.base import Block
from diploee.loads.jobs.load import JobWindow
from diploee.loads.services.instance_groups import InstanceGroup
from diploee.loads.services.service_plan import service_labels
from diploee.metrics.layout_metrics import LayoutMetrics
from diploee.power.blocks import (
    PowerBlock,
    PowerModel,
    PowerSums,
    Window,
    default_threads,
    device_block,
    power_stream,
)
from diploee.power.segments import SERVICE_OWNER, Segments, job_owners, sorted_by_start
from diploee.runs.folder import check_not_in_run, run_files
from diploee.runs.parquet_files import timestamps
from diploee.scenario.layout import LEVELS, Layout, Level, node_groups
from diploee.scenario.models import Facility
from diploee.scenario.times import parse_step_ms
from diploee.schedule.placement import GROUP, HeldNodes, PlacedPool, SlotIntervals
from diploee.schedule.started import Schedule
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.prepared import PreparedSite

if TYPE_CHECKING:
    from diploee.runs.reader import RunFolder

VALUES_OF_BLOCK = 1 << 22
"""Number of power values of all racks in one block, to limit the memory used."""


@dataclass(frozen=True, eq=False)
class _PlacedSegments:
    """Segments of one load, with the slots of their owner that replay each of them."""

    segments: Segments
    first: Int64Array  # first slot of each segment among those of its owner
    n_slots: Int64Array  # number of slots of each segment

    def matched_to_nodes(self, held_nodes: HeldNodes) -> tuple[Int64Array, ...]:
        """Match segments with the nodes that replay them.

        Returns, for each match: index of the segment, index in `held_nodes`, first
        node, node after the last one, and number of slots. If only some slots of a row
        replay the segment, its first nodes count as busy.
        """
        segments, ends = self.segments, self.first + self.n_slots
        order = np.argsort(held_nodes.owner, kind="stable")
        owners = held_nodes.owner[order]
        low, high = (
            np.searchsorted(owners, segments.owner, side) for side in ("left", "right")
        )
        segment_row, held_row = repeated(high - low)
        held_row = order[held_row + low[segment_row]]
        first_slot = np.maximum(self.first[segment_row], held_nodes.into[held_row])
        end_slot = np.minimum(
            ends[segment_row], held_nodes.into[held_row] + held_nodes.n_slots[held_row]
        )
        is_match = (held_nodes.start_ms[held_row] <= segments.start_ms[segment_row]) & (
            segments.start_ms[segment_row] < held_nodes.end_ms[held_row]
        )
        is_match &= (held_nodes.pool_id[held_row] == segments.pool_id[segment_row]) & (
            first_slot < end_slot
        )
        segment_row, held_row, first_slot, end_slot = (
            segment_row[is_match],
            held_row[is_match],
            first_slot[is_match],
            end_slot[is_match],
        )
        per_node = held_nodes.n_slots[held_row] // held_nodes.n_nodes[held_row]
        first_node = (
            held_nodes.first[held_row]
            + (first_slot - held_nodes.into[held_row]) // per_node
        )
        end_node = (
            held_nodes.first[held_row]
            - (held_nodes.into[held_row] - end_slot) // per_node
        )
        return segment_row, held_row, first_node, end_node, end_slot - first_slot


class NodeAllocations:
    """Node allocations of each load of a pipeline, window by window.

    `sinks` receive the allocations that ended in a window.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, scenario, self.transient = (
            pipeline,
            pipeline.scenario,
            pipeline.jobs.transient,
        )
        facility, layout = scenario.facility, scenario.facility.layout
        self.sinks: list[Callable[[HeldNodes], None]] = []
        by_rack = layout is not None and layout.placement == "rack"
        group = (layout.size("rack") if layout and by_rack else None) or GROUP
        self._pools = [
            PlacedPool(
                scenario.installed_nodes()[name],
                pool.n_nodes,
                scenario.clock.begin_ms,
                facility.node_type_of(name).n_gpus * (pool.allocate == "gpus"),
                group,
                by_rack,
            )
            for name, pool in facility.pools.items()
        ]
        self.absent = self.allocated
        services = [] if pipeline.services is None else pipeline.services.plans
        names = {
            id(service): name
            for plan, labels in zip(services, service_labels(services), strict=True)
            for service, name in zip(plan.services, labels, strict=True)
        }
        groups = dict[int, InstanceGroup]()
        for instance_group in (
            instance_group for load in pipeline.loads for instance_group in load.groups
        ):
            groups.setdefault(id(instance_group.source), instance_group)
        self.labels = [
            names.get(key) or instance_group.source.stream
            for key, instance_group in groups.items()
        ]
        """Names of services and replicas; their owner numbers are the last ones before
        `SERVICE_OWNER`."""
        owners = range(SERVICE_OWNER - len(groups), SERVICE_OWNER)
        self._owner_by_source = dict(zip(groups, owners, strict=True))
        self._group_intervals = [
            (
                instance_group.pool_id,
                _allocation_intervals(instance_group, self._owner_by_source[key]),
            )
            for key, instance_group in groups.items()
        ]
        self._started: Schedule | None = None
        self.played: list[_PlacedSegments] = []
        self._released = HeldNodes.empty()
        pipeline.jobs.sinks.append(self._set_started)
        pipeline.sinks.append(self._allocate)

    @property
    def allocated(self) -> HeldNodes:
        """Current node allocations, up to the latest known end of each."""
        return _join_allocations([pool.allocated for pool in self._pools])

    @property
    def rows(self) -> HeldNodes:
        """Node allocations of the last window."""
        return concat([self._released, self.allocated])

    def _set_started(self, window: JobWindow) -> None:
        """Set the jobs that started in a window."""
        self._started = window.started

    def _allocate(
        self, segments_by_load: Sequence[Segments], begin_ms: int, end_ms: int
    ) -> None:
        """Allocate nodes to loads that start in a window; keep its segments."""
        started, job_segments = self._started, segments_by_load[0]
        assert started is not None
        jobs, (start_ms, ends_ms, n_slots, pool_id) = started.jobs, started.occupancy()
        owner = job_owners(jobs.job_id, jobs.class_id)[started.energy_rows]
        intervals = [(pool_id, SlotIntervals(start_ms, ends_ms, n_slots, owner))]
        zero = np.zeros(len(job_segments), dtype=np.int64)
        self.played = [
            _PlacedSegments(job_segments, zero, job_segments.n_nodes.astype(np.int64))
        ]
        for load, segments in zip(
            self._pipeline.loads[1:], segments_by_load[1:], strict=True
        ):
            load_segments = [
                self._group_segments(group, begin_ms, end_ms) for group in load.groups
            ]
            if len(segments) != sum(
                len(placed.segments) for placed in load_segments if placed.n_slots.all()
            ):
                raise WorkloadError(
                    f"load {type(load).__name__}: which nodes it is on follows from "
                    "its banks, and not all of its segments are of banks with nodes; "
                    "give it as such banks, or leave out the nodes' file and "
                    "facility.layout"
                )
            self.played += load_segments
        for pool, group_intervals in self._group_intervals:
            is_selected = (begin_ms <= group_intervals.start_ms) & (
                group_intervals.start_ms < end_ms
            )
            starting = group_intervals.take(is_selected)
            intervals.append((np.full(len(starting), pool), starting))
        pools, new = (
            np.concatenate([index for index, _ in intervals]),
            concat([placed for _, placed in intervals]),
        )
        released = []
        adjoin = self._pipeline.jobs.cluster.is_preemptive or bool(
            self._group_intervals
        )
        for index, pool_nodes in enumerate(self._pools):
            is_selected = (pools == index) & (new.end_ms > new.start_ms)
            pool_intervals = new if is_selected.all() else new.take(is_selected)
            released.append(pool_nodes.place(sorted_by_start(pool_intervals), adjoin))
        self._released = _join_allocations(released)
        for sink in self.sinks:
            sink(self._released)

    def remaining(self) -> HeldNodes:
        """Return allocations of unfinished jobs, and of all services and replicas."""
        rows = self.allocated
        is_job = (rows.owner >= 0) & (rows.owner < SERVICE_OWNER - len(self.labels))
        tables = [rows.take(is_job)]
        for group in (group for load in self._pipeline.loads for group in load.groups):
            n_nodes = group.n_nodes
            first = np.zeros_like(n_nodes) if group.first is None else group.first
            (change_rows,) = np.nonzero(
                np.diff(first, prepend=-1) | np.diff(n_nodes, prepend=-1)
            )
            edges_ms = np.append(group.edges_ms[change_rows], group.edges_ms[-1])
            pool, owner = (
                np.full(change_rows.size, k)
                for k in (group.pool_id, self._owner_by_source[id(group.source)])
            )
            spans = Segments(
                start_ms=edges_ms[:-1],
                end_ms=edges_ms[1:],
                pool_id=pool.astype(np.int16),
                n_nodes=n_nodes[change_rows].astype(np.int32),
                profile_id=np.zeros(change_rows.size, np.int32),
                offset_ms=0 * change_rows,
                weight=np.zeros(change_rows.size),
                owner=owner,
            )
            slots = (x[change_rows].astype(np.int64) for x in (first, n_nodes))
            placed = _PlacedSegments(spans, *slots)
            span_row, _, first_node, end_node, n_slots = placed.matched_to_nodes(rows)
            start_ms, end_ms, owner = (
                spans.start_ms[span_row],
                spans.end_ms[span_row],
                owner[span_row],
            )
            tables.append(
                HeldNodes(
                    start_ms,
                    end_ms,
                    owner,
                    first_node,
                    end_node - first_node,
                    n_slots,
                    0 * span_row,
                    pool[span_row],
                )
            )
        return concat(tables)

    def _group_segments(
        self, group: InstanceGroup, begin_ms: int, end_ms: int
    ) -> _PlacedSegments:
        """Return the segments that an instance group replays in a window."""
        segments = group.segments(begin_ms, end_ms)
        interval = np.searchsorted(group.edges_ms, segments.start_ms)
        first = (
            np.zeros(len(segments), np.int64)
            if group.first is None
            else group.first[interval]
        )
        n_replaying = np.abs(group.weight) if group.is_flat else group.n_nodes
        owner = np.full(len(segments), self._owner_by_source[id(group.source)])
        slots = (x.astype(np.int64) for x in (first, n_replaying[interval]))
        return _PlacedSegments(replace(segments, owner=owner), *slots)


def _join_allocations(by_pool: Sequence[HeldNodes]) -> HeldNodes:
    """Join the allocations of pools, and number them by pool."""
    tables = (
        replace(held, pool_id=np.full(len(held), k)) if k else held
        for k, held in enumerate(by_pool)
    )
    return concat(list(tables))


def _allocation_intervals(group: InstanceGroup, owner: int) -> SlotIntervals:
    """Return the allocation intervals of a service or of replicas.

    They cover the reserved nodes, or the maximum number of busy nodes.
    """
    n_nodes = getattr(group.source, "reserved", None)
    if n_nodes is None:
        n_nodes = np.full(group.n_nodes.size, group.n_nodes.max(initial=0))
    change_rows = np.flatnonzero(np.diff(n_nodes, prepend=-1))
    edges_ms = np.append(group.edges_ms[change_rows], group.edges_ms[-1])
    return SlotIntervals(
        edges_ms[:-1],
        edges_ms[1:],
        n_nodes[change_rows],
        np.full(change_rows.size, owner),
    )


class LayoutPower:
    """Power of some or all racks, rows or halls of a site."""

    def __init__(
        self,
        allocations: NodeAllocations,
        model: PowerModel,
        level: Level,
        only: int | None = None,
        dt_ms: int | None = None,
    ) -> None:
        facility, layout = model.facility, model.facility.layout
        self._allocations, self._size = allocations, _nodes_per_unit(facility, level)
        pool_id, n_nodes = node_groups(facility.pools, self._size)
        self._first = np.searchsorted(pool_id, np.arange(len(facility.pools)))
        unit = np.arange(pool_id.size)
        number = unit
        if level == "hall" and layout and layout.rows_per_hall:
            number = unit // layout.rows_per_hall
        selected = unit if only is None else np.flatnonzero(number == only)
        if not selected.size:
            last = f"{level}:{int(number[-1])}"
            raise InputError(f"no {level}:{only}; the site has {level}:0 to {last}")
        self._index = np.full(unit.size, -1)
        self._index[selected] = np.arange(selected.size)
        self.pool_id, self.n_nodes, number = (
            pool_id[selected],
            n_nodes[selected],
            number[selected],
        )
        self._starts = np.flatnonzero(np.diff(number, prepend=-1))
        self.names = [f"{level}:{k}" for k in number[self._starts].tolist()]
        ac = model.ac and replace(
            model.ac,
            nodes=tuple(model.ac.nodes[k] for k in self.pool_id.tolist()),
            slots=model.ac.slots[self.pool_id],
            ac_profile_id=model.ac.ac_profile_id[self.pool_id],
        )
        absent, absent_segments = allocations.absent, Segments.empty()
        if model.absent is not None:  # the rows of `absent`, in the same order
            absent_segments = replace(model.absent, owner=absent.owner)
        placed_absent = _PlacedSegments(
            absent_segments,
            np.zeros(len(absent_segments), np.int64),
            absent_segments.n_nodes.astype(np.int64),
        )
        units = [f"{k}" for k in selected.tolist()]
        self.model = replace(
            model,
            facility=_split_pools(facility, units, self.pool_id, self.n_nodes),
            dt_ms=dt_ms or model.dt_ms,
            method="direct",
            ac=ac,
            absent=self._divide([placed_absent], absent)
            if len(absent_segments)
            else None,
        )
        if self.model.dt_ms == model.dt_ms:
            self.model.__dict__["tables"] = (
                model.tables
            )  # equal tables, which are large
        n_nodes_by_name = np.add.reduceat(self.n_nodes, self._starts)
        self._facility = _split_pools(
            facility, self.names, self.pool_id[self._starts], n_nodes_by_name
        )

    @property
    def block_intervals(self) -> int:
        """Number of intervals per computed block."""
        return max(VALUES_OF_BLOCK // self.pool_id.size, 1)

    def window(self) -> Segments:
        """Return the segments of the last window, divided over racks, rows or halls."""
        return self._divide(self._allocations.played, self._allocations.rows)

    def block(self, power: PowerBlock) -> Block:
        """Return the power columns of each rack or row; halls are sums of rows."""
        names = (
            "it_power_w",
            "busy_nodes",
            "mean_busy_nodes",
            "it_ac_power_w",
            "installed_nodes",
        )
        values: dict[str, Any] = {name: getattr(power, name) for name in names}
        for name in names:
            if values[name] is not None:
                values[name] = np.add.reduceat(values[name], self._starts)
        return device_block(replace(power, **values), self._facility)

    def _divide(
        self, placed: Iterable[_PlacedSegments], held_nodes: HeldNodes
    ) -> Segments:
        """Divide segments over the racks, rows or halls of their nodes."""
        return concat(
            [
                Segments.empty(),
                *(self._split_segments(segments, held_nodes) for segments in placed),
            ]
        )

    def _split_segments(
        self, placed: _PlacedSegments, held_nodes: HeldNodes
    ) -> Segments:
        """Divide segments over the racks, rows or halls of their nodes."""
        segments, (segment_row, held_row, first_node, end_node, n_slots) = (
            placed.segments,
            placed.matched_to_nodes(held_nodes),
        )
        first_unit = first_node // self._size
        match_row, offset = repeated((end_node - 1) // self._size - first_unit + 1)
        unit_in_pool = first_unit[match_row] + offset
        unit = self._index[
            self._first[held_nodes.pool_id[held_row[match_row]]] + unit_in_pool
        ]
        match_row, unit_in_pool, unit = (
            values[unit >= 0] for values in (match_row, unit_in_pool, unit)
        )
        segment_row, held_row, first_node, end_node, n_slots = (
            x[match_row] for x in (segment_row, held_row, first_node, end_node, n_slots)
        )
        low, high = (
            np.maximum(first_node, unit_in_pool * self._size),
            np.minimum(end_node, (unit_in_pool + 1) * self._size),
        )
        slots = np.where(end_node - first_node == 1, n_slots, high - low)
        busy = slots
        if placed.first.any() or (segments.n_nodes != placed.n_slots).any():
            busy_until = (
                held_nodes.first[held_row]
                + placed.first[segment_row]
                + segments.n_nodes[segment_row]
                - held_nodes.into[held_row]
            )
            busy = np.clip(busy_until, low, high) - low
        weight = segments.weight[segment_row] * (slots / placed.n_slots[segment_row])
        return replace(
            segments.take(segment_row),
            pool_id=unit.astype(np.int16),
            n_nodes=busy,
            weight=weight,
        )


# Name of the file of statistics of racks, rows and halls
PARTS_FILE = "parts.parquet"


class LayoutStatistics:
    """Accumulator of power statistics of racks, rows and halls.

    Power is that at the nodes' AC input if it is modeled, else that of the devices.
    Means cover the whole run; all other statistics exclude the warm-up.
    """

    def __init__(
        self, allocations: NodeAllocations, model: PowerModel, layout: Layout
    ) -> None:
        self._rack_power, self._transient = (
            LayoutPower(allocations, model, "rack"),
            allocations.transient,
        )
        pools, starts = (
            list(model.facility.pools),
            np.arange(self._rack_power.pool_id.size),
        )
        ratings = {"rack": layout.rack_rating_kw, "row": layout.row_rating_kw}
        self._levels: list[tuple[Level, Int64Array, LayoutMetrics]] = []
        self._tables: list[dict[str, Any]] = []
        for level in layout.levels():
            if level == "row":
                pool_id = self._rack_power.pool_id
                index_in_pool = starts - np.searchsorted(pool_id, pool_id)
                starts = np.flatnonzero(
                    index_in_pool % (layout.racks_per_row or 1) == 0
                )
            elif level == "hall":
                starts = starts[:: layout.rows_per_hall]
            rating_kw = ratings.get(level)
            rating_w = None if rating_kw is None else rating_kw * W_PER_KW
            level_metrics = LayoutMetrics(starts.size, rating_w, model.dt_ms)
            self._levels.append((level, starts, level_metrics))
            n_nodes = np.add.reduceat(self._rack_power.n_nodes, starts)
            pool_column = {
                "pool": [pools[k] for k in self._rack_power.pool_id[starts].tolist()]
            }
            if level == "hall":  # a hall may have several pools
                pool_column = {"pool": [None] * starts.size}
            keys = {"level": [level] * starts.size, "part": np.arange(starts.size)}
            self._tables.append({**keys, **pool_column, "n_nodes": n_nodes})

    def watch(self, windows: Iterable[Window]) -> Iterator[Window]:
        """Yield the windows of a run, after adding each to the statistics."""
        sums = PowerSums(
            self._rack_power.model, block_intervals=self._rack_power.block_intervals
        )
        with ThreadPoolExecutor(default_threads()) as threads:
            for window in windows:
                for power in sums.advance(
                    (self._rack_power.window(), window[1]), threads
                ):
                    self._add(power)
                yield window

    def _add(self, power: PowerBlock) -> None:
        """Add a block of the power of racks."""
        n_transient = max(self._transient.end_ms - power.t0_ms, 0) // power.dt_ms
        power_w = (
            power.it_power_w if power.it_ac_power_w is None else power.it_ac_power_w
        )
        for _, starts, level_metrics in self._levels:
            unit_w = (
                np.add.reduceat(power_w, starts)
                if starts.size < len(power_w)
                else power_w
            )
            level_metrics.add(unit_w, n_transient)

    def write(self, path: Path) -> dict[str, Any]:
        """Write the statistics per rack, row and hall; return the `layout` metrics."""
        tables = [
            pa.table({**table, **level_metrics.columns()})
            for table, (_, _, level_metrics) in zip(
                self._tables, self._levels, strict=True
            )
        ]
        pq.write_table(
            pa.concat_tables(tables, promote_options="permissive"),
            path,
            compression="zstd",
        )
        return {
            level: level_metrics.block() for level, _, level_metrics in self._levels
        }


def _split_pools(
    facility: Facility, names: Sequence[str], pool_id: Int64Array, n_nodes: Int64Array
) -> Facility:
    """Return a copy of a facility with racks, rows or halls as its pools."""
    pools = list(facility.pools.values())
    units = {
        name: pools[k].model_copy(update={"n_nodes": n, "phases": None})
        for name, k, n in zip(names, pool_id.tolist(), n_nodes.tolist(), strict=True)
    }
    return facility.model_copy(update={"pools": units})


def _nodes_per_unit(facility: Facility, level: Level) -> int:
    """Return the nodes per rack or row; for halls, which are sums of rows, per row."""
    layout = facility.layout or Layout(chassis_per_rack=1)
    size = layout.size(level) if facility.layout or level == "node" else None
    if size is None:
        key = {"row": ".racks_per_row", "hall": ".rows_per_hall"}.get(level, "")
        key = f"facility.layout{key if facility.layout else ''}"
        raise InputError(
            f"the scenario has no {key}, so that no {level} is known; run it with that"
        )
    return size


MAX_DIGITS = 18
"""Maximum number of digits of the number of a rack, row or hall."""


@document_fields
class LayoutSpan(Choices):
    """Selection of racks, rows or halls, and of a period of a run."""

    of: str = Field(
        description=(
            "Part by number from 0, such as rack:17, or all parts of a level, such as "
            f"rack: {one_of(LEVELS)}."
        )
    )
    step: str | None = Field(
        default=None,
        description="Time step such as '0.1 s'; by default the run's resolution.",
    )
    first: datetime | None = Field(default=None, description="Start, local time.")
    until: datetime | None = Field(default=None, description="End, local time.")

    @property
    def part(self) -> tuple[Level, int | None]:
        """Level and number, as in ``rack:17``; number None means all of the level."""
        name, colon, number = self.of.partition(":")
        for level in LEVELS:
            if (
                name == level
                and colon == ":" * number.isdecimal()
                and len(number) <= MAX_DIGITS
            ):
                return level, int(number) if number else None
        raise InputError(
            f"--of: found {shown(self.of)}, expected {one_of(LEVELS)}, or one of them "
            f"by its number from 0, as rack:17{did_you_mean(name, LEVELS)}"
        )


def part_tables(
    run: RunFolder, site: PreparedSite, span: LayoutSpan
) -> Iterator[pa.Table]:
    """Yield tables of power and busy nodes of racks, rows or halls of a run.

    The site must be prepared from the run's scenario. Its loads are simulated again.
    """
    level, number = span.part
    scenario, clock = run.scenario, run.scenario.clock
    step_ms = parse_step_ms(span.step) if span.step else scenario.resolution_ms
    begin_ms = 0 if span.first is None else clock.wall.time_ms(span.first)
    end_ms = clock.horizon_ms if span.until is None else clock.wall.time_ms(span.until)
    if (
        not 0 <= begin_ms < end_ms <= clock.horizon_ms
        or begin_ms % step_ms
        or end_ms % step_ms
    ):
        raise InputError(
            f"{run.folder}: --from and --to must lie within "
            f"{run.series().period_text}, whole steps of {step_ms / MS_PER_S:g} s from "
            f"its start, found {span.first or 'the start'} to {span.until or 'the end'}"
        )
    _nodes_per_unit(scenario.facility, level)
    if dict(site.inputs.hashes) != run.manifest.get("input_files", {}):
        raise InputError(
            f"{run.folder}: files that the run read have changed since; run it again"
        )
    pipeline = Pipeline.open(site)
    allocations = NodeAllocations(pipeline)
    layout_power = LayoutPower(allocations, pipeline.model, level, number, step_ms)

    def windows() -> Iterator[Window]:
        """Yield the windows up to the end of the selected period."""
        for _, until_ms in pipeline.windows(None, lambda *_: None):
            segments = layout_power.window()
            yield segments.take(segments.end_ms > begin_ms), until_ms
            if until_ms >= end_ms:
                return

    powers = power_stream(
        layout_power.model,
        windows(),
        span_ms=(begin_ms, end_ms),
        block_intervals=layout_power.block_intervals,
    )
    for power in powers:
        block = layout_power.block(power)
        columns = {
            name: arrow_numbers(values)
            for name, values in block.columns.items()
            if not name.startswith(("facility_", "utilization."))
        }
        yield pa.table({"timestamp": timestamps(block.starts_ms, clock), **columns})


def write_parts(
    run: RunFolder,
    site: PreparedSite,
    span: LayoutSpan,
    out: Path | None = None,
    force: bool = False,
) -> Path:
    """Write the tables of `part_tables` to a Parquet or CSV file.

    Power is stored as float32. Returns the path.
    """
    out_path = out or run.folder.with_name(
        f"{run.folder.name}-{span.of.replace(':', '-')}.parquet"
    )
    if out_path.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out: '{out_path.name}' must end in .parquet or .csv")
    check_not_in_run(out_path, run.folder)
    tables = part_tables(run, site, span)
    with whole_file(out_path, force, inputs=run_files(run.folder)) as path:
        writer = None
        for table in tables:
            fields = (
                (f.name, pa.float32() if f.type == pa.float64() else f.type)
                for f in table.schema
            )
            table = table.cast(pa.schema(fields))
            if writer is None:
                writer_class = (
                    csv.CSVWriter if out_path.suffix == ".csv" else pq.ParquetWriter
                )
                writer = writer_class(path, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
    return out_path
