"""Bisection of functions with steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diploee.loads.jobs.rates import MAX_STEPS, bisect, bisect_rising


def test_a_continuous_function_is_met() -> None:
    argument, value, _ = bisect(lambda x: x**2, 2.0, 0.0, 5.0, 1e-12)
    assert value == pytest.approx(2, abs=1e-12)
    assert argument == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("target", [0.1, 2.6, 9.99])
def test_a_step_function_is_met_to_half_a_step(target: float) -> None:
    _, value, steps = bisect(math.floor, target, 0.0, 10.5, 0.0)
    # The lower end of the bracket is not tried, so that the first step may be missed by
    # a whole.
    assert abs(value - target) <= (0.5 if target > 0.5 else 1.0)
    assert steps <= MAX_STEPS


def test_a_target_at_the_upper_end_needs_one_step() -> None:
    assert bisect(lambda x: x, 1.0, 0.0, 1.0, 0.0) == (1.0, 1.0, 1)


SMOOTH = [
    math.sqrt,
    lambda x: x**3,
    lambda x: 1 - math.exp(-x),
    lambda x: min(1.0, 2 * x),
]
STEPS = [math.floor, lambda x: math.floor(7 * x) / 7 + x / 9]


@given(
    st.sampled_from([*SMOOTH, *STEPS]),
    st.floats(0.02, 1),
    st.floats(1, 3),
    st.sampled_from([0.0, 1e-9, 1e-6, 1e-2]),
)
def test_a_predicted_bisection_finds_the_same_in_the_same_steps(
    function: Callable[[float], float], share: float, high: float, tolerance: float
) -> None:
    target = share * function(high)
    expected = bisect(function, target, 0.0, high, tolerance)
    assert bisect_rising(function, target, 0.0, high, tolerance) == expected


@pytest.mark.parametrize("function", SMOOTH)
def test_a_predicted_bisection_evaluates_half_of_the_points(
    function: Callable[[float], float],
) -> None:
    points: list[float] = []

    def counted(x: float) -> float:
        points.append(x)
        return function(x)

    n_points = []
    for search in (bisect, bisect_rising):
        points.clear()
        search(counted, 0.68 * function(2.1), 0.0, 2.1, 1e-6)
        n_points.append(len(points))
    assert n_points[1] <= 0.6 * n_points[0]
