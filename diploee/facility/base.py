"""Base classes of the facility chain: blocks of columns, stages and meters.

A stage reads columns of a block and adds its own; most stages also replace
`facility_power_w` by the power after the stage. State is passed from block to block, so
that results do not depend on how a run is cut into blocks.
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

from diploee.base.boundary import ErrorMaker, check_columns, check_type, named_errors
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
"""Column of the power at the present point of the chain, which stages may replace."""

REACTIVE = "facility_reactive_var"
"""Column of the reactive power at that point, consumption positive; present if the
nodes' AC power is modelled."""

BALANCED = 1e-6
"""Relative tolerance of the power balance of a stage: rounding."""

PLACES = (
    "pdu",
    "ups",
    "cooling",
    "auxiliary_load",
    "transformers",
    "point_of_interconnection",
)
"""Positions in the facility chain, from the nodes to the meter."""

RESERVED_PARTS = ("device", "node_overhead", "total")
"""Categories of energy that no stage may add to."""

PART_NAME = re.compile("[a-z][a-z0-9_]*")
STAGE_NAME = "^[a-z][a-z0-9_]{0,30}$"

Values = Mapping[str, npt.NDArray[Any]]
"""Columns by name; a column of a pool or service has its name after a dot."""


@dataclass(frozen=True, eq=False)
class Block(Brief):
    """Columns of power and other quantities over consecutive intervals."""

    t0_ms: int  # start of the first interval [ms]
    dt_ms: int  # length of an interval [ms]
    columns: Values  # arrays of shape (B,) by name, `facility_power_w` included

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
        """Return the intervals between two times, both multiples of the interval."""
        rows = slice(
            (begin_ms - self.t0_ms) // self.dt_ms, (end_ms - self.t0_ms) // self.dt_ms
        )
        return Block(
            begin_ms, self.dt_ms, {k: v[rows] for k, v in self.columns.items()}
        )


def concatenate_blocks(blocks: Sequence[Block]) -> Block:
    """Concatenate blocks that follow each other directly."""
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
    """The properties of a facility that a stage may use."""

    clock: RunClock  # period, interval and zone of the run
    # Rated power of all nodes at the input of the first stage [W]: AC power if that is
    # modelled, else device power
    rated_power_w: float
    # True if the nodes' AC power is modelled, and so reactive power
    ac: bool = False
    weather: Weather | None = None  # weather over the run
    folder: Path = Path()  # base of relative file names
    columns: Columns = ()  # columns declared by all stages

    def columns_with_roles(self, *roles: Role) -> tuple[str, ...]:
        """Return the names of the stages' columns that have one of several roles."""
        return tuple(column.name for column in self.columns if column.role in roles)

    def require_ac(self, kind: str) -> None:
        """Raise an error if the nodes' AC power is not modelled."""
        if not self.ac:
            raise InputError(
                f"facility.stages: '{kind}' needs the power that the nodes draw at "
                "their AC input; name its model for every type of node in use, "
                "facility.node_types.<name>.ac_power"
            )

    def design_mw(self, kind: str) -> float:
        """Return the default rating of a kind of stage: the nodes' rated power [MW]."""
        self.require_ac(kind)
        if not self.rated_power_w > 0:
            raise InputError(
                f"facility.stages: '{kind}' is built for the nodes' power at their "
                f"ratings, which is {self.rated_power_w:g} W; give the nodes ratings "
                "above zero"
            )
        return self.rated_power_w / W_PER_MW


class Meter(Protocol):
    """A meter that yields the metrics of one stage at the end of a run."""

    def add(self, block: Block) -> None:
        """Add a block that has passed all stages."""
        ...

    def values(self) -> Mapping[str, float | None]:
        """Return the values by metric key."""
        ...


class Stage(Protocol):
    """A stage of the facility: it transforms blocks of power.

    A metered stage also has `metrics`, the declarations of its values in a block of
    their own, such as ``chiller.energy_mwh``, and `meter()`, which returns a new
    `Meter`. A stage with interpolated power has `interpolated_s`, the interpolation
    interval [s].
    """

    @property
    def columns(self) -> Columns:
        """Declarations of the columns that the stage adds."""
        ...

    @property
    def boundary(self) -> str | None:
        """Text that the stage adds to the boundary of `facility_power_w`, or None."""
        ...

    def start(self) -> Any:
        """Return the state at the start of a run; None for a stage without state."""
        ...

    def apply(self, block: Block, state: Any) -> tuple[Values, Any]:
        """Return the stage's columns over a block, and the state at the block's end.

        Parameters
        ----------
        block : Block
            Columns of the devices and of all previous stages.
        state : object
            State at the block's start; it must not be modified in place.
        """
        ...


STEPS_OF_TIME = 10
"""Minimum number of steps within a start delay, ramp or lag."""


def tenth_of_shortest_ms(*times_s: float) -> int | None:
    """Return a tenth of the shortest positive time [ms], or None if there is none."""
    fast_s = min((s for s in times_s if s > 0), default=np.inf)
    if fast_s == np.inf:
        return None
    return max(round(fast_s * MS_PER_S / STEPS_OF_TIME), PROFILE_STEP_MS)


class StageSpec(Kind):
    """Scenario settings of a stage; by default they are also the stage itself.

    A subclass whose stage is another object overrides `open`.
    """

    part_of_run: ClassVar[str] = "stage"
    columns: ClassVar[Columns] = ()
    """Declarations of the columns that the stage adds."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """Declarations of the stage's metrics."""
    boundary: ClassVar[str | None] = None
    place: ClassVar[str | None] = None
    """Position of the stage among `PLACES`; None for any before the meter."""

    @property
    def files(self) -> tuple[str, ...]:
        """Input files of the stage, named as in the scenario."""
        return ()

    def open(self, site: SiteView) -> Any:  # noqa: ARG002
        """Return the stage for a facility."""
        return self

    def needed_step_ms(self) -> int | None:
        """Return the longest step at which the stage is accurate [ms]; None for any."""
        return None

    def start(self) -> Any:
        """Return the state at the start of a run; None, as there is no state."""
        return None


class Nameable(Model):
    """Settings of a stage with a name, as a site may have several of the kind."""

    name: Annotated[str, Field(pattern=STAGE_NAME)] | None = optional(
        "Name, if a site has several stages of this kind; it prefixes the stage's "
        "columns and metrics, as in second_battery_power_w."
    )


class NamedStage:
    """A stage with a name, which prefixes its columns and metrics."""

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
        """Return the state at the start of a run."""
        return self._stage.start()

    def apply(self, block: Block, state: Any) -> tuple[Values, Any]:
        """Return the stage's columns over a block, and the state at the block's end."""
        values, state_after = self._stage.apply(block, state)
        return {
            k if k == POWER else f"{self._name}_{k}": v for k, v in values.items()
        }, state_after

    def meter(self) -> Meter:
        """Return the meter of the stage."""
        return _NamedMeter(self._stage, self._name)


class _NamedMeter:
    """The meter of a named stage."""

    def __init__(self, stage: Any, name: str) -> None:
        self._columns, self._meter, self._name = stage.columns, stage.meter(), name

    def add(self, block: Block) -> None:
        stage_columns = {
            c.name: block.columns[f"{self._name}_{c.name}"] for c in self._columns
        }
        self._meter.add(
            Block(block.t0_ms, block.dt_ms, {**block.columns, **stage_columns})
        )

    def values(self) -> dict[str, float | None]:
        return {
            f"{self._name}_{key}": value for key, value in self._meter.values().items()
        }


def apply_name(stage: Any, spec: StageSpec) -> Any:
    """Return a stage with the name from its spec, if it has one."""
    return (
        NamedStage(stage, spec.name)
        if isinstance(spec, Nameable) and spec.name
        else stage
    )


def interpolated_s(stages: Iterable[object]) -> float:
    """Return the longest interpolation interval of the stages [s]; 0 for none."""
    return max(
        (float(getattr(stage, "interpolated_s", 0.0)) for stage in stages), default=0.0
    )


class Stages:
    """The stages of a run in order, from the devices to the meter."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages, self._is_checked = tuple(stages), False
        for stage in self._stages:
            if isinstance(stage, type):
                name = stage.__name__
                raise StageError(
                    f"stages: found the class {name}, expected an object: {name}(...)"
                )
            for name, kind, expected in _DECLARED:
                check_type(
                    name, getattr(stage, name, 0), kind, expected, error_maker(stage)
                )

    def __bool__(self) -> bool:
        return bool(self._stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Declarations of the metrics of all metered stages."""
        measured = (stage for stage in self._stages if hasattr(stage, "meter"))
        return tuple(
            metric for stage in measured for metric in getattr(stage, "metrics", ())
        )

    def by_name(self) -> dict[str, Stage]:
        """Return the stages by kind; several objects of one class are numbered."""
        names = [
            str(getattr(stage, "kind", type(stage).__name__)) for stage in self._stages
        ]
        repeated = (
            f" {names[:i].count(n) + 1}" * (names.count(n) > 1)
            for i, n in enumerate(names)
        )
        return dict(zip(map(str.__add__, names, repeated), self._stages, strict=True))

    def extend(self, columns: Columns) -> Columns:
        """Return the columns with the stages' columns and the power's new boundary."""
        for stage in self._stages:
            _check_roles(stage)
            names = {column.name for column in columns}
            if duplicates := [
                column.name for column in stage.columns if column.name in names
            ]:
                raise StageError(
                    f"stage {type(stage).__name__}: column '{duplicates[0]}' is "
                    "declared twice, here and to the left of it; give it another name, "
                    "or take a stage out"
                )
            columns = catalogue(columns, stage.columns)
            if stage.boundary is not None:
                for name in {POWER, REACTIVE} & names:
                    base_boundary = find_column(name, columns)[0].boundary
                    columns = with_boundary(
                        columns, name, f"{base_boundary}, {stage.boundary}"
                    )
        return columns

    def start(self) -> tuple[Any, ...]:
        """Return the states of all stages at the start of a run."""
        return tuple(stage.start() for stage in self._stages)

    def apply(
        self, block: Block, states: Sequence[Any]
    ) -> tuple[Block, tuple[Any, ...]]:
        """Pass a block through all stages.

        Returns the block with the stages' columns, and the new states.
        """
        new_states = []
        for stage, state in zip(self._stages, states, strict=True):
            make_error = error_maker(stage, block)
            powers = {column.name for column in stage.columns if column.role}
            with named_errors("apply", make_error):
                outputs, state_after = stage.apply(block, state)
                added = {
                    name: np.asarray(
                        values,
                        np.float64 if name in {*powers, POWER, REACTIVE} else None,
                    )
                    for name, values in outputs.items()
                }
            if not self._is_checked:
                check_columns(
                    added, stage.columns, len(block), make_error, (POWER, REACTIVE)
                )
            _check_balance(stage, added, block, make_error)
            block = Block(block.t0_ms, block.dt_ms, {**block.columns, **added})
            new_states.append(state_after)
        self._is_checked = True
        return block, tuple(new_states)

    def pass_blocks(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Pass consecutive blocks, from the start of a run, through all stages."""
        states = self.start()
        for block in blocks:
            passed_block, states = self.apply(block, states)
            yield passed_block


def check_order(stages: Sequence[object]) -> None:
    """Raise an error if stages, or their specs, are not in the order of `PLACES`."""
    last_placed, position = "", -1
    for i, stage in enumerate(stages):
        name = getattr(stage, "kind", type(stage).__name__)
        place = getattr(stage, "place", None)
        if place is not None and place not in PLACES:
            raise StageError(
                f"facility.stages.{i}: '{name}' has the place "
                f"{one_line(shown(place))}, expected {one_of(PLACES)} or None"
            )
        rank = PLACES.index(place) if place is not None else position
        if rank < position or position == len(PLACES) - 1:
            raise StageError(
                f"facility.stages.{i}: '{name}' must not come after '{last_placed}'; "
                f"the order is {', '.join(PLACES)}, which is the last"
            )
        if rank > position:
            last_placed, position = name, rank


_DECLARED: tuple[tuple[str, Any, str], ...] = (
    ("columns", tuple | list, "a tuple of Column"),
    ("boundary", str | None, "text or None"),
)


def error_maker(stage: Stage, block: Block | None = None) -> ErrorMaker:
    """Return a function that builds errors which name the stage, and the block."""
    location = (
        f" (block from {block.t0_ms / MS_PER_H:,.4g} h of the run)" if block else ""
    )
    return lambda text: StageError(f"stage {type(stage).__name__}{text}{location}")


def _check_roles(stage: Stage) -> None:
    """Raise an error if a stage's columns have invalid roles or energy categories."""
    roles = (*ADDED, *TAKEN_OFF)
    for c in (column for column in stage.columns if column.role is not None):
        part = c.part or "other"
        if (
            (c.role not in roles)
            or (c.unit, c.per) != ("W", "facility")
            or part in RESERVED_PARTS
            or not PART_NAME.fullmatch(part)
        ):
            raise error_maker(stage)(
                f": column '{c.name}' has the role {one_line(shown(c.role))}, part "
                f"'{part}', and is of {c.unit} per {c.per}; a role is one of "
                f"{one_of(roles)}, of powers of the whole facility [W], and a part is "
                f"lower-case letters, digits and _, and not {one_of(RESERVED_PARTS)}"
            )


def _check_balance(
    stage: Stage, added: Values, block: Block, make_error: ErrorMaker
) -> None:
    """Raise an error if a stage's change of power is not the sum of its columns."""
    power_columns = [c for c in stage.columns if c.role is not None and c.name in added]
    before_w = block.columns[POWER]
    after_w = added.get(POWER, before_w)
    gap_w = after_w - before_w - sum(c.sign * added[c.name] for c in power_columns)
    worst_w, most_w = (
        float(np.abs(w).max(initial=0)) for w in (gap_w, [before_w, after_w])
    )
    if worst_w > BALANCED * most_w:
        column_text = ": " + ", ".join(f"'{c.name}' ({c.role})" for c in power_columns)
        raise make_error(
            f" changes {POWER} by up to {worst_w:.4g} W more or less than its columns "
            f"say{column_text if power_columns else ', of which none has a role'}; "
            f"declare what it adds as columns with role {one_of(ADDED)}, and what it "
            f"takes off as {one_of(TAKEN_OFF)}, such as Column(..., role='source', "
            "part='generator')"
        )


STAGES: Kinds[StageSpec] = Kinds("stage", StageSpec, "diploee.facility")
"""Registry of stages: one module of this package each, and registered ones."""


class StageMeters:
    """The meters of all metered stages, as one sink.

    `reserved` are the names of metric blocks that belong to other parts of a run.

    Raises
    ------
    StageError
        If a stage declares a metric in a reserved block, or a metric that another stage
        declares, too.
    """

    def __init__(self, stages: Iterable[Stage], reserved: Collection[str]) -> None:
        self._meters: list[tuple[Any, Meter]] = []
        declared = set[str]()
        measured: list[Any] = [stage for stage in stages if hasattr(stage, "meter")]
        for stage in measured:
            with named_errors("meter", error_maker(stage)):
                self._meters.append((stage, stage.meter()))
                keys = [metric.key for metric in stage.metrics]
            for key in keys:
                block, _, name = key.partition(".")
                if key in declared or block in reserved or not name:
                    raise error_maker(stage)(
                        f" declares metric '{key}'; name it as in 'chiller.energy_mwh'"
                        ", with a block that no other part of a run has"
                    )
                declared.add(key)

    def add(self, block: Block) -> None:
        """Add a block that has passed all stages."""
        for stage, meter in self._meters:
            with named_errors("its meter's add", error_maker(stage, block)):
                meter.add(block)

    def blocks(self) -> dict[str, dict[str, float | None]]:
        """Return the metrics grouped by the first part of their keys.

        Raises an error for undeclared metrics.
        """
        result: dict[str, dict[str, float | None]] = {}
        for stage, meter in self._meters:
            with named_errors("its meter's values", error_maker(stage)):
                values = dict(meter.values())
            check_declared(values.items(), stage.metrics, error_maker(stage))
            for key, value in values.items():
                block, _, name = key.partition(".")
                result.setdefault(block, {})[name] = value
        return result
