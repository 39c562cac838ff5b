"""Load flexibility: external signals, demand-response events, flexible job classes.

See also: docs/FLEXIBILITY.md and docs/models/flexibility.md
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    PositiveInt,
    model_validator,
)

from diploee.base.clock import RunClock
from diploee.base.errors import one_of, shown
from diploee.base.model import (
    SCALES,
    InnerShare,
    Model,
    Name,
    Share,
    UtcOffset,
    default,
    uncertain,
    unset,
)
from diploee.base.units import MS_PER_H, W_PER_MW
from diploee.scenario.times import FixedSpan, Moment, span_ms

SignalName = Literal["price", "carbon", "cap"]
SignalFormatName = Literal["electricity_maps", "caiso", "nyiso", "gridstatus", "csv"]

SIGNAL_UNITS: dict[SignalName, dict[str, float]] = {
    "price": {"per_mwh": 1.0, "per_kwh": 1e3},
    "carbon": {
        "g_per_kwh": 1.0,
        "kg_per_mwh": 1.0,
        "t_per_mwh": 1e3,
        "lb_per_mwh": 0.45359237,
    },
    "cap": {"mw": 1.0, "kw": 1e-3},
}
"""Units of each signal, the standard unit first, with factors to convert into it."""

Unit = Literal[
    "per_mwh",
    "per_kwh",
    "g_per_kwh",
    "kg_per_mwh",
    "t_per_mwh",
    "lb_per_mwh",
    "mw",
    "kw",
]

TOLERATED_LOSS = (0.0, 0.10, 0.25, 0.50)
"""Mean loss of throughput over a job that each tier tolerates (arXiv:2507.00909)."""


# YAML reads a bare off as false.
_OFF = BeforeValidator(lambda value: "off" if value is False else value)


@dataclass(frozen=True)
class _Product:
    """Default settings of a demand-response product; None if there is no default."""

    # Default notice and ramps
    notice: str
    ramp_down: str
    ramp_up: str = "15 min"
    # Allowed power, as a fraction of the power before the event
    fraction: float | None = None
    hours: float | None = None  # length of an event [h]
    max_hours: float | None = None  # maximum length of an event [h]
    min_mw: float = 0.0  # minimum rated power of a load [MW]


PRODUCTS: dict[str, _Product] = {
    # Demonstration in Phoenix (arXiv:2507.00909): 25 % for three hours, ramps of
    # 15 min; the notice is assumed.
    "emerald": _Product("15 min", "15 min", fraction=0.75, hours=3),
    # 30 % less within 30 s of the call, for at most ten hours; the ramp up is assumed.
    "london": _Product("0 s", "30 s", fraction=0.70, max_hours=10),
    # Texas, Senate Bill 6: loads of 75 MW or more, demand response with a day's notice;
    # the ramps are assumed.
    "sb6_firm": _Product("24 h", "15 min", min_mw=75),
    # A controllable load follows base points, one every 5 min; ramps between them are
    # assumed.
    "ercot_clr": _Product("5 min", "5 min", ramp_up="5 min"),
    # Curtailment of about two hours per event; notice and ramps are assumed.
    "duke": _Product("24 h", "15 min", hours=2),
}
"""Demand-response products by name, with sources in docs/models/flexibility.md."""


def event_product(name: str | None) -> _Product:
    """Return the demand-response product of a name.

    Without a name, the product has only a default ramp down and up of 15 min.
    """
    return _Product("0 s", "15 min") if name is None else PRODUCTS[name]


class EventTarget(Model):
    """Target of an event: one of three alternative settings."""

    fraction: Share | None = unset(
        "Maximum power per mean power before the event, 0-1."
    )
    mw: Annotated[NonNegativeFloat | None, SCALES] = unset("Maximum power [MW].")
    delta_mw: Annotated[NonNegativeFloat | None, SCALES] = unset(
        "Reduction from the mean power before the event [MW]."
    )

    @model_validator(mode="after")
    def _check_one_target(self) -> Self:
        self._need_one("fraction", "mw", "delta_mw")
        return self

    def level_w(self, baseline_w: float) -> float:
        """Return the power limit [W] for a mean power before the event [W]."""
        if self.fraction is not None:
            # 0 if power is exported
            return self.fraction * max(baseline_w, 0.0)
        if self.mw is not None:
            return self.mw * W_PER_MW
        return max(baseline_w - (self.delta_mw or 0.0) * W_PER_MW, 0.0)


@dataclass(frozen=True)
class RunEvent:
    """Demand-response event on the time axis of a run."""

    id: str  # name of the event
    issued_ms: int  # time of its announcement [ms]
    # Start and end of the event [ms]
    start_ms: int
    end_ms: int
    target: EventTarget  # power limit during the event
    # Durations of the ramps to the target and back [ms]
    ramp_down_ms: int
    ramp_up_ms: int
    tolerance: float  # allowed excess, as a fraction of the target
    baseline_ms: int  # length of the baseline interval before the event [ms]
    # Start of the ramp of the first in a chain of events [ms]
    follows_ms: int | None = None

    @property
    def ramp_ms(self) -> int:
        """Start of the ramp down, not before the event is issued [ms]."""
        return max(self.issued_ms, self.start_ms - self.ramp_down_ms)

    @property
    def before_ms(self) -> int:
        """End of the interval whose mean power is the baseline [ms].

        This is the start of the event's ramp, or that of an earlier event if the event
        begins during or soon after that one.
        """
        return self.ramp_ms if self.follows_ms is None else self.follows_ms

    @property
    def held_ms(self) -> int:
        """Start of the interval in which the full target applies [ms]."""
        return self.ramp_ms + self.ramp_down_ms

    @property
    def over_ms(self) -> int:
        """End of the ramp up, after which there is no limit [ms]."""
        return self.end_ms + self.ramp_up_ms

    def allowed_w(
        self, time_ms: int, baseline_w: float, uncontrolled_w: float = 0.0
    ) -> float:
        """Return the power limit at a time [W].

        There is no limit outside of the event. `baseline_w` is the mean power over
        `baseline_ms` before the ramp down. The ramp up ends at the baseline, or at
        `uncontrolled_w` if that is higher.
        """
        if not self.ramp_ms <= time_ms < self.over_ms:
            return float("inf")
        level_w = self.target.level_w(baseline_w)
        is_above = level_w >= baseline_w
        if time_ms < self.held_ms:
            fraction = (time_ms - self.ramp_ms) / self.ramp_down_ms
        elif time_ms < self.end_ms:
            fraction = 1.0
        else:
            fraction = (self.over_ms - time_ms) / self.ramp_up_ms
            baseline_w = max(baseline_w, uncontrolled_w)
        # A target above the baseline applies at once, without a ramp.
        return level_w if is_above else baseline_w + fraction * (level_w - baseline_w)


class DemandResponseEvent(Model):
    """Demand-response event: a request to reduce power for some time."""

    id: Name = Field(description="Name of the event, in metrics and figures.")
    product: Literal["emerald", "london", "sb6_firm", "ercot_clr", "duke"] | None = (
        unset(
            (
                "Demand-response product with values for keys that the event does not "
                "specify: emerald (75 % for 3 h, ramps of 15 min), london (70 % within "
                "30 s, at most 10 h), sb6_firm (loads of at least 75 MW, a day's "
                "notice), ercot_clr (a base point every 5 min), duke (2 h); their "
                "other values are assumed."
            ),
            assumed=True,
        )
    )
    issued: Moment | None = unset(
        "Time of the notice, in local time; there is no response before it. If absent, "
        "the product's notice time before the start, or the start itself."
    )
    start: Moment = Field(
        description=(
            "Time from which the target must be met, in local time; the ramp precedes "
            "it if the notice allows."
        )
    )
    end: Moment | None = unset(
        "Time at which power may rise again, in local time; by the product's duration "
        "if absent."
    )
    target: EventTarget | None = unset(
        "Power target of the event; the product's if absent."
    )
    ramp_down: FixedSpan | None = unset(
        "Length of the ramp down; if absent, the product's, or 15 min (assumed).",
        assumed=True,
    )
    ramp_up: FixedSpan | None = unset(
        "Length of the ramp up; if absent, the product's, or 15 min (assumed).",
        assumed=True,
    )
    tolerance: Annotated[float, Field(ge=0, le=0.5)] = uncertain(
        0.02,
        "Tolerated excess per target, within which the target still counts as met",
        (0.01, 0.05),
    )
    baseline: FixedSpan = default(
        "25 min",
        (
            "Time before the ramp whose mean power is the reference of fraction and "
            "delta_mw; as in the demonstration in Phoenix if absent."
        ),
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        product = event_product(self.product)
        if self.end is None and product.hours is None:
            raise ValueError("end is missing; add it, or a product that has a length")
        if self.target is None and product.fraction is None:
            raise ValueError("target is missing; add it, such as {fraction: 0.75}")
        end = self.end or self.start + timedelta(hours=product.hours or 0)
        if end <= self.start:
            raise ValueError(f"end must lie behind start {self.start}, found {end}")
        if self.issued is not None and self.issued > self.start:
            raise ValueError(
                f"issued must be at or before start {self.start}, found {self.issued}"
            )
        hours = (end - self.start) / timedelta(hours=1)
        if product.max_hours is not None and hours > product.max_hours:
            raise ValueError(
                f"an event of product '{self.product}' lasts at most "
                f"{product.max_hours:g} h, found {hours:g} h"
            )
        if span_ms(self.baseline) == 0:
            raise ValueError("baseline must be longer than 0 s")
        return self

    def in_run(self, clock: RunClock) -> RunEvent:
        """Return the event on the run's time axis, with its product's defaults."""
        product = event_product(self.product)
        start_ms = clock.wall.time_ms(self.start)
        issued_ms = start_ms - span_ms(product.notice)
        if self.issued is not None:
            issued_ms = clock.wall.time_ms(self.issued)
        end_ms = start_ms + round((product.hours or 0) * MS_PER_H)
        return RunEvent(
            id=self.id,
            issued_ms=issued_ms,
            start_ms=start_ms,
            end_ms=end_ms if self.end is None else clock.wall.time_ms(self.end),
            target=self.target or EventTarget(fraction=product.fraction),
            ramp_down_ms=span_ms(self.ramp_down or product.ramp_down),
            ramp_up_ms=span_ms(self.ramp_up or product.ramp_up),
            tolerance=self.tolerance,
            baseline_ms=span_ms(self.baseline),
        )


class SignalFile(Model):
    """File of a signal: a step function, each value valid until the next."""

    file: str = Field(
        min_length=1, description="The file, relative to the scenario file."
    )
    format: SignalFormatName | None = unset(
        "Format of the file; detected from its header if absent."
    )
    column: str | None = unset(
        "Column of the values; if absent, that of the format, or the only column of a "
        "csv besides the time."
    )
    place: str | None = unset("Zone, node or location, if the file has several.")
    unit: Unit | None = unset(
        "Unit of the values; a price is per MWh, carbon in g/kWh and a cap in MW if "
        "absent."
    )
    utc_offset: UtcOffset | None = unset(
        "UTC offset of csv timestamps without one; if absent, such timestamps are an "
        "error, as hours may be repeated."
    )
    known_ahead: FixedSpan = default(
        "0 s",
        (
            "Time for which values are known in advance, such as 24 h for a day-ahead "
            "market; 0 s if only up to now."
        ),
    )


class Signals(Model):
    """External signals, such as price and carbon intensity."""

    price: SignalFile | None = unset("Price of energy, in any currency per MWh.")
    carbon: SignalFile | None = unset("Carbon intensity of energy [g/kWh].")
    cap: SignalFile | None = unset(
        "Maximum power of the facility [MW]; each value applies until the next one."
    )

    @model_validator(mode="after")
    def _units_fit(self) -> Self:
        for name, signal in self.configured().items():
            if signal.unit is not None and signal.unit not in SIGNAL_UNITS[name]:
                raise ValueError(
                    f"{name}.unit must be one of {one_of(SIGNAL_UNITS[name])}, found "
                    f"{shown(signal.unit)}"
                )
        return self

    def configured(self) -> dict[SignalName, SignalFile]:
        """Return the configured signals by name."""
        result = {name: getattr(self, name) for name in get_args(SignalName)}
        return {name: signal for name, signal in result.items() if signal is not None}


class FollowSignal(Model):
    """Rule to reduce power while a price or the carbon intensity is high."""

    signal: Literal["price", "carbon"] = Field(description="Signal to follow.")
    quantile: InnerShare = uncertain(
        0.8,
        "The signal is high above this quantile of its values in the window",
        (0.6, 0.9),
    )
    window: FixedSpan = default(
        "24 h",
        (
            "Window of the quantile, which ends at the latest known value (assumed "
            "unless specified)."
        ),
        assumed=True,
    )
    target: EventTarget = default(
        EventTarget(fraction=0.75),
        "Power target while the signal is high (assumed unless specified).",
        assumed=True,
    )
    steps: PositiveInt = uncertain(
        2, "Consecutive steps above or below the quantile before switching", (1, 4)
    )
    at_least: FixedSpan = default(
        "30 min",
        "Minimum time between two switches (assumed unless specified).",
        assumed=True,
    )


class Flexibility(Model):
    """Response of the facility to the grid: events, signals, and load control."""

    signals: Signals = default(
        Signals(), "External signals: price, carbon intensity, power cap."
    )
    events: tuple[DemandResponseEvent, ...] = default((), "Demand-response events.")
    follow: FollowSignal | None = unset("Power reduction while a signal is high.")
    controller: Annotated[Literal["fair_caps", "off"], _OFF] = default(
        "fair_caps",
        (
            "Load controller: fair_caps delays starts, caps GPUs in proportion to the "
            "tolerance of their jobs, pauses and resizes jobs; off leaves the load "
            "uncontrolled, so that events are only measured."
        ),
    )

    @property
    def has_requests(self) -> bool:
        """True if there are events, a followed signal or a cap."""
        return (
            bool(self.events) or self.follow is not None or self.signals.cap is not None
        )

    @property
    def is_off(self) -> bool:
        """True if events are evaluated without control of the load."""
        return self.controller == "off" and self.has_requests

    def events_in(self, clock: RunClock) -> tuple[RunEvent, ...]:
        """Return the events in the time of a run, sorted by ramp start.

        Assumed: the fraction of an event refers to the power before the event. If the
        event begins during or soon after another event, it refers to the power before
        that other event.
        """
        in_run = (event.in_run(clock) for event in self.events)
        events: list[RunEvent] = []
        for event in sorted(in_run, key=lambda event: (event.ramp_ms, event.id)):
            following = (
                replace(
                    event, follows_ms=earlier.before_ms, baseline_ms=earlier.baseline_ms
                )
                for earlier in events
                if earlier.ramp_ms < event.ramp_ms < earlier.over_ms + event.baseline_ms
                and event.target.mw is None
            )
            events.append(next(following, event))
        return tuple(events)

    def spans_ms(self, clock: RunClock) -> list[tuple[int, int]]:
        """Return ramp start and end of each event [ms], sorted, without overlap."""
        periods: list[tuple[int, int]] = []
        for event in self.events_in(clock):
            begin_ms = max(event.ramp_ms, periods[-1][1]) if periods else event.ramp_ms
            if begin_ms < event.end_ms:
                periods.append((begin_ms, event.end_ms))
        return periods


class JobFlexibilitySpec(Model):
    """Flexibility that the jobs of a class tolerate."""

    tier: Annotated[int, Field(ge=0, le=3)] = default(
        0,
        (
            "Tolerated mean loss of throughput over a job: 0, 10, 25 or 50 % for tiers "
            "0 to 3; jobs of tier 0 are never controlled."
        ),
    )
    work: Literal["pre_training", "fine_tuning", "inference"] = default(
        "fine_tuning",
        (
            "Kind of work, which determines the slowdown under a GPU power cap "
            "(assumed unless specified)."
        ),
        assumed=True,
    )
    pausable: bool = default(False, "Whether jobs may be stopped and restarted.")
    min_nodes: PositiveInt | None = unset(
        "Minimum number of nodes on which a job can continue; all its nodes if absent."
    )
    checkpoint_interval: FixedSpan = default(
        "30 min",
        "Work between two checkpoints (assumed unless specified).",
        assumed=True,
    )
    stop: FixedSpan = default(
        "2 min",
        "Time to write a checkpoint before nodes are released (assumed unless "
        "specified).",
        assumed=True,
    )
    restart: FixedSpan = default(
        "10 min",
        "Time from a restart to the first work (assumed unless specified).",
        assumed=True,
    )
    restart_power: Share = uncertain(
        0.2,
        (
            "Power of a job while it stops and restarts, as a fraction of its mean "
            "power, but not less than its nodes' idle power"
        ),
        (0.15, 0.3),
        "(measured in Phoenix)",
    )
    slack: Annotated[float, Field(ge=0, le=1e3)] | None = unset(
        "Deadline of a job as slack per run time: it is due (1 + slack) run times "
        "after its submission; no deadline if absent."
    )
    deadline: Moment | None = unset(
        "Deadline of all jobs, in local time; instead of slack."
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
        self._need_one("slack", "deadline", n_min=0)
        return self

    @property
    def least_speed(self) -> float:
        """Minimum speed of a job, as a fraction of its full speed."""
        return 1 - TOLERATED_LOSS[self.tier]
