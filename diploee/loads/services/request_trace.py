"""`RequestTrace`: requests of a real service, counted per time step, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diploee.clock import UTC_ZONE, Zone
from diploee.errors import WorkloadError, did_you_mean, one_of
from diploee.loads.import_counts import ImportCounts
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S


@dataclass(frozen=True, eq=False)
class TokenLengths:
    """How long prompts or answers are: a histogram over bins of tokens."""

    edges: Int64Array  # bin edges [tokens]; a bin holds ``edges[k] <= length < edges[k + 1]``
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
        return np.asarray(np.interp(levels, share, length.astype(np.float64)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RequestTrace:
    """Requests per step and service, and their token lengths."""

    source: str  # file or folder that it was read from
    trace_format: str  # name of the format, such as ``"azure-llm"``
    # Names of the services or models; ``("all",)`` where the trace does not tell
    services: tuple[str, ...]
    # Start of the first step [ms], since 1970 UTC or, where `is_relative`, since the trace's own
    # origin
    origin_ms: int
    is_relative: bool  # times count from an origin whose date the trace does not tell
    step_ms: int  # length of a step [ms]
    # Requests in each step; whole numbers, except where the format gives rates
    n_requests: Float64Array
    # Lengths of prompts and answers of each service; empty where the format has none
    input_tokens: tuple[TokenLengths, ...]
    output_tokens: tuple[TokenLengths, ...]
    counts: ImportCounts  # rows read, dropped, repaired and noted, by cause
    # When the trace begins and ends [ms], counted as `origin_ms`, within its outer steps or shortly
    # behind them; None where it fills its steps
    own_span_ms: tuple[int, int] | None = None
    zone: Zone = UTC_ZONE  # zone of the trace's local time; UTC where not given

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
        """Edges of the steps [ms], counted as `origin_ms`; the outer ones are those of the span."""
        edges_ms = self.origin_ms + np.arange(self.n_requests.shape[1] + 1) * self.step_ms
        if self.own_span_ms is not None:
            edges_ms[[0, -1]] = self.own_span_ms
        return edges_ms

    def requests_of(self, service: str | None = None) -> Float64Array:
        """Return the requests in each step of a service, or of all; shape (n_steps,)."""
        if service is None:
            return np.asarray(self.n_requests.sum(axis=0), dtype=np.float64)
        if service not in self.services:
            raise WorkloadError(
                f"{self.source}: no service '{service}' (have: {one_of(self.services)})"
                f"{did_you_mean(service, self.services)}"
            )
        rows: Float64Array = self.n_requests[self.services.index(service)]
        return rows
