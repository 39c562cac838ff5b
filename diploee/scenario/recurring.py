"""Recurring training jobs with energy knobs: batch size and power limit (Zeus).

The module has the settings of traces, optimizers and nodes.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    SerializeAsAny,
    model_validator,
)

from diploee.base.model import KINDS, Kinds, Model, Share, StatefulKind, default, unset


class BatchSizeOptimizer(StatefulKind):
    """Optimizer of the batch size of each recurrence; the base class keeps it fixed."""

    goes_with: ClassVar[str] = "jit"
    """Name of the default power limit optimizer for this batch size optimizer."""
    _batch_size: int = PrivateAttr(default=0)

    def predict(self) -> int:
        """Return the batch size of the next recurrence."""
        return self._batch_size

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Record the cost [J] of an ended recurrence.

        The cost does not contain the factor `runtime_ratio`. Costs may be recorded in
        another order than batch sizes were predicted, and also for overlapping
        recurrences, which have no prediction. A recurrence that was stopped early has
        not converged.
        """


class PowerLimitOptimizer(StatefulKind):
    """Optimizer of the power limit of each recurrence, given its batch size."""

    _limit_w: dict[int, float] = PrivateAttr(default_factory=dict)

    def predict(self, batch_size: int) -> float | None:
        """Return the power limit [W], or None to profile all limits first."""
        return self._limit_w.get(batch_size)

    def observe(
        self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float
    ) -> None:
        """Record an epoch's cost [J] at a limit [W], from profiling or a whole run."""


BATCH_SIZE_OPTIMIZERS = Kinds(
    "batch size optimizer", BatchSizeOptimizer, KINDS + "batch_size_optimizers"
)
"""Optimizers of batch sizes by name: those of the package, and those of extensions."""
POWER_LIMIT_OPTIMIZERS = Kinds(
    "power limit optimizer", PowerLimitOptimizer, KINDS + "power_limit_optimizers"
)
"""Optimizers of power limits by name: those of the package, and those of extensions."""


class ZeusSpec(Model):
    """Settings of the batch size and power limit optimizers of recurring jobs."""

    batch_size_optimizer: Annotated[
        SerializeAsAny[BatchSizeOptimizer], BATCH_SIZE_OPTIMIZERS
    ] = default(
        "zeus",
        (
            "Choice of batch sizes: Zeus' pruning and Thompson sampling (zeus), "
            "Thompson sampling only (thompson), always the default (default), the best "
            "one from the start (oracle), or a custom optimizer: {path: module:Class, "
            "...}."
        ),
        validate_default=True,
    )
    power_limit: (
        Annotated[SerializeAsAny[PowerLimitOptimizer], POWER_LIMIT_OPTIMIZERS]
        | PositiveFloat
        | None
    ) = unset(
        "Choice of the GPU power limit: jit profiles all limits in the first epoch of "
        "a new batch size, max is the highest, oracle the best; or a measured limit "
        "[W]. If absent, the choice that belongs to the batch size optimizer."
    )
    eta: Share = default(0.5, "Weight of energy against time in the cost, 0-1.")
    beta: Annotated[float, Field(gt=1, le=1_000)] = default(
        2.0, "Cost at which a recurrence is stopped early, per lowest cost so far."
    )

    @property
    def limit(self) -> PowerLimitOptimizer | float:
        """Power limit or its optimizer.

        If not specified, it is the default for the batch size optimizer.
        """
        if self.power_limit is not None:
            return self.power_limit
        return POWER_LIMIT_OPTIMIZERS.read(self.batch_size_optimizer.goes_with)


class RecurringTraining(ZeusSpec):
    """Recurring training jobs whose energy knobs are optimized over time."""

    train: str | None = unset(
        "Zeus' train trace (summary_train.csv), relative to the scenario file; the "
        "included synthetic traces if absent."
    )
    power: str | None = unset(
        "Zeus' power trace of one GPU model (summary_power_v100.csv)."
    )
    workloads: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(
        default_factory=dict,
        description=(
            "Relative weight of each dataset among the recurring jobs; equal weights "
            "for all datasets of the traces if absent."
        ),
    )
    recurring_jobs: Annotated[int, Field(ge=1, le=1_000_000)] = default(
        50, "Number of recurring jobs, each with a separate history of recurrences."
    )
    groups: str | None = unset(
        "Alibaba group trace with submissions, groups and run time ratios, instead of "
        "the calendar; repeated until the run ends."
    )
    max_epochs: Annotated[int, Field(ge=1, le=100_000)] | None = unset(
        "Maximum number of epochs if the target is not reached; that of each workload "
        "if absent."
    )
    n_nodes: PositiveInt = default(1, "Nodes of a job.")
    gpus_per_node: PositiveInt | None = unset(
        "GPUs per node that train, each with the power and time of the trace; all if "
        "absent."
    )
    gpu_idle_power_w: Annotated[float, Field(ge=0, le=1e9)] | None = unset(
        (
            "Idle power of one GPU [W], contained both in the node's idle power and in "
            "the trace's power; if absent, estimated from the node's idle power by "
            "device ratings (assumed). 0 if the node's idle power excludes its GPUs."
        ),
        assumed=True,
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> RecurringTraining:
        """Check that traces, groups and workloads are consistent."""
        self._need("train", "power")
        self._need("power", "train")
        if self.groups is not None and len(set(self.workloads.values())) > 1:
            raise ValueError(
                "groups give the shares; give all workloads the same, such as 1"
            )
        if self.workloads and not any(self.workloads.values()):
            raise ValueError(
                "all shares of workloads are 0; at least one must be positive"
            )
        return self
