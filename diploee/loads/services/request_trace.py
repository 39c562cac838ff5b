"""`RequestTrace`: requests of a real service per time step, aligned to a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diploee.base.clock import UTC_ZONE, RunClock, Zone
from diploee.base.errors import Brief, WorkloadError, did_you_mean, one_of
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import (
    HOURS_PER_WEEK,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
    MS_PER_WEEK,
)
from diploee.loads.import_counts import ImportCounts
from diploee.scenario.log_replay import RequestReplay

# Maximum step of a trace's requests in a run [ms]
MAX_STEP_MS = MS_PER_MIN
MAX_STEPS = 2**20
"""Maximum number of steps of a run at its resolution. In a longer run the steps of a
trace are longer than the resolution."""

# Steps of a trace's requests in a run [s]
_STEPS_S = (1, 2, 3, 5, 10, 15, 20, 30, 60)

LACKING_MS = MS_PER_H
"""Maximum time that a trace may lack to whole weeks [ms]. Assumed."""

_MONDAY_MS = 4 * MS_PER_DAY
"""1970-01-05, a Monday [ms since 1970]."""


@dataclass(frozen=True, eq=False)
class TokenLengths:
    """Histogram of the lengths of prompts or outputs in tokens."""

    # Bin edges [tokens]; bin k has lengths ``edges[k] <= length < edges[k + 1]``
    edges: Int64Array
    n_requests: Int64Array  # requests in each bin
    total_tokens: int  # exact sum over all requests [tokens]

    @property
    def mean(self) -> float:
        """Mean length [tokens]; NaN if there is no request."""
        n = int(self.n_requests.sum())
        return self.total_tokens / n if n else float("nan")

    def quantile(self, q: npt.ArrayLike) -> Float64Array:
        """Return quantiles of the length [tokens], at levels `q` of 0 to 1.

        Lengths are spread evenly over the whole numbers of a bin, so quantiles are
        exact if a bin has only one length. The result is NaN if there is no request.
        """
        levels = np.asarray(q, dtype=np.float64)
        n = int(self.n_requests.sum())
        if not n:
            return np.full(levels.shape, np.nan)
        used_bins = np.flatnonzero(self.n_requests)
        cumulative = np.cumsum(self.n_requests[used_bins])
        # Each used bin is a straight line from its first to its last length.
        fraction = (
            np.column_stack(
                (cumulative - self.n_requests[used_bins], cumulative)
            ).ravel()
            / n
        )
        length = np.column_stack(
            (self.edges[used_bins], self.edges[used_bins + 1] - 1)
        ).ravel()
        return np.asarray(
            np.interp(levels, fraction, length.astype(np.float64)), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class RequestTrace(Brief):
    """Number of requests per step and service, and their token lengths."""

    source: str  # file or folder of the trace
    trace_format: str  # name of the format, such as ``"azure-llm"``
    # Names of the services or models; ``("all",)`` if the trace has no names
    services: tuple[str, ...]
    # Start of the first step [ms], since 1970 UTC or, if `is_relative`, since the
    # trace's own origin
    origin_ms: int
    is_relative: bool  # True if the date of the trace's origin is unknown
    step_ms: int  # length of a step [ms]
    # Requests in each step, shape (n_services, n_steps); whole numbers unless the
    # format has rates
    n_requests: Float64Array
    # Lengths of prompts and outputs of each service; empty if the format has none
    input_tokens: tuple[TokenLengths, ...]
    output_tokens: tuple[TokenLengths, ...]
    counts: ImportCounts  # rows read, dropped, repaired and noted, by cause
    # Start and end of the trace [ms], on the clock of `origin_ms`; None if they are
    # the outer edges of its steps
    own_span_ms: tuple[int, int] | None = None
    zone: Zone = UTC_ZONE  # time zone of the trace; UTC if not specified
    # Arrival [us, on the clock of `origin_ms`], prompt and output [tokens] of each
    # request, shape (3, n); None if they were not stored or the format has no lengths
    requests: Int64Array | None = None

    @property
    def rate_rps(self) -> Float64Array:
        """Mean rate of each step [requests/s], shape (n_services, n_steps)."""
        return self.n_requests / (self.step_ms / MS_PER_S)

    @property
    def span_ms(self) -> int:
        """Length of the trace, from its start to its end [ms]."""
        edges_ms = self.edges_ms
        return int(edges_ms[-1] - edges_ms[0])

    @property
    def edges_ms(self) -> Int64Array:
        """Edges of the steps [ms], on the clock of `origin_ms`.

        The outer edges are the start and end of the trace.
        """
        edges_ms = (
            self.origin_ms + np.arange(self.n_requests.shape[1] + 1) * self.step_ms
        )
        if self.own_span_ms is not None:
            edges_ms[[0, -1]] = self.own_span_ms
        return edges_ms

    def requests_of(self, service: str | None = None) -> Float64Array:
        """Return the requests of a service, or of all, per step, shape (n_steps,)."""
        if service is None:
            return np.asarray(self.n_requests.sum(axis=0), dtype=np.float64)
        if service not in self.services:
            raise WorkloadError(
                f"{self.source}: no service '{service}' (have: {one_of(self.services)})"
                f"{did_you_mean(service, self.services)}"
            )
        return self.n_requests[self.services.index(service)]


def replayed_rates(
    trace: RequestTrace, replay: RequestReplay, clock: RunClock, step_ms: int
) -> Float64Array:
    """Return the request rates of a replayed trace in each step of a run [1/s].

    Requests of a step of the trace are spread evenly over that step. Rates are
    differences of the cumulative requests at the edges of the run's steps, so that the
    number of requests is exact for any two step lengths. A `time_factor` of 2 replays
    the trace at half the rate for twice as long. The key `tile` selects:

    - ``"repeat"``: the trace starts at the start of the run, and is repeated.
    - ``"week"``: the whole weeks of the trace are repeated, and every request keeps its
      weekday and local time of day. In an hour that daylight saving skips there are no
      requests, and those of an hour that occurs twice are replayed twice. The clock of
      the trace is that of `RequestTrace.zone` at its start. For a relative trace,
      `zero_hour_of_week` is the hour of the week of its origin in the run's local time.
      Requests after the last whole week are left out; `LACKING_MS` may be missing.
    - ``"none"``: the trace is replayed once, from the start of the run; after its end
      there are no requests.
    """
    tile = replay.tile
    if tile == "none" and clock.warm_up_ms:
        raise WorkloadError(
            f"warm_up is {clock.warm_up_ms / MS_PER_H:g} h, but {trace.source}, "
            "played once, has nothing before the start of the run; leave warm_up "
            "out, or set tile: repeat or week"
        )
    requests = trace.requests_of(replay.service) * replay.rate_factor
    cumulative_requests = np.concatenate(([0.0], np.cumsum(requests)))
    trace_edges_ms = (trace.edges_ms - trace.edges_ms[0]) * replay.time_factor
    run_edges_ms = step_edges_ms(clock.begin_ms, clock.horizon_ms, step_ms)
    period_ms, at_ms = (
        trace_edges_ms[-1],
        np.stack([run_edges_ms[:-1], run_edges_ms[1:]]).astype(np.float64),
    )
    if tile == "week":
        n_weeks = int((period_ms + LACKING_MS) / MS_PER_WEEK * (1 + 1e-12))
        if not n_weeks:
            raise WorkloadError(
                f"{trace.source}: spans {period_ms / MS_PER_DAY:.2f} days, tiling by "
                "weeks needs seven; tile it with 'repeat' or 'none'"
            )
        period_ms = float(n_weeks * MS_PER_WEEK)
        # The local time of both edges of a step uses the UTC offset of its start: a
        # change of the offset falls between two steps.
        into_week_ms = (
            clock.wall.local_ms(run_edges_ms[:-1]) - run_edges_ms[:-1] - _MONDAY_MS
        )
        at_ms += into_week_ms - _trace_into_week_ms(trace, replay.zero_hour_of_week)
    if tile == "none":
        cumulative = np.interp(at_ms, trace_edges_ms, cumulative_requests)
    else:
        n_periods, in_period_ms = np.divmod(at_ms, period_ms)
        per_period = float(np.interp(period_ms, trace_edges_ms, cumulative_requests))
        cumulative = n_periods * per_period + np.interp(
            in_period_ms, trace_edges_ms, cumulative_requests
        )
    # Rounding where repetitions meet must not give a rate just below zero.
    step_requests: Float64Array = np.maximum(cumulative[1] - cumulative[0], 0.0)
    return step_requests / (np.diff(run_edges_ms) / MS_PER_S)


def step_edges_ms(begin_ms: int, horizon_ms: int, step_ms: int) -> Int64Array:
    """Return the edges of steps that are aligned to the start of a run [ms].

    The first and last step are cut at `begin_ms` and `horizon_ms`.
    """
    first_ms = -(-begin_ms // step_ms) * step_ms
    edges_ms = np.append(
        np.arange(first_ms, horizon_ms, step_ms, dtype=np.int64), horizon_ms
    )
    return edges_ms if first_ms == begin_ms else np.insert(edges_ms, 0, begin_ms)


def _trace_into_week_ms(trace: RequestTrace, zero_hour_of_week: float) -> float:
    """Return the local time of a trace's start since Monday 00:00 [ms]."""
    begin_ms = trace.edges_ms[:1]
    if trace.is_relative:
        return (
            float(begin_ms[0] + zero_hour_of_week % HOURS_PER_WEEK * MS_PER_H)
            % MS_PER_WEEK
        )
    return float(trace.zone.local_ms(begin_ms)[0] - _MONDAY_MS)


def trace_step_ms(clock: RunClock) -> int:
    """Return the step of a trace's requests in a run [ms].

    The step is the run's resolution or the next longer divisor of a minute, 1 s to 60
    s. In a run of more than `MAX_STEPS` steps it is longer.
    """
    min_step_ms = max(clock.step_ms, clock.simulated_ms / MAX_STEPS)
    steps_ms = (step_s * MS_PER_S for step_s in _STEPS_S)
    return next((step for step in steps_ms if step >= min_step_ms), MAX_STEP_MS)


def trace_rates_rps(
    replay: RequestReplay, trace: RequestTrace, clock: RunClock, name: str
) -> Float64Array:
    """Return a replayed stream's request rate in each `trace_step_ms` [1/s].

    The first step starts with the warm-up.
    """
    step_ms = trace_step_ms(clock)
    key = f"request_streams.{name}.replay"
    try:
        rates_rps = replayed_rates(trace, replay, clock, step_ms)
    except WorkloadError as error:
        raise WorkloadError(f"{key}: {error}") from error
    in_run = step_edges_ms(clock.begin_ms, clock.horizon_ms, step_ms)[1:] > 0
    if not rates_rps[in_run].any():
        raise WorkloadError(f"{key}: no request of {replay.trace} falls into the run")
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
            f"request_streams.{name}: {replay.trace} has no output lengths; give the "
            "services a number of output_tokens"
        )
    return sum(length.total_tokens for length in lengths) / n_requests
