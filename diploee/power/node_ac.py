"""AC input power of nodes, computed from the same segments as device power.

A node's AC power is a memoryless function of its devices' power, so that each profile
is converted once and the sum over jobs stays a sum: each profile has an AC profile per
kind of node that plays it, and a segment adds the AC profile to AC power as it adds the
profile to device power. With f the AC power of a node and b its `busy_power_factor`,
the AC power of a profile P over n nodes is ``n f(b P / n) / b``, because the weight of
a segment already contains b. ASSUMPTION: all nodes of a job draw the same power, since
a profile is their sum, and jobs on fractions of nodes draw the same fractions of a
node's power [J]. Between two measured rates of a service, AC power scales like device
power.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diploee.base.tables import BoolArray, Float64Array, Int32Array, Int64Array
from diploee.power.segments import Segments, node_slots
from diploee.profiles.derived import DerivedProfile
from diploee.profiles.flat import FLAT_POWER_W, FLAT_WORKLOAD
from diploee.profiles.library import Entry, ProfileLibrary
from diploee.profiles.profile import PowerBoundary, PowerProfile
from diploee.scenario.models import Facility
from diploee.scenario.pools import NodeType


def ac_profile_w(
    power_w: Float64Array, node: NodeType, boundary: str, n_nodes: int = 1
) -> Float64Array:
    """Return the AC input power of a profile's nodes, per segment weight [W].

    A weight contains b for both device and AC power, but f is not linear, so that b is
    divided out here.
    """
    factor = node.busy_power_factor
    of_node_w = power_w * (factor / n_nodes)
    ac_w = (
        of_node_w if boundary == PowerBoundary.NODE_AC else node.ac_power_w(of_node_w)
    )
    return ac_w * (n_nodes / factor)


@dataclass(frozen=True, eq=False)
class _AcProfile(DerivedProfile):
    """Profile of the AC input power of one kind of node."""

    node: NodeType  # the nodes that it runs on

    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return the AC power of the job's nodes per segment weight [W]."""
        power_w, boundary = (
            base.power_w.astype(np.float64),
            base.provenance.power_boundary,
        )
        return ac_profile_w(power_w, self.node, boundary, base.n_nodes)


@dataclass(frozen=True, eq=False)
class NodeAc:
    """Table of the AC profile of each profile in each pool."""

    nodes: tuple[NodeType, ...]  # kind of the nodes of each pool
    slots: Int64Array  # slots of a node of each pool, `Facility.slots_per_node`
    ac_profile_id: Int32Array  # index of the AC profile of each profile in each pool
    # Profiles of constant power, which stand for any power by their weight
    flat: BoolArray

    def reading(self, segments: Segments) -> Segments:
        """Return segments of AC power for segments of device power."""
        profile_id = self.ac_profile_id[segments.pool_id, segments.profile_id]
        weight = segments.weight
        rows = np.flatnonzero(self.flat[segments.profile_id])
        if rows.size:
            weight = weight.copy()
            n_nodes = (
                np.maximum(segments.n_nodes[rows], 1)
                / self.slots[segments.pool_id[rows]]
            )
            of_node_w = weight[rows] * FLAT_POWER_W / n_nodes
            for pool_id in np.unique(segments.pool_id[rows]).tolist():
                own = segments.pool_id[rows] == pool_id
                of_node_w[own] = self.nodes[pool_id].ac_power_w(of_node_w[own])
            weight[rows] = of_node_w * n_nodes / FLAT_POWER_W
        return replace(segments, profile_id=profile_id, weight=weight)


def with_ac_profiles(
    facility: Facility,
    library: ProfileLibrary,
    used: Iterable[int],
    of_serving: Mapping[int, PowerProfile],
) -> tuple[ProfileLibrary, NodeAc]:
    """Append AC profiles for the profiles that a run plays, `used`.

    Those in `of_serving` are created with the profiles, which are sums over nodes.
    """
    pools: Sequence[str] = list(facility.pools)
    entries, added = library.entries, list[Entry]()
    ac_profile_id = np.tile(np.arange(len(library), dtype=np.int32), (len(pools), 1))
    flat = np.array([entry.workload == FLAT_WORKLOAD for entry in entries])
    for index in sorted(used):
        base = entries[index]
        if index in of_serving:
            ac_profile_id[:, index] = len(library) + len(added)
            added.append(of_serving[index])
        elif not flat[index]:
            by_type: dict[str, int] = {}
            for pool_id, pool in enumerate(pools):
                name = facility.pools[pool].node_type
                if name not in by_type:
                    by_type[name] = len(library) + len(added)
                    added.append(_AcProfile(base, facility.node_types[name]))
                ac_profile_id[pool_id, index] = by_type[name]
    nodes = tuple(facility.node_type_of(pool) for pool in pools)
    return library.extended(added), NodeAc(
        nodes, node_slots(facility), ac_profile_id, flat
    )
