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
"""Range of plausible times in a log with dates [ms since 1970]."""

# Cause of a dropped row with an implausible time
NOT_BELIEVED = "time before 1980 or after 2099"
# Cause of a dropped row that is an outlier in time
STRAY = "submitted more than a year apart from all others"
# Minimum distance in time of an outlier from all other rows [ms]
STRAY_GAP_MS = 366 * 86_400_000
FEW = 0.05
"""Maximum fraction of rows that can be outliers."""


# Cause noted for timestamps without a zone
NAIVE = "time stamps without a zone, taken as UTC"
# Cause noted for timestamps without a zone in a replay by local time
NAIVE_AS_LOCAL = "time stamps without a zone, taken as local time of the site"


def believed_span(
    times: Int64Array, weights: Float64Array | Int64Array, gap: int
) -> tuple[int, int] | None:
    """Return the first and last plausible time, or None if there are no outliers.

    Outliers are few rows whose times are far from all others: rows are grouped by gaps
    of more than `gap`, and outliers are those further from the largest group than `gap`
    and the length of that group. The result is also None if the largest group does not
    have nearly all rows.
    """
    groups = np.split(np.arange(times.size), np.flatnonzero(np.diff(times) > gap) + 1)
    main = max(groups, key=lambda group: weights[group].sum())
    if len(groups) == 1 or weights[main].sum() <= (1 - FEW) * weights.sum():
        return None
    first, last = int(times[main[0]]), int(times[main[-1]])
    margin = max(gap, last - first)
    return first - margin, last + margin


@dataclass(frozen=True)
class ImportCounts(Brief):
    """Counts of the rows of an imported file: read, dropped, repaired and noted."""

    n_rows: int  # data rows read, without headers and comments
    n_kept: int  # rows that became records: `n_rows` minus all dropped rows
    # Rows dropped, by a text of the cause, such as ``"job steps"`` or
    # ``"negative run time"``
    dropped: Mapping[str, int] = field(default_factory=dict)
    # Rows with a changed value, by a text of the cause, such as
    # ``"start before submission"``
    repaired: Mapping[str, int] = field(default_factory=dict)
    # Unchanged rows that the user should know of, such as ``"CPU-only job"``
    noted: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in ("dropped", "repaired", "noted"):  # drop causes with zero rows
            counts = {cause: n for cause, n in getattr(self, kind).items() if n}
            object.__setattr__(self, kind, counts)

    def by_cause(self, prefix: str = "", as_local: bool = False) -> dict[str, int]:
        """Return the counts of dropped, changed or noted rows by cause.

        `prefix` is put before each cause. If `as_local` is set, the cause of timestamps
        without a time zone says that they were read as local time of the site.
        """
        names = {NAIVE: NAIVE_AS_LOCAL} if as_local else {}
        return {
            f"{prefix}{kind} on import: {names.get(cause, cause)}": n
            for kind in ("dropped", "repaired", "noted")
            for cause, n in getattr(self, kind).items()
        }

    def lines(self) -> list[str]:
        """Return a text line with the totals, then one line per cause."""
        result = [f"{self.n_rows:,} rows, {self.n_kept:,} kept"]
        for kind in ("dropped", "repaired", "noted"):
            causes: Mapping[str, int] = getattr(self, kind)
            result.extend(f"{kind} {n:,}: {cause}" for cause, n in causes.items())
        return result
