"""Inputs of a batch size controller, and limits on the power of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diploee.base.errors import Brief
from diploee.integrations.openg2g.operating_curves import ServingFits


@dataclass(frozen=True)
class ModelSetting(Brief):
    """Constants of a served model in a run."""

    feasible: tuple[int, ...]  # batch sizes to choose from, increasing
    batch_size: int  # the first one
    itl_deadline_s: float | None  # highest mean inter-token latency [s]
    # Power, latency and throughput of a replica against its batch size
    fits: ServingFits


@dataclass(frozen=True)
class ControlSetting(Brief):
    """Setting of a controller."""

    models: Mapping[str, ModelSetting]  # its models by name
    interval_s: float  # time between decisions [s]


@dataclass(frozen=True)
class Constraint(Brief):
    """One limit on the power of all replicas."""

    name: str  # such as ``cap``
    # By how much it is violated, over a scale of its own, positive where it is [1]
    excess: float
    per_w: float  # what a watt more adds to the excess [1/W]


@dataclass(frozen=True)
class Observed(Brief):
    """A model over the last control interval."""

    n_replicas: int  # replicas
    batch_size: int  # requests in a batch
    itl_s: float  # mean inter-token latency [s], or NaN


@dataclass(frozen=True)
class ControlView(Brief):
    """Observations over the last control interval."""

    # Its end, at which the decision takes hold, since the start of the run [s]
    time_s: float
    models: Mapping[str, Observed]  # by name
    power_w: float  # mean power of all replicas [W]
    # Its cap at that power; none of a stream without one
    constraints: tuple[Constraint, ...]
