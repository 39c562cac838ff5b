"""`RequestTrace`: binned requests of a real service, aligned to a run."""

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

MAX_STEP_MS = MS_PER_MIN
MAX_STEPS = 2**20
"""Steps of a run from which those of its trace are longer than its resolution."""

_STEPS_S = (1, 2, 3, 5, 10, 15, 20, 30, 60)

LACKING_MS = MS_PER_H
"""By so much a trace may be shorter than whole weeks.  ASSUMPTION [J]."""

_MONDAY_MS = 4 * MS_PER_DAY
"""1970-01-05, a Monday."""


@dataclass(frozen=True, eq=False)
class TokenLengths:
    """How long prompts or answers are: a histogram over bins of tokens."""

    # Bin edges [tokens]; a bin holds ``edges[k] <= length < edges[k + 1]``
    edges: Int64Array
    n_requests: Int64Array  # requests in each bin
    total_tokens: int  # exact sum over all requests [tokens]

    @property
    def mean(self) -> float:
        """Mean length [tokens]; NaN where there is no request."""
        n = int(self.n_requests.sum())
        return self.total_tokens / n if n else float("nan")

    def quantile(self, q: npt.ArrayLike) -> Float64Array:
        """Return quantiles of the length [tokens], linear over a bin's whole numbers.

        Exact where a bin holds one length; NaN where there is no request.
        """
        levels = np.asarray(q, dtype=np.float64)
        n = int(self.n_requests.sum())
        if not n:
            return np.full(levels.shape, np.nan)
        used = np.flatnonzero(self.n_requests)
        upto = np.cumsum(self.n_requests[used])
        # Each bin used is a straight piece from its first to its last length.
        share = np.column_stack((upto - self.n_requests[used], upto)).ravel() / n
        length = np.column_stack((self.edges[used], self.edges[used + 1] - 1)).ravel()
        return np.asarray(
            np.interp(levels, share, length.astype(np.float64)), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class RequestTrace(Brief):
    """Requests per step and service, and their token lengths."""

    source: str  # file or folder that it was read from
    trace_format: str  # name of the format, such as ``"azure-llm"``
    # Names of the services or models; ``("all",)`` where the trace does not tell
    services: tuple[str, ...]
    # Start of the first step [ms], since 1970 UTC or, where `is_relative`, since the
    # trace's own origin
    origin_ms: int
    is_relative: bool  # times count from an origin whose date the trace does not tell
    step_ms: int  # length of a step [ms]
    # Requests in each step; whole numbers, except where the format gives rates
    n_requests: Float64Array
    # Lengths of prompts and answers of each service; empty where the format has none
    input_tokens: tuple[TokenLengths, ...]
    output_tokens: tuple[TokenLengths, ...]
    counts: ImportCounts  # rows read, dropped, repaired and noted, by cause
    # When the trace begins and ends [ms], counted as `origin_ms`, within its outer
    # steps or shortly behind them; None where it fills its steps
    own_span_ms: tuple[int, int] | None = None
    zone: Zone = UTC_ZONE  # zone of the trace's local time; UTC where not given
    # Arrival [us, counted as `origin_ms`], prompt and answer [tokens] of each request,
    # shape (3, n); None where they were not kept or the format has no lengths
    requests: Int64Array | None = None

    @property
    def rate_rps(self) -> Float64Array:
        """Mean rate of each step [requests/s], shape (n_services, n_steps)."""
        return self.n_requests / (self.step_ms / MS_PER_S)

    @property
    def span_ms(self) -> int:
        """Length of the trace [ms]: its own span, where that is not known all steps."""
        edges_ms = self.edges_ms
        return int(edges_ms[-1] - edges_ms[0])

    @property
    def edges_ms(self) -> Int64Array:
        """Edges of the steps [ms], counted as `origin_ms`.

        The outer ones are those of the span.
        """
        edges_ms = (
            self.origin_ms + np.arange(self.n_requests.shape[1] + 1) * self.step_ms
        )
        if self.own_span_ms is not None:
            edges_ms[[0, -1]] = self.own_span_ms
        return edges_ms

    def requests_of(self, service: str | None = None) -> Float64Array:
        """Return the requests in each step of a service, or of all.

        Shape (n_steps,).
        """
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
    """Lay a trace, or a service of it, over a run.

    The request rate in each of its steps. The cumulative requests are differenced at
    the edges of the run's steps, so that no request is lost or made up whatever the two
    steps are. Within a step of the trace requests are spread evenly. A `time_factor` of
    2 plays the trace at half the rate for twice as long. By `tile`:

    - ``"repeat"``: the trace's begin at the start of the run, then the whole trace
      again and again.
    - ``"week"``: its whole weeks, repeated, and placed so that every request keeps its
      weekday and time of day by the wall clock of the run: requests of an hour that the
      clock leaves out are left out, those of one that comes twice come twice. The
      trace's own clock is that of `RequestTrace.zone` at its begin; where it is
      relative, `zero_hour_of_week` is the hour of the week of its origin in the run's
      local time. The rest is left out; a week may lack an hour.
    - ``"none"``: once, from the start of the run; no requests after its end.
    """
    tile = replay.tile
    if tile == "none" and clock.warm_up_ms:
        raise WorkloadError(
            f"warm_up is {clock.warm_up_ms / MS_PER_H:g} h, but {trace.source}, "
            "played once, has nothing before the start of the run; leave warm_up "
            "out, or set tile: repeat or week"
        )
    requests = trace.requests_of(replay.service) * replay.rate_factor
    until = np.concatenate(([0.0], np.cumsum(requests)))
    edge_ms = (trace.edges_ms - trace.edges_ms[0]) * replay.time_factor
    ends_ms = step_edges_ms(clock.begin_ms, clock.horizon_ms, step_ms)
    period_ms, at_ms = (
        edge_ms[-1],
        np.stack([ends_ms[:-1], ends_ms[1:]]).astype(np.float64),
    )
    if tile == "week":
        n_weeks = int((period_ms + LACKING_MS) / MS_PER_WEEK * (1 + 1e-12))
        if not n_weeks:
            raise WorkloadError(
                f"{trace.source}: spans {period_ms / MS_PER_DAY:.2f} days, tiling by "
                "weeks needs seven; tile it with 'repeat' or 'none'"
            )
        period_ms = float(n_weeks * MS_PER_WEEK)
        # A step has the offset of its start: what the clock leaves out falls between
        # two steps.
        into_week_ms = clock.wall.local_ms(ends_ms[:-1]) - ends_ms[:-1] - _MONDAY_MS
        at_ms += into_week_ms - _trace_into_week_ms(trace, replay.zero_hour_of_week)
    if tile == "none":
        cumulative = np.interp(at_ms, edge_ms, until)
    else:
        round_, into_ms = np.divmod(at_ms, period_ms)
        of_period = float(np.interp(period_ms, edge_ms, until))
        cumulative = round_ * of_period + np.interp(into_ms, edge_ms, until)
    # Rounding where repetitions meet must not give a rate just below zero.
    in_step: Float64Array = np.maximum(cumulative[1] - cumulative[0], 0.0)
    return in_step / (np.diff(ends_ms) / MS_PER_S)


def step_edges_ms(begin_ms: int, horizon_ms: int, step_ms: int) -> Int64Array:
    """Return the edges of steps counted from the start of a run.

    The outer ones may be cut.
    """
    first_ms = -(-begin_ms // step_ms) * step_ms
    edges_ms = np.append(
        np.arange(first_ms, horizon_ms, step_ms, dtype=np.int64), horizon_ms
    )
    return edges_ms if first_ms == begin_ms else np.insert(edges_ms, 0, begin_ms)


def _trace_into_week_ms(trace: RequestTrace, zero_hour_of_week: float) -> float:
    """Return the local time of a trace's begin since a Monday [ms]."""
    begin_ms = trace.edges_ms[:1]
    if trace.is_relative:
        return (
            float(begin_ms[0] + zero_hour_of_week % HOURS_PER_WEEK * MS_PER_H)
            % MS_PER_WEEK
        )
    return float(trace.zone.local_ms(begin_ms)[0] - _MONDAY_MS)


def trace_step_ms(clock: RunClock) -> int:
    """Return the step of a trace's requests in a run [ms].

    It is the run's resolution or the next longer divisor of the minute: a second at
    least, a minute at most, and longer where a run would have more than `MAX_STEPS`.
    """
    least_ms = max(clock.step_ms, clock.simulated_ms / MAX_STEPS)
    steps_ms = (step_s * MS_PER_S for step_s in _STEPS_S)
    return next((step for step in steps_ms if step >= least_ms), MAX_STEP_MS)


def trace_rates_rps(
    replay: RequestReplay, trace: RequestTrace, clock: RunClock, name: str
) -> Float64Array:
    """Return a request stream's rate in each `trace_step_ms` from the run's begin on."""  # noqa: E501
    step_ms = trace_step_ms(clock)
    where = f"request_streams.{name}.replay"
    try:
        rates_rps = replayed_rates(trace, replay, clock, step_ms)
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
            f"request_streams.{name}: {replay.trace} has no output lengths; give the "
            "services a number of output_tokens"
        )
    return sum(length.total_tokens for length in lengths) / n_requests
