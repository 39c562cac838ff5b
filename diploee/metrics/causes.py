"""Causes of a run's worst events, attributed during the run.

When a block of power has a new extreme, all segments around it are still in memory. Its
power is attributed to their owners at once, and only the result is retained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.tables import Int64Array, concat
from diploee.base.units import MS_PER_S, W_PER_MW
from diploee.facility.base import POWER, Block, Stages
from diploee.metrics.attribution import Attribution, ComponentKind, Part, part
from diploee.metrics.load_changes import RAMP_MS, Extreme, Key, Span
from diploee.power.segments import Segments

if TYPE_CHECKING:
    from diploee.loads.jobs.load import JobWindow


# Names of the columns of device power and of AC input power
IT, AC = "it_power_w", "it_ac_power_w"

Means = dict[str, float]
"""Mean power by column [W]."""


class Causes:
    """Sink that attributes the extremes of a run to their causes."""

    def __init__(self, attribution: Attribution, stages: Stages) -> None:
        self._attribution = attribution
        # Columns of each stage with a role: the power that the stage adds
        self._stage_columns = {
            name: [column for column in stage.columns if column.role is not None]
            for name, stage in stages.by_name().items()
        }
        self._names = (
            POWER,
            IT,
            AC,
            *(c.name for columns in self._stage_columns.values() for c in columns),
        )
        self._segments: list[Segments] = []
        self._blocks: list[Block] = []
        self._causes: dict[Key, tuple[Extreme, dict[str, Any]]] = {}
        self._energy_j: Int64Array | None = None
        self._sums: Means = {}
        self._end_ms = 0

    def add_jobs(self, window: JobWindow) -> None:
        """Add the jobs of a window."""
        self._segments.append(window.segments)
        jobs, energy_rows = window.started.jobs, window.started.energy_rows
        # In whole joules, whose sum does not depend on the windows of the run
        energy_j = np.rint(window.energy_j).astype(np.int64)
        energy_by_stream = self._attribution.sum_by_stream(
            jobs.class_id[energy_rows], energy_j
        )
        self._energy_j = (
            energy_by_stream
            if self._energy_j is None
            else self._energy_j + energy_by_stream
        )

    def add(self, block: Block) -> None:
        """Add the next block of power."""
        names = (*self._names, "queued_jobs")
        columns = {name: block.columns[name] for name in names if name in block.columns}
        self._blocks.append(Block(block.t0_ms, block.dt_ms, columns))
        for name in self._power_columns(block):
            added = float(columns[name].sum()) * block.dt_ms
            self._sums[name] = self._sums.get(name, 0.0) + added
        self._end_ms = block.end_ms

    def by_load(self, block: Block) -> Block:
        """Return the next block with its power columns per load."""
        columns = self._attribution.columns(concat(self._segments), block)
        return Block(block.t0_ms, block.dt_ms, {**block.columns, **columns})

    def update(self, extremes: Mapping[Key, Extreme]) -> None:
        """Attribute the latest extremes, and drop data that is no longer needed."""
        for key, extreme in extremes.items():
            if key not in self._causes or self._causes[key][0] != extreme:
                cause = self.split(extreme, self._segments, self._blocks)
                self._causes[key] = extreme, cause
        oldest_ms = self._end_ms - 2 * max(RAMP_MS)  # the longest extreme
        self._blocks = [block for block in self._blocks if block.end_ms > oldest_ms]
        recent = (_ending_after(segments, oldest_ms) for segments in self._segments)
        self._segments = [segments for segments in recent if len(segments)]

    def split(
        self, extreme: Extreme, segments: Sequence[Segments], blocks: Sequence[Block]
    ) -> dict[str, Any]:
        """Return the cause of an extreme; for a peak, power [W] and components only.

        `segments` must include all segments of jobs that overlap the extreme. `blocks`
        have the power around it, sorted by time. Queued jobs are counted at its start
        and in its last interval.
        """
        begin_ms, end_ms = (extreme.before or extreme.after)[0], extreme.after[1]
        overlapping = (
            s.take((s.start_ms < end_ms) & (s.end_ms > begin_ms)) for s in segments
        )
        segments_near = concat([Segments.empty(), *overlapping])
        after = self._mean_powers(blocks, extreme.after)
        if extreme.before is None:
            parts = self._attribution.composition(
                segments_near, extreme.after, after[IT]
            )
            return {
                "power_w": after[POWER],
                "parts": _component_entries(parts + self._stage_components(after)),
            }
        before = self._mean_powers(blocks, extreme.before)
        change = {name: after[name] - before[name] for name in after}
        parts, calendar = self._attribution.change(
            segments_near, extreme.before, extreme.after
        )
        queued = _queued_at_ends(blocks, begin_ms, end_ms)
        return {
            "change_mw": change[POWER] / W_PER_MW,
            "parts": _component_entries(parts + self._stage_components(change)),
            **({"calendar": calendar} if calendar else {}),
            **({"queued_jobs": queued} if queued else {}),
        }

    def entry(self, cause: dict[str, Any]) -> dict[str, Any]:
        """Return a cause as reported in the metrics.

        The run must have ended, because a peak's cause needs the means over the run.
        """
        if "power_w" not in cause:
            return cause
        means_w = self._means_w
        components = zip(cause["parts"], means_w, strict=True)
        parts = [{**part, "mean_mw": mean_w / W_PER_MW} for part, mean_w in components]
        return {
            "change_mw": (cause["power_w"] - sum(means_w)) / W_PER_MW,
            "parts": parts,
        }

    def entries(self) -> dict[Key, dict[str, Any]]:
        """Return the causes of all extremes as reported in the metrics."""
        return {key: self.entry(cause) for key, (_, cause) in self._causes.items()}

    @cached_property
    def _means_w(self) -> list[float]:
        """Means over the run [W], in the order of a peak's components."""
        end_ms, empty = self._end_ms, np.empty(0, dtype=np.int64)
        energy_j = self._energy_j if self._energy_j is not None else empty
        jobs_w = (energy_j * (MS_PER_S / end_ms)).tolist()
        loads_w = [*jobs_w, *self._attribution.services_w((0, end_ms))]
        means = {name: sum_ms / end_ms for name, sum_ms in self._sums.items()}
        stages_w = [power_w for power_w, _ in self._stage_components(means)]
        return [*loads_w, means[IT] - sum(loads_w), *stages_w]

    def _stage_components(self, means: Means) -> list[Part]:
        """Return the power added by AC conversion and by each stage."""
        parts: list[Part] = []
        if AC in means:
            parts.append(part(means[AC] - means[IT], ComponentKind.NODE_OVERHEAD))
        for name, columns in self._stage_columns.items():
            if columns:
                parts.append(
                    part(
                        sum(c.sign * means[c.name] for c in columns),
                        ComponentKind.STAGE,
                        name,
                    )
                )
        return parts

    def _power_columns(self, block: Block) -> list[str]:
        """Return the names of the power columns in a block."""
        return [name for name in self._names if name in block.columns]

    def _mean_powers(self, blocks: Iterable[Block], span: Span) -> Means:
        """Return an interval's mean power of facility, devices and stages."""
        overlapping = [
            block.part(max(span[0], block.t0_ms), min(span[1], block.end_ms))
            for block in blocks
            if block.t0_ms < span[1] and block.end_ms > span[0]
        ]
        return {
            name: float(
                np.concatenate([block.columns[name] for block in overlapping]).mean()
            )
            for name in self._power_columns(overlapping[0])
        }


def _component_entries(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the metrics entries of components."""
    return [entry for _, entry in parts]


def _queued_at_ends(blocks: Iterable[Block], begin_ms: int, end_ms: int) -> list[int]:
    """Return the queued jobs at the start and in the last interval of an event.

    The result is empty if no jobs are queued.
    """
    n_queued = []
    for block in blocks:
        if "queued_jobs" in block.columns:
            for time_ms in (begin_ms, end_ms - block.dt_ms):
                if block.t0_ms <= time_ms < block.end_ms:
                    row = (time_ms - block.t0_ms) // block.dt_ms
                    n_queued.append(int(block.columns["queued_jobs"][row]))
    return n_queued if any(n_queued) else []


def _ending_after(segments: Segments, time_ms: int) -> Segments:
    """Return the segments that end after a time."""
    is_later = segments.end_ms > time_ms
    return segments if is_later.all() else segments.take(is_later)


def add_causes(grid: dict[str, Any], causes: Mapping[Key, dict[str, Any]]) -> None:
    """Add causes to their extremes in the `grid` block of the metrics."""
    for key, side, _ in grid_extremes(grid):
        if key in causes:
            side["cause"] = causes[key]


def grid_extremes(
    grid: Mapping[str, Any],
) -> Iterator[tuple[Key, dict[str, Any], str | None]]:
    """Yield key, entry and time of each extreme in the metrics' `grid` block."""
    yield ("peak", grid["resolution_s"], ""), grid["peak"], grid["peak"]["time"]
    changes = (grid.get("changes") or {}).get("windows", ())  # older runs have none
    for block, length, entries in (
        ("changes", "window_s", changes),
        ("ramps", "interval_s", grid["ramps"]["intervals"]),
    ):
        for entry in entries:
            for direction in ("up", "down"):
                yield (
                    (block, entry[length], direction),
                    entry[direction],
                    entry[direction]["time"],
                )
    for entry in grid["rolling_range"]["windows"]:
        yield ("rolling_range", entry["window_s"], ""), entry, entry["time"]
