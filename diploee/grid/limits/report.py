"""Check of a finished run against limits: `check_limits` and `LimitReport`.

The verdict on each is one of three. What is seen beyond a limit is not met, however
little of the rule the run shows; a limit is met where the run shows all of it that this
kind of model covers, and what the model does not cover is named beside it; the rest is
inconclusive. `LimitWatch` checks a run while it passes, at the step that its limits
need.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.measures.series import MAX_DAY_POWER_W, MeasureRunner, to_quanta
from diploee.base.metric import NONE, format_short
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
    NotModelled,
    SeriesContext,
    named,
)
from diploee.grid.limits.file import LIMITS, Limits
from diploee.metrics.attribution_text import cause_text, read_causes
from diploee.metrics.changes import Key
from diploee.metrics.demand import rated_power
from diploee.metrics.spectral_bands import Support, profile_support, recorded_readings
from diploee.runs.formatting import format_time
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic, as_html
from diploee.scenario.models import Facility, Scenario

POWER_COLUMN = "facility_power_w"
REACTIVE_COLUMNS = ("poi_reactive_var", "facility_reactive_var")

Verdict = Literal["met", "inconclusive", "not met"]
VERDICTS: tuple[Verdict, ...] = ("met", "inconclusive", "not met")
"""From good to bad: of several the worst counts."""

COVERAGE = "Coverage, source, cause"
ENDS = "Other end of a large job"
"""Columns that say why a verdict is what it is, and what it is at the other end."""

YEAR_MS = 365 * MS_PER_DAY
"""Less can show that a limit is not met, and not that it is."""


class UncheckedLimit(NamedTuple):
    """Limit that could not be checked."""

    key: str
    text: str
    reason: str
    need: Need = Need.OTHER  # what would give one


@dataclass(frozen=True)
class WorstEvent:
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
    worst: tuple[WorstEvent, ...]  # the worst stretches, at most five, the worst first
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
        """Fraction of the limit that the worst value uses.

        Of a least allowed one the inverse.
        """
        part, whole = (
            (self.limit, self.value) if self.least else (self.value, self.limit)
        )
        return part / whole if whole > sys.float_info.min else math.nan

    def by_how_much(self) -> str:
        """Return the limit, the worst value and the allowed value, as text."""
        name, of = self.text.partition(" (")[0], ", at least" if self.least else " of"
        how = f"{format_short(self.value)}{of} {format_short(self.limit)} {self.unit}"
        return f"{name}: {how}".rstrip()

    def cells(self, step_ms: int) -> dict[str, str]:
        """Return its cells of a table by column, its time to the step."""
        worst, violations = (
            f"{format_short(self.value)} {self.unit}",
            f"{self.violations:,}",
        )
        if self.violations and not self.of_run:
            violations += f", {_duration(self.duration_s)} in all"
        said = (self.note, self.scope, self.source, self.cause)
        return {
            "Verdict": self.verdict,
            "Allowed": f"{'at least ' * self.least}{self.limit:g} {self.unit}".rstrip(),
            "Worst": worst.rstrip(),
            "Of the limit": f"{100 * self.use:,.0f} %".replace("nan %", NONE),
            "When": format_time(self.time or None, step_ms),
            "Violations": violations,
            ENDS: self.ends,
            COVERAGE: _joined(*said),
        }


@dataclass(frozen=True)
class LimitReport(Brief):
    """Results of checking a run against limits."""

    resolution_s: float  # of what was checked
    results: tuple[LimitResult, ...]  # one for each limit that could be checked
    unchecked: tuple[UncheckedLimit, ...]  # those that could not
    # Those that this kind of model does not cover
    outside: tuple[UncheckedLimit, ...] = ()
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
                said = (
                    f"{end.verdict}, worst {format_short(end.value)} {end.unit}"
                ).rstrip()
            results.append(replace(result, ends=f"{where}: {said}"))
        return replace(self, results=tuple(results))

    def taking(self, other: LimitReport, keys: Mapping[str, str]) -> LimitReport:
        """Return the report with what another found of some limits, by its keys."""
        said = f"checked while the run passed, at {other.resolution_s:g} s"
        taken: dict[str, Any] = {
            name: (
                *(of for of in getattr(self, name) if of.key not in keys.values()),
                *(
                    of._replace(key=keys[of.key])
                    if isinstance(of, UncheckedLimit)
                    else replace(of, key=keys[of.key], scope=_joined(of.scope, said))
                    for of in getattr(other, name)
                    if of.key in keys
                ),
            )
            for name in ("results", "unchecked", "outside")
        }
        if all(of.key in keys.values() for result in taken.values() for of in result):
            taken["resolution_s"] = other.resolution_s
        return replace(self, **taken)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all; part of a year only shows limits that are not met."""
        return (
            "inconclusive" if self.of_span == "met" and self.is_part else self.of_span
        )

    def rank(self) -> int:
        """Return the sort position of the result, violated limits first."""
        return -VERDICTS.index(self.verdict)

    @property
    def of_span(self) -> Verdict:
        """Worst result on a limit over the simulated time."""
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
        return [of.verdict for of in self.results] + ["inconclusive"] * len(
            self.unchecked
        )

    @property
    def title(self) -> str:
        """Result in a line, with the number of limits by result."""
        part = ""
        if self.is_part:
            part = f"; {self.days:.3g} day{'s' * (self.days != 1)} of a year"
            part += ", and only a whole one decides" * (self.verdict != self.of_span)
        return (
            f"{self.name or 'limits'}, on means of {self.resolution_s:g} s: "
            f"{self.verdict.upper()} ({self.counts()}{part})"
        )

    def counts(self) -> str:
        """Return how many limits have each verdict, and how many none is given on."""
        order: tuple[Verdict, ...] = ("not met", "met", "inconclusive")
        counted: dict[str, int] = {word: self._verdicts.count(word) for word in order}
        counted["not covered"] = len(self.outside)
        return ", ".join(f"{n} {word}" for word, n in counted.items() if n)

    def by_how_much(self) -> str:
        """Return the deciding limit, the most used one, and by how much."""
        deciding = [result for result in self.results if result.verdict == self.of_span]
        most = max(deciding, key=lambda of: np.nan_to_num(of.use), default=None)
        return most.by_how_much() if most else ""

    def figures(self) -> Iterator[Statistic]:
        """Yield the cells of a table of the limits, the worst verdict first."""
        step_ms = round(self.resolution_s * MS_PER_S)
        rows = [
            (-VERDICTS.index(of.verdict), of.text, of.cells(step_ms))
            for of in self.results
        ]
        for rank, verdict, result in (
            (-VERDICTS.index("inconclusive"), "inconclusive", self.unchecked),
            (1, "not covered", self.outside),
        ):
            cells_of = ({"Verdict": verdict, COVERAGE: of.reason} for of in result)
            rows += [(rank, of.text, c) for of, c in zip(result, cells_of, strict=True)]
        rows.sort(key=lambda of: of[0])
        for k, (_, text, cells) in enumerate(rows, start=1):
            for name, cell in cells.items():
                if cell:
                    yield Statistic(f"{k}. {text}", cell, quantity=name)

    def sections(self) -> list[Section]:
        """Return the report as sections, for terminal, page and notebook."""
        return [limits_section([(self, "")])]

    def _repr_html_(self) -> str:
        return as_html(self.name or "limits", self.sections())

    def as_dict(self) -> dict[str, Any]:
        """Return the report in plain types, for JSON."""
        return {
            "verdict": self.verdict,
            "met": self.is_met,
            **asdict(self),
            "results": [asdict(of) | {"verdict": of.verdict} for of in self.results],
            "unchecked": [of._asdict() for of in self.unchecked],
            "outside": [of._asdict() for of in self.outside],
        }


def limits_section(reports: Sequence[tuple[LimitReport, str]]) -> Section:
    """Return the result on each limit of runs, the worst first.

    Several runs have labels.
    """
    many = len({label for _, label in reports}) > 1
    said = [[*filter(None, (of.origin, *of.notes))] for of, _ in reports]
    shared = [text for text in said[0] if all(text in of for of in said)]
    tables = tuple(
        SectionTable(
            f"{label}: {report.title}" if many else report.title,
            tuple(report.figures()),
            " ".join(_sentence(text) for text in own if text not in shared),
            "Limit",
        )
        for (report, label), own in sorted(
            zip(reports, said, strict=True), key=lambda of: of[0][0].rank()
        )
    )
    notes = (
        (
            "Met: all of a limit that this kind of model covers is seen over a whole "
            "year, and nothing is beyond it. Inconclusive: the run shows a part alone, "
            "and nothing there is beyond it."
        ),
        *map(_sentence, shared),
    )
    return Section("limits", "Limits", (), tables, (), notes)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


class Supply(NamedTuple):
    """Alternative power of a run, such as after a battery, with peak and rating."""

    power_w: Float64Array
    peak_mw: float | None
    rated: tuple[float, str]


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
    models = [of["limits"] for of in run.checked_limits]
    stored = [*zip(models, reports_of(run), strict=True)]
    for theirs, report in stored:
        if theirs == asked:
            return report
    result, left = (
        check_limits(run, limits),
        {spec.rule: key for key, spec in limits.each()},
    )
    for theirs, report in stored:
        # A key of somebody's own has no meaning where its module is not imported
        known = {k: of for k, of in theirs.items() if k in LIMITS.by_name}
        specs = Limits.model_validate(known).each() if known else ()
        keys = {key: left.pop(s.rule) for key, s in specs if s.rule in left}
        result = result.taking(report, keys) if keys else result
    return result


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
    checked = CheckedSeries(limits, seen_by(run, bool(reactive), supply), reactive)
    transient_ms, first = round(run.transient_h * MS_PER_H), 0
    for block in run.blocks([POWER_COLUMN, *reactive]):
        columns, last = block.columns, first + block.starts_ms.size
        if supply is not None:
            columns = {**columns, POWER_COLUMN: supply.power_w[first:last]}
        begin_ms = first * run.scenario.resolution_ms
        checked.take(begin_ms, columns, transient_ms, f"{run.folder}: ")
        first = last
    result = checked.found(run.metrics, run.boundary(), transient_ms)
    if supply is None:
        return result
    # Causes of the load's events are not those of a supply's.
    return replace(
        result, results=tuple(replace(of, cause="") for of in result.results)
    )


def reactive_of(limits: Limits, columns: Collection[str]) -> list[str]:
    """Return the column of reactive power that limits ask for, if there is one."""
    needs_reactive = any(spec.needs_reactive for _, spec in limits.each())
    return [name for name in REACTIVE_COLUMNS if needs_reactive and name in columns][:1]


class CheckedSeries:
    """Series under check, with a separate treatment of its warm-up.

    Parameters
    ----------
    limits : Limits
        What is checked.
    whole : Shown
        What the series shows.
    reactive : list of str
        Its column of reactive power, where limits need one.
    """

    def __init__(
        self, limits: Limits, whole: SeriesContext, reactive: list[str]
    ) -> None:
        self.limits, self._whole = limits, whole
        self._columns = [POWER_COLUMN, *reactive]
        self._checks: list[Check] = []
        self._unchecked: list[
            tuple[UncheckedLimit, bool]
        ] = []  # and if no run shows it
        for key, spec in limits.each():
            with named(spec):
                result, why = checks_of(spec, whole)
                is_seen = bool(result) and not any(check.note for check in result)
                if not is_seen and (below := spec.below(whole)):
                    result = [below]
                if not result:
                    source = f" ({spec.read_from})" if spec.read_from else ""
                    need = why.need if why else Need.OTHER
                    left_out = UncheckedLimit(
                        key, spec.what, f"{why or ''}{source}", need
                    )
                    self._unchecked.append((left_out, isinstance(why, NotModelled)))
            for number, check in enumerate(result):
                check.key, check.spec, check.number = key, spec, number
            self._checks += result
        self._runners = [
            (of_all, MeasureRunner(whole.clock.step_ms, checks))
            for of_all in (True, False)
            if (checks := [check for check in self._checks if check.whole is of_all])
        ]

    def take(
        self,
        begin_ms: int,
        columns: Mapping[str, Float64Array],
        transient_ms: int,
        where: str = "",
    ) -> None:
        """Take in the next values, with values before `transient_ms` as warm-up."""
        power, *others = (
            _quanta(as_stored(columns[name]), f"{where}column '{name}'")
            for name in self._columns
        )
        reactive = others[0] if others else None
        for of_all, runner in self._runners:
            runner.add(begin_ms, power, 0 if of_all else transient_ms, reactive)

    def found(
        self, metrics: Mapping[str, Any], boundary: str, transient_ms: int
    ) -> LimitReport:
        """Return the results of the checks, with the causes of a run's metrics."""
        filling = f", without the first {transient_ms / MS_PER_H:.3g} h of filling up"
        causes = {
            (key, time): cause_text(cause) for key, time, cause in read_causes(metrics)
        }
        results, limits, clock = list[LimitResult](), self.limits, self._whole.clock
        unchecked, outside = (
            [of for of, is_outside in self._unchecked if is_outside is kind]
            for kind in (False, True)
        )
        for check in self._checks:
            result, why = check.result(), check.why_none
            check.text += filling * bool(
                transient_ms and check.of_run and not check.whole
            )
            if result.n_values:
                results.append(_result(check, clock, causes))
            else:
                none = UncheckedLimit(check.key, check.text, str(why), why.need)
                unchecked.append(none)
        outside += [
            UncheckedLimit(f"not_stated.{k}", text, "no figure was seen in the source")
            for k, text in enumerate(limits.not_stated)
        ]
        return LimitReport(
            resolution_s=clock.step_s,
            results=tuple(results),
            unchecked=tuple(unchecked),
            outside=tuple(outside),
            days=self._whole.horizon_ms / MS_PER_DAY,
            boundary=boundary,
            name=limits.name,
            origin=limits.origin,
            notes=(*limits.notes, *covered(metrics)),
        )


def covered(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the detail of a run's profiles, and the fraction of energy they cover."""
    block = (metrics.get("grid") or {}).get("bandwidth") or {}
    if said := "; ".join(
        f"{of['name']} ({of['note']})" for of in block.get("of_profiles") or ()
    ):
        yield f"detail of the profiles, of which the weakest decides: {said}"


def checks_of(
    spec: LimitSpec, shown_: SeriesContext
) -> tuple[list[Check], NotAssessable | None]:
    """Return the checks that a series allows, or the reasons for none."""
    try:
        result = list(spec.checks(shown_))
    except NotAssessable as answer:
        return [], answer
    return result, None


def seen_by(
    run: RunFolder, has_reactive: bool = False, supply: Supply | None = None
) -> SeriesContext:
    """Return what the series of a run shows, or another supply in its place."""
    scenario, grid = run.scenario, run.metrics.get("grid") or {}
    interpolated_s = (grid.get("bandwidth") or {}).get("interpolated_s", 0.0)
    if supply is None:
        supply = Supply(
            np.array([(run.metrics.get("power") or {}).get("min_mw", 0.0)]),
            (grid.get("peak") or {}).get("max_mw"),
            rated_power(run.metrics, scenario.facility),
        )
    return shown_at(
        scenario,
        scenario.resolution_ms,
        profile_support(recorded_readings(run.manifest), interpolated_s),
        supply.rated,
        supply.peak_mw,
        has_reactive,
        bool(supply.power_w.min() < 0),
    )


def shown_at(
    scenario: Scenario,
    step_ms: int,
    support: Support,
    rated: tuple[float, str],
    peak_mw: float | None,
    has_reactive: bool = False,
    exports: bool = False,
) -> SeriesContext:
    """Return the context of a series of a scenario at a step."""
    contract, whole = _contract(scenario.facility), (0.0, "")
    if contract is not None:
        whole = contract[0], f"the {contract[1]},"
    elif peak_mw is not None and scenario.horizon_ms >= YEAR_MS:
        whole = peak_mw, "the peak"
    no_whole = None if whole[1] else NotAssessable(NO_PEAK, Need.LONGER)
    return SeriesContext(
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
    result = (getattr(each, "contract", None) for each in facility.stages)
    return next(((float(of[0]), str(of[1])) for of in result if of), None)


def as_stored(power_w: Float64Array) -> Float64Array:
    """Return power in stored precision, so that results are identical."""
    return power_w.astype(np.float32).astype(np.float64)


def _quanta(values: Float64Array, where: str) -> Int64Array:
    """Return power in fixed-point units, or raise an error that names the source."""
    try:
        return to_quanta(values, MAX_DAY_POWER_W)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error


def _result(
    check: Check, clock: WallClock, causes: Mapping[tuple[Key, str], str]
) -> LimitResult:
    result, sign = check.exceedance, check.sign
    worst = tuple(
        WorstEvent(
            clock.iso(e.begin_ms),
            clock.iso(e.end_ms),
            clock.iso(e.worst_ms),
            sign * e.worst,
        )
        for e in result.worst()
    )
    aside = check.aside()
    return LimitResult(
        key=check.key,
        text=check.text + (f", {aside}" if aside else ""),
        limit=check.limit,
        unit=check.unit,
        violations=result.n_events,
        duration_s=result.duration_ms / MS_PER_S,
        window_s=check.span_ms / MS_PER_S,
        worst=worst,
        note=check.note,
        cause=causes.get((check.event, worst[0].time), "")
        if worst and check.event
        else "",
        value=sign * result.largest,
        time="" if check.of_run else clock.iso(result.largest_ms),
        source=check.spec.read_from if check.spec else "",
        least=check.least,
        of_run=check.of_run,
        scope=check.scope,
        number=check.number,
        need=check.need,
    )


def _duration(duration_s: float) -> str:
    """Return a duration as text in the largest unit that it fills twice."""
    for unit, length_s in (("d", S_PER_DAY), ("h", S_PER_H), ("min", S_PER_MIN)):
        if duration_s >= 2 * length_s:
            return f"{duration_s / length_s:,.4g} {unit}"
    return f"{duration_s:,.4g} s"
