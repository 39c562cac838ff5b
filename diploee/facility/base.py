"""Blocks of columns, the stages on their way to the meter, and meters.

A stage reads columns of a block and adds its own; mostly it also gives
`facility_power_w` anew, the power at the place behind it. Its state is whatever it
needs of the past: it is handed over from block to block, so that results do not depend
on how a run is cut into blocks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field

from diploee.base.boundary import Refusal, check_kind, check_values, naming
from diploee.base.clock import RunClock
from diploee.base.column_specs import (
    ADDED,
    TAKEN_OFF,
    Columns,
    Role,
    catalogue,
    find_column,
    with_boundary,
)
from diploee.base.errors import (
    Brief,
    InputError,
    StageError,
    one_line,
    one_of,
    shown,
)
from diploee.base.metric import Metric, check_declared
from diploee.base.model import Kind, Kinds, Model, optional
from diploee.base.tables import Int64Array
from diploee.base.units import MS_PER_H, MS_PER_S, PROFILE_STEP_MS, W_PER_MW
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
        self._stages, self._has_passed = tuple(stages), False
        for stage in self._stages:
            if isinstance(stage, type):
                name = stage.__name__
                raise StageError(
                    f"stages: found the class {name}, expected an object: {name}(...)"
                )
            for name, kind, expected in _DECLARED:
                check_kind(
                    name, getattr(stage, name, 0), kind, expected, refusal(stage)
                )

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
        return tuple(stage.start() for stage in self._stages)

    def apply(
        self, block: Block, states: Sequence[Any]
    ) -> tuple[Block, tuple[Any, ...]]:
        """Take a block through all stages.

        Returns it with their columns, and their states.
        """
        after = []
        for stage, state in zip(self._stages, states, strict=True):
            refuse = refusal(stage, block)
            powers = {column.name for column in stage.columns if column.role}
            with naming("apply", refuse):
                given, state_after = stage.apply(block, state)
                added = {
                    name: np.asarray(
                        of, np.float64 if name in {*powers, POWER, REACTIVE} else None
                    )
                    for name, of in given.items()
                }
            if not self._has_passed:
                check_values(
                    added, stage.columns, len(block), refuse, (POWER, REACTIVE)
                )
            _check_balance(stage, added, block, refuse)
            block = Block(block.t0_ms, block.dt_ms, {**block.columns, **added})
            after.append(state_after)
        self._has_passed = True
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


_DECLARED: tuple[tuple[str, Any, str], ...] = (
    ("columns", tuple | list, "a tuple of Column"),
    ("boundary", str | None, "text or None"),
)


def refusal(stage: Stage, block: Block | None = None) -> Refusal:
    """Return what makes an error that names a stage, and a block."""
    at = f" (block from {block.t0_ms / MS_PER_H:,.4g} h of the run)" if block else ""
    return lambda text: StageError(f"stage {type(stage).__name__}{text}{at}")


def _check_roles(stage: Stage) -> None:
    """Refuse roles and parts that a stage's columns can't have."""
    roles = (*ADDED, *TAKEN_OFF)
    for c in (column for column in stage.columns if column.role is not None):
        part = c.part or "other"
        if (
            (c.role not in roles)
            or (c.unit, c.per) != ("W", "facility")
            or part in RESERVED_PARTS
            or not PART_NAME.fullmatch(part)
        ):
            raise refusal(stage)(
                f": column '{c.name}' has the role {one_line(shown(c.role))}, part "
                f"'{part}', and is of {c.unit} per {c.per}; a role is one of "
                f"{one_of(roles)}, of powers of the whole facility [W], and a part is "
                f"lower-case letters, digits and _, and not {one_of(RESERVED_PARTS)}"
            )


def _check_balance(stage: Stage, added: Values, block: Block, refuse: Refusal) -> None:
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
        raise refuse(
            f" changes {POWER} by up to {worst_w:.4g} W more or less than its columns "
            f"say{named if own else ', of which none has a role'}; declare what it "
            f"adds as columns with role {one_of(ADDED)}, and what it takes off as "
            f"{one_of(TAKEN_OFF)}, such as Column(..., role='source', "
            "part='generator')"
        )


STAGES: Kinds[StageSpec] = Kinds("stage", StageSpec, "diploee.facility")
"""Stages by name: one module of this package each, and those registered."""


class StageMeters:
    """The meters of all stages that have one, as one sink.

    `taken` blocks are not a stage's own.

    Raises
    ------
    StageError
        If a stage declares a metric in such a block, or one that another stage has.
    """

    def __init__(self, stages: Iterable[Stage], taken: Collection[str]) -> None:
        self._meters: list[tuple[Any, Meter]] = []
        seen = set[str]()
        measured: list[Any] = [stage for stage in stages if hasattr(stage, "meter")]
        for stage in measured:
            with naming("meter", refusal(stage)):
                self._meters.append((stage, stage.meter()))
                keys = [metric.key for metric in stage.metrics]
            for key in keys:
                block, _, name = key.partition(".")
                if key in seen or block in taken or not name:
                    raise refusal(stage)(
                        f" declares metric '{key}'; name it as in 'chiller.energy_mwh'"
                        ", with a block that no other part of a run has"
                    )
                seen.add(key)

    def add(self, block: Block) -> None:
        """Take in a block behind all stages."""
        for stage, meter in self._meters:
            with naming("its meter's add", refusal(stage, block)):
                meter.add(block)

    def blocks(self) -> dict[str, dict[str, float | None]]:
        """Return the metrics, a block for each first part of their keys.

        Refuse undeclared ones.
        """
        result: dict[str, dict[str, float | None]] = {}
        for stage, meter in self._meters:
            with naming("its meter's values", refusal(stage)):
                values = dict(meter.values())
            check_declared(values.items(), stage.metrics, refusal(stage))
            for key, value in values.items():
                block, _, name = key.partition(".")
                result.setdefault(block, {})[name] = value
        return result
