"""`Load`: the interface of jobs, services and other loads on a site's nodes.

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
    """Protocol of a part of a site's load.

    Loads are opened in turn. Each receives the previous load's profile library and
    appends its own profiles, so that earlier profile indices stay valid.
    """

    @property
    def columns(self) -> Columns:
        """Columns that the load adds to the time series."""
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
        """Profiles of several nodes at the AC input, by index, if modeled."""
        ...

    @property
    def groups(self) -> Sequence[InstanceGroup]:
        """Groups of nodes that replay one profile at a time."""
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
"""Function that opens a load, from the final scenario, the `Inputs` and the library of
the loads before it."""

WHOLE = 1e-6
"""Maximum rounding error by which mean busy nodes may exceed the installed nodes."""


def load_error(load: object) -> ErrorMaker:
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

    No load may declare a column of another one, or one of `columns`.
    """
    column_names = {column.name for column in columns}
    for i, open_load in enumerate(loads):
        if not callable(open_load):
            found = f"an object of {type(open_load).__name__}"
            raise WorkloadError(f"loads: found {found}, expected the class of a load")
        make_error = load_error(open_load)
        if any(open_load is other for other in loads[:i]):
            raise make_error(" is given twice; take one out")
        with named_errors("opening it", make_error):
            load = open_load(scenario, inputs, library)
            check_type(
                "columns", load.columns, tuple | list, "a tuple of Column", make_error
            )
            check_type(
                "library", load.library, ProfileLibrary, "a ProfileLibrary", make_error
            )
            new = [column for column in load.columns if column not in columns]
            duplicates = [column.name for column in new if column.name in column_names]
            has_valid_ids = set(range(len(load.library))) >= load.profile_ids
        if duplicates:
            raise make_error(
                f": column '{duplicates[0]}' is declared twice, here and before it; "
                "give it another name"
            )
        if not has_valid_ids or load.library.ids[: len(library)] != library.ids:
            raise make_error(
                ": library must be library.extended([...]) of the one that it is "
                "opened with, and profile_ids indices into it"
            )
        column_names |= {column.name for column in load.columns}
        library = load.library
        yield load


def load_metrics(
    loads: Iterable[Load], pool: str | None, used_names: Collection[str]
) -> dict[str, Any]:
    """Return the loads' blocks of ``metrics.json``.

    Blocks with a name in `used_names` raise an error.
    """
    result = dict[str, Any]()
    for load in loads:
        with named_errors("metrics", load_error(load)):
            blocks = dict(load.metrics(pool))
        if duplicates := blocks.keys() & {*used_names, *result}:
            raise load_error(load)(
                f": metrics gives '{min(duplicates)}', a block of the run; rename it"
            )
        result |= blocks
    return result


class Loads:
    """All loads of a run, with checks of each load's first window or block."""

    def __init__(self, loads: Sequence[Load], model: PowerModel) -> None:
        self._loads, self._n_pools = loads, len(model.facility.pools)
        self._profile_ids = model.profile_ids
        self._is_checked = False

    def between(self, begin_ms: int, end_ms: int) -> list[Segments]:
        """Return the segments of each load that start in a time window."""
        result = []
        for load in self._loads:
            with named_errors("between", load_error(load)):
                result.append(load.between(begin_ms, end_ms))
                if not self._is_checked:
                    self._check(load, result[-1], begin_ms)
        self._is_checked = True
        return result

    def values(self, block: Block) -> dict[str, npt.NDArray[Any]]:
        """Return a block's columns together with the columns of all loads."""
        result = dict(block.columns)
        for load in self._loads:
            make_error = load_error(load)
            with named_errors("values", make_error):
                values = load.values(block)
                if not self._is_checked:
                    check_columns(values, load.columns, len(block), make_error)
            result |= values
        self._is_checked = True
        return result

    def _check(self, load: Load, segments: Segments, begin_ms: int) -> None:
        """Raise an error for segments of another window or with invalid values."""
        check_type("between", segments, Segments, "Segments", load_error(load))
        for name, is_valid, expected in (
            ("start_ms", segments.start_ms >= begin_ms, "none before its window"),
            ("end_ms", segments.end_ms > segments.start_ms, "ends after starts"),
            ("pool_id", segments.pool_id < self._n_pools, "a pool's index"),
            ("pool_id", segments.pool_id >= 0, "a pool's index"),
            (
                "profile_id",
                np.isin(segments.profile_id, self._profile_ids),
                "one of the loads' profile_ids",
            ),
            ("n_nodes", segments.n_nodes >= 0, "0 or more"),
            ("offset_ms", segments.offset_ms >= 0, "0 or more"),
            ("weight", np.isfinite(segments.weight), "finite numbers"),
        ):
            if not is_valid.all():
                bad_value = getattr(segments, name)[~is_valid][0]
                raise load_error(load)(
                    f": segments from {begin_ms} ms with {name} {bad_value}, expected "
                    f"{expected}"
                )


def check_free_nodes(
    loads: Sequence[Load], power: PowerBlock, scenario: Scenario
) -> None:
    """Raise an error if loads occupy more nodes than a pool has.

    Jobs and services are planned without regard to these loads.
    """
    for k, (name, pool) in enumerate(scenario.facility.pools.items() if loads else ()):
        installed = power.installed_nodes
        n_nodes = np.broadcast_to(
            pool.n_nodes if installed is None else installed[k], power.n_intervals
        )
        busy = power.mean_busy_nodes[k]
        row = int(np.argmax(busy - n_nodes))
        if busy[row] > n_nodes[row] + WHOLE:
            time = scenario.clock.wall.at(power.t0_ms + row * power.dt_ms)
            raise load_error(loads[-1])(
                f": with it {busy[row]:,.6g} nodes of pool '{name}' are busy at "
                f"{time:%Y-%m-%d %H:%M}, of {n_nodes[row]:,.6g}; jobs and services do "
                "not know of it: give it a pool of its own, or fewer jobs or more "
                "nodes to this one"
            )
