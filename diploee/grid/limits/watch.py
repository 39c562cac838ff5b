"""Checks of limits during a run.

The step that they need, and a sink that checks them at it.
"""

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
    checks_of,
    reactive_of,
    shown_at,
)
from diploee.metrics.spectral_bands import Support, profile_support
from diploee.scenario.models import Scenario
from diploee.scenario.times import steps_ms
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.prepared import Watch

STEPS_OF_WINDOW = 10
"""A value over a sliding window is looked at in steps of a tenth of it at most."""

_ALL_SEEN = Support(np.inf, np.inf, 0.0, 0.0, np.inf)


def needed_step_ms(limits: Limits, scenario: Scenario) -> int:
    """Return the coarsest step [ms] that shows as much of the limits as 0.1 s.

    What the profiles hold is left out of account.
    """
    has_reactive = scenario.facility.has_ac_power

    def shown(step_ms: int) -> SeriesContext:
        result = shown_at(
            scenario,
            step_ms,
            _ALL_SEEN,
            (1.0, ""),
            1.0,
            has_reactive,
        )
        return replace(result, whole_mw=1.0, whole="", no_whole=None)

    finest = shown(PROFILE_STEP_MS)
    needed = scenario.resolution_ms
    for _, spec in limits.each():
        wanted = _outcome(spec, finest)
        for step_ms in steps_ms(needed):
            if step_ms == PROFILE_STEP_MS or _outcome(spec, shown(step_ms)) == wanted:
                needed = step_ms
                break
    return needed


def _outcome(spec: LimitSpec, shown: SeriesContext) -> list[tuple[bool, bool]] | Need:
    """Return what a series shows of a limit, and its windows of few steps."""
    checks, why = checks_of(spec, shown)
    if why is not None:
        return why.need
    return [
        (bool(check.note), _is_coarse(check, shown.clock.step_ms)) for check in checks
    ]


def _is_coarse(check: Check, step_ms: int) -> bool:
    slides = check.n_window > 1 and check.stride_ms == step_ms and not check.of_run
    return (
        slides
        and step_ms > PROFILE_STEP_MS
        and check.span_ms < STEPS_OF_WINDOW * step_ms
    )


class LimitWatch(CheckedSeries):
    """Sink that checks limits during a run, at its step.

    Parameters
    ----------
    limits : Limits
        What is checked.
    pipeline : Pipeline
        What simulates the run.
    rated_mw : float
        Rated power where the power is taken [MW].
    peak_mw : float, optional
        The peak, where it is known before.
    tell : callable
        Is given what is not met, as soon as it is seen.
    where : str
        The end of a large job, where it is not the run's own.
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
        reactive = reactive_of(limits, {of.name for of in pipeline.columns})
        shown = shown_at(
            scenario,
            scenario.step_ms,
            profile_support(pipeline.readings, interpolated_s(pipeline.stages)),
            (rated_mw, "rated power"),
            peak_mw,
            bool(reactive),
        )
        super().__init__(limits, shown, reactive)
        power = find_column(POWER, pipeline.columns)[0]
        self._boundary = power.boundary or "unknown"
        self._untold = list(self._checks)
        self._most_w = self._least_w = 0.0

    def add(self, block: Block) -> None:
        """Take in a block at the step."""
        power_w = as_stored(block.columns[POWER])
        self._most_w = max(self._most_w, float(power_w.max()))
        self._least_w = min(self._least_w, float(power_w.min()))
        self.take(block.t0_ms, block.columns, self._transient.end_ms)
        self._end_ms = block.end_ms
        for check in [check for check in self._untold if check.exceedance.n_beyond]:
            self._untold.remove(check)
            self._tell(self._told_of(check))

    def _told_of(self, check: Check) -> str:
        first = min(check.exceedance.worst(), key=lambda event: event.begin_ms)
        when = self._whole.clock.iso(first.begin_ms)[:19].replace("T", " at ")
        worst, name = check.sign * first.worst, check.text.partition(" (")[0]
        return (
            f"{self.limits.name or 'limits'}: not met from {when} on{self._where}, "
            f"{name}: {format_short(worst)} {check.unit}, limit "
            f"{format_short(check.limit)}"
        )

    @property
    def is_decided(self) -> bool:
        """Whether a limit is not met, at each end of large jobs."""
        is_not_met = len(self._untold) < len(self._checks)
        return is_not_met and (self.lower is None or self.lower.is_decided)

    def report(self, metrics: Mapping[str, Any]) -> LimitReport:
        """Return the report, with the causes of the run's metrics.

        The peak is known now: a load that is wholly below a limit keeps it.
        """
        peak_mw = self._most_w / W_PER_MW
        seen = replace(self._whole, peak_mw=peak_mw, exports=self._least_w < 0)
        for key, spec in self.limits.each():
            left = [of for of in self._unchecked if of[0][0] == key]
            partly = [c for c in self._checks if c.key == key and c.note]
            if (left or partly) and (below := spec.below(seen)):
                below.key, below.spec = key, spec
                below.exceedance.add(np.array([peak_mw]), 0)
                self._checks = [c for c in self._checks if c.key != key] + [below]
                self._unchecked = [of for of in self._unchecked if of not in left]
        result = self.found(metrics, self._boundary, self._transient.end_ms)
        result = replace(result, days=self._end_ms / MS_PER_DAY)
        if self.lower is None:
            return result
        return result.beside(self.lower.report({}), LOWER_END)


def asks_for_peak(limits: Limits, scenario: Scenario) -> bool:
    """Return True if limits depend on the peak of whole years."""
    of_site = scenario, scenario.step_ms, _ALL_SEEN, (1.0, "")
    known, unknown = (shown_at(*of_site, peak) for peak in (1.0, None))
    if known.whole_mw == unknown.whole_mw:
        return False
    reasons = (checks_of(spec, unknown)[1] for _, spec in limits.each())
    return any(why is not None and why.need is Need.LONGER for why in reasons)


LOWER_END = "at the lower end of a large job's lag_s and edge_s"


def lower_end(scenario: Scenario) -> Scenario | None:
    """Return a scenario whose large jobs have the smallest known swings.

    None where none differs.
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
    """Files of limits, checked during a run.

    Where a large job may swing less, its lower end is checked beside it.
    """

    models: Sequence[Limits]

    def needed_step_ms(self, scenario: Scenario) -> int:
        """Return the coarsest step [ms] that shows as much of all limits as 0.1 s."""
        return gcd(*(needed_step_ms(each, scenario) for each in self.models))

    def lower_end(self, scenario: Scenario) -> Scenario | None:
        """Return a scenario whose large jobs have the smallest known swings."""
        return lower_end(scenario)

    def open(
        self,
        pipeline: Pipeline,
        rated_power_w: float,
        peak_mw: Callable[[], float],
        tell: Callable[[str], None],
    ) -> list[LimitWatch]:
        """Return a sink for each file of limits, with a separate lower end.

        The peak is simulated where one is in percent of a whole year's.
        """
        asks = any(asks_for_peak(each, pipeline.scenario) for each in self.models)
        of_run = pipeline, rated_power_w / W_PER_MW, peak_mw() if asks else None, tell
        seen = [LimitWatch(of, *of_run) for of in self.models]
        if pipeline.lower_end is not None:
            for each in seen:
                each.lower = LimitWatch(each.limits, *of_run, f" {LOWER_END}")
            pipeline.lower_end.sinks = [each.lower for each in seen if each.lower]
        return seen

    def content(
        self, seen: Sequence[LimitWatch], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the content of ``limits.json``: the reports on both ends."""
        reports = [watch.report(metrics) for watch in seen]
        checked = [
            {
                "limits": limits.model_dump(mode="json", exclude_defaults=True),
                "verdict": report.verdict,
                "report": asdict(report),
            }
            for limits, report in zip(self.models, reports, strict=True)
        ]
        return {"checked": checked}
