"""A battery: laws of the energy it needs, its balance, its bounds, and what it may not
change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from builders import tiny_run, tiny_scenario

from diploee.base.clock import RunClock
from diploee.base.errors import ScenarioError
from diploee.facility import Block, SiteView
from diploee.facility.base import NamedStage, StageMeters, Stages
from diploee.facility.battery import EXAMPLE, MODES, BatterySpec, ChargeCycles
from diploee.facility.storage import BatteryLimits, SupplyLimits, smooth_supply

MW = 1e6
START = datetime(2018, 1, 31)


def square(
    high: float, low: float, period_s: float, duty: float, dt_s: float, n: int
) -> np.ndarray:
    phase = (np.arange(n) * dt_s % period_s) / period_s
    return np.where(phase < duty - 1e-9, high, low)


def run_of(
    spec: BatterySpec, load_w: np.ndarray, dt_ms: int, cuts: list[int]
) -> dict[str, np.ndarray]:
    clock = RunClock(START, UTC, load_w.size * dt_ms, dt_ms)
    stages = Stages([spec.open(SiteView(clock, 1e8))])
    edges = [0, *cuts, load_w.size]
    blocks = (
        Block(a * dt_ms, dt_ms, {"facility_power_w": load_w[a:b]})
        for a, b in pairwise(edges)
    )
    passed = list(stages.pass_blocks(blocks))
    return {
        key: np.concatenate([b.columns[key] for b in passed])
        for key in passed[0].columns
    }


def holding_battery(
    load_w: np.ndarray,
    asked: SupplyLimits,
    efficiency: float = 1.0,
    feedback_per_s: float = 0.0,
) -> tuple[float, float]:
    """Return power [W] and energy [J] that hold a load at 1 s as the stage does, from
    half full."""
    least_w = 1e-9 * np.ptp(load_w)

    def holds(power_w: float, energy_j: float) -> bool:
        store = BatteryLimits(
            power_w, 0.0, energy_j, energy_j / 2, efficiency, efficiency, feedback_per_s
        )
        held = smooth_supply(
            load_w, 1.0, store, asked, (float(load_w[0]), store.reference_j)
        )
        return held.uncovered_w.max() <= least_w

    def smallest(enough: Callable[[float], bool], most: float) -> float:
        low, high = 0.0, most
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    most_w, most_j = 10 * np.ptp(load_w), 100 * np.ptp(load_w) * load_w.size
    power_w = smallest(lambda p: holds(p, most_j), most_w)
    return power_w, smallest(lambda e: holds(power_w, e), most_j)


@pytest.mark.slow
def test_step_at_a_ramp_needs_half_its_square_over_the_ramp() -> None:
    # 100 MW at 10 MW/min: E = dP^2 / (2 r) = 8.33 MWh, P = dP.
    load_w = np.where(np.arange(1_800) < 300, 0.0, 100 * MW)
    power_w, energy_j = holding_battery(
        load_w, SupplyLimits(10 * MW / 60, 10 * MW / 60)
    )
    # It begins half full, so that it is as large again; discretely dP^2/2r less half a
    # step.
    assert power_w / MW == pytest.approx(100 - 1 / 6, rel=2e-3)
    assert energy_j / (3600 * MW) / 2 == pytest.approx(100**2 / (2 * 600), rel=3e-3)


@pytest.mark.parametrize(("power_mw", "largest_mw"), [(1.3, 0.95), (2.0, 1.66)])
def test_more_power_empties_the_same_energy_and_falls_by_more(
    power_mw: float, largest_mw: float
) -> None:
    """A fall by F = 2 MW held at r = 0.25 MW/min takes P^2 / 2r; what is left falls at
    once."""
    load_w = np.where(np.arange(1200) < 300, 2 * MW, 0.0)
    store = BatteryLimits(power_mw * MW, 0.0, 4 * 60 * MW, 4 * 60 * MW)
    held = smooth_supply(
        load_w, 1.0, store, SupplyLimits(down_w_per_s=0.25 * MW / 60), (2 * MW, 0.0)
    )
    falls_w = held.supply_w[:-60] - held.supply_w[60:]
    assert falls_w.max() / MW == pytest.approx(largest_mw, abs=0.02)


@pytest.mark.parametrize("share", [1.0, 0.9])
def test_a_tenth_less_does_not_hold(share: float) -> None:
    load_w = square(10 * MW, 4 * MW, 120, 0.4, 1.0, 3_600)
    asked = SupplyLimits(0.1 * MW, 0.1 * MW)
    power_w, energy_j = holding_battery(load_w, asked, 0.95, 1 / 3600)
    energy_j *= share
    store = BatteryLimits(power_w, 0.0, energy_j, energy_j / 2, 0.95, 0.95, 1 / 3600)
    held = smooth_supply(load_w, 1.0, store, asked, (load_w[0], store.reference_j))
    steps = np.abs(np.diff(held.supply_w))
    assert (steps.max() <= 0.1 * MW * (1 + 1e-6)) == (share == 1.0)


@pytest.mark.parametrize(("tau_s", "left"), [(30.0, 0.0530), (60.0, 0.0265)])
def test_lag_leaves_its_part_of_a_sine(tau_s: float, left: float) -> None:
    # Sheet, section 5: 1 / sqrt(1 + (2 pi f tau)^2) at 0.1 Hz.
    t_s = np.arange(20_000) * 0.1
    load_w = 10 * MW + MW * np.sin(2 * np.pi * 0.1 * t_s)
    store = BatteryLimits(100 * MW, 0.0, 1e12, 5e11)
    held = smooth_supply(load_w, 0.1, store, SupplyLimits(lag_s=tau_s), (10 * MW, 5e11))
    settled = held.supply_w[-1_000:]
    assert np.ptp(settled) / np.ptp(load_w) == pytest.approx(left, rel=5e-3)


def test_square_wave_held_at_its_mean_needs_the_energy_above_it() -> None:
    # (H - L) d (1 - d) T = 1.04 pu s at H 1, L 0.35, d 0.8, T 10 s; P = (H - L) max(d,
    # 1 - d).
    load_w = square(1.0, 0.35, 10, 0.8, 0.1, 100_000)
    store = BatteryLimits(10.0, 0.0, 1e6, 5e5)
    held = smooth_supply(
        load_w, 0.1, store, SupplyLimits(lag_s=2_000.0), (float(load_w.mean()), 5e5)
    )
    settled = held.stored_j[-10_000:]
    assert np.ptp(settled) == pytest.approx(0.65 * 0.8 * 0.2 * 10, rel=0.02)
    assert np.abs(held.battery_w[-10_000:]).max() == pytest.approx(0.65 * 0.8, rel=0.02)


@pytest.mark.parametrize(("lag_s", "displaced_mwh"), [(0.0, 1.2), (60.0, 0.0)])
def test_ramps_behind_a_lag_hold_the_mean_of_iterations_and_not_their_upper_level(
    lag_s: float, displaced_mwh: float
) -> None:
    """At 10 MW for four fifths of the time, else at 4, ramps alone ask for 10 and not
    for 8.8 MW.

    The store fills until its feedback, of 1 per hour, makes up for the 1.2 MW between
    them.
    """
    load_w = square(10 * MW, 4 * MW, 6, 0.8, 0.2, 180_000)
    store = BatteryLimits(10 * MW, -np.inf, np.inf, 0.0, feedback_per_s=1 / 3600)
    asked = SupplyLimits(5 * MW / 60, 5 * MW / 60, lag_s)
    held = smooth_supply(load_w, 0.2, store, asked, (8.8 * MW, 0.0))
    displaced = held.stored_j[-18_000:].mean() / (3600 * MW)
    assert displaced == pytest.approx(displaced_mwh, abs=0.05)
    assert np.abs(np.diff(held.supply_w)).max() <= 5 * MW / 60 * 0.2 * (1 + 1e-9)


def test_the_supply_makes_up_for_what_the_battery_loses() -> None:
    # Without feedback a store would else run empty: by the losses, some 0.1 MW, in each
    # hour.
    load_w = square(10 * MW, 4 * MW, 6, 0.8, 0.2, 36_000)
    store = BatteryLimits(10 * MW, -np.inf, np.inf, 0.0, 0.95, 0.95)
    held = smooth_supply(load_w, 0.2, store, SupplyLimits(lag_s=60.0), (8.8 * MW, 0.0))
    given_w = held.battery_w
    lost_w = np.where(given_w > 0, given_w * (1 / 0.95 - 1), -given_w * 0.05)
    assert lost_w.mean() > 0.09 * MW
    assert (held.supply_w - load_w).mean() == pytest.approx(lost_w.mean(), rel=0.05)
    assert abs(held.stored_j[-30:].mean()) < 0.02 * lost_w.mean() * 7_200


@pytest.mark.parametrize("dt_ms", [100, 1_000, 60_000])
def test_energy_is_kept_and_the_charge_stays_within_its_bounds(dt_ms: int) -> None:
    rng = np.random.default_rng(3)
    load_w = 8 * MW + 3 * MW * rng.standard_normal(5_000)
    keys = {"smoothing_s": 600.0, "auxiliary_kw": 20.0, "feedback_per_h": 4.0}
    spec = BatterySpec(power_mw=2.0, energy_mwh=0.05, **keys)
    found = run_of(spec, load_w, dt_ms, [])
    charge = found["battery_state_of_charge"]
    assert charge.min() >= 0.1 - 1e-12
    assert charge.max() <= 0.9 + 1e-12
    assert np.abs(found["battery_power_w"]).max() <= 2 * MW
    # Supply = load - given + auxiliary; what is drawn and not given on is stored or
    # lost.
    dt_s = dt_ms / 1_000
    stored_j = np.diff(np.append(0.5, charge)) * 0.05 * 3.6e9
    surplus_j = (found["facility_power_w"] - load_w) * dt_s
    kept_j, near = stored_j + found["battery_loss_w"] * dt_s, 1e-9 * load_w.max() * dt_s
    np.testing.assert_allclose(surplus_j, kept_j, rtol=0, atol=near)


def counted_slowly(series: list[float]) -> list[tuple[float, float]]:
    """Return depths and their counts by the three-point rule of ASTM E1049-85, 5.4.4."""  # noqa: E501
    turns = [
        x
        for k, x in enumerate(series)
        if k in (0, len(series) - 1) or (x - series[k - 1]) * (series[k + 1] - x) < 0
    ]
    points: list[float] = []
    found = []
    for turn in turns:
        points.append(turn)
        while len(points) >= 3:
            x, y = abs(points[-1] - points[-2]), abs(points[-2] - points[-3])
            if x < y:
                break
            if len(points) == 3:
                found.append((y, 0.5))
                del points[0]
            else:
                found.append((y, 1.0))
                del points[-3:-1]
    return found + [(abs(b - a), 0.5) for a, b in pairwise(points)]


def test_rainflow_of_the_charge_is_that_of_the_standard_in_any_blocks() -> None:
    rng = np.random.default_rng(7)
    series = rng.permutation(np.linspace(0.05, 0.95, 400))
    cycles = ChargeCycles()
    for part in np.split(series, sorted(rng.integers(1, 399, 9).tolist())):
        cycles.add(part)
    found, told = cycles.count(), counted_slowly(series.tolist())
    assert found.deepest == pytest.approx(max(depth for depth, _ in told), abs=2e-9)
    assert found.depths == pytest.approx(sum(depth * n for depth, n in told), abs=1e-6)
    for low, high, n in zip(
        (0.01, 0.1, 0.2, 0.5), (0.1, 0.2, 0.5, 1.1), found.classes, strict=True
    ):
        assert n == sum(m for depth, m in told if low <= depth < high)
    # Whatever the classes: the depths are half of all that the charge goes up and down.
    assert found.depths == pytest.approx(np.abs(np.diff(series)).sum() / 2, abs=1e-6)


def test_lossless_battery_cycles_as_deep_as_it_gives_and_takes(tmp_path: Path) -> None:
    size = {"power_mw": 0.01, "energy_mwh": 0.001, "smoothing_s": 600}
    lossless = {"charge_efficiency": 1, "discharge_efficiency": 1}
    stage = {"kind": "battery", **size, **lossless}
    run = tiny_run(tmp_path / "run", {"facility.stages": [stage]})
    told = run.metrics["battery"]
    cycles = told["equivalent_full_cycles"]
    assert told["cycled_depth"] == pytest.approx(cycles, rel=1e-5)
    assert 0 < told["deepest_cycle"] <= 0.8 + 1e-9


def test_what_it_can_not_cover_is_counted(tmp_path: Path) -> None:
    ramps = {"up_mw_per_min": 1e-6, "down_mw_per_min": 1e-6}
    size = {"power_mw": 1e-5, "energy_mwh": 1.0}
    stage = {"kind": "battery", "ramp_limit": ramps, **size}
    run = tiny_run(tmp_path / "run", {"facility.stages": [stage]})
    assert run.metrics["battery"]["uncovered_h"] > 1
    assert run.metrics["battery"]["uncovered_mwh"] > 0


def test_battery_without_a_mode_is_shown_an_entry_of_each_that_runs() -> None:
    with pytest.raises(ScenarioError) as refused:
        tiny_scenario({"facility.stages": [{"kind": "battery"}]})
    for key, example in MODES.items():
        mode = f"{key}: {example}"
        assert mode in str(refused.value)
        tiny_scenario({"facility.stages": [yaml.safe_load(EXAMPLE.format(mode))]})


@pytest.mark.parametrize(
    ("mode", "step_ms"),
    [
        ({"ramp_limit": {"up_mw_per_min": 1}}, 6_000),
        ({"smoothing_s": 300}, 30_000),
        ({"smoothing_s": 0.2}, 100),
    ],
)
def test_it_is_computed_in_tenths_of_its_lag_or_of_a_ramp_s_minute(
    mode: dict[str, Any], step_ms: int
) -> None:
    spec = BatterySpec.model_validate({"power_mw": 1, "energy_mwh": 1, **mode})
    assert spec.needed_step_ms() == step_ms


FULL = {"min_state_of_charge": 0, "max_state_of_charge": 1}


def battery(power_mw: float, energy_mwh: float, **mode: Any) -> BatterySpec:
    return BatterySpec.model_validate(
        {"power_mw": power_mw, "energy_mwh": energy_mwh, **FULL, **mode}
    )


@pytest.mark.parametrize(("target_mw", "uncovered_h"), [(9.05, 0.0), (9.0, 0.1)])
def test_peak_is_shaved_as_long_as_the_energy_lasts(
    target_mw: float, uncovered_h: float
) -> None:
    # Sheet, section 5 (C5): 8 MW with 2 h at 10, 2 MWh full, 0.95 out: 9.05 MW, 1.9 MWh
    # given.
    load_w = np.repeat([8.0, 10.0, 8.0], [60, 120, 60]) * MW
    spec = battery(5, 2, peak_shaving={"target_mw": target_mw})
    found = run_of(spec, load_w, 60_000, [])
    above = found["battery_uncovered_w"] > 1e-3
    assert above.sum() / 60 == pytest.approx(uncovered_h, abs=1 / 60)
    assert (found["facility_power_w"] <= target_mw * MW + 1e-3)[~above].all()
    given_w = np.maximum(found["battery_power_w"], 0)
    assert given_w.sum() / 60 / MW == pytest.approx(1.9, rel=1e-6)
    # It is filled again, but not beyond the target: an hour of what is free below it.
    filled = 0.95 * (target_mw - 8) / 2
    assert found["battery_state_of_charge"][-1] == pytest.approx(filled, abs=1e-3)


def test_the_second_of_two_in_a_chain_covers_what_the_first_leaves() -> None:
    # An hour 3 MW above 8: of 9 MW as the target the first gives its 1 MW, the second
    # the rest.
    load_w = np.repeat([8.0, 11.0, 8.0], [60, 60, 240]) * MW
    spec = battery(1, 2, peak_shaving={"target_mw": 9})
    site = SiteView(RunClock(START, UTC, load_w.size * 60_000, 60_000), 1e8)
    stages = Stages([spec.open(site), NamedStage(spec.open(site), "second")])
    (passed,) = stages.pass_blocks(
        iter([Block(0, 60_000, {"facility_power_w": load_w})])
    )
    meters = StageMeters(stages, ())
    meters.add(passed)
    assert passed.columns["facility_power_w"].max() == pytest.approx(9 * MW)
    for name in ("battery", "second_battery"):
        power_w, found = passed.columns[f"{name}_power_w"], meters.blocks()[name]
        assert found["discharged_mwh"] == pytest.approx(1)
        assert (power_w[60:120] == MW).all()
        taken_mwh = -np.minimum(power_w, 0).sum() / 60 / MW
        # 1 / 0.95 left its 2 MWh; most of it, over 0.95, comes back within 4 h.
        assert 0.8 < taken_mwh * 0.95**2 < 1
        assert found["equivalent_full_cycles"] == pytest.approx((1 + taken_mwh) / 4)


def test_it_charges_and_discharges_in_its_hours() -> None:
    hours = {
        "charge": [{"from_h": 0, "to_h": 12}],
        "discharge": [{"from_h": 12, "to_h": 23}],
    }
    found = run_of(battery(1, 4, time_of_use=hours), np.full(1440, 9 * MW), 60_000, [])
    by_hour = found["battery_power_w"].reshape(24, 60).sum(axis=1) / 60 / MW
    # Half full of 4 MWh: it takes 2 / 0.95, gives 4 * 0.95, and nothing else.
    assert by_hour[:12].sum() == pytest.approx(-2 / 0.95)
    assert by_hour[12:23].sum() == pytest.approx(4 * 0.95)
    assert by_hour[:2].tolist() == [-1] * 2 and by_hour[12:15].tolist() == [1] * 3
    assert by_hour[23] == 0 and not found["battery_uncovered_w"].any()
    # It gives no more than there is to supply.
    small_w = np.full(1440, 0.4 * MW)
    small = run_of(battery(1, 4, time_of_use=hours), small_w, 60_000, [])
    assert small["facility_power_w"].min() == 0


def test_billed_means_stay_at_the_largest_of_the_month_so_far() -> None:
    # Two days of two months: what one can't hold is held from then on, until the next
    # month.
    rng = np.random.default_rng(5)
    load_w = (7 + 4 * rng.random((2, 96, 15))) * MW
    load_w[0, 40:48] += 3 * MW  # beyond power and energy of the battery
    load_w = load_w.ravel()
    spec = battery(1.5, 1.5, demand_charge={"target_mw": 8.5}, feedback_per_h=4)
    found = run_of(spec, load_w, 60_000, [])
    means_mw = (found["facility_power_w"] / MW).reshape(-1, 15).mean(axis=1)
    missed = found["battery_uncovered_w"].reshape(-1, 15).max(axis=1) > 1e-3
    for month in (slice(0, 96), slice(96, 192)):
        before = np.maximum.accumulate(np.append(8.5, means_mw[month]))[:-1]
        assert (means_mw[month] <= before + 1e-9)[~missed[month]].all()
    assert missed[:96].any() and means_mw[:96].max() > means_mw[96:].max() > 8.5 - 1e-9


@pytest.mark.parametrize(
    "modes", [*((mode,) for mode in MODES), ("ramp_limit", "smoothing_s")]
)
def test_a_battery_does_the_same_however_a_run_is_cut(modes: tuple[str, ...]) -> None:
    load_w = (8 + 3 * np.random.default_rng(2).standard_normal(2_000)) * MW
    spec = battery(2, 1, **{mode: yaml.safe_load(MODES[mode]) for mode in modes})
    whole, parts = (
        run_of(spec, load_w, 60_000, cuts) for cuts in ([], [7, 8, 901, 1_447])
    )
    for name, values in whole.items():
        np.testing.assert_array_equal(values, parts[name])
    charge = whole["battery_state_of_charge"]
    assert charge.min() >= -1e-12 and charge.max() <= 1 + 1e-12 and np.ptp(charge) > 0.2
    assert np.abs(whole["battery_power_w"]).max() <= 2 * MW
