"""Parts of a series that sliding windows are taken from: a block with what lies before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.tables import Int64Array


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive values of a series, of which the last `n_new` were not seen before.

    Parameters
    ----------
    values : numpy.ndarray, shape (h + n_new,), int64
        Power in quanta: `h` earlier values, then the new ones.
    n_new : int
        Number of new values.
    end_ms : int
        End of the last value [ms since the start].
    step_ms : int
        Interval of the values [ms].
    """

    values: Int64Array
    n_new: int
    end_ms: int
    step_ms: int

    def windows_of(self, n_window: int) -> Stretch:
        """Return the part that the windows of `n_window` values which end in the new part need."""
        keep = min(self.values.size, self.n_new + n_window - 1)
        return Stretch(
            self.values[self.values.size - keep :], self.n_new, self.end_ms, self.step_ms
        )

    @property
    def begin_ms(self) -> int:
        """Start of the first value [ms since the start]."""
        return self.end_ms - self.values.size * self.step_ms

    @property
    def new(self) -> Int64Array:
        """The new values."""
        return self.values[self.values.size - self.n_new :]


@dataclass(frozen=True, eq=False)
class Seam:
    """Where two spans of a series meet.

    Parameters
    ----------
    tail, head : numpy.ndarray, int64
        Last values before and first values behind the seam [quanta].
    at_ms : int
        Time of the seam [ms since the start].
    step_ms : int
        Interval of the values [ms].
    """

    tail: Int64Array
    head: Int64Array
    at_ms: int
    step_ms: int

    def windows_of(self, n_window: int) -> Stretch:
        """Return the stretch whose windows of `n_window` values all lie across the seam."""
        head = self.head[: n_window - 1]
        values = np.concatenate([self.tail, head])
        return Stretch(values, head.size, self.at_ms + head.size * self.step_ms, self.step_ms)
