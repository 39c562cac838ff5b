"""Inputs of batch size controllers: settings, observations and power constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diploee.base.errors import Brief
from diploee.integrations.openg2g.operating_curves import ServingFits


@dataclass(frozen=True)
class ModelSetting(Brief):
    """Constant settings of a served model during a run."""

    feasible: tuple[int, ...]  # batch sizes to choose from, increasing
    batch_size: int  # batch size at the start
    itl_deadline_s: float | None  # highest mean inter-token latency [s]
    # Power, latency and throughput of a replica against its batch size
    fits: ServingFits


@dataclass(frozen=True)
class ControlSetting(Brief):
    """Settings of a batch size controller: its models and control interval."""

    models: Mapping[str, ModelSetting]  # models by name
    interval_s: float  # time between decisions [s]


@dataclass(frozen=True)
class Constraint(Brief):
    """One limit on the power of all replicas, with its relative violation."""

    name: str  # such as ``cap``
    # Relative violation, positive above the limit [1]
    excess: float
    per_w: float  # derivative of the excess with respect to power [1/W]


@dataclass(frozen=True)
class Observed(Brief):
    """Observation of one model over the last control interval."""

    n_replicas: int  # number of replicas
    batch_size: int  # requests in a batch
    itl_s: float  # mean inter-token latency [s], or NaN


@dataclass(frozen=True)
class ControlView(Brief):
    """Observations of all models and limits over the last control interval."""

    # End of the interval, when decisions apply, since the start of the run [s]
    time_s: float
    models: Mapping[str, Observed]  # observations by model name
    power_w: float  # mean power of all replicas [W]
    # The cap at that power; empty for a stream without a cap
    constraints: tuple[Constraint, ...]
