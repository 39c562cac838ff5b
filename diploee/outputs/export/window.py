"""Which step and which rows of its source an export takes."""

from __future__ import annotations

from datetime import datetime, timedelta

from diploee.errors import InputError, one_of
from diploee.outputs.export.series import Span
from diploee.outputs.export.source import Source
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


def check_step(source: Source, step_ms: int) -> None:
    """Refuse a step that the source can't be averaged to.

    Raises
    ------
    InputError
        If it is finer than the source's, or no multiple of it.
    """
    folder, step_s = source.run.folder, step_ms / MS_PER_S
    if step_ms < source.step_ms:
        raise InputError(
            f"{folder}: a step of {step_s:g} s is finer than the {source.name}'s "
            f"{source.step_s:g} s, which holds no more detail; run again with "
            f'--set "resolution={step_s:g} s"{_or_zoom(source)}'
        )
    if step_ms % source.step_ms:
        raise InputError(
            f"{folder}: a step of {step_s:g} s is no multiple of the {source.name}'s "
            f"{source.step_s:g} s; choose a --step that is"
        )


def _or_zoom(source: Source) -> str:
    zooms = source.run.zooms
    return f", or export one of its worst windows with --zoom {one_of(zooms)}" if zooms else ""


def rows_between(
    source: Source, first: datetime | None, until: datetime | None, step_ms: int
) -> Span:
    """Return the rows of a part of the source, the whole by default.

    Raises
    ------
    InputError
        If the part does not lie in the source, or is no whole number of steps.
    """
    a = 0 if first is None else row_at(source, first, "--from")
    b = source.n_rows if until is None else row_at(source, until, "--to")
    if a >= b:
        raise InputError(f"--from must be before --to, found {first} and {until or 'the end'}")
    rows_per_step = step_ms // source.step_ms
    if (b - a) % rows_per_step:
        seconds = (b - a) * source.step_s
        raise InputError(
            f"{source.run.folder}: {seconds:g} s are no whole number of steps of "
            f"{step_ms / MS_PER_S:g} s; choose another --step, or a part with --from and --to"
        )
    return a, b


def row_at(source: Source, moment: datetime, where: str) -> int:
    """Return the row that starts at a moment, or the end of the source.

    Parameters
    ----------
    source : Source
        The series.
    moment : datetime
        Local time of the facility (its fixed UTC offset) unless it has a zone.
    where : str
        What gave the moment, for the error.

    Raises
    ------
    InputError
        If the moment lies outside the source or within an interval.
    """
    start = source.start
    local = moment if moment.tzinfo else moment.replace(tzinfo=start.tzinfo)
    row, within = divmod(local - start, timedelta(milliseconds=source.step_ms))
    if not 0 <= row <= source.n_rows or (row == source.n_rows and within):
        raise InputError(
            f"{where}: {moment.isoformat()} lies outside the {source.name}, {source.covered}"
        )
    if within:
        raise InputError(
            f"{where}: {moment.isoformat()} lies within an interval; the {source.name}'s start "
            f"every {source.step_s:g} s from {start.isoformat()}"
        )
    return row
