"""Token lengths as a histogram: every length up to 128 by itself, then bins 1 % wide."""

from __future__ import annotations

import numpy as np

from diploee.importers.request_traces.rows import LARGEST_TOKENS
from diploee.loads.services.request_trace import TokenLengths
from diploee.tables import Int64Array

N_SINGLE = 128
BINS_PER_OCTAVE = 64
_TABLE_SIZE = 2**16


def _edges() -> Int64Array:
    n_octaves = int(np.log2((LARGEST_TOKENS + 1) / N_SINGLE))
    growth = 2.0 ** (np.arange(n_octaves * BINS_PER_OCTAVE + 1) / BINS_PER_OCTAVE)
    wide = np.rint(N_SINGLE * growth).astype(np.int64)
    return np.unique(np.concatenate((np.arange(N_SINGLE, dtype=np.int64), wide)))


EDGES: Int64Array = _edges()
"""Bin edges [tokens], from 0 to 2^31."""

_BIN_OF = (np.searchsorted(EDGES, np.arange(_TABLE_SIZE), side="right") - 1).astype(np.int64)


def bins_of(tokens: Int64Array) -> Int64Array:
    """Return the bin of each length; lengths are from 0 to `LARGEST_TOKENS`."""
    if tokens.max(initial=0) < _TABLE_SIZE:
        return np.asarray(_BIN_OF[tokens], dtype=np.int64)
    return np.asarray(np.searchsorted(EDGES, tokens, side="right") - 1, dtype=np.int64)


class TokenCounts:
    """Growing histograms of the lengths of several services."""

    def __init__(self) -> None:
        self._n_requests = np.zeros((0, EDGES.size - 1), dtype=np.int64)
        self._total_tokens = np.zeros(0, dtype=np.int64)

    def add(self, tokens: Int64Array, service: Int64Array, n_services: int) -> None:
        """Add lengths."""
        self._widen(n_services)
        n_bins = EDGES.size - 1
        bins = bins_of(tokens)
        if n_services > 1:
            bins += service * n_bins
        found = np.bincount(bins, minlength=n_services * n_bins)
        self._n_requests += found.reshape(n_services, n_bins)
        if n_services == 1:
            self._total_tokens[0] += tokens.sum()
        else:
            # Exact: a block's sums stay far below 2^53.
            sums = np.bincount(service, weights=tokens, minlength=n_services)
            self._total_tokens += sums.astype(np.int64)

    def lengths(self, n_services: int) -> tuple[TokenLengths, ...]:
        """Return the lengths of each service."""
        self._widen(n_services)
        return tuple(
            TokenLengths(EDGES, n_requests, int(total))
            for n_requests, total in zip(self._n_requests, self._total_tokens, strict=True)
        )

    def _widen(self, n_services: int) -> None:
        more = n_services - self._total_tokens.size
        if more > 0:
            self._n_requests = np.pad(self._n_requests, ((0, more), (0, 0)))
            self._total_tokens = np.pad(self._total_tokens, (0, more))
