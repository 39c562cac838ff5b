"""Bisection of a non-decreasing function, as the paper matches a target utilization."""

from __future__ import annotations

from collections.abc import Callable

MAX_STEPS = 100


def bisect(
    function: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    tolerance: float,
) -> tuple[float, float, int]:
    """Find where a non-decreasing function comes nearest to a target."""
    best, best_value = high, function(high)
    steps = 1
    while abs(best_value - target) > tolerance and steps < MAX_STEPS:
        # function(low) < target <= function(high) holds, or nothing up to high reaches the target.
        # A function of steps may jump over it: the nearest value tried is kept.
        middle = (low + high) / 2
        if not low < middle < high:
            break
        value = function(middle)
        steps += 1
        if abs(value - target) < abs(best_value - target):
            best, best_value = middle, value
        if value < target:
            low = middle
        else:
            high = middle
    return best, best_value, steps
