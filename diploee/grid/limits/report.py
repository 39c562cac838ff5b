"""Checks of a run against limits, and their report: `check_limits`, `LimitReport`.

Each limit is met, not met or inconclusive. A limit is not met if a value exceeds it.
If no value exceeds it, the limit is met, unless the run shows less than the model could
show (for example because of long steps): then it is inconclusive. The report also lists
effects that the model leaves out. `LimitWatch` checks limits during a run, with steps
as short as the limits need.

See also: docs/LIMITS.md
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
from diploee.base.measures.streaming import MAX_DAY_POWER_W, MeasureRunner, to_quanta
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
    naming_errors,
)
from diploee.grid.limits.file import LIMITS, Limits
from diploee.metrics.attribution_text import cause_text, read_causes
from diploee.metrics.demand import rated_power
from diploee.metrics.load_changes import Key
from diploee.metrics.spectral_bands import Support, profile_support, recorded_readings
from diploee.runs.formatting import format_time
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic, as_html
from diploee.scenario.models import Facility, Scenario

POWER_COLUMN = "facility_power_w"
REACTIVE_COLUMNS = ("poi_reactive_var", "facility_reactive_var")

Verdict = Literal["met", "inconclusive", "not met"]
VERDICTS: tuple[Verdict, ...] = ("met", "inconclusive", "not met")
"""Verdicts from good to bad: the worst of several counts."""

COVERAGE = "Coverage, source, cause"
ENDS = "Other end of a large job"
"""Table columns: reason of a verdict, and verdict at the other end of a large job."""

YEAR_MS = 365 * MS_PER_DAY
"""Length [ms] of a year: a shorter run can violate a limit but never prove it met."""


class UncheckedLimit(NamedTuple):
    """Limit that could not be checked, with the reason."""

    key: str
    text: str
    reason: str
    need: Need = Need.OTHER  # change that would make it assessable


@dataclass(frozen=True)
class WorstEvent:
    """One of the worst time intervals in which a series exceeds a limit."""

    # First value beyond the limit, end of the last, and time of the worst one
    # (ISO 8601)
    begin: str
    end: str
    time: str
    value: float  # the worst value, in the limit's unit


@dataclass(frozen=True)
class LimitResult(Brief):
    """Result of checking one limit: worst value, violations, verdict."""

    key: str  # in the limits file
    text: str  # text of the limited quantity
    limit: float  # largest, or least, value
    unit: str  # of the limit and of all values
    violations: int  # number of uninterrupted intervals beyond the limit
    duration_s: float  # their total: values beyond the limit times their spacing
    window_s: float  # length of the window or interval behind a value
    worst: tuple[WorstEvent, ...]  # at most five, the worst first
    note: str  # what weakens the check, such as a lower bound
    cause: str = ""  # cause of the worst event, if the run's metrics have it
    value: float = 0.0  # largest value; smallest for a least limit
    time: str = ""  # its time (ISO 8601)
    source: str = ""  # evidence for the limit itself
    least: bool = False  # the limit is the least that is allowed
    of_run: bool = False  # one value for the whole run, without a time
    scope: str = ""  # part of the limit that this kind of model does not cover
    number: int = 0  # index among the checks of its entry, such as up and down
    need: Need = Need.OTHER  # change that would remove the note
    ends: str = ""  # result at the other end of a large job's parameters

    @property
    def verdict(self) -> Verdict:
        """Verdict: not met if violated, inconclusive if it has a note, else met."""
        return "not met" if self.violations else "inconclusive" if self.note else "met"

    @property
    def use_ratio(self) -> float:
        """Ratio of the worst value to the limit [1], inverted for a lower limit."""
        part, whole = (
            (self.limit, self.value) if self.least else (self.value, self.limit)
        )
        return part / whole if whole > sys.float_info.min else math.nan

    def margin_text(self) -> str:
        """Return text: the limited quantity, its worst value and its allowed value."""
        name, relation = (
            self.text.partition(" (")[0],
            ", at least" if self.least else " of",
        )
        values = f"{format_short(self.value)}{relation} {format_short(self.limit)}"
        return f"{name}: {values} {self.unit}".rstrip()

    def cells(self, step_ms: int) -> dict[str, str]:
        """Return the result's table cells by column; times are rounded to the step."""
        worst, violations = (
            f"{format_short(self.value)} {self.unit}",
            f"{self.violations:,}",
        )
        if self.violations and not self.of_run:
            violations += f", {_duration_text(self.duration_s)} in all"
        texts = (self.note, self.scope, self.source, self.cause)
        return {
            "Verdict": self.verdict,
            "Allowed": f"{'at least ' * self.least}{self.limit:g} {self.unit}".rstrip(),
            "Worst": worst.rstrip(),
            "Of the limit": f"{100 * self.use_ratio:,.0f} %".replace("nan %", NONE),
            "When": format_time(self.time or None, step_ms),
            "Violations": violations,
            ENDS: self.ends,
            COVERAGE: _join_texts(*texts),
        }


@dataclass(frozen=True)
class LimitReport(Brief):
    """Results of checking a run against one limits file."""

    resolution_s: float  # step of the checked series
    results: tuple[LimitResult, ...]  # one for each limit that could be checked
    unchecked: tuple[UncheckedLimit, ...]  # those that could not
    # Limits that this kind of model does not cover
    outside: tuple[UncheckedLimit, ...] = ()
    days: float = YEAR_MS / MS_PER_DAY  # length of what was checked
    boundary: str = ""  # boundary at which the power is measured
    name: str = ""  # of the limits
    origin: str = ""  # their source, date and status
    notes: tuple[str, ...] = ()  # their omissions and assumptions

    @property
    def not_met(self) -> tuple[LimitResult, ...]:
        """Results of the limits that are not met."""
        return tuple(result for result in self.results if result.violations)

    def with_other_end(self, other: LimitReport, where: str) -> LimitReport:
        """Return this report with the verdicts of another report in the field `ends`.

        `other` is the report on the run with the smallest swings of large jobs, and
        `where` describes that run.
        """
        by_key = {(result.key, result.number): result for result in other.results}
        unchecked = {
            entry.key: f"inconclusive, {entry.reason}" for entry in other.unchecked
        }
        results = []
        for result in self.results:
            # A load that is wholly below a limit has one check of it for both
            # directions.
            end = by_key.get((result.key, result.number)) or by_key.get((result.key, 0))
            text = unchecked.get(result.key, "not covered")
            if end is not None:
                text = (
                    f"{end.verdict}, worst {format_short(end.value)} {end.unit}"
                ).rstrip()
            results.append(replace(result, ends=f"{where}: {text}"))
        return replace(self, results=tuple(results))

    def with_results_of(
        self, other: LimitReport, keys: Mapping[str, str]
    ) -> LimitReport:
        """Return this report with some results replaced by those of another report.

        `keys` maps keys of the other report to keys of this one.
        """
        scope = f"checked while the run passed, at {other.resolution_s:g} s"
        fields: dict[str, Any] = {
            name: (
                *(
                    entry
                    for entry in getattr(self, name)
                    if entry.key not in keys.values()
                ),
                *(
                    entry._replace(key=keys[entry.key])
                    if isinstance(entry, UncheckedLimit)
                    else replace(
                        entry,
                        key=keys[entry.key],
                        scope=_join_texts(entry.scope, scope),
                    )
                    for entry in getattr(other, name)
                    if entry.key in keys
                ),
            )
            for name in ("results", "unchecked", "outside")
        }
        if all(
            entry.key in keys.values()
            for entries in fields.values()
            for entry in entries
        ):
            fields["resolution_s"] = other.resolution_s
        return replace(self, **fields)

    @property
    def verdict(self) -> Verdict:
        """Worst verdict; in less than a year, "met" counts as inconclusive."""
        return (
            "inconclusive"
            if self.span_verdict == "met" and self.is_shorter_than_year
            else self.span_verdict
        )

    def rank(self) -> int:
        """Return a sort key of the report; reports with violated limits come first."""
        return -VERDICTS.index(self.verdict)

    @property
    def span_verdict(self) -> Verdict:
        """Worst verdict over the simulated time, whatever its length."""
        return max(self._verdicts, default="inconclusive", key=VERDICTS.index)

    @property
    def is_met(self) -> bool:
        """True if every limit is met over a whole year."""
        return self.verdict == "met"

    @property
    def is_shorter_than_year(self) -> bool:
        """True if less than a year was checked."""
        return self.days < YEAR_MS / MS_PER_DAY

    @property
    def _verdicts(self) -> list[Verdict]:
        """Verdicts of all limits; unchecked ones are inconclusive."""
        return [result.verdict for result in self.results] + ["inconclusive"] * len(
            self.unchecked
        )

    @property
    def title(self) -> str:
        """Title of the report: name, step, verdict, number of limits by verdict."""
        part = ""
        if self.is_shorter_than_year:
            part = f"; {self.days:.3g} day{'s' * (self.days != 1)} of a year"
            part += ", and only a whole one decides" * (
                self.verdict != self.span_verdict
            )
        return (
            f"{self.name or 'limits'}, on means of {self.resolution_s:g} s: "
            f"{self.verdict.upper()} ({self.counts_text()}{part})"
        )

    def brief(self) -> str:
        """Return the title."""
        return self.title

    def counts_text(self) -> str:
        """Return the number of limits with each verdict, as text."""
        order: tuple[Verdict, ...] = ("not met", "met", "inconclusive")
        counted: dict[str, int] = {word: self._verdicts.count(word) for word in order}
        counted["not covered"] = len(self.outside)
        return ", ".join(f"{n} {word}" for word, n in counted.items() if n)

    def margin_text(self) -> str:
        """Return text: worst and allowed value of the limit that decides."""
        deciding = [
            result for result in self.results if result.verdict == self.span_verdict
        ]
        most = max(
            deciding, key=lambda result: np.nan_to_num(result.use_ratio), default=None
        )
        return most.margin_text() if most else ""

    def figures(self) -> Iterator[Statistic]:
        """Yield the cells of the table of limits, the worst verdict first."""
        step_ms = round(self.resolution_s * MS_PER_S)
        rows = [
            (-VERDICTS.index(result.verdict), result.text, result.cells(step_ms))
            for result in self.results
        ]
        for rank, verdict, limits in (
            (-VERDICTS.index("inconclusive"), "inconclusive", self.unchecked),
            (1, "not covered", self.outside),
        ):
            rows += [
                (rank, limit.text, {"Verdict": verdict, COVERAGE: limit.reason})
                for limit in limits
            ]
        rows.sort(key=lambda row: row[0])
        for k, (_, text, cells) in enumerate(rows, start=1):
            for name, cell in cells.items():
                if cell:
                    yield Statistic(f"{k}. {text}", cell, quantity=name)

    def sections(self) -> list[Section]:
        """Return the report as sections for terminal, page and notebook."""
        return [limits_section([(self, "")])]

    def _repr_html_(self) -> str:
        return as_html(self.name or "limits", self.sections())

    def as_dict(self) -> dict[str, Any]:
        """Return the report in plain types, for JSON."""
        return {
            "verdict": self.verdict,
            "met": self.is_met,
            **asdict(self),
            "results": [
                asdict(result) | {"verdict": result.verdict} for result in self.results
            ],
            "unchecked": [limit._asdict() for limit in self.unchecked],
            "outside": [limit._asdict() for limit in self.outside],
        }


def limits_section(reports: Sequence[tuple[LimitReport, str]]) -> Section:
    """Return a section with a table for each report, the worst report first.

    `reports` are pairs of a report and a label. Labels are shown unless all are equal.
    """
    many = len({label for _, label in reports}) > 1
    notes_by_report = [
        [*filter(None, (report.origin, *report.notes))] for report, _ in reports
    ]
    shared = [
        text
        for text in notes_by_report[0]
        if all(text in notes for notes in notes_by_report)
    ]
    tables = tuple(
        SectionTable(
            f"{label}: {report.title}" if many else report.title,
            tuple(report.figures()),
            " ".join(_to_sentence(text) for text in own if text not in shared),
            "Limit",
        )
        for (report, label), own in sorted(
            zip(reports, notes_by_report, strict=True),
            key=lambda pair: pair[0][0].rank(),
        )
    )
    notes = (
        (
            "Met: all of a limit that this kind of model covers is seen over a whole "
            "year, and nothing is beyond it. Inconclusive: the run shows a part alone, "
            "and nothing there is beyond it."
        ),
        *map(_to_sentence, shared),
    )
    return Section("limits", "Limits", (), tables, (), notes)


def _to_sentence(text: str) -> str:
    """Return a text as a sentence, with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def _join_texts(*texts: str) -> str:
    """Return the non-empty texts, joined by semicolons."""
    return "; ".join(filter(None, texts))


class Supply(NamedTuple):
    """Power to check instead of a run's own, such as that after a battery [W].

    Its peak and rated power are in MW.
    """

    power_w: Float64Array
    peak_mw: float | None
    rated: tuple[float, str]


def get_reports(
    run: RunFolder, limits: Iterable[Limits] = ()
) -> tuple[LimitReport, ...]:
    """Return the reports made during a run, then reports on further limits."""
    stored = (
        TypeAdapter(LimitReport).validate_python(entry["report"])
        for entry in run.checked_limits
    )
    return tuple(dict.fromkeys([*stored, *(get_report(run, each) for each in limits)]))


def get_report(run: RunFolder, limits: Limits) -> LimitReport:
    """Return the report on a run's limits.

    Limits that were checked during the run keep these results, which are on the run's
    simulation step. Other entries of the limits file are checked on the stored power.
    """
    requested = limits.model_dump(mode="json", exclude_defaults=True)
    models = [entry["limits"] for entry in run.checked_limits]
    stored = [*zip(models, get_reports(run), strict=True)]
    for stored_limits, report in stored:
        if stored_limits == requested:
            return report
    result, unmatched = (
        check_limits(run, limits),
        {spec.rule: key for key, spec in limits.each()},
    )
    for stored_limits, report in stored:
        # Keys of custom kinds are unknown unless their module is imported
        known = {k: value for k, value in stored_limits.items() if k in LIMITS.by_name}
        specs = Limits.model_validate(known).each() if known else ()
        keys = {
            key: unmatched.pop(spec.rule)
            for key, spec in specs
            if spec.rule in unmatched
        }
        result = result.with_results_of(report, keys) if keys else result
    return result


@stage("limits")
def check_limits(
    run: RunFolder, limits: Limits, supply: Supply | None = None
) -> LimitReport:
    """Check a run's stored facility power against limits.

    Checks of ramps, swings and frequency bands leave out the warm-up of a run that
    starts with empty nodes. Values are stored as float32, so the result is undefined if
    the power differs from a limit by less than 1e-7 of it.

    Parameters
    ----------
    run : RunFolder
        A finished run, from `diploee.open_run`.
    limits : Limits
        From `load_limits`.
    supply : Supply, optional
        Power in place of the run's own, such as after a battery.

    Returns
    -------
    LimitReport
        Result of each limit, and the limits that could not be checked.

    Raises
    ------
    InputError
        If the run's power can't be read.
    """
    reactive = reactive_columns(limits, {column.name for column in run.columns})
    series = CheckedSeries(limits, run_context(run, bool(reactive), supply), reactive)
    transient_ms, first = round(run.transient_h * MS_PER_H), 0
    for block in run.blocks([POWER_COLUMN, *reactive]):
        columns, last = block.columns, first + block.starts_ms.size
        if supply is not None:
            columns = {**columns, POWER_COLUMN: supply.power_w[first:last]}
        begin_ms = first * run.scenario.resolution_ms
        series.add_values(begin_ms, columns, transient_ms, f"{run.folder}: ")
        first = last
    result = series.make_report(run.metrics, run.boundary(), transient_ms)
    if supply is None:
        return result
    # The metrics hold causes of the load's events, not of the supply's.
    return replace(
        result, results=tuple(replace(entry, cause="") for entry in result.results)
    )


def reactive_columns(limits: Limits, columns: Collection[str]) -> list[str]:
    """Return a list with the reactive power column if a limit needs it, or empty."""
    needs_reactive = any(spec.needs_reactive for _, spec in limits.each())
    return [name for name in REACTIVE_COLUMNS if needs_reactive and name in columns][:1]


class CheckedSeries:
    """Checks of all limits of one file on one series.

    Parameters
    ----------
    limits : Limits
        Limits to check.
    context : SeriesContext
        Step, bandwidth and reference powers of the series.
    reactive : list of str
        Column of reactive power, if a limit needs it.
    """

    def __init__(
        self, limits: Limits, context: SeriesContext, reactive: list[str]
    ) -> None:
        self.limits, self._context = limits, context
        self._columns = [POWER_COLUMN, *reactive]
        self._checks: list[Check] = []
        self._unchecked: list[
            tuple[UncheckedLimit, bool]
        ] = []  # with True if no run can show it
        for key, spec in limits.each():
            with naming_errors(spec):
                result, why = get_checks(spec, context)
                is_seen = bool(result) and not any(check.note for check in result)
                if not is_seen and (whole_load := spec.whole_load_check(context)):
                    result = [whole_load]
                if not result:
                    source = f" ({spec.evidence_text})" if spec.evidence_text else ""
                    need = why.need if why else Need.OTHER
                    left_out = UncheckedLimit(
                        key, spec.quantity, f"{why or ''}{source}", need
                    )
                    self._unchecked.append((left_out, isinstance(why, NotModelled)))
            for number, check in enumerate(result):
                check.key, check.spec, check.number = key, spec, number
            self._checks += result
        self._runners = [
            (with_warm_up, MeasureRunner(context.clock.step_ms, checks))
            for with_warm_up in (True, False)
            if (
                checks := [
                    check
                    for check in self._checks
                    if check.with_warm_up is with_warm_up
                ]
            )
        ]

    def add_values(
        self,
        begin_ms: int,
        columns: Mapping[str, Float64Array],
        transient_ms: int,
        where: str = "",
    ) -> None:
        """Check the next values of the series, given by column.

        Most checks leave out values before `transient_ms`, the warm-up.
        """
        power, *others = (
            _to_quanta(as_stored(columns[name]), f"{where}column '{name}'")
            for name in self._columns
        )
        reactive = others[0] if others else None
        for with_warm_up, runner in self._runners:
            runner.add(begin_ms, power, 0 if with_warm_up else transient_ms, reactive)

    def make_report(
        self, metrics: Mapping[str, Any], boundary: str, transient_ms: int
    ) -> LimitReport:
        """Return the report; causes of events are taken from the run's metrics."""
        filling = f", without the first {transient_ms / MS_PER_H:.3g} h of filling up"
        causes = {
            (key, time): cause_text(cause) for key, time, cause in read_causes(metrics)
        }
        results, limits, clock = list[LimitResult](), self.limits, self._context.clock
        unchecked, outside = (
            [limit for limit, is_outside in self._unchecked if is_outside is kind]
            for kind in (False, True)
        )
        for check in self._checks:
            result, why = check.result(), check.why_none
            check.text += filling * bool(
                transient_ms and check.of_run and not check.with_warm_up
            )
            if result.n_values:
                results.append(_limit_result(check, clock, causes))
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
            days=self._context.horizon_ms / MS_PER_DAY,
            boundary=boundary,
            name=limits.name,
            origin=limits.origin,
            notes=(*limits.notes, *bandwidth_note(metrics)),
        )


def bandwidth_note(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note on the profiles' bandwidths and the energy that each covers."""
    block = (metrics.get("grid") or {}).get("bandwidth") or {}
    if details := "; ".join(
        f"{profile['name']} ({profile['note']})"
        for profile in block.get("of_profiles") or ()
    ):
        yield f"detail of the profiles, of which the weakest decides: {details}"


def get_checks(
    spec: LimitSpec, context: SeriesContext
) -> tuple[list[Check], NotAssessable | None]:
    """Return the checks of a limit on a series, or no checks and the reason."""
    try:
        result = list(spec.checks(context))
    except NotAssessable as reason:
        return [], reason
    return result, None


def run_context(
    run: RunFolder, has_reactive: bool = False, supply: Supply | None = None
) -> SeriesContext:
    """Return the context of a run's series, or that of `supply` if specified."""
    scenario, grid = run.scenario, run.metrics.get("grid") or {}
    interpolated_s = (grid.get("bandwidth") or {}).get("interpolated_s", 0.0)
    if supply is None:
        supply = Supply(
            np.array([(run.metrics.get("power") or {}).get("min_mw", 0.0)]),
            (grid.get("peak") or {}).get("max_mw"),
            rated_power(run.metrics, scenario.facility),
        )
    return series_context(
        scenario,
        scenario.resolution_ms,
        profile_support(recorded_readings(run.manifest), interpolated_s),
        supply.rated,
        supply.peak_mw,
        has_reactive,
        bool(supply.power_w.min() < 0),
    )


def series_context(
    scenario: Scenario,
    step_ms: int,
    support: Support,
    rated: tuple[float, str],
    peak_mw: float | None,
    has_reactive: bool = False,
    exports: bool = False,
) -> SeriesContext:
    """Return the context of a scenario's series at a step.

    `rated` and `peak_mw` are in MW. `exports` is True if power is negative at times.
    """
    contract, base = _contract(scenario.facility), (0.0, "")
    if contract is not None:
        base = contract[0], f"the {contract[1]},"
    elif peak_mw is not None and scenario.horizon_ms >= YEAR_MS:
        base = peak_mw, "the peak"
    no_base = None if base[1] else NotAssessable(NO_PEAK, Need.LONGER)
    return SeriesContext(
        WallClock(scenario.start_with_zone, step_ms),
        support.at_resolution(step_ms),
        scenario.horizon_ms,
        peak_mw,
        *(contract or rated),
        has_reactive,
        rated[0],
        exports,
        *base,
        no_base,
        scenario.site.short_circuit,
        scenario.iteration_s,
    )


NO_PEAK = (
    "a percentage of the peak needs the peak of a whole year, or contract_mw at the "
    "point of interconnection"
)


def _contract(facility: Facility) -> tuple[float, str] | None:
    """Return the contracted power [MW] and its key; None without a contract."""
    contracts = (getattr(each, "contract", None) for each in facility.stages)
    return next(
        ((float(contract[0]), str(contract[1])) for contract in contracts if contract),
        None,
    )


def as_stored(power_w: Float64Array) -> Float64Array:
    """Return power rounded to float32, as a run stores it."""
    return power_w.astype(np.float32).astype(np.float64)


def _to_quanta(values: Float64Array, where: str) -> Int64Array:
    """Return power in 1/64 W; raise an `InputError` that names the source."""
    try:
        return to_quanta(values, MAX_DAY_POWER_W)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error


def _limit_result(
    check: Check, clock: WallClock, causes: Mapping[tuple[Key, str], str]
) -> LimitResult:
    """Return the result of a check, with the cause of its worst event."""
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
    extra_text = check.extra_text()
    return LimitResult(
        key=check.key,
        text=check.text + (f", {extra_text}" if extra_text else ""),
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
        source=check.spec.evidence_text if check.spec else "",
        least=check.least,
        of_run=check.of_run,
        scope=check.scope,
        number=check.number,
        need=check.need,
    )


def _duration_text(duration_s: float) -> str:
    """Return a duration as text, in the largest unit that gives at least 2."""
    for unit, length_s in (("d", S_PER_DAY), ("h", S_PER_H), ("min", S_PER_MIN)):
        if duration_s >= 2 * length_s:
            return f"{duration_s / length_s:,.4g} {unit}"
    return f"{duration_s:,.4g} s"
