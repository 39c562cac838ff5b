"""`Load`: what draws power on a site's nodes, as segments by window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from diploee.base.columns import Columns
from diploee.base.errors import WorkloadError, one_line, one_of, shown
from diploee.base.metric import is_number
from diploee.base.tables import MAX_SIZE, concat
from diploee.facility.base import (
    Block,
    Values,
    check_declared_columns,
    checked_columns,
    for_reading,
    is_outside,
    naming,
)
from diploee.loads.services.banks import Bank
from diploee.power.blocks import PowerBlock
from diploee.power.segments import Segments
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.models import Scenario


class Load(Protocol):
    """A part of a site's load.

    Loads are opened one after the other, each with the library of the one before,
    behind whose profiles it puts its own: indices stay what they are.
    """

    @property
    def columns(self) -> Columns:
        """Columns that it adds to the series."""
        ...

    @property
    def library(self) -> ProfileLibrary:
        """Profiles of the loads before it and its own."""
        ...

    @property
    def profile_ids(self) -> set[int]:
        """Indices of the profiles that its segments refer to."""
        ...

    @property
    def ac_profiles(self) -> Mapping[int, PowerProfile]:
        """Those that are sums over nodes, at their AC input where modelled."""
        ...

    @property
    def banks(self) -> Sequence[Bank]:
        """Its nodes of one profile each piece, planned for the run."""
        ...

    def between(self, begin_ms: int, end_ms: int) -> Segments:
        """Return the segments that start in a window.

        Windows adjoin from the start of a run.
        """
        ...

    def values(self, block: Block) -> Values:
        """Return its columns over a block."""
        ...

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return its blocks of ``metrics.json``, of one pool or of all.

        Known after the run.
        """
        ...


OpenLoad = Callable[[Scenario, Any, ProfileLibrary], Load]
"""Opens a load with the settled scenario, the `Inputs` and the library of the loads
before it."""

WHOLE = 1e-6
"""Nodes by which a mean may be more than those that stand: rounding."""

_ATTRIBUTES = ("columns", "library", "profile_ids", "ac_profiles", "banks")
_METHODS = ("between", "values", "metrics")


def open_loads(
    loads: Sequence[OpenLoad],
    scenario: Scenario,
    inputs: Any,
    library: ProfileLibrary,
    columns: Columns,
    blocks: Collection[str],
) -> Iterator[Load]:
    """Open loads one after the other.

    One from outside must not take a column or block of others. `columns` are declared
    before them, and `blocks` those of ``metrics.json`` that have an owner.
    """
    taken = {column.name for column in columns}
    for i, open_load in enumerate(loads):
        if not callable(open_load):
            found = f"an object of {type(open_load).__name__}"
            raise WorkloadError(f"loads: found {found}, expected the class of a load")
        name = getattr(open_load, "__name__", type(open_load).__name__)
        if any(open_load is other for other in loads[:i]):
            raise WorkloadError(f"loads: load {name} is given twice; take one out")
        with naming(open_load, "opening it", partial(_error, name)):
            load = open_load(scenario, inputs, library)
        if is_outside(load):
            load = _OutsideLoad(load, scenario, library, taken, blocks)
            taken |= {column.name for column in load.columns}
        library = load.library
        yield load


def _error(name: str, text: str) -> WorkloadError:
    return WorkloadError(f"load {name}{text}")


def refuse_overfull(
    loads: Iterable[Load], power: PowerBlock, scenario: Scenario
) -> None:
    """Refuse loads from outside that take nodes which others hold."""
    outside = [
        type(load._load).__name__ for load in loads if isinstance(load, _OutsideLoad)
    ]
    if not outside:
        return
    standing = power.standing_nodes
    for k, (name, pool) in enumerate(scenario.facility.pools.items()):
        n_nodes = (
            np.full(power.n_intervals, pool.n_nodes)
            if standing is None
            else standing[k]
        )
        busy = power.mean_busy_nodes[k]
        worst = int(np.argmax(busy - n_nodes))
        if busy[worst] > n_nodes[worst] + WHOLE:
            at = scenario.clock.wall.at(power.t0_ms + worst * power.dt_ms)
            raise _error(
                ", ".join(outside),
                (
                    f": with it {busy[worst]:,.6g} nodes of pool '{name}' are busy at "
                    f"{at:%Y-%m-%d %H:%M}, of {n_nodes[worst]:,.6g}; jobs and "
                    "services do not know of it: give it a pool of its own, or fewer "
                    "jobs or more nodes to this one"
                ),
            )


class _OutsideLoad:
    """A load from outside, checked, with errors that name it."""

    def __init__(
        self,
        load: Load,
        scenario: Scenario,
        before: ProfileLibrary,
        taken: Collection[str],
        blocks: Collection[str],
    ) -> None:
        self._load, self._blocks, facility = load, blocks, scenario.facility
        self._nodes = {
            name: p.n_nodes * facility.slots[name] for name, p in facility.pools.items()
        }
        for name in (*_ATTRIBUTES, *_METHODS):
            if not hasattr(load, name):
                raise self._error(
                    f" has no '{name}'; a load has {one_of(_ATTRIBUTES)} and the "
                    f"methods {one_of(_METHODS)}"
                )
        check_declared_columns(load.columns, self._error)
        self.columns = tuple(load.columns)
        if twice := [column.name for column in self.columns if column.name in taken]:
            raise self._error(
                f": column '{twice[0]}' is declared twice, here and before it; give "
                "it another name"
            )
        self.library, self.ac_profiles = load.library, load.ac_profiles
        if (
            not isinstance(self.library, ProfileLibrary)
            or self.library.ids[: len(before)] != before.ids
        ):
            raise self._error(
                ": library must be library.extended([...]) of the one that it is "
                f"opened with, found {one_line(shown(self.library))}"
            )
        self.profile_ids = set(load.profile_ids)
        if unknown := self.profile_ids - set(range(len(self.library))):
            found = one_line(shown(next(iter(unknown))))
            raise self._error(
                f": profile_ids has {found}, expected indices into its library of "
                f"{len(self.library)} profiles; extend it by those that it plays"
            )
        self.banks = load.banks
        if not isinstance(self.banks, tuple | list) or not all(
            isinstance(bank, Bank) for bank in self.banks
        ):
            raise self._error(
                f": banks must be a list of Bank, found {shown(self.banks)}"
            )
        for of in (bank.of for bank in self.banks):
            if not isinstance(getattr(of, "stream", None), str) or (
                getattr(of, "pool", None) not in self._nodes
            ):
                raise self._error(
                    ": what a bank is 'of' needs stream, a text, and pool, one of "
                    f"{one_of(self._nodes)}"
                )
            with naming(load, "mean_replicas", self._error):
                mean = of.mean_replicas(0, scenario.horizon_ms)
            if not is_number(mean, 0, MAX_SIZE):
                raise self._error(
                    ": mean_replicas must return a number from 0 on, found "
                    f"{one_line(shown(mean))}"
                )
        of_banks = (bank.segments(None, None) for bank in self.banks)
        self._check_segments(concat([Segments.empty(), *of_banks]))

    def between(self, begin_ms: int, end_ms: int) -> Segments:
        """Return the segments that start in a window."""
        with naming(self._load, "between", self._error):
            found = self._load.between(begin_ms, end_ms)
        if not isinstance(found, Segments):
            raise self._error(
                f": between must return Segments, found {one_line(shown(found))}"
            )
        if (
            len(found)
            and not begin_ms <= found.start_ms.min() <= found.start_ms.max() < end_ms
        ):
            raise self._error(
                f": between({begin_ms}, {end_ms}) gives segments that start from "
                f"{found.start_ms.min()} to {found.start_ms.max()} ms; give those of "
                "the window"
            )
        self._check_segments(found)
        return found

    def values(self, block: Block) -> Values:
        """Return its columns over a block."""
        with naming(self._load, "values", self._error):
            found = self._load.values(for_reading(self._load, block))
        if not isinstance(found, Mapping):
            raise self._error(
                f": values must return columns by name, found {shown(found)}"
            )
        return checked_columns(found, self.columns, len(block), self._error)

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return its blocks of ``metrics.json``."""
        with naming(self._load, "metrics", self._error):
            found = self._load.metrics(pool)
        if not isinstance(found, Mapping):
            raise self._error(
                f": metrics must return blocks by name, found {shown(found)}"
            )
        if taken := sorted(str(name) for name in found if name in self._blocks):
            raise self._error(
                f": metrics gives '{taken[0]}', a block of the run; rename it"
            )
        return dict(found)

    def _error(self, text: str) -> WorkloadError:
        return _error(type(self._load).__name__, text)

    def _check_segments(self, segments: Segments) -> None:
        """Refuse segments without a sum of power, or beyond their pool's nodes."""
        if not len(segments):
            return
        n_pools, known = len(self._nodes), np.zeros(len(self.library), np.bool_)
        known[list(self.profile_ids)] = True
        pool_id, profile_id = segments.pool_id, segments.profile_id
        if pool_id.min() < 0 or pool_id.max() >= n_pools:
            worst = pool_id.min() if pool_id.min() < 0 else pool_id.max()
            raise self._error(
                f": pool_id {worst}, expected 0 to {n_pools - 1}, a pool's index"
            )
        within = (profile_id >= 0) & (profile_id < known.size)
        if not (within.all() and known[profile_id].all()):
            worst = profile_id[~(within & known[np.where(within, profile_id, 0)])][0]
            raise self._error(
                f": plays profile {worst}, expected one of its profile_ids "
                f"({one_of(sorted(self.profile_ids))}) in its library of {known.size} "
                "profiles"
            )
        for name, is_right, expected in (
            ("end_ms", segments.end_ms > segments.start_ms, "ends after starts"),
            ("n_nodes", segments.n_nodes >= 0, "0 or more"),
            ("offset_ms", segments.offset_ms >= 0, "0 or more"),
            ("weight", np.isfinite(segments.weight), "finite numbers"),
        ):
            if not is_right.all():
                worst = getattr(segments, name)[~is_right][0]
                raise self._error(
                    f": segments with {name} {worst}, expected {expected}"
                )
        for index, (name, most) in enumerate(self._nodes.items()):
            rows = segments.take(pool_id == index)
            times_ms = np.concatenate([rows.start_ms, rows.end_ms])
            change = np.concatenate([rows.n_nodes, -rows.n_nodes]).astype(np.int64)
            busy = int(np.cumsum(change[np.lexsort((change, times_ms))]).max(initial=0))
            if busy > most:
                raise self._error(
                    f": {busy} nodes of pool '{name}' at once, which has {most}"
                )
