"""ServeGen client traces: rates instead of requests, a row per 600 s and a file per client.

Each ``chunk-N-trace.csv`` has no header; its columns are the start [s], the rate [1/s], the
coefficient of variation of the gaps, and the family and two parameters of their distribution. A
folder of chunks is one service, named after the folder, whose rate is the sum over its clients; in
a folder of such folders each is a service. Lengths (``chunk-N-dataset.json``) are not read.

References
----------
.. [1] https://github.com/alibaba/ServeGen, NSDI '26
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diploee.errors import InputError, LogFormatError, did_you_mean, one_of
from diploee.tables import Float64Array
from diploee.units import MS_PER_S
from diploee.workload.import_counts import ImportCounts
from diploee.workload.importers.requests.blocks import fail_to_read, fields_of
from diploee.workload.importers.requests.rate_rows import ROW_S, ClientRates, read_client
from diploee.workload.importers.requests.rows import number_of
from diploee.workload.importers.requests.services import ALL_SERVICES, MAX_SERVICES
from diploee.workload.importers.requests.step_counts import MAX_CELLS
from diploee.workload.request_trace import RequestTrace

NAME = "servegen"
CHUNKS = "*chunk-*-trace.csv"


def is_first_line(text: str) -> bool:
    """Return whether a file whose first line is this may be such a trace."""
    fields = fields_of(text) or []
    return len(fields) == 6 and all(number_of(fields[i]) is not None for i in (0, 1))


def read_servegen(path: Path, step_ms: int, services: Sequence[str] | None = None) -> RequestTrace:
    """Read one chunk, a folder of chunks, or a folder of such folders.

    Parameters
    ----------
    path : pathlib.Path
        A file or a folder.
    step_ms : int
        Length of a step [ms].
    services : sequence of str, optional
        Folders to keep; for a single chunk, the name of its service.

    Returns
    -------
    RequestTrace
        Requests expected in each step, no whole numbers; without token lengths. Rows and counts
        are those of the chunks, each row 600 s of one client.

    Raises
    ------
    LogFormatError
        If a file can't be read, a row is not as stated above, or the trace spans too many steps.
    InputError
        If a folder holds no chunks, or a wanted service is not there.
    """
    chunks = _chunks(path, services)
    dropped: Counter[str] = Counter()
    repaired: Counter[str] = Counter()
    n_rows = n_kept = 0
    clients: dict[str, list[ClientRates]] = {}
    for name, files in chunks.items():
        clients[name] = [read_client(file, dropped, repaired) for file in files]
        n_rows += sum(client.n_rows for client in clients[name])
        n_kept += sum(client.time_s.size for client in clients[name])
    counts = ImportCounts(
        n_rows,
        n_kept,
        {cause: n for cause, n in dropped.items() if n},
        {cause: n for cause, n in repaired.items() if n},
    )
    if not n_kept:
        raise LogFormatError(
            f"{path}:1: no row is left ({'; '.join(counts.lines())}); give a complete trace"
        )
    first, n_requests = _rebinned(path, list(clients.values()), step_ms)
    return RequestTrace(
        source=str(path),
        trace_format=NAME,
        services=tuple(clients),
        origin_ms=first * step_ms,
        is_relative=True,
        step_ms=step_ms,
        n_requests=n_requests,
        input_tokens=(),
        output_tokens=(),
        counts=counts,
    )


def _chunks(path: Path, services: Sequence[str] | None) -> dict[str, list[Path]]:
    """Return the files of each service."""
    if not path.is_dir():
        if services is not None and len(set(services)) != 1:
            raise InputError(
                f"{path}: a chunk is one service, found {one_of(services)}; give one name"
            )
        return {services[0] if services else ALL_SERVICES: [path]}
    try:
        folders = [path, *sorted(folder for folder in path.iterdir() if folder.is_dir())]
        found = {folder.resolve().name: sorted(folder.glob(CHUNKS)) for folder in folders}
    except OSError as error:
        fail_to_read(path, error)
    found = {name: files for name, files in found.items() if files}
    if not found:
        raise InputError(
            f"{path}: no files named {CHUNKS} in it or its folders; give a ServeGen folder, or the "
            "file of a trace of another format"
        )
    for name in services or ():
        if name not in found:
            raise InputError(
                f"{path}: no chunks of service '{name}' (have: {one_of(found)})"
                f"{did_you_mean(name, found)}"
            )
    wanted = {name: found[name] for name in services or found}
    if len(wanted) > MAX_SERVICES:
        raise InputError(f"{path}: {len(wanted):,} services, allowed are {MAX_SERVICES:,}")
    return wanted


def _rebinned(
    path: Path, services: list[list[ClientRates]], step_ms: int
) -> tuple[int, Float64Array]:
    """Return the first step and the requests in each, shape (n_services, n_steps).

    The cumulative requests of each client are differenced at the edges of the steps, so that
    their sum is exact for any step.
    """
    used = [client for clients in services for client in clients if client.time_s.size]
    step_s = step_ms / MS_PER_S
    first = int(min(client.time_s[0] for client in used) // step_s)
    end_s = max(client.time_s[-1] for client in used) + ROW_S
    n_steps = int(-(-end_s // step_s)) - first
    if n_steps * len(services) > MAX_CELLS:
        raise LogFormatError(
            f"{path}:1: the trace spans {n_steps:,} steps of {step_s:g} s for {len(services)} "
            f"service(s), allowed are {MAX_CELLS:,} in all; correct its times, or take longer steps"
        )
    edges_s: Float64Array = (first + np.arange(n_steps + 1, dtype=np.float64)) * step_s
    n_requests = np.zeros((len(services), n_steps))
    for row, clients in zip(n_requests, services, strict=True):
        for client in clients:
            row += np.diff(client.requests_until(edges_s))
    return first, n_requests
