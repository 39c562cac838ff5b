"""`ZeusSpec`: the knobs of the simulator, which optimizers to use and how to weigh energy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from diploee.errors import WorkloadError, did_you_mean, one_of, shown
from diploee.zeus.cost import check_eta
from diploee.zeus.optimizers.default import FixedPowerLimit
from diploee.zeus.optimizers.registry import (
    BATCH_SIZE_OPTIMIZERS,
    COMPANIONS,
    POWER_LIMIT_OPTIMIZERS,
    BatchSizeFactory,
    PowerLimitFactory,
    Setting,
)
from diploee.zeus.protocols import BatchSizeOptimizer, PowerLimitOptimizer
from diploee.zeus.workload import TrainingWorkload

HIGHEST_BETA = 1000
"""Of a finite beta; above it a path that never converges would run for years."""


@dataclass(frozen=True)
class ZeusSpec:
    """How recurring jobs choose batch size and power limit.

    Parameters
    ----------
    batch_size_optimizer : str or callable
        ``"zeus"``, ``"default"``, ``"oracle"``, ``"grid"``, or what makes one from a `Setting`.
    power_limit_optimizer : str, float, callable or None
        ``"jit"``, ``"max"``, ``"oracle"``, ``"grid"``; a fixed limit [W]; what makes one from a
        `Setting`; None for the one that goes with the batch size optimizer.
    eta : float
        Weight of the energy in the cost, 0-1.
    beta : float
        A recurrence is stopped at this multiple of the lowest cost so far; above 1, infinite for
        no early stopping.

    Raises
    ------
    WorkloadError
        If a name is unknown or a number out of range.
    """

    batch_size_optimizer: str | BatchSizeFactory = "zeus"
    power_limit_optimizer: str | float | PowerLimitFactory | None = None
    eta: float = 0.5
    beta: float = 2.0

    def __post_init__(self) -> None:
        check_eta(self.eta)
        if not 1 < self.beta <= HIGHEST_BETA and self.beta != inf:
            raise WorkloadError(
                f"beta is {shown(self.beta)}, expected a number above 1 up to {HIGHEST_BETA}, or "
                "inf for no early stopping"
            )
        _check_name("batch size optimizer", self.batch_size_optimizer, BATCH_SIZE_OPTIMIZERS)
        _check_name("power limit optimizer", self.power_limit_optimizer, POWER_LIMIT_OPTIMIZERS)

    @property
    def power_limit(self) -> str | float | PowerLimitFactory:
        """The power limit optimizer, or the one that goes with the batch size optimizer."""
        if self.power_limit_optimizer is not None:
            return self.power_limit_optimizer
        name = self.batch_size_optimizer
        return COMPANIONS[name] if isinstance(name, str) else "jit"

    def check(self, workload: TrainingWorkload) -> None:
        """Raise `WorkloadError` if a fixed limit was not measured for each batch size in use.

        With the default batch size optimizer only that batch size is in use.
        """
        limit_w = self.power_limit
        if isinstance(limit_w, int | float):
            fixed = self.batch_size_optimizer == "default"
            rows = [workload.default_row] if fixed else range(workload.batch_sizes.size)
            for row in rows:
                workload.limit_index(row, limit_w)

    def optimizers(self, setting: Setting) -> tuple[BatchSizeOptimizer, PowerLimitOptimizer]:
        """Return new optimizers for one recurring job."""
        batch, limit = self.batch_size_optimizer, self.power_limit
        if isinstance(batch, str):
            batch = BATCH_SIZE_OPTIMIZERS[batch]
        if isinstance(limit, int | float):
            return batch(setting), FixedPowerLimit(float(limit))
        if isinstance(limit, str):
            limit = POWER_LIMIT_OPTIMIZERS[limit]
        return batch(setting), limit(setting)

    def settings(self) -> dict[str, str | float]:
        """Return the knobs as plain values, for the metadata of a result."""
        limit = self.power_limit
        return {
            "batch_size_optimizer": _name(self.batch_size_optimizer),
            "power_limit_optimizer": limit if isinstance(limit, float | int) else _name(limit),
            "eta": self.eta,
            "beta": self.beta if self.beta < inf else "inf",
        }


def _name(optimizer: object) -> str:
    return optimizer if isinstance(optimizer, str) else getattr(optimizer, "__name__", "own")


def _check_name(what: str, name: object, names: Iterable[str]) -> None:
    if isinstance(name, str) and name not in names:
        raise WorkloadError(
            f"unknown {what} {shown(name)}, expected one of {one_of(names)}"
            f"{did_you_mean(name, names)}"
        )
