"""Base classes of limits: `LimitSpec`, `PowerBound`, `SeriesContext` and `Check`.

A `LimitSpec` is one entry of a limits file. A `SeriesContext` describes the series that
is checked: its step, its resolvable frequencies, its reference powers. A `PowerBound`
is a maximum power in MW or in percent of a reference power. A `Check` compares the
streamed values of a signal with one limit.
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
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from diploee.base.boundary import named_errors
from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.measures.distribution import ROUNDING, Exceedance
from diploee.base.measures.streaming import (
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
from diploee.metrics.load_changes import Key
from diploee.metrics.spectral_bands import FLAGGED_STEPS, FOLDED_SAMPLES, Support
from diploee.profiles.meter_response import TRUSTED_WINDOWS

Positive = Annotated[float, Field(gt=0, le=1e9)]
Percent = Annotated[float, Field(gt=0, le=100)]
Mark = Literal["S", "S2", "M", "J"]


MARKS: dict[Mark, str] = {
    "S": "seen in the source",
    "S2": "secondary source",
    "M": "from memory",
    "J": "our interpretation",
}
"""Evidence for a limit's value, by the mark in YAML."""


FINER = "; 'diploee run SITE --limits NAME' without 'step' takes the step that it needs"
LONGER = "; --set 'duration=365 d' of 'diploee run' gives a whole year"
POINTS = 60
"""Minimum number of points per job iteration at which a series shows its edges."""
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
    """Change to the run that would make a limit assessable."""

    FINER = "finer"  # a finer step
    LONGER = "longer"  # a whole year
    OTHER = "other"  # the reason names the change


_HINTS = {Need.FINER: FINER, Need.LONGER: LONGER, Need.OTHER: ""}


class NotAssessable(Exception):  # a result, no error  # noqa: N818
    """Reason for which a run cannot show a limited quantity; not an error.

    Parameters
    ----------
    reason : str
        Text of the reason.
    need : Need
        Change that makes the quantity assessable: a finer step, a whole year, or
        another one that the reason names.
    """

    def __init__(self, reason: str = "", need: Need = Need.OTHER) -> None:
        super().__init__(f"{reason}{_HINTS[need]}")
        self.need = need


class NotModelled(NotAssessable):
    """Reason why diploee's model cannot show a limited quantity in any run."""


class Caveats(NamedTuple):
    """Restrictions on a check's result: `note` for this run, `scope` for any run."""

    note: str = ""
    scope: str = ""
    need: Need = Need.FINER  # change that would remove the note


class Band(Model):
    """Frequency band of a limit [Hz]."""

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
        """Text of the band, such as `0.1-55 Hz`."""
        return f"{self.low_hz:g}-{self.high_hz:g} Hz"


@dataclass(frozen=True)
class SeriesContext(Brief):
    """Step, bandwidth, length and reference powers of a series that is checked."""

    clock: WallClock  # its intervals
    support: Support  # the frequencies that it can show
    horizon_ms: int  # its length [ms]
    peak_mw: float | None  # None if the metrics lack it
    nominal_mw: float  # 0 if there is none
    nominal: str  # source of the nominal power
    has_reactive: bool  # it has reactive power
    rated_mw: float = 0.0  # 0 if there is none
    exports: bool = False  # its power becomes negative
    # Reference power of `percent_of_peak` [MW] and its name; 0 and the reason if
    # there is none
    peak_base_mw: float = 0.0
    peak_base: str = ""
    no_peak_base: NotAssessable | None = None
    # Upstream grid at the point of interconnection, if it is known
    grid: ShortCircuit | None = None
    iteration_s: float = np.inf  # shortest iteration of a synchronous job

    def require_steps_per_window(self, span_ms: int, n_least: int = 1) -> None:
        """Raise `NotAssessable` unless a window has `n_least` or more whole steps."""
        if reason := self.clock.window_problem(span_ms, n_least):
            raise NotAssessable(reason, Need.FINER)

    def require_alignment(self, interval_ms: int) -> None:
        """Raise `NotAssessable` if the steps don't fit into clock intervals."""
        if reason := self.clock.alignment_problem(interval_ms):
            raise NotAssessable(reason, Need.FINER)

    def step_caveats(self, span_ms: int, between_points: bool = False) -> Caveats:
        """Return the caveats of changes within a time span [ms].

        `between_points` is True if the change is the difference of two values of the
        series. ASSUMPTION: 60 values per iteration of a synchronous job show the edges
        of its power.
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

    def mean_scope(self, span_ms: int) -> str:
        """Return the scope note of a mean over `span_ms`, empty if the mean is exact.

        The mean is not exact if the run interpolates a source's power between samples
        that are further apart than `span_ms`.
        """
        support = self.support
        is_whole = not support.is_interpolated(2 * span_ms / MS_PER_S)
        return "" if is_whole else f"a lower bound: {support.interpolation_reason}"

    def visible_band(self, band: Band) -> tuple[float, Caveats]:
        """Return the highest resolved frequency of a band [Hz], with the caveats.

        The note is on the run's step. The scope is on the bandwidth of the profiles'
        meters and the finest step of any run, 0.1 s.
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
    """Limit on a power, or on its rate: the smallest of the specified values.

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

    def resolve(self, context: SeriesContext) -> tuple[float, str]:
        """Return the limit [MW], and text on the base of its percentages."""
        limits_mw, references = [] if self.mw is None else [self.mw], []
        no_peak = NotAssessable("the run has no peak above 0 MW; run a site with load")
        parts = (
            (
                self.percent_of_peak,
                context.peak_base_mw,
                context.peak_base,
                context.no_peak_base or no_peak,
            ),
            (
                self.percent_of_nominal,
                context.nominal_mw,
                f"nominal, {context.nominal},",
                NotAssessable(NO_NOMINAL),
            ),
        )
        for percent, base_mw, name, reason in parts:
            if percent is None:
                continue
            if not base_mw > 0:
                raise reason
            limits_mw.append(percent / 100 * base_mw)
            references.append(f"{name} {base_mw:.4g} MW")
        return min(limits_mw), (
            f", {self} ({'; '.join(references)})" if references else ""
        )


@dataclass(eq=False)
class Check(Brief):
    """Comparison of the values of a signal with one upper or lower limit."""

    # Text of the limited quantity, its largest or least value, and the unit of both
    text: str
    limit: float
    unit: str
    span_ms: int  # window that a value covers
    stride_ms: int  # time from one value to the next
    signal: Signal = lambda _: None  # returns the values of a chunk
    n_window: int = 1  # power values needed for one signal value
    per_unit: float = 1.0  # signal units per unit of the limit
    # For values of the whole run: their accumulator, and the values at the end
    measure: Measure | None = None
    at_end: Callable[[], SignalChunk | None] = lambda: None
    least: bool = False  # the limit is the least that is allowed
    # Part of the limit that the run cannot show; then it is not met or inconclusive
    note: str = ""
    scope: str = ""  # part of the limit that this kind of model does not cover
    event: Key | None = None  # event in the metrics that equals the largest value
    with_warm_up: bool = False  # the warm-up is checked as well
    extra_text: Callable[[], str] = str  # returns a further statistic as text
    key: str = ""  # key in the limits file
    spec: LimitSpec | None = None  # spec that made the check
    number: int = 0  # index among the checks of the spec
    of_run: bool = False  # one value for the whole run
    need: Need = Need.OTHER  # change that would remove the note
    # Reason why there is no value, if there is none
    why_none: NotAssessable = field(
        default_factory=partial(NotAssessable, "the run is too short", Need.LONGER)
    )

    def __post_init__(self) -> None:
        if self.measure is not None:
            self.n_window = max(self.n_window, self.measure.n_window)
        self.sign = -1 if self.least else 1
        self.exceedance = Exceedance(self.sign * self.limit, self.stride_ms)

    def add(self, chunk: Chunk) -> None:
        """Compare with the limit all windows that end in the new part of a chunk."""
        with naming_errors(self.spec):
            if self.measure is not None:
                self.measure.add(chunk)
            result = self.signal(chunk)
            self._add(result and result._replace(values=result.values / self.per_unit))

    def result(self) -> Exceedance:
        """Return the exceedances of the limit, including those of the last windows."""
        with naming_errors(self.spec):
            self._add(self.at_end())
        self.at_end = lambda: None
        return self.exceedance

    def _add(self, signal_values: SignalChunk | None) -> None:
        if signal_values is not None and signal_values.values.size:
            self.exceedance.add(
                self.sign * signal_values.values,
                signal_values.first_ms,
                signal_values.edges_ms,
            )


class LimitSpec(Model):
    """Base class of limit kinds: one entry of a limits file.

    The first line of a subclass's docstring describes the YAML key. If `number` names a
    field, the key takes a plain number, the value of that field.
    """

    part_of_run: ClassVar[str] = "limit"
    key: ClassVar[str]
    number: ClassVar[str] = ""
    needs_reactive: ClassVar[bool] = False
    # A battery that limits ramps or smooths power can meet the limit
    is_sized_for: ClassVar[bool] = False

    mark: Mark | None = unset(
        "Evidence of the value: S from the source, S2 from a secondary source, M from "
        "memory, J our interpretation."
    )
    note: str = default("", "Wording of the source, or its interpretation.")

    @property
    @abstractmethod
    def quantity(self) -> str:
        """Limited quantity, as text."""

    @property
    def evidence_text(self) -> str:
        """Evidence mark and note of the limit, as text."""
        return "; ".join(
            filter(None, (MARKS[self.mark] if self.mark else "", self.note))
        )

    def error(self, text: str) -> InputError:
        """Return an error that names the limit kind."""
        return InputError(f"limit kind '{self.key}'{text}")

    @property
    def rule(self) -> str:
        """Key and values of the limit as JSON, without its mark and note."""
        return f"{self.key}: {self.model_dump_json(exclude={'mark', 'note'})}"

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the largest changes of power that the limit allows; none by default.

        Each is (direction, bound, factor, time [ms]). The allowed change is the bound
        times the factor. A load meets the limit if its whole range is smaller than
        this change, or if it takes at least the time for each such change.
        """
        yield from ()

    def chart_lines(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield the lines of the limit in charts; none by default.

        Each is (chart, bound, factor, window [ms]). The line is at the bound times the
        factor.
        """
        yield from ()

    def whole_load_check(self, context: SeriesContext) -> Check | None:
        """Return a check on the power itself if the whole load is below the limit.

        A load between zero and its maximum never changes by more than this maximum.
        ASSUMPTION (judgement): the load never exceeds the larger of the run's peak and
        the rated power.
        """
        try:
            sizes = [
                amount.resolve(context)[0] * factor
                for _, amount, factor, _ in self.changes_mw()
            ]
        except NotAssessable:
            return None
        most_mw = max(context.peak_mw or np.inf, context.rated_mw or np.inf)
        if context.exports or not sizes or min(sizes) < most_mw:
            return None

        text = f"{self.quantity}: the whole load, at most {most_mw:.4g} MW, is below it"
        return power_check(text, min(sizes), context)

    @abstractmethod
    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the checks that can be made on a series."""


def naming_errors(spec: LimitSpec | None) -> AbstractContextManager[None]:
    """Return a context manager in which errors of a limit's code name its kind."""
    return (
        nullcontext()
        if spec is None
        else named_errors("its checks", spec.error, NotAssessable)
    )


def power_check(
    text: str, limit_mw: float, context: SeriesContext, event: Key | None = None
) -> Check:
    """Return a check on the power, as means over the run's steps."""
    step_ms = context.clock.step_ms
    return Check(
        text,
        limit_mw,
        "MW",
        step_ms,
        step_ms,
        power,
        per_unit=QUANTA_PER_MW,
        event=event,
        with_warm_up=True,
        scope=context.mean_scope(step_ms),
    )


MAX_OF_RATED = 3.0
"""A limit on the power itself is questioned above this multiple of the rated power."""


def unit_question(limit_mw: float, context: SeriesContext) -> str:
    """Return a question to the user if a limit may be in kW, else an empty text."""
    ratio = limit_mw / context.rated_mw if context.rated_mw else 0.0
    rated = (
        f"{format_short(limit_mw)} MW is {format_short(ratio)} times the rated "
        f"{format_short(context.rated_mw)} MW"
    )
    return f"{rated}: is it in kW?" if ratio > MAX_OF_RATED else ""


def check_of_run(
    text: str,
    limit: float,
    unit: str,
    context: SeriesContext,
    measure: Measure,
    value: Callable[[], float | None],
    *,
    span_ms: int = 0,
    **options: Any,
) -> Check:
    """Return a check on a single value that a measure computes from the whole run.

    Parameters
    ----------
    text : str
        The limited quantity, as text.
    limit : float
        Largest allowed value, or the smallest one with ``least=True``.
    unit : str
        Unit of the limit and of the value.
    context : SeriesContext
        The series to be checked.
    measure : Measure
        Measure that receives the series.
    value : callable
        Function that returns the measured value at the end of the run, or None.
    span_ms : int
        Length of the time window to which the value refers [ms]; 0 is the whole run.
    **options : object
        Fields of `Check`.
    """
    horizon_ms = context.horizon_ms

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
