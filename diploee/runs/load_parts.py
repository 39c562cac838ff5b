"""Components of a run's load: IT, cooling, other loads, transformer losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass

import numpy as np

from diploee.base.errors import Brief
from diploee.base.tables import Float64Array
from diploee.runs.reader import RunFolder


@dataclass(frozen=True)
class LoadParts(Brief):
    """Column names of a run's load by component, without sources and storage."""

    it: tuple[str, ...]  # nodes, and losses of PDUs and UPS
    motors: tuple[str, ...]  # cooling
    rest: tuple[str, ...]  # other loads and losses
    network: tuple[str, ...]  # transformer losses
    taken: tuple[str, ...]  # subtracted powers: sources, storage, curtailment
    pools: tuple[str, ...]  # nodes of each pool; empty for a single pool

    @classmethod
    def from_run(cls, run: RunFolder) -> LoadParts:
        """Return the load columns of a run."""
        names = set(run.series().check())
        nodes = next(n for n in ("it_ac_power_w", "it_power_w") if n in names)
        it = (nodes, *(n for n in ("pdu_loss_w", "ups_loss_w") if n in names))
        by_role: dict[str, list[str]] = {}
        for column in run.columns:
            if column.role and column.name in names and column.name not in it:
                key = "network" if column.part == "transformers" else column.role
                by_role.setdefault(key, []).append(column.name)

        def with_roles(*roles: str) -> tuple[str, ...]:
            return tuple(name for role in roles for name in by_role.get(role, ()))

        pools = tuple(f"{nodes}.{pool}" for pool in run.scenario.facility.pools)
        return cls(
            it,
            with_roles("cooling"),
            with_roles("load", "loss"),
            with_roles("network"),
            with_roles("source", "store", "hold"),
            pools if names.issuperset(pools) else (),
        )

    def excluding(self, names: Collection[str]) -> LoadParts:
        """Return the load columns without the named ones."""
        return LoadParts(
            *(tuple(n for n in part if n not in names) for part in astuple(self))
        )

    @property
    def load(self) -> tuple[str, ...]:
        """All columns whose sum is the load."""
        return (*self.it, *self.motors, *self.rest, *self.network)

    def powers(self, columns: Mapping[str, Float64Array]) -> dict[str, Float64Array]:
        """Return the power of each component, and of each pool including losses.

        `rest` includes `network`, so that `it`, `motors` and `rest` add up to the load.
        """
        parts = {
            "it": self.it,
            "motors": self.motors,
            "rest": (*self.rest, *self.network),
            "network": self.network,
        }
        result = {name: sum_columns(columns, part) for name, part in parts.items()}
        nodes = np.maximum(sum_columns(columns, self.pools), 1e-9)
        by_pool = {
            pool_column: result["it"] * columns[pool_column] / nodes
            for pool_column in self.pools
        }
        return result | {
            pool_column.partition(".")[2]: power
            for pool_column, power in by_pool.items()
        }


def split_by_kind(
    power: Mapping[str, float], drives: float
) -> tuple[float, float, float]:
    """Split load into constant-power, direct-on-line motor, and impedance components.

    `power` is by component, as in `LoadParts.powers`. Load behind the UPS is electronic
    (constant power), and so is the fraction `drives` of the cooling, which is fed by
    variable-speed drives.
    """
    on_drives = drives * power["motors"]
    return power["it"] + on_drives, power["motors"] - on_drives, power["rest"]


def sum_columns(
    columns: Mapping[str, Float64Array], names: tuple[str, ...]
) -> Float64Array:
    """Return the sum of the named columns, or zeros without names."""
    zero = np.zeros(len(next(iter(columns.values()))))
    return np.asarray(sum((columns[name] for name in names), zero))
