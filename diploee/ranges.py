"""Ranges of numbers that are allowed, and their words for errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.tables import BoolArray, Float64Array
from diploee.units import LARGEST_NUMBER


@dataclass(frozen=True)
class Range:
    """Numbers between bounds."""

    largest: float = LARGEST_NUMBER  # largest absolute value
    # Smallest value; value that all are above
    at_least: float = -np.inf
    above: float = -np.inf

    def holds(self, values: Float64Array) -> BoolArray:
        """Return which values are allowed; NaN is not."""
        allowed = (np.abs(values) <= self.largest) & (values >= self.at_least)
        return np.asarray(allowed & (values > self.above), dtype=np.bool_)

    @property
    def noun(self) -> str:
        """Allowed values in words, without their bounds."""
        return "a number"

    @property
    def largest_text(self) -> str:
        """The largest value as it is written."""
        return f"{self.largest:g}"

    def __str__(self) -> str:
        words = self.noun
        if self.above > -np.inf:
            words += f" above {self.above:g}"
        if self.at_least > -np.inf:
            words += f" of {self.at_least:g} or more"
        if self.largest < LARGEST_NUMBER:
            words += f" up to {self.largest_text}"
        return words
