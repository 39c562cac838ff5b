"""Counts of rows that an importer read, dropped and repaired, by cause.

The module also detects implausible times in a log (`believed_span`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diploee.base.errors import Brief
from diploee.base.tables import Float64Array, Int64Array

YEARS_MS = tuple(
    int(np.datetime64(year, "ms").astype(np.int64)) for year in ("1980", "2100")
)
"""A time of a log that has dates lies between these [ms since 1970]."""

NOT_BELIEVED = "time before 1980 or after 2099"
STRAY = "submitted more than a year apart from all others"
STRAY_GAP_MS = 366 * 86_400_000
FEW = 0.05
"""Rows that are fewer than this part of all and lie further off than `STRAY_GAP_MS` are
strays."""


NAIVE = "time stamps without a zone, taken as UTC"
NAIVE_AS_LOCAL = "time stamps without a zone, taken as local time of the site"


def believed_span(
    times: Int64Array, weights: Float64Array | Int64Array, gap: int
) -> tuple[int, int] | None:
    """Return the first and last plausible time, without a few remote outliers."""
    parts = np.split(np.arange(times.size), np.flatnonzero(np.diff(times) > gap) + 1)
    main = max(parts, key=lambda part: weights[part].sum())
    if len(parts) == 1 or weights[main].sum() <= (1 - FEW) * weights.sum():
        return None
    first, last = int(times[main[0]]), int(times[main[-1]])
    away = max(gap, last - first)
    return first - away, last + away


@dataclass(frozen=True)
class ImportCounts(Brief):
    """Counts of a foreign file's rows: read, dropped, repaired and noted."""

    n_rows: int  # data rows read, headers and comments aside
    # Rows that became records; with all that were dropped they add up to `n_rows`
    n_kept: int
    # Rows left out, by cause in words, such as ``"job steps"`` or
    # ``"negative run time"``
    dropped: Mapping[str, int] = field(default_factory=dict)
    # Rows kept with a changed value, by cause in words, such as
    # ``"start before submission"``
    repaired: Mapping[str, int] = field(default_factory=dict)
    # Rows kept as they are that the user should know of, such as ``"CPU-only job"``
    noted: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what in ("dropped", "repaired", "noted"):  # what did not occur is no cause
            result = {cause: n for cause, n in getattr(self, what).items() if n}
            object.__setattr__(self, what, result)

    def by_cause(self, of: str = "", as_local: bool = False) -> dict[str, int]:
        """Return the counts of dropped, changed or noted rows by cause and owner.

        `as_local`: timestamps without a time zone were read as local time of the site.
        """
        names = {NAIVE: NAIVE_AS_LOCAL} if as_local else {}
        return {
            f"{of}{what} on import: {names.get(cause, cause)}": n
            for what in ("dropped", "repaired", "noted")
            for cause, n in getattr(self, what).items()
        }

    def lines(self) -> list[str]:
        """Return a text line with the totals, then one line per cause."""
        result = [f"{self.n_rows:,} rows, {self.n_kept:,} kept"]
        for what in ("dropped", "repaired", "noted"):
            causes: Mapping[str, int] = getattr(self, what)
            result.extend(f"{what} {n:,}: {cause}" for cause, n in causes.items())
        return result
