"""A solar plant: PVWatts as pvlib computes it, its energy at any step, and what it
leaves alone."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pvlib
import pytest
from builders import tiny_library, tiny_scenario
from hypothesis import given
from hypothesis import strategies as st
from weather_writers import write_epw, write_psm

from diploee import run as simulate
from diploee.base.clock import RunClock
from diploee.base.errors import DiploeeError
from diploee.facility import Block, SiteView, Weather
from diploee.facility.base import POWER, Stages
from diploee.facility.solar import SolarSpec, curve_through_means, pvwatts_w
from diploee.facility.weather import Sun
from diploee.grid.limits import Limits, check_limits
from diploee.importers.input_reader import load_inputs
from diploee.reports.compare import compare
from diploee.reports.datasheet import data_sheet
from diploee.simulation.size import rated_at_meter_w

# Pvlib's use of pandas
pytestmark = pytest.mark.filterwarnings("ignore:DatetimeIndex.dayofyear")

HOUR_MS = 3_600_000
PLACE = (39.83, -104.65, 1650.0)
START = datetime(2023, 6, 20, tzinfo=UTC)


def clear_sky(days: int = 3) -> Sun:
    """Return cloudless records of an hour, a record more at both ends than the days."""
    middle_ms = np.arange(-1, 24 * days + 1) * HOUR_MS + HOUR_MS // 2
    utc_ms = round(START.timestamp() * 1000)
    times = pd.DatetimeIndex(pd.to_datetime(middle_ms + utc_ms, unit="ms", utc=True))
    high = pvlib.solarposition.get_solarposition(times, *PLACE[:2]).apparent_elevation
    sky = pvlib.clearsky.simplified_solis(high)
    wind, air = (
        np.full(times.size, 3.0),
        20 + 8 * np.sin(np.arange(times.size) * np.pi / 12),
    )
    records = np.array([sky.ghi, sky.dni, sky.dhi, wind, air])
    return Sun(records, middle_ms, utc_ms, PLACE)


def plant(sun: Sun, dt_ms: int = 60_000, **settings: Any) -> Any:
    clock = RunClock(START.replace(tzinfo=None), UTC, 3 * 24 * HOUR_MS, dt_ms)
    one = np.ones(2)
    weather = Weather(np.array([0, clock.horizon_ms]), one, one, one, "", False, sun)
    return SolarSpec(dc_mw=10, **settings).open(SiteView(clock, 100e6, weather=weather))


def output(
    stage: Any, dt_ms: int, begin_ms: int = 0, n: int | None = None
) -> np.ndarray:
    n = 3 * 24 * HOUR_MS // dt_ms if n is None else n
    block = Block(begin_ms, dt_ms, {POWER: np.full(n, 50e6)})
    (passed,) = Stages([stage]).pass_blocks(iter([block]))
    np.testing.assert_allclose(passed.columns[POWER], 50e6 - passed.columns["solar_w"])
    return np.asarray(passed.columns["solar_w"])


@pytest.mark.parametrize("tracks", [False, True])
def test_output_is_that_of_pvlibs_functions_of_pvwatts_called_one_by_one(
    tracks: bool,
) -> None:
    sun, losses = clear_sky(), 0.1
    panels = {"tilt_deg": 30, "azimuth_deg": 160, "tracks": tracks, "losses": losses}
    found_w = pvwatts_w(SolarSpec(dc_mw=10, dc_per_ac=1.25, **panels), sun)
    ghi, dni, dhi, wind, air_c = sun.records
    utc_ms = sun.middle_ms + sun.utc_ms
    times = pd.DatetimeIndex(pd.to_datetime(utc_ms, unit="ms", utc=True))
    pressure_pa = pvlib.atmosphere.alt2pres(PLACE[2])
    at = pvlib.solarposition.get_solarposition(
        times, *PLACE, pressure_pa, temperature=air_c
    )
    tilt, azimuth = 30, 160
    if tracks:
        turned = pvlib.tracking.singleaxis(
            at.apparent_zenith, at.azimuth, 0, 180, max_angle=60, gcr=0.4
        )
        tilt, azimuth = turned.surface_tilt.fillna(0), turned.surface_azimuth.fillna(0)
    aoi = pvlib.irradiance.aoi(tilt, azimuth, at.apparent_zenith, at.azimuth)
    on_panels = pvlib.irradiance.get_total_irradiance(
        tilt,
        azimuth,
        at.apparent_zenith,
        at.azimuth,
        dni,
        ghi,
        dhi,
        dni_extra=pvlib.irradiance.get_extra_radiation(times),
        airmass=pvlib.atmosphere.get_relative_airmass(at.apparent_zenith),
        albedo=0.2,
        model="perez",
    )
    used = on_panels.poa_direct * pvlib.iam.physical(aoi) + on_panels.poa_diffuse
    cell_c = pvlib.temperature.sapm_cell(
        on_panels.poa_global, air_c, wind, -3.56, -0.075, 3
    )
    dc_w = pvlib.pvsystem.pvwatts_dc(used, cell_c, 10e6, -0.0035) * (1 - losses)
    ac_w = pvlib.inverter.pvwatts(dc_w, 8e6 / 0.96).fillna(0)
    assert found_w == pytest.approx(ac_w.to_numpy(), rel=1e-9, abs=1e-3)
    assert found_w.max() > 6e6 and (found_w == 0).sum() > 3 * 6


def test_inverters_clip_at_the_panels_rating_over_the_ratio() -> None:
    for ratio in (1.0, 1.5, 2.0):
        given_w = output(plant(clear_sky(), dc_per_ac=ratio), 60_000)
        assert given_w.max() <= 10e6 / ratio * (1 + 1e-9)
    assert given_w.max() == pytest.approx(5e6)


@pytest.mark.parametrize("dt_ms", [100, 1_000, 7_200, 60_000, 900_000, HOUR_MS])
def test_energy_of_each_record_is_pvwatts_at_any_step(dt_ms: int) -> None:
    sun = clear_sky()
    stage = plant(sun, dc_per_ac=1.5)
    given_w = output(stage, dt_ms)
    of_hours_w = given_w.reshape(-1, HOUR_MS // dt_ms).mean(axis=1)
    assert of_hours_w == pytest.approx(pvwatts_w(stage, sun)[1:-1], rel=1e-9, abs=1)


def test_steps_longer_than_a_record_have_its_mean_and_cuts_change_nothing() -> None:
    stage = plant(clear_sky())
    whole = output(stage, 60_000)
    assert output(stage, 6 * HOUR_MS) == pytest.approx(
        whole.reshape(-1, 360).mean(axis=1)
    )
    parts = pairwise([0, 7, 1441, 4320])
    cut = [output(stage, 60_000, a * 60_000, b - a) for a, b in parts]
    np.testing.assert_array_equal(np.concatenate(cut), whole)


@given(st.lists(st.sampled_from([0.0, 1.0]) | st.floats(0, 1), min_size=1, max_size=30))
def test_a_line_of_means_keeps_each_mean_and_its_bounds(means: list[float]) -> None:
    nodes, values = curve_through_means(
        np.arange(len(means) + 1) * 10, np.array(means), 1.0
    )
    assert (np.diff(nodes) >= 0).all() and values.min() >= 0 and values.max() <= 1
    areas = (values[1:] + values[:-1]) / 2 * np.diff(nodes)
    assert areas.reshape(-1, 3).sum(axis=1) == pytest.approx(
        10 * np.array(means), abs=1e-9
    )


def test_the_line_goes_on_without_a_step_where_means_allow_it() -> None:
    means = np.array([0, 0, 0.1, 0.4, 0.7, 0.9, 1, 1, 0.8, 0.4, 0.1, 0])
    nodes, values = curve_through_means(np.arange(means.size + 1) * 10, means, 1.0)
    steps = np.diff(nodes) == 0
    assert values[1:][steps] == pytest.approx(values[:-1][steps], abs=1e-12)


def site(folder: Path, *stages: Any, **changes: Any) -> Any:
    """Return a site of 3 MW of devices under a file of weather, with stages before its
    meter."""
    if not (folder / "w.epw").exists():
        write_epw(folder / "w.epw", sun=True)
    meter = {"kind": "point_of_interconnection", "contract_mw": 8}
    return tiny_scenario(
        {
            "duration": "1 d",
            "facility.pools.main.n_nodes": 2_000,
            "facility.node_types.node.ac_power": "air_hgx",
            "facility.weather": {"kind": "file", "path": "w.epw"},
            "facility.utc_offset": "-07:00",
            "facility.stages": ["pdu", "wse", *stages, meter],
            "streams.training.target_utilization": 0.002,
            **changes,
        }
    ).with_folder(folder)


SOLAR = {"kind": "solar", "dc_mw": 1.5}


def simulated(folder: Path, scenario: Any) -> Any:
    return simulate(scenario, folder, profiles=tiny_library(), engine="compiled")


def test_gross_demand_pue_and_size_are_those_without_the_plant(tmp_path: Path) -> None:
    without = simulated(tmp_path / "without", site(tmp_path))
    run = simulated(tmp_path / "with", site(tmp_path, SOLAR))
    for key in ("pue", "ppue_cooling", "tue_device", "gross_mwh"):
        assert run.metrics["poi"][key] == pytest.approx(
            without.metrics["poi"][key], rel=1e-9
        )
    given_mwh = run.metrics["solar"]["energy_mwh"]
    assert 5 < given_mwh < 12
    declared = {metric.key for metric in SolarSpec.metrics}
    assert {f"solar.{key}" for key in run.metrics["solar"]} == declared
    energy, before = run.metrics["poi"]["energy"], without.metrics["poi"]["energy"]
    assert energy["solar_mwh"] == pytest.approx(-given_mwh, rel=1e-6)
    assert energy["total_mwh"] == pytest.approx(
        before["total_mwh"] - given_mwh, rel=1e-6
    )
    rated = [
        rated_at_meter_w(s, load_inputs(s).weather_year)
        for s in (site(tmp_path), site(tmp_path, SOLAR, {**SOLAR, "name": "roof"}))
    ]
    assert rated[0] == rated[1]


LIMITS = Limits.model_validate(
    {
        "ramps": [{"interval": "10 min", "mw_per_min": 9}],
        "swings": [{"window": "1 h", "max_mw": 9}],
        "peaks": [{"interval": "15 min", "max_mw": 9}, {"max_mw": 9}],
    }
)


def test_ramps_swings_bands_and_verdicts_with_it_are_marked_lower_bounds(
    tmp_path: Path,
) -> None:
    runs = {}
    for name, stages in {"without": [], "with": [SOLAR]}.items():
        scenario = site(tmp_path, *stages, resolution="10 s", duration="6 h")
        runs[name] = simulated(tmp_path / name, scenario)
    for name, run in runs.items():
        grid, is_bound = run.metrics["grid"], name == "with"
        assert grid["bandwidth"].get("interpolated_s") == (3600 if is_bound else None)
        entries = [*grid["ramps"]["intervals"], *grid["rolling_range"]["windows"]]
        lengths = {
            e.get("interval_s", e.get("window_s")): e["lower_bound"] for e in entries
        }
        assert {600.0, 3600.0} <= lengths.keys()
        assert all(bound == is_bound for length, bound in lengths.items() if length > 2)
        for band in grid["spectrum"]["bands"]:
            assert ("clouds" in band.get("flag_reason", "")) == is_bound
        for result in check_limits(run, LIMITS).results:
            assert ("lower bound: clouds" in result.scope) == is_bound
        hourly = Limits.model_validate({"peaks": [{"interval": "1 h", "max_mw": 9}]})
        assert "clouds" not in check_limits(run, hourly).results[0].scope
        (averaging,) = (s for s in data_sheet(run).sections if s.id == "averaging")
        assert ("Lower bounds: ramps over 1 min" in averaging.notes[0]) == is_bound
    compared = compare(runs["without"], runs["with"])
    for key, bounded in (
        ("ramps.intervals.600s.up.max_mw", [False, True]),
        ("maximum_demand.intervals.15min.max_mw", [False, True]),
        ("maximum_demand.intervals.60min.max_mw", [False, False]),
    ):
        shown = [compared[f"grid.{key}"].value_text(run) for run in (0, 1)]
        assert [text[0] == "≥" for text in shown] == bounded


@pytest.mark.parametrize(("write", "records_s"), [(write_epw, 3600), (write_psm, 1800)])
def test_noon_of_the_file_is_noon_of_the_run(
    tmp_path: Path, write: Any, records_s: int
) -> None:
    write(tmp_path / "w.epw", sun=True)
    scenario = site(tmp_path, SOLAR, start="2018-06-21", duration="24 h")
    weather = load_inputs(scenario).weather
    assert weather is not None and isinstance(weather.sun, Sun)
    start, zone = datetime(2018, 6, 21), scenario.facility.zone
    clock = RunClock(start, zone, 24 * HOUR_MS, 60_000)
    stage = SolarSpec(dc_mw=10).open(SiteView(clock, 100e6, weather=weather))
    assert stage.interpolated_s == records_s
    given_w = output(stage, 60_000, n=1440)
    noon = float(np.average(np.arange(1440) + 0.5, weights=given_w)) / 60
    assert noon == pytest.approx(12.0, abs=0.2)


def broken(line: str, field: int, value: str) -> str:
    parts = line.split(",")
    parts[field] = value
    return ",".join(parts)


TYPICAL = {"kind": "typical_day", "station": "denver"}
UNKNOWN = {"facility.weather": None, "facility.stages": [SOLAR]}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"facility.weather": TYPICAL}, "has none"),
        (UNKNOWN, "there is no facility.weather"),
        ({"dark": True}, "0 all year"),
        ({"missing": True}, "'dni' is missing or out of range in its line 100"),
    ],
)
def test_weather_without_irradiance_is_refused_with_the_key_and_where_files_are(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    path = write_epw(tmp_path / "w.epw", sun="dark" not in change)
    if "missing" in change:
        lines = path.read_text().splitlines()
        lines[99] = broken(lines[99], 14, "9999")
        path.write_text("\n".join(lines) + "\n")
    keys = {key: value for key, value in change.items() if "." in key}
    with pytest.raises(DiploeeError, match=r"^[^\n]*'solar' needs irradi.*$") as caught:
        simulated(tmp_path / "run", site(tmp_path, SOLAR, **keys))
    for words in (why, "facility.weather {kind: file", "nsrdb.nrel.gov"):
        assert words in str(caught.value)
