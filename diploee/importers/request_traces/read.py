"""`read_request_trace`: reads a request trace and detects its format."""

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
from diploee.importers.request_traces.request_rows import TraceOptions
from diploee.importers.text.text_lines import first_block
from diploee.loads.services.request_trace import RequestTrace

TRACE_FORMATS: Formats[TraceReader] = Formats(
    "trace",
    (AZURE_LLM, BURSTGPT, *(m.FORMAT for m in (mooncake, servegen, generic_csv))),
)
"""Request trace formats by name; the first that recognises a file is used."""

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

    The file, plain or compressed, is read in blocks: memory grows with the number of
    steps, and with the number of rows only if each request is kept. Rows may be in any
    order, and are counted if they are out of order.

    These rows are dropped, and counted by cause: rows without a time or with an
    implausible or negative one, a few requests years from all others, failed requests
    (BurstGPT), and consecutive repeated rows if timestamps are fine enough. A request
    with a missing or negative token count is kept without its length.

    Parameters
    ----------
    path : pathlib.Path or str
        Path of a file; for ServeGen also a folder of chunks, or of such folders.
    trace_format : str, optional
        One of `TRACE_FORMATS`; detected from the first line if absent.
    step_s : float
        Length of a step [s], a whole number of milliseconds. Steps start at multiples
        of the length, since 1970 UTC or since the trace's own origin.
    services : sequence of str, optional
        Services to keep, in this order; for a trace without service names, one name
        for all requests.
    columns : mapping of str to str, optional
        For ``"csv"``: column by meaning, see `generic_csv.MEANINGS`.
    utc_offset : str, optional
        Zone of timestamps without a zone, such as ``+08:00`` or ``Europe/Berlin``; by
        default the offset of the first timestamp, else UTC.
    time_unit : str, optional
        Unit of numeric times, such as ``"ms"``; inferred from size, span and spacing if
        absent, see `diploee.importers.text.time_units`.
    requests : bool
        Keep each request with known lengths, as `RequestTrace.requests`.

    Returns
    -------
    RequestTrace
        Requests per step and service, token lengths, and counts of dropped rows.

    Raises
    ------
    LogFormatError
        If the file can't be read or a row does not match the format, with file and
        line.
    InputError
        If an argument is invalid, or a requested service is not in the trace.
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
    """Return the format of a trace: ServeGen for a folder, else by its first line."""
    if path.is_dir():
        return servegen.FORMAT
    text, _ = first_block(path, "requests")
    return TRACE_FORMATS.detect(
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
