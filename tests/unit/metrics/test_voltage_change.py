"""Rapid voltage changes: a table computed apart, and counts of steps wherever a series
is cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from builders import tiny_run

from diploee.base.measures.streaming import QUANTA_PER_MW, MeasureRunner
from diploee.base.measures.voltage import PER_STEP, POWER, ShortCircuit, VoltageChanges
from diploee.grid.limits import Limits, load_limits

STEP_MS = 100


@pytest.mark.parametrize(
    ("mva", "x_over_r", "before", "after", "percent", "first_order"),
    [
        (2000, 10, (0, 0), (100, 0), 0.6261, 0.4975),
        (2000, 10, (0, 0), (0, 33), 1.6698, 1.6418),
        (2000, 10, (0, 0), (100, 33), 2.3113, 2.1393),
        (2000, 10, (150, 50), (250, 83), 2.7833, 2.1393),
        (500, 5, (0, 0), (50, 0), 2.5191, 1.9612),
        (500, 5, (0, 0), (50, 16.4), 5.9830, 5.1775),
    ],
)
def test_two_buses_have_the_drop_of_the_sheet_and_first_order_is_too_low(
    mva, x_over_r, before, after, percent, first_order
):
    grid, change = ShortCircuit(mva, x_over_r), np.subtract(after, before)
    assert round(float(grid.drop_percent(before, after)), 4) == percent
    z = grid.impedance
    found = 100 * float(z.real * change[0] + z.imag * change[1])
    assert round(found, 4) == first_order < percent


def test_a_loaded_site_has_the_source_of_the_sheet_behind_it():
    assert round(abs(1 + ShortCircuit(2000, 10).impedance * (150 - 50j)), 4) == 1.0349


def test_two_buses_solve_the_power_flow():
    grid, z = ShortCircuit(800, 6), 1 / 800
    r = z / np.sqrt(37)
    impedance = r + 6j * r
    before, after = 120 + 30j, 200 + 75j
    source = 1 + impedance * np.conj(before)
    drop = float(grid.drop_percent((120, 30), (200, 75))) / 100
    # The load's current at the new voltage takes the source's to it.
    v2 = 1 - drop
    behind = abs(v2 + impedance * np.conj(after) / v2)
    assert behind == pytest.approx(abs(source), rel=1e-12)


def test_more_load_than_the_line_carries_is_a_collapse():
    assert np.isnan(ShortCircuit(100, 10).drop_percent((0, 0), (80, 0)))


def flicker_pst(steps_percent):
    """The short-term flicker of separate steps within 10 minutes, by its definition."""
    return float((PER_STEP * np.abs(steps_percent) ** POWER).sum() ** (1 / POWER))


@pytest.mark.parametrize(
    ("n", "size", "pst"), [(10, 1.0, 0.3609), (60, 0.5, 0.3159), (2, 2.0, 0.4365)]
)
def test_flicker_of_separate_steps_is_that_of_the_sheet(n, size, pst):
    assert round(flicker_pst(np.full(n, size)), 4) == pst


def measured(p_mw, q_mvar=None, cuts=(), grid=ShortCircuit(2000, 10)):  # noqa: B008
    found = VoltageChanges(grid, STEP_MS)
    series = MeasureRunner(STEP_MS, [found])
    edges = [0, *cuts, len(p_mw)]
    for a, b in pairwise(edges):
        p, q = (
            None
            if x is None
            else np.rint(np.asarray(x[a:b]) * QUANTA_PER_MW).astype(np.int64)
            for x in (p_mw, q_mvar)
        )
        series.add(a * STEP_MS, p, 0, q)
    return found.result()


def test_steps_are_counted_once_in_each_size_and_by_hour_and_day():
    hour = 36_000
    p_mw = np.full(26 * hour, 100.0)
    for at in (600, 1_200, 1_800, hour + 600, 25 * hour):
        p_mw[at:] += 60 * (1 if at != 1_200 else -1)
    found = measured(p_mw)
    counted = {"total": 5, "most_per_hour": 3, "most_per_day": 4}
    assert found["steps"]["0.25%"] == counted
    grid, levels = ShortCircuit(2000, 10), [100.0, 160.0, 100.0, 160.0, 220.0, 280.0]
    drops = [abs(grid.drop_percent((a, 0), (b, 0))) for a, b in pairwise(levels)]
    for size, counts in found["steps"].items():
        assert counts["total"] == sum(drop >= float(size[:-1]) for drop in drops), size
    assert found["largest_percent"] == pytest.approx(max(drops))


def test_slow_ramps_are_no_steps():
    p_mw = np.linspace(0, 400, 36_000)
    assert measured(p_mw)["steps"]["0.1%"]["total"] == 0


def test_reactive_power_raises_the_change():
    p_mw = np.repeat([0.0, 100.0], 100)
    without, with_q = measured(p_mw), measured(p_mw, p_mw * 0.33)
    assert round(without["largest_percent"], 4) == 0.6261
    assert round(with_q["largest_percent"], 4) == 2.3113


def test_a_spike_is_within_a_smaller_settled_change():
    p_mw = np.repeat([0.0, 100.0], 100)
    p_mw[101] = 200.0
    found = measured(p_mw)
    assert found["within_percent"] > 2 * found["largest_percent"] > 0


def test_ten_steps_in_ten_minutes_have_the_flicker_of_ten():
    grid = ShortCircuit(2000, 10)
    p_mw = np.where(np.arange(6_000) // 550 % 2, 100.0, 0.0)
    sizes = [float(grid.drop_percent((a, 0), (100 - a, 0))) for a in (0.0, 100.0) * 5]
    assert measured(p_mw)["flicker_pst"] == pytest.approx(flicker_pst(sizes), rel=1e-9)


def test_where_a_series_is_cut_changes_nothing():
    rng = np.random.default_rng(3)
    steps = (rng.random(9_000) < 0.002).cumsum() % 2
    p_mw = 100 + np.cumsum(rng.normal(0, 1, 9_000)) + 60 * steps
    q_mvar = 0.3 * p_mw
    whole = measured(p_mw, q_mvar)
    assert whole["steps"]["0.1%"]["total"] > 5
    for seed in range(5):
        cuts = np.random.default_rng(seed).choice(np.arange(1, 8_999), 40, False)
        assert measured(p_mw, q_mvar, np.sort(cuts).tolist()) == whole


def test_a_collapse_is_counted_and_is_the_largest():
    found = measured(np.repeat([0.0, 1_500.0], 100))
    assert found["collapses"] > 0
    assert found["largest_percent"] == 100


SITE = {"site": {"short_circuit_mva": 5.0, "x_over_r": 8.0}, "duration": "1 h"}


def test_run_at_a_tenth_of_a_second_has_the_block_and_says_that_it_is_a_lower_bound(
    tmp_path,
):
    run = tiny_run(tmp_path / "run", SITE | {"resolution": "0.1 s"})
    found = run.metrics["grid"]["voltage_change"]
    power_w = run.facility()["facility_power_w"].to_numpy(np.float64)
    again = measured(power_w / 1e6, grid=ShortCircuit(5.0, 8.0))
    assert found["largest_percent"] == pytest.approx(again["largest_percent"], rel=1e-4)
    assert found["lower_bound"] is True
    notes = " ".join(note for section in run.sections() for note in section.notes)
    assert "lower bounds, as no reactive power" in notes
    (verdict,) = run.limits(Limits(voltage_changes=[{"max_percent": 1e-3}])).results
    assert verdict.verdict == "not met"
    assert verdict.value == pytest.approx(found["largest_percent"], rel=1e-4)
    above = Limits(voltage_changes=[{"max_percent": 99}])
    assert run.limits(above).verdict == "inconclusive"


def test_coarser_runs_and_sites_without_the_facts_have_none_and_say_why(tmp_path):
    coarse = tiny_run(tmp_path / "coarse", SITE)
    assert "voltage_change" not in coarse.metrics["grid"]
    limits = load_limits("dominion_voltage")
    assert "0.1 s" in coarse.limits(limits).unchecked[0].reason
    bare = tiny_run(tmp_path / "bare", {"duration": "1 h"})
    assert "site.short_circuit_mva" in bare.limits(limits).unchecked[0].reason


def test_limits_of_a_run_choose_the_step_that_they_need(tmp_path):
    limits = [load_limits("ameren_voltage")]
    run = tiny_run(tmp_path / "run", SITE, limits=limits)
    assert run.scenario.step_ms == 100
    assert run.verdicts[0].results[0].unit == "%"
    assert run.metrics["grid"]["voltage_change"]["steps"]
