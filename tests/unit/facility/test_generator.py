"""A generator: its delay, ramp, least load, hours and fuel by arithmetic, however a run
is cut."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from builders import tiny_run, tiny_scenario
from hypothesis import given
from hypothesis import strategies as st

from diploee.base.clock import RunClock
from diploee.base.errors import ScenarioError
from diploee.facility import Block, SiteView
from diploee.facility.base import Stages
from diploee.facility.generator import GeneratorSpec

MW = 1e6
QUICK = {
    "start_delay_s": 0,
    "min_up_time_min": 0,
    "min_down_time_min": 0,
    "ramp_per_min": 1e6,
}
ZONE = ZoneInfo("America/Denver")


def ran(
    load_mw: np.ndarray,
    dt_s: float = 60,
    cuts: list[int] | None = None,
    start: datetime = datetime(2018, 1, 1),
    **settings: Any,
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return columns, powers in MW, and metrics of a generator of 10 MW over a load."""
    spec = GeneratorSpec.model_validate({"power_mw": 10, **settings})
    dt_ms = round(dt_s * 1000)
    clock = RunClock(start, ZONE, load_mw.size * dt_ms, dt_ms)
    stage = spec.open(SiteView(clock, 100 * MW))
    meter, blocks = stage.meter(), []
    parts = pairwise([0, *(cuts or []), load_mw.size])
    loads = (
        Block(a * dt_ms, dt_ms, {"facility_power_w": load_mw[a:b] * MW})
        for a, b in parts
    )
    for block in Stages([stage]).pass_blocks(loads):
        meter.add(block)
        blocks.append(block)
    columns = {
        k: np.concatenate([b.columns[k] for b in blocks]) for k in blocks[0].columns
    }
    for name in ("generator_w", "generator_fuel_w", "facility_power_w"):
        columns[name] = columns[name] / MW
    return columns, {k.removeprefix("generator."): v for k, v in meter.values().items()}


def step(low: float, high: float, n: int = 60, at: int = 10) -> np.ndarray:
    return np.where(np.arange(n) < at, low, high)


@pytest.mark.parametrize("dt_s", [1, 10, 60, 90])
def test_energy_lacks_the_delay_and_half_of_the_ramp_at_any_step(dt_s: int) -> None:
    # 20 MW above: 10 MW wanted from t; delay 45 s, ramp 60 s: 10 MW (T - 45 s - 30 s).
    n, at = 3600 // dt_s, 900 // dt_s
    columns, told = ran(
        step(0, 20, n, at), dt_s, above_mw=10, start_delay_s=45, ramp_per_min=1
    )
    assert told["energy_mwh"] == pytest.approx(10 * (2700 - 45 - 30) / 3600, rel=1e-12)
    assert told["running_h"] == pytest.approx((2700 - 45) / 3600, rel=1e-12)
    assert told["starts"] == 1 and told["max_mw"] == 10
    assert not columns["generator_w"][:at].any()


def test_output_waits_for_the_delay_and_rises_by_the_ramp() -> None:
    columns, _ = ran(step(0, 20, 60), 10, above_mw=10, start_delay_s=40, ramp_per_min=1)
    given_mw = columns["generator_w"]
    assert not given_mw[:14].any()
    # A sixth of 10 MW in 10 s: the means of the ramp.
    assert given_mw[14:20] == pytest.approx(10 * (np.arange(6) + 0.5) / 6)
    assert (given_mw[20:] == 10).all()
    assert columns["facility_power_w"] == pytest.approx(step(0, 20) - given_mw)


def test_it_gives_what_is_above_between_least_load_and_rated_power() -> None:
    load_mw = np.array([5.0, 11, 14, 19, 25, 10.5])
    columns, _ = ran(load_mw, above_mw=10, hysteresis_mw=1, min_load=0.3, **QUICK)
    assert columns["generator_w"] == pytest.approx([0, 3, 4, 9, 10, 3], rel=1e-6)


def test_it_goes_on_until_demand_has_fallen_by_the_hysteresis() -> None:
    # A demand that goes up and down by 2 MW about 10 MW.
    load_mw = np.tile([11.0, 9.0], 50)
    narrow, wide = (
        ran(load_mw, above_mw=10, hysteresis_mw=mw, **QUICK)[1] for mw in (0.5, 1.5)
    )
    assert narrow["starts"] == 50 and wide["starts"] == 1
    assert wide["running_h"] == pytest.approx(100 / 60)


@pytest.mark.parametrize(
    ("up_min", "down_min", "period"), [(5, 0, 6), (0, 7, 8), (5, 7, 12)]
)
def test_it_stays_on_and_off_for_its_least_times(
    up_min: int, down_min: int, period: int
) -> None:
    # Wanted every other minute: on at least up, off at least down, and turned at the
    # next minute at which that is wanted.
    load_mw = np.tile([11.0, 9.0], 60)
    quick = {**QUICK, "min_up_time_min": up_min, "min_down_time_min": down_min}
    columns, told = ran(load_mw, above_mw=10, **quick)
    on = columns["generator_running"] > 0.5
    turns = np.diff(np.flatnonzero(np.diff(on.astype(int))) + 1)
    assert on[0] and turns[::2].min() >= down_min and turns[1::2].min() >= up_min
    assert told["starts"] == 120 // period


def test_it_runs_in_local_hours_past_midnight_and_a_change_of_the_clock() -> None:
    # 2018-03-11 lacks 02:00 to 03:00 in Denver: 22:00 to 06:00 is seven hours that
    # night.
    hours = [{"from_h": 22, "to_h": 6}]
    start = datetime(2018, 3, 9)
    columns, told = ran(np.full(72, 20.0), 3600, start=start, schedule=hours, **QUICK)
    assert told["running_h"] == pytest.approx(6 + 8 + 7 + 3, rel=1e-4)
    assert told["energy_mwh"] == pytest.approx(10 * 24, rel=1e-4)
    assert columns["generator_w"][0] == 10  # it was on before
    assert told["starts"] == 3


@pytest.mark.parametrize(
    ("of", "days"),
    [
        ({"days": "weekdays"}, 5),
        ({"days": "weekends"}, 2),
        ({"first": "2018-01-03"}, 5),
        ({"first": "2018-01-03", "last": "2018-01-04"}, 2),
        ({"last": "2018-01-02"}, 2),
    ],
)
def test_its_schedule_takes_days_and_dates(of: dict[str, str], days: int) -> None:
    _, told = ran(
        np.full(168, 20.0), 3600, schedule=[{"from_h": 8, "to_h": 20, **of}], **QUICK
    )
    assert told["running_h"] == pytest.approx(12 * days, rel=1e-4)


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_fuel_is_energy_over_efficiency_and_the_part_without_load(share: float) -> None:
    load_mw = np.full(600, 10 + 10 * share)
    settings = {"above_mw": 10, "efficiency": 0.4, **QUICK}
    _, told = ran(load_mw, **settings, no_load_fuel=0)
    assert told["fuel_mwh"] == pytest.approx(told["energy_mwh"] / 0.4, rel=1e-12)
    _, told = ran(load_mw, **settings, no_load_fuel=0.1)
    # At its rated power the efficiency is that; below it, 0.1 of the fuel is not saved.
    per_mwh = (0.1 / share + 0.9) / 0.4
    assert told["fuel_mwh"] == pytest.approx(told["energy_mwh"] * per_mwh, rel=1e-5)


@given(
    st.lists(st.floats(0, 30), min_size=2, max_size=60),
    st.sets(st.integers(1, 59), max_size=5),
    st.sampled_from([{"above_mw": 10}, {"schedule": [{"from_h": 0.1, "to_h": 0.4}]}]),
    st.sampled_from([0, 7, 130]),
)
def test_a_run_is_the_same_however_it_is_cut(
    load: list[float], cuts: set[int], mode: dict[str, Any], delay_s: float
) -> None:
    settings = {
        **mode,
        "start_delay_s": delay_s,
        "min_up_time_min": 3,
        "min_down_time_min": 2,
    }
    inside = sorted(cut for cut in cuts if cut < len(load))
    whole, _ = ran(np.array(load), **settings)
    parts, _ = ran(np.array(load), cuts=inside, **settings)
    for name, values in whole.items():
        np.testing.assert_array_equal(values, parts[name])
    given_mw = whole["generator_w"]
    assert given_mw.min() >= 0 and given_mw.max() <= 10
    # Means of a ramp of 10 MW/min are no further apart than it goes in an interval.
    assert np.abs(np.diff(given_mw)).max(initial=0) <= 10 + 1e-9


@pytest.mark.parametrize(
    ("settings", "step_ms"),
    [
        ({}, 6_000),
        ({"start_delay_s": 10}, 1_000),
        ({"ramp_per_min": 6, "start_delay_s": 0}, 1_000),
        ({"ramp_per_min": 600}, 100),
    ],
)
def test_it_is_computed_in_tenths_of_its_delay_or_ramp(
    settings: dict[str, float], step_ms: int
) -> None:
    spec = GeneratorSpec.model_validate({"power_mw": 1, "above_mw": 0, **settings})
    start_s = {"start_delay_s": 60.0, **settings}["start_delay_s"]
    assert spec.needed_step_ms() == step_ms
    assert step_ms == 100 or not start_s or step_ms <= start_s * 100


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "found neither"),
        ({"above_mw": 1, "schedule": [{"from_h": 1}]}, "found both"),
        (
            {"schedule": [{"from_h": 1}], "hysteresis_mw": 1},
            "leave it out with a sch",
        ),
        ({"schedule": [{"from_h": 24}]}, "let them differ"),
        ({"schedule": [{"first": "2018-02-01", "last": "2018-01-01"}]}, "swap them"),
    ],
)
def test_settings_that_fight_are_refused(settings: dict[str, Any], words: str) -> None:
    stage = {"kind": "generator", "power_mw": 1, **settings}
    with pytest.raises(ScenarioError, match=words):
        tiny_scenario({"facility.stages": [stage]})


def test_a_run_has_its_energy_as_a_part_and_is_computed_at_its_step(
    tmp_path: Any,
) -> None:
    hours = [{"from_h": 6, "to_h": 7}]
    stage = {"kind": "generator", "power_mw": 0.01, "schedule": hours}
    run = tiny_run(tmp_path / "run", {"facility.stages": [stage], "duration": "12 h"})
    told = run.metrics["generator"]
    given_w = run.facility(["generator_w"])["generator_w"]
    # Delay and ramps of a minute each: 60 min less 1 min, and half of each of two
    # ramps.
    assert told["energy_mwh"] == pytest.approx(0.01 * 59 / 60, rel=1e-9)
    assert given_w.sum() / 60e6 == pytest.approx(told["energy_mwh"], rel=1e-6)
    assert told["starts"] == 1
    assert run.scenario.step_ms == 6_000
