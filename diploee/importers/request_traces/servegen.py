"""Importer of ServeGen client traces: files of rates instead of requests.

Each client has a file ``chunk-N-trace.csv`` without a header, with a row per 600 s. The
columns are start [s], rate [1/s], coefficient of variation of the gaps between
requests, and family and two parameters of the gaps' distribution. A folder of chunks is
one service, named after the folder; its rate is the sum over its clients. A folder of
such folders has several services.

Token lengths are in ``chunk-N-dataset.json``. It has time windows by their start [s],
each with the fractions of requests by ``input_tokens`` and ``output_tokens`` as text,
such as ``{"0": {"output_tokens": "{120: 0.25, 130: 0.75}"}}``. A window without lengths
has those of the previous one. As these files are large, only those of a service's
largest clients are read. Together these clients have the fraction `COVERED` of the
service's requests.

References
----------
.. [1] https://github.com/alibaba/ServeGen, NSDI '26
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, RootModel

from diploee.base.errors import InputError, LogFormatError, did_you_mean, one_of, shown
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_S
from diploee.base.validation import parse_json
from diploee.importers.registry import drop_rows
from diploee.importers.request_traces.aggregate import OUT_OF_ORDER, TraceFormat
from diploee.importers.request_traces.request_counts import (
    ALL_SERVICES,
    EDGES,
    bin_indices,
    check_any_row_kept,
    check_span,
)
from diploee.importers.request_traces.request_rows import TraceOptions
from diploee.importers.text.delimited_tables import TRUNCATED, HeaderTable
from diploee.importers.text.file_bytes import convert_os_errors, read_bytes
from diploee.importers.text.numbers_and_labels import Number, numbers
from diploee.importers.text.text_lines import TextLines, read_text
from diploee.loads.import_counts import STRAY, STRAY_GAP_MS, ImportCounts, believed_span
from diploee.loads.services.request_trace import RequestTrace, TokenLengths

CHUNKS = "*chunk-*-trace.csv"
ROW_S = 600
"""Length of a row's interval [s]."""

COVERED = 0.9
"""ASSUMPTION (judgement): fraction of a service's requests whose lengths are read."""

COLUMNS = ("time", "rate", "cv", "family", "first", "second")
N_LEAST = 4  # rows of an idle client may lack the parameters
TIME_S, RATE_RPS = Number(1e10), Number(1e9)

_NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
_PAIR = r"\s*(\d{1,9})\s*:\s*(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*"
_SHARE = re.compile(_PAIR)
_SIDES = ("input_tokens", "output_tokens")
_SHARES = re.compile(rf"\{{(?:{_PAIR},)*(?:{_PAIR})?\}}")
_ROW = re.compile(rf"{_NUMBER},{_NUMBER},([^,]*,){{3}}[^,]*")


def recognises(text: TextLines) -> bool:
    """Return True if the first line is a row of a ServeGen chunk."""
    return _ROW.fullmatch(text.first_row) is not None


def read(path: Path, options: TraceOptions) -> RequestTrace:
    """Read a ServeGen trace: a chunk, a folder of chunks, or a folder of such folders.

    Requests are expected numbers per step, which are not whole numbers. Token lengths
    are expected counts, rounded to whole requests. Counts of rows are those of the
    chunks, whose rows are 600 s of a client.
    """
    dropped: Counter[str] = Counter()
    repaired: Counter[str] = Counter()
    clients = {
        name: [_read_client(file, dropped, repaired) for file in files]
        for name, files in _chunks(path, options.services).items()
    }
    clients = _drop_outliers(clients, dropped)
    n_kept = sum(client.time_s.size for group in clients.values() for client in group)
    counts = ImportCounts(n_kept + sum(dropped.values()), n_kept, dropped, repaired)
    check_any_row_kept(path, counts)
    step_ms = options.step_ms
    lengths = _lengths(clients)
    first, n_requests, own_span_ms = _rebin(path, list(clients.values()), step_ms)
    return RequestTrace(
        source=str(path),
        trace_format=FORMAT.name,
        services=tuple(clients),
        origin_ms=first * step_ms,
        is_relative=True,
        step_ms=step_ms,
        n_requests=n_requests,
        input_tokens=lengths["input_tokens"],
        output_tokens=lengths["output_tokens"],
        counts=counts,
        own_span_ms=own_span_ms,
    )


FORMAT = TraceFormat("servegen", "ServeGen client traces", recognises, read)


class _TokenLengths(
    RootModel[dict[Annotated[str, Field(pattern=r"^\d{1,12}$")], dict[str, Any]]]
):
    """Token lengths of a chunk by start of their time window [s]."""


@dataclass(frozen=True, eq=False)
class _ClientRates:
    """Request rates of one client (chunk), in increasing order of time."""

    # Start of each row [s], at least 600 s apart; the rate is zero in between
    time_s: Float64Array
    rate_rps: Float64Array  # mean rate over the row's 600 s [1/s]
    path: Path

    def between(self, first_s: float, last_s: float) -> _ClientRates:
        """Return the rows that start between two times [s], both included."""
        near = (self.time_s >= first_s) & (self.time_s <= last_s)
        return replace(self, time_s=self.time_s[near], rate_rps=self.rate_rps[near])

    def requests_until(self, edges_s: Float64Array) -> Float64Array:
        """Return the cumulative number of requests at times [s], in the same shape."""
        if not self.time_s.size:
            return np.zeros(edges_s.shape)
        corners_s = np.column_stack((self.time_s, self.time_s + ROW_S)).ravel()
        ends = np.cumsum(self.rate_rps * ROW_S)
        until = np.column_stack((np.concatenate(([0.0], ends[:-1])), ends)).ravel()
        return np.asarray(np.interp(edges_s, corners_s, until), dtype=np.float64)


def _read_client(
    path: Path, dropped: Counter[str], repaired: Counter[str]
) -> _ClientRates:
    """Read the request rates of one client's chunk; count dropped and repaired rows."""
    text = read_text(path, "the rates of a ServeGen chunk")
    text, _ = text.pad_rows(",", N_LEAST, len(COLUMNS))
    sheet = HeaderTable(text, COLUMNS, is_quoted=False)
    table = sheet.read(("time", "rate"), may_be_cut=True)
    time_s, rate_rps = numbers(table, "time", TIME_S), numbers(table, "rate", RATE_RPS)
    dropped[TRUNCATED] += table.n_cut
    keep = np.ones(time_s.size, dtype=bool)
    causes = (
        ("no time", np.isnan(time_s)),
        ("no rate", np.isnan(rate_rps)),
        ("negative time", time_s < 0),
        ("negative rate", rate_rps < 0),
    )
    drop_rows(keep, causes, dropped)
    repaired[OUT_OF_ORDER] += int(np.count_nonzero(np.diff(time_s[keep]) < 0))
    order = np.flatnonzero(keep)[np.argsort(time_s[keep], kind="stable")]
    repeated = np.diff(time_s[order], prepend=-np.inf) == 0
    dropped["repeated rows"] += int(np.count_nonzero(repeated))
    order = order[~repeated]
    time_s, rate_rps = time_s[order], rate_rps[order]
    for k in np.flatnonzero(np.diff(time_s) < ROW_S)[:1]:
        table.fail(
            int(order[k + 1]),
            (
                f"this row starts {time_s[k + 1] - time_s[k]:g} s after another, "
                f"expected rows {ROW_S} s apart (ServeGen); correct or remove this row"
            ),
        )
    return _ClientRates(time_s, rate_rps, path)


def _lengths(
    clients: dict[str, list[_ClientRates]],
) -> dict[str, tuple[TokenLengths, ...]]:
    """Return token length distributions of each service, for input and output.

    A distribution is empty if no chunk has such lengths.
    """
    result: dict[str, list[TokenLengths]] = {side: [] for side in _SIDES}
    for group in clients.values():
        expected = {side: np.zeros(EDGES.size - 1) for side in _SIDES}
        totals = dict.fromkeys(_SIDES, 0.0)
        requests = np.array([client.rate_rps.sum() * ROW_S for client in group])
        order = np.argsort(-requests, kind="stable")
        enough = (
            np.searchsorted(np.cumsum(requests[order]), COVERED * requests.sum()) + 1
        )
        for index in order[:enough].tolist():
            for side, start_s, end_s, tokens, share in _windows(group[index].path):
                client = group[index].between(start_s, end_s)
                n = float(client.rate_rps.sum()) * ROW_S
                expected[side] += np.bincount(
                    bin_indices(tokens), n * share, EDGES.size - 1
                )
                totals[side] += n * float(tokens @ share)
        for side, counts in expected.items():
            # Rounding the cumulative sum keeps bins of less than half a request.
            n_requests = np.diff(np.rint(np.cumsum(counts)), prepend=0.0).astype(
                np.int64
            )
            mean = totals[side] / counts.sum() if counts.any() else 0.0
            total_tokens = round(mean * int(n_requests.sum()))
            result[side].append(TokenLengths(EDGES, n_requests, total_tokens))
    has_any = {
        side: any(lengths.n_requests.any() for lengths in result[side])
        for side in _SIDES
    }
    return {side: tuple(result[side]) if has_any[side] else () for side in _SIDES}


def _windows(
    chunk: Path,
) -> Iterator[tuple[str, float, float, Int64Array, Float64Array]]:
    """Yield the token lengths in each time window of a chunk.

    An item is input or output, start and end [s], lengths [tokens], and the fraction of
    requests of each length.
    """
    path = chunk.with_name(
        chunk.name.removesuffix(".gz").replace("-trace.csv", "-dataset.json")
    )
    if path.name == chunk.name or not path.is_file():
        return
    content = parse_json(
        read_bytes(path), str(path), _TokenLengths, LogFormatError
    ).root
    for side in _SIDES:
        texts = {
            int(start): fields.get(side, "{}") for start, fields in content.items()
        }
        texts = {start: text for start, text in sorted(texts.items()) if text != "{}"}
        ends_s = [*list(texts)[1:], np.inf]
        for (start_s, text), end_s in zip(
            texts.items(), ends_s[: len(texts)], strict=True
        ):
            if not isinstance(text, str) or not _SHARES.fullmatch(text):
                raise LogFormatError(
                    f"{path}: window '{start_s}': {side} is {shown(text)}, expected "
                    "shares of lengths such as '{120: 0.25, 130: 0.75}'; correct "
                    "it, or remove this file"
                )
            lengths, shares = zip(*_SHARE.findall(text), strict=True)
            share = np.array(shares, dtype=np.float64)
            tokens = np.array(lengths, dtype=np.int64)
            if share.sum() > 0:
                yield side, start_s, np.nextafter(end_s, 0), tokens, share / share.sum()


def _drop_outliers(
    clients: dict[str, list[_ClientRates]], dropped: Counter[str]
) -> dict[str, list[_ClientRates]]:
    """Return the clients without the few rows years from all others; count these."""
    times_s = [client.time_s for group in clients.values() for client in group]
    times_ms = np.sort(np.concatenate(times_s) * MS_PER_S).astype(np.int64)
    span = believed_span(times_ms, np.ones(times_ms.size), STRAY_GAP_MS)
    if span is None:
        return clients
    dropped[STRAY] += int(np.count_nonzero((times_ms < span[0]) | (times_ms > span[1])))
    first_s, last_s = span[0] / MS_PER_S, span[1] / MS_PER_S
    return {
        name: [client.between(first_s, last_s) for client in group]
        for name, group in clients.items()
    }


def _chunks(path: Path, services: Sequence[str] | None) -> dict[str, list[Path]]:
    """Return the chunk files of each requested service by service name."""
    if not path.is_dir():
        if services is not None and len(set(services)) != 1:
            raise InputError(
                f"{path}: a chunk is one service, found {one_of(services)}; give one "
                "name"
            )
        return {services[0] if services else ALL_SERVICES: [path]}
    with convert_os_errors(path, "give a readable folder"):
        folders = [path, *sorted(child for child in path.iterdir() if child.is_dir())]
        result = {
            folder.resolve().name: sorted(folder.glob(CHUNKS)) for folder in folders
        }
    result = {name: files for name, files in result.items() if files}
    names = list(result) if services is None else services
    if missing := [name for name in names or [CHUNKS] if name not in result]:
        raise InputError(
            f"{path}: no chunks of {one_of(missing)} in it or its folders, expected "
            f"files named {CHUNKS} (have: {one_of(result)})"
            f"{did_you_mean(missing[0], result)}"
        )
    return {name: result[name] for name in names}


def _rebin(
    path: Path, services: list[list[_ClientRates]], step_ms: int
) -> tuple[int, Float64Array, tuple[int, int]]:
    """Return first step, requests by service and step, and start and end [ms].

    Requests per step are differences of the cumulative requests at the steps' edges, so
    the total is exact for any step.
    """
    used = [client for clients in services for client in clients if client.time_s.size]
    step_s = step_ms / MS_PER_S
    begin_s = min(client.time_s[0] for client in used)
    first = int(begin_s // step_s)
    end_s = max(client.time_s[-1] for client in used) + ROW_S
    n_steps = int(-(-end_s // step_s)) - first
    check_span(path, n_steps, len(services), step_ms)
    edges_s: Float64Array = (first + np.arange(n_steps + 1, dtype=np.float64)) * step_s
    n_requests = np.zeros((len(services), n_steps))
    for row, clients in zip(n_requests, services, strict=True):
        for client in clients:
            row += np.diff(client.requests_until(edges_s))
    return first, n_requests, (round(begin_s * MS_PER_S), round(end_s * MS_PER_S))
