"""The `flexibility:` block: events with their products, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from builders import tiny_data, tiny_scenario

from diploee.base.errors import ScenarioError
from diploee.scenario import EventTarget, scenario_from_dict
from diploee.scenario.flexibility import PRODUCTS, RunEvent

MIN, H = 60_000, 3_600_000
ONE = {"id": "one", "start": "2018-01-01 12:00", "end": "2018-01-01 15:00"}
QUARTER = {"target": {"fraction": 0.75}}


def events_of(*events: dict[str, Any]) -> Sequence[RunEvent]:
    scenario = tiny_scenario({"flexibility.events": list(events)})
    assert scenario.flexibility is not None
    return scenario.flexibility.events_in(scenario.clock)


def event(**keys: Any) -> RunEvent:
    (found,) = events_of({**ONE, **QUARTER, **keys})
    return found


def problems(changes: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as caught:
        scenario_from_dict(tiny_data(changes))
    return "\n".join(caught.value.problems)


def test_the_ramp_ends_at_the_start_and_begins_no_earlier_than_the_notice() -> None:
    early = event(issued="2018-01-01 10:00", ramp_down="20 min")
    assert (early.ramp_ms, early.held_ms) == (12 * H - 20 * MIN, 12 * H)
    late = event(issued="2018-01-01 11:55", ramp_down="20 min")
    assert (late.ramp_ms, late.held_ms) == (12 * H - 5 * MIN, 12 * H + 15 * MIN)
    at_once = event(product="london", end="2018-01-01 15:00")
    assert (at_once.ramp_ms, at_once.held_ms) == (12 * H, 12 * H + 30_000)


def test_what_may_be_drawn_goes_down_holds_and_comes_back() -> None:
    of = event(issued="2018-01-01 10:00", ramp_down="20 min", ramp_up="10 min")
    times = [
        of.ramp_ms - 1,
        of.ramp_ms,
        of.ramp_ms + 10 * MIN,
        of.held_ms,
        of.end_ms - 1,
    ]
    assert [of.allowed_w(t, 100.0) for t in times] == [float("inf"), 100, 87.5, 75, 75]
    assert of.allowed_w(of.end_ms + 5 * MIN, 100.0) == 87.5
    assert of.allowed_w(of.over_ms, 100.0) == float("inf")
    assert EventTarget(mw=2).level_w(3e6) == 2e6
    assert EventTarget(delta_mw=2).level_w(3e6) == 1e6
    assert EventTarget(delta_mw=4).level_w(3e6) == 0


def test_a_product_fills_in_what_an_event_leaves_out() -> None:
    (found,) = events_of({"id": "p", "start": "2018-01-01 12:00", "product": "emerald"})
    assert found.target.fraction == 0.75
    assert found.end_ms - found.start_ms == 3 * H
    assert found.start_ms - found.issued_ms == 15 * MIN
    assert set(PRODUCTS) == {"emerald", "london", "sb6_firm", "ercot_clr", "duke"}


EVENT = {**ONE, **QUARTER}
TWO = {**EVENT, "id": "two"}
HALF = {"target": {"fraction": 0.5}}
REFUSED: dict[str, list[dict[str, Any]]] = {
    "end must lie behind start": [{**EVENT, "end": "2018-01-01 11:00"}],
    "issued must be at or before start": [{**EVENT, "issued": "2018-01-01 12:01"}],
    "give one of 'fraction'": [{**ONE, "target": {"fraction": 0.5, "mw": 1}}],
    "target is missing; add it": [ONE],
    "end is missing; add it": [{"id": "x", "start": "2018-01-01 12:00", **QUARTER}],
    "lasts at most 10 h, found 12 h": [
        {**ONE, "product": "london", "end": "2018-01-02"}
    ],
    "events.0.product: 'sb6_firm' is for loads from 75 MW on": [
        {**EVENT, "product": "sb6_firm"}
    ],
    "events.0.target.mw: is below the 0.0048 MW that the nodes draw without a job": [
        {**ONE, "target": {"mw": 1e-4}}
    ],
    "must lie within the run": [{**EVENT, "start": "2018-01-01 00:10"}],
    "events.1.id: 'one' is taken": [EVENT, EVENT],
    "begins its ramp before 'one' has ended, with another target": [
        EVENT,
        {**TWO, **HALF},
    ],
}


@pytest.mark.parametrize(("problem", "events"), REFUSED.items(), ids=REFUSED)
def test_events_that_can_not_be_or_contradict_each_other_are_refused(
    problem: str, events: list[dict[str, Any]]
) -> None:
    assert problem in problems({"flexibility.events": events})


def test_events_that_agree_may_overlap() -> None:
    assert len(events_of(EVENT, TWO)) == 2


@pytest.mark.parametrize(
    ("later", "follows"),
    [
        ({"start": "2018-01-01 15:00", "ramp_down": "0 s", **HALF}, True),
        ({"start": "2018-01-01 15:30"}, True),
        ({"start": "2018-01-01 13:00"}, True),
        ({"start": "2018-01-01 16:00"}, False),
    ],
)
def test_levels_one_soon_after_the_other_are_shares_of_the_power_before_the_first(
    later: dict[str, Any], follows: bool
) -> None:
    first, second = events_of(EVENT, {**TWO, "end": "2018-01-01 17:00", **later})
    assert first.before_ms == first.ramp_ms < second.ramp_ms
    assert second.before_ms == (first if follows else second).ramp_ms


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"stop": "30 min"}, "stop: a checkpoint takes 30 min, not less than the 30 m"),
        ({"checkpoint_interval": "1 min"}, "stop: a checkpoint takes 2 min"),
        ({"checkpoint_interval": "1 month"}, "and a unit (ms, s, min, h"),
        ({"deadline": "2017-12-31"}, "lies before the submission of jobs"),
        ({"deadline": "2019-01-01", "slack": 1}, "give one of 'slack', 'deadline'"),
        ({"min_nodes": 2}, "min_nodes 2 is above the 1 nodes of the smallest class"),
    ],
)
def test_jobs_that_tolerate_what_can_not_be_are_refused(
    keys: dict[str, Any], problem: str
) -> None:
    assert problem in problems({"streams.training.flexibility": keys})


def test_a_class_tolerates_what_its_stream_does_unless_it_says_so_itself() -> None:
    stream = "streams.training"
    tiers = {f"{stream}.flexibility": {"tier": 1}}
    scenario = tiny_scenario(tiers | {f"{stream}.classes.0.flexibility": {"tier": 3}})
    of = [c.flexibility for c in scenario.streams["training"].job_classes()]
    assert [each and each.least_speed for each in of] == [0.5, 0.9, 0.9]


def test_signals_that_are_followed_must_be_there_in_their_units() -> None:
    follow = {"signal": "price"}
    signals = {"signals": {"carbon": {"file": "c.csv"}}}
    assert "there is no signal 'price' (have: 'carbon')" in problems(
        {"flexibility": signals | {"follow": follow}}
    )
    assert "carbon.unit must be one of 'g_per_kwh'" in problems(
        {"flexibility.signals.carbon": {"file": "c.csv", "unit": "mw"}}
    )


def test_a_bare_off_of_yaml_is_the_controller_off() -> None:
    assert tiny_scenario({"flexibility.controller": False}).flexibility == (
        tiny_scenario({"flexibility.controller": "off"}).flexibility
    )


def test_a_scenario_without_flexibility_keeps_its_hash() -> None:
    assert "flexibility" not in str(tiny_scenario().model_dump(mode="json"))
