"""Shared by all kinds of limits.

Sizes in YAML, what a run shows, and a check on a stream.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import (
    Field,
    PositiveFloat,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from diploee.base.boundary import named_errors
from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.measures.distribution import ROUNDING, Exceedance
from diploee.base.measures.series import (
    QUANTA_PER_MW,
    Chunk,
    Measure,
    Signal,
    SignalChunk,
    power,
)
from diploee.base.measures.voltage import ShortCircuit
from diploee.base.metric import format_short
from diploee.base.model import Model, default, unset
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.metrics.changes import Key
from diploee.metrics.spectral_bands import FLAGGED_STEPS, FOLDED_SAMPLES, Support
from diploee.profiles.meter_response import TRUSTED_WINDOWS

Positive = PositiveFloat
Percent = Annotated[float, Field(gt=0, le=100)]
Mark = Literal["S", "S2", "M", "J"]


MARKS: dict[Mark, str] = {
    "S": "seen in the source",
    "S2": "secondary source",
    "M": "from memory",
    "J": "our interpretation",
}
"""How sure a figure is, in words."""


FINER = "; 'diploee run SITE --limits NAME' without 'step' takes the step that it needs"
LONGER = "; --set 'duration=365 d' of 'diploee run' gives a whole year"
POINTS = 60
"""Of an iteration at least, for a series to show its edges."""
UNFOLDED = (
    "; use profiles whose meter averages over its interval, such as differences of "
    "energy counters (`diploee profiles import wattameter`), or power.draw of an H100 "
    "or H200"
)


NO_NOMINAL = (
    "no nominal power above 0 MW; give contract_mva of 'point_of_interconnection', or "
    "rated_power_mw of the facility"
)


class Need(StrEnum):
    """Something that would show more of a limit."""

    FINER = "finer"  # a finer step
    LONGER = "longer"  # a whole year
    OTHER = "other"  # what the reason names


_HINTS = {Need.FINER: FINER, Need.LONGER: LONGER, Need.OTHER: ""}


class NotAssessable(Exception):  # no error: an answer  # noqa: N818
    """A quantity that a run does not show; the text says why.

    Parameters
    ----------
    reason : str
        Why not.
    need : Need
        What shows it: a finer step, a whole year, or what the reason names.
    """

    def __init__(self, reason: str = "", need: Need = Need.OTHER) -> None:
        super().__init__(f"{reason}{_HINTS[need]}")
        self.need = need


class NotModelled(NotAssessable):
    """A quantity that no run of this kind of model shows; the text says why."""


class Caveats(NamedTuple):
    """Words on a limit: what the run (`note`), or any such model, does not show."""

    note: str = ""
    scope: str = ""
    need: Need = Need.FINER  # what shows more than the note


class Band(Model):
    """A band of frequencies."""

    low_hz: Positive = Field(description="Lower edge of the band [Hz].")
    high_hz: Positive = Field(description="Upper edge of the band [Hz].")

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.high_hz <= self.low_hz:
            raise ValueError(
                f"high_hz must be above low_hz, found {self.low_hz:g} to "
                f"{self.high_hz:g}"
            )
        return self

    @property
    def band(self) -> str:
        """The band in words."""
        return f"{self.low_hz:g}-{self.high_hz:g} Hz"


@dataclass(frozen=True)
class SeriesContext(Brief):
    """A series to be checked against limits."""

    clock: WallClock  # its intervals
    support: Support  # the frequencies that it can show
    horizon_ms: int  # its length [ms]
    peak_mw: float | None  # None where the metrics do not hold it
    nominal_mw: float  # 0 where there is none
    nominal: str  # source of the nominal power
    has_reactive: bool  # it has reactive power
    rated_mw: float = 0.0  # 0 where there is none
    exports: bool = False  # its power goes below 0
    # What a percentage of the peak is of [MW], and what that is; 0 and why not where
    # there is none
    whole_mw: float = 0.0
    whole: str = ""
    no_whole: NotAssessable | None = None
    # Behind the point of interconnection, where it is known
    grid: ShortCircuit | None = None
    iteration_s: float = np.inf  # shortest iteration of a synchronous job

    def held(self, span_ms: int, n_least: int = 1) -> None:
        """Raise `NotAssessable` where the series holds no window of a length."""
        if reason := self.clock.window_problem(span_ms, n_least):
            raise NotAssessable(reason, Need.FINER)

    def aligned(self, interval_ms: int) -> None:
        """Raise `NotAssessable` where clock intervals of a length can't be summed."""
        if reason := self.clock.alignment_problem(interval_ms):
            raise NotAssessable(reason, Need.FINER)

    def steps(self, span_ms: int, between_points: bool = False) -> Caveats:
        """Return what is to be said of a time span, or between two points.

        ASSUMPTION: points show iterations of a synchronous job where there are 60 in
        each.
        """
        clock, support = self.clock, self.support
        note = scope = ""
        if (
            support.aliasing_reason
            and span_ms / MS_PER_S < FOLDED_SAMPLES * support.readings[0].interval_s
        ):
            raise NotAssessable(support.aliasing_reason + UNFOLDED)
        if (
            between_points
            and span_ms < 2 * clock.step_ms
            and clock.step_ms > PROFILE_STEP_MS
        ):
            note = f"lower bound: means over {clock.step_s:g} s smear steps under " + (
                f"{2 * clock.step_s:g} s{FINER}"
            )
        hides = (
            clock.step_ms > PROFILE_STEP_MS and clock.step_s > self.iteration_s / POINTS
        )
        if hides and between_points and not note:
            note = (
                f"lower bound: means over {clock.step_s:g} s hide iterations of "
                f"{self.iteration_s:.3g} s{FINER}"
            )
        if support.is_interpolated(span_ms / MS_PER_S):
            scope = f"a lower bound: {support.interpolation_reason}"
        elif support.is_lower_bound(span_ms / MS_PER_S):
            scope = support.smoothing_reason
        return Caveats(note, scope)

    def of_mean(self, span_ms: int) -> str:
        """Return the scope of a mean over a time.

        A source may be interpolated within more.
        """
        support = self.support
        is_whole = not support.is_interpolated(2 * span_ms / MS_PER_S)
        return "" if is_whole else f"a lower bound: {support.interpolation_reason}"

    def seen(self, band: Band) -> tuple[float, Caveats]:
        """Return up to where a band is seen [Hz], and what is to be said of that.

        The scope is what this kind of model covers: the detail of profiles and 0.1 s.
        """
        support, step_s, text = self.support, self.clock.step_s, ""
        if support.aliasing_reason:
            raise NotAssessable(support.aliasing_reason + UNFOLDED)
        detail_hz = min(support.detail_hz, FLAGGED_STEPS / (PROFILE_STEP_MS / MS_PER_S))
        if band.low_hz >= detail_hz:
            raise NotModelled(f"nothing is modelled above {detail_hz:.3g} Hz")
        is_finest = self.clock.step_ms <= PROFILE_STEP_MS
        run_hz = (FLAGGED_STEPS if is_finest else TRUSTED_WINDOWS) / step_s
        if band.low_hz >= run_hz * (1 - ROUNDING):
            raise NotAssessable(
                f"the run's step of {step_s:g} s does not hold it", Need.FINER
            )
        wanted_hz = min(band.high_hz, detail_hz)
        seen_hz = min(wanted_hz, run_hz)
        if seen_hz < wanted_hz * (1 - ROUNDING):
            text = (
                f"seen to {seen_hz:.3g} Hz of {band.band}, as the run's step is "
                f"{step_s:g} s{FINER}"
            )
        return seen_hz, Caveats(text, support.scope(band.high_hz, seen_hz))


class PowerBound(Model):
    """A size of power, or of its rate: the lesser of what is given.

    A plain number is in MW.
    """

    mw: Positive | None = unset("Value in MW.")
    percent_of_peak: Positive | None = unset(
        "Value in percent of the contracted power, or of the peak of a whole year if "
        "there is no contract."
    )
    percent_of_nominal: Positive | None = unset(
        "Value in percent of the contracted power, or of the rated power if there is "
        "no contract."
    )

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        return (
            value
            if isinstance(value, dict | PowerBound | list | None)
            else {"mw": value}
        )

    @model_validator(mode="after")
    def _some(self) -> PowerBound:
        if not self.model_fields_set:
            raise ValueError("give mw, percent_of_peak or percent_of_nominal")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        dumped = {
            key: value for key, value in handler(self).items() if value is not None
        }
        return self.mw if set(dumped) == {"mw"} else dumped

    def __str__(self) -> str:
        parts = (
            (self.mw, "MW"),
            (self.percent_of_peak, "% of the peak"),
            (self.percent_of_nominal, "% of nominal"),
        )
        given = [f"{size:g} {unit}" for size, unit in parts if size is not None]
        return f"lesser of {' and '.join(given)}" if len(given) > 1 else given[0]

    def of(self, shown: SeriesContext) -> tuple[float, str]:
        """Return the size [MW], and how it came about where it is no plain number."""
        sizes, of = [] if self.mw is None else [self.mw], []
        no_peak = NotAssessable("the run has no peak above 0 MW; run a site with load")
        parts = (
            (
                self.percent_of_peak,
                shown.whole_mw,
                shown.whole,
                shown.no_whole or no_peak,
            ),
            (
                self.percent_of_nominal,
                shown.nominal_mw,
                f"nominal, {shown.nominal},",
                NotAssessable(NO_NOMINAL),
            ),
        )
        for percent, whole_mw, name, why in parts:
            if percent is None:
                continue
            if not whole_mw > 0:
                raise why
            sizes.append(percent / 100 * whole_mw)
            of.append(f"{name} {whole_mw:.4g} MW")
        return min(sizes), f", {self} ({'; '.join(of)})" if of else ""


@dataclass(eq=False)
class Check(Brief):
    """One limit on a series: values of a signal against a largest or `least` one."""

    # The limited quantity in words, its largest or least value, and the unit of both
    text: str
    limit: float
    unit: str
    span_ms: int  # time that a value is of
    stride_ms: int  # time from one value to the next
    signal: Signal = lambda _: None  # gives the values of a stretch
    n_window: int = 1  # values of power that one of the signal takes
    per_unit: float = 1.0  # how many of the signal's make one of the limit's unit
    # Of what only the whole run has: what takes it in, and its values
    measure: Measure | None = None
    at_end: Callable[[], SignalChunk | None] = lambda: None
    least: bool = False  # the limit is the least that is allowed
    # What of the limit the run does not show: without a violation it is open
    note: str = ""
    scope: str = ""  # what of it this kind of model does not cover
    event: Key | None = None  # the event of the metrics that the largest value is
    whole: bool = False  # the time counts in which a run fills up
    aside: Callable[[], str] = str  # gives words on what is beside
    key: str = ""  # in the file of limits
    spec: LimitSpec | None = None  # of which it is
    number: int = 0  # among the checks of its entry
    of_run: bool = False  # the value is one of the whole run
    need: Need = Need.OTHER  # what shows more than the note
    # Why there is no value, where there is none
    why_none: NotAssessable = field(
        default_factory=partial(NotAssessable, "the run is too short", Need.LONGER)
    )

    def __post_init__(self) -> None:
        if self.measure is not None:
            self.n_window = max(self.n_window, self.measure.n_window)
        self.sign = -1 if self.least else 1
        self.exceedance = Exceedance(self.sign * self.limit, self.stride_ms)

    def add(self, stretch: Chunk) -> None:
        """Evaluate what ends in the new part of a stretch."""
        with named(self.spec):
            if self.measure is not None:
                self.measure.add(stretch)
            result = self.signal(stretch)
            self._add(result and result._replace(values=result.values / self.per_unit))

    def result(self) -> Exceedance:
        """Return where values are beyond the limit, with what is left at the end."""
        with named(self.spec):
            self._add(self.at_end())
        self.at_end = lambda: None
        return self.exceedance

    def _add(self, found: SignalChunk | None) -> None:
        if found is not None and found.values.size:
            self.exceedance.add(
                self.sign * found.values, found.first_ms, found.edges_ms
            )


class LimitSpec(Model):
    """Base of the kinds: one entry of the list that a file has under their key.

    The first line of a kind's docstring describes the key; entries that are a number
    set `number`.
    """

    part_of_run: ClassVar[str] = "limit"
    key: ClassVar[str]
    number: ClassVar[str] = ""
    needs_reactive: ClassVar[bool] = False
    # A battery that holds ramps or smooths can keep it
    is_sized_for: ClassVar[bool] = False

    mark: Mark | None = unset(
        "Evidence of the value: S from the source, S2 from a secondary source, M from "
        "memory, J our interpretation."
    )
    note: str = default("", "Wording of the source, or its interpretation.")

    @property
    @abstractmethod
    def what(self) -> str:
        """The limited quantity, in words."""

    @property
    def read_from(self) -> str:
        """How sure the figure is, and how it was read."""
        return "; ".join(
            filter(None, (MARKS[self.mark] if self.mark else "", self.note))
        )

    def refused(self, text: str) -> InputError:
        """Return an error that names the kind."""
        return InputError(f"limit kind '{self.key}'{text}")

    @property
    def rule(self) -> str:
        """The limited quantity and its limit, whoever states them."""
        return f"{self.key}: {self.model_dump_json(exclude={'mark', 'note'})}"

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield changes of power that are kept.

        Direction, an amount and how often, time [ms]. A load that is no larger keeps
        the limit, however fast it changes, and so does one that takes the time for it,
        where there is one; none by default.
        """
        yield from ()

    def drawn(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield lines in figures: which, an amount and how often, length [ms].

        None by default.
        """
        yield from ()

    def below(self, shown: SeriesContext) -> Check | None:
        """Return a check of the power itself where the whole load is below the limit.

        A load between nothing and its maximum changes by no more than that, at any
        bandwidth. ASSUMPTION [J]: at no moment is it above both the run's peak and the
        rated power.
        """
        try:
            sizes = [
                amount.of(shown)[0] * factor
                for _, amount, factor, _ in self.changes_mw()
            ]
        except NotAssessable:
            return None
        most_mw = max(shown.peak_mw or np.inf, shown.rated_mw or np.inf)
        if shown.exports or not sizes or min(sizes) < most_mw:
            return None

        text = f"{self.what}: the whole load, at most {most_mw:.4g} MW, is below it"
        return power_check(text, min(sizes), shown)

    @abstractmethod
    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the checks that a series allows."""


def named(spec: LimitSpec | None) -> AbstractContextManager[None]:
    """Make an error that names the kind of whatever one from outside raises."""
    return (
        nullcontext()
        if spec is None
        else named_errors("its checks", spec.refused, NotAssessable)
    )


def power_check(
    text: str, limit_mw: float, shown: SeriesContext, event: Key | None = None
) -> Check:
    """Return a check of the power itself, the run's own interval means."""
    step_ms = shown.clock.step_ms
    return Check(
        text,
        limit_mw,
        "MW",
        step_ms,
        step_ms,
        power,
        per_unit=QUANTA_PER_MW,
        event=event,
        whole=True,
        scope=shown.of_mean(step_ms),
    )


MAX_OF_RATED = 3.0
"""A limit on the power itself is questioned above this multiple of the rated power."""


def in_kw(limit_mw: float, shown: SeriesContext) -> str:
    """Return whether a limit on the power may be in kW; empty where it may not."""
    ratio = limit_mw / shown.rated_mw if shown.rated_mw else 0.0
    rated = (
        f"{format_short(limit_mw)} MW is {format_short(ratio)} times the rated "
        f"{format_short(shown.rated_mw)} MW"
    )
    return f"{rated}: is it in kW?" if ratio > MAX_OF_RATED else ""


def check_of_run(
    text: str,
    limit: float,
    unit: str,
    shown: SeriesContext,
    measure: Measure,
    value: Callable[[], float | None],
    *,
    span_ms: int = 0,
    **options: Any,
) -> Check:
    """Return a check of the one value that a measure gives of a whole run.

    Parameters
    ----------
    text : str
        The limited quantity, in words.
    limit : float
        Largest value; with ``least=True`` the smallest.
    unit : str
        Unit of the limit and of the value.
    shown : Shown
        The series to be checked.
    measure : Measure
        Takes in the series.
    value : callable
        Gives the value at the end; None = no value.
    span_ms : int
        Time that the value stands for [ms]; 0 = the whole run.
    **options : object
        Fields of `Check`.
    """
    horizon_ms = shown.horizon_ms

    def at_end() -> SignalChunk | None:
        if (result := value()) is None:
            return None
        return SignalChunk(np.array([result]), 0, np.array([0, horizon_ms]))

    return Check(
        text,
        limit,
        unit,
        span_ms or horizon_ms,
        horizon_ms,
        measure=measure,
        at_end=at_end,
        of_run=True,
        **options,
    )
