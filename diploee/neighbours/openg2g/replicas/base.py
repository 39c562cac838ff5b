"""Batch size controllers: their inputs and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from diploee.neighbours.openg2g import ServingFits


@dataclass(frozen=True)
class ModelSetting:
    """Constants of a served model in a run."""

    feasible: tuple[int, ...]  # batch sizes to choose from, increasing
    batch_size: int  # the first one
    itl_deadline_s: float | None  # highest mean inter-token latency [s]
    fits: ServingFits  # power, latency and throughput of a replica against its batch size


@dataclass(frozen=True)
class ControlSetting:
    """Setting of a controller."""

    models: Mapping[str, ModelSetting]  # its models by name
    interval_s: float  # time between decisions [s]


@dataclass(frozen=True)
class Constraint:
    """One limit on the power of all replicas.

    Parameters
    ----------
    name : str
        Which, such as ``cap`` or ``undervoltage``.
    excess : float
        By how much it is violated, over a scale of its own, positive where it is [1].
    per_w : float
        What a watt more adds to the excess [1/W].
    """

    name: str
    excess: float
    per_w: float


@dataclass(frozen=True)
class Observed:
    """A model over the last control interval."""

    n_replicas: int  # replicas
    batch_size: int  # requests in a batch
    itl_s: float  # mean inter-token latency [s], or NaN


@dataclass(frozen=True)
class ControlView:
    """Observations over the last control interval.

    Parameters
    ----------
    time_s : float
        Its end, at which the decision takes hold, since the start of the run [s].
    models : mapping of str to Observed
        By name.
    power_w : float
        Mean power of all replicas [W].
    constraints : tuple of Constraint
        The limits of the signal at that power; the same ones at every decision.
    """

    time_s: float
    models: Mapping[str, Observed]
    power_w: float
    constraints: tuple[Constraint, ...]


class BatchController(Protocol):
    """Chooses batch sizes, once per control interval; it may keep a state."""

    def decide(self, view: ControlView) -> Mapping[str, int]:
        """Return the next batch size of each model by name; those left out keep theirs."""
        ...
