"""Caps of jobs in fair shares, the room under a limit, and the power of the past."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diploee.schedule.load_controller import PowerHistory, fair_levels

ROW = st.lists(st.floats(1, 1000), min_size=4, max_size=4).map(
    lambda row: sorted(row)[::-1]
)


def test_jobs_give_the_same_share_of_their_headroom() -> None:
    big, small = [400.0, 300, 200, 100], [40.0, 30, 20, 10]
    levels = fair_levels(np.array([big, small, big]), 840 * 2 / 3)
    # One of the big ones a level more than the others
    assert levels.tolist() == [1, 1, 2]


@given(st.lists(ROW, min_size=1, max_size=8), st.floats(0, 1))
def test_caps_keep_what_can_be_kept_within_the_largest_step(
    rows: list[list[float]], part: float
) -> None:
    power_w = np.array(rows)
    low_w, high_w = power_w[:, -1].sum(), power_w[:, 0].sum()
    allowed_w = low_w + part * (high_w - low_w) + 1e-9
    levels = fair_levels(power_w, allowed_w)
    own_w = power_w[np.arange(len(rows)), levels]
    assert own_w.sum() <= allowed_w * (1 + 1e-12)
    if levels.any():
        assert allowed_w - own_w.sum() <= -np.diff(power_w, axis=1).min() + 1e-9


def test_the_mean_of_the_past_is_of_what_was_drawn_from_each_time_on() -> None:
    past = PowerHistory(100)
    for time_ms, power_w in ((0, 10.0), (50, 20), (80, 40), (80, 60)):
        past.add(time_ms, power_w)
    assert past.mean_w(0, 100) == pytest.approx((50 * 10 + 30 * 20 + 20 * 60) / 100)
    assert past.mean_w(60, 90) == pytest.approx((20 * 20 + 10 * 60) / 30)
    past.add(400, 0.0)
    assert past.mean_w(300, 400) == 60
