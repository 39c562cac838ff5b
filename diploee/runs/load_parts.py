"""A run's load by what it is.

The nodes with what feeds them, cooling, the rest, transformers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass

import numpy as np

from diploee.base.errors import Brief
from diploee.base.tables import Float64Array
from diploee.runs.reader import RunFolder


@dataclass(frozen=True)
class LoadParts(Brief):
    """Columns of a run's load, before its own sources and stores, by what they are."""

    it: tuple[str, ...]  # the nodes, with the losses of PDUs and UPS
    motors: tuple[str, ...]  # cooling
    rest: tuple[str, ...]  # other loads and losses
    network: tuple[str, ...]  # losses of transformers
    taken: tuple[str, ...]  # what sources, stores and curtailing take off it
    pools: tuple[str, ...]  # the nodes of each pool; empty where there is one

    @classmethod
    def of(cls, run: RunFolder) -> LoadParts:
        """Return the parts of a run's columns."""
        names = set(run.series().check())
        nodes = next(n for n in ("it_ac_power_w", "it_power_w") if n in names)
        it = (nodes, *(n for n in ("pdu_loss_w", "ups_loss_w") if n in names))
        by_role: dict[str, list[str]] = {}
        for column in run.columns:
            if column.role and column.name in names and column.name not in it:
                key = "network" if column.part == "transformers" else column.role
                by_role.setdefault(key, []).append(column.name)

        def found(*roles: str) -> tuple[str, ...]:
            return tuple(name for role in roles for name in by_role.get(role, ()))

        pools = tuple(f"{nodes}.{pool}" for pool in run.scenario.facility.pools)
        return cls(
            it,
            found("cooling"),
            found("load", "loss"),
            found("network"),
            found("source", "store", "hold"),
            pools if names.issuperset(pools) else (),
        )

    def without(self, names: Collection[str]) -> LoadParts:
        """Return the parts without some columns."""
        return LoadParts(
            *(tuple(n for n in part if n not in names) for part in astuple(self))
        )

    @property
    def load(self) -> tuple[str, ...]:
        """All columns that add up to the load."""
        return (*self.it, *self.motors, *self.rest, *self.network)

    def powers(self, columns: Mapping[str, Float64Array]) -> dict[str, Float64Array]:
        """Return the power of each part, and of several pools with their feeds.

        The rest includes the network, so that nodes, motors and rest are the whole
        load.
        """
        parts = {
            "it": self.it,
            "motors": self.motors,
            "rest": (*self.rest, *self.network),
            "network": self.network,
        }
        result = {name: summed(columns, part) for name, part in parts.items()}
        nodes = np.maximum(summed(columns, self.pools), 1e-9)
        fed = {of: result["it"] * columns[of] / nodes for of in self.pools}
        return result | {of.partition(".")[2]: power for of, power in fed.items()}


def by_kind(power: Mapping[str, float], drives: float) -> tuple[float, float, float]:
    """Return what draws constant power, motors on line, and impedance.

    `powers` has the parts. What the UPS feeds is electronic, and so is the share of the
    cooling on drives.
    """
    of_drives = drives * power["motors"]
    return power["it"] + of_drives, power["motors"] - of_drives, power["rest"]


def summed(columns: Mapping[str, Float64Array], names: tuple[str, ...]) -> Float64Array:
    """Return the sum of some columns, zeros where there are none."""
    zero = np.zeros(len(next(iter(columns.values()))))
    return np.asarray(sum((columns[name] for name in names), zero))
