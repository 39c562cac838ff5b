"""`REPLICAS`: the load kind of served model replicas."""

from __future__ import annotations

from typing import Any

from diploee.integrations.openg2g.replicas.columns_and_metrics import (
    REPLICA_METRICS,
    replica_columns,
)
from diploee.integrations.openg2g.replicas.settings import ReplicaStream
from diploee.scenario.extension_loads import LoadKind


def _open(*given: Any) -> Any:
    from diploee.integrations.openg2g.replicas.load import ReplicasLoad

    return ReplicasLoad(*given)


REPLICAS = LoadKind(ReplicaStream, REPLICA_METRICS, replica_columns, _open)
"""Load kind of served model replicas, under the YAML key `replica_streams`."""
