"""`ZeusSpec`: the knobs of the simulator, which optimizers to use and how to weigh energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from diploee.errors import WorkloadError, shown
from diploee.model import Kind, Kinds
from diploee.neighbours.zeus.cost import check_eta
from diploee.neighbours.zeus.optimizers import Setting
from diploee.neighbours.zeus.workload import TrainingWorkload
from diploee.scenario.recurring import (
    BATCH_SIZE_OPTIMIZERS,
    POWER_LIMIT_OPTIMIZERS,
    BatchSizeOptimizer,
    PowerLimitOptimizer,
)

BatchSizeFactory = Callable[[Setting], BatchSizeOptimizer]
PowerLimitFactory = Callable[[Setting], PowerLimitOptimizer]

HIGHEST_BETA = 1000
"""Of a finite beta; above it a path that never converges would run for years."""


@dataclass(frozen=True)
class ZeusSpec:
    """How recurring jobs choose batch size and power limit.

    Parameters
    ----------
    batch_size_optimizer : str, BatchSizeOptimizer or callable
        A name in `BATCH_SIZE_OPTIMIZERS`, an import path ``module:Class``, a spec, or what makes
        one from a `Setting`.
    power_limit_optimizer : str, float, PowerLimitOptimizer, callable or None
        The same of `POWER_LIMIT_OPTIMIZERS`, or a fixed limit [W]; None for the one that goes with
        the batch size optimizer.
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

    batch_size_optimizer: str | BatchSizeOptimizer | BatchSizeFactory = "zeus"
    power_limit_optimizer: str | float | PowerLimitOptimizer | PowerLimitFactory | None = None
    eta: float = 0.5
    beta: float = 2.0

    def __post_init__(self) -> None:
        check_eta(self.eta)
        if not 1 < self.beta <= HIGHEST_BETA and self.beta != inf:
            raise WorkloadError(
                f"beta is {shown(self.beta)}, expected a number above 1 up to {HIGHEST_BETA}, or "
                "inf for no early stopping"
            )
        _read(BATCH_SIZE_OPTIMIZERS, self.batch_size_optimizer)
        _read(POWER_LIMIT_OPTIMIZERS, self.power_limit_optimizer)

    @property
    def power_limit(self) -> str | float | PowerLimitOptimizer | PowerLimitFactory:
        """The power limit optimizer, or the one that goes with the batch size optimizer."""
        if self.power_limit_optimizer is not None:
            return self.power_limit_optimizer
        chosen = _read(BATCH_SIZE_OPTIMIZERS, self.batch_size_optimizer)
        return chosen.goes_with if isinstance(chosen, BatchSizeOptimizer) else "jit"

    def check(self, workload: TrainingWorkload) -> None:
        """Raise `WorkloadError` if a fixed limit was not measured for each batch size in use.

        With the default batch size optimizer only that batch size is in use.
        """
        limit_w = self.power_limit
        if isinstance(limit_w, int | float):
            fixed = _plain(self.batch_size_optimizer) == "default"
            rows = [workload.default_row] if fixed else range(workload.batch_sizes.size)
            for row in rows:
                workload.limit_index(row, limit_w)

    def optimizers(self, setting: Setting) -> tuple[BatchSizeOptimizer, PowerLimitOptimizer]:
        """Return new optimizers for one recurring job."""
        made = (
            _read(BATCH_SIZE_OPTIMIZERS, self.batch_size_optimizer),
            _read(POWER_LIMIT_OPTIMIZERS, self.power_limit),
        )
        batch, limits = (one.open if isinstance(one, Kind) else one for one in made)
        return batch(setting), limits(setting)

    def settings(self) -> dict[str, Any]:
        """Return the knobs as plain values, for the metadata of a result."""
        return {
            "batch_size_optimizer": _plain(self.batch_size_optimizer),
            "power_limit_optimizer": _plain(self.power_limit),
            "eta": self.eta,
            "beta": self.beta if self.beta < inf else "inf",
        }


class _FixedPowerLimit(PowerLimitOptimizer):
    """Always the limit that was given."""

    kind: Literal["fixed"] = "fixed"
    power_limit_w: float

    def predict(self, batch_size: int) -> float:  # noqa: ARG002  # the same for all
        """Return the power limit [W]."""
        return self.power_limit_w


def _read(kinds: Kinds[Any], given: Any) -> Any:
    """Return the optimizer of a name or a limit [W]; any other stays as it is."""
    if isinstance(given, int | float):
        return _FixedPowerLimit.model_construct(power_limit_w=float(given))
    try:
        if not isinstance(given, str):
            return given
        return kinds.read({"path": given} if ":" in given else given)
    except ValueError as error:
        raise WorkloadError(str(error)) from error


def _plain(given: Any) -> Any:
    if isinstance(given, Kind):
        return given.model_dump(mode="json")
    return getattr(given, "__name__", "own") if callable(given) else given
