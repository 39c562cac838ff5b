"""Conversion of service plans to power segments, by groups of instances.

An instance at rate r draws a sample, measured or synthesised, of one of the rates next
to r, which of the two at random in proportion to their distance, scaled to the mean
power that the curve has at r: between two rates the swings are as large as at the rates
themselves. A bank of K instances plays the sum of the sample over K instances, each
with its own fixed phase. The bank's place in the sample jumps at random, every two
minutes on average, so that the sample's length does not show in the load; the rate is
drawn anew then. Neither a jump nor another sample shows itself: the sum goes on at a
place of like level, by rank among all its places, so that each is played equally often
and mean and swings are those of the sample. Only the pairs of rate and K that occur are
built. They grow with the logarithm of the instances: beyond 256 instances neighbouring
K share a profile, scaled so that its mean is exact (ASSUMPTION: the swings of 256 and
257 instances are alike).
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
from diploee.power.segments import OF_SERVICES, Segments, sorted_by_start
from diploee.profiles.derived import capped_power_w, cpu_power_w
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.pools import NodeType

EXACT_INSTANCES = 256
"""Up to this number of instances, every number of them has its own sums of samples."""

JUMP_EVERY_S = 120.0
"""Mean time between two jumps of a bank's place in its sample [s]."""

LIKE_LEVELS = 0.005
"""Places are of like level up to this share of all between them, in the order of their
levels."""

VALUES_AT_ONCE = 2**24
"""Values of samples that are summed in one step, which bounds the memory that it takes."""  # noqa: E501

_PIECES_AT_ONCE = 2**16
"""Pieces of time whose energies are summed in one step, which bounds the memory that it
takes."""

FLAT_MS = 1_000
"""Length of the profile of idle nodes [ms]."""


class InstanceGroupLoad:
    """A load of nodes that play shared profiles, planned for the whole run.

    Parameters
    ----------
    banks : sequence of Bank
        Nodes that play profiles.
    library : ProfileLibrary
        The profiles of `banks` behind those of the loads before.
    ac_profiles : mapping of int to PowerProfile, optional
        Those of them that are sums over nodes, at the nodes' AC input where that is
        modelled.
    """

    columns: Columns = ()

    def __init__(
        self,
        banks: Sequence[InstanceGroup],
        library: ProfileLibrary,
        ac_profiles: Mapping[int, PowerProfile] | None = None,
    ) -> None:
        self.banks, self.library = banks, library
        self.ac_profiles = ac_profiles or {}
        self.profile_ids = {
            i for bank in banks for i in np.unique(bank.profile_id).tolist()
        }

    @cached_property
    def segments(self) -> Segments:
        """All segments that reach into the run, in the order of their starts."""
        return self.between(None, None)

    def between(self, begin_ms: int | None, end_ms: int | None) -> Segments:
        """Return the segments that start in a span of time.

        In the order of their starts. Those that end before the run are left out.
        """
        parts = [bank.segments(begin_ms, end_ms) for bank in self.banks]
        return sorted_by_start(concat(parts)) if parts else Segments.empty()

    def values(self, block: Block) -> Values:  # noqa: ARG002
        """Return its columns over a block."""
        return {}

    def metrics(self, pool: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return its blocks of ``metrics.json``."""
        return {}


Whole = Int64Array | Int32Array


@dataclass(frozen=True, eq=False)
class InstanceGroup(Brief):
    """Nodes of one service that play the same profiles, piece by piece of time."""

    pool_id: int  # index of their pool
    edges_ms: Int64Array  # edges of the pieces [ms]
    n_nodes: Whole  # nodes that count as busy
    # Factor on the profile's power; 0 where nothing is played
    weight: Float64Array | Int32Array
    profile_id: Int32Array  # index of the profile
    offset_ms: Whole  # place in the profile at which the piece starts [ms]
    # What plays it and explains events: a service, or replicas with `stream`, `pool`
    # and `mean_replicas(begin_ms, end_ms)`
    of: Any = None
    # First of its nodes among those of what plays it; the first of all, if absent
    first: Whole | None = None
    is_flat: bool = False  # whether as many play as the weight says, else the busy ones

    def __post_init__(self) -> None:
        """Take arrays of any kind of numbers, if they are as long as the pieces."""
        for name, kinds, more in (
            ("edges_ms", "iu", 0),
            ("n_nodes", "iu", 1),
            ("weight", "iuf", 1),
            ("profile_id", "iu", 1),
            ("offset_ms", "iu", 1),
        ):
            values, expected = np.asarray(getattr(self, name)), np.size(self.edges_ms)
            if values.dtype.kind not in kinds or values.shape != (expected - more,):
                raise WorkloadError(
                    f"Bank: {name} has shape {values.shape} of {values.dtype}, "
                    f"expected ({expected - more},) of numbers, whole ones but for "
                    "weight: one for each piece between edges"
                )
            object.__setattr__(self, name, values)

    def segments(self, begin_ms: int | None, end_ms: int | None) -> Segments:
        """Return the segments that start in a span of time, as `BankLoad.between` says."""  # noqa: E501
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
        """Return mean power [W], mean busy nodes and noiseless power [W] over a span.

        The last is the power of instances that each draw the mean of their sample.
        """
        first, stop = self._pieces(begin_ms, end_ms)
        energy_j = steady_j = node_ms = 0.0
        for start in range(first, stop, _PIECES_AT_ONCE):
            rows = self._segments(start, min(start + _PIECES_AT_ONCE, stop))
            inside_ms = np.minimum(rows.end_ms, end_ms) - np.maximum(
                rows.start_ms, begin_ms
            )
            energy_j = _sum(energy_j, energies_within(rows, tables, begin_ms, end_ms))
            steady_j = _sum(
                steady_j, steady_energies_within(rows, tables, begin_ms, end_ms)
            )
            node_ms = _sum(node_ms, rows.n_nodes * inside_ms)
        span_ms = end_ms - begin_ms
        per_s = MS_PER_S / span_ms
        return energy_j * per_s, node_ms / span_ms, steady_j * per_s

    def within(self, begin_ms: int, end_ms: int) -> Segments:
        """Return the segments that overlap a span of time."""
        return self._segments(*self._pieces(begin_ms, end_ms))

    def _pieces(self, begin_ms: int, end_ms: int) -> tuple[int, int]:
        first = int(np.searchsorted(self.edges_ms[1:], begin_ms, "right"))
        return first, int(np.searchsorted(self.edges_ms[:-1], end_ms))

    def _segments(self, first: int, stop: int) -> Segments:
        """Return the segments of the pieces from one to before another."""
        rows = first + np.flatnonzero(self.weight[first : max(first, stop)])
        return Segments(
            start_ms=self.edges_ms[rows],
            end_ms=self.edges_ms[rows + 1],
            pool_id=np.full(rows.size, self.pool_id),
            n_nodes=self.n_nodes[rows].astype(np.int32),
            profile_id=self.profile_id[rows],
            offset_ms=self.offset_ms[rows].astype(np.int64),
            weight=self.weight[rows].astype(np.float64),
            owner=np.full(rows.size, OF_SERVICES),
        )


def _sum(before: float, values: Float64Array | Int64Array) -> float:
    """Add values to a sum one by one, the same however they are cut."""
    return float(np.cumsum(np.append(before, values))[-1])


def beyond_idle_w(
    banks: Iterable[InstanceGroup],
    tables: EnergyTables,
    idle_w: Sequence[float],
    time_ms: int,
    horizon_ms: int,
) -> float:
    """Return the mean power of banks over a minute beyond their nodes' idle power [W]."""  # noqa: E501
    begin_ms = min(max(0, time_ms), horizon_ms - 1) // MS_PER_MIN * MS_PER_MIN
    end_ms = min(begin_ms + MS_PER_MIN, horizon_ms)
    total_w = 0.0
    for bank in banks:
        power_w, n_nodes, _ = bank.means(tables, begin_ms, end_ms)
        total_w += power_w - n_nodes * idle_w[bank.pool_id]
    return total_w


def shared_counts(n_instances: Int32Array) -> Int32Array:
    """Return the number of instances whose sums of samples stand for each number.

    Every number up to `EXACT_INSTANCES` stands for itself; above, one in
    `EXACT_INSTANCES` per doubling.
    """
    step = np.ones_like(n_instances)
    while (large := n_instances // step > EXACT_INSTANCES).any():
        step[large] *= 2
    return (n_instances + step // 2) // step * step


def bank_sums_w(
    sample_w: Float64Array, phases: Int64Array, counts: Sequence[int]
) -> list[Float64Array]:
    """Sum a repeating sample over the first K instances of a bank, for several K."""
    total_w, done, result = np.zeros(sample_w.size), 0, []
    twice_w = np.concatenate([sample_w, sample_w])  # a turn of it is a slice
    at_once = max(1, VALUES_AT_ONCE // sample_w.size)
    for count in counts:
        for begin in range(done, count, at_once):
            added_w = np.zeros_like(sample_w)
            for place in phases[begin : min(begin + at_once, count)].tolist():
                added_w += twice_w[place : place + sample_w.size]
            total_w = total_w + added_w
        done = count
        result.append(total_w)
    return result


Played = tuple[InstanceGroup, list[PowerProfile], list[PowerProfile]]
"""A bank, the profiles that it plays, and these at the nodes' AC input where that is
modelled."""

_Levels = tuple[Int64Array, Int64Array, Int32Array, Int32Array]
"""Of repeating samples laid end to end: step of each [ms], where each begins, its
places in the order of their levels, and the number of each place in that order."""


@dataclass(frozen=True, eq=False)
class ServiceInstanceGroups:
    """The banks of one service: serving, then starting up or in standby.

    Instances that serve draw the measured power at the rate that each completes.
    ASSUMPTION: below the lowest measured rate an instance draws that rate's power,
    above the highest, the highest rate's. Instances that start up and nodes in warm
    standby draw the node type's power with a model loaded (the sources read the same
    level for both), the former that of the lowest rate where it is not given.
    """

    plan: ServicePlan
    service: PlannedService
    curve: PowerCurve
    node: NodeType
    seed: int

    def __iter__(self) -> Iterator[Played]:
        service, served, nodes = (
            self.service,
            self.service.served,
            self.service.nodes_per_instance,
        )
        serving = served.n_serving
        yield self.bank(
            "serving", nodes, serving, service.uncapped_rate_rps, serving * nodes
        )
        starting = (served.n_instances - serving) * nodes
        standby = service.n_standby_nodes
        waiting, warm_w = starting + standby, self.node.warm_power_w
        if warm_w is None and starting.any():
            at_rps = np.zeros(starting.size)
            yield self.bank("waiting", 1, starting, at_rps, starting, serving * nodes)
        elif warm_w is not None and waiting.any():
            yield self.flat("warm", warm_w, waiting, starting, serving * nodes)
        if standby.any():
            # They are not busy, so that their idle power is counted, but draw their
            # own.
            first = served.n_instances * nodes
            none = np.broadcast_to(np.int32(0), standby.shape)
            yield self.flat("idle", self.node.idle_power_w, -standby, none, first)

    @cached_property
    def samples(self) -> tuple[PowerSample, ...]:
        """The samples that instances draw, by rising rate."""
        return repeating_samples(self.curve)

    def bank(
        self,
        kind: str,
        nodes: int,
        count: Int32Array,
        rate_rps: Float64Array,
        busy_nodes: Int32Array,
        first: Int32Array | None = None,
    ) -> Played:
        """Return `count` units of `nodes` nodes at `rate_rps`, piece by piece.

        They are from the `first` of the service's nodes on.
        """
        names = ("power", "serving", self.plan.stream, self.service.name, kind)
        rng = named_rng(self.seed, *names, "pieces")
        edges_ms, curve = self.service.served.edges_ms, self.curve
        sample_rps = np.array([sample.rate_rps for sample in self.samples])
        near_rps = np.clip(rate_rps, sample_rps[0], sample_rps[-1])
        low = np.searchsorted(sample_rps, near_rps, side="right") - 1
        high = np.minimum(low + 1, sample_rps.size - 1)
        gap_rps = np.where(high > low, sample_rps[high] - sample_rps[low], 1.0)
        jumps = rng.random(rate_rps.size) < -np.expm1(
            -np.diff(edges_ms) / (JUMP_EVERY_S * MS_PER_S)
        )
        held = np.cumsum(jumps)
        drawn = rng.random((2, int(held[-1]) + 1))
        # What an event cuts anew must change no earlier draw
        if self.service.cap is not None:
            of_place = named_rng(self.seed, *names, "places").random(
                (int(held[-1]) + 1, 2)
            )
            drawn = np.ascontiguousarray(of_place.T)
        nearer = drawn[0, held] < (near_rps - sample_rps[low]) / gap_rps
        rate = np.where(nearer, high, low)
        shared = shared_counts(count)
        of_rate_w, of_sample_w = (
            np.interp(rates_rps, curve.rate_rps, curve.mean_power_w)
            for rates_rps in (rate_rps, sample_rps)
        )
        weight = self.node.busy_power_factor * nodes * count / np.maximum(shared, 1)
        if (cap := self.service.cap) is not None:
            # ASSUMPTION: all of a sample is scaled to the mean of capped GPUs, its
            # course kept [J].
            capped_w = capped_power_w(of_rate_w, cpu_power_w(self.node), cap.power)
            of_rate_w = np.where(self.service.capped, capped_w, of_rate_w)
        weight = weight * of_rate_w / of_sample_w[rate]
        profile_id, profiles, ac_profiles, levels = self._profiles(
            kind, rate, shared, count > 0
        )
        offset_ms: Whole = np.zeros(rate.size, dtype=np.int64)
        if profiles:
            offset_ms = _places_ms(edges_ms, rate, profile_id, jumps, drawn[1], *levels)
            offset_ms = offset_ms.astype(np.int32)  # within a sample
        at = (self.plan.pool_id, edges_ms, busy_nodes, weight, profile_id, offset_ms)
        bank = InstanceGroup(*at, first=first)
        return bank, profiles, ac_profiles

    def flat(
        self,
        kind: str,
        power_w: float,
        count: Int32Array,
        busy_nodes: Int32Array,
        first: Int32Array,
    ) -> Played:
        """Return nodes at a constant power, from one of the service's on."""
        name = f"serving-{self.plan.pool}-{kind}"
        edges_ms = self.service.served.edges_ms
        longest_ms = max(FLAT_MS, int(np.diff(edges_ms).max()) + PROFILE_STEP_MS)
        flat_w = np.full(-(-longest_ms // PROFILE_STEP_MS), power_w, dtype=np.float32)
        profile = PowerProfile(name, name, 1, PROFILE_STEP_MS, flat_w, PROVENANCE)
        none = np.broadcast_to(np.int32(0), count.shape)
        at = (self.plan.pool_id, edges_ms, busy_nodes, count, none, none)
        bank = InstanceGroup(*at, first=first, is_flat=True)
        if self.node.ac_power is None:
            return bank, [profile], []
        ac_w = self.node.ac_power_w(flat_w.astype(np.float64)).astype(np.float32)
        return bank, [profile], [replace(profile, power_w=ac_w)]

    def _profiles(
        self, kind: str, rate: Int64Array, count: Int32Array, played: BoolArray
    ) -> tuple[Int32Array, list[PowerProfile], list[PowerProfile], _Levels]:
        """Build the pairs of rate and count that occur.

        Return the profile of each piece. And the profiles, the same at the nodes' AC
        input where that is modelled, and the levels.
        """
        profile_id = np.zeros(rate.size, dtype=np.int32)
        if not played.any():
            return profile_id, [], [], _levels([], [])
        width = int(count.max()) + 1
        pair = rate[played] * width + count[played]
        occurs = np.zeros(len(self.samples) * width, dtype=bool)
        occurs[pair] = True
        pairs = np.flatnonzero(occurs)
        profile_id[played] = (np.cumsum(occurs) - 1)[pair]
        stream_name, name = self.plan.stream, self.service.name
        # The phases of the first instances do not depend on how many follow.
        longest = max(sample.power_w.size for sample in self.samples)
        phases = named_rng(
            self.seed, "power", "serving", stream_name, name, kind
        ).integers(0, longest, int(count.max()))
        longest_ms = int(np.diff(self.service.served.edges_ms).max())
        profiles, ac_profiles = list[PowerProfile](), list[PowerProfile]()
        played_w, step_ms = list[Float64Array](), list[int]()
        pair_rate, pair_count = np.divmod(pairs, width)
        for index in np.unique(pair_rate).tolist():
            counts, sample = (
                pair_count[pair_rate == index].tolist(),
                self.samples[index],
            )
            repeated = 2 + longest_ms // sample.length_ms
            places = phases * sample.power_w.size // longest
            sums_w = bank_sums_w(sample.power_w, places, counts)
            played_w += sums_w
            step_ms += [sample.dt_ms] * len(counts)
            for n, sum_w in zip(counts, sums_w, strict=True):
                label = f"{stream_name}.{name}-{kind}-{sample.rate_rps:g}rps-{n}"
                profiles.append(
                    PowerProfile(
                        profile_id=f"serving-{label}",
                        workload=f"serving-{self.curve.name}",
                        n_nodes=max(1, n),
                        dt_ms=sample.dt_ms,
                        power_w=np.tile(sum_w.astype(np.float32), repeated),
                        provenance=sample.provenance,
                    )
                )
            if self.node.ac_power is not None:
                ac_w = ac_profile_w(
                    sample.power_w, self.node, sample.provenance.power_boundary
                )
                sums_w = bank_sums_w(ac_w, places, counts)
                ac_profiles += [
                    replace(
                        profile, power_w=np.tile(sum_w.astype(np.float32), repeated)
                    )
                    for profile, sum_w in zip(
                        profiles[-len(counts) :], sums_w, strict=True
                    )
                ]
        return profile_id, profiles, ac_profiles, _levels(played_w, step_ms)


def _levels(sums_w: Sequence[Float64Array], step_ms: Sequence[int]) -> _Levels:
    """Return the order of repeating samples by their level, laid end to end."""
    first = np.cumsum([0, *(sum_w.size for sum_w in sums_w)])
    place, rank = np.empty((2, int(first[-1])), dtype=np.int32)
    for begin, sum_w in zip(first.tolist(), sums_w, strict=False):
        order = np.argsort(sum_w)
        place[begin : begin + sum_w.size] = order
        rank[begin + order] = np.arange(sum_w.size)
    return np.array(step_ms, dtype=np.int64), first, place, rank


@njit()
def _places_ms(
    edges_ms: Int64Array,
    rate: Int64Array,
    profile_id: Int32Array,
    jumps: BoolArray,
    drawn: Float64Array,
    step_ms: Int64Array,
    first: Int64Array,
    place: Int32Array,
    rank: Int32Array,
) -> Int64Array:
    """Return the place in the sample for each piece [ms].

    It goes on, or to one of like level.
    """
    offset_ms, n_jumps = np.zeros_like(rate), 0
    # The first place is any, the first of the draws.
    size = first[profile_id[0] + 1] - first[profile_id[0]]
    at_ms = int(drawn[0] * size) * step_ms[profile_id[0]]
    for piece in range(offset_ms.size):
        now = profile_id[piece]
        before = profile_id[max(piece - 1, 0)]
        if piece > 0:
            at_ms += edges_ms[piece] - edges_ms[piece - 1]
        length_ms = (first[before + 1] - first[before]) * step_ms[before]
        if at_ms >= length_ms:  # seldom; a division takes longer than all else here
            at_ms %= length_ms
        moves = jumps[piece]
        n_jumps += moves
        if moves or rate[piece] != rate[max(piece - 1, 0)]:
            old, new = first[before + 1] - first[before], first[now + 1] - first[now]
            level = (rank[first[before] + at_ms // step_ms[before]] + 0.5) / old
            if moves:
                level += LIKE_LEVELS * (2 * drawn[n_jumps] - 1)
            # Reflected at the lowest and the highest, so that no level is played more
            # often.
            number = int(abs(level) * new)
            number = max(0, min(number, 2 * new - 1 - number))
            within_ms = at_ms % step_ms[before] % step_ms[now]
            at_ms = place[first[now] + number] * step_ms[now] + within_ms
        offset_ms[piece] = at_ms
    return offset_ms
