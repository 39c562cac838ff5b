"""Causes that may bend a load: signals, demand-response events, and what jobs of a class tolerate.

Reference sheet ``flexibility.md``, section 4: B1 signals, B2 events, B3 jobs, B6 the controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from diploee.clock import RunClock
from diploee.errors import one_of, shown
from diploee.model import Model, UtcOffset
from diploee.plain_data import KeyPath
from diploee.scenario.events import (
    DemandResponseEvent,
    Event,
    EventTarget,
    Share,
    event_problems,
)
from diploee.scenario.times import FixedSpan, Moment, span_ms
from diploee.units import W_PER_MW

SignalName = Literal["price", "carbon", "cap"]
SignalFormatName = Literal["electricity_maps", "caiso", "nyiso", "gridstatus", "csv"]

SIGNAL_UNITS: dict[SignalName, dict[str, float]] = {
    "price": {"per_mwh": 1.0, "per_kwh": 1e3},
    "carbon": {"g_per_kwh": 1.0, "kg_per_mwh": 1.0, "t_per_mwh": 1e3, "lb_per_mwh": 0.45359237},
    "cap": {"mw": 1.0, "kw": 1e-3},
}
"""Units of each signal, the first its own, and what turns a value in one into that."""

Unit = Literal[
    "per_mwh", "per_kwh", "g_per_kwh", "kg_per_mwh", "t_per_mwh", "lb_per_mwh", "mw", "kw"
]

TOLERATED_LOSS = (0.0, 0.10, 0.25, 0.50)
"""Mean loss of throughput over a job that each tier tolerates, arXiv:2507.00909 [S2]."""


def _off(value: object) -> object:
    """Return what YAML makes of a bare ``off`` as that word."""
    return "off" if value is False else value


class SignalFile(Model):
    """A file with a signal: a step function, each value from its time on."""

    file: str = Field(min_length=1, description="The file, relative to the scenario file.")
    format: SignalFormatName | None = Field(
        default=None, description="Format of the file; recognised by its header if absent."
    )
    column: str | None = Field(
        default=None,
        description="Column of the values; that of the format if absent, in a csv the only one "
        "beside the time.",
    )
    place: str | None = Field(
        default=None, description="Zone, node or location, where the file has several."
    )
    unit: Unit | None = Field(
        default=None,
        description="Unit of the values; a price is per MWh, carbon in g/kWh and a cap in MW if "
        "absent.",
    )
    utc_offset: UtcOffset | None = Field(
        default=None,
        description="Offset from UTC of stamps in a csv that have none; a stamp without one is "
        "refused if absent, as hours may come twice.",
    )
    known_ahead: FixedSpan = Field(
        default="0 s",
        description="How far ahead its values are known, such as 24 h of a day-ahead market; "
        "only up to now if 0 s.",
    )


class Signals(Model):
    """Signals from outside, by what they tell."""

    price: SignalFile | None = Field(
        default=None, description="Price of energy, in any currency per MWh."
    )
    carbon: SignalFile | None = Field(
        default=None, description="Carbon intensity of energy [g/kWh]."
    )
    cap: SignalFile | None = Field(
        default=None,
        description="Most that the facility may draw [MW]; each value holds until the next, "
        "whenever that comes.",
    )

    @model_validator(mode="after")
    def _units_fit(self) -> Self:
        for name, signal in self.given().items():
            if signal.unit is not None and signal.unit not in SIGNAL_UNITS[name]:
                raise ValueError(
                    f"{name}.unit must be one of {one_of(SIGNAL_UNITS[name])}, found "
                    f"{shown(signal.unit)}"
                )
        return self

    def given(self) -> dict[SignalName, SignalFile]:
        """Return the signals that there are, by name."""
        found = {name: getattr(self, name) for name in get_args(SignalName)}
        return {name: signal for name, signal in found.items() if signal is not None}


class FollowSignal(Model):
    """Less power while a price or the carbon intensity is high."""

    signal: Literal["price", "carbon"] = Field(description="Which signal.")
    quantile: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.8,
        description="The signal is high above this quantile of its values in the window (assumed "
        "where not given).",
    )
    window: FixedSpan = Field(
        default="24 h",
        description="Window of the quantile: up to what is known ahead, the rest of it behind "
        "(assumed where not given).",
    )
    target: EventTarget = Field(
        default=EventTarget(fraction=0.75),
        description="How deep power goes while it is high (assumed where not given).",
    )
    steps: PositiveInt = Field(
        default=2,
        description="Steps of the signal above or below before anything switches (assumed where "
        "not given).",
    )
    at_least: FixedSpan = Field(
        default="30 min",
        description="Shortest time between two switches (assumed where not given).",
    )


class Flexibility(Model):
    """How the facility answers the grid: events, signals, and what controls its load."""

    signals: Signals = Field(default=Signals(), description="Signals from outside.")
    events: tuple[DemandResponseEvent, ...] = Field(
        default=(), description="Demand-response events."
    )
    follow: FollowSignal | None = Field(
        default=None, description="Less power while a signal is high."
    )
    controller: Annotated[Literal["fair_caps", "off"], BeforeValidator(_off)] = Field(
        default="fair_caps",
        description="Controller: fair_caps holds starts, caps GPUs by a common share of what "
        "their jobs tolerate, pauses and resizes; off measures events against the plain run.",
    )

    @property
    def has_something_to_answer(self) -> bool:
        """Whether there are events, a signal to follow or a cap."""
        return bool(self.events) or self.follow is not None or self.signals.cap is not None

    @property
    def is_off(self) -> bool:
        """Whether what could be answered is measured alone."""
        return self.controller == "off" and self.has_something_to_answer

    def events_in(self, clock: RunClock) -> tuple[Event, ...]:
        """Return the events in the time of a run, in the order of their ramps."""
        found = (event.in_run(clock) for event in self.events)
        return tuple(sorted(found, key=lambda event: (event.ramp_ms, event.id)))

    def spans_ms(self, clock: RunClock) -> list[tuple[int, int]]:
        """Return start of the ramp and end of each event [ms], sorted, non-overlapping."""
        spans: list[tuple[int, int]] = []
        for event in self.events_in(clock):
            begin_ms = max(event.ramp_ms, spans[-1][1]) if spans else event.ramp_ms
            if begin_ms < event.end_ms:
                spans.append((begin_ms, event.end_ms))
        return spans


class JobFlexibility(Model):
    """Flexibility that the jobs of a class tolerate."""

    tier: Annotated[int, Field(ge=0, le=3)] = Field(
        default=0,
        description="Mean loss of throughput over a job that is tolerated: 0, 10, 25 or 50 % for "
        "the tiers 0 to 3; jobs of tier 0 are never touched.",
    )
    work: Literal["pre_training", "fine_tuning", "inference"] = Field(
        default="fine_tuning",
        description="Kind of work, which tells how a cap on its GPUs slows it (assumed where not "
        "given).",
    )
    pausable: bool = Field(default=False, description="Jobs may be stopped and started again.")
    min_nodes: PositiveInt | None = Field(
        default=None, description="Fewest nodes that a job may go on with; its own if absent."
    )
    checkpoint_interval: FixedSpan = Field(
        default="30 min", description="Work between two checkpoints (assumed where not given)."
    )
    stop: FixedSpan = Field(
        default="2 min",
        description="Time to write a checkpoint before nodes are freed (assumed where not given).",
    )
    restart: FixedSpan = Field(
        default="10 min",
        description="Time from a start on freed nodes to the first work (assumed where not given).",
    )
    restart_power: Share = Field(
        default=0.2,
        description="Share of a job's mean power that it draws while it stops and restarts, its "
        "nodes' idle power at least (assumed where not given).",
    )
    slack: Annotated[float, Field(ge=0, le=1e3)] | None = Field(
        default=None,
        description="A job is due its run time and this share of it after its submission; never "
        "if absent.",
    )
    deadline: Moment | None = Field(
        default=None, description="When all jobs are due, local time; instead of slack."
    )

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if span_ms(self.checkpoint_interval) == 0:
            raise ValueError("checkpoint_interval must be longer than 0 s")
        if span_ms(self.stop) >= span_ms(self.checkpoint_interval):
            raise ValueError(
                f"stop: a checkpoint takes {self.stop}, not less than the "
                f"{self.checkpoint_interval} between two; shorten it, or lengthen "
                "checkpoint_interval"
            )
        if self.slack is not None and self.deadline is not None:
            raise ValueError("give either slack or deadline")
        return self

    @property
    def least_speed(self) -> float:
        """Speed that a job keeps at least, as a share of its own."""
        return 1 - TOLERATED_LOSS[self.tier]


def flexibility_problems(
    flexibility: Flexibility, clock: RunClock, idle_w: float, rated_w: float
) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is wrong between a `flexibility:` block and the rest, each with its key."""
    given = flexibility.signals.given()
    if flexibility.follow is not None and flexibility.follow.signal not in given:
        yield (
            ("flexibility", "follow", "signal"),
            f"there is no signal '{flexibility.follow.signal}' (have: {one_of(given)}); add its "
            "file to flexibility.signals",
        )
    targets: list[tuple[KeyPath, EventTarget | None]] = [
        (("flexibility", "events", k), event.target) for k, event in enumerate(flexibility.events)
    ]
    if flexibility.follow is not None:
        targets.append((("flexibility", "follow"), flexibility.follow.target))
    for key_path, target in targets:
        if target is not None and target.mw is not None and target.mw * W_PER_MW < idle_w:
            yield (
                (*key_path, "target", "mw"),
                f"is below the {idle_w / W_PER_MW:.4g} MW that the nodes draw without a job, found "
                f"{target.mw:g}",
            )
    yield from event_problems(flexibility.events, clock, rated_w)
