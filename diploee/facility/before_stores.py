"""The load that reaches a site's first battery or ramp limit, kept for steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from diploee.base.column_specs import Columns
from diploee.facility.base import POWER, REACTIVE, Block, Values
from diploee.facility.declared import COLUMNS

BEFORE_STORES = COLUMNS["before_stores"]
"""Columns that --before-stores keeps; the file then has double precision."""


@dataclass(frozen=True)
class BeforeStores:
    """Keeps the power that passes it."""

    ac: bool
    kind: ClassVar[str] = "before_stores"
    boundary: ClassVar[None] = None

    @property
    def columns(self) -> Columns:
        """The columns that it adds."""
        return BEFORE_STORES[: 1 + self.ac]

    def start(self) -> None:
        """Return its state at the start of a run; none."""
        return None

    def apply(self, block: Block, state: None) -> tuple[Values, None]:
        """Return what arrives."""
        arrives = (
            block.columns[name] for name in (POWER, REACTIVE) if name in block.columns
        )
        return dict(
            zip((column.name for column in self.columns), arrives, strict=True)
        ), state


def first_store(stages: Sequence[Any]) -> int:
    """Return the place of the first store or limit, or behind the last stage."""
    roles = [{column.role for column in stage.columns} for stage in stages]
    return next((k for k, of in enumerate(roles) if of & {"store", "hold"}), len(roles))
