"""Gaussian Thompson sampling: play each arm as often as it is likely to be the cheapest."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np


class GaussianArm:
    """A conjugate normal belief in the mean cost of one batch size.

    Costs are taken as normal with an unknown mean, of flat prior, and the population variance s2 of
    the n costs observed (the Zeus paper, Algorithm 2). The posterior of the mean is then normal
    with the mean of the costs and the variance s2 / n.

    Attributes
    ----------
    n : int
        Costs observed.
    mean : float
        Their mean, the posterior's mean.
    """

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self._sum_of_squares = 0.0

    def observe(self, cost: float) -> None:
        """Add a cost (Welford's update, which does not cancel)."""
        self.n += 1
        off = cost - self.mean
        self.mean += off / self.n
        self._sum_of_squares += off * (cost - self.mean)

    @property
    def posterior_std(self) -> float:
        """Standard deviation of the posterior; 0 where all costs are equal."""
        return sqrt(self._sum_of_squares) / self.n


def cheapest_draw(arms: Iterable[tuple[int, GaussianArm]], rng: np.random.Generator) -> int:
    """Draw a mean from the posterior of each arm and return the arm of the lowest."""
    best, lowest = -1, float("inf")
    for name, arm in arms:
        draw = rng.normal(arm.mean, arm.posterior_std)
        if draw < lowest:
            best, lowest = name, draw
    return best
