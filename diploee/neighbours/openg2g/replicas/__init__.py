"""Replicas of served models: templates of power by batch size, and who chooses batch sizes."""

from diploee.neighbours.openg2g.replicas.base import (
    BatchController,
    Constraint,
    ControlSetting,
    ControlView,
    Observed,
)
from diploee.neighbours.openg2g.replicas.columns import (
    replica_columns,
)
from diploee.neighbours.openg2g.replicas.data import ReplicaData, load_replica_data
from diploee.neighbours.openg2g.replicas.replay import (
    ReplayedModel,
    ReplicaPlan,
    plan_replicas,
    replica_labels,
)

__all__ = [
    "BatchController", "Constraint", "ControlSetting",
    "ControlView", "Observed", "ReplayedModel", "ReplicaData", "ReplicaPlan", "load_replica_data",
    "plan_replicas", "replica_columns", "replica_labels",
]  # fmt: skip
