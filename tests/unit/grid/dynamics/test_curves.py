"""Verdicts of named curves: the points that each curve was published with, and each
word."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from diploee.grid.dynamics.block_ride_through import Voltage, simulate_response
from diploee.grid.dynamics.curves import CURVES, check_compliance, inside_trips
from diploee.grid.dynamics.events import EVENTS, Event
from diploee.grid.dynamics.ride_through_study import LoadBlock, ResponseCase
from diploee.scenario.ride_through import RideThrough

PERC1 = RideThrough(preset="perc1")


def judged(curve, settings, voltage, frequency=(), mw=100.0):
    event = Event("test", "", series=voltage, frequency=frequency)
    found = simulate_response(settings, voltage, mw)
    blocks = (LoadBlock("it", "it", settings, np.array([mw]), found),)
    case = ResponseCase("P50", None, None, voltage, blocks, 3600.0)
    return check_compliance(
        CURVES[curve], event, voltage, case.site_power, case.settings_and_responses()
    )


def dip(length, residual, at=0.0):
    return Voltage((at - 1.0, at, at + length), (1.0, residual, 1.0))


def test_static_check_gives_the_shortest_dips_of_the_sheet():
    found = {at.zone: at for at in inside_trips(CURVES["ercot_nogrr282"], PERC1)}
    assert {zone: round(at.shortest_s * 1e3, 2) for zone, at in found.items()} == {
        "0.20-0.50 pu": 26.42,
        "0.00-0.20 pu": 19.48,
    }


def test_a_curve_that_stays_in_all_zones_is_found_to_stay_by_a_little():
    stays = RideThrough(preset="rides_ercot")
    assert inside_trips(CURVES["ercot_nogrr282"], stays) == []
    for k, (level, time_s, at_pu, shortest_ms) in enumerate(
        [
            (0.2, 0.3, 0.0, 327.73),
            (0.5, 0.4, 0.2, 410.22),
            (0.8, 0.7, 0.5, 691.89),
            (0.9, 2.5, 0.8, 2500.0),
        ]
    ):
        sooner = [s.model_dump() for s in stays.stages]
        assert (sooner[k]["voltage_pu"], sooner[k]["time_s"]) == (level, time_s)
        required = {0.0: 0.15, 0.2: 0.25, 0.5: 0.5, 0.8: 2.0}[at_pu]
        sooner[k]["time_s"] -= shortest_ms / 1e3 - required + 1e-4
        changed = RideThrough(preset="rides_ercot", stages=sooner)
        zones = [at.at_pu for at in inside_trips(CURVES["ercot_nogrr282"], changed)]
        assert at_pu in zones


def test_any_stage_between_0_9_and_1_1_pu_trips_where_a_load_must_stay_for_ever():
    early = RideThrough(stages=({"voltage_pu": 0.95, "time_s": 60.0},))
    assert inside_trips(CURVES["ercot_nogrr282"], early)[0].ridden_s == inf


@pytest.mark.parametrize(
    ("curve", "word"),
    [
        ("ercot_nogrr282", "met"),
        ("aemc_draft_2026_03", "met"),
        ("aemc_draft_2026_03_automatic", "not met"),
        ("eirgrid_mpid345", "not met"),
        ("ieso_3_0", "not met"),
    ],
)
def test_default_stage_is_back_as_soon_as_the_sheet_says(curve, word):
    found = judged(curve, PERC1, dip(0.066, 0.40))
    (took_s,) = found.recovered_s
    assert round(took_s, 4) == (1.0574 if curve == "ieso_3_0" else 0.9574)
    assert found.verdict == word
    assert found.ceased_inside is (True if curve.startswith("ercot") else None)
    assert ("recovery alone" in found.why) == (not curve.startswith("ercot"))


def test_caiso_s_two_rules_meet_for_small_loads_alone():
    assert (
        judged("caiso_straw_2026_06", PERC1, dip(0.066, 0.40), mw=0.3).verdict == "met"
    )
    found = judged("caiso_straw_2026_06", PERC1, dip(0.066, 0.40))
    assert found.verdict == "not met"
    assert "restores 6,000 MW/min, 20 allowed" in found.why
    assert found.recovered_s[0] < 3


def test_a_counter_is_not_met_where_it_is_prohibited_without_any_dip():
    counts = RideThrough(preset="counter_3_in_60s")
    flat = Voltage((0.0,), (1.0,))
    assert judged("ercot_nogrr282", counts, flat).verdict == "not met"
    assert judged("caiso_straw_2026_06", counts, flat).verdict == "met"


@pytest.mark.parametrize(
    ("voltage", "frequency"),
    [
        (dip(0.3, 0.4), ()),
        (dip(0.16, 0.1), ()),
        (dip(0.01, 1.25), ()),
        (dip(0.05, 0.4), ((0.0, 60.0), (1.0, 56.9), (1.1, 60.0))),
        (dip(0.05, 0.4), ((0.0, 60.0), (1.0, 58.0), (301.0, 60.0))),
    ],
)
def test_a_disturbance_beyond_the_curve_is_not_required(voltage, frequency):
    assert judged("ercot_nogrr282", PERC1, voltage, frequency).verdict == "not required"


def test_a_frequency_within_its_time_is_required():
    frequency = ((0.0, 60.0), (1.0, 58.0), (299.0, 60.0))
    assert judged("ercot_nogrr282", PERC1, dip(0.05, 0.4), frequency).verdict == "met"


@pytest.mark.parametrize(
    ("curve", "hz", "word"),
    [
        ("eirgrid_mpid345", 59.49, "not required"),
        ("eirgrid_mpid345", 59.5, "met"),
        ("ieso_3_0", 57.4, "not required"),
        ("ieso_3_0", 57.6, "met"),
        ("ercot_nogrr282", 59.0, "met"),
    ],
)
def test_a_frequency_that_changes_faster_than_a_curve_asks_is_not_required(
    curve, hz, word
):
    stays = RideThrough(preset="rides_ercot")
    frequency = ((0.0, 60.0), (1.0, 60.0), (1.5, hz), (3.0, hz))
    assert judged(curve, stays, dip(0.05, 0.4), frequency).verdict == word


def test_a_slow_change_of_frequency_is_ridden_through_whatever_its_size():
    slow = tuple((0.25 * k, 60 - 0.2 * k) for k in range(12))
    stays = RideThrough(preset="rides_ercot")
    assert judged("eirgrid_mpid345", stays, dip(0.05, 0.4), slow).verdict == "met"


def test_ceasing_under_a_curve_without_a_recovery_is_inconclusive():
    deep = RideThrough(stages=({"voltage_pu": 0.7, "time_s": 0.03},))
    assert judged("spp_hill", deep, dip(0.1, 0.55)).verdict == "inconclusive"
    assert judged("spp_hill", PERC1, dip(0.1, 0.55)).verdict == "met"
    assert judged("spp_hill", PERC1, dip(0.1, 0.45)).verdict == "not required"


def test_a_load_that_leaves_without_a_dip_meets_no_curve():
    gone = RideThrough(stages=({"voltage_pu": 1.1, "time_s": 0.1, "side": "over"},))
    for curve in ("ercot_nogrr282", "eirgrid_mpid345"):
        found = judged(curve, gone, dip(1.0, 1.15))
        assert (found.verdict, found.recovered_s) == ("inconclusive", ())
        stays = judged(curve, RideThrough(preset="rides_ercot"), dip(1.0, 1.15))
        assert stays.verdict == "met"
        assert stays.why.startswith("no load leaves")


def test_a_load_that_leaves_at_normal_voltage_is_not_met_where_it_must_stay_for_ever():
    early = RideThrough(preset="four_stages")
    assert judged("ercot_nogrr282", early, dip(3.0, 0.93)).verdict == "not met"
    assert judged("eirgrid_mpid345", early, dip(3.0, 0.93)).verdict == "inconclusive"


def test_a_dip_that_follows_too_soon_leaves_the_one_before_inconclusive():
    slow = RideThrough(
        preset="perc1", recovery={"voltage_pu": 0.6, "time_s": 0.05, "ramp_s": 0.4}
    )
    twice = Voltage((-1, 0, 0.1, 0.3, 0.4), (1, 0.3, 1, 0.3, 1))
    found = judged("ercot_nogrr282", slow, twice)
    assert found.verdict == "inconclusive"
    assert found.recovered_s[0] == inf


def test_a_load_that_is_never_back_does_not_meet_any_recovery():
    gone = RideThrough(stages=({"voltage_pu": 0.7, "time_s": 0.03},))
    for curve in (
        "ercot_nogrr282",
        "caiso_straw_2026_06",
        "ieso_3_0",
        "eirgrid_mpid345",
    ):
        assert judged(curve, gone, dip(0.1, 0.3)).verdict == "not met"


def test_the_event_of_2024_ships_as_facts():
    event = EVENTS["nerc_2024_07_10"]
    assert [round(length * 1e3) for _, length in event.dips] == [42, 66, 58, 50, 66, 59]
    assert max(start for start, _ in event.dips) == 81.665
    assert any("1,260" in fact for fact in event.facts)
