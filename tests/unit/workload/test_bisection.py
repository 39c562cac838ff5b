"""Bisection of functions with steps."""

from __future__ import annotations

import math

import pytest

from diploee.loads.jobs.rates import MAX_STEPS, bisect


def test_a_continuous_function_is_met() -> None:
    argument, value, _ = bisect(lambda x: x**2, 2.0, 0.0, 5.0, 1e-12)
    assert value == pytest.approx(2, abs=1e-12)
    assert argument == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("target", [0.1, 2.4, 2.6, 7.0, 9.99])
def test_a_step_function_is_met_to_half_a_step(target: float) -> None:
    _, value, steps = bisect(math.floor, target, 0.0, 10.5, 0.0)
    # The lower end of the bracket is not tried, so that the first step may be missed by a whole.
    assert abs(value - target) <= (0.5 if target > 0.5 else 1.0)
    assert steps <= MAX_STEPS


def test_the_best_argument_tried_gives_the_value() -> None:
    argument, value, _ = bisect(math.floor, 3.0, 0.0, 10.0, 0.0)
    assert math.floor(argument) == value == 3


def test_a_target_at_the_upper_end_needs_one_step() -> None:
    assert bisect(lambda x: x, 1.0, 0.0, 1.0, 0.0) == (1.0, 1.0, 1)
