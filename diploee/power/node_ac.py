"""The nodes' power at their AC input: a second reading of the same segments.

A node's AC power depends on its devices' power alone, without memory, so that every
profile is taken through it once and the sum over jobs stays a sum: each profile has an
AC profile for every kind of node that it plays on, and a segment adds that one where
the devices' power adds the profile. With f the AC power of a node and b its
`busy_power_factor`, that of a profile P over n nodes is ``n f(b P / n) / b``, as the
weight of a segment holds b already. ASSUMPTION: the nodes of a job draw alike, since a
profile is their sum, and jobs on parts of nodes have these parts of what a node draws
[J]; between two measured rates of a service, AC power is scaled like the devices'
power.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diploee.base.tables import BoolArray, Float64Array, Int32Array, Int64Array
from diploee.power.segments import Segments, slots_of
from diploee.profiles.derived import DerivedProfile
from diploee.profiles.flat import FLAT_POWER_W, FLAT_WORKLOAD
from diploee.profiles.library import Entry, ProfileLibrary
from diploee.profiles.profile import PowerBoundary, PowerProfile
from diploee.scenario.models import Facility
from diploee.scenario.pools import NodeType


def ac_profile_w(
    power_w: Float64Array, node: NodeType, boundary: str, n_nodes: int = 1
) -> Float64Array:
    """Return the power of a profile's nodes at AC input, per segment weight [W].

    A weight holds b once for both readings, and f is not linear: it comes off again
    here alone.
    """
    factor = node.busy_power_factor
    of_node_w = power_w * (factor / n_nodes)
    ac_w = (
        of_node_w if boundary == PowerBoundary.NODE_AC else node.ac_power_w(of_node_w)
    )
    return ac_w * (n_nodes / factor)


@dataclass(frozen=True, eq=False)
class _AcProfile(DerivedProfile):
    """A profile as a kind of node draws it at its AC input."""

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
    """Which AC profile each profile has in each pool."""

    nodes: tuple[NodeType, ...]  # kind of the nodes of each pool
    slots: Int64Array  # slots of a node of each pool, `Facility.slots_per_node`
    ac_profile_id: Int32Array  # index of the AC profile of each profile in each pool
    # Profiles of constant power, which stand for any power by their weight
    flat: BoolArray

    def reading(self, segments: Segments) -> Segments:
        """Return segments that add AC power where the given ones add devices'."""
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
    """Give the profiles that a run plays, `used`, their AC profiles, behind the others.

    Those `of_serving` are made with the profiles, which are sums over nodes.
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
        nodes, slots_of(facility), ac_profile_id, flat
    )
