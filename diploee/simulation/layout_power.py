"""Power by location: nodes allocated to loads, and power of racks, rows and halls.

`NodeAllocations` assigns nodes to the segments of a run's loads. `LayoutPower` divides
the segments over racks, rows and halls, and `diploee.power` then computes their power
like that of pools. ASSUMPTION: all nodes of a load draw the same fraction of its power
[J]. Racks of a load are then fully coherent, and the power of a real rack fluctuates at
least as much.
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
from diploee.power.segments import OF_SERVICES, Segments, owner_of_jobs, sorted_by_start
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
"""Values of all parts that are computed at once, which bounds the memory."""


@dataclass(frozen=True, eq=False)
class _Played:
    """Segments, and the slots of their owner that play them."""

    segments: Segments
    first: Int64Array
    n_slots: Int64Array

    def on_nodes(self, rows: HeldNodes) -> tuple[Int64Array, ...]:
        """Return the pairs of segments and node rows that overlap.

        Each pair has the index of the segment, the index of the row in `rows`, the
        first node and the end of the node range, and the number of slots. The first
        nodes of an owner that plays a segment count as busy.
        """
        of, end = self.segments, self.first + self.n_slots
        order = np.argsort(rows.owner, kind="stable")
        owners = rows.owner[order]
        low, high = (
            np.searchsorted(owners, of.owner, side) for side in ("left", "right")
        )
        nth, k = repeated(high - low)
        k = order[k + low[nth]]
        from_ = np.maximum(self.first[nth], rows.into[k])
        until = np.minimum(end[nth], rows.into[k] + rows.n_slots[k])
        held = (rows.start_ms[k] <= of.start_ms[nth]) & (
            of.start_ms[nth] < rows.end_ms[k]
        )
        held &= (rows.pool_id[k] == of.pool_id[nth]) & (from_ < until)
        nth, k, from_, until = nth[held], k[held], from_[held], until[held]
        per_node = rows.n_slots[k] // rows.n_nodes[k]
        begin = rows.first[k] + (from_ - rows.into[k]) // per_node
        stop = rows.first[k] - (rows.into[k] - until) // per_node
        return nth, k, begin, stop, until - from_


class NodeAllocations:
    """Node allocations of each load of a pipeline, window by window.

    `sinks` take the allocations that ended in a window.
    """

    def __init__(self, line: Pipeline) -> None:
        self._line, scenario, self.transient = line, line.scenario, line.jobs.transient
        facility, layout = scenario.facility, scenario.facility.layout
        self.sinks: list[Callable[[HeldNodes], None]] = []
        by_rack = layout is not None and layout.placement == "rack"
        group = (layout.size("rack") if layout and by_rack else None) or GROUP
        self._pools = [
            PlacedPool(
                scenario.standing_nodes()[name],
                pool.n_nodes,
                scenario.clock.begin_ms,
                facility.node_type_of(name).n_gpus * (pool.allocate == "gpus"),
                group,
                by_rack,
            )
            for name, pool in facility.pools.items()
        ]
        self.absent = self.held
        services = [] if line.services is None else line.services.plans
        names = {
            id(service): name
            for plan, labels in zip(services, service_labels(services), strict=True)
            for service, name in zip(plan.services, labels, strict=True)
        }
        banks = dict[int, InstanceGroup]()
        for bank in (bank for load in line.loads for bank in load.banks):
            banks.setdefault(id(bank.of), bank)
        self.labels = [names.get(key) or bank.of.stream for key, bank in banks.items()]
        """Names of services and replicas, the owners of their nodes up to
        `OF_SERVICES`."""
        owners = range(OF_SERVICES - len(banks), OF_SERVICES)
        self._owner_of = dict(zip(banks, owners, strict=True))
        self._stretches = [
            (bank.pool_id, _allocation_intervals(bank, self._owner_of[key]))
            for key, bank in banks.items()
        ]
        self._started: Schedule | None = None
        self.played: list[_Played] = []
        self._given_back = HeldNodes.empty()
        line.jobs.sinks.append(self._keep)
        line.sinks.append(self._take)

    @property
    def held(self) -> HeldNodes:
        """Current node allocations, up to the latest known end of each."""
        return _join_allocations([pool.held for pool in self._pools])

    @property
    def rows(self) -> HeldNodes:
        """Node allocations of the last window."""
        return concat([self._given_back, self.held])

    def _keep(self, window: JobWindow) -> None:
        self._started = window.started

    def _take(self, parts: Sequence[Segments], begin_ms: int, end_ms: int) -> None:
        """Allocate nodes to loads that start in a window; keep its segments."""
        started, of_jobs = self._started, parts[0]
        assert started is not None
        jobs, (start_ms, ends_ms, n_slots, pool_id) = started.jobs, started.occupied()
        owner = owner_of_jobs(jobs.job_id, jobs.class_id)[started.of_energy]
        result = [(pool_id, SlotIntervals(start_ms, ends_ms, n_slots, owner))]
        none = np.zeros(len(of_jobs), dtype=np.int64)
        self.played = [_Played(of_jobs, none, of_jobs.n_nodes.astype(np.int64))]
        for load, segments in zip(self._line.loads[1:], parts[1:], strict=True):
            of_load = [
                self._bank_segments(bank, begin_ms, end_ms) for bank in load.banks
            ]
            if len(segments) != sum(
                len(of.segments) for of in of_load if of.n_slots.all()
            ):
                raise WorkloadError(
                    f"load {type(load).__name__}: which nodes it is on follows from "
                    "its banks, and not all of its segments are of banks with nodes; "
                    "give it as such banks, or leave out the nodes' file and "
                    "facility.layout"
                )
            self.played += of_load
        for pool, stretches in self._stretches:
            inside = (begin_ms <= stretches.start_ms) & (stretches.start_ms < end_ms)
            part = stretches.take(inside)
            result.append((np.full(len(part), pool), part))
        pools, new = (
            np.concatenate([k for k, _ in result]),
            concat([of for _, of in result]),
        )
        gone = []
        adjoin = self._line.jobs.cluster.acts or bool(self._stretches)
        for k, pool_nodes in enumerate(self._pools):
            inside = (pools == k) & (new.end_ms > new.start_ms)
            own = new if inside.all() else new.take(inside)
            gone.append(pool_nodes.place(sorted_by_start(own), adjoin))
        self._given_back = _join_allocations(gone)
        for sink in self.sinks:
            sink(self._given_back)

    def remaining(self) -> HeldNodes:
        """Return allocations of unfinished jobs, and of all services and replicas."""
        rows = self.held
        of_jobs = (rows.owner >= 0) & (rows.owner < OF_SERVICES - len(self.labels))
        result = [rows.take(of_jobs)]
        for bank in (bank for load in self._line.loads for bank in load.banks):
            n_nodes = bank.n_nodes
            first = np.zeros_like(n_nodes) if bank.first is None else bank.first
            (new,) = np.nonzero(
                np.diff(first, prepend=-1) | np.diff(n_nodes, prepend=-1)
            )
            edges_ms = np.append(bank.edges_ms[new], bank.edges_ms[-1])
            pool, owner = (
                np.full(new.size, k)
                for k in (bank.pool_id, self._owner_of[id(bank.of)])
            )
            spans = Segments(
                start_ms=edges_ms[:-1],
                end_ms=edges_ms[1:],
                pool_id=pool.astype(np.int16),
                n_nodes=n_nodes[new].astype(np.int32),
                profile_id=np.zeros(new.size, np.int32),
                offset_ms=0 * new,
                weight=np.zeros(new.size),
                owner=owner,
            )
            of_slots = (x[new].astype(np.int64) for x in (first, n_nodes))
            played = _Played(spans, *of_slots)
            nth, _, begin, stop, n_slots = played.on_nodes(rows)
            start_ms, end_ms, owner = spans.start_ms[nth], spans.end_ms[nth], owner[nth]
            result.append(
                HeldNodes(
                    start_ms,
                    end_ms,
                    owner,
                    begin,
                    stop - begin,
                    n_slots,
                    0 * nth,
                    pool[nth],
                )
            )
        return concat(result)

    def _bank_segments(
        self, bank: InstanceGroup, begin_ms: int, end_ms: int
    ) -> _Played:
        """Return the segments that an instance group plays in a window."""
        segments = bank.segments(begin_ms, end_ms)
        piece = np.searchsorted(bank.edges_ms, segments.start_ms)
        first = (
            np.zeros(len(segments), np.int64)
            if bank.first is None
            else bank.first[piece]
        )
        n_playing = np.abs(bank.weight) if bank.is_flat else bank.n_nodes
        owner = np.full(len(segments), self._owner_of[id(bank.of)])
        of_slots = (x.astype(np.int64) for x in (first, n_playing[piece]))
        return _Played(replace(segments, owner=owner), *of_slots)


def _join_allocations(of_pools: Sequence[HeldNodes]) -> HeldNodes:
    result = (
        replace(of, pool_id=np.full(len(of), k)) if k else of
        for k, of in enumerate(of_pools)
    )
    return concat(list(result))


def _allocation_intervals(bank: InstanceGroup, owner: int) -> SlotIntervals:
    """Return the allocation intervals of a service or of replicas.

    They cover the reserved nodes, or the maximum number of busy nodes.
    """
    held = getattr(bank.of, "reserved", None)
    if held is None:
        held = np.full(bank.n_nodes.size, bank.n_nodes.max(initial=0))
    first = np.flatnonzero(np.diff(held, prepend=-1))
    edges_ms = np.append(bank.edges_ms[first], bank.edges_ms[-1])
    return SlotIntervals(
        edges_ms[:-1], edges_ms[1:], held[first], np.full(first.size, owner)
    )


class LayoutPower:
    """Power of some or all racks, rows or halls of a site."""

    def __init__(
        self,
        places: NodeAllocations,
        model: PowerModel,
        level: Level,
        only: int | None = None,
        dt_ms: int | None = None,
    ) -> None:
        facility, layout = model.facility, model.facility.layout
        self._places, self._size = places, _nodes_per_unit(facility, level)
        pool_id, n_nodes = node_groups(facility.pools, self._size)
        self._first = np.searchsorted(pool_id, np.arange(len(facility.pools)))
        unit = np.arange(pool_id.size)
        number = unit
        if level == "hall" and layout and layout.rows_per_hall:
            number = unit // layout.rows_per_hall
        chosen = unit if only is None else np.flatnonzero(number == only)
        if not chosen.size:
            last = f"{level}:{int(number[-1])}"
            raise InputError(f"no {level}:{only}; the site has {level}:0 to {last}")
        self._index = np.full(unit.size, -1)
        self._index[chosen] = np.arange(chosen.size)
        self.pool_id, self.n_nodes, number = (
            pool_id[chosen],
            n_nodes[chosen],
            number[chosen],
        )
        self._starts = np.flatnonzero(np.diff(number, prepend=-1))
        self.names = [f"{level}:{k}" for k in number[self._starts].tolist()]
        ac = model.ac and replace(
            model.ac,
            nodes=tuple(model.ac.nodes[k] for k in self.pool_id.tolist()),
            slots=model.ac.slots[self.pool_id],
            ac_profile_id=model.ac.ac_profile_id[self.pool_id],
        )
        absent, gone = places.absent, Segments.empty()
        if model.absent is not None:  # of which the rows are, in the same order
            gone = replace(model.absent, owner=absent.owner)
        of_absent = _Played(
            gone, np.zeros(len(gone), np.int64), gone.n_nodes.astype(np.int64)
        )
        units = [f"{k}" for k in chosen.tolist()]
        self.model = replace(
            model,
            facility=_split_pools(facility, units, self.pool_id, self.n_nodes),
            dt_ms=dt_ms or model.dt_ms,
            method="direct",
            ac=ac,
            absent=self._divide([of_absent], absent) if len(gone) else None,
        )
        if self.model.dt_ms == model.dt_ms:
            self.model.__dict__["tables"] = model.tables  # the same, and large
        whole = np.add.reduceat(self.n_nodes, self._starts)
        self._facility = _split_pools(
            facility, self.names, self.pool_id[self._starts], whole
        )

    @property
    def block_intervals(self) -> int:
        """Number of intervals per computed block."""
        return max(VALUES_OF_BLOCK // self.pool_id.size, 1)

    def window(self) -> Segments:
        """Return the segments of the last window, divided over racks, rows or halls."""
        return self._divide(self._places.played, self._places.rows)

    def block(self, power: PowerBlock) -> Block:
        """Return the power columns of each rack or row; halls are sums of rows."""
        names = (
            "it_power_w",
            "busy_nodes",
            "mean_busy_nodes",
            "it_ac_power_w",
            "standing_nodes",
        )
        values: dict[str, Any] = {name: getattr(power, name) for name in names}
        for name in names:
            if values[name] is not None:
                values[name] = np.add.reduceat(values[name], self._starts)
        return device_block(replace(power, **values), self._facility)

    def _divide(self, played: Iterable[_Played], rows: HeldNodes) -> Segments:
        """Divide segments over the racks, rows or halls of their nodes."""
        return concat(
            [Segments.empty(), *(self._split_segments(each, rows) for each in played)]
        )

    def _split_segments(self, played: _Played, rows: HeldNodes) -> Segments:
        of, (nth, k, begin, stop, n_slots) = played.segments, played.on_nodes(rows)
        lowest = begin // self._size
        again, j = repeated((stop - 1) // self._size - lowest + 1)
        part = lowest[again] + j
        unit = self._index[self._first[rows.pool_id[k[again]]] + part]
        again, part, unit = (values[unit >= 0] for values in (again, part, unit))
        nth, k, begin, stop, n_slots = (
            x[again] for x in (nth, k, begin, stop, n_slots)
        )
        low, high = (
            np.maximum(begin, part * self._size),
            np.minimum(stop, (part + 1) * self._size),
        )
        slots = np.where(stop - begin == 1, n_slots, high - low)
        busy = slots
        if played.first.any() or (of.n_nodes != played.n_slots).any():
            busy_until = (
                rows.first[k] + played.first[nth] + of.n_nodes[nth] - rows.into[k]
            )
            busy = np.clip(busy_until, low, high) - low
        weight = of.weight[nth] * (slots / played.n_slots[nth])
        return replace(
            of.take(nth), pool_id=unit.astype(np.int16), n_nodes=busy, weight=weight
        )


PARTS_FILE = "parts.parquet"


class LayoutStatistics:
    """Accumulator of power statistics of racks, rows and halls.

    Power is that at the nodes' AC input if it is modelled, else that of the devices.
    Means cover the whole run, all other statistics exclude the warm-up.
    """

    def __init__(
        self, places: NodeAllocations, model: PowerModel, layout: Layout
    ) -> None:
        self._parts, self._transient = (
            LayoutPower(places, model, "rack"),
            places.transient,
        )
        pools, starts = list(model.facility.pools), np.arange(self._parts.pool_id.size)
        ratings = {"rack": layout.rack_rating_kw, "row": layout.row_rating_kw}
        self._levels: list[tuple[Level, Int64Array, LayoutMetrics]] = []
        self._tables: list[dict[str, Any]] = []
        for level in layout.levels():
            if level == "row":
                pool_id = self._parts.pool_id
                nth = starts - np.searchsorted(pool_id, pool_id)
                starts = np.flatnonzero(nth % (layout.racks_per_row or 1) == 0)
            elif level == "hall":
                starts = starts[:: layout.rows_per_hall]
            rating_kw = ratings.get(level)
            rating_w = None if rating_kw is None else rating_kw * W_PER_KW
            of_level = LayoutMetrics(starts.size, rating_w, model.dt_ms)
            self._levels.append((level, starts, of_level))
            n_nodes = np.add.reduceat(self._parts.n_nodes, starts)
            named = {"pool": [pools[k] for k in self._parts.pool_id[starts].tolist()]}
            if level == "hall":  # which may be of several
                named = {"pool": [None] * starts.size}
            head = {"level": [level] * starts.size, "part": np.arange(starts.size)}
            self._tables.append({**head, **named, "n_nodes": n_nodes})

    def watch(self, windows: Iterable[Window]) -> Iterator[Window]:
        """Yield the windows of a run, after adding each to the statistics."""
        sums = PowerSums(self._parts.model, block_intervals=self._parts.block_intervals)
        with ThreadPoolExecutor(default_threads()) as threads:
            for window in windows:
                for power in sums.advance((self._parts.window(), window[1]), threads):
                    self._add(power)
                yield window

    def _add(self, power: PowerBlock) -> None:
        left_out = max(self._transient.end_ms - power.t0_ms, 0) // power.dt_ms
        power_w = (
            power.it_power_w if power.it_ac_power_w is None else power.it_ac_power_w
        )
        for _, starts, of_level in self._levels:
            of_part_w = (
                np.add.reduceat(power_w, starts)
                if starts.size < len(power_w)
                else power_w
            )
            of_level.add(of_part_w, left_out)

    def write(self, path: Path) -> dict[str, Any]:
        """Write the statistics per rack, row and hall; return the `layout` metrics."""
        tables = [
            pa.table({**table, **of_level.columns()})
            for table, (_, _, of_level) in zip(self._tables, self._levels, strict=True)
        ]
        pq.write_table(
            pa.concat_tables(tables, promote_options="permissive"),
            path,
            compression="zstd",
        )
        return {level: of_level.block() for level, _, of_level in self._levels}


def _split_pools(
    facility: Facility, names: Sequence[str], pool_id: Int64Array, n_nodes: Int64Array
) -> Facility:
    """Return a copy of a facility with racks, rows or halls as its pools."""
    pools = list(facility.pools.values())
    parts = {
        name: pools[k].model_copy(update={"n_nodes": n, "phases": None})
        for name, k, n in zip(names, pool_id.tolist(), n_nodes.tolist(), strict=True)
    }
    return facility.model_copy(update={"pools": parts})


def _nodes_per_unit(facility: Facility, level: Level) -> int:
    """Return the nodes per rack or row; for a hall, those of each row."""
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
"""Maximum digits of the number of a rack, row or hall."""


@document_fields
class LayoutSpan(Choices):
    """Selection of racks, rows or halls, and of a time span of a run."""

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
        """Level and number, as in ``rack:17``; no number selects all of a level."""
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
    level, only = span.part
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
    line = Pipeline.open(site)
    places = NodeAllocations(line)
    parts = LayoutPower(places, line.model, level, only, step_ms)

    def windows() -> Iterator[Window]:
        for _, until_ms in line.windows(None, lambda *_: None):
            segments = parts.window()
            yield segments.take(segments.end_ms > begin_ms), until_ms
            if until_ms >= end_ms:
                return

    powers = power_stream(
        parts.model,
        windows(),
        span_ms=(begin_ms, end_ms),
        block_intervals=parts.block_intervals,
    )
    for power in powers:
        block = parts.block(power)
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
    place = out or run.folder.with_name(
        f"{run.folder.name}-{span.of.replace(':', '-')}.parquet"
    )
    if place.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out: '{place.name}' must end in .parquet or .csv")
    check_not_in_run(place, run.folder)
    tables = part_tables(run, site, span)
    with whole_file(place, force, inputs=run_files(run.folder)) as path:
        writer = None
        for table in tables:
            fields = (
                (f.name, pa.float32() if f.type == pa.float64() else f.type)
                for f in table.schema
            )
            table = table.cast(pa.schema(fields))
            if writer is None:
                made = csv.CSVWriter if place.suffix == ".csv" else pq.ParquetWriter
                writer = made(path, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
    return place
