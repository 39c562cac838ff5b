"""Effects of events on the power, on series whose answers are known by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from diploee.clock import WallClock
from diploee.facility import Block
from diploee.measures.series import ClockSums, Stretch
from diploee.metrics.flexibility import FlexibilityMetrics, hourly_means, ten_of_ten
from diploee.metrics.flexible_jobs import weighted_performance
from diploee.scenario import EventTarget, JobFlexibility
from diploee.scenario.flexibility import Event
from diploee.schedule.signals import Signal

MIN, H, DAY = 60_000, 3_600_000, 86_400_000
MONDAY = datetime(2018, 1, 1, tzinfo=UTC)


def the_event(**changes: Any) -> Event:
    """An event at noon for an hour, ramps of 10 min, 75 % of what was drawn; known at 11:30."""
    given: dict[str, Any] = {
        "id": "noon",
        "issued_ms": 11 * H + 30 * MIN,
        "start_ms": 12 * H,
        "end_ms": 13 * H,
        "target": EventTarget(fraction=0.75),
        "ramp_down_ms": 10 * MIN,
        "ramp_up_ms": 10 * MIN,
        "tolerance": 0.02,
        "baseline_ms": 25 * MIN,
    }
    return Event(**(given | changes))


def measured(
    own_w: np.ndarray,
    twin_w: np.ndarray,
    events: Sequence[Event] = (),
    signals: dict[str, Signal] | None = None,
    n_blocks: int = 1,
) -> dict[str, Any]:
    """Measure series at one minute from Monday on."""
    metrics = FlexibilityMetrics(events or [the_event()], WallClock(MONDAY, MIN), signals or {})
    for rows in np.array_split(np.arange(own_w.size), n_blocks):
        columns = {"facility_power_w": own_w[rows], "baseline_power_w": twin_w[rows]}
        metrics.add(Block(int(rows[0]) * MIN, MIN, columns))
    return metrics.block()


def a_day(level_w: float = 100e6) -> tuple[np.ndarray, np.ndarray]:
    """A twin that draws 100 MW for two days, and a run that follows the event exactly."""
    twin_w = np.full(2 * DAY // MIN, level_w)
    allowed = [the_event().allowed_w(t * MIN, level_w) for t in range(twin_w.size)]
    return np.minimum(twin_w, np.array(allowed)), twin_w


def test_a_load_that_follows_its_event_is_measured_exactly() -> None:
    found = measured(*a_day())
    (event,) = found["events"]
    assert event["name"] == "noon"
    assert event["twin_mw"] == 100
    assert event["mean_mw"] == event["target_mw"] == 75
    assert event["mean_reduction"] == event["min_reduction"] == 0.25
    assert event["held_fraction"] == 1
    # Known at 11:30; at 11:50 the ramp begins, and at 11:59 power is within 2 % of the target.
    assert event["issue_to_target_s"] == 30 * 60
    assert event["overshoot_mw"] == 0
    assert event["ramp_down_mw_per_min"] == event["ramp_up_mw_per_min"] == 2.5
    # An hour at 25 MW less, and two ramps whose minutes lie 0 to 22.5, and 25 to 2.5 MW lower.
    assert event["not_drawn_mwh"] == pytest.approx(25 + (112.5 + 137.5) / 60)
    assert event["rebound_mw"] == event["rebound_mwh"] == 0
    assert found["mean_reduction"] == 0.25
    assert found["events_held"] == 1
    assert found["energy_mwh"] == pytest.approx(-event["not_drawn_mwh"])


def test_what_is_caught_up_later_is_a_rebound() -> None:
    own_w, twin_w = a_day()
    own_w[14 * 60 : 14 * 60 + 30] += 20e6
    own_w[15 * 60 : 15 * 60 + 5] += 90e6
    (event,) = measured(own_w, twin_w)["events"]
    assert event["rebound_mw"] == pytest.approx(90 * 5 / 15)
    assert event["rebound_mwh"] == pytest.approx(20 * 0.5 + 90 / 12)


def test_a_load_above_its_target_has_its_overshoot_and_its_share() -> None:
    own_w, twin_w = a_day()
    own_w[12 * 60 + 10 : 12 * 60 + 25] = 80e6
    (event,) = measured(own_w, twin_w)["events"]
    assert event["overshoot_mw"] == pytest.approx(5)
    assert event["held_fraction"] == 0.75
    assert event["min_reduction"] == pytest.approx(0.2)
    (never,) = measured(twin_w, twin_w)["events"]
    assert never["issue_to_target_s"] is None
    assert never["held_fraction"] == never["mean_reduction"] == 0


def test_blocks_change_nothing() -> None:
    own_w, twin_w = a_day()
    own_w += np.random.default_rng(1).integers(0, 1000, own_w.size)
    whole, cut = measured(own_w, twin_w), measured(own_w, twin_w, n_blocks=7)
    assert whole["events"] == cut["events"]
    assert whole["energy_mwh"] == pytest.approx(cut["energy_mwh"])


def test_energy_not_drawn_is_worth_its_price_and_its_carbon() -> None:
    own_w, twin_w = a_day()
    hours = np.arange(48, dtype=np.int64) * H
    price = Signal(hours, np.where(hours == 12 * H, 200.0, 0.0), 48 * H)
    carbon = Signal(hours, np.full(48, 400.0), 48 * H)
    found = measured(own_w, twin_w, signals={"price": price, "carbon": carbon})
    (event,) = found["events"]
    assert event["money"] == pytest.approx(25 * 200)
    assert event["t_co2"] == pytest.approx(event["not_drawn_mwh"] * 0.4)
    assert found["money"] == pytest.approx(-event["money"])
    assert found["t_co2"] == pytest.approx(-event["t_co2"])


def days_of(levels: Sequence[float]) -> np.ndarray:
    return np.repeat(np.asarray(levels, dtype=float), 24).reshape(-1, 24)


def test_a_baseline_is_the_mean_of_ten_weekdays_alike() -> None:
    # Three weeks from a Monday on, weekends at 5, and the event on the third Friday.
    levels = [10.0, 12, 10, 12, 10, 5, 5, 12, 10, 12, 10, 12, 5, 5, 30, 10, 12, 10, 11, 5, 5]
    days_w = days_of(levels)
    day = 17_532  # 2018-01-01, a Monday
    start_ms = (day + 18) * DAY + 12 * H
    found = ten_of_ten(day, days_w, start_ms, start_ms + H, frozenset({day + 18}))
    assert found is not None
    usual = np.mean([levels[k] for k in (17, 16, 15, 14, 11, 10, 9, 8, 7, 4)])
    assert found["days"] == 10
    assert found["adjustment"] == pytest.approx(max(11 / usual, 0.8))
    assert found["baseline_mw"] == pytest.approx(usual * found["adjustment"] / 1e6)


@pytest.mark.parametrize(("today", "factor"), [(10.0, 1.0), (11.0, 1.1), (15.0, 1.2), (5.0, 0.8)])
def test_the_same_day_adjustment_is_of_the_hours_before_and_at_most_20_percent(
    today: float, factor: float
) -> None:
    days_w = days_of([10.0] * 12)
    days_w[11, :11] = today
    start_ms = (17_532 + 11) * DAY + 12 * H  # the second Friday
    found = ten_of_ten(17_532, days_w, start_ms, start_ms + H, frozenset())
    assert found is not None
    assert found["adjustment"] == pytest.approx(factor)
    assert found["baseline_mw"] == pytest.approx(10 * factor / 1e6)


def test_days_with_events_are_no_example_and_too_few_days_give_no_baseline() -> None:
    days_w = days_of([10.0] * 4 + [2.0] + [10.0] * 7)
    start_ms = (17_532 + 11) * DAY + 12 * H
    event_day = frozenset({17_532 + 4})
    found = ten_of_ten(17_532, days_w, start_ms, start_ms + H, event_day)
    assert found is not None
    assert (found["baseline_mw"], found["days"]) == (1e-5, 8)
    assert ten_of_ten(17_532, days_w, (17_532 + 4) * DAY, (17_532 + 4) * DAY + H, event_day) is None


def test_a_meter_keeps_the_means_of_local_hours() -> None:
    clock = WallClock(MONDAY.replace(hour=22), MIN)
    hours = ClockSums(clock, H)
    for part_ms in np.array_split(np.arange(0, 5 * H, MIN), 4):
        power_w, end_ms = (part_ms // H).astype(float), int(part_ms[-1]) + MIN
        hours.add(Stretch(power_w, power_w.size, end_ms, MIN))
    first_day, days_w = hourly_means(hours.seen(), clock)
    assert first_day == 17_532
    np.testing.assert_array_equal(days_w[0, 21:], [np.nan, 0, 1])
    np.testing.assert_array_equal(days_w[1, :3], [2, 3, 4])


def test_a_baseline_is_compared_with_the_twin() -> None:
    n = 15 * DAY // MIN
    twin_w = np.full(n, 100e6)
    event = the_event(
        issued_ms=14 * DAY + 11 * H, start_ms=14 * DAY + 12 * H, end_ms=14 * DAY + 13 * H
    )
    own_w = np.minimum(twin_w, [event.allowed_w(t * MIN, 100e6) for t in range(n)])
    own_w[: 14 * DAY // MIN] *= 0.95
    own_w[14 * DAY // MIN : 14 * DAY // MIN + 11 * 60] *= 0.95
    utility = measured(own_w, twin_w, [event])["events"][0]["utility"]
    assert utility["days"] == 10
    assert utility["baseline_mw"] == pytest.approx(95, rel=1e-6)
    assert utility["error"] == pytest.approx(-0.05)


def test_the_weighted_performance_of_the_demonstration_in_phoenix_is_met() -> None:
    """SRP event of 3 May 2025, jobs and tiers as published with arXiv:2507.00909."""
    of_tier = {tier: JobFlexibility(tier=tier).least_speed for tier in (1, 2, 3)}
    jobs = [(2, 0.939635), (3, 0.973165), (1, 1.0), (2, 0.992455), (3, 0.666923), (3, 0.743277)]
    found = weighted_performance(
        np.array([of_tier[tier] for tier, _ in jobs]), np.array([done for _, done in jobs])
    )
    assert found == pytest.approx(0.9079, abs=5e-5)
    assert weighted_performance(np.array([]), np.array([])) is None
