"""`ImportCounts`: what an importer read, dropped and repaired, by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ImportCounts:
    """Rows of a foreign file: how many there were and what became of them.

    Parameters
    ----------
    n_rows : int
        Data rows read, headers and comments aside.
    n_kept : int
        Rows that became records; with all that were dropped they add up to `n_rows`.
    dropped : mapping of str to int
        Rows left out, by cause in words, such as ``"job steps"`` or ``"negative run time"``.
    repaired : mapping of str to int
        Rows kept with a changed value, by cause in words, such as ``"start before submission"``.
    noted : mapping of str to int
        Rows kept as they are that the user should know of, such as ``"CPU-only job"``.
    """

    n_rows: int
    n_kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    noted: Mapping[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return one line of text per cause that occurred, after one with the totals."""
        found = [f"{self.n_rows:,} rows, {self.n_kept:,} kept"]
        for what in ("dropped", "repaired", "noted"):
            causes: Mapping[str, int] = getattr(self, what)
            found.extend(f"{what} {n:,}: {cause}" for cause, n in causes.items() if n)
        return found
