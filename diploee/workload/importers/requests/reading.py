"""Read a request trace of any known format: which format it is, and the stream through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from diploee.errors import InputError, LogFormatError, did_you_mean, one_line, one_of, shown
from diploee.units import MS_PER_S
from diploee.workload.importers.requests import azure_llm, burstgpt, mooncake, plain_csv, servegen
from diploee.workload.importers.requests.blocks import first_row, read_blocks
from diploee.workload.importers.requests.csv_header import Header
from diploee.workload.importers.requests.csv_rows import csv_rows
from diploee.workload.importers.requests.rows import RequestRows
from diploee.workload.importers.requests.totals import Rules, TraceTotals
from diploee.workload.request_trace import RequestTrace

TRACE_FORMATS = (azure_llm.NAME, burstgpt.NAME, mooncake.NAME, servegen.NAME, plain_csv.NAME)
"""Names of the formats that `read_request_trace` takes."""

_WITH_HEADER = {azure_llm.NAME: azure_llm, burstgpt.NAME: burstgpt}
_LONGEST_STEP_S = 366 * 86_400


def read_request_trace(
    path: Path | str,
    trace_format: str | None = None,
    *,
    step_s: float = 60.0,
    services: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> RequestTrace:
    """Read a request trace and count its requests per step and service.

    The file is streamed: memory does not grow with its rows, only with its steps. It may be packed
    with gzip. Rows may stand in any order. What is left out or repaired is counted by cause: rows
    without a time, negative times, failed requests (BurstGPT), repeated rows where the stamps are
    fine enough to tell (Azure), missing and negative token counts (the request counts, its length
    does not), rows out of order. Repeats are seen one after the other only.

    Parameters
    ----------
    path : pathlib.Path or str
        A file; for ServeGen also a folder of chunks, or of such folders.
    trace_format : str, optional
        One of `TRACE_FORMATS`; taken from the first line where absent.
    step_s : float
        Length of a step [s], a whole number of milliseconds. Steps start at multiples of it, since
        1970 UTC or since the trace's own origin.
    services : sequence of str, optional
        Keep these services only, in this order; for a trace that tells none, the one name for all
        its requests.
    columns : mapping of str to str, optional
        For ``"csv"``: column by meaning, see `plain_csv.MEANINGS`.

    Returns
    -------
    RequestTrace
        Requests per step and service, token lengths, and what became of the rows.

    Raises
    ------
    LogFormatError
        If the file can't be read or a row is not what the format says, naming file and line.
    InputError
        If an argument is wrong, or a wanted service does not occur.
    """
    path = Path(path)
    step_ms = _step_ms(step_s)
    if services is not None and not services:
        raise InputError("services is empty; name at least one, or leave it out")
    if columns is not None and trace_format not in (None, plain_csv.NAME):
        raise InputError(
            f"columns are for the format '{plain_csv.NAME}', the trace is read as '{trace_format}'"
        )
    name = trace_format or (plain_csv.NAME if columns is not None else sniff(path))
    if name == servegen.NAME:
        return servegen.read_servegen(path, step_ms, services)
    stream, rules = _stream(path, name, columns)
    totals = TraceTotals(path, name, rules, step_ms, services)
    for rows in stream:
        totals.add(rows)
    return totals.trace()


def sniff(path: Path) -> str:
    """Return the format of a trace by its first line.

    Raises
    ------
    LogFormatError
        If the file can't be read, or its first line fits none.
    """
    if path.is_dir():
        return servegen.NAME
    line, text = first_row(path)
    if mooncake.is_first_line(text):
        return mooncake.NAME
    header = Header.of(path)
    for name, module in (*_WITH_HEADER.items(), (plain_csv.NAME, plain_csv)):
        if module.is_header(header):
            return name
    if servegen.is_first_line(text):
        return servegen.NAME
    raise LogFormatError(
        f"{path}:{line}: starts with {one_line(shown(text))}, which fits none of the formats "
        f"{one_of(TRACE_FORMATS)}; name the format, or map the columns of a CSV file"
    )


def _stream(
    path: Path, name: str, mapping: Mapping[str, str] | None
) -> tuple[Iterator[RequestRows], Rules]:
    if name == mooncake.NAME:
        mooncake.check_first_line(path)
        return mooncake.json_rows(read_blocks(path)), mooncake.RULES
    if name == plain_csv.NAME:
        columns, rules = plain_csv.columns(Header.of(path), mapping)
        return csv_rows(read_blocks(path), columns), rules
    if name in _WITH_HEADER:
        module = _WITH_HEADER[name]
        return csv_rows(read_blocks(path), module.columns(Header.of(path))), module.RULES
    raise InputError(
        f"unknown trace format '{name}', expected one of {one_of(TRACE_FORMATS)}"
        f"{did_you_mean(name, TRACE_FORMATS)}"
    )


def _step_ms(step_s: float) -> int:
    step_ms = step_s * MS_PER_S
    if not 1 <= step_ms <= _LONGEST_STEP_S * MS_PER_S or abs(step_ms - round(step_ms)) > 1e-6:
        raise InputError(
            f"step_s is {step_s}, expected a whole number of milliseconds up to a year"
        )
    return round(step_ms)
