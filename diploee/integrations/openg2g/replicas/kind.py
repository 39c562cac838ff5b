"""`REPLICAS`: the kind of load that replicas of served models are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diploee.base.columns import Columns
from diploee.integrations.openg2g.replicas.catalogue import (
    REPLICA_METRICS,
    replica_columns,
)
from diploee.integrations.openg2g.replicas.settings import ReplicaStream
from diploee.scenario.plugged import LoadKind


def columns_of(specs: Mapping[str, ReplicaStream] | None) -> Columns:
    """Return the columns that streams add to the series; without any, all that they may."""  # noqa: E501
    return replica_columns(specs is None or any(of.signal for of in specs.values()))


def _read(specs: Mapping[str, ReplicaStream], folder: Path) -> Any:
    from diploee.integrations.openg2g.replicas.load import load_replica_data

    return load_replica_data(specs, folder)


def _open(*given: Any) -> Any:
    from diploee.integrations.openg2g.replicas.load import ReplicasLoad

    return ReplicasLoad(*given)


REPLICAS = LoadKind(ReplicaStream, REPLICA_METRICS, columns_of, _read, _open)
"""Replicas of served models, under the key `replica_streams`."""
