"""Holding a finished run against limits: `check_limits(run, limits) -> LimitReport`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import InputError
from diploee.metrics.grid.bandwidth import Readings, profile_support
from diploee.metrics.grid.checks import Check, build_checks
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.limits import Limits
from diploee.metrics.grid.quanta import MAX_DAY_POWER_W, to_quanta
from diploee.metrics.grid.stretch import Stretch
from diploee.scenario import Scenario
from diploee.tables import Int64Array
from diploee.units import MS_PER_S, S_PER_DAY, S_PER_H, S_PER_MIN

POWER_FILE, POWER_COLUMN = "facility.parquet", "facility_power_w"
BATCH_ROWS = 1 << 18


class RunFolder(Protocol):
    """The part of `diploee.outputs.Run` that a check needs (outputs stands to the right)."""

    @property
    def folder(self) -> Path:
        """The run folder."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Its manifest."""

    @property
    def scenario(self) -> Scenario:
        """Its scenario."""


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

    def line(self) -> str:
        """Return the result in one line."""
        limit = f"{self.key}: {self.text}, limit {self.limit:g} {self.unit}"
        note = f" ({self.note})" if self.note else ""
        if not self.violations:
            return f"{limit}: kept{note}"
        worst = self.worst[0]
        return (
            f"{limit}: {self.violations:,} violation{'' if self.violations == 1 else 's'} "
            "(adjacent ones count as one), "
            f"{_duration(self.duration_s)} in all, "
            f"worst {worst.value:.4g} {self.unit} at {worst.time}{note}"
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
    """

    resolution_s: float
    results: tuple[LimitResult, ...]
    unchecked: tuple[tuple[str, str, str], ...]

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
            "results": [asdict(result) for result in self.results],
            "unchecked": [
                {"key": key, "text": text, "reason": reason} for key, text, reason in self.unchecked
            ],
        }


@dataclass(frozen=True)
class _Recorded:
    """Readings of a profile as the manifest has them."""

    averaging_window_s: float
    bandwidth_hz: float


def recorded_readings(manifest: dict[str, Any]) -> list[Readings]:
    """Return what limits the profiles of a run, from its manifest."""
    origins = [entry["provenance"] for entry in manifest.get("profiles", {}).values()]
    return [_Recorded(o["averaging_window_s"], o["bandwidth_hz"]) for o in origins]


def check_limits(run: RunFolder, limits: Limits) -> LimitReport:
    """Hold the facility's power of a run against limits, streamed from its file.

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
    values, end_ms = np.empty(0, dtype=np.int64), 0
    for quanta in _power_batches(run.folder / POWER_FILE):
        values = np.concatenate([values[max(values.size - n_kept, 0) :], quanta])
        end_ms += quanta.size * clock.step_ms
        for check in checks:
            check.see(Stretch(values, quanta.size, end_ms, clock.step_ms))
    for check in checks:
        check.finish()
    nothing = [check for check in checks if not check.exceedance.n_values]
    unchecked += [(c.key, c.text, "the run is too short") for c in nothing]
    results = tuple(_result(check, clock) for check in checks if check.exceedance.n_values)
    return LimitReport(clock.step_s, results, tuple(unchecked))


def _power_batches(path: Path) -> Iterator[Int64Array]:
    try:
        with pq.ParquetFile(path) as file:
            if POWER_COLUMN not in file.schema_arrow.names:
                raise InputError(f"{path}: has no column '{POWER_COLUMN}'")
            # Group by group: over all of them pyarrow keeps what it has read of the file.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(BATCH_ROWS, [group], [POWER_COLUMN]):
                    power_w = batch.column(0).to_numpy(zero_copy_only=False).astype(np.float64)
                    yield to_quanta(power_w, MAX_DAY_POWER_W)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file in this run folder") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: can't be read ({str(error).splitlines()[0]})") from error


def _result(check: Check, clock: Clock) -> LimitResult:
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
    )


def _duration(duration_s: float) -> str:
    """Return a length of time in the largest unit that it fills twice."""
    for unit, length_s in (("d", S_PER_DAY), ("h", S_PER_H), ("min", S_PER_MIN)):
        if duration_s >= 2 * length_s:
            return f"{duration_s / length_s:,.4g} {unit}"
    return f"{duration_s:,.4g} s"
