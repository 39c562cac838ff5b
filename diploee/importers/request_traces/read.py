"""`read_request_trace`: reader of any known trace; its content shows the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from diploee.base.clock import parse_zone
from diploee.base.errors import InputError, option
from diploee.base.progress import stage
from diploee.base.units import MS_PER_S, TimeUnit
from diploee.importers.registry import Formats
from diploee.importers.request_traces import generic_csv, mooncake, servegen
from diploee.importers.request_traces.aggregate import TraceFormat, TraceReader
from diploee.importers.request_traces.published_csv import AZURE_LLM, BURSTGPT
from diploee.importers.request_traces.rows import TraceOptions
from diploee.importers.text.text import first_block
from diploee.loads.services.request_trace import RequestTrace

TRACE_FORMATS: Formats[TraceReader] = Formats(
    "trace",
    (AZURE_LLM, BURSTGPT, *(m.FORMAT for m in (mooncake, servegen, generic_csv))),
)
"""The formats by name; of several that recognise a file the first is taken."""

_MAX_STEP_S = 366 * 86_400


@stage("read trace")
def read_request_trace(
    path: Path | str,
    trace_format: str | None = None,
    *,
    step_s: float = 60.0,
    services: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    utc_offset: str | None = None,
    time_unit: TimeUnit | None = None,
    requests: bool = False,
) -> RequestTrace:
    """Read a request trace and count its requests per step and service.

    The file is streamed: memory grows with its steps, with its rows only where each
    request is kept. It may be packed. Rows may stand in any order. What is left out or
    repaired is counted by cause: rows without a time, times that no trace can have, a
    few requests years from all others, negative times, failed requests (BurstGPT),
    repeated rows where the stamps are fine enough to tell, missing and negative token
    counts (the request counts, its length does not), rows out of order. Repeats are
    seen one after the other only.

    Parameters
    ----------
    path : pathlib.Path or str
        A file; for ServeGen also a folder of chunks, or of such folders.
    trace_format : str, optional
        One of `TRACE_FORMATS`; taken from the first line where absent.
    step_s : float
        Length of a step [s], a whole number of milliseconds. Steps start at multiples
        of it, since 1970 UTC or since the trace's own origin.
    services : sequence of str, optional
        Keep these services only, in this order; for a trace that tells none, the one
        name for all its requests.
    columns : mapping of str to str, optional
        For ``"csv"``: column by meaning, see `plain_csv.MEANINGS`.
    utc_offset : str, optional
        Zone of the trace's local time, ``+08:00`` or ``Europe/Berlin``: stamps that
        name no zone are in it. If absent, the offset of the first stamp, else UTC.
    time_unit : str, optional
        Unit of times that are numbers, such as ``"ms"``; found by their size, span and
        spacing if absent, see `diploee.importers.text.time_units`.
    requests : bool
        Keep each request whose lengths are known, as `RequestTrace.requests`.

    Returns
    -------
    RequestTrace
        Requests per step and service, token lengths, and what became of the rows.

    Raises
    ------
    LogFormatError
        If the file can't be read or a row is not what the format says, naming file and
        line.
    InputError
        If an argument is wrong, or a wanted service does not occur.
    """
    path = Path(path)
    zone = None if utc_offset is None else parse_zone(utc_offset, "utc_offset")
    options = TraceOptions(
        _step_ms(step_s), services, columns, zone, time_unit, requests
    )
    if services is not None and not services:
        raise InputError("services is empty; name at least one, or leave it out")
    if columns is not None and trace_format not in (None, generic_csv.FORMAT.name):
        raise InputError(
            f"columns are for the format 'csv', the trace is read as '{trace_format}'"
        )
    if trace_format is not None:
        chosen = TRACE_FORMATS.named(path, trace_format)
    else:
        chosen = generic_csv.FORMAT if columns is not None else _sniff(path)
    trace = chosen.read(path, options)
    if trace.is_relative and zone is not None:
        raise InputError(
            f"{path}: utc_offset{option('--utc-offset')} is for times with dates, "
            "this trace counts from an origin of its own; give "
            f"zero_hour_of_week{option('--zero-hour-of-week')}"
        )
    return trace


def _sniff(path: Path) -> TraceFormat:
    """Return the format of a trace by its first line."""
    if path.is_dir():
        return servegen.FORMAT
    text, _ = first_block(path, "requests")
    return TRACE_FORMATS.recognised(
        text, "map the columns of a CSV file, or write JSON as one object a line"
    )


def _step_ms(step_s: float) -> int:
    step_ms = step_s * MS_PER_S
    if (
        not 1 <= step_ms <= _MAX_STEP_S * MS_PER_S
        or abs(step_ms - round(step_ms)) > 1e-6
    ):
        raise InputError(
            f"step_s is {step_s}, expected a whole number of milliseconds up to a year"
        )
    return round(step_ms)
