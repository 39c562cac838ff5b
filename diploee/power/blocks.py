"""Power of a run's devices, from segments to `PowerBlock`, in bounded memory.

`power_stream` splits a run into parts, and joins the parts to blocks whose length
depends on the profiles and the interval. `PowerModel` sums the segments that overlap a
part, independently of all other parts. The value of an interval does not depend on the
part that contains it, so that results are bit-identical for any windows and number of
threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal

import numpy as np

from diploee.base.column_specs import Column
from diploee.base.errors import Brief
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_S
from diploee.facility.base import POWER, REACTIVE, Block
from diploee.power.direct import EnergyTables, add_directly, direct_cost_s
from diploee.power.node_ac import NodeAc
from diploee.power.segments import ActiveSegments, Segments, node_occupancy, node_slots
from diploee.power.spectral import (
    Slices,
    Spectra,
    add_spectra,
    add_spectrally,
    fft_lengths,
    slice_codes,
    spectra_bytes,
    spectral_cost_s,
)
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerBoundary
from diploee.scenario.models import Facility

Method = Literal["auto", "direct", "spectral"]
"""Method to sum segments: directly, by spectra, or the cheaper one for each block."""

POWER_COLUMNS = (
    Column(
        "it_power_w",
        "W",
        "pool",
        "mean",
        PowerBoundary.DEVICES,
        "power of all nodes, including idle ones",
        "device",
        "device",
    ),
    Column(
        "facility_power_w",
        "W",
        "facility",
        "mean",
        PowerBoundary.DEVICES,
        "power of the facility",
    ),
    Column(
        "busy_nodes",
        "nodes",
        "pool",
        "instant",
        None,
        "nodes that run a job or a service",
    ),
    Column(
        "utilization", "1", "pool", "mean", None, "busy nodes over all nodes (Eq. 1)"
    ),
)
"""Power columns of every run; without a stage the facility's power is that of its
devices."""

AC_COLUMNS = (
    Column(
        "it_ac_power_w",
        "W",
        "pool",
        "mean",
        PowerBoundary.NODE_AC,
        "power of all nodes, including idle ones",
        "overhead",
        "node_overhead",
    ),
    Column(
        "facility_reactive_var",
        "var",
        "facility",
        "mean",
        PowerBoundary.NODE_AC,
        "reactive power of the facility, positive if drawn",
    ),
)
"""Further columns if the nodes' AC power is modeled, from which facility power
starts."""

PHASE_COLUMNS = (
    Column(
        "standing_nodes",
        "nodes",
        "pool",
        "mean",
        None,
        "installed nodes, if pools have phases; the base of utilization",
    ),
)
"""Further column if nodes are added during the run."""

BLOCK_INTERVALS = 1 << 18
"""Number of intervals of a block, if no transform sets it."""

MAX_SPECTRA_BYTES = 1 << 29
"""Memory for the transforms of profiles [bytes]; jobs with other profiles are added
directly."""


@dataclass(frozen=True, eq=False)
class PowerBlock(Brief):
    """Device power and occupancy over `B` intervals of `K` pools."""

    t0_ms: int  # start of the first interval [ms]
    dt_ms: int  # length of each [ms]
    # Mean device power of each pool over each interval [W], shape (K, B), with idle
    # nodes
    it_power_w: Float64Array
    # Busy nodes of each pool at the interval's start, shape (K, B); in a pool that
    # allocates GPUs, busy GPUs divided by the GPUs of a node
    busy_nodes: Int64Array | Float64Array
    # Busy nodes of each pool, mean over the interval, shape (K, B)
    mean_busy_nodes: Float64Array
    # Mean power of each pool's nodes at their AC input [W], shape (K, B), if modeled
    it_ac_power_w: Float64Array | None = None
    # Installed nodes of each pool, mean over the interval, shape (K, B); None if
    # constant
    installed_nodes: Float64Array | None = None

    @property
    def n_intervals(self) -> int:
        """Number of intervals, B."""
        return int(self.it_power_w.shape[1])

    @property
    def end_ms(self) -> int:
        """End of the last interval [ms]."""
        return self.t0_ms + self.n_intervals * self.dt_ms

    def part(self, begin_ms: int, end_ms: int) -> PowerBlock:
        """Return the intervals between two times, multiples of the interval."""
        first, last = ((t - self.t0_ms) // self.dt_ms for t in (begin_ms, end_ms))
        arrays: dict[str, Any] = {
            name: values[:, first:last]
            for name, values in vars(self).items()
            if isinstance(values, np.ndarray)
        }
        return replace(self, t0_ms=begin_ms, **arrays)

    @property
    def device_power_w(self) -> Float64Array:
        """Device power of all pools [W], shape (B,)."""
        total_w: Float64Array = self.it_power_w.sum(axis=0)
        return total_w

    def utilization(
        self, facility: Facility, pool_id: int | None = None
    ) -> Float64Array:
        """Return busy nodes divided by installed nodes (Eq. 1), of a pool or of all.

        The result is 0 while no nodes are installed.
        """
        pools = slice(None) if pool_id is None else slice(pool_id, pool_id + 1)
        busy: Float64Array = self.mean_busy_nodes[pools].sum(axis=0)
        if self.installed_nodes is None:
            n_nodes = sum(pool.n_nodes for pool in list(facility.pools.values())[pools])
            return busy / float(n_nodes)
        installed = self.installed_nodes[pools].sum(axis=0)
        fraction: Float64Array = busy / np.maximum(installed, np.finfo(float).tiny)
        return fraction

    @property
    def starts_ms(self) -> Int64Array:
        """Start of each interval [ms], shape (B,)."""
        return self.t0_ms + np.arange(self.n_intervals, dtype=np.int64) * self.dt_ms


def join_blocks(blocks: Sequence[PowerBlock]) -> PowerBlock:
    """Join adjacent blocks into one block."""
    if len(blocks) == 1:
        return blocks[0]
    arrays: dict[str, Any] = {
        field.name: np.concatenate(
            [getattr(block, field.name) for block in blocks], axis=1
        )
        for field in fields(PowerBlock)[2:]
        if getattr(blocks[0], field.name) is not None
    }
    return replace(blocks[0], **arrays)


@dataclass(frozen=True)
class PowerModel:
    """Data that every block of a run needs, in addition to its segments.

    The model may be pickled and sent to a worker.
    """

    facility: Facility  # pools and the idle power of their nodes
    library: ProfileLibrary  # profile library of the segments
    profile_ids: tuple[int, ...]  # indices of profiles that segments may refer to
    dt_ms: int  # interval of the blocks [ms]
    horizon_ms: int  # end of the run [ms]
    # Method to add complete jobs at their profile's step; `auto` selects the cheaper
    # one for each block
    method: Method = "auto"
    # Profiles at the nodes' AC input, if modeled; the library contains these, too
    ac: NodeAc | None = None
    absent: Segments | None = None  # nodes not yet installed, see `absent_nodes`

    @cached_property
    def fft_lengths(self) -> tuple[int, int] | None:
        """History and length of the transforms [intervals].

        None if all segments are added directly.
        """
        return (
            fft_lengths(self.spectral_ids, self.library) if self.spectral_ids else None
        )

    @cached_property
    def spectral_ids(self) -> list[int]:
        """Indices of profiles whose complete jobs may be added as spectra.

        They are the longest profiles, as many as fit in memory.
        """
        entries = self.library.entries
        sampled = [
            index for index in self.profile_ids if entries[index].dt_ms == self.dt_ms
        ]
        if self.method != "auto" or not sampled:
            return sampled if self.method == "spectral" else []
        sampled.sort(key=lambda index: (-entries[index].duration_ms, index))
        return sampled[: self._max_spectra(sampled)]

    def _max_spectra(self, profile_ids: Sequence[int]) -> int:
        """Return the number of transforms that fit in memory."""
        bytes_per_spectrum = spectra_bytes(1, fft_lengths(profile_ids, self.library)[1])
        # AC profiles are stored in single precision
        bytes_per_spectrum += 0 if self.ac is None else bytes_per_spectrum // 2
        return MAX_SPECTRA_BYTES // bytes_per_spectrum

    @cached_property
    def spectral_slices(self) -> Slices:
        """Parts of profiles whose power is summed by Fourier transform.

        A part is replayed as a whole: the profile, its start and steady phase, its
        loop, or its ending.
        """
        ids = self.spectral_ids
        max_slices = self._max_spectra(ids) if self.method == "auto" and ids else None
        return Slices.build(ids, self.library, max_slices)

    @property
    def block_intervals(self) -> int:
        """Number of intervals per block, independent of the run's windows."""
        if self.fft_lengths is None:
            return BLOCK_INTERVALS
        history, length = self.fft_lengths
        return length - history

    @cached_property
    def tables(self) -> EnergyTables:
        """Energy tables of the profiles."""
        used = set(self.profile_ids)
        if self.ac is not None:
            used |= set(np.unique(self.ac.ac_profile_id[:, list(used)]).tolist())
        return EnergyTables.build(self.library, used, self.dt_ms)

    def at(self, interval_ms: int) -> PowerModel:
        """Return the model for another interval [ms].

        For the model's own interval, the result is the same model.
        """
        return self if interval_ms == self.dt_ms else replace(self, dt_ms=interval_ms)

    @cached_property
    def _spectra(self) -> Spectra:
        """Transforms of profile slices, filled on demand."""
        return {}

    @cached_property
    def _pool_columns(self) -> tuple[Int64Array, Float64Array, Float64Array]:
        """Nodes of each pool, and their idle power [W], each of shape (K, 1).

        Idle power is at the devices and at the AC input.
        """
        pools = self.facility.pools
        n_nodes = np.array([[pool.n_nodes] for pool in pools.values()])
        nodes = [self.facility.node_type_of(name) for name in pools]
        idle_w = np.array([[node.idle_power_w] for node in nodes])
        return (
            n_nodes,
            idle_w,
            np.array([[node.ac_power_w(node.idle_power_w)] for node in nodes]),
        )

    def installed_nodes(self, t0_ms: int, dt_ms: int, n_steps: int) -> Float64Array:
        """Return the installed nodes of each pool, as means over intervals.

        The shape is (K, B), or (K, 1) if the number is constant.
        """
        n_nodes = self._pool_columns[0]
        if self.absent is None:
            return n_nodes.astype(np.float64)
        return (
            n_nodes
            - node_occupancy(self.absent, n_nodes.size, t0_ms, dt_ms, n_steps)[1]
        )

    def _slice_kinds(self, segments: Segments) -> Int64Array:
        """Return each segment's slice kind if it is added as a spectrum, else -1."""
        kind = self.spectral_slices.slice_kinds(segments, self.horizon_ms)
        if self.ac is not None:  # the weight contains a flat profile's AC power
            kind[self.ac.flat[segments.profile_id]] = -1
        return kind

    def _segments_by_quantity(self, segments: Segments) -> list[Segments]:
        """Return the quantities to add: device power and, if modeled, AC power."""
        return (
            [segments] if self.ac is None else [segments, self.ac.ac_segments(segments)]
        )

    def _add_directly(
        self, segments: Segments, t0_ms: int, energies_j: Sequence[Float64Array]
    ) -> None:
        """Add the energy of segments to intervals, for each quantity."""
        for added, energy_j in zip(
            self._segments_by_quantity(segments), energies_j, strict=True
        ):
            add_directly(added, self.tables, t0_ms, energy_j)

    def with_segments(
        self, power: PowerBlock, segments: Segments, sign: int
    ) -> PowerBlock:
        """Return a block with the power of more segments added or subtracted."""
        shape, per_j = power.it_power_w.shape, sign * MS_PER_S / self.dt_ms
        energies_j = [
            np.zeros(shape) for _ in self._segments_by_quantity(Segments.empty())
        ]
        self._add_directly(segments, power.t0_ms, energies_j)
        it_power_w = power.it_power_w + energies_j[0] * per_j
        if power.it_ac_power_w is None:
            return replace(power, it_power_w=it_power_w)
        ac_w = power.it_ac_power_w + energies_j[1] * per_j
        return replace(power, it_power_w=it_power_w, it_ac_power_w=ac_w)

    def prepare(self, segments: Segments, t0_ms: int, n_steps: int) -> bool:
        """Return True if a block adds slices as spectra; compute their transforms.

        The choice depends on the block's own segments only, so that it is the same in
        every run.
        """
        _ = self.tables
        if self.fft_lengths is None:
            return False
        kind = self._slice_kinds(segments)
        complete, kind = segments.take(kind >= 0), kind[kind >= 0]
        if not kind.size:
            return False
        length, end_ms = self.fft_lengths[1], t0_ms + n_steps * self.dt_ms
        if self.method == "auto" and spectral_cost_s(
            complete, kind, length
        ) >= direct_cost_s(complete, t0_ms, end_ms, self.dt_ms):
            return False
        for quantity, precision in zip(
            self._segments_by_quantity(complete),
            (np.complex128, np.complex64),
            strict=False,
        ):
            first_rows = np.unique(slice_codes(quantity, kind), return_index=True)[1]
            ids = (
                x[first_rows].tolist()
                for x in (quantity.profile_id, complete.profile_id, kind)
            )
            missing = [
                (quantity_profile, *self.spectral_slices.at(profile, k))
                for quantity_profile, profile, k in zip(*ids, strict=True)
            ]
            add_spectra(self._spectra, missing, self.library, length, precision)
        return True

    def block(
        self, segments: Segments, t0_ms: int, n_steps: int, spectral: bool
    ) -> PowerBlock:
        """Return the block of `n_steps` intervals from `t0_ms`.

        `segments` are all segments that overlap it, sorted by start; `spectral` is the
        result of `prepare`.
        """
        n_nodes, *idle_node_w = self._pool_columns
        energies = [
            np.zeros((n_nodes.size, n_steps))
            for _ in self._segments_by_quantity(Segments.empty())
        ]
        direct = segments
        if spectral and self.fft_lengths is not None:
            kind = self._slice_kinds(segments)
            complete, direct = segments.take(kind >= 0), segments.take(kind < 0)
            add_spectrally(
                complete,
                kind[kind >= 0],
                self.spectral_slices,
                self._spectra,
                self.fft_lengths,
                self.dt_ms,
                t0_ms,
                energies,
                None if self.ac is None else self.ac.ac_profile_id,
            )
        self._add_directly(direct, t0_ms, energies)
        busy, mean_busy = node_occupancy(
            segments, n_nodes.size, t0_ms, self.dt_ms, n_steps
        )
        slots = node_slots(self.facility)[:, None]
        mean_busy /= slots
        busy_nodes = busy / slots if (slots > 1).any() else busy
        installed = self.installed_nodes(t0_ms, self.dt_ms, n_steps)
        for power_w, idle_w in zip(energies, idle_node_w, strict=False):
            power_w *= MS_PER_S / self.dt_ms  # in place, from energies
            power_w += (installed - mean_busy) * idle_w
        ac_w = energies[1] if self.ac is not None else None
        variable = None if self.absent is None else installed
        return PowerBlock(
            t0_ms, self.dt_ms, energies[0], busy_nodes, mean_busy, ac_w, variable
        )


def device_block(power: PowerBlock, facility: Facility) -> Block:
    """Return a block's columns of device power and occupancy, by pool if several."""
    installed = power.installed_nodes
    columns: dict[str, np.ndarray[Any, Any]] = {
        "it_power_w": power.device_power_w,
        POWER: power.device_power_w,
        "busy_nodes": power.busy_nodes.sum(axis=0),
        "utilization": power.utilization(facility),
    }
    ac_w = power.it_ac_power_w
    if ac_w is not None:
        columns["it_ac_power_w"] = columns[POWER] = ac_w.sum(axis=0)
        columns[REACTIVE] = np.full(power.n_intervals, facility.reactive_power_var)
    if installed is not None:
        columns["standing_nodes"] = installed.sum(axis=0)
        if ac_w is not None:
            node_var = np.array(
                [facility.node_reactive_var(name) for name in facility.pools]
            )
            columns[REACTIVE] = node_var @ installed
    if len(facility.pools) > 1:
        for k, name in enumerate(facility.pools):
            if ac_w is not None:
                columns[f"it_ac_power_w.{name}"] = ac_w[k]
            columns[f"it_power_w.{name}"] = power.it_power_w[k]
            columns[f"busy_nodes.{name}"] = power.busy_nodes[k]
            columns[f"utilization.{name}"] = power.utilization(facility, k)
            if installed is not None:
                columns[f"standing_nodes.{name}"] = installed[k]
    return Block(power.t0_ms, power.dt_ms, columns)


MAX_THREADS = 4
"""Default maximum number of parts that are computed in parallel; each takes some tens
of MB."""

Window = tuple[Segments, int]
"""Segments that start before a time and after the window before, and that time [ms]."""

Part = tuple[Segments, int, int, bool]
"""Arguments of `PowerModel.block`."""


def power_stream(
    model: PowerModel,
    windows: Iterable[Window],
    *,
    span_ms: tuple[int, int] | None = None,
    n_threads: int | None = None,
    block_intervals: int | None = None,
) -> Iterator[PowerBlock]:
    """Sum segments and idle nodes to device power, block by block.

    The time of the last window is the end of the run; `span_ms` sets another start and
    end, as multiples of the interval. Parts are computed by `n_threads` in parallel,
    while the next window is generated. By default there is one thread per core, at most
    four; with 0 threads, parts are computed one after another. `block_intervals` is the
    block length if no transform sets it.
    """
    sums = PowerSums(model, span_ms, block_intervals)
    n_workers = default_threads() if n_threads is None else max(n_threads, 1)
    # Lazily, so that no window is in memory while the next one is generated
    parts = chain.from_iterable(map(partial(sums.parts, n_workers=n_workers), windows))
    if n_threads == 0:
        yield from filter(None, map(sums.join, (model.block(*part) for part in parts)))
        return
    # Parts are independent, and their sums run outside the interpreter lock.
    with ThreadPoolExecutor(n_workers) as threads:
        tasks = (threads.submit(model.block, *part) for part in parts)
        # While one part is processed, the others are being computed.
        yield from filter(None, map(sums.join, _in_order(tasks, max(n_workers - 1, 1))))


class PowerSums:
    """Splitter of a run into independent parts, and joiner of parts into blocks."""

    def __init__(
        self,
        model: PowerModel,
        span_ms: tuple[int, int] | None = None,
        block_intervals: int | None = None,
    ) -> None:
        self._begin_ms, self._end_ms = span_ms or (0, model.horizon_ms)
        if self._begin_ms % model.dt_ms or self._end_ms % model.dt_ms:
            raise ValueError(
                f"span {self._begin_ms}-{self._end_ms} ms is no multiple of "
                f"{model.dt_ms} ms"
            )
        size = min(block_intervals or model.block_intervals, model.block_intervals)
        self._model, self._block_ms = model, size * model.dt_ms
        self._active = ActiveSegments()
        self._cut_ms = self._begin_ms
        self._parts: list[PowerBlock] = []

    def parts(self, window: Window, n_workers: int) -> Iterator[Part]:
        """Yield the arguments of `PowerModel.block` for each part of a window."""
        segments, until_ms = window
        self._active.add(segments)
        model = self._model
        complete_ms = min(until_ms // model.dt_ms * model.dt_ms, self._end_ms)
        while self._cut_ms < complete_ms:
            begin_ms, end_ms = self._cut_ms, self._block_end(self._cut_ms)
            n_parts = n_workers
            if model.fft_lengths is not None:
                if end_ms > complete_ms:
                    break  # a transform takes the whole block
                n_parts = 1
            self._cut_ms = end_ms = min(end_ms, complete_ms)
            for t0_ms, n_steps in _split_span(begin_ms, end_ms, model.dt_ms, n_parts):
                overlapping = self._active.within(t0_ms, t0_ms + n_steps * model.dt_ms)
                if model.fft_lengths is not None:
                    # A transform spreads rounding errors over its block, so segments
                    # that ended before it, which depend on the windows, are left out.
                    overlapping = overlapping.take(overlapping.end_ms > t0_ms)
                yield (
                    overlapping,
                    t0_ms,
                    n_steps,
                    model.prepare(overlapping, t0_ms, n_steps),
                )
        self._active.drop_before(self._cut_ms)

    def join(self, part: PowerBlock) -> PowerBlock | None:
        """Add the next part; return the block that it completes, if any."""
        self._parts.append(part)
        if part.end_ms < self._block_end(self._parts[0].t0_ms):
            return None
        block, self._parts = join_blocks(self._parts), []
        return block

    def advance(self, window: Window, threads: ThreadPoolExecutor) -> list[PowerBlock]:
        """Return the blocks that a window completes."""
        parts = list(self.parts(window, default_threads()))
        results = threads.map(lambda part: self._model.block(*part), parts)
        return [block for block in map(self.join, results) if block is not None]

    def _block_end(self, time_ms: int) -> int:
        """Return the end of the block that contains a time [ms]."""
        number = (time_ms - self._begin_ms) // self._block_ms
        return min(self._begin_ms + (number + 1) * self._block_ms, self._end_ms)


def default_threads() -> int:
    """Return the default number of parts computed in parallel."""
    return min(MAX_THREADS, os.cpu_count() or 1)


MIN_PART_INTERVALS = 1 << 10
"""Minimum number of intervals of a part; a smaller one has more overhead than
computation."""


def _split_span(
    begin_ms: int, end_ms: int, dt_ms: int, n_parts: int
) -> Iterator[tuple[int, int]]:
    """Split a period into parts for the workers.

    Yields the start [ms] and the number of intervals of each part.
    """
    n_steps = (end_ms - begin_ms) // dt_ms
    size = n_steps if n_parts == 1 else max(-(-n_steps // n_parts), MIN_PART_INTERVALS)
    for first in range(0, n_steps, size):
        yield begin_ms + first * dt_ms, min(size, n_steps - first)


def _in_order(
    submitted: Iterator[Future[PowerBlock]], n_ahead: int
) -> Iterator[PowerBlock]:
    """Yield results in order, with `n_ahead` more computations in progress."""
    waiting: deque[Future[PowerBlock]] = deque()
    try:
        for future in submitted:
            waiting.append(future)
            if len(waiting) > n_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
