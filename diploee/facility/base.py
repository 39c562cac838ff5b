"""Blocks of columns, the stages on their way to the meter, and meters.

A stage reads columns of a block and adds its own; mostly it also gives
`facility_power_w` anew, the power at the place behind it. Its state is whatever it
needs of the past: it is handed over from block to block, so that results do not depend
on how a run is cut into blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field

from diploee.base.clock import RunClock
from diploee.base.columns import (
    ADDED,
    TAKEN_OFF,
    Column,
    Columns,
    Role,
    catalogue,
    find_column,
    with_boundary,
)
from diploee.base.errors import (
    Brief,
    DiploeeError,
    InputError,
    StageError,
    one_line,
    one_of,
    shown,
)
from diploee.base.metric import Metric, check_declared
from diploee.base.model import Kind, Kinds, Model, optional
from diploee.base.tables import Int64Array
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS, W_PER_MW
from diploee.facility.weather import Weather

POWER = "facility_power_w"
"""Power at the place that a block has reached; every stage may give it anew."""

REACTIVE = "facility_reactive_var"
"""Reactive power there, drawn positive; a block has it where the nodes' AC power is
modelled."""

BALANCED = 1e-6
"""Part of the power that a stage may change it by beyond what its columns say:
rounding."""

PLACES = (
    "pdu",
    "ups",
    "cooling",
    "auxiliary_load",
    "transformers",
    "point_of_interconnection",
)
"""Places in a facility, from the nodes to the meter, which is the last."""

RESERVED_PARTS = ("device", "node_overhead", "total")
"""Parts of the energy that no stage adds to."""

PART_NAME = re.compile("[a-z][a-z0-9_]*")
STAGE_NAME = "^[a-z][a-z0-9_]{0,30}$"

Values = Mapping[str, npt.NDArray[Any]]
"""Columns by name; those of a pool or service carry its name after a dot."""


@dataclass(frozen=True, eq=False)
class Block(Brief):
    """Columns over consecutive intervals."""

    t0_ms: int  # start of the first interval [ms]
    dt_ms: int  # length of each [ms]
    columns: Values  # arrays of shape (B,) by name; `facility_power_w` is always there

    def __len__(self) -> int:
        return int(self.columns[POWER].size)

    @property
    def starts_ms(self) -> Int64Array:
        """Start of each interval [ms], shape (B,)."""
        return self.t0_ms + (np.arange(len(self)) * self.dt_ms).astype(np.int64)

    @property
    def end_ms(self) -> int:
        """End of the last interval [ms]."""
        return self.t0_ms + len(self) * self.dt_ms

    def part(self, begin_ms: int, end_ms: int) -> Block:
        """Return the intervals between two times, multiples of the interval."""
        rows = slice(
            (begin_ms - self.t0_ms) // self.dt_ms, (end_ms - self.t0_ms) // self.dt_ms
        )
        return Block(
            begin_ms, self.dt_ms, {k: v[rows] for k, v in self.columns.items()}
        )


def joined(blocks: Sequence[Block]) -> Block:
    """Return adjoining blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    columns = {
        name: np.concatenate([b.columns[name] for b in blocks])
        for name in first.columns
    }
    return Block(first.t0_ms, first.dt_ms, columns)


@dataclass(frozen=True)
class SiteView(Brief):
    """The facility, as far as a stage may know it."""

    clock: RunClock  # span, interval and zone of the run
    # Power of all nodes at their ratings, as the first stage takes it in [W]: at their
    # AC input where that is modelled, else at the devices
    rated_power_w: float
    # Whether the nodes' AC power is modelled, and with it reactive power
    ac: bool = False
    weather: Weather | None = None  # weather over the run
    folder: Path = Path()  # where relative file names start from
    columns: Columns = ()  # what all its stages declare

    def with_role(self, *roles: Role) -> tuple[str, ...]:
        """Return the names of the stages' columns of some roles."""
        return tuple(column.name for column in self.columns if column.role in roles)

    def require_ac(self, kind: str) -> None:
        """Refuse a kind of stage that takes AC power where there is none."""
        if not self.ac:
            raise InputError(
                f"facility.stages: '{kind}' needs what the nodes draw at their AC "
                "input; name its model for every type of node in use, "
                "facility.node_types.<name>.ac_power"
            )

    def design_mw(self, kind: str) -> float:
        """Return what a kind of stage is built for where it has no rating [MW]."""
        self.require_ac(kind)
        if not self.rated_power_w > 0:
            raise InputError(
                f"facility.stages: '{kind}' is built for the nodes' power at their "
                f"ratings, which is {self.rated_power_w:g} W; give the nodes ratings "
                "above zero"
            )
        return self.rated_power_w / W_PER_MW


class Meter(Protocol):
    """Measures a stage over the blocks of a run.

    A sink with a part of ``metrics.json``.
    """

    def add(self, block: Block) -> None:
        """Take in a block behind all stages."""
        ...

    def values(self) -> Mapping[str, float | None]:
        """Return the values by the key of their metric."""
        ...


class Stage(Protocol):
    """A part of the facility.

    A stage that is also measured has `metrics`, the catalogue of its values in a block
    of their own, such as ``chiller.energy_mwh``, and `meter()`, which returns a new
    `Meter`. One whose power is interpolated has `interpolated_s`, the time within which
    it is [s].
    """

    @property
    def columns(self) -> Columns:
        """The columns that it adds."""
        ...

    @property
    def boundary(self) -> str | None:
        """Its part of the boundary of `facility_power_w`, in words.

        None for nothing.
        """
        ...

    def start(self) -> Any:
        """Return its state at the start of a run; None for a stage without one."""
        ...

    def apply(self, block: Block, state: Any) -> tuple[Values, Any]:
        """Return its columns over a block, and its state at the block's end.

        Parameters
        ----------
        block : Block
            What the stages before it gave.
        state : object
            Its state at the block's start; it must not be changed in place.
        """
        ...


STEPS_OF_TIME = 10
"""A start delay, ramp or lag is computed in steps of a tenth of it at most."""


def tenth_ms(*times_s: float) -> int | None:
    """Return a tenth of the shortest of some times above 0 [ms].

    None where there is none.
    """
    fast_s = min((s for s in times_s if s > 0), default=np.inf)
    if fast_s == np.inf:
        return None
    return max(round(fast_s * MS_PER_S / STEPS_OF_TIME), PROFILE_STEP_MS)


class StageSpec(Kind):
    """Settings of a stage in a scenario.

    The stage itself unless `open` makes another object.
    """

    part_of_run: ClassVar[str] = "stage"
    columns: ClassVar[Columns] = ()
    """The columns that the stage adds."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """The metrics that it is measured by."""
    boundary: ClassVar[str | None] = None
    place: ClassVar[str | None] = None
    """Where it must stand, of `PLACES`; None for anywhere before the meter."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files that it reads, as the scenario names them."""
        return ()

    def open(self, site: SiteView) -> Any:  # noqa: ARG002
        """Return the stage as it stands in a facility."""
        return self

    def needed_step_ms(self) -> int | None:
        """Return the coarsest step at which it can be computed [ms]; None for any."""
        return None

    def start(self) -> Any:
        """Return its state at the start of a run; none."""
        return None


class Nameable(Model):
    """Settings of a stage of which a site may have several."""

    name: Annotated[str, Field(pattern=STAGE_NAME)] | None = optional(
        "Name where a site has several of its kind; it stands before those of its "
        "columns and metrics, as in second_battery_power_w."
    )


class NamedStage:
    """A stage, or what a scenario says of it, whose columns and metrics begin with its name."""  # noqa: E501

    def __init__(self, stage: Any, name: str) -> None:
        self._stage, self._name = stage, name
        self.kind, self.boundary = f"{name} {stage.kind}", f"{stage.boundary} ({name})"
        self.columns = tuple(
            replace(c, name=f"{name}_{c.name}", text=f"{c.text} ({name})")
            for c in stage.columns
        )
        self.metrics = tuple(
            replace(m, key=f"{name}_{m.key}", label=f"{m.label} ({name})")
            for m in stage.metrics
        )
        self.interpolated_s = interpolated_s([stage])

    def start(self) -> Any:
        """Return its state at the start of a run."""
        return self._stage.start()

    def apply(self, block: Block, state: Any) -> tuple[Values, Any]:
        """Return its columns over a block, and its state at the block's end."""
        values, after = self._stage.apply(block, state)
        return {
            k if k == POWER else f"{self._name}_{k}": v for k, v in values.items()
        }, after

    def meter(self) -> Meter:
        """Return what measures it."""
        return _NamedMeter(self._stage, self._name)


class _NamedMeter:
    def __init__(self, stage: Any, name: str) -> None:
        self._columns, self._meter, self._name = stage.columns, stage.meter(), name

    def add(self, block: Block) -> None:
        own = {c.name: block.columns[f"{self._name}_{c.name}"] for c in self._columns}
        self._meter.add(Block(block.t0_ms, block.dt_ms, {**block.columns, **own}))

    def values(self) -> dict[str, float | None]:
        return {f"{self._name}_{key}": of for key, of in self._meter.values().items()}


def named(stage: Any, spec: StageSpec) -> Any:
    """Return a stage under the name that its spec has, if any."""
    return (
        NamedStage(stage, spec.name)
        if isinstance(spec, Nameable) and spec.name
        else stage
    )


def interpolated_s(stages: Iterable[object]) -> float:
    """Return the longest time within which the power of a stage is interpolated [s].

    0 for none.
    """
    return max(
        (float(getattr(stage, "interpolated_s", 0.0)) for stage in stages), default=0.0
    )


class Stages:
    """The stages of a run in their order, from the devices on."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)
        for stage in self._stages:
            if isinstance(stage, type):
                name = stage.__name__
                raise StageError(
                    f"stages: found the class {name}, expected an object: {name}(...)"
                )
            _check_shape(stage)

    def __bool__(self) -> bool:
        return bool(self._stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics that the measured stages declare."""
        measured = (stage for stage in self._stages if hasattr(stage, "meter"))
        return tuple(
            metric for stage in measured for metric in getattr(stage, "metrics", ())
        )

    def by_name(self) -> dict[str, Stage]:
        """Return the stages by their kinds; objects of one class are numbered."""
        names = [
            str(getattr(stage, "kind", type(stage).__name__)) for stage in self._stages
        ]
        repeated = (
            f" {names[:i].count(n) + 1}" * (names.count(n) > 1)
            for i, n in enumerate(names)
        )
        return dict(zip(map(str.__add__, names, repeated), self._stages, strict=True))

    def extend(self, columns: Columns) -> Columns:
        """Return a catalogue with the stages' columns, and the power's place."""
        for stage in self._stages:
            _check_roles(stage)
            have = {column.name for column in columns}
            if twice := [
                column.name for column in stage.columns if column.name in have
            ]:
                raise StageError(
                    f"stage {type(stage).__name__}: column '{twice[0]}' is declared "
                    "twice, here and to the left of it; give it another name, or "
                    "take a stage out"
                )
            columns = catalogue(columns, stage.columns)
            if stage.boundary is not None:
                for name in {POWER, REACTIVE} & have:
                    before = find_column(name, columns)[0].boundary
                    columns = with_boundary(
                        columns, name, f"{before}, {stage.boundary}"
                    )
        return columns

    def start(self) -> tuple[Any, ...]:
        """Return the states at the start of a run."""
        return tuple(called(stage, "start") for stage in self._stages)

    def apply(
        self, block: Block, states: Sequence[Any]
    ) -> tuple[Block, tuple[Any, ...]]:
        """Take a block through all stages.

        Returns it with their columns, and their states.
        """
        after = []
        for stage, state in zip(self._stages, states, strict=True):
            found = called(stage, "apply", for_reading(stage, block), state)
            if not (
                isinstance(found, tuple)
                and len(found) == 2
                and isinstance(found[0], Mapping)
            ):
                raise StageError(
                    f"stage {type(stage).__name__}: apply must return its columns by "
                    f"name and its state, found {one_line(shown(found))}"
                )
            added = checked_columns(
                found[0],
                stage.columns,
                len(block),
                _stage_error(stage),
                (POWER, REACTIVE),
            )
            _check_balance(stage, added, block)
            block = Block(block.t0_ms, block.dt_ms, {**block.columns, **added})
            after.append(found[1])
        return block, tuple(after)

    def through(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Take consecutive blocks from the start of a run through all stages."""
        states = self.start()
        for block in blocks:
            passed, states = self.apply(block, states)
            yield passed


def check_order(stages: Sequence[object]) -> None:
    """Refuse stages, or their specs, that do not stand as in `PLACES`."""
    farthest, at = "", -1
    for i, stage in enumerate(stages):
        name = getattr(stage, "kind", type(stage).__name__)
        place = getattr(stage, "place", None)
        if place is not None and place not in PLACES:
            raise StageError(
                f"facility.stages.{i}: '{name}' has the place "
                f"{one_line(shown(place))}, expected {one_of(PLACES)} or None"
            )
        rank = PLACES.index(place) if place is not None else at
        if rank < at or at == len(PLACES) - 1:
            raise StageError(
                f"facility.stages.{i}: '{name}' must not stand behind '{farthest}'; "
                f"the order is {', '.join(PLACES)}, which is the last"
            )
        if rank > at:
            farthest, at = name, rank


def _check_shape(stage: Stage) -> None:
    """Refuse a stage that does not declare its columns and its boundary as expected."""
    check_declared_columns(getattr(stage, "columns", None), _stage_error(stage))
    boundary = getattr(stage, "boundary", 0)
    if not isinstance(boundary, str | None):
        found = (
            one_line(shown(boundary))
            if hasattr(stage, "boundary")
            else "no such attribute"
        )
        raise _stage_error(stage)(f": boundary must be text or None, found {found}")


def check_declared_columns(columns: object, error: Refusal) -> None:
    """Refuse columns of a stage or load that are not declared as expected."""
    if not isinstance(columns, tuple | list) or not all(
        isinstance(c, Column) for c in columns
    ):
        raise error(
            f": columns must be a tuple of Column, found {one_line(shown(columns))}"
        )
    for column in columns:
        if column.per not in (owners := ("facility", "pool", "service")):
            found = one_line(shown(column.per))
            raise error(
                f": column '{column.name}' is per {found}, expected {one_of(owners)}"
            )


def _check_roles(stage: Stage) -> None:
    """Refuse roles and parts that a stage's columns can't have."""
    for column in (column for column in stage.columns if column.role is not None):
        found = f"stage {type(stage).__name__}: column '{column.name}'"
        if column.role not in (roles := (*ADDED, *TAKEN_OFF)):
            raise StageError(
                f"{found} has the role {one_line(shown(column.role))}, expected one of "
                f"{one_of(roles)}; 'device' and 'overhead' are the nodes' own"
            )
        if column.unit != "W" or column.per != "facility":
            raise StageError(
                f"{found} has a role and is of {column.unit} per {column.per}; roles "
                "are of powers of the whole facility [W]: leave it out"
            )
        part = column.part
        if part is not None and (
            part in RESERVED_PARTS or not PART_NAME.fullmatch(part)
        ):
            raise StageError(
                f"{found} counts to the part '{part}' of the energy; name it by "
                f"lower-case letters, digits and _, and not {one_of(RESERVED_PARTS)}"
            )


def _check_balance(stage: Stage, added: Values, block: Block) -> None:
    """Refuse a change of power that the stage's columns do not add up to."""
    own = [c for c in stage.columns if c.role is not None and c.name in added]
    before_w = block.columns[POWER]
    after_w = added.get(POWER, before_w)
    gap_w = after_w - before_w - sum(c.sign * added[c.name] for c in own)
    worst_w, most_w = (
        float(np.abs(w).max(initial=0)) for w in (gap_w, [before_w, after_w])
    )
    if worst_w > BALANCED * most_w:
        named = ": " + ", ".join(f"'{c.name}' ({c.role})" for c in own)
        raise StageError(
            f"stage {type(stage).__name__} changes {POWER} by up to {worst_w:.4g} W "
            "more or less than its columns "
            f"say{named if own else ', of which none has a role'}; declare what it "
            f"adds as columns with role {one_of(ADDED)}, and what it takes off as "
            f"{one_of(TAKEN_OFF)}, such as Column(..., role='source', "
            "part='generator')"
        )


Refusal = Callable[[str], InputError]
"""Makes an error of what is wrong with a stage or load, which it names."""


def _stage_error(stage: Stage) -> Refusal:
    """Return what makes an error that names a stage."""
    return lambda text: StageError(f"stage {type(stage).__name__}{text}")


@contextmanager
def naming(of: object, doing: str, error: Refusal) -> Iterator[None]:
    """Make an error that names it of whatever code from outside raises."""
    try:
        yield
    except Exception as raised:
        if isinstance(raised, DiploeeError) or not is_outside(of):
            raise
        why = one_line(f"{type(raised).__name__}: {raised}")
        raise error(f": {doing} raised {why}") from raised


def called(stage: Stage, method: str, *arguments: Any, of: Meter | None = None) -> Any:
    """Call a stage, or its meter; an error of one from outside names it."""
    whose = "" if of is None else "its meter's "
    with naming(stage, f"{whose}{method}", _stage_error(stage)):
        return getattr(stage if of is None else of, method)(*arguments)


def is_outside(of: object) -> bool:
    """Return whether an object, class or function is not of the package."""
    return not str(of.__module__).startswith("diploee.")


def for_reading(stage: object, block: Block) -> Block:
    """Return a block that a stage or load from outside can't write."""
    if not is_outside(stage):
        return block
    columns = {name: values.view() for name, values in block.columns.items()}
    for values in columns.values():
        values.flags.writeable = False
    return Block(block.t0_ms, block.dt_ms, MappingProxyType(columns))


def checked_columns(
    given: Values,
    columns: Columns,
    n_values: int,
    error: Refusal,
    more: tuple[str, ...] = (),
) -> dict[str, npt.NDArray[Any]]:
    """Return a stage's or load's checked columns, powers in double precision.

    It gives those that it declares, and may give `more`, which are powers.
    """
    own = {column.name for column in columns}
    declared = own.union(more)
    powers = {column.name for column in columns if column.role}.union(more)
    added = {}
    for written, of_one in given.items():
        if str(written).partition(".")[0] not in declared:
            raise error(
                f" gives column '{written}', which it does not declare (declared: "
                f"{one_of(sorted(declared))}); add it to its columns"
            )
        try:
            values = np.asanyarray(of_one)
        except ValueError:  # rows of several lengths
            values = np.array(None)
        if values.shape != (n_values,):
            raise error(
                f" gives column '{written}' of shape {values.shape}, expected "
                f"({n_values},): one value per interval of the block"
            )
        if (kind := values.dtype).kind not in "bfiu":
            raise error(f" gives column '{written}' of {kind}, expected numbers")
        if not np.isfinite(values).all():
            raise error(f" gives values of '{written}' that are not finite")
        added[written] = np.asarray(values, np.float64 if written in powers else None)
    if missing := own - {str(written).partition(".")[0] for written in added}:
        raise error(
            f" lacks column '{min(missing)}', which it declares; give it in every block"
        )
    return added


STAGES: Kinds[StageSpec] = Kinds("stage", StageSpec, "diploee.facility")
"""Stages by name: one module of this package each, and those registered from outside."""  # noqa: E501


class StageMeters:
    """The meters of all stages that have one, as one sink.

    `taken` blocks are not a stage's own.

    Raises
    ------
    StageError
        If a stage declares a metric in such a block, or one that another stage has.
    """

    def __init__(self, stages: Iterable[Stage], taken: Collection[str]) -> None:
        self._meters: list[tuple[Any, Meter]] = [
            (stage, called(stage, "meter"))
            for stage in stages
            if hasattr(stage, "meter")
        ]
        seen: set[str] = set()
        for stage, meter in self._meters:
            if not (hasattr(meter, "add") and hasattr(meter, "values")):
                _fail(
                    stage,
                    f"has a meter without add or values: {one_line(shown(meter))}",
                )
            for key in (metric.key for metric in stage.metrics):
                block, _, name = key.partition(".")
                if key in seen or block in taken or not name:
                    _fail(
                        stage,
                        f"declares metric '{key}'; name it as in 'chiller.energy_mwh', "
                        "with a block that no other part of a run has",
                    )
                seen.add(key)

    def add(self, block: Block) -> None:
        """Take in a block behind all stages."""
        for stage, meter in self._meters:
            called(stage, "add", block, of=meter)

    def blocks(self) -> dict[str, dict[str, float | None]]:
        """Return the metrics, a block for each first part of their keys.

        Refuse undeclared ones.
        """
        found: dict[str, dict[str, float | None]] = {}
        for stage, meter in self._meters:
            values = called(stage, "values", of=meter)
            check_declared(values.items(), stage.metrics, partial(_fail, stage))
            for key, value in values.items():
                block, _, name = key.partition(".")
                found.setdefault(block, {})[name] = value
        return found


def _fail(stage: Stage, text: str) -> NoReturn:
    raise StageError(f"stage {type(stage).__name__} {text}")
