"""Pools of nodes in a scenario: node types, build-out phases and queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self, overload

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    PositiveInt,
    SerializeAsAny,
    model_validator,
)

from diploee.base.clock import RunClock
from diploee.base.errors import one_of
from diploee.base.model import (
    MAX_DEVICES,
    MAX_NODES,
    MAX_POWER_W,
    SCALES,
    Kind,
    Kinds,
    Model,
    default,
    optional,
    with_preset,
)
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.validation import must_be
from diploee.facility.node_power import AC_POWER, AcPowerSpec


def _check_hour(value: datetime) -> datetime:
    """Return a local time that is a whole hour; others raise an error."""
    if value.tzinfo is not None or value != value.replace(
        minute=0, second=0, microsecond=0
    ):
        raise must_be("a date or a whole hour of local time, without a zone", value)
    return value


class Phase(Model):
    """Build-out phase: number of installed nodes of a pool after a date."""

    since: Annotated[datetime, AfterValidator(_check_hour)] = Field(
        description="Date from which the nodes are installed, in local time, such as "
        "2027-01-01."
    )
    n_nodes: Annotated[PositiveInt, SCALES] = Field(
        description="Number of nodes then installed, including earlier phases."
    )


def _check_phases(phases: tuple[Phase, ...], n_nodes: int) -> None:
    """Raise `ValueError` unless phases are in time order with increasing nodes."""
    for earlier, later in pairwise(phases):
        if later.since <= earlier.since:
            raise ValueError(
                f"phases overlap: {_format_phase(later)} is listed after "
                f"{_format_phase(earlier)}; give each a separate date, in order of time"
            )
        if later.n_nodes <= earlier.n_nodes:
            raise ValueError(
                "phases must add nodes, as jobs may run on all that stand: "
                f"{_format_phase(later)} are no more than {_format_phase(earlier)}; "
                "give the nodes of all phases so far"
            )
    if phases[-1].n_nodes > n_nodes:
        raise ValueError(
            f"phases: {_format_phase(phases[-1])} are more than the pool's n_nodes of "
            f"{n_nodes:,}; raise n_nodes to that"
        )


def _format_phase(phase: Phase) -> str:
    """Return the text of a phase: its number of nodes and its date."""
    return f"{phase.n_nodes:,} nodes since {phase.since:%Y-%m-%d %H:%M}".removesuffix(
        " 00:00"
    )


@dataclass(frozen=True)
class InstalledNodes:
    """Number of installed nodes of a pool over time."""

    first: int  # nodes installed at the start of the simulation
    # Time of each addition [ms], above 0 and increasing, and number of added nodes
    added: tuple[tuple[int, int], ...] = ()

    @property
    def n_at_end(self) -> int:
        """Number of nodes installed at the end."""
        return self.first + sum(n_nodes for _, n_nodes in self.added)

    def times(self, factor: int) -> InstalledNodes:
        """Return the number of slots over time, `factor` times the number of nodes."""
        return InstalledNodes(
            self.first * factor, tuple((ms, n * factor) for ms, n in self.added)
        )

    def at(self, times_ms: Int64Array) -> Float64Array:
        """Return the number of installed nodes at times [ms]."""
        steps_ms = np.array([time_ms for time_ms, _ in self.added])
        levels = np.cumsum([self.first, *(n_nodes for _, n_nodes in self.added)])
        n_installed: Float64Array = (
            levels[np.searchsorted(steps_ms, times_ms, side="right")] * 1.0
        )
        return n_installed

    def node_ms(self, horizon_ms: int, from_ms: int = 0) -> int:
        """Return the installed node time of a run, from `from_ms` [node ms]."""
        later = ((horizon_ms - time_ms) * n_nodes for time_ms, n_nodes in self.added)
        return self.first * (horizon_ms - from_ms) + sum(later)


class SchedulerSpec(Kind):
    """Settings of a pool's scheduling policy, a `diploee.schedule.Policy`."""

    part_of_run: ClassVar[str] = "policy"


SCHEDULERS: Kinds[SchedulerSpec] = Kinds(
    "scheduler", SchedulerSpec, "diploee.schedule.policies"
)
"""Queue disciplines by name: those of the package, and those of extensions."""


class Pool(Model):
    """Pool of nodes of one type that share a queue."""

    node_type: str = Field(description="Name of an entry of facility.node_types.")
    n_nodes: Annotated[PositiveInt, Field(le=MAX_NODES), SCALES] = Field(
        description="Nodes in the pool."
    )
    scheduler: Annotated[SerializeAsAny[SchedulerSpec], SCHEDULERS] = default(
        "fifo",
        (
            "Queue discipline, by name or as a group of keys with its kind. fifo is "
            "strict: the first job of the queue blocks all others. easy starts later "
            "jobs if they do not delay the first one, conservative if they delay none "
            "before them; sjf starts the shortest first; priority sorts by weighted "
            "factors."
        ),
        validate_default=True,
    )
    allocate: Literal["nodes", "gpus"] = default(
        "nodes",
        (
            "Unit of allocation: whole nodes, or gpus, so that jobs with fewer GPUs "
            "than a node share nodes. Such a job takes the first node with enough free "
            "GPUs, a fraction of a GPU the first GPU with enough free capacity; larger "
            "jobs take whole nodes. A job on k of a node's g GPUs draws k/g of the "
            "node's profile, and free GPUs draw their fraction of its idle power. gpus "
            "requires fifo; the number of GPUs is n_gpus of the job's class or from "
            "the replayed log."
        ),
        exclude_if=lambda value: value == "nodes",
    )
    scale_profiles: Literal["by_tdp"] | None = optional(
        "Use of profiles measured on other GPUs than the pool's: by_tdp scales power "
        "by the TDP of a node's GPUs and leaves run times unchanged. If absent, such "
        "profiles are an error."
    )
    phases: tuple[Phase, ...] | None = optional(
        (
            "Build-out phases: numbers of installed nodes and their dates. No node is "
            "installed before the first phase; if absent, all are installed throughout "
            "the run. A phase that begins with the run also applies to its warm-up. "
            "Rates of synthetic jobs and requests are proportional to the installed "
            "nodes, and utilization (Eq. 1) and target_utilization refer to them."
        ),
        min_length=1,
    )

    @model_validator(mode="after")
    def _phases_rise(self) -> Self:
        if self.phases is not None:
            _check_phases(self.phases, self.n_nodes)
        return self

    @property
    def first_nodes(self) -> int:
        """Number of nodes of the first phase, or all nodes without phases."""
        return self.phases[0].n_nodes if self.phases else self.n_nodes

    def installed(self, clock: RunClock) -> InstalledNodes:
        """Return the number of installed nodes over the run."""
        if self.phases is None:
            return InstalledNodes(self.n_nodes)
        times_ms = [clock.wall.time_ms(phase.since) for phase in self.phases]
        levels = [0, *(phase.n_nodes for phase in self.phases)]
        added = [
            (time_ms, later - earlier)
            for time_ms, earlier, later in zip(
                times_ms, levels, levels[1:], strict=False
            )
        ]
        first = sum(n_nodes for time_ms, n_nodes in added if time_ms <= 0)
        return InstalledNodes(first, tuple(step for step in added if step[0] > 0))


Devices = Annotated[int, Field(ge=0, le=MAX_DEVICES)]
DevicePower = Annotated[float, Field(ge=0, le=MAX_POWER_W)]


GPUS_W = {
    "a100": (400, 63, 91),
    "h100": (700, 70, 113),
    "h200": (700, 76, 116),
    "l40s": (350, 34, 107),
}
"""TDP, idle power, and power with a loaded model of GPUs [W], from data sheets and
computed medians of open traces (Leo-hxu/training-power-trace-explorer,
eve123xy/power-traces-browser)."""

IDLE_CPUS_W = 128.2
"""Idle power of two EPYC 9554 of 360 W (arXiv:2604.07345) [W]. Assumed: the CPUs of
other hosts draw the same."""

NODE_PRESETS = {
    f"{n_gpus}x{gpu}": {
        "n_gpus": n_gpus,
        "gpu_tdp_w": tdp_w,
        "n_cpus": 2,
        "cpu_tdp_w": 360,
        "idle_power_w": round(n_gpus * idle_w + IDLE_CPUS_W),
        "warm_power_w": round(n_gpus * warm_w + IDLE_CPUS_W),
    }
    for gpu, (tdp_w, idle_w, warm_w) in GPUS_W.items()
    for n_gpus in (4, 8)
}


class NodeType(Model):
    """Type of server node, with rated power and idle power."""

    preset: str | None = optional(
        (
            "Name of a preset for ratings, idle and warm power that are not specified: "
            f"{one_of(NODE_PRESETS)}. GPUs as measured on open traces; the host of "
            "arXiv:2604.07345, two CPUs of 360 W, is assumed for all."
        ),
        assumed=True,
    )
    n_gpus: Devices = Field(description="GPUs per node.")
    gpu_tdp_w: DevicePower = Field(description="Thermal design power of one GPU [W].")
    n_cpus: Devices = Field(description="CPU sockets per node.")
    cpu_tdp_w: DevicePower = Field(
        description="Thermal design power of one CPU socket [W]."
    )
    idle_power_w: DevicePower = Field(
        description="Device power of a node that runs no job [W]."
    )
    warm_power_w: DevicePower | None = optional(
        "Device power of a node whose GPUs have a model loaded but no requests [W]: "
        "113 per H100, 116 per H200, 91 per A100, 107 per L40S for any model "
        "(measured, P5 to P95 within 8 %), plus the CPUs' idle power. Required by "
        "services with standby: warm."
    )
    busy_power_factor: Annotated[float, Field(gt=0, le=1_000)] = default(
        1.0, "Factor on the profile power of busy nodes; 1 leaves it as measured."
    )

    ac_power: Annotated[SerializeAsAny[AcPowerSpec], AC_POWER] | None = optional(
        "Model of a node's AC input power, with fans, conversion losses and all other "
        "components, from its device power; by name or as a group of keys with its "
        "kind. If absent, only device power is computed."
    )

    def unused_keys(self) -> tuple[str, ...]:
        """Return the keys without effect: `preset` if no preset is named."""
        return ("preset",) if self.preset is None else ()

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        return with_preset(values, lambda: NODE_PRESETS)

    @property
    def rated_power_w(self) -> float:
        """Rated power: sum of the devices' thermal design power [W]."""
        return self.n_gpus * self.gpu_tdp_w + self.n_cpus * self.cpu_tdp_w

    @overload
    def ac_power_w(self, device_power_w: float) -> float: ...
    @overload
    def ac_power_w(self, device_power_w: Float64Array) -> Float64Array: ...
    def ac_power_w(self, device_power_w: Any) -> Any:
        """Return the power at a node's AC input for a power of its devices [W]."""
        if self.ac_power is None:
            return device_power_w
        return self.ac_power.ac_power_w(
            device_power_w, self.rated_power_w, self.idle_power_w
        )
