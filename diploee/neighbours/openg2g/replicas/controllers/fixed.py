"""Batch sizes that stay, or change at given times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from diploee.errors import InputError, one_of
from diploee.model import Model, Name
from diploee.neighbours.openg2g.replicas.base import ControlSetting, ControlView
from diploee.scenario.replica_streams import BatchControllerSpec


class Scheduled:
    """Plays changes: times [s] in order, and the batch sizes from then on by model."""

    def __init__(self, changes: tuple[tuple[float, Mapping[str, int]], ...] = ()) -> None:
        self._changes = list(changes)

    def decide(self, view: ControlView) -> Mapping[str, int]:
        """Return the batch sizes of the changes since the last decision."""
        found: dict[str, int] = {}
        while self._changes and self._changes[0][0] <= view.time_s:
            found |= self._changes.pop(0)[1]
        return found


class FixedSpec(BatchControllerSpec):
    """The batch sizes of the start."""

    kind: Literal["fixed"] = Field(default="fixed", description="Batch sizes stay as they are.")

    def open(self, setting: ControlSetting) -> Scheduled:  # noqa: ARG002
        """Return a new one."""
        return Scheduled()


class BatchChange(Model):
    """Batch sizes from a time on."""

    at_s: Annotated[float, Field(ge=0, le=1e10)] = Field(
        description="When, since the start of the run [s]; at the next decision."
    )
    batch_size: dict[Name, PositiveInt] = Field(
        min_length=1, description="The batch sizes from then on, by model."
    )


class ScheduleSpec(BatchControllerSpec):
    """Batch sizes that change at given times."""

    kind: Literal["schedule"] = Field(default="schedule", description="Changes at given times.")
    changes: tuple[BatchChange, ...] = Field(min_length=1, description="What changes when.")

    def open(self, setting: ControlSetting) -> Scheduled:
        """Return a new one; refuses models and batch sizes that there are not."""
        for change in self.changes:
            for name, size in change.batch_size.items():
                if name not in setting.models:
                    raise InputError(f"changes: no model '{name}' (have: {one_of(setting.models)})")
                if size not in (have := setting.models[name].feasible):
                    raise InputError(
                        f"changes: {size} is not feasible for '{name}' (have: {one_of(have)})"
                    )
        ordered = sorted(self.changes, key=lambda change: change.at_s)
        return Scheduled(tuple((change.at_s, change.batch_size) for change in ordered))
