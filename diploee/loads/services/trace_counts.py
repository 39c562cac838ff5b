"""What a replayed request trace gives a stream: its rates, its lengths, what was left out."""

from __future__ import annotations

from diploee.clock import RunClock
from diploee.errors import WorkloadError
from diploee.loads.services.replayed_rates import replayed_rates, step_edges_ms
from diploee.loads.services.request_trace import RequestTrace
from diploee.scenario import RequestReplay
from diploee.tables import Float64Array
from diploee.units import MS_PER_MIN, MS_PER_S

LONGEST_STEP_MS = MS_PER_MIN
MOST_STEPS = 2**20
"""Steps of a run from which those of its trace are longer than its resolution."""

_STEPS_S = (1, 2, 3, 5, 10, 15, 20, 30, 60)


def trace_step_ms(clock: RunClock) -> int:
    """Return the step in which requests of a trace are counted and laid over a run [ms].

    It is the run's resolution or the next longer divisor of the minute: a second at least, a
    minute at most, and longer where a run would have more than `MOST_STEPS`.
    """
    least_ms = max(clock.step_ms, clock.simulated_ms / MOST_STEPS)
    steps_ms = (step_s * MS_PER_S for step_s in _STEPS_S)
    return next((step for step in steps_ms if step >= least_ms), LONGEST_STEP_MS)


def trace_rates_rps(
    replay: RequestReplay, trace: RequestTrace, clock: RunClock, name: str
) -> Float64Array:
    """Return a request stream's rate in each `trace_step_ms` from the run's begin on."""
    step_ms = trace_step_ms(clock)
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
    """Return the mean output length of a stream's trace [tokens]."""
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
        for what in ("dropped", "repaired", "noted")
        for cause, n in getattr(trace.counts, what).items()
        if n
    }
