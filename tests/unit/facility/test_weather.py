"""Weather over a run: calendar, zones, leap days, gaps, typical days, and the wet bulb."""  # noqa: E501

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from builders import tiny_scenario, write_scenario
from command_line import call
from weather_writers import PRESSURE_PA, temperature_c, write_epw, write_psm, write_tmy3

from diploee.base.clock import RunClock, fixed_zone, named_zone
from diploee.base.errors import InputError, LogFormatError
from diploee.base.files.paths import shipped_folder
from diploee.base.units import MS_PER_H
from diploee.facility import WEATHER, Weather
from diploee.facility.psychrometrics import (
    relative_humidity,
    saturation_pressure_pa,
    wet_bulb_c,
)
from diploee.facility.weather import DAYS_BEFORE_MONTH, read_typical_days
from diploee.importers.input_reader import InputReader, load_inputs
from diploee.importers.weather_files import read_design_conditions, read_weather
from diploee.scenario.loading import input_files

REAL_EPW = (
    Path(__file__).parents[4] / "shared" / "data" / "weather" / "USA_CO_Denver_TMY3.epw"
)
WRITERS: dict[str, Callable[..., Path]] = {
    "epw": write_epw,
    "tmy3": write_tmy3,
    "psm": write_psm,
}


IN_FILE = [
    temperature_c(date(1995, 1, 1) + timedelta(day), hour)
    for day in range(365)
    for hour in range(1, 25)
]


def clock(start: str, hours: int, zone: str = "-07:00", warm_up_h: int = 0) -> RunClock:
    at = fixed_zone(zone) if zone[0] in "+-" else named_zone(zone)
    begin = datetime.fromisoformat(start)
    return RunClock(begin, at, hours * MS_PER_H, 60_000, warm_up_h * MS_PER_H)


def opened(run: RunClock, folder: Path = Path(), **keys: Any) -> Weather:
    spec = WEATHER.read(keys)
    return spec.open(run, folder, lambda read, path, **options: read(path, **options))


def at(weather: Weather, run: RunClock, moment: str) -> float:
    """Dry-bulb temperature at a local time."""
    time_ms = run.wall.time_ms(datetime.fromisoformat(moment))
    return float(np.interp(time_ms, weather.time_ms, weather.dry_bulb_c))


@pytest.mark.slow
@pytest.mark.parametrize("form", WRITERS)
def test_a_file_gives_the_weather_of_the_same_month_day_and_hour(
    tmp_path: Path, form: str
) -> None:
    path = WRITERS[form](tmp_path / "weather.txt")
    run = clock("2023-09-14", 49)
    weather = opened(run, tmp_path, kind="file", path=path.name)
    for hour in (1, 9, 23):
        assert at(weather, run, f"2023-09-15T{hour:02}:00") == temperature_c(
            date(2023, 9, 15), hour
        )
    assert weather.time_ms[0] <= 0 and weather.time_ms[-1] >= run.horizon_ms
    assert (weather.pressure_pa == PRESSURE_PA).all()
    assert weather.typical


def test_midnight_belongs_to_the_day_that_ends(tmp_path: Path) -> None:
    write_epw(tmp_path / "w.epw")
    run = clock("2023-03-01", 24)
    weather = opened(run, tmp_path, kind="file", path="w.epw")
    assert at(weather, run, "2023-03-01T00:00") == temperature_c(date(2023, 2, 28), 24)


@pytest.mark.parametrize("step_min", [15, 30])
def test_parts_of_an_hour_of_an_epw_file_hold_at_their_ends(
    tmp_path: Path, step_min: int
) -> None:
    year = read_weather(write_epw(tmp_path / "w.epw", step_min=step_min))
    assert year.first_ms == step_min * 60_000
    day, per_day = date(1995, 7, 15), 1_440 // step_min
    rows = np.arange(per_day) + (31 + 29 + 31 + 30 + 31 + 30 + 14) * per_day
    ends_h = (np.arange(per_day) + 1) * step_min / 60
    expected = [temperature_c(day, hour) for hour in ends_h.tolist()]
    np.testing.assert_array_equal(year.dry_bulb_c[rows], expected)


def test_the_minute_of_an_hourly_epw_file_says_nothing(tmp_path: Path) -> None:
    told = read_weather(write_epw(tmp_path / "told.epw", hourly_minute=30))
    plain = read_weather(write_epw(tmp_path / "plain.epw"))
    assert told.first_ms == plain.first_ms
    np.testing.assert_array_equal(told.dry_bulb_c, plain.dry_bulb_c)


def test_a_missing_quarter_of_an_hour_is_named_with_its_line(tmp_path: Path) -> None:
    path = damaged(write_epw(tmp_path / "w.epw", step_min=15), 8 + 6, gone)
    with pytest.raises(
        LogFormatError, match=r"w\.epw:14: a gap: .*01:30, found .*01:45"
    ):
        read_weather(path)


def test_a_leap_day_repeats_the_day_before(tmp_path: Path) -> None:
    path = write_epw(tmp_path / "weather.txt")
    run = clock("2024-02-01", 24 * 60)
    weather = opened(run, tmp_path, kind="file", path=path.name)
    for hour in (1, 12):
        moments = [f"2024-02-{day}T{hour:02}:00" for day in (28, 29)]
        assert at(weather, run, moments[0]) == at(weather, run, moments[1])
    assert at(weather, run, "2024-03-01T12:00") == temperature_c(date(2024, 3, 1), 12)
    assert (np.diff(weather.time_ms) == MS_PER_H).all()


@pytest.mark.slow
def test_a_leap_day_that_a_file_has_is_used_in_leap_years_alone(tmp_path: Path) -> None:
    write_psm(tmp_path / "w.csv", year=2020)
    in_leap, in_common = clock("2024-02-20", 480), clock("2023-02-20", 480)
    for run, day in ((in_leap, date(2024, 2, 29)), (in_common, date(2023, 3, 1))):
        weather = opened(run, tmp_path, kind="file", path="w.csv")
        assert at(weather, run, f"{day}T06:00") == temperature_c(day, 6)
    assert (np.diff(weather.time_ms) == MS_PER_H // 2).all()


def test_several_years_have_the_same_weather_on_the_same_date(tmp_path: Path) -> None:
    write_epw(tmp_path / "w.epw")
    run = clock("2022-07-01", 24 * 1000, warm_up_h=24 * 200)
    weather = opened(run, tmp_path, kind="file", path="w.epw")
    values = {
        at(weather, run, f"{year}-01-20T15:00") for year in (2022, 2023, 2024, 2025)
    }
    assert values == {temperature_c(date(2023, 1, 20), 15)}
    assert (np.diff(weather.time_ms) == MS_PER_H).all()
    assert weather.time_ms[0] <= run.begin_ms and weather.time_ms[-1] >= run.horizon_ms


@pytest.mark.parametrize(
    ("zone", "local"),
    [
        ("-07:00", "2023-07-10T12:00"),
        ("+00:00", "2023-07-10T19:00"),
        ("America/Denver", "2023-07-10T13:00"),
    ],
)
def test_weather_in_standard_time_is_shifted_to_the_zone_of_the_facility(
    tmp_path: Path, zone: str, local: str
) -> None:
    write_epw(tmp_path / "w.epw", zone=-7.0)
    run = clock("2023-01-01", 24 * 365, zone)
    weather = opened(run, tmp_path, kind="file", path="w.epw")
    assert at(weather, run, local) == temperature_c(date(2023, 7, 10), 12)


def test_a_stand_in_from_another_zone_keeps_its_hours(tmp_path: Path) -> None:
    run = clock("2023-07-01", 240, "+01:00")
    weather = opened(run, kind="typical_day", station="denver", utc_offset="+01:00")
    home = clock("2023-07-01", 240, "-07:00")
    at_home = opened(home, kind="typical_day", station="denver")
    assert at(weather, run, "2023-07-05T15:00") == at(at_home, home, "2023-07-05T15:00")


@pytest.mark.parametrize("station", ["denver", "greensboro"])
def test_typical_days_go_from_month_to_month_without_a_step(station: str) -> None:
    zone = {"denver": "-07:00", "greensboro": "-05:00"}[station]
    run = clock("2023-01-01", 24 * 365, zone)
    weather = opened(run, kind="typical_day", station=station)
    day_on_day = weather.dry_bulb_c[24:] - weather.dry_bulb_c[:-24]
    firsts = [run.wall.time_ms(datetime(2023, month, 1, 12)) for month in range(2, 13)]
    index = np.searchsorted(weather.time_ms, firsts) - 24
    others = np.delete(np.abs(day_on_day), index)
    assert np.abs(day_on_day[index]).max() <= others.max()
    assert np.abs(day_on_day).max() < 0.8
    assert (weather.wet_bulb_c <= weather.dry_bulb_c).all()
    assert weather.typical


@pytest.mark.parametrize("station", ["denver", "greensboro"])
def test_typical_days_keep_the_means_of_the_months(station: str) -> None:
    table = shipped_folder("profiles") / "weather" / "typical_days.csv"
    year = read_typical_days(table, station)
    rows = pd.read_csv(table, comment="#").query("station == @station")
    means = rows.groupby("month")[["t_db_c", "t_wb_c"]].mean()
    months = np.repeat(np.arange(1, 13), np.diff(DAYS_BEFORE_MONTH) * 24)
    for name, values in (("t_db_c", year.dry_bulb_c), ("t_wb_c", year.wet_bulb_c)):
        found = [values[months == month].mean() for month in range(1, 13)]
        assert found == pytest.approx(means[name].tolist(), abs=1e-9)


def test_an_offset_warms_at_the_same_relative_humidity() -> None:
    run = clock("2023-07-01", 240)
    plain = opened(run, kind="typical_day", station="denver")
    warm = opened(run, kind="typical_day", station="denver", offset_k=5)
    np.testing.assert_allclose(warm.dry_bulb_c - plain.dry_bulb_c, 5)
    rise_k = warm.wet_bulb_c - plain.wet_bulb_c
    assert (rise_k > 2).all() and (rise_k < 5).all()
    humidity = [
        relative_humidity(w.dry_bulb_c, w.wet_bulb_c, w.pressure_pa)
        for w in (plain, warm)
    ]
    np.testing.assert_allclose(*humidity, atol=1e-9)


def damaged(path: Path, line: int, change: Callable[[str], str | None]) -> Path:
    lines: list[str | None] = list(path.read_text().splitlines())
    lines[line - 1] = change(lines[line - 1] or "")
    path.write_text("\n".join(text for text in lines if text is not None) + "\n")
    return path


def gone(_: str) -> None:
    """Leave the line out."""


def field(index: int, value: str) -> Callable[[str], str]:
    def change(line: str) -> str:
        parts = line.split(",")
        parts[index] = value
        return ",".join(parts)

    return change


@pytest.mark.parametrize(
    ("form", "line", "change", "text"),
    [
        ("epw", 100, field(6, "99.9"), r":100: dry-bulb temperature .*99.9.*-70 to 70"),
        ("epw", 100, field(8, "999"), r":100: relative humidity .*999"),
        ("epw", 100, field(6, "warm"), r":100: dry-bulb temperature .*none"),
        ("epw", 100, gone, r":100: a gap: .*month 1, day 4, 20:00, found .* 21:00"),
        ("epw", 8768, gone, r":8767: a gap: .*month 12, day 31, 24:00, the file ends"),
        ("tmy3", 40, field(2, "-9900"), r":40: dry-bulb temperature .*-9900"),
        ("psm", 60, field(5, ""), r":60: dry-bulb temperature"),
        ("psm", 60, gone, r":60: a gap"),
        ("epw", 1, lambda _: "PLACE,Denver", r":1: neither an EPW file"),
        ("epw", 50, field(1, "month"), r"not a whole EPW file"),
    ],
)
def test_gaps_and_missing_codes_are_named_with_their_line(
    tmp_path: Path, form: str, line: int, change: Any, text: str
) -> None:
    path = damaged(WRITERS[form](tmp_path / "weather.txt"), line, change)
    with pytest.raises(LogFormatError, match=text) as caught:
        opened(clock("2023-01-01", 24), tmp_path, kind="file", path=path.name)
    assert "weather.txt" in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_without_pvlib_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_epw(tmp_path / "w.epw")
    monkeypatch.setitem(sys.modules, "pvlib", None)
    monkeypatch.setitem(sys.modules, "pvlib.iotools", None)
    with pytest.raises(LogFormatError, match=r"pip install 'diploee\[weather\]'"):
        opened(clock("2023-01-01", 24), tmp_path, kind="file", path="w.epw")


def test_weather_needs_the_zone_of_the_facility() -> None:
    typical = {"kind": "typical_day", "station": "denver"}
    with pytest.raises(InputError, match="'weather' needs 'utc_offset' or 'time_zone'"):
        tiny_scenario({"facility.weather": typical})
    given = tiny_scenario(
        {"facility.weather": typical, "facility.utc_offset": "-07:00"}
    )
    assert load_inputs(given).weather is not None
    assert load_inputs(tiny_scenario()).weather is None


def test_a_weather_file_is_an_input_of_the_run(tmp_path: Path) -> None:
    write_epw(tmp_path / "w.epw")
    keys = {"kind": "file", "path": "w.epw", "actual_year": True}
    scenario = tiny_scenario(
        {"facility.weather": keys, "facility.utc_offset": "-07:00"}
    ).with_folder(tmp_path)
    assert input_files(scenario) == ("w.epw",)
    reader = InputReader()
    inputs = reader.load(scenario)
    assert set(inputs.hashes) == {"w.epw"}
    assert inputs.weather is not None and not inputs.weather.typical
    (tmp_path / "w.epw").unlink()
    with pytest.raises(
        LogFormatError, match=r"w\.epw: can't be read .*facility\.weather\.path"
    ):
        reader.load(scenario)


@pytest.mark.slow
def test_the_year_of_a_weather_file_holds_all_of_its_hours_whatever_is_run(
    tmp_path: Path,
) -> None:
    write_epw(tmp_path / "w.epw")
    weather = {"facility.weather": {"kind": "file", "path": "w.epw"}}
    years = []
    for changes in (
        {"start": "2018-12-31", "duration": "1 h", "facility.utc_offset": "-07:00"},
        {"start": "2020-02-28", "facility.time_zone": "America/Denver"},
    ):
        inputs = load_inputs(tiny_scenario(weather | changes).with_folder(tmp_path))
        assert inputs.weather_year is not None
        years.append(inputs.weather_year)
    for year in years:
        assert set(year.dry_bulb_c.tolist()) == set(IN_FILE)
        np.testing.assert_array_equal(year.wet_bulb_c, years[0].wet_bulb_c)


@pytest.mark.skipif(
    not REAL_EPW.is_file(), reason="the real EPW lies beside the repository"
)
def test_a_real_file_has_the_statistics_of_the_sheet() -> None:
    run = clock("2023-01-01", 24 * 365)
    weather = opened(run, REAL_EPW.parent, kind="file", path=REAL_EPW.name)
    year = (weather.time_ms > 0) & (weather.time_ms <= run.horizon_ms)
    wet_c = weather.wet_bulb_c[year]
    assert wet_c.size == 8760
    assert weather.dry_bulb_c[year].mean() == pytest.approx(10.88, abs=0.005)
    assert weather.pressure_pa[year].mean() == pytest.approx(83_460, abs=5)
    assert [wet_c.mean(), wet_c.max()] == pytest.approx([4.87, 20.42], abs=0.005)
    assert [(wet_c <= limit).sum() for limit in (10, 15, 18)] == [5806, 8034, 8717]
    typical = opened(run, kind="typical_day", station="denver")
    assert typical.wet_bulb_c[year[: typical.wet_bulb_c.size]].mean() == pytest.approx(
        wet_c.mean(), abs=0.1
    )


COOLING = [7, 15.2, 35, 16, 34, 15, 33, 14, 19, 28, 18, 27, 17, 26, *[0] * 17]
ONCE_IN_YEARS = [-20, 37, 3, 1, -25, 38, -26, 39, -27, 40, -28, 41]


def validated(folder: Path, library: Path, *options: str) -> str:
    """Return what validate prints of a site under the weather w.epw of a folder."""
    weather = {"kind": "file", "path": "w.epw"}
    changes = {"facility.weather": weather, "facility.utc_offset": "-07:00"}
    site = write_scenario(folder / "site.yaml", changes)
    return call("validate", site, "--profiles", library, *options).out


@pytest.mark.parametrize(
    ("cooling", "extremes"),
    [
        ([*COOLING, 700], [12, 10, 9, 21, *ONCE_IN_YEARS]),  # ASHRAE 2009, 2013
        ([*COOLING, 21], [12, 10, 9, *ONCE_IN_YEARS]),
    ],  # 2017, 2021
)
def test_validate_shows_extremes_beside_the_design_conditions_of_either_order(
    tmp_path: Path, library_folder: Path, cooling: list[float], extremes: list[float]
) -> None:
    head = ["DESIGN CONDITIONS", "1", "A Handbook", "", "Heating", *["0"] * 14]
    parts = [*head, "Cooling", *map(str, cooling), "Extremes", *map(str, extremes)]
    damaged(write_epw(tmp_path / "w.epw"), 2, lambda _: ",".join(parts))
    found = json.loads(validated(tmp_path, library_folder, "--json"))["weather"]
    assert found["design"] == {
        "dry_bulb_c": 35,
        "wet_bulb_c": 19,
        "dry_bulb_once_in_20_years_c": 40,
        "highest_wet_bulb_c": 21,
    }
    assert found["dry_bulb_c"]["max"] == max(IN_FILE)
    often_c = found["dry_bulb_c"]["exceeded_0.4_percent"]
    assert often_c == pytest.approx(np.quantile(IN_FILE, 0.996), abs=0.05)
    shown = validated(tmp_path, library_folder)
    assert (
        f"dry bulb [deg C]: at most {max(IN_FILE):.1f}, exceeded in 0.4 % of" in shown
    )
    for words in ("35.0, once in 20 years 40.0", "19.0, on record 21.0"):
        assert f"; in its head {words}" in shown


@pytest.mark.parametrize(
    "line", ["DESIGN CONDITIONS,0", "DESIGN CONDITIONS,1,x,,Cooling,1,Extremes"]
)
def test_a_head_without_known_design_conditions_has_none(
    tmp_path: Path, library_folder: Path, line: str
) -> None:
    damaged(write_epw(tmp_path / "w.epw"), 2, lambda _: line)
    shown = validated(tmp_path, library_folder)
    assert "wet bulb" in shown and "in its head" not in shown


@pytest.mark.skipif(
    not REAL_EPW.is_file(), reason="the real EPW lies beside the repository"
)
def test_a_real_head_has_the_design_wet_bulb_of_the_sheet() -> None:
    design = read_design_conditions(REAL_EPW)
    assert design is not None and design["wet_bulb_c"] == 18.3
    assert design["dry_bulb_once_in_20_years_c"] > design["dry_bulb_c"]


# Which psychrolib would compile itself with
with mock.patch.dict(sys.modules, {"numba": None}):
    import psychrolib


def test_wet_bulb_and_saturation_are_those_of_psychrolib() -> None:
    psychrolib.SetUnitSystem(psychrolib.SI)
    rng = np.random.default_rng(3)
    dry_c, humidity = rng.uniform(-40, 48, 40), rng.uniform(0.05, 1, 40)
    pressure_pa = rng.uniform(70_000, 105_000, 40)
    given = zip(dry_c, humidity, pressure_pa, strict=True)
    theirs = [psychrolib.GetTWetBulbFromRelHum(*values) for values in given]
    np.testing.assert_allclose(
        wet_bulb_c(dry_c, humidity, pressure_pa), theirs, atol=2e-3
    )
    saturated = [psychrolib.GetSatVapPres(t) for t in dry_c]
    np.testing.assert_allclose(saturation_pressure_pa(dry_c), saturated, rtol=1e-12)


def test_humidity_comes_back_from_the_wet_bulb() -> None:
    rng = np.random.default_rng(4)
    dry_c, humidity = rng.uniform(-30, 45, 500), rng.uniform(0.05, 1, 500)
    pressure_pa = np.full(500, 84_000.0)
    wet_c = wet_bulb_c(dry_c, humidity, pressure_pa)
    back = relative_humidity(dry_c, wet_c, pressure_pa)
    # Where water changes to ice the equation has a step: a few humidities there have no
    # partner.
    apart = np.abs(wet_c) > 1e-6
    np.testing.assert_allclose(back[apart], humidity[apart], atol=1e-9)
    assert (wet_c <= dry_c).all()
