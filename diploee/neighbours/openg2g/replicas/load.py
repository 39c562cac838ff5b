"""`ReplicasLoad`: replicas of served models at chosen batch sizes."""

from __future__ import annotations

from typing import Any

from diploee.facility.base import Block, Values
from diploee.inputs import Inputs
from diploee.loads.services.banks import BankLoad
from diploee.neighbours.openg2g.replicas.columns import replica_columns
from diploee.neighbours.openg2g.replicas.metrics import replica_metrics
from diploee.neighbours.openg2g.replicas.power import replica_segments
from diploee.neighbours.openg2g.replicas.replay import plan_replicas
from diploee.neighbours.replica_catalogue import replica_columns_of
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario


class ReplicasLoad(BankLoad):
    """The replicas of all streams, replayed for the whole run when they are opened."""

    def __init__(self, scenario: Scenario, inputs: Inputs, library: ProfileLibrary) -> None:
        specs, facility = scenario.replica_streams, scenario.facility
        self.plans = plan_replicas(specs, facility, scenario.clock, scenario.seed, inputs.replicas)
        lowered = replica_segments(self.plans, specs, facility, library)
        super().__init__(lowered.banks, lowered.library)
        self.columns, self.replicas = replica_columns_of(specs), self.plans

    def values(self, block: Block) -> Values:
        """Return replicas, batch sizes, latency and signals of each stream over a block."""
        return replica_columns(self.plans, block.t0_ms, block.dt_ms, len(block))

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the `replicas` block of one pool or of all."""
        return replica_metrics([plan for plan in self.plans if pool in (None, plan.pool)])
