"""What a replayed request trace gives a stream: its rates, its lengths, what was left out."""

from __future__ import annotations

from diploee.clock import RunClock
from diploee.errors import WorkloadError
from diploee.importers.request_trace import RequestTrace
from diploee.scenario import RequestReplay
from diploee.tables import Float64Array
from diploee.units import MS_PER_MIN
from diploee.workload.request_trace import replayed_rates, step_edges_ms

TRACE_STEP_S = MS_PER_MIN / 1000
"""Step in which the requests of a trace are counted [s]."""


def trace_rates_rps(
    replay: RequestReplay, trace: RequestTrace, clock: RunClock, step_ms: int, name: str
) -> Float64Array:
    """Return a request stream's rate in each step from the run's begin on, as its trace has it.

    Parameters
    ----------
    replay : RequestReplay
        How it is replayed.
    trace : RequestTrace
        The trace.
    clock : RunClock
        Span of the run.
    step_ms : int
        Length of a step [ms].
    name : str
        The stream, for errors.

    Raises
    ------
    WorkloadError
        If it has no such service, is shorter than a week but tiled by weeks, or has no requests.
    """
    where = f"request_streams.{name}.replay"
    try:
        rates_rps = replayed_rates(
            trace,
            start=clock.start_with_zone,
            step_ms=step_ms,
            horizon_ms=clock.horizon_ms,
            begin_ms=clock.begin_ms,
            rate_factor=replay.rate_factor,
            time_factor=replay.time_factor,
            tile=replay.tile,
            service=replay.service,
            zero_hour_of_week=replay.zero_hour_of_week,
        )
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from error
    in_run = step_edges_ms(clock.begin_ms, clock.horizon_ms, step_ms)[1:] > 0
    if not rates_rps[in_run].any():
        raise WorkloadError(f"{where}: no request of {replay.trace} falls into the run")
    return rates_rps


def mean_output_tokens(replay: RequestReplay, trace: RequestTrace, name: str) -> float:
    """Return the mean output length of a stream's trace [tokens].

    Raises
    ------
    WorkloadError
        If it has no token counts.
    """
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


def trace_counts(trace: RequestTrace) -> dict[str, int]:
    """Return what the import of a trace left out or changed, by cause."""
    return {
        f"{what} on import: {cause}": n
        for what, causes in (("dropped", trace.counts.dropped), ("repaired", trace.counts.repaired))
        for cause, n in causes.items()
        if n
    }
