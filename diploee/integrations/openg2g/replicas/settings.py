"""Scenario settings of served model replicas with power templates by batch size."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import inf
from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    model_validator,
)

from diploee.base.model import (
    SCALES,
    Kinds,
    Model,
    Name,
    Share,
    StatefulKind,
    default,
    unset,
)
from diploee.base.units import W_PER_MW, whole_ms
from diploee.integrations.openg2g.replicas.views import ControlView
from diploee.scenario.extension_loads import LoadSpec

Seconds = Annotated[float, Field(ge=0, le=1e10)]


class BatchControllerSpec(StatefulKind):
    """Base class of batch size controllers that decide once per control interval.

    The base class keeps the batch sizes.
    """

    def decide(self, view: ControlView) -> Mapping[str, int]:  # noqa: ARG002
        """Return the next batch sizes by model name; other models keep their size."""
        return {}


_HOME = "diploee.integrations.openg2g.replicas.batch_control"
BATCH_CONTROLLERS: Kinds[BatchControllerSpec] = Kinds(
    "batch size controller", BatchControllerSpec, _HOME
)
"""Registry of batch size controllers by name, the package's and plugins'."""


class CapStep(Model):
    """A step of a power cap: a start time [s] and a cap [MW]."""

    since_s: Seconds = Field(
        description="Start of the step, since the start of the run [s]."
    )
    mw: Annotated[float, Field(gt=0, le=1e6), SCALES] | None = unset(
        "Maximum mean power of a control interval [MW]; no cap if absent."
    )


class CapSpec(Model):
    """A stepwise cap on the power of all replicas' GPUs."""

    kind: Literal["cap"] = default("cap", "A cap on power.")
    steps: tuple[CapStep, ...] = Field(
        min_length=1, description="Steps of the cap over time."
    )

    @model_validator(mode="after")
    def _rises(self) -> CapSpec:
        for first, second in pairwise(step.since_s for step in self.steps):
            if second <= first:
                raise ValueError(
                    f"steps must follow each other in time: {second:g} s is behind "
                    f"{first:g} s"
                )
        return self

    def at_w(self, time_s: float) -> float:
        """Return the cap [W] at a time [s], infinity without a cap."""
        last = [step.mw for step in self.steps if step.since_s <= time_s][-1:]
        return inf if not last or last[0] is None else last[0] * W_PER_MW


class ReplicaRamp(Model):
    """A change of the number of replicas, linear in time."""

    begin_s: Seconds = Field(
        description="Start of the change, since the start of the run [s]."
    )
    end_s: Seconds = Field(
        description="End of the change, since the start of the run [s]."
    )
    replicas: Annotated[NonNegativeInt, SCALES] = Field(
        description="Number of replicas after the change."
    )

    @model_validator(mode="after")
    def _ends_later(self) -> ReplicaRamp:
        if self.end_s < self.begin_s:
            raise ValueError(
                f"end_s is {self.end_s:g}, expected begin_s, {self.begin_s:g}, or more"
            )
        return self


class ReplicaModel(Model):
    """A served model in a scenario: its measurements, replicas and batch sizes."""

    data: str = Field(
        description=(
            "Power over time, latency mixtures and logistic fits by batch size: a "
            "built-in name such as llama31_70b_4xh100, or a folder in OpenG2G's format "
            "(trace.csv, itl_fit.json, logistic_fit.json, _manifest.json), relative to "
            "the scenario file."
        )
    )
    replicas: Annotated[NonNegativeInt, SCALES] = Field(
        description="Replicas at the start."
    )
    ramps: tuple[ReplicaRamp, ...] = default(
        (), "Changes of the number of replicas, in order of time."
    )
    batch_size: PositiveInt = Field(
        description="Batch size at the start (max_num_seqs), one of the feasible ones."
    )
    feasible_batch_sizes: tuple[PositiveInt, ...] | None = unset(
        "Batch sizes to choose from; those of the data if absent.", min_length=1
    )
    itl_deadline_s: PositiveFloat | None = unset(
        "Maximum mean inter-token latency [s]; that of the data if absent."
    )

    @model_validator(mode="after")
    def _ramps_follow(self) -> ReplicaModel:
        for first, second in pairwise(self.ramps):
            if second.begin_s < first.end_s:
                raise ValueError(
                    f"ramps overlap: one begins at {second.begin_s:g} s, that before "
                    f"it ends at {first.end_s:g} s; give them in the order of time"
                )
        return self


class ReplicaStream(LoadSpec):
    """Replicas of served models on one pool, with a batch size controller."""

    models: dict[Name, ReplicaModel] = Field(
        min_length=1, description="Served models by name."
    )
    controller: Annotated[SerializeAsAny[BatchControllerSpec], BATCH_CONTROLLERS] = (
        default(
            "fixed",
            (
                "Controller of batch sizes: fixed keeps them constant, schedule "
                "changes them at specified times, feedback is a primal-dual optimizer "
                "of the signal and the latencies; or a custom class: {path: "
                "module:Class, ...}."
            ),
            validate_default=True,
        )
    )
    signal: CapSpec | None = unset(
        "Cap on the replicas' power. Violations are always measured; whether the cap "
        "is followed depends on the controller."
    )
    control_interval_s: Annotated[float, Field(gt=0, le=3600)] = default(
        1.0, "Time between two decisions and between two samples of latency [s]."
    )
    step_s: Annotated[float, Field(gt=0, le=60)] = default(
        0.1, "Time step of the power templates and of their sum [s]."
    )
    staggered: bool = default(
        True,
        (
            "Whether every replica starts at a random position in its template; if "
            "false, all begin at its start, so that their fluctuations add up."
        ),
    )
    amplitude_range: tuple[
        Annotated[float, Field(ge=0, le=10)], Annotated[float, Field(ge=0, le=10)]
    ] = default(
        (1.0, 1.0),
        "Minimum and maximum of a uniformly distributed factor on the power of "
        "each replica.",
    )
    noise_fraction: Share = default(
        0.0,
        (
            "Standard deviation of independent noise of each replica and step, per its "
            "power."
        ),
    )
    other_node_power_w: Annotated[float, Field(ge=0, le=1e9)] = default(
        0.0,
        (
            "Power of a busy node except for the GPUs of its replicas [W], which is "
            "not in benchmarks: CPU packages, GPUs without a replica."
        ),
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> ReplicaStream:
        step_ms, control_ms = whole_ms(self.step_s), whole_ms(self.control_interval_s)
        if control_ms % step_ms:
            raise ValueError(
                f"control_interval_s must be a multiple of step_s, {self.step_s:g} s, "
                f"found {self.control_interval_s:g} s"
            )
        low, high = self.amplitude_range
        if low > high:
            raise ValueError(
                f"amplitude_range must be [least, largest], found [{low:g}, {high:g}]"
            )
        return self

    @property
    def step_ms(self) -> int:
        """Time step of the power templates [ms]."""
        return whole_ms(self.step_s)

    @property
    def control_ms(self) -> int:
        """Time between two control decisions [ms]."""
        return whole_ms(self.control_interval_s)

    @property
    def files(self) -> tuple[str, ...]:
        """Data folders of the models, as named in the scenario."""
        return tuple(model.data for model in self.models.values())
