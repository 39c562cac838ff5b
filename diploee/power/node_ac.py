"""AC input power of nodes, computed from the same segments as device power.

A node's AC power at a time depends only on its devices' power at that time. Each
profile is therefore converted once per node type to an AC profile, and a segment adds
the AC profile to AC power as it adds the profile to device power. Let f be the function
from device power to AC power of a node, and b its `busy_power_factor`. The AC profile
of a profile P over n nodes is ``n f(b P / n) / b``, because the weight of a segment
already contains b. Between two measured rates of a service, AC power scales like device
power.

Assumed (judgement): all nodes of a job draw the same power, since a profile is their
sum, and jobs on fractions of nodes draw the same fractions of a node's power.
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

    The weight of a segment contains the factor b (see the module). As AC power is not
    linear in device power, b is applied to the profile here, and divided out of the
    result.
    """
    factor = node.busy_power_factor
    node_w = power_w * (factor / n_nodes)
    ac_w = node_w if boundary == PowerBoundary.NODE_AC else node.ac_power_w(node_w)
    return ac_w * (n_nodes / factor)


@dataclass(frozen=True, eq=False)
class _AcProfile(DerivedProfile):
    """Profile of AC input power for one node type."""

    node: NodeType  # type of the nodes

    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return the AC power of the job's nodes, per segment weight [W]."""
        power_w, boundary = (
            base.power_w.astype(np.float64),
            base.provenance.power_boundary,
        )
        return ac_profile_w(power_w, self.node, boundary, base.n_nodes)


@dataclass(frozen=True, eq=False)
class NodeAc:
    """Mapping of each profile in each pool to its AC profile."""

    nodes: tuple[NodeType, ...]  # node type of each pool
    slots: Int64Array  # slots per node of each pool, `Facility.slots_per_node`
    ac_profile_id: Int32Array  # index of the AC profile, by pool and profile
    # Mask of constant-power profiles, whose segments have any power by their weight
    flat: BoolArray

    def ac_segments(self, segments: Segments) -> Segments:
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
            node_w = weight[rows] * FLAT_POWER_W / n_nodes
            for pool_id in np.unique(segments.pool_id[rows]).tolist():
                in_pool = segments.pool_id[rows] == pool_id
                node_w[in_pool] = self.nodes[pool_id].ac_power_w(node_w[in_pool])
            weight[rows] = node_w * n_nodes / FLAT_POWER_W
        return replace(segments, profile_id=profile_id, weight=weight)


def with_ac_profiles(
    facility: Facility,
    library: ProfileLibrary,
    used: Iterable[int],
    node_sum_profiles: Mapping[int, PowerProfile],
) -> tuple[ProfileLibrary, NodeAc]:
    """Return the library extended by AC profiles of the `used` profiles, and mapping.

    `node_sum_profiles` has ready-made AC profiles, by library index, for profiles that
    are sums over nodes.
    """
    pools: Sequence[str] = list(facility.pools)
    entries, added = library.entries, list[Entry]()
    ac_profile_id = np.tile(np.arange(len(library), dtype=np.int32), (len(pools), 1))
    flat = np.array([entry.workload == FLAT_WORKLOAD for entry in entries])
    for index in sorted(used):
        base = entries[index]
        if index in node_sum_profiles:
            ac_profile_id[:, index] = len(library) + len(added)
            added.append(node_sum_profiles[index])
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
