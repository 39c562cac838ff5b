"""Conversion of service plans to power segments, by groups of instances.

An instance group of K instances replays one power sample, summed over its K instances,
each with its own fixed phase shift. At a request rate r between the rates of two
samples one of the two is selected at random, with a probability linear in r, and scaled
to the curve's mean power at r, so that fluctuations are as large as in the samples.

About every two minutes the position in the sample jumps at random, so that the length
of the sample does not show in the load, and the selection is repeated. After a jump or
a change of sample the sum continues at a position whose power has the same rank among
all positions of the new sample. All positions are thus equally frequent, and mean and
fluctuations are those of the sample.

A profile is built for each pair of rate and K that occurs. Above 256 instances several
K share a profile, scaled to the exact mean, so that the number of profiles grows with
the logarithm of the instances (assumed: sums over 256 and over 257 instances fluctuate
alike).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from diploee.base.column_specs import Columns
from diploee.base.errors import Brief, WorkloadError
from diploee.base.jit import njit
from diploee.base.rng import named_rng
from diploee.base.tables import BoolArray, Float64Array, Int32Array, Int64Array, concat
from diploee.base.units import MS_PER_MIN, MS_PER_S, PROFILE_STEP_MS
from diploee.facility.base import Block, Values
from diploee.loads.services.curves import PowerCurve, PowerSample
from diploee.loads.services.samples import PROVENANCE, repeating_samples
from diploee.loads.services.service_plan import PlannedService, ServicePlan
from diploee.power.direct import EnergyTables, energies_within, steady_energies_within
from diploee.power.node_ac import ac_profile_w
from diploee.power.segments import SERVICE_OWNER, Segments, sorted_by_start
from diploee.profiles.derived import capped_power_w, cpu_power_w
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.pools import NodeType

EXACT_INSTANCES = 256
"""Number of instances up to which every K has its own profile."""

JUMP_EVERY_S = 120.0
"""Mean time between two jumps of a group's position in its sample [s]."""

LIKE_LEVELS = 0.005
"""Largest change of rank in a jump, as a fraction of all positions of a sample."""

VALUES_AT_ONCE = 2**24
"""Number of values that are summed in one step, to limit the memory used."""

_INTERVALS_AT_ONCE = 2**16
"""Number of intervals whose energies are summed in one step, to limit memory."""

FLAT_MS = 1_000
"""Length of the profile of idle nodes [ms]."""


class InstanceGroupLoad:
    """Load of instance groups that replay shared profiles, planned for the whole run.

    Parameters
    ----------
    groups : sequence of InstanceGroup
        Groups of nodes that replay profiles.
    library : ProfileLibrary
        Profiles of the loads before, followed by those of `groups`.
    ac_profiles : mapping of int to PowerProfile, optional
        Profiles at the AC input of the nodes, if modeled, by the index of the profile
        that they belong to, for profiles that are sums over several nodes.
    """

    columns: Columns = ()

    def __init__(
        self,
        groups: Sequence[InstanceGroup],
        library: ProfileLibrary,
        ac_profiles: Mapping[int, PowerProfile] | None = None,
    ) -> None:
        self.groups, self.library = groups, library
        self.ac_profiles = ac_profiles or {}
        self.profile_ids = {
            i for group in groups for i in np.unique(group.profile_id).tolist()
        }

    @cached_property
    def segments(self) -> Segments:
        """All segments that reach into the run, sorted by start."""
        return self.between(None, None)

    def between(self, begin_ms: int | None, end_ms: int | None) -> Segments:
        """Return the segments that start within a period, sorted by start.

        A bound of None is open. Segments that end before the run are left out.
        """
        parts = [group.segments(begin_ms, end_ms) for group in self.groups]
        return sorted_by_start(concat(parts)) if parts else Segments.empty()

    def values(self, block: Block) -> Values:  # noqa: ARG002
        """Return the columns of the load over a block; none by default."""
        return {}

    def metrics(self, pool: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return the load's blocks of ``metrics.json``; none by default."""
        return {}


Integers = Int64Array | Int32Array


@dataclass(frozen=True, eq=False)
class InstanceGroup(Brief):
    """Nodes of one service that replay one profile at a time, interval by interval."""

    pool_id: int  # index of the nodes' pool
    edges_ms: Int64Array  # edges of the intervals [ms]; one value of the others each
    n_nodes: Integers  # nodes that count as busy
    # Factor on the profile's power; 0 if nothing is replayed
    weight: Float64Array | Int32Array
    profile_id: Int32Array  # index of the profile
    offset_ms: Integers  # position in the profile at the interval's start [ms]
    # Owner of the group, which explains events: a service plan, or replicas with
    # `stream`, `pool` and `mean_replicas(begin_ms, end_ms)`
    source: Any = None
    # Index of its first node among those of the source; 0 if absent
    first: Integers | None = None
    # True if `weight` is the number of nodes that replay; else `n_nodes` replay
    is_flat: bool = False

    def __post_init__(self) -> None:
        """Check the arrays' kinds of numbers, and their lengths by the intervals."""
        for name, kinds, n_less in (
            ("edges_ms", "iu", 0),
            ("n_nodes", "iu", 1),
            ("weight", "iuf", 1),
            ("profile_id", "iu", 1),
            ("offset_ms", "iu", 1),
        ):
            values, expected = np.asarray(getattr(self, name)), np.size(self.edges_ms)
            if values.dtype.kind not in kinds or values.shape != (expected - n_less,):
                raise WorkloadError(
                    f"InstanceGroup: {name} has shape {values.shape} of "
                    f"{values.dtype}, expected ({expected - n_less},) of numbers, "
                    "whole ones but for weight: one for each interval between edges"
                )
            object.__setattr__(self, name, values)

    def segments(self, begin_ms: int | None, end_ms: int | None) -> Segments:
        """Return the segments that start within a period.

        See `InstanceGroupLoad.between`.
        """
        starts_ms = self.edges_ms[:-1]
        first = int(np.searchsorted(self.edges_ms[1:], 0, side="right"))
        if begin_ms is not None:
            first = max(first, int(np.searchsorted(starts_ms, begin_ms)))
        stop = (
            starts_ms.size
            if end_ms is None
            else int(np.searchsorted(starts_ms, end_ms))
        )
        return self._segments(first, stop)

    def means(
        self, tables: EnergyTables, begin_ms: int, end_ms: int
    ) -> tuple[float, float, float]:
        """Return means over a period: power [W], busy nodes and steady power [W].

        The steady power is without noise: each instance draws the mean power of its
        sample.
        """
        first, stop = self._intervals(begin_ms, end_ms)
        energy_j = steady_j = node_ms = 0.0
        for start in range(first, stop, _INTERVALS_AT_ONCE):
            rows = self._segments(start, min(start + _INTERVALS_AT_ONCE, stop))
            duration_ms = np.minimum(rows.end_ms, end_ms) - np.maximum(
                rows.start_ms, begin_ms
            )
            energy_j = _add_sequentially(
                energy_j, energies_within(rows, tables, begin_ms, end_ms)
            )
            steady_j = _add_sequentially(
                steady_j, steady_energies_within(rows, tables, begin_ms, end_ms)
            )
            node_ms = _add_sequentially(node_ms, rows.n_nodes * duration_ms)
        span_ms = end_ms - begin_ms
        per_s = MS_PER_S / span_ms
        return energy_j * per_s, node_ms / span_ms, steady_j * per_s

    def within(self, begin_ms: int, end_ms: int) -> Segments:
        """Return the segments that overlap a period."""
        return self._segments(*self._intervals(begin_ms, end_ms))

    def _intervals(self, begin_ms: int, end_ms: int) -> tuple[int, int]:
        """Return the first interval in a period, and the interval after the last."""
        first = int(np.searchsorted(self.edges_ms[1:], begin_ms, "right"))
        return first, int(np.searchsorted(self.edges_ms[:-1], end_ms))

    def _segments(self, first: int, stop: int) -> Segments:
        """Return the segments of the intervals `first` to `stop` - 1."""
        rows = first + np.flatnonzero(self.weight[first : max(first, stop)])
        return Segments(
            start_ms=self.edges_ms[rows],
            end_ms=self.edges_ms[rows + 1],
            pool_id=np.full(rows.size, self.pool_id),
            n_nodes=self.n_nodes[rows].astype(np.int32),
            profile_id=self.profile_id[rows],
            offset_ms=self.offset_ms[rows].astype(np.int64),
            weight=self.weight[rows].astype(np.float64),
            owner=np.full(rows.size, SERVICE_OWNER),
        )


def _add_sequentially(total: float, values: Float64Array | Int64Array) -> float:
    """Return a sum plus values, added one by one.

    The result has the same bits however the values are split into calls.
    """
    return float(np.cumsum(np.append(total, values))[-1])


def beyond_idle_w(
    groups: Iterable[InstanceGroup],
    tables: EnergyTables,
    idle_w: Sequence[float],
    time_ms: int,
    horizon_ms: int,
) -> float:
    """Return the mean power of groups above their nodes' idle power, in a minute [W].

    The minute is the one that `time_ms` is in.
    """
    begin_ms = min(max(0, time_ms), horizon_ms - 1) // MS_PER_MIN * MS_PER_MIN
    end_ms = min(begin_ms + MS_PER_MIN, horizon_ms)
    total_w = 0.0
    for group in groups:
        power_w, n_nodes, _ = group.means(tables, begin_ms, end_ms)
        total_w += power_w - n_nodes * idle_w[group.pool_id]
    return total_w


def shared_counts(n_instances: Int32Array) -> Int32Array:
    """Return the numbers of instances whose profiles are used for numbers K.

    A number up to `EXACT_INSTANCES` is used as it is. Above, each doubling of K has
    `EXACT_INSTANCES` / 2 evenly spaced numbers, and the nearest is used.
    """
    step = np.ones_like(n_instances)
    while (large := n_instances // step > EXACT_INSTANCES).any():
        step[large] *= 2
    return (n_instances + step // 2) // step * step


def instance_sums_w(
    sample_w: Float64Array, phases: Int64Array, counts: Sequence[int]
) -> list[Float64Array]:
    """Return a periodic sample summed over the first K instances, for each K [W].

    `phases` are the instances' positions in the sample; `counts` are the K, increasing.
    """
    total_w, n_done, result = np.zeros(sample_w.size), 0, []
    twice_w = np.concatenate([sample_w, sample_w])  # a shifted sample is a slice
    at_once = max(1, VALUES_AT_ONCE // sample_w.size)
    for count in counts:
        for begin in range(n_done, count, at_once):
            added_w = np.zeros_like(sample_w)
            for position in phases[begin : min(begin + at_once, count)].tolist():
                added_w += twice_w[position : position + sample_w.size]
            total_w = total_w + added_w
        n_done = count
        result.append(total_w)
    return result


GroupProfiles = tuple[InstanceGroup, list[PowerProfile], list[PowerProfile]]
"""An instance group, its profiles, and its profiles at the nodes' AC input if
modeled."""

_Levels = tuple[Int64Array, Int64Array, Int32Array, Int32Array]
"""Positions of periodic samples that are concatenated: the step of each sample [ms],
the index of its first position, its positions sorted by power, and the rank of each
position by power."""


@dataclass(frozen=True, eq=False)
class ServiceInstanceGroups:
    """Instance groups of one service: serving, then starting up or in standby.

    Serving instances draw the measured power at their completed rate. Assumed: below
    the lowest measured rate an instance draws the power of that rate, and above the
    highest that of the highest rate. Instances that start up and nodes in warm standby
    draw the node type's power with a model loaded (sources measured the same power for
    both). If the node type has none, instances that start up draw the power of the
    lowest rate.
    """

    plan: ServicePlan
    service: PlannedService
    curve: PowerCurve
    node: NodeType
    seed: int

    def __iter__(self) -> Iterator[GroupProfiles]:
        """Yield the groups of the service with their profiles."""
        service, served, nodes = (
            self.service,
            self.service.served,
            self.service.nodes_per_instance,
        )
        serving = served.n_serving
        yield self.group(
            "serving", nodes, serving, service.uncapped_rate_rps, serving * nodes
        )
        starting = (served.n_instances - serving) * nodes
        standby = service.n_standby_nodes
        waiting, warm_w = starting + standby, self.node.warm_power_w
        if warm_w is None and starting.any():
            rate_rps = np.zeros(starting.size)
            yield self.group(
                "waiting", 1, starting, rate_rps, starting, serving * nodes
            )
        elif warm_w is not None and waiting.any():
            yield self.flat("warm", warm_w, waiting, starting, serving * nodes)
        if standby.any():
            # Standby nodes are not busy, so other code counts their idle power. It is
            # subtracted here, as warm nodes draw their own power.
            first = served.n_instances * nodes
            zero = np.broadcast_to(np.int32(0), standby.shape)
            yield self.flat("idle", self.node.idle_power_w, -standby, zero, first)

    @cached_property
    def samples(self) -> tuple[PowerSample, ...]:
        """Samples that instances replay, by rising rate."""
        return repeating_samples(self.curve)

    def group(
        self,
        kind: str,
        nodes: int,
        count: Int32Array,
        rate_rps: Float64Array,
        busy_nodes: Int32Array,
        first: Int32Array | None = None,
    ) -> GroupProfiles:
        """Return the group of `count` units of `nodes` nodes at `rate_rps`.

        The arrays have one value per interval. `first` is the index of the group's
        first node among the service's nodes.
        """
        rng_names = ("power", "serving", self.plan.stream, self.service.name, kind)
        rng = named_rng(self.seed, *rng_names, "pieces")
        edges_ms, curve = self.service.served.edges_ms, self.curve
        sample_rps = np.array([sample.rate_rps for sample in self.samples])
        clipped_rps = np.clip(rate_rps, sample_rps[0], sample_rps[-1])
        low = np.searchsorted(sample_rps, clipped_rps, side="right") - 1
        high = np.minimum(low + 1, sample_rps.size - 1)
        gap_rps = np.where(high > low, sample_rps[high] - sample_rps[low], 1.0)
        jumps = rng.random(rate_rps.size) < -np.expm1(
            -np.diff(edges_ms) / (JUMP_EVERY_S * MS_PER_S)
        )
        jump_index = np.cumsum(jumps)
        uniforms = rng.random((2, int(jump_index[-1]) + 1))
        # Intervals cut by an event must not change the random numbers before it
        if self.service.cap is not None:
            event_uniforms = named_rng(self.seed, *rng_names, "places").random(
                (int(jump_index[-1]) + 1, 2)
            )
            uniforms = np.ascontiguousarray(event_uniforms.T)
        takes_upper = (
            uniforms[0, jump_index] < (clipped_rps - sample_rps[low]) / gap_rps
        )
        rate = np.where(takes_upper, high, low)
        profile_count = shared_counts(count)
        mean_w, sample_mean_w = (
            np.interp(rates_rps, curve.rate_rps, curve.mean_power_w)
            for rates_rps in (rate_rps, sample_rps)
        )
        weight = (
            self.node.busy_power_factor * nodes * count / np.maximum(profile_count, 1)
        )
        if (cap := self.service.cap) is not None:
            # Assumed: a sample is scaled to the mean of capped GPUs, and its shape
            # does not change.
            capped_w = capped_power_w(mean_w, cpu_power_w(self.node), cap.power)
            mean_w = np.where(self.service.capped, capped_w, mean_w)
        weight = weight * mean_w / sample_mean_w[rate]
        profile_id, profiles, ac_profiles, levels = self._profiles(
            kind, rate, profile_count, count > 0
        )
        offset_ms: Integers = np.zeros(rate.size, dtype=np.int64)
        if profiles:
            offset_ms = _positions_ms(
                edges_ms, rate, profile_id, jumps, uniforms[1], *levels
            )
            offset_ms = offset_ms.astype(np.int32)  # within a sample
        arrays = (
            self.plan.pool_id,
            edges_ms,
            busy_nodes,
            weight,
            profile_id,
            offset_ms,
        )
        group = InstanceGroup(*arrays, first=first)
        return group, profiles, ac_profiles

    def flat(
        self,
        kind: str,
        power_w: float,
        count: Int32Array,
        busy_nodes: Int32Array,
        first: Int32Array,
    ) -> GroupProfiles:
        """Return a group of nodes that each draw a constant power.

        `first` is the index of the group's first node among the service's nodes.
        """
        name = f"serving-{self.plan.pool}-{kind}"
        edges_ms = self.service.served.edges_ms
        length_ms = max(FLAT_MS, int(np.diff(edges_ms).max()) + PROFILE_STEP_MS)
        flat_w = np.full(-(-length_ms // PROFILE_STEP_MS), power_w, dtype=np.float32)
        profile = PowerProfile(name, name, 1, PROFILE_STEP_MS, flat_w, PROVENANCE)
        zero = np.broadcast_to(np.int32(0), count.shape)
        arrays = (self.plan.pool_id, edges_ms, busy_nodes, count, zero, zero)
        group = InstanceGroup(*arrays, first=first, is_flat=True)
        if self.node.ac_power is None:
            return group, [profile], []
        ac_w = self.node.ac_power_w(flat_w.astype(np.float64)).astype(np.float32)
        return group, [profile], [replace(profile, power_w=ac_w)]

    def _profiles(
        self, kind: str, rate: Int64Array, count: Int32Array, is_replayed: BoolArray
    ) -> tuple[Int32Array, list[PowerProfile], list[PowerProfile], _Levels]:
        """Return profiles for all pairs of rate and count, and each interval's profile.

        Returns the profile index of each interval, the profiles, the profiles at the
        nodes' AC input (empty if not modeled) and the positions sorted by power.
        """
        profile_id = np.zeros(rate.size, dtype=np.int32)
        if not is_replayed.any():
            return profile_id, [], [], _positions_by_power([], [])
        n_counts = int(count.max()) + 1
        pair = rate[is_replayed] * n_counts + count[is_replayed]
        occurs = np.zeros(len(self.samples) * n_counts, dtype=bool)
        occurs[pair] = True
        pairs = np.flatnonzero(occurs)
        profile_id[is_replayed] = (np.cumsum(occurs) - 1)[pair]
        stream_name, name = self.plan.stream, self.service.name
        # The phases of the first instances do not depend on how many follow.
        max_size = max(sample.power_w.size for sample in self.samples)
        phases = named_rng(
            self.seed, "power", "serving", stream_name, name, kind
        ).integers(0, max_size, int(count.max()))
        max_length_ms = int(np.diff(self.service.served.edges_ms).max())
        profiles, ac_profiles = list[PowerProfile](), list[PowerProfile]()
        all_sums_w, step_ms = list[Float64Array](), list[int]()
        pair_rate, pair_count = np.divmod(pairs, n_counts)
        for index in np.unique(pair_rate).tolist():
            counts, sample = (
                pair_count[pair_rate == index].tolist(),
                self.samples[index],
            )
            n_periods = 2 + max_length_ms // sample.length_ms
            positions = phases * sample.power_w.size // max_size
            sums_w = instance_sums_w(sample.power_w, positions, counts)
            all_sums_w += sums_w
            step_ms += [sample.dt_ms] * len(counts)
            for n, sum_w in zip(counts, sums_w, strict=True):
                label = f"{stream_name}.{name}-{kind}-{sample.rate_rps:g}rps-{n}"
                profiles.append(
                    PowerProfile(
                        profile_id=f"serving-{label}",
                        workload=f"serving-{self.curve.name}",
                        n_nodes=max(1, n),
                        dt_ms=sample.dt_ms,
                        power_w=np.tile(sum_w.astype(np.float32), n_periods),
                        provenance=sample.provenance,
                    )
                )
            if self.node.ac_power is not None:
                ac_w = ac_profile_w(
                    sample.power_w, self.node, sample.provenance.power_boundary
                )
                sums_w = instance_sums_w(ac_w, positions, counts)
                ac_profiles += [
                    replace(
                        profile, power_w=np.tile(sum_w.astype(np.float32), n_periods)
                    )
                    for profile, sum_w in zip(
                        profiles[-len(counts) :], sums_w, strict=True
                    )
                ]
        return (
            profile_id,
            profiles,
            ac_profiles,
            _positions_by_power(all_sums_w, step_ms),
        )


def _positions_by_power(
    sums_w: Sequence[Float64Array], step_ms: Sequence[int]
) -> _Levels:
    """Return step, first index, positions by power, and ranks of periodic samples.

    A sample is one period of a power, and its positions are sorted by power. See
    `_Levels`.
    """
    first = np.cumsum([0, *(sum_w.size for sum_w in sums_w)])
    position, rank = np.empty((2, int(first[-1])), dtype=np.int32)
    for begin, sum_w in zip(first.tolist(), sums_w, strict=False):
        order = np.argsort(sum_w)
        position[begin : begin + sum_w.size] = order
        rank[begin + order] = np.arange(sum_w.size)
    return np.array(step_ms, dtype=np.int64), first, position, rank


@njit()
def _positions_ms(
    edges_ms: Int64Array,
    rate: Int64Array,
    profile_id: Int32Array,
    jumps: BoolArray,
    uniforms: Float64Array,
    step_ms: Int64Array,
    first: Int64Array,
    position: Int32Array,
    rank: Int32Array,
) -> Int64Array:
    """Return the position in the sample at the start of each interval [ms].

    The position advances with time; after a jump or a change of sample it continues at
    one of similar power.
    """
    offset_ms, n_jumps = np.zeros_like(rate), 0
    # The first position is random.
    size = first[profile_id[0] + 1] - first[profile_id[0]]
    position_ms = int(uniforms[0] * size) * step_ms[profile_id[0]]
    for interval in range(offset_ms.size):
        profile = profile_id[interval]
        previous = profile_id[max(interval - 1, 0)]
        if interval > 0:
            position_ms += edges_ms[interval] - edges_ms[interval - 1]
        length_ms = (first[previous + 1] - first[previous]) * step_ms[previous]
        if position_ms >= length_ms:  # rarely; the division is slow
            position_ms %= length_ms
        has_jump = jumps[interval]
        n_jumps += has_jump
        if has_jump or rate[interval] != rate[max(interval - 1, 0)]:
            n_old, n_new = (
                first[previous + 1] - first[previous],
                first[profile + 1] - first[profile],
            )
            level = (
                rank[first[previous] + position_ms // step_ms[previous]] + 0.5
            ) / n_old
            if has_jump:
                level += LIKE_LEVELS * (2 * uniforms[n_jumps] - 1)
            # Reflected at the lowest and highest power, so that no position is replayed
            # more often.
            new_rank = int(abs(level) * n_new)
            new_rank = max(0, min(new_rank, 2 * n_new - 1 - new_rank))
            in_step_ms = position_ms % step_ms[previous] % step_ms[profile]
            position_ms = (
                position[first[profile] + new_rank] * step_ms[profile] + in_step_ms
            )
        offset_ms[interval] = position_ms
    return offset_ms
