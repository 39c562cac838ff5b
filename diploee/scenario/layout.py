"""`Layout`: location of a site's nodes in chassis, racks, rows and halls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from diploee.base.model import MAX_NODES, Model, optional
from diploee.base.tables import Int64Array

if TYPE_CHECKING:
    from diploee.scenario.pools import Pool

Level = Literal["node", "chassis", "rack", "row", "hall"]
LEVELS: tuple[Level, ...] = ("node", "chassis", "rack", "row", "hall")
"""Levels of a site's layout, the smallest first; each contains whole units of those
before."""

MAX_IN_RACK = 60
"""Maximum number of nodes of a rack with `placement: rack`."""

_Count = Annotated[PositiveInt, Field(le=MAX_NODES)]
_Rating = Annotated[float, Field(gt=0, le=1e6)]


class Layout(Model):
    """Location of nodes; each pool begins in a new rack, and in a new row if set."""

    nodes_per_chassis: _Count = Field(default=1, description="Nodes in a chassis.")
    chassis_per_rack: _Count = Field(description="Chassis in a rack.")
    racks_per_row: _Count | None = optional("Racks in a row; no rows if absent.")
    rows_per_hall: _Count | None = optional(
        "Rows in a hall, possibly of several pools; no halls if absent."
    )
    rack_rating_kw: _Rating | None = optional(
        "Rated power of a rack [kW]; hours above it are counted."
    )
    row_rating_kw: _Rating | None = optional(
        "Rated power of a row [kW]; hours above it are counted."
    )
    placement: Literal["node", "rack"] = Field(
        default="node",
        description=(
            "Choice of nodes for a job: node takes the first free ones; rack takes the "
            "first rack with enough free nodes, or else the racks with the most free "
            "nodes. It has no effect on start times and does not apply to pools that "
            "allocate GPUs."
        ),
    )

    @model_validator(mode="after")
    def _rows_before_halls(self) -> Self:
        if self.racks_per_row is None and (self.rows_per_hall or self.row_rating_kw):
            raise ValueError(
                "rows need racks_per_row; give it, or leave out what is of rows"
            )
        if self.placement == "rack" and (rack := self.size("rack") or 0) > MAX_IN_RACK:
            raise ValueError(
                f"placement: rack is for racks of up to {MAX_IN_RACK} nodes, found "
                f"{rack}; set placement: node"
            )
        return self

    def size(self, level: Level) -> int | None:
        """Return the nodes per rack or row; for halls, which are sums of rows, per row.

        The result is None if the layout does not have the level.
        """
        rack = self.nodes_per_chassis * self.chassis_per_rack
        row = self.racks_per_row and rack * self.racks_per_row
        row_in_hall = row if self.rows_per_hall else None
        return (1, self.nodes_per_chassis, rack, row, row_in_hall)[LEVELS.index(level)]

    def levels(self) -> Sequence[Level]:
        """Return the levels of the layout, starting with racks."""
        return [level for level in LEVELS[2:] if self.size(level)]


def node_groups(pools: Mapping[str, Pool], size: int) -> tuple[Int64Array, Int64Array]:
    """Return the pool and the number of nodes of each group of up to `size` nodes.

    Groups are in the order of the pools.
    """
    n_nodes = np.array([pool.n_nodes for pool in pools.values()])
    count = -(-n_nodes // size)
    pool_id = np.repeat(np.arange(count.size), count)
    index_in_pool = np.arange(pool_id.size) - np.repeat(np.cumsum(count) - count, count)
    return pool_id, np.minimum(n_nodes[pool_id] - index_in_pool * size, size)
