"""Checks of limits during a run, and the longest step that the limits allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import gcd
from typing import Any

import numpy as np

from diploee.base.column_specs import find_column
from diploee.base.metric import format_short
from diploee.base.units import MS_PER_DAY, PROFILE_STEP_MS, W_PER_MW
from diploee.facility.base import POWER, Block, interpolated_s
from diploee.grid.limits.check import Check, LimitSpec, Need, SeriesContext
from diploee.grid.limits.file import Limits
from diploee.grid.limits.report import (
    CheckedSeries,
    LimitReport,
    as_stored,
    get_checks,
    reactive_columns,
    series_context,
)
from diploee.metrics.spectral_bands import Support, profile_support
from diploee.scenario.models import Scenario
from diploee.scenario.times import steps_ms
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.prepared import Watch

STEPS_OF_WINDOW = 10
"""Minimum number of steps per sliding window."""

_UNLIMITED_SUPPORT = Support(np.inf, np.inf, 0.0, 0.0, np.inf)


def needed_step_ms(limits: Limits, scenario: Scenario) -> int:
    """Return the longest step [ms] that shows as much of the limits as 0.1 s does.

    The bandwidth of the profiles' meters is not considered.
    """
    has_reactive = scenario.facility.has_ac_power

    def context(step_ms: int) -> SeriesContext:
        result = series_context(
            scenario,
            step_ms,
            _UNLIMITED_SUPPORT,
            (1.0, ""),
            1.0,
            has_reactive,
        )
        return replace(result, peak_base_mw=1.0, peak_base="", no_peak_base=None)

    finest = context(PROFILE_STEP_MS)
    needed = scenario.resolution_ms
    for _, spec in limits.each():
        finest_outcome = _check_outcomes(spec, finest)
        for step_ms in steps_ms(needed):
            if (
                step_ms == PROFILE_STEP_MS
                or _check_outcomes(spec, context(step_ms)) == finest_outcome
            ):
                needed = step_ms
                break
    return needed


def _check_outcomes(
    spec: LimitSpec, context: SeriesContext
) -> list[tuple[bool, bool]] | Need:
    """Return for each check of a limit if it has a note and if its step is coarse.

    If the limit cannot be checked, return the change to the run that it needs.
    """
    checks, why = get_checks(spec, context)
    if why is not None:
        return why.need
    return [
        (bool(check.note), _is_coarse(check, context.clock.step_ms)) for check in checks
    ]


def _is_coarse(check: Check, step_ms: int) -> bool:
    """Return True if a sliding window has fewer than `STEPS_OF_WINDOW` steps."""
    slides = check.n_window > 1 and check.stride_ms == step_ms and not check.of_run
    return (
        slides
        and step_ms > PROFILE_STEP_MS
        and check.span_ms < STEPS_OF_WINDOW * step_ms
    )


class LimitWatch(CheckedSeries):
    """Sink that checks limits block by block during a run, at the run's step.

    Parameters
    ----------
    limits : Limits
        Limits to check.
    pipeline : Pipeline
        Pipeline that simulates the run.
    rated_mw : float
        Rated power at the point where power is measured [MW].
    peak_mw : float, optional
        Peak of the run [MW], if it is known in advance.
    tell : callable
        Receives a line on each violation as soon as it occurs.
    where : str
        Text on the parameters of large jobs; empty for the run itself.
    """

    def __init__(
        self,
        limits: Limits,
        pipeline: Pipeline,
        rated_mw: float,
        peak_mw: float | None,
        tell: Callable[[str], None],
        where: str = "",
    ) -> None:
        self.lower: LimitWatch | None = None  # at the lower end of large jobs
        self._tell, self._where, self._end_ms = tell, where, 0
        self._transient, scenario = pipeline.jobs.transient, pipeline.scenario
        reactive = reactive_columns(
            limits, {column.name for column in pipeline.columns}
        )
        context = series_context(
            scenario,
            scenario.step_ms,
            profile_support(pipeline.readings, interpolated_s(pipeline.stages)),
            (rated_mw, "rated power"),
            peak_mw,
            bool(reactive),
        )
        super().__init__(limits, context, reactive)
        power = find_column(POWER, pipeline.columns)[0]
        self._boundary = power.boundary or "unknown"
        self._unreported = list(self._checks)
        self._most_w = self._least_w = 0.0

    def add(self, block: Block) -> None:
        """Check a block of the run."""
        power_w = as_stored(block.columns[POWER])
        self._most_w = max(self._most_w, float(power_w.max()))
        self._least_w = min(self._least_w, float(power_w.min()))
        self.add_values(block.t0_ms, block.columns, self._transient.end_ms)
        self._end_ms = block.end_ms
        for check in [check for check in self._unreported if check.exceedance.n_beyond]:
            self._unreported.remove(check)
            self._tell(self._violation_line(check))

    def _violation_line(self, check: Check) -> str:
        """Return a line on the first violation of a check."""
        first = min(check.exceedance.worst(), key=lambda event: event.begin_ms)
        when = self._context.clock.iso(first.begin_ms)[:19].replace("T", " at ")
        worst, name = check.sign * first.worst, check.text.partition(" (")[0]
        return (
            f"{self.limits.name or 'limits'}: not met from {when} on{self._where}, "
            f"{name}: {format_short(worst)} {check.unit}, limit "
            f"{format_short(check.limit)}"
        )

    @property
    def is_decided(self) -> bool:
        """True if a limit is violated, in both variants of large jobs."""
        is_not_met = len(self._unreported) < len(self._checks)
        return is_not_met and (self.lower is None or self.lower.is_decided)

    def report(self, metrics: Mapping[str, Any]) -> LimitReport:
        """Return the report on the limits, with causes from the run's metrics.

        As the peak is known now, a limit that the whole load never reaches is met.
        """
        peak_mw = self._most_w / W_PER_MW
        context = replace(self._context, peak_mw=peak_mw, exports=self._least_w < 0)
        for key, spec in self.limits.each():
            unchecked = [entry for entry in self._unchecked if entry[0].key == key]
            partly = [c for c in self._checks if c.key == key and c.note]
            if (unchecked or partly) and (whole_load := spec.whole_load_check(context)):
                whole_load.key, whole_load.spec = key, spec
                whole_load.exceedance.add(np.array([peak_mw]), 0)
                self._checks = [c for c in self._checks if c.key != key] + [whole_load]
                self._unchecked = [
                    entry for entry in self._unchecked if entry not in unchecked
                ]
        result = self.make_report(metrics, self._boundary, self._transient.end_ms)
        result = replace(result, days=self._end_ms / MS_PER_DAY)
        if self.lower is None:
            return result
        return result.with_other_end(self.lower.report({}), LOWER_END)


def needs_peak(limits: Limits, scenario: Scenario) -> bool:
    """Return True if a limit cannot be checked without the peak of a whole year."""
    arguments = scenario, scenario.step_ms, _UNLIMITED_SUPPORT, (1.0, "")
    known, unknown = (series_context(*arguments, peak) for peak in (1.0, None))
    if known.peak_base_mw == unknown.peak_base_mw:
        return False
    reasons = (get_checks(spec, unknown)[1] for _, spec in limits.each())
    return any(why is not None and why.need is Need.LONGER for why in reasons)


LOWER_END = "at the lower end of a large job's lag_s and edge_s"


def lower_end(scenario: Scenario) -> Scenario | None:
    """Return the scenario with the smallest swings of large jobs; None if unchanged.

    Uncertain parameters of synchronous jobs have a range. A run uses the end of the
    range with the largest swings; this scenario uses the other end.
    """
    streams = dict(scenario.streams)
    for name, stream in scenario.streams.items():
        if stream.synchronous is None or stream.power_smoothing is not None:
            continue
        n_gpus = scenario.facility.node_type_of(stream.pool).n_gpus
        jobs = tuple(job.lower_end(n_gpus) or job for job in stream.synchronous.jobs)
        if jobs != stream.synchronous.jobs:
            training = stream.synchronous.model_copy(update={"jobs": jobs})
            streams[name] = stream.model_copy(update={"synchronous": training})
    return (
        scenario.model_copy(update={"streams": streams})
        if streams != scenario.streams
        else None
    )


@dataclass(frozen=True)
class WatchedLimits(Watch):
    """Limits files that a run checks while it is simulated.

    If parameters of large jobs have a range, the scenario with the smallest swings is
    checked too.
    """

    models: Sequence[Limits]

    def needed_step_ms(self, scenario: Scenario) -> int:
        """Return the longest step [ms] that shows as much of all limits as 0.1 s."""
        return gcd(*(needed_step_ms(each, scenario) for each in self.models))

    def lower_end(self, scenario: Scenario) -> Scenario | None:
        """Return the scenario with the smallest swings of large jobs, or None."""
        return lower_end(scenario)

    def open(
        self,
        pipeline: Pipeline,
        rated_power_w: float,
        peak_mw: Callable[[], float],
        tell: Callable[[str], None],
    ) -> list[LimitWatch]:
        """Return a sink for each limits file.

        If parameters of large jobs have a range, each sink also gets a sink for the
        scenario with the smallest swings. If any limit depends on the peak of a whole
        year, that year is simulated first.
        """
        is_peak_needed = any(
            needs_peak(each, pipeline.scenario) for each in self.models
        )
        arguments = (
            pipeline,
            rated_power_w / W_PER_MW,
            peak_mw() if is_peak_needed else None,
            tell,
        )
        watches = [LimitWatch(limits, *arguments) for limits in self.models]
        if pipeline.lower_end is not None:
            for each in watches:
                each.lower = LimitWatch(each.limits, *arguments, f" {LOWER_END}")
            pipeline.lower_end.sinks = [each.lower for each in watches if each.lower]
        return watches

    def content(
        self, watches: Sequence[LimitWatch], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the content of ``limits.json``: limits, verdicts and reports."""
        reports = [watch.report(metrics) for watch in watches]
        checked = [
            {
                "limits": limits.model_dump(mode="json", exclude_defaults=True),
                "verdict": report.verdict,
                "report": asdict(report),
            }
            for limits, report in zip(self.models, reports, strict=True)
        ]
        return {"checked": checked}
