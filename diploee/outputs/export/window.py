"""Which step and which rows of a run an export takes."""

from __future__ import annotations

from datetime import datetime, timedelta

from diploee.errors import InputError
from diploee.outputs.export.series import Span
from diploee.outputs.reader import Run
from diploee.scenario.spans import parse_resolution_ms
from diploee.units import MS_PER_S


def parse_step_ms(text: str) -> int:
    """Return a step such as ``"15 min"`` in milliseconds.

    Raises
    ------
    InputError
        If it is none, or lies outside 0.1 s to 1 h.
    """
    try:
        return parse_resolution_ms(text)
    except ValueError as error:
        raise InputError(f"--step: {error}") from None


def check_step(run: Run, step_ms: int) -> None:
    """Refuse a step that the run can't be averaged to.

    Raises
    ------
    InputError
        If it is finer than the run's, or no multiple of it.
    """
    run_ms = run.scenario.resolution_ms
    if step_ms < run_ms:
        raise InputError(
            f"{run.folder}: a step of {step_ms / MS_PER_S:g} s is finer than the run's "
            f"{run_ms / MS_PER_S:g} s, which holds no more detail; run again with "
            f'--set "resolution={step_ms / MS_PER_S:g} s"'
        )
    if step_ms % run_ms:
        raise InputError(
            f"{run.folder}: a step of {step_ms / MS_PER_S:g} s is no multiple of the run's "
            f"{run_ms / MS_PER_S:g} s; choose a --step that is"
        )


def rows_between(run: Run, first: datetime | None, until: datetime | None, step_ms: int) -> Span:
    """Return the rows of a part of the run, the whole run by default.

    Raises
    ------
    InputError
        If the part does not lie in the run, or is no whole number of steps.
    """
    scenario = run.scenario
    a = 0 if first is None else row_at(run, first, "--from")
    b = scenario.n_intervals if until is None else row_at(run, until, "--to")
    if a >= b:
        raise InputError(f"--from must be before --to, found {first} and {until or 'the end'}")
    rows_per_step = step_ms // scenario.resolution_ms
    if (b - a) % rows_per_step:
        seconds = (b - a) * scenario.resolution_ms / MS_PER_S
        raise InputError(
            f"{run.folder}: {seconds:g} s are no whole number of steps of "
            f"{step_ms / MS_PER_S:g} s; choose another --step, or a part with --from and --to"
        )
    return a, b


def row_at(run: Run, moment: datetime, where: str) -> int:
    """Return the row that starts at a moment, or the end of the run.

    Parameters
    ----------
    run : Run
        The run.
    moment : datetime
        Local time of the facility (its fixed UTC offset) unless it has a zone.
    where : str
        What gave the moment, for the error.

    Raises
    ------
    InputError
        If the moment lies outside the run or within an interval.
    """
    scenario = run.scenario
    start = scenario.start_with_zone
    local = moment if moment.tzinfo else moment.replace(tzinfo=start.tzinfo)
    row, within = divmod(local - start, timedelta(milliseconds=scenario.resolution_ms))
    if not 0 <= row <= scenario.n_intervals or (row == scenario.n_intervals and within):
        raise InputError(f"{where}: {moment.isoformat()} lies outside the run, {covered(run)}")
    if within:
        raise InputError(
            f"{where}: {moment.isoformat()} lies within an interval; the run's start every "
            f"{scenario.resolution_ms / MS_PER_S:g} s from {start.isoformat()}"
        )
    return row


def covered(run: Run) -> str:
    """Return the run's span as text."""
    start = run.scenario.start_with_zone
    end = start + timedelta(milliseconds=run.scenario.horizon_ms)
    hours = run.scenario.horizon_ms / MS_PER_S / 3600
    return f"{start.isoformat()} to {end.isoformat()} ({hours:,.5g} h)"
