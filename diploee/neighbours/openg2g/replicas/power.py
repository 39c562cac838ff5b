"""Lowering replicas to segments: the planned power, a profile for each number of busy nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from diploee.loads.services.banks import Bank, BankLoad
from diploee.neighbours.openg2g.replicas.replay import ReplicaPlan
from diploee.profiles import PowerProfile, ProfileLibrary, Provenance
from diploee.profiles.resample import round_keeping_energy
from diploee.scenario import Facility
from diploee.scenario.replica_streams import ReplicaStream

SOURCE = "ML.ENERGY leaderboard: Llama-3.1-70B-Instruct on 4 x H100, lm-arena-chat"
LICENCE = "Apache-2.0 (leaderboard); this synthesis BSD-3-Clause"
NOTES = (
    "Synthesised by diploee about the published mean power at each batch size, not measured. "
    "ASSUMPTION: noise of 2 % of it that falls above 0.4 Hz. Summed over replicas."
)


def replica_segments(
    plans: Sequence[ReplicaPlan],
    specs: Mapping[str, ReplicaStream],
    facility: Facility,
    library: ProfileLibrary,
) -> BankLoad:
    """Lower the plans of all replica streams: a bank each, in their order.

    A bank plays the planned power of its stream, and `other_node_power_w` of each busy node.
    """
    profiles: list[PowerProfile] = []
    banks, first = list[Bank](), len(library)
    for number, plan in enumerate(plans):
        starts = np.flatnonzero(np.diff(plan.n_nodes, prepend=-1))
        edges_ms = np.append(plan.edges_ms[starts], plan.edges_ms[-1])
        n_nodes, size = plan.n_nodes[starts], starts.size
        factor = facility.node_type_of(plan.pool).busy_power_factor
        weight = np.where(n_nodes > 0, factor, 0.0)
        profile_id = first + len(profiles) + np.cumsum(n_nodes > 0) - 1
        for k in np.flatnonzero(n_nodes).tolist():
            rows = slice(*(edges_ms[k : k + 2] // plan.step_ms))
            power_w = plan.power_w[rows] + n_nodes[k] * specs[plan.stream].other_node_power_w
            profiles.append(PowerProfile(
                f"~replicas-{plan.stream}-{k}",
                f"replicas-{plan.stream}",
                int(n_nodes[k]),
                plan.step_ms,
                round_keeping_energy(power_w),
                _provenance(plan),
            ))  # fmt: skip
        none = np.zeros(size, dtype=np.int64)
        id_ = np.maximum(profile_id, 0).astype(np.int32)
        banks.append(Bank(plan.pool_id, edges_ms, n_nodes, weight, id_, none, number))
    return BankLoad(banks, library.extended(profiles))


def _provenance(plan: ReplicaPlan) -> Provenance:
    """Return the provenance of a stream's power: that of its first model's templates."""
    data = plan.models[0].data
    of_template = data.measured.profile(data.setting.batch_size).provenance
    if data.shipped:
        return replace(of_template, kind="reference", source=SOURCE, licence=LICENCE, notes=NOTES)
    return replace(of_template, notes=f"{of_template.notes} Summed over replicas.")
