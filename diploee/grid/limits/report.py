"""Checking a finished run against limits: `check_limits(run, limits) -> LimitReport`.

The verdict on each is one of three. What is seen beyond a limit is not met, however
little of the rule the run shows; a limit is met where the run shows all of it that this
kind of model covers, and what the model does not cover is named beside it; the rest is
inconclusive. `LimitWatch` checks a run while it passes, at the step that its limits
need.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError, one_line, plural, shown
from diploee.base.measures.series import MAX_DAY_POWER_W, MeasureRunner, to_quanta
from diploee.base.metric import short
from diploee.base.progress import stage
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import (
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_S,
    S_PER_DAY,
    S_PER_H,
    S_PER_MIN,
)
from diploee.grid.limits.check import (
    Check,
    LimitSpec,
    Need,
    NotAssessable,
    Outside,
    Shown,
    named,
)
from diploee.grid.limits.file import LIMITS, Limits
from diploee.metrics.bands import Support, profile_support, recorded_readings
from diploee.metrics.cause_words import cause_words, causes_of
from diploee.metrics.changes import Key
from diploee.metrics.demand import rated_of
from diploee.runs.reader import RunFolder
from diploee.scenario.models import Facility, Scenario

POWER_COLUMN = "facility_power_w"
REACTIVE_COLUMNS = ("poi_reactive_var", "facility_reactive_var")

Verdict = Literal["met", "inconclusive", "not met"]
Answer = Verdict | Literal["not covered"]
VERDICTS: tuple[Verdict, ...] = ("met", "inconclusive", "not met")
"""From good to bad: of several the worst counts."""

YEAR_MS = 365 * MS_PER_DAY
"""Less can show that a limit is not met, and not that it is."""


class Unchecked(NamedTuple):
    """A limit without a check."""

    key: str
    text: str
    reason: str
    need: Need = Need.OTHER  # what would give one


@dataclass(frozen=True)
class Worst:
    """One of the worst events of a violation."""

    # First value beyond the limit, end of the last, and time of the worst one
    # (ISO 8601)
    begin: str
    end: str
    time: str
    value: float  # the worst value, in the limit's unit


@dataclass(frozen=True)
class LimitResult(Brief):
    """Result of the check of one limit."""

    key: str  # in the file
    text: str  # what is limited, in words
    limit: float  # largest, or least, value
    unit: str  # of the limit and of all values
    violations: int  # unbroken stretches beyond the limit
    duration_s: float  # their total: values beyond the limit times their spacing
    window_s: float  # length of the window or interval behind a value
    worst: tuple[Worst, ...]  # the worst stretches, at most five, the worst first
    note: str  # what weakens the check, such as a lower bound
    cause: str = ""  # why the worst event came about, where the run's metrics tell
    value: float = 0.0  # the largest value, of a least limit the smallest, kept or not
    time: str = ""  # when it is (ISO 8601)
    source: str = ""  # how sure the limit itself is, and how it was read
    least: bool = False  # the limit is the least that is allowed
    of_run: bool = False  # the value is one of the whole run, at no time of its own
    scope: str = ""  # what of the limit this kind of model does not cover
    number: int = 0  # among the checks of its entry, such as those of both directions
    need: Need = Need.OTHER  # what shows more than the note
    ends: str = ""  # what it is at the other end of what is known of a large job

    @property
    def verdict(self) -> Verdict:
        """Whether the limit is met.

        Where a part alone is seen it can only be not met.
        """
        return "not met" if self.violations else "inconclusive" if self.note else "met"

    @property
    def use(self) -> float:
        """How much of the limit the worst value uses.

        Of a least allowed one the inverse.
        """
        part, whole = (
            (self.limit, self.value) if self.least else (self.value, self.limit)
        )
        return part / whole if whole > 0 else math.nan

    def by_how_much(self) -> str:
        """Return the limit's name, the worst value and what is allowed."""
        joined, name = (
            ", at least" if self.least else " of",
            self.text.partition(" (")[0],
        )
        return (
            f"{name}: {short(self.value)}{joined} {short(self.limit)} {self.unit}"
        ).rstrip()

    def brief(self) -> str:
        """Return by how much it is met or not, when and how often, and caveats."""
        parts = [self.by_how_much()]
        if self.time:
            parts.append(self.time[:19].replace("T", " at "))
        if self.violations:
            times = plural(self.violations, "violation")
            parts.append(f"{times}, {_duration(self.duration_s)} in all")
        return "; ".join([*parts, *filter(None, (self.ends, self.note, self.scope))])

    def line(self) -> str:
        """Return all of the result in one line."""

        def sized(value: float, form: str = "{:.6g}") -> str:
            return f"{form.format(value)} {self.unit}".rstrip()

        limit = f"{self.key}: {self.text}, limit {sized(self.limit, '{:g}')}"
        said = "; ".join(filter(None, (self.ends, self.note, self.scope, self.source)))
        note = f" ({said})" if said else ""
        if self.of_run:
            return f"{limit}: {self.verdict}, {sized(self.value)} over the run{note}"
        if not self.violations:
            return (
                f"{limit}: {self.verdict}, worst {sized(self.value)} at "
                f"{self.time}{note}"
            )
        return (
            f"{limit}: not met, {plural(self.violations, 'violation')} "
            f"(adjacent ones count as one), {_duration(self.duration_s)} in all, "
            f"worst {sized(self.worst[0].value)} at {self.worst[0].time}"
            f"{note}{f': {self.cause}' if self.cause else ''}"
        )


@dataclass(frozen=True)
class LimitReport(Brief):
    """A run checked against limits."""

    resolution_s: float  # of what was checked
    results: tuple[LimitResult, ...]  # one for each limit that could be checked
    unchecked: tuple[Unchecked, ...]  # those that could not
    outside: tuple[Unchecked, ...] = ()  # those that this kind of model does not cover
    days: float = YEAR_MS / MS_PER_DAY  # length of what was checked
    boundary: str = ""  # where the power that was checked is taken
    name: str = ""  # of the limits
    origin: str = ""  # their source, date and status
    notes: tuple[str, ...] = ()  # what they leave out or assume

    @property
    def not_met(self) -> tuple[LimitResult, ...]:
        """The limits that are not met."""
        return tuple(result for result in self.results if result.violations)

    def beside(self, other: LimitReport, where: str) -> LimitReport:
        """Return the report with what another found of the same limits."""
        of = {(result.key, result.number): result for result in other.results}
        open_ = {of.key: f"inconclusive, {of.reason}" for of in other.unchecked}
        results = []
        for result in self.results:
            # A load that is wholly below a limit has one check of it for both
            # directions.
            end = of.get((result.key, result.number)) or of.get((result.key, 0))
            said = open_.get(result.key, "not covered")
            if end is not None:
                said = f"{end.verdict}, worst {short(end.value)} {end.unit}".rstrip()
            results.append(replace(result, ends=f"{where}: {said}"))
        return replace(self, results=tuple(results))

    def taking(self, other: LimitReport, keys: Mapping[str, str]) -> LimitReport:
        """Return the report with what another found of some limits, by keys here."""
        said = f"checked while the run passed, at {other.resolution_s:g} s"
        back = {there: here for here, there in keys.items()}
        results = [result for result in self.results if result.key not in keys]
        for of in other.results:
            if of.key in back:
                scope = "; ".join(filter(None, (of.scope, said)))
                results.append(replace(of, key=back[of.key], scope=scope))

        def joined(
            own: tuple[Unchecked, ...], others: tuple[Unchecked, ...]
        ) -> tuple[Unchecked, ...]:
            taken = (of._replace(key=back[of.key]) for of in others if of.key in back)
            return *(of for of in own if of.key not in keys), *taken

        every = {of.key for of in self.results}
        every |= {of.key for of in (*self.unchecked, *self.outside)}
        return replace(
            self,
            resolution_s=(other if every <= keys.keys() else self).resolution_s,
            results=tuple(results),
            unchecked=joined(self.unchecked, other.unchecked),
            outside=joined(self.outside, other.outside),
        )

    @property
    def verdict(self) -> Verdict:
        """The verdict on all; part of a year only shows limits that are not met."""
        return (
            "inconclusive" if self.of_span == "met" and self.is_part else self.of_span
        )

    def rank(self) -> int:
        """Return the place by the verdict, what is not met first."""
        return -VERDICTS.index(self.verdict)

    @property
    def of_span(self) -> Verdict:
        """The worst verdict on a limit over the time that was run."""
        return max(self._verdicts, default="inconclusive", key=VERDICTS.index)

    @property
    def is_met(self) -> bool:
        """Whether every limit is met over a year."""
        return self.verdict == "met"

    @property
    def is_part(self) -> bool:
        """Whether less than a year was checked."""
        return self.days * MS_PER_DAY < YEAR_MS

    @property
    def _verdicts(self) -> list[Verdict]:
        unseen: Verdict = "inconclusive"
        return [
            *(result.verdict for result in self.results),
            *[unseen] * len(self.unchecked),
        ]

    def verdict_line(self) -> str:
        """Return the verdict in one line, with the count of each."""
        part = f"{self.days:.3g} days of a year; " if self.is_part else ""
        undecided = (
            "; only a whole year decides" if self.verdict != self.of_span else ""
        )
        counts = f"{part}{self.counts()}{undecided}"
        return f"{self.name or 'limits'}: {self.verdict.upper()} ({counts})"

    def counts(self) -> str:
        """Return how many limits have each verdict, and how many none is given on."""
        order: tuple[Verdict, ...] = ("not met", "met", "inconclusive")
        counted = [f"{n} {v}" for v in order if (n := self._verdicts.count(v))]
        return ", ".join(
            counted + [f"{len(self.outside)} not covered"] * bool(self.outside)
        )

    def by_how_much(self) -> str:
        """Return the deciding limit, the most used one, and by how much."""
        deciding = [result for result in self.results if result.verdict == self.of_span]
        most = max(deciding, key=lambda of: np.nan_to_num(of.use), default=None)
        return most.by_how_much() if most else ""

    def brief(self) -> list[str]:
        """Return the verdict and a short line for each limit, unmet ones first."""
        said: list[tuple[Answer, str]] = [
            (of.verdict, of.brief()) for of in self.results
        ]
        said += [("inconclusive", f"{of.text}: {of.reason}") for of in self.unchecked]
        said += [("not covered", f"{of.text}: {of.reason}") for of in self.outside]
        order: tuple[Answer, ...] = (*reversed(VERDICTS), "not covered")
        lines = [
            f"  {v:<12}  {words}" for word in order for v, words in said if v == word
        ]
        return [self.verdict_line(), *lines]

    def head(self) -> list[str]:
        """Return the verdict, the limits' source, and what they omit or assume."""
        said = (
            self.verdict_line(),
            self.origin,
            *(f"note: {note}" for note in self.notes),
        )
        return [line for line in said if line]

    def lines(self) -> list[str]:
        """Return one line for each limit."""
        return [result.line() for result in self.results] + [
            f"{of.key}: {of.text}: {verdict}, {of.reason}"
            for verdict, found in (
                ("inconclusive", self.unchecked),
                ("not covered", self.outside),
            )
            for of in found
        ]

    def _repr_html_(self) -> str:
        return f"<pre>{escape(chr(10).join([*self.head(), *self.lines()]))}</pre>"

    def as_dict(self) -> dict[str, Any]:
        """Return the report in plain types, for JSON."""
        return {
            "verdict": self.verdict,
            "met": self.is_met,
            "name": self.name,
            "origin": self.origin,
            "notes": list(self.notes),
            "resolution_s": self.resolution_s,
            "days": self.days,
            "boundary": self.boundary,
            "results": [
                {**asdict(result), "verdict": result.verdict} for result in self.results
            ],
            **{
                name: [of._asdict() for of in found]
                for name, found in (
                    ("unchecked", self.unchecked),
                    ("outside", self.outside),
                )
            },
        }


class Supply(NamedTuple):
    """Another power of a run [W], such as behind a battery."""

    power_w: Float64Array
    metrics: dict[str, Any]
    facility: Facility


def reports_of(
    run: RunFolder, limits: Iterable[Limits] = ()
) -> tuple[LimitReport, ...]:
    """Return what was checked while a run passed, at its step, then further limits.

    Each once.
    """
    stored = (
        TypeAdapter(LimitReport).validate_python(of["report"])
        for of in run.checked_limits
    )
    return tuple(dict.fromkeys([*stored, *(report_on(run, of) for of in limits)]))


def report_on(run: RunFolder, limits: Limits) -> LimitReport:
    """Check a run against limits.

    What was checked while the run passed is given as it was found then, at the run's
    step, each entry of a file by itself.
    """
    asked = limits.model_dump(mode="json", exclude_defaults=True)
    stored = [
        *zip((of["limits"] for of in run.checked_limits), reports_of(run), strict=True)
    ]
    for theirs, report in stored:
        if theirs == asked:
            return report
    found, left = (
        check_limits(run, limits),
        {spec.rule: key for key, spec in limits.each()},
    )
    for theirs, report in stored:
        # A key of somebody's own has no meaning where its module is not imported
        known = {k: of for k, of in theirs.items() if k in LIMITS.by_name}
        specs = Limits.model_validate(known).each() if known else ()
        keys = {left.pop(s.rule): key for key, s in specs if s.rule in left}
        found = found.taking(report, keys) if keys else found
    return found


@stage("limits")
def check_limits(
    run: RunFolder, limits: Limits, supply: Supply | None = None
) -> LimitReport:
    """Check the facility's power of a run against limits, streamed from its file.

    Ramps, swings and bands of the time in which a run that began empty filled up are
    left out. Values are float32 as stored: a limit within 1e-7 of the power may go
    either way.

    Parameters
    ----------
    run : RunFolder
        A finished run, from `diploee.open_run`.
    limits : Limits
        From `load_limits`.
    supply : Supply, optional
        Another power in place of the run's own, such as behind a battery.

    Raises
    ------
    InputError
        If the run's power can't be read.
    """
    reactive = reactive_of(limits, {column.name for column in run.columns})
    whole = seen_by(run, bool(reactive), supply)
    checks, unchecked = all_checks(limits, whole)
    metrics = run.metrics if supply is None else supply.metrics
    transient_ms = round(run.transient_h * MS_PER_H)
    series = Checked(checks, whole.clock.step_ms)
    for begin_ms, power, of_run in _blocks(run, reactive, supply):
        series.add(begin_ms, power, transient_ms, of_run)
    found = report_of(limits, checks, unchecked, whole, metrics, transient_ms)
    return replace(found, boundary=run.boundary())


def reactive_of(limits: Limits, columns: Collection[str]) -> list[str]:
    """Return the column of reactive power that limits ask for, if there is one."""
    needs_reactive = any(spec.needs_reactive for _, spec in limits.each())
    return [name for name in REACTIVE_COLUMNS if needs_reactive and name in columns][:1]


def report_of(
    limits: Limits,
    checks: Sequence[Check],
    unchecked: Sequence[tuple[Unchecked, bool]],
    whole: Shown,
    metrics: Mapping[str, Any],
    transient_ms: int,
) -> LimitReport:
    """Return what checks found of a series, and the `unchecked`."""
    for check in checks:
        check.result()
        if transient_ms and check.of_run and not check.whole:
            check.text += (
                f", without the first {transient_ms / MS_PER_H:.3g} h of filling up"
            )
    seen = [check for check in checks if check.exceedance.n_values]
    nothing = [
        Unchecked(c.key, c.text, str(c.why_none), c.why_none.need)
        for c in checks
        if not c.exceedance.n_values
    ]
    causes = {
        (key, time): cause_words(cause) for key, time, cause in causes_of(metrics)
    }
    not_stated = [
        Unchecked(f"not_stated.{k}", text, "no figure was seen in the source")
        for k, text in enumerate(limits.not_stated)
    ]
    return LimitReport(
        resolution_s=whole.clock.step_s,
        results=tuple(_result(check, whole.clock, causes) for check in seen),
        unchecked=(*(of for of, is_outside in unchecked if not is_outside), *nothing),
        outside=(*(of for of, is_outside in unchecked if is_outside), *not_stated),
        days=whole.horizon_ms / MS_PER_DAY,
        name=limits.name,
        origin=limits.origin,
        notes=(*limits.notes, *covered(metrics)),
    )


def covered(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the profiles of a run show, and of what share of its energy."""
    block = (metrics.get("grid") or {}).get("bandwidth") or {}
    if said := "; ".join(
        f"{of['name']} ({of['note']})" for of in block.get("of_profiles") or ()
    ):
        yield f"detail of the profiles, of which the weakest decides: {said}"


def all_checks(
    limits: Limits, whole: Shown
) -> tuple[list[Check], list[tuple[Unchecked, bool]]]:
    """Return the checks that a series allows, and those that it does not."""
    checks: list[Check] = []
    unchecked: list[tuple[Unchecked, bool]] = []
    for key, spec in limits.each():
        with named(spec):
            found, why = checks_of(spec, whole)
            is_seen = bool(found) and not any(check.note for check in found)
            if not is_seen and (below := spec.below(whole)):
                found = [below]
            if not found:
                source = f" ({spec.read_from})" if spec.read_from else ""
                need = why.need if why else Need.OTHER
                left_out = Unchecked(key, spec.what, f"{why or ''}{source}", need)
                unchecked.append((left_out, isinstance(why, Outside)))
        for number, check in enumerate(found):
            check.key, check.spec, check.number = key, spec, number
        checks += found
    return checks, unchecked


def checks_of(
    spec: LimitSpec, shown_: Shown
) -> tuple[list[Check], NotAssessable | None]:
    """Return the checks that a series allows, or why there are none."""
    try:
        found = list(spec.checks(shown_))
    except NotAssessable as answer:
        return [], answer
    for check in found:
        if not isinstance(check, Check):
            raise spec.refused(
                f": checks must yield Check, found {one_line(shown(check))}"
            )
    return found, None


class Checked:
    """A series that is passed to checks, those of what it is filled up apart."""

    def __init__(self, checks: Sequence[Check], step_ms: int) -> None:
        self._whole = MeasureRunner(step_ms, [check for check in checks if check.whole])
        self._filled = MeasureRunner(
            step_ms, [check for check in checks if not check.whole]
        )

    def add(
        self, begin_ms: int, power: Int64Array, transient_ms: int, reactive: Any = None
    ) -> None:
        """Take in the next values [quanta]; those before `transient_ms` fill it up."""
        self._whole.add(begin_ms, power, reactive=reactive)
        self._filled.add(begin_ms, power, transient_ms, reactive)


def seen_by(
    run: RunFolder, has_reactive: bool = False, supply: Supply | None = None
) -> Shown:
    """Return what the series of a run shows, or another supply in its place."""
    scenario = run.scenario
    metrics, facility = (
        (run.metrics, scenario.facility)
        if supply is None
        else (supply.metrics, supply.facility)
    )
    grid = metrics.get("grid") or {}
    peak = (grid.get("peak") or {}).get("max_mw")
    interpolated_s = (grid.get("bandwidth") or {}).get("interpolated_s", 0.0)
    return shown_at(
        scenario,
        scenario.resolution_ms,
        profile_support(recorded_readings(run.manifest), interpolated_s),
        facility,
        rated_of(metrics, facility),
        peak if isinstance(peak, int | float) else None,
        has_reactive,
        (metrics.get("power") or {}).get("min_mw", 0.0) < 0,
    )


def shown_at(
    scenario: Scenario,
    step_ms: int,
    support: Support,
    facility: Facility,
    rated: tuple[float, str],
    peak_mw: float | None,
    has_reactive: bool = False,
    exports: bool = False,
) -> Shown:
    """Return what a series of a scenario, or of another facility, shows at a step."""
    contract, whole = _contract(facility), (0.0, "")
    if contract is not None:
        whole = contract[0], f"the {contract[1]},"
    elif peak_mw is not None and scenario.horizon_ms >= YEAR_MS:
        whole = peak_mw, "the peak"
    no_whole = None if whole[1] else NotAssessable(NO_PEAK, Need.LONGER)
    return Shown(
        WallClock(scenario.start_with_zone, step_ms),
        support.at_resolution(step_ms),
        scenario.horizon_ms,
        peak_mw,
        *(contract or rated),
        has_reactive,
        rated[0],
        exports,
        *whole,
        no_whole,
        scenario.site.short_circuit,
        scenario.iteration_s,
    )


NO_PEAK = (
    "a percentage of the peak needs the peak of a whole year, or contract_mw at the "
    "point of interconnection"
)


def _contract(facility: Facility) -> tuple[float, str] | None:
    """Return the contract's power [MW], and its key."""
    found = (getattr(each, "contract", None) for each in facility.stages)
    return next(((float(of[0]), str(of[1])) for of in found if of), None)


Piece = tuple[int, Int64Array, Int64Array | None]
"""Start [ms since the run's start], power and reactive power [quanta] of consecutive
values."""


def _blocks(
    run: RunFolder, reactive: Sequence[str], supply: Supply | None
) -> Iterator[Piece]:
    if supply is not None and not reactive:
        yield 0, quanta(as_stored(supply.power_w), "supply"), None
        return
    begin_ms = first = 0
    for block in run.blocks([POWER_COLUMN, *reactive]):
        columns, last = block.columns, first + block.starts_ms.size
        if supply is not None:
            columns = {**columns, POWER_COLUMN: as_stored(supply.power_w[first:last])}
        power, *others = (
            quanta(columns[name], f"{run.folder}: column '{name}'")
            for name in (POWER_COLUMN, *reactive)
        )
        yield begin_ms, power, others[0] if others else None
        begin_ms, first = begin_ms + power.size * run.scenario.resolution_ms, last


def as_stored(power_w: Float64Array) -> Float64Array:
    """Return power as runs are stored, so that verdicts are the same."""
    return power_w.astype(np.float32).astype(np.float64)


def quanta(values: Float64Array, where: str) -> Int64Array:
    """Return power in quanta; an error names where it is from."""
    try:
        return to_quanta(values, MAX_DAY_POWER_W)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error


def _result(
    check: Check, clock: WallClock, causes: Mapping[tuple[Key, str], str]
) -> LimitResult:
    found, sign = check.exceedance, check.sign
    worst = tuple(
        Worst(
            clock.iso(e.begin_ms),
            clock.iso(e.end_ms),
            clock.iso(e.worst_ms),
            sign * e.worst,
        )
        for e in found.worst()
    )
    aside = check.aside()
    return LimitResult(
        key=check.key,
        text=check.text + (f", {aside}" if aside else ""),
        limit=check.limit,
        unit=check.unit,
        violations=found.n_events,
        duration_s=found.duration_ms / MS_PER_S,
        window_s=check.span_ms / MS_PER_S,
        worst=worst,
        note=check.note,
        cause=causes.get((check.event, worst[0].time), "")
        if worst and check.event
        else "",
        value=sign * found.largest,
        time="" if check.of_run else clock.iso(found.largest_ms),
        source=check.spec.read_from if check.spec else "",
        least=check.least,
        of_run=check.of_run,
        scope=check.scope,
        number=check.number,
        need=check.need,
    )


def _duration(duration_s: float) -> str:
    """Return a length of time in the largest unit that it fills twice."""
    for unit, length_s in (("d", S_PER_DAY), ("h", S_PER_H), ("min", S_PER_MIN)):
        if duration_s >= 2 * length_s:
            return f"{duration_s / length_s:,.4g} {unit}"
    return f"{duration_s:,.4g} s"
