"""`Load`: the interface of everything that draws power on a site's nodes.

A load yields its segments window by window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diploee.base.boundary import ErrorMaker, check_columns, check_type, named_errors
from diploee.base.column_specs import Columns
from diploee.base.errors import WorkloadError
from diploee.facility.base import Block, Values
from diploee.loads.services.instance_groups import InstanceGroup
from diploee.power.blocks import PowerBlock, PowerModel
from diploee.power.segments import Segments
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.models import Scenario


class Load(Protocol):
    """Part of a site's load.

    Loads are opened in turn. Each receives the previous load's profile library and
    appends its own profiles, so that earlier profile indices stay valid.
    """

    @property
    def columns(self) -> Columns:
        """Columns that the load adds to the series."""
        ...

    @property
    def library(self) -> ProfileLibrary:
        """Profiles of the previous loads and of this load."""
        ...

    @property
    def profile_ids(self) -> set[int]:
        """Indices of the profiles that the load's segments refer to."""
        ...

    @property
    def ac_profiles(self) -> Mapping[int, PowerProfile]:
        """Node-sum profiles at the AC input, by index, where modelled."""
        ...

    @property
    def groups(self) -> Sequence[InstanceGroup]:
        """Groups of nodes that play one profile per piece of time."""
        ...

    def between(self, begin_ms: int, end_ms: int) -> Segments:
        """Return the segments that start in a time window.

        Windows are contiguous from the start of the run.
        """
        ...

    def values(self, block: Block) -> Values:
        """Return the load's columns over a block of intervals."""
        ...

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the load's blocks of ``metrics.json``, for one pool or for all pools.

        The blocks are available after the run.
        """
        ...


OpenLoad = Callable[[Scenario, Any, ProfileLibrary], Load]
"""Opens a load with the settled scenario, the `Inputs` and the library of the loads
before it."""

WHOLE = 1e-6
"""Nodes by which a mean may be more than those that stand: rounding."""


def refusal(load: object) -> ErrorMaker:
    """Return a factory of errors that name a load or its provider."""
    name = getattr(load, "__name__", type(load).__name__)
    return lambda text: WorkloadError(f"load {name}{text}")


def open_loads(
    loads: Sequence[OpenLoad],
    scenario: Scenario,
    inputs: Any,
    library: ProfileLibrary,
    columns: Columns,
) -> Iterator[Load]:
    """Open loads in turn, each with the previous load's library.

    A load may not declare a column of another. `columns` are declared already.
    """
    taken = {column.name for column in columns}
    for i, open_load in enumerate(loads):
        if not callable(open_load):
            result = f"an object of {type(open_load).__name__}"
            raise WorkloadError(f"loads: found {result}, expected the class of a load")
        refuse = refusal(open_load)
        if any(open_load is other for other in loads[:i]):
            raise refuse(" is given twice; take one out")
        with named_errors("opening it", refuse):
            load = open_load(scenario, inputs, library)
            check_type(
                "columns", load.columns, tuple | list, "a tuple of Column", refuse
            )
            check_type(
                "library", load.library, ProfileLibrary, "a ProfileLibrary", refuse
            )
            new = [column for column in load.columns if column not in columns]
            twice = [column.name for column in new if column.name in taken]
            known = set(range(len(load.library))) >= load.profile_ids
        if twice:
            raise refuse(
                f": column '{twice[0]}' is declared twice, here and before it; give "
                "it another name"
            )
        if not known or load.library.ids[: len(library)] != library.ids:
            raise refuse(
                ": library must be library.extended([...]) of the one that it is "
                "opened with, and profile_ids indices into it"
            )
        taken |= {column.name for column in load.columns}
        library = load.library
        yield load


def load_metrics(
    loads: Iterable[Load], pool: str | None, taken: Collection[str]
) -> dict[str, Any]:
    """Return the loads' blocks of ``metrics.json``, with no name in `taken`."""
    result = dict[str, Any]()
    for load in loads:
        with named_errors("metrics", refusal(load)):
            blocks = dict(load.metrics(pool))
        if twice := blocks.keys() & {*taken, *result}:
            raise refusal(load)(
                f": metrics gives '{min(twice)}', a block of the run; rename it"
            )
        result |= blocks
    return result


class Loads:
    """Loads of a run, with a check of each load's first window or block."""

    def __init__(self, loads: Sequence[Load], model: PowerModel) -> None:
        self._loads, self._n_pools = loads, len(model.facility.pools)
        self._profile_ids = model.profile_ids
        self._has_passed = False

    def between(self, begin_ms: int, end_ms: int) -> list[Segments]:
        """Return the segments of each load that start in a time window."""
        result = []
        for load in self._loads:
            with named_errors("between", refusal(load)):
                result.append(load.between(begin_ms, end_ms))
                if not self._has_passed:
                    self._check(load, result[-1], begin_ms)
        self._has_passed = True
        return result

    def values(self, block: Block) -> dict[str, npt.NDArray[Any]]:
        """Return a block's columns together with those of all loads."""
        result = dict(block.columns)
        for load in self._loads:
            refuse = refusal(load)
            with named_errors("values", refuse):
                values = load.values(block)
                if not self._has_passed:
                    check_columns(values, load.columns, len(block), refuse)
            result |= values
        self._has_passed = True
        return result

    def _check(self, load: Load, found: Segments, begin_ms: int) -> None:
        """Raise an error for segments of another window or of an invalid form."""
        check_type("between", found, Segments, "Segments", refusal(load))
        for name, is_right, expected in (
            ("start_ms", found.start_ms >= begin_ms, "none before its window"),
            ("end_ms", found.end_ms > found.start_ms, "ends after starts"),
            ("pool_id", found.pool_id < self._n_pools, "a pool's index"),
            ("pool_id", found.pool_id >= 0, "a pool's index"),
            (
                "profile_id",
                np.isin(found.profile_id, self._profile_ids),
                "one of the loads' profile_ids",
            ),
            ("n_nodes", found.n_nodes >= 0, "0 or more"),
            ("offset_ms", found.offset_ms >= 0, "0 or more"),
            ("weight", np.isfinite(found.weight), "finite numbers"),
        ):
            if not is_right.all():
                worst = getattr(found, name)[~is_right][0]
                raise refusal(load)(
                    f": segments from {begin_ms} ms with {name} {worst}, expected "
                    f"{expected}"
                )


def refuse_overfull(
    loads: Sequence[Load], power: PowerBlock, scenario: Scenario
) -> None:
    """Raise an error if a load's busy nodes exceed the free nodes of a pool.

    Jobs and services are planned without regard to these loads.
    """
    for k, (name, pool) in enumerate(scenario.facility.pools.items() if loads else ()):
        standing = power.standing_nodes
        n_nodes = np.broadcast_to(
            pool.n_nodes if standing is None else standing[k], power.n_intervals
        )
        busy = power.mean_busy_nodes[k]
        worst = int(np.argmax(busy - n_nodes))
        if busy[worst] > n_nodes[worst] + WHOLE:
            at = scenario.clock.wall.at(power.t0_ms + worst * power.dt_ms)
            raise refusal(loads[-1])(
                f": with it {busy[worst]:,.6g} nodes of pool '{name}' are busy at "
                f"{at:%Y-%m-%d %H:%M}, of {n_nodes[worst]:,.6g}; jobs and services do "
                "not know of it: give it a pool of its own, or fewer jobs or more "
                "nodes to this one"
            )
