"""Holding a finished run against limits: `check_limits(run, limits) -> LimitReport`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from diploee.errors import InputError, plural, shown
from diploee.metrics.cause_words import cause_words, causes_of
from diploee.metrics.event import Key
from diploee.metrics.grid.bandwidth import Readings, profile_support
from diploee.metrics.grid.checks import Check, build_checks
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.limits import Limits
from diploee.metrics.grid.quanta import MAX_DAY_POWER_W, Stretch, to_quanta
from diploee.scenario import Scenario
from diploee.units import MS_PER_H, MS_PER_S, S_PER_DAY, S_PER_H, S_PER_MIN

if TYPE_CHECKING:
    from diploee.outputs import SeriesBlock

POWER_COLUMN = "facility_power_w"


class RunFolder(Protocol):
    """The part of `diploee.outputs.Run` that a check needs (outputs stands to the right)."""

    @property
    def folder(self) -> Path:
        """The run folder."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Its manifest."""

    @property
    def metrics(self) -> dict[str, Any]:
        """Its metrics."""

    @property
    def scenario(self) -> Scenario:
        """Its scenario."""

    def boundary(self) -> str:
        """Return where its power is taken."""

    def blocks(self, columns: Sequence[str]) -> Iterator[SeriesBlock]:
        """Stream its power series."""


@dataclass(frozen=True)
class Worst:
    """One of the worst events of a violation.

    Parameters
    ----------
    begin, end, time : str
        First value beyond the limit, end of the last, and time of the worst one (ISO 8601).
    value : float
        The worst value, in the limit's unit.
    """

    begin: str
    end: str
    time: str
    value: float


@dataclass(frozen=True)
class LimitResult:
    """What became of one limit.

    Parameters
    ----------
    key, text : str
        Key in the file, and what is limited in words.
    limit : float
        The limit.
    unit : str
        Unit of the limit and of all values.
    violations : int
        Unbroken stretches beyond the limit.
    duration_s : float
        Their total duration: values beyond the limit times their spacing [s].
    window_s : float
        Length of the window or interval behind a value [s].
    worst : tuple of Worst
        The worst stretches, at most five, the worst first.
    note : str
        What weakens the check, such as a lower bound.
    cause : str
        Why the worst event came about, where the run's metrics tell.
    """

    key: str
    text: str
    limit: float
    unit: str
    violations: int
    duration_s: float
    window_s: float
    worst: tuple[Worst, ...]
    note: str
    cause: str = ""

    def line(self) -> str:
        """Return the result in one line."""
        limit = f"{self.key}: {self.text}, limit {self.limit:g} {self.unit}"
        note = f" ({self.note})" if self.note else ""
        if not self.violations:
            return f"{limit}: kept{note}"
        worst = self.worst[0]
        return (
            f"{limit}: {plural(self.violations, 'violation')} "
            "(adjacent ones count as one), "
            f"{_duration(self.duration_s)} in all, "
            f"worst {worst.value:.4g} {self.unit} at {worst.time}{note}"
            f"{f': {self.cause}' if self.cause else ''}"
        )


@dataclass(frozen=True)
class LimitReport:
    """A run held against limits.

    Parameters
    ----------
    resolution_s : float
        Resolution of the run [s].
    results : tuple of LimitResult
        One for each limit that could be checked.
    unchecked : tuple of (str, str, str)
        Key, text and reason of those that could not.
    boundary : str
        Where the power that was checked is taken.
    """

    resolution_s: float
    results: tuple[LimitResult, ...]
    unchecked: tuple[tuple[str, str, str], ...]
    boundary: str = ""

    @property
    def violated(self) -> tuple[LimitResult, ...]:
        """The limits that are not kept."""
        return tuple(result for result in self.results if result.violations)

    @property
    def kept(self) -> bool:
        """Whether every limit could be checked and is kept."""
        return not self.violated and not self.unchecked

    def lines(self) -> list[str]:
        """Return one line for each limit."""
        return [result.line() for result in self.results] + [
            f"{key}: {text}: not checked, {reason}" for key, text, reason in self.unchecked
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the report in plain types, for JSON."""
        return {
            "kept": self.kept,
            "resolution_s": self.resolution_s,
            "boundary": self.boundary,
            "results": [asdict(result) for result in self.results],
            "unchecked": [
                {"key": key, "text": text, "reason": reason} for key, text, reason in self.unchecked
            ],
        }


@dataclass(frozen=True)
class _Recorded:
    """Readings of a profile as the manifest has them."""

    averaging_window_s: float | None
    bandwidth_hz: float


def recorded_readings(manifest: dict[str, Any]) -> list[Readings]:
    """Return what limits the profiles and measured samples of a run, from its manifest."""
    origins = [entry["provenance"] for entry in manifest.get("profiles", {}).values()]
    origins += [o for rates in manifest.get("power_samples", {}).values() for o in rates.values()]
    return [_Recorded(o["averaging_window_s"], o["bandwidth_hz"]) for o in origins]


def check_limits(run: RunFolder, limits: Limits) -> LimitReport:
    """Hold the facility's power of a run against limits, streamed from its file.

    Ramps, swings and bands of the time in which a run that began empty filled up are left out.
    Values are float32 as stored: a limit within 1e-7 of the power may go either way.

    Parameters
    ----------
    run : Run
        A finished run, from `diploee.open_run`.
    limits : Limits
        From `load_limits`.

    Raises
    ------
    InputError
        If the run's power can't be read.
    """
    scenario = run.scenario
    clock = Clock(scenario.start_with_zone, scenario.resolution_ms)
    support = profile_support(recorded_readings(run.manifest)).at_resolution(clock.step_ms)
    checks, unchecked = build_checks(limits, clock, support)
    n_kept = max((check.n_window for check in checks), default=1) - 1
    transient_ms = _transient_ms(run)
    values, end_ms = np.empty(0, dtype=np.int64), 0
    for block in run.blocks([POWER_COLUMN]):
        try:
            quanta = to_quanta(block.columns[POWER_COLUMN], MAX_DAY_POWER_W)
        except ValueError as error:
            raise InputError(f"{run.folder}: column '{POWER_COLUMN}': {error}") from error
        values = np.concatenate([values[max(values.size - n_kept, 0) :], quanta])
        end_ms += quanta.size * clock.step_ms
        whole = Stretch(values, quanta.size, end_ms, clock.step_ms)
        n_filled = min(max(end_ms - transient_ms, 0) // clock.step_ms, values.size)
        filled = replace(
            whole, values=values[values.size - n_filled :], n_new=min(quanta.size, n_filled)
        )
        for check in checks:
            check.see(whole if check.n_window == 1 else filled)
    for check in checks:
        check.finish()
    nothing = [check for check in checks if not check.exceedance.n_values]
    unchecked += [(c.key, c.text, "the run is too short") for c in nothing]
    causes = {(key, time): cause_words(cause) for key, time, cause in causes_of(run.metrics)}
    results = tuple(_result(check, clock, causes) for check in checks if check.exceedance.n_values)
    return LimitReport(clock.step_s, results, tuple(unchecked), run.boundary())


def _transient_ms(run: RunFolder) -> int:
    """Return the time in which a run filled up [ms]; 0 for one of an older version."""
    hours = (run.metrics.get("grid") or {}).get("transient_h", 0.0)
    if not isinstance(hours, int | float) or not 0 <= hours * MS_PER_H < run.scenario.horizon_ms:
        raise InputError(
            f"{run.folder}: metrics: grid.transient_h is {shown(hours)}, expected hours within the "
            "run; run the scenario again"
        )
    return round(hours * MS_PER_H)


def _result(check: Check, clock: Clock, causes: Mapping[tuple[Key, str], str]) -> LimitResult:
    found = check.exceedance
    worst = tuple(
        Worst(clock.iso(e.begin_ms), clock.iso(e.end_ms), clock.iso(e.worst_ms), e.worst)
        for e in found.worst()
    )
    return LimitResult(
        key=check.key,
        text=check.text,
        limit=found.limit,
        unit=check.unit,
        violations=found.n_events,
        duration_s=found.duration_ms / MS_PER_S,
        window_s=check.span_ms / MS_PER_S,
        worst=worst,
        note=check.note,
        cause=causes.get((check.event, worst[0].time), "") if worst and check.event else "",
    )


def _duration(duration_s: float) -> str:
    """Return a length of time in the largest unit that it fills twice."""
    for unit, length_s in (("d", S_PER_DAY), ("h", S_PER_H), ("min", S_PER_MIN)):
        if duration_s >= 2 * length_s:
            return f"{duration_s / length_s:,.4g} {unit}"
    return f"{duration_s:,.4g} s"
