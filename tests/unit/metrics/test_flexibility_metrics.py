"""Effects of events on the power, on series whose answers are known by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from diploee.base.clock import WallClock
from diploee.facility import Block
from diploee.metrics.flexibility import FlexibilityMetrics
from diploee.metrics.flexible_jobs import weighted_performance
from diploee.scenario import EventTarget, JobFlexibilitySpec
from diploee.scenario.flexibility import RunEvent
from diploee.schedule.signals import Signal

MIN, H, DAY = 60_000, 3_600_000, 86_400_000
MONDAY = datetime(2018, 1, 1, tzinfo=UTC)


def the_event(**changes: Any) -> RunEvent:
    """An event at noon for an hour, ramps of 10 min, 75 % of what was drawn; known at
    11:30."""
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
    return RunEvent(**(given | changes))


def measured(
    own_w: np.ndarray,
    twin_w: np.ndarray,
    events: Sequence[RunEvent] = (),
    signals: dict[str, Signal] | None = None,
    n_blocks: int = 1,
) -> dict[str, Any]:
    """Measure series at one minute from Monday on."""
    metrics = FlexibilityMetrics(
        events or [the_event()], WallClock(MONDAY, MIN), signals or {}
    )
    for rows in np.array_split(np.arange(own_w.size), n_blocks):
        columns = {"facility_power_w": own_w[rows], "baseline_power_w": twin_w[rows]}
        metrics.add(Block(int(rows[0]) * MIN, MIN, columns))
    return metrics.block()


def a_day(level_w: float = 100e6) -> tuple[np.ndarray, np.ndarray]:
    """A twin that draws 100 MW for two days, and a run that follows the event exactly."""  # noqa: E501
    twin_w = np.full(2 * DAY // MIN, level_w)
    allowed = [the_event().allowed_w(t * MIN, level_w) for t in range(twin_w.size)]
    return np.minimum(twin_w, np.array(allowed)), twin_w


def test_a_load_that_follows_its_event_is_measured_exactly() -> None:
    found = measured(*a_day())
    (event,) = found["events"]
    assert event["name"] == "noon"
    assert event["twin_mw"] == 100
    assert event["mean_mw"] == event["target_mw"] == 75
    assert event["mean_reduction"] == 0.25
    assert event["held_fraction"] == 1
    # Known at 11:30; at 11:50 the ramp begins, and at 11:59 power is within 2 % of the
    # target.
    assert event["issue_to_target_s"] == 30 * 60
    assert event["overshoot_mw"] == 0
    # An hour at 25 MW less, and two ramps whose minutes lie 0 to 22.5, and 25 to 2.5 MW
    # lower.
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


@pytest.mark.parametrize("start_h", [12.25, 12.75, 13.5, 17.0, 40.0])
def test_each_change_from_starts_held_to_rebound_is_counted_in_one_event(
    start_h: float,
) -> None:
    """Two events, from at once to days apart: energy and money of both are those of the
    run."""
    start_ms = round(start_h * H)
    issued_ms = start_ms - 30 * MIN
    end_ms = start_ms + 2 * H
    later = the_event(id="later", issued_ms=issued_ms, start_ms=start_ms, end_ms=end_ms)
    events = [the_event(), later]
    own_w, twin_w = a_day()
    rng = np.random.default_rng(2)
    begin, over = 10 * 60 + 50, end_ms // MIN + 10
    own_w[begin:over] = twin_w[begin:over] - rng.uniform(0, 30e6, over - begin)
    own_w[over:] = twin_w[over:] + rng.uniform(0, 5e6, own_w.size - over)
    hours = np.arange(48, dtype=np.int64) * H
    price_per_mwh = rng.uniform(20, 200, 48)
    price = {"price": Signal(hours, price_per_mwh, 48 * H)}
    within = min(over + 24 * 60, own_w.size)
    if start_h == 40:  # in between, what comes a day after the first is of neither
        gap = slice(13 * 60 + 10 + 24 * 60, (start_ms - 70 * MIN) // MIN)
        own_w[gap] = twin_w[gap]
    found = measured(own_w, twin_w, events, price)
    saved_mw = (twin_w - own_w)[begin:within] / 1e6
    money = saved_mw @ np.repeat(price_per_mwh, 60)[begin:within] / 60
    told = found["events"]
    assert sum(event["money"] for event in told) == pytest.approx(money)
    energy = [event["not_drawn_mwh"] - event.get("rebound_mwh", 0) for event in told]
    assert sum(energy) == pytest.approx(saved_mw.sum() / 60)


def test_a_second_level_is_measured_against_the_power_before_the_first() -> None:
    first = the_event()
    second = the_event(
        id="deeper",
        start_ms=13 * H,
        end_ms=14 * H,
        ramp_down_ms=0,
        target=EventTarget(fraction=0.5),
        follows_ms=first.ramp_ms,
    )
    own_w, twin_w = a_day()
    own_w[13 * 60 : 14 * 60] = 50e6
    found = measured(own_w, twin_w, [first, second])["events"]
    assert [event["before_mw"] for event in found] == [100, 100]
    assert [event["target_mw"] for event in found] == [75, 50]
    assert [event["held_fraction"] for event in found] == [1, 1]


def test_a_rebound_ends_where_the_next_event_begins() -> None:
    later = the_event(id="later", issued_ms=16 * H, start_ms=17 * H, end_ms=18 * H)
    own_w, twin_w = a_day()
    own_w[14 * 60 : 14 * 60 + 30] += 20e6
    own_w[17 * 60 : 18 * 60] -= 25e6
    own_w[19 * 60 : 19 * 60 + 30] += 8e6
    first, second = measured(own_w, twin_w, [the_event(), later])["events"]
    assert (first["rebound_mw"], second["rebound_mw"]) == (20, 8)
    assert (first["rebound_mwh"], second["rebound_mwh"]) == pytest.approx((10, 4))


def test_the_weighted_performance_of_the_demonstration_in_phoenix_is_met() -> None:
    """SRP event of 3 May 2025, jobs and tiers as published with arXiv:2507.00909."""
    of_tier = {tier: JobFlexibilitySpec(tier=tier).least_speed for tier in (1, 2, 3)}
    tiers = (2, 3, 1, 2, 3, 3)
    done = np.array([0.939635, 0.973165, 1.0, 0.992455, 0.666923, 0.743277])
    found = weighted_performance(np.array([of_tier[tier] for tier in tiers]), done)
    assert found == pytest.approx(0.9079, abs=5e-5)
    assert weighted_performance(np.array([]), np.array([])) is None
