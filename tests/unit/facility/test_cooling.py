"""Cooling plants: values computed apart, lags, tables, what they count, and what they
refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from hypothesis import given, settings
from hypothesis import strategies as st
from weather_writers import write_epw

from diploee import run as simulate
from diploee.base.clock import RunClock
from diploee.base.errors import InputError
from diploee.base.units import MS_PER_H
from diploee.facility import STAGES, Block, SiteView, Weather
from diploee.facility.cooling import HEAT, HEATS, STEP_K, Cooling
from diploee.facility.wse import (
    WaterPlant,
    chiller_cop,
    fan_power,
    free_cooling_share,
    pump_power,
    return_water_c,
    tower_fan_power,
)

RATED_W = 10e6
KINDS = ("wse", "dlc_tower", "air_chiller")


def weather(wet_c: Any, dry_c: Any = None) -> Weather:
    """Weather at every hour."""
    wet_c = np.asarray(wet_c, dtype=float)
    dry_c = wet_c + 5 if dry_c is None else np.asarray(dry_c, dtype=float)
    time_ms = np.arange(wet_c.size, dtype=np.int64) * MS_PER_H
    return Weather(time_ms, dry_c, wet_c, np.full(wet_c.size, 1e5), "given", True)


def opened(kind: str, air: Weather, **keys: Any) -> Cooling:
    span_ms = (air.time_ms.size - 1) * MS_PER_H
    clock = RunClock(datetime(2023, 1, 1), UTC, span_ms, 1_000)
    site = SiteView(clock, RATED_W, True, air)
    plant = STAGES.read({"kind": kind, **keys}).open(site)
    assert isinstance(plant, Cooling)
    return plant


def passed(plant: Cooling, heat_w: Any, dt_ms: int) -> dict[str, Any]:
    """Columns behind a plant."""
    heat_w = np.asarray(heat_w, dtype=float)
    columns = {"facility_power_w": heat_w, "it_ac_power_w": heat_w}
    columns["facility_reactive_var"] = np.zeros(heat_w.size)
    found, _ = plant.apply(Block(0, dt_ms, columns), plant.start())
    return {**columns, **found}


def ratio(kind: str, load: float, temperature_c: float) -> float:
    """Steady cooling power over heat, through the whole stage."""
    air = weather([temperature_c] * 3, [temperature_c] * 3)
    plant = opened(kind, air, design_heat_mw=2.0)
    found = passed(plant, [load * 2e6] * 4, 60_000)
    assert np.ptp(found["cooling_w"]) < 1e-6
    return float(found["cooling_w"][0] / (load * 2e6))


OF_SHEET = {
    ("wse", 1): {
        15: 0.0619,
        18: 0.0987,
        20: 0.1390,
        22: 0.1868,
        25: 0.2494,
        27: 0.2583,
    },
    ("wse", 0.4): {15: 0.0387, 22: 0.1580},
    ("dlc_tower", 1): {15: 0.0315, 22: 0.0440, 25: 0.0502},
    ("dlc_tower", 0.4): {15: 0.0197},
    ("air_chiller", 1): {5: 0.0636, 15: 0.1253, 20: 0.1747, 30: 0.2518, 40: 0.3290},
}


@pytest.mark.parametrize(("kind", "load"), OF_SHEET)
def test_cooling_over_heat_is_that_of_the_sheet(kind: str, load: float) -> None:
    for temperature_c, expected in OF_SHEET[kind, load].items():
        found = ratio(kind, load, temperature_c)
        assert found == pytest.approx(expected, abs=1e-4), temperature_c


@pytest.mark.parametrize(
    ("dry_c", "wet_c", "pue"),
    [(20, 12.3, 1.08872), (0, -2.29, 1.0881), (30, 21.93, 1.2971), (35, 21.4, 1.2801)],
)
def test_the_equations_give_the_pue_that_lei_and_masanet_print(
    dry_c: float, wet_c: float, pue: float
) -> None:
    """Their site and wet-bulb temperatures (sheet, section 3.1): 20, 0, 30 and 35 deg
    C."""

    def density(temperature_c: float) -> float:
        return 1.293 * 273.15 / (temperature_c + 273.15)

    supply_c, rise_k, water_k, tower_k = 27.3671875, 18.8856337, 7.50488281, 4.13867188
    approach_k = 6.50576172
    losses = 1 / 0.980302734 - 1 + 1 / (1 - 0.00560546875) - 1 + 0.00181445313
    heat = 1 + losses
    load = heat / 0.986289063
    air = density(supply_c)
    room_fans = fan_power(heat, 416.992188, 0.713720703, rise_k, air, 1010)
    return_c = return_water_c(supply_c, rise_k, 0.816601563, water_k)
    free = free_cooling_share(wet_c, return_c, approach_k + 2.29404297, water_k)
    cop = chiller_cop(wet_c + approach_k, 0.224023438, 0.105488281)
    chillers = load * (1 - free) / cop
    pumps = free * pump_power(load, 156_284.191, 0.668945312, water_k)
    pumps += (1 - free) * pump_power(load, 171_884.552, 0.745117188, water_k)
    rejected = load + chillers
    pumps += pump_power(rejected, 210_534.680, 0.709960938, tower_k)
    tower_fans = tower_fan_power(
        rejected, 148.339844, 0.745947266, tower_k, 1.11914062, density(dry_c)
    )
    found = heat + room_fans + chillers + pumps + tower_fans
    assert found == pytest.approx(pue, abs=1e-3)


@pytest.mark.parametrize("dt_ms", [100, 60_000, 600_000])
def test_a_lag_is_exact_at_every_interval(dt_ms: int) -> None:
    plant = opened("wse", weather([15] * 3), design_heat_mw=1.0, time_constants_s=[300])
    n = 600_000 // dt_ms
    # From the steady start at nothing
    heat_w = np.concatenate([[0.0], np.full(2 * n, 1e6)])
    lagged = passed(plant, heat_w, dt_ms)[HEAT][1:] / 1e6
    assert lagged[:n].mean() == pytest.approx(0.567667642, abs=1e-9)
    # The end of the ten minutes is where the next interval begins.
    later = 1 - np.exp(-2) * (300e3 / dt_ms) * -np.expm1(-dt_ms / 300e3)
    assert lagged[n] == pytest.approx(later, abs=1e-9)


def test_lags_in_a_row_are_those_of_a_fine_simulation() -> None:
    plant = opened("wse", weather([15] * 3), design_heat_mw=1.0)
    rng = np.random.default_rng(1)
    heat_w = np.repeat(rng.uniform(2e5, 1e6, 20), 2)
    coarse = passed(plant, heat_w, 60_000)[HEAT]
    # Euler's method in steps of 10 ms: 120 s and 300 s one after the other.
    room = water = heat_w[0]
    means = []
    for value in heat_w:
        total = 0.0
        for _ in range(6_000):
            water += (room - water) * 0.01 / 300
            room += (value - room) * 0.01 / 120
            total += water
        means.append(total / 6_000)
    np.testing.assert_allclose(coarse, means, rtol=2e-4)


@pytest.mark.parametrize(
    ("tau_s", "frequency_hz", "expected"),
    [(300, 0.01, 0.053), (300, 0.1, 0.0053), (60, 0.01, 0.256), (60, 0.1, 0.0265)],
)
def test_swings_are_attenuated_and_not_scaled_by_the_pue(
    tau_s: float, frequency_hz: float, expected: float
) -> None:
    plant = opened(
        "wse", weather([22] * 4), design_heat_mw=10.0, time_constants_s=[tau_s]
    )
    time_s = (np.arange(72_000) + 0.5) / 10
    swing_w = 5e5 * np.sin(2 * np.pi * frequency_hz * time_s)
    found = passed(plant, 7e6 + swing_w, 100)
    late = slice(36_000, None)
    size_w = np.ptp(found[HEAT][late]) / 2
    assert size_w / 5e5 == pytest.approx(expected, rel=0.02)
    # At 0.1 Hz the POI sees the swing of the load, not the 19 % more of a PUE of 1.19.
    behind = np.ptp(found["facility_power_w"][late]) / np.ptp(swing_w[late])
    assert behind == pytest.approx(1.0, abs=0.3 * expected + 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_is_the_model_but_where_chillers_change_their_state(
    kind: str,
) -> None:
    rng = np.random.default_rng(3)
    hours = rng.uniform(-20, 30, 2_000)
    plant = opened(kind, weather(hours, hours), time_constants_s=[])
    load = rng.uniform(0.1, 1.4, hours.size - 1)
    found = passed(plant, load * plant.design_w, MS_PER_H)["cooling_w"] / plant.design_w
    middle_c = (hours[1:] + hours[:-1]) / 2
    error = np.abs(found - plant.plant.relative_power(load, middle_c)) / load
    # Where a chiller starts or comes to its least or full load, power goes over within
    # a cell.
    free = free_cooling_share(middle_c, WaterPlant().return_c, 7.0, 7.5)
    changes = np.array([0.05, 0.225, 0.45, 0.675, 1.0])
    apart = np.abs((load * (1 - free))[:, None] - changes).min(axis=1)
    near = apart < STEP_K / 7.5 * load + HEATS[1]
    if kind == "air_chiller":
        near[:] = False
    assert error[~near].max() < 1e-4
    assert near.mean() < 0.2
    assert error.max() < 0.006


@given(
    st.sampled_from(KINDS),
    st.lists(st.floats(-40, 32), min_size=2, max_size=6),
    st.lists(st.floats(0, 1.2), min_size=1, max_size=20),
    st.sampled_from([100, 60_000, MS_PER_H]),
)
@settings(max_examples=60, deadline=None)
def test_any_weather_and_load_give_finite_power(
    kind: str, wet_c: list[float], loads: list[float], dt_ms: int
) -> None:
    plant = opened(kind, weather(wet_c * 20))
    found = passed(plant, np.array(loads) * RATED_W, dt_ms)
    assert all(np.isfinite(values).all() for values in found.values())
    assert (found["cooling_w"] >= 0).all()
    sum_w = np.array(loads) * RATED_W + found["cooling_w"]
    np.testing.assert_allclose(found["facility_power_w"], sum_w, rtol=1e-12)


def without_frost(kind: str) -> dict[str, Any]:
    off = {"frost_fraction": 0}
    return {"rest": off} if kind == "dlc_tower" else off


def test_warmer_air_never_costs_less_where_no_chiller_starts() -> None:
    # A chiller that starts lets all run at a better part load: not monotone within the
    # economizer.
    for load in (0.3, 0.7, 1.0):
        for kind, temperatures_c in (
            ("wse", np.linspace(-20, 15.4, 30)),
            ("wse", np.linspace(23.5, 30, 30)),
            ("dlc_tower", np.linspace(23.5, 30, 30)),
            ("air_chiller", np.linspace(-20, 50, 300)),
        ):
            spec = opened(kind, weather([10, 10]), **without_frost(kind)).plant
            loads = np.full(temperatures_c.size, load)
            power = spec.relative_power(loads, temperatures_c)
            # The dry coolers' fans stop
            gone = 0.02 if kind == "air_chiller" else 1e-12
            assert np.diff(power).min() >= -gone


@pytest.mark.parametrize("kind", KINDS)
def test_fans_slow_down_in_the_cold_until_heaters_need_more(kind: str) -> None:
    warm, cool, freezing, cold = (ratio(kind, 1, t) for t in (5, 1, 0, -20))
    assert warm > cool > freezing
    assert cold < ratio(kind, 1, 15)
    plant = opened(kind, weather([-20, -20]), **without_frost(kind)).plant
    without = float(plant.relative_power(np.array([1.0]), np.array([-20.0]))[0])
    assert cold - without == pytest.approx(0.003, rel=1e-6)


def test_tower_fans_take_the_air_that_holds_the_water() -> None:
    # at 18 deg C of water and 0 deg C outside, 4.75 / 18 of the air; of 250 Pa over
    # 0.775
    fan = tower_fan_power(1.0, 250.0, 0.775, 5.0, 2.0)
    chillers_off = ratio("wse", 1, 13.25)
    saved = chillers_off - ratio("wse", 1, 0)
    assert saved == pytest.approx(fan * (1 - 4.75 / 18), rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "keys", "least"),
    [
        (
            "wse",
            {"supply_air_c": 10.0, "min_tower_water_c": 21.0},
            "min_tower_water_c",
        ),
        ("air_chiller", {"chilled_water_c": 8.0}, "min_condensing_c"),
    ],
)
def test_chillers_gain_nothing_from_colder_condensers_than_they_bear(
    kind: str, keys: dict[str, float], least: str
) -> None:
    heat, outside_c = np.array([1.0]), np.array([8.0])
    held, free = (
        opened(kind, weather([8, 8]), **given).plant.relative_power(heat, outside_c)[0]
        for given in (keys, keys | {least: -40})
    )
    assert held > free


def test_cooling_follows_the_weather_linearly_in_time() -> None:
    plant = opened("wse", weather([18, 20, 19]))
    found = passed(plant, [5e6] * 120, 60_000)
    expected = np.interp(np.arange(120) + 0.5, [0, 60, 120], [18, 20, 19])
    np.testing.assert_allclose(found["t_wetbulb_c"], expected, atol=1e-12)


def metered(plant: Cooling, heat_w: Any, dt_ms: int) -> dict[str, float | None]:
    meter = plant.meter()
    found = passed(plant, heat_w, dt_ms)
    middle = found[HEAT].size // 3
    for part in (slice(0, middle), slice(middle, None)):
        begin_ms = (part.start or 0) * dt_ms
        meter.add(Block(begin_ms, dt_ms, {name: v[part] for name, v in found.items()}))
    return dict(meter.values())


def test_hours_beyond_the_set_point_and_outside_the_model_are_counted() -> None:
    # From 20 to 24 deg C within an hour: beyond 22 half of it; then all; from 32 to 28
    # half above the 30.25 deg C up to which chillers' condensers are known.
    plant = opened("dlc_tower", weather([20, 24, 24, 32, 28]))
    for dt_ms in (1_000, 60_000, MS_PER_H):
        values = metered(plant, np.full(4 * MS_PER_H // dt_ms, 5e6), dt_ms)
        assert values["cooling.hours_beyond_set_point"] == pytest.approx(3.5)
        expected = 1.75 / 8 + 1.75 / 4
        assert values["cooling.clamped_h"] == pytest.approx(expected)
        assert values["cooling.hours_above_rating"] == 0
    of_chillers = metered(opened("wse", weather([20, 20])), [1e6], 60_000)
    assert of_chillers["cooling.hours_beyond_set_point"] is None


def test_heat_above_the_design_is_cooled_and_counted() -> None:
    plant = opened("wse", weather([25] * 4), design_heat_mw=8.0)
    values = metered(plant, [8e6, 12e6, 12e6], MS_PER_H)
    assert values["cooling.hours_above_rating"] == 2
    assert values["cooling.max_load"] == pytest.approx(1.5, abs=0.05)
    found = passed(plant, [8e6, 16e6, 16e6], MS_PER_H)["cooling_w"]
    # 16 MW is beyond the table, which goes on straight
    assert found[2] > 1.7 * found[0]
    assert values["cooling.energy_mwh"] == pytest.approx(
        passed(plant, [8e6, 12e6, 12e6], MS_PER_H)["cooling_w"].sum() / 1e6
    )


POINTS = [
    [t, load, 0.05 + 0.01 * t * load]
    for t in (0.0, 10.0, 25.0)
    for load in (0.25, 0.5, 1.0)
]


def over_heat(air: Weather, load: float, **keys: Any) -> float:
    """Return what the measured plant draws over its heat at a load."""
    plant = opened("cooling_table", air, points=POINTS, **keys)
    heat_w = load * RATED_W
    return float(passed(plant, [heat_w] * 2, 60_000)["cooling_w"][0] / heat_w)


def test_a_measured_table_gives_its_points_and_lines_between_them() -> None:
    at_10_c, by_dry = weather([10, 10]), weather([0, 0], [25, 25])
    for load in (0.25, 0.5, 1.0):
        assert over_heat(at_10_c, load) == pytest.approx(0.05 + 0.1 * load)
    half = over_heat(at_10_c, 0.75) * 0.75
    assert half == pytest.approx((0.5 * 0.1 + 0.15) / 2)
    assert over_heat(by_dry, 1, temperature="dry_bulb") == pytest.approx(0.30)
    warm = opened("cooling_table", weather([30, 30]), points=POINTS)
    assert metered(warm, [5e6] * 60, 60_000)["cooling.clamped_h"] == pytest.approx(1)


def test_a_measured_table_comes_from_a_file_as_well(tmp_path: Path) -> None:
    lines = ["# our site, 2024", "temperature_c,load,cooling_ratio"]
    path = tmp_path / "cooling.csv"
    lines += [",".join(map(str, point)) for point in POINTS]
    path.write_text("\n".join(lines) + "\n")
    spec = STAGES.read({"kind": "cooling_table", "path": "cooling.csv"})
    assert spec.files == ("cooling.csv",)
    clock = RunClock(datetime(2023, 1, 1), UTC, MS_PER_H, 1_000)
    site = SiteView(clock, RATED_W, True, weather([10, 10]), tmp_path)
    inline = opened("cooling_table", weather([10, 10]), points=POINTS)
    heat_w = np.linspace(0, 1.3, 50) * RATED_W
    found = passed(spec.open(site), heat_w, 60_000)["cooling_w"]
    np.testing.assert_array_equal(found, passed(inline, heat_w, 60_000)["cooling_w"])
    path.write_text(path.read_text().replace("10.0,0.5,", "10.0,-0.5,"))
    with pytest.raises(InputError, match=r"cooling\.csv:7: column 'load' is '-0\.5'"):
        spec.open(site)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"kind": "wse", "time_constants_s": [60, 60.2]}, "must differ by 1 %"),
        ({"kind": "wse", "time_constants_s": [0]}, "must be from 0.1 to 1e\\+06 s"),
        ({"kind": "cooling_table"}, "either points or path"),
        ({"kind": "cooling_table", "points": POINTS[:4]}, "one point for each"),
        (
            {"kind": "cooling_table", "points": [*POINTS[:-1], POINTS[0]]},
            "has no point at 25",
        ),
        (
            {"kind": "cooling_table", "points": [[0, 1, -0.1], [9, 1, 0.1]]},
            "of point 1 must be",
        ),
    ],
)
def test_keys_that_can_not_be_are_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        STAGES.read(keys)


@pytest.mark.parametrize(
    ("site", "text"),
    [
        (
            {"ac": False},
            r"needs the power that the nodes draw at their .*<name>\.ac_power",
        ),
        ({"weather": None}, r"needs the weather; give facility\.weather"),
        ({"rated_power_w": 0.0}, "needs a design heat above 0"),
    ],
)
def test_a_plant_without_what_it_needs_is_refused(
    site: dict[str, Any], text: str
) -> None:
    clock = RunClock(datetime(2023, 1, 1), UTC, MS_PER_H, 1_000)
    whole = {"rated_power_w": RATED_W, "ac": True, "weather": weather([10, 10])}
    with pytest.raises(InputError, match=text):
        STAGES.read("wse").open(SiteView(clock, **{**whole, **site}))


def tiny_site(**changes: Any) -> Any:
    """The tiny scenario at its AC input, cooled."""
    keys = {"duration": "26 h", "facility.utc_offset": "-07:00", **changes}
    return tiny_scenario(keys | {"facility.node_types.node.ac_power": "dlc"})


def test_a_run_names_its_weather_file_and_warns_of_what_the_model_does_not_hold(
    tmp_path: Path,
) -> None:
    write_epw(tmp_path / "hot.epw")
    plant = {"kind": "cooling_table", "points": [[40, 0.1, 0.2], [50, 0.1, 0.3]]}
    keys = {
        "facility.weather": {"kind": "file", "path": "hot.epw"},
        "facility.stages": [plant],
    }
    scenario = tiny_site(**keys).with_folder(tmp_path)
    run = simulate(scenario, tmp_path / "run", profiles=tiny_library())
    assert run.metrics["cooling"]["clamped_h"] == pytest.approx(26)
    words = "outside the model's range in 26 h"
    assert any(words in line for line in run.manifest["warnings"])
    assert set(run.manifest["input_files"]) == {"hot.epw"}
    assert run.manifest["versions"]["pvlib"]
    overheated = {"kind": "wse", "design_heat_mw": 1e-6}
    hot = tiny_site(**{**keys, "facility.stages": [overheated]}).with_folder(tmp_path)
    run = simulate(hot, tmp_path / "hot", profiles=tiny_library())
    words = "cooling: the load is above its rating in 26 h"
    assert any(words in line for line in run.manifest["warnings"])
