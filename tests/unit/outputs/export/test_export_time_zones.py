"""A named zone on request: no hour is lost or doubled over either daylight saving change."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from diploee import open_run
from diploee.outputs import Run
from diploee.outputs.export import Options, export_run

ZONES = ["America/Denver", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_stamps_of_a_named_zone_read_back_to_every_moment_once(
    year_run: Run, tmp_path: Path, zone: str
) -> None:
    place = export_run(year_run, "csv", tmp_path / "zone.csv", Options(time_zone=zone))
    frame = pd.read_csv(place)
    back = pd.to_datetime(frame["timestamp"], utc=True, format="ISO8601")
    stored = pq.read_table(year_run.folder / "facility.parquet").column("timestamp").to_pandas()
    assert back.is_unique and back.is_monotonic_increasing
    np.testing.assert_array_equal(back.to_numpy(), stored.dt.tz_convert("UTC").to_numpy())
    assert frame["timestamp"].is_unique


def test_change_days_have_23_and_25_hours(year_run: Run, tmp_path: Path) -> None:
    options = Options(time_zone="America/Denver", step="1 h")
    place = export_run(year_run, "csv", tmp_path / "zone.csv", options)
    stamps = pd.read_csv(place)["timestamp"]
    hours = stamps.str[:10].value_counts()
    assert hours["2018-03-11"] == 23
    assert hours["2018-11-04"] == 25
    assert hours.sum() == 8_760
    spring = stamps[stamps.str.startswith("2018-03-11T0")].tolist()
    assert "2018-03-11T01:00:00-07:00" in spring and "2018-03-11T03:00:00-06:00" in spring
    assert not any("T02" in stamp for stamp in spring)
    autumn = [s for s in stamps if s.startswith("2018-11-04T01")]
    assert autumn == ["2018-11-04T01:00:00-06:00", "2018-11-04T01:00:00-07:00"]
    told = json.loads((tmp_path / "zone.csv.meta.json").read_text())
    assert told["time_zone"] == "America/Denver"


@pytest.mark.slow
def test_reader_converts_to_a_zone_and_back_without_change(year_run: Run) -> None:
    frame = open_run(year_run.folder).facility(["facility_power_w"])
    there = frame.tz_convert("America/Denver")
    assert len(there.loc["2018-03-11"]) == 46 and len(there.loc["2018-11-04"]) == 50
    pd.testing.assert_frame_equal(there.tz_convert(frame.index.tz), frame)


def test_fixed_offset_never_changes(year_run: Run, tmp_path: Path) -> None:
    stamps = pd.read_csv(export_run(year_run, "csv", tmp_path / "fixed.csv"))["timestamp"]
    assert set(stamps.str[-6:]) == {"-07:00"}
    assert set(stamps.str[:10].value_counts()) == {48}


def test_tenths_of_a_second_show_in_all_stamps(fine_run: Run, tmp_path: Path) -> None:
    options = Options(first=datetime(2018, 1, 1), until=datetime(2018, 1, 1, 0, 0, 1))
    stamps = pd.read_csv(export_run(fine_run, "csv", tmp_path / "x.csv", options))["timestamp"]
    assert stamps.tolist()[:2] == ["2018-01-01T00:00:00.000+00:00", "2018-01-01T00:00:00.100+00:00"]
