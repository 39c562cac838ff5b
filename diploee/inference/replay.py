"""Request traces of a scenario, read once: their rates and their token lengths."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from diploee.errors import WorkloadError
from diploee.files import Stamp, input_stamp
from diploee.scenario import RequestReplay, Scenario
from diploee.tables import Float64Array
from diploee.units import MS_PER_MIN
from diploee.workload.request_trace import RequestTrace, replayed_rates

TRACE_STEP_S = MS_PER_MIN / 1000
"""Step in which the requests of a trace are counted [s]."""


def trace_rates_rps(scenario: Scenario, name: str, step_ms: int) -> Float64Array:
    """Return a request stream's rate in each step of the run, as its trace has it [1/s].

    Raises
    ------
    LogFormatError
        If the trace can't be read.
    WorkloadError
        If it has no such service, is shorter than a week but tiled by weeks, or has no requests.
    """
    replay = scenario.request_streams[name].replay
    assert replay is not None
    place = f"request_streams.{name}.replay"
    try:
        rates_rps = replayed_rates(
            read_trace(replay, scenario.folder),
            start=scenario.start_with_zone,
            step_ms=step_ms,
            horizon_ms=scenario.horizon_ms,
            rate_factor=replay.rate_factor,
            time_factor=replay.time_factor,
            tile=replay.tile,
            service=replay.service,
            zero_hour_of_week=replay.zero_hour_of_week,
        )
    except WorkloadError as error:
        raise WorkloadError(f"{place}: {error}") from error
    if not rates_rps.any():
        raise WorkloadError(f"{place}: no request of {replay.trace} falls into the run")
    return rates_rps


def mean_output_tokens(scenario: Scenario, name: str) -> float:
    """Return the mean output length of a stream's trace [tokens].

    Raises
    ------
    LogFormatError
        If the trace can't be read.
    WorkloadError
        If it has no token counts.
    """
    replay = scenario.request_streams[name].replay
    assert replay is not None
    trace = read_trace(replay, scenario.folder)
    lengths = trace.output_tokens
    if replay.service is not None and lengths:
        trace.requests_of(replay.service)
        lengths = (lengths[trace.services.index(replay.service)],)
    n_requests = sum(int(length.n_requests.sum()) for length in lengths)
    if not n_requests:
        raise WorkloadError(
            f"request_streams.{name}: {replay.trace} has no output lengths; give the services a "
            "number of output_tokens"
        )
    return sum(length.total_tokens for length in lengths) / n_requests


def trace_counts(scenario: Scenario, name: str) -> dict[str, int]:
    """Return what the import of a stream's trace left out or changed, by cause."""
    replay = scenario.request_streams[name].replay
    assert replay is not None
    counts = read_trace(replay, scenario.folder).counts
    return {
        f"{what} on import: {cause}": n
        for what, causes in (("dropped", counts.dropped), ("repaired", counts.repaired))
        for cause, n in causes.items()
        if n
    }


def read_trace(replay: RequestReplay, folder: Path) -> RequestTrace:
    """Read the trace of a replay; the last ones read are kept, as a run opens its trace twice.

    Raises
    ------
    LogFormatError
        If it can't be read.
    """
    path = folder / replay.trace
    stamp = input_stamp(path, "replay.trace")
    columns = tuple((replay.columns or {}).items())
    return _read(path, stamp, replay.format, columns)


@lru_cache(maxsize=4)
def _read(
    path: Path,
    stamp: Stamp,  # noqa: ARG001  # a changed file is read again
    trace_format: str | None,
    columns: tuple[tuple[str, str], ...],
) -> RequestTrace:
    from diploee.workload.importers.requests import read_request_trace

    return read_request_trace(
        path, trace_format, step_s=TRACE_STEP_S, columns=dict(columns) or None
    )
