"""Recorder of the load upstream of the first battery or ramp limit.

A co-simulation needs this load for the response to the grid's voltage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from diploee.base.column_specs import Columns
from diploee.facility.base import POWER, REACTIVE, Block, Values
from diploee.facility.declared import COLUMNS

BEFORE_STORES = COLUMNS["before_stores"]
"""Columns recorded with --before-stores, in double precision."""


@dataclass(frozen=True)
class BeforeStores:
    """A stage that records the power upstream of the first battery or ramp limit."""

    ac: bool
    kind: ClassVar[str] = "before_stores"
    boundary: ClassVar[None] = None

    @property
    def columns(self) -> Columns:
        """Declarations of the columns that the stage adds."""
        return BEFORE_STORES[: 1 + self.ac]

    def start(self) -> None:
        """Return the state at the start of a run; None, as there is no state."""
        return None

    def apply(self, block: Block, state: None) -> tuple[Values, None]:
        """Return the power that arrives at the stage as the stage's own columns."""
        powers = (
            block.columns[name] for name in (POWER, REACTIVE) if name in block.columns
        )
        return dict(
            zip((column.name for column in self.columns), powers, strict=True)
        ), state


def first_storage_index(stages: Sequence[Any]) -> int:
    """Return the index of the first battery or ramp limit, or the number of stages."""
    roles = [{column.role for column in stage.columns} for stage in stages]
    return next(
        (k for k, stage_roles in enumerate(roles) if stage_roles & {"store", "hold"}),
        len(roles),
    )
