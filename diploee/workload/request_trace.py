"""`RequestTrace`: requests of a real service, counted per time step, and their replay in a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import numpy.typing as npt

from diploee.errors import WorkloadError, did_you_mean, one_of
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_WEEK, MS_PER_DAY, MS_PER_H, MS_PER_S, MS_PER_WEEK
from diploee.workload.import_counts import ImportCounts

Tile = Literal["repeat", "week", "none"]

_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class TokenLengths:
    """How long prompts or answers are: a histogram over bins of tokens.

    Parameters
    ----------
    edges : numpy.ndarray, int64, shape (n_bins + 1,)
        Bin edges [tokens]; a bin holds ``edges[k] <= length < edges[k + 1]``.
    n_requests : numpy.ndarray, int64, shape (n_bins,)
        Requests in each bin.
    total_tokens : int
        Exact sum over all requests [tokens].
    """

    edges: Int64Array
    n_requests: Int64Array
    total_tokens: int

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
        return np.asarray(np.interp(levels, share, length.astype(np.float64)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RequestTrace:
    """Requests per step and service, and their token lengths.

    Parameters
    ----------
    source : str
        File or folder that it was read from.
    trace_format : str
        Name of the format, such as ``"azure-llm"``.
    services : tuple of str
        Names of the services or models; ``("all",)`` where the trace does not tell.
    origin_ms : int
        Start of the first step [ms], since 1970 UTC or, where `is_relative`, since the trace's own
        origin.
    is_relative : bool
        Times count from an origin whose date the trace does not tell.
    step_ms : int
        Length of a step [ms].
    n_requests : numpy.ndarray, float64, shape (n_services, n_steps)
        Requests in each step; whole numbers, except where the format gives rates.
    input_tokens, output_tokens : tuple of TokenLengths
        Lengths of prompts and answers of each service; empty where the format has none.
    counts : ImportCounts
        Rows read, dropped and repaired, by cause.
    """

    source: str
    trace_format: str
    services: tuple[str, ...]
    origin_ms: int
    is_relative: bool
    step_ms: int
    n_requests: Float64Array
    input_tokens: tuple[TokenLengths, ...]
    output_tokens: tuple[TokenLengths, ...]
    counts: ImportCounts

    @property
    def rate_rps(self) -> Float64Array:
        """Mean rate of each step [requests/s], shape (n_services, n_steps)."""
        return self.n_requests / (self.step_ms / MS_PER_S)

    @property
    def span_ms(self) -> int:
        """Length of all steps [ms]."""
        return int(self.n_requests.shape[1]) * self.step_ms

    def requests_of(self, service: str | None = None) -> Float64Array:
        """Return the requests in each step of a service, or of all; shape (n_steps,).

        Raises
        ------
        WorkloadError
            If there is no such service.
        """
        if service is None:
            return np.asarray(self.n_requests.sum(axis=0), dtype=np.float64)
        if service not in self.services:
            raise WorkloadError(
                f"{self.source}: no service '{service}' (have: {one_of(self.services)})"
                f"{did_you_mean(service, self.services)}"
            )
        rows: Float64Array = self.n_requests[self.services.index(service)]
        return rows


def replayed_rates(
    trace: RequestTrace,
    *,
    start: datetime,
    step_ms: int,
    horizon_ms: int,
    rate_factor: float = 1.0,
    time_factor: float = 1.0,
    tile: Tile = "repeat",
    service: str | None = None,
    zero_hour_of_week: float = 0.0,
) -> Float64Array:
    """Lay a trace over a run: the request rate in each of the run's steps.

    The cumulative requests are differenced at the edges of the run's steps, so that no request is
    lost or made up whatever the two steps are. Within a step of the trace requests are spread
    evenly.

    Parameters
    ----------
    trace : RequestTrace
        What was logged.
    start : datetime.datetime
        Start of the run, with its zone (as `Scenario.start_with_zone`); UTC where it has none. It
        matters for ``tile="week"`` alone.
    step_ms, horizon_ms : int
        Step and length of the run [ms]; the last step may be shorter.
    rate_factor : float
        Factor on the number of requests.
    time_factor : float
        Length of the trace as replayed over its length as logged: 2 plays it at half the rate for
        twice as long.
    tile : {"repeat", "week", "none"}
        ``"repeat"``: the trace's first step at the start of the run, then the whole trace again
        and again. ``"week"``: the whole weeks from its first step on, repeated, and placed so that
        every request keeps its weekday and time of day; the rest is left out. ``"none"``: once,
        from the start of the run; no requests after its end.
    service : str, optional
        One service of the trace; the sum of all where absent.
    zero_hour_of_week : float
        For ``"week"``, where the trace is relative: hour of the week of its origin in the run's
        local time, 0 for Monday 00:00 (the assumption).

    Returns
    -------
    numpy.ndarray, float64, shape (n_steps,)
        Mean rate in each step [requests/s].

    Raises
    ------
    WorkloadError
        If a factor is not positive, the service is unknown, or a trace shorter than a week is to
        be tiled by weeks.
    """
    for name, factor in (("rate_factor", rate_factor), ("time_factor", time_factor)):
        if not 0 < factor < np.inf:
            raise WorkloadError(f"{name} is {factor}, expected a positive number")
    requests = trace.requests_of(service) * rate_factor
    until = np.concatenate(([0.0], np.cumsum(requests)))
    edge_ms = np.arange(until.size) * (trace.step_ms * time_factor)
    period_ms, offset_ms = edge_ms[-1], 0.0
    if tile == "week":
        n_weeks = int(period_ms / MS_PER_WEEK * (1 + 1e-12))
        if not n_weeks:
            raise WorkloadError(
                f"{trace.source}: spans {period_ms / MS_PER_DAY:.2f} days, tiling by weeks needs "
                "seven; tile it with 'repeat' or 'none'"
            )
        period_ms = float(n_weeks * MS_PER_WEEK)
        offset_ms = _into_week_ms(start, trace.is_relative) - _trace_into_week_ms(
            trace, zero_hour_of_week
        )
    ends_ms = np.append(np.arange(0, horizon_ms, step_ms, dtype=np.int64), horizon_ms)
    at_ms = ends_ms + offset_ms
    if tile == "none":
        cumulative = np.interp(at_ms, edge_ms, until)
    else:
        round_, into_ms = np.divmod(at_ms, period_ms)
        of_period = float(np.interp(period_ms, edge_ms, until))
        cumulative = round_ * of_period + np.interp(into_ms, edge_ms, until)
    # Rounding where repetitions meet must not give a rate just below zero.
    in_step: Float64Array = np.maximum(np.diff(cumulative), 0.0)
    return in_step / (np.diff(ends_ms) / MS_PER_S)


def _into_week_ms(start: datetime, local: bool) -> float:
    """Return the time of a run's start within the week [ms], local or UTC."""
    if start.tzinfo is None:
        start = start.replace(tzinfo=UTC)
    if local:
        start = start.replace(tzinfo=UTC)
    return ((start - _MONDAY) / timedelta(milliseconds=1)) % MS_PER_WEEK


def _trace_into_week_ms(trace: RequestTrace, zero_hour_of_week: float) -> float:
    """Return the time of a trace's first step within the week [ms], local where relative."""
    if trace.is_relative:
        return (trace.origin_ms + zero_hour_of_week % HOURS_PER_WEEK * MS_PER_H) % MS_PER_WEEK
    monday_ms = (_MONDAY - _EPOCH) // timedelta(milliseconds=1)
    return float((trace.origin_ms - monday_ms) % MS_PER_WEEK)
