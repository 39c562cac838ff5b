"""Demand at coincident peaks: closed forms, changes of the clock, and bad files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import tiny_run

from diploee import open_run
from diploee.base.errors import InputError
from diploee.importers.peak_intervals import read_peak_intervals
from diploee.reports.coincident import coincident_demand
from diploee.reports.datasheet import data_sheet


@pytest.fixture(scope="session")
def rising(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """Ten days whose power is n kW in the n-th minute."""
    folder = tmp_path_factory.mktemp("coincident") / "rising"
    shutil.copytree(run_folder, folder)
    path = folder / "facility.parquet"
    table = pq.read_table(path)
    index = table.schema.get_field_index("facility_power_w")
    kind = table.schema.field(index)
    power_w = pa.array(np.arange(len(table)) * 1e3).cast(kind.type)
    pq.write_table(table.set_column(index, kind, power_w), path)
    return folder


def peaks(tmp_path: Path, *rows: str, header: str = "start,end,name") -> Path:
    path = tmp_path / "peaks.csv"
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


def test_demand_is_the_mean_of_the_intervals_of_the_run(
    rising: Path, tmp_path: Path
) -> None:
    path = peaks(
        tmp_path,
        "2018-01-25 01:00,2018-01-25 02:00,1CP",
        "2018-01-26T00:00,2018-01-26T00:01,2CP",
    )
    intervals = read_peak_intervals(path)
    table = coincident_demand(open_run(rising), intervals)
    first, second = table.to_dict("records")
    assert first["demand"] == pytest.approx((60 + 59 / 2) / 1000)
    assert second["demand"] == pytest.approx(1440 / 1000)
    assert table.index[0].startswith("1CP") and "reactive" not in table
    # An hour against the largest hour, a minute against the largest minute
    grid = open_run(rising).metrics["grid"]
    demands = {d["interval_min"]: d for d in grid["maximum_demand"]["intervals"]}
    assert first["own peak"] == demands[60]["max_mw"]
    assert second["own peak"] == grid["peak"]["max_mw"]
    sheet = data_sheet(open_run(rising), (), intervals)
    (section,) = [s for s in sheet.sections if "coin" in s.title]
    rows = section.tables[0].rows
    assert rows["1CP 2018-01-25 01:00"]["demand"].value == first["demand"]
    mean_mw = (first["demand"] + second["demand"]) / 2
    assert rows["mean"]["demand"].value == pytest.approx(mean_mw)


def test_times_with_an_offset_and_durations_say_the_same(
    rising: Path, tmp_path: Path
) -> None:
    utc = peaks(tmp_path, "2018-01-24T20:00:00-05:00,60", header="start,duration_min")
    by_offset = coincident_demand(open_run(rising), read_peak_intervals(utc))
    local = peaks(tmp_path, "2018-01-25 01:00,2018-01-25 02:00", header="start,end")
    by_local = coincident_demand(open_run(rising), read_peak_intervals(local))
    assert by_offset.equals(by_local)


def test_hour_that_comes_twice_needs_an_offset_or_a_duration(tmp_path: Path) -> None:
    changes = {
        "start": "2018-11-04",
        "duration": "1 d",
        "facility.time_zone": "America/Denver",
    }
    tiny_run(tmp_path / "run", changes)
    path = peaks(tmp_path, "2018-11-04 01:00,2018-11-04 02:00", header="start,end")
    with pytest.raises(InputError, match=r"peaks\.csv:2: the clock is changed within"):
        coincident_demand(open_run(tmp_path / "run"), read_peak_intervals(path))
    frame = open_run(tmp_path / "run").facility(["facility_power_w"])[
        "facility_power_w"
    ]
    for start, first in (("2018-11-04 01:00-07:00", 120), ("2018-11-04 01:00", 60)):
        path = peaks(tmp_path, f"{start},60", header="start,duration_min")
        (found,) = coincident_demand(
            open_run(tmp_path / "run"), read_peak_intervals(path)
        ).to_dict("records")
        of_hour = frame.iloc[first : first + 60].astype(float)
        assert found["demand"] == pytest.approx(of_hour.mean() / 1e6)


def test_interval_may_end_when_the_clock_is_put_forward(tmp_path: Path) -> None:
    changes = {
        "start": "2018-03-11",
        "duration": "1 d",
        "facility.time_zone": "America/Denver",
    }
    tiny_run(tmp_path / "run", changes)
    run = open_run(tmp_path / "run")
    frame = run.facility(["facility_power_w"])["facility_power_w"].astype(float)
    end, duration = ("start,end", "start,duration_min")
    for header, row, last in (
        (end, "2018-03-11 01:00,2018-03-11 02:00", 120),
        (duration, "2018-03-11 01:00,60", 120),
        (duration, "2018-03-11 01:00,120", 180),
    ):
        path = peaks(tmp_path, row, header=header)
        (found,) = coincident_demand(run, read_peak_intervals(path)).to_dict("records")
        assert found["demand"] == pytest.approx(frame.iloc[60:last].mean() / 1e6)
    for row, why in (
        ("2018-03-11 02:00,2018-03-11 04:00", "does not exist"),
        ("2018-03-11 01:00,2018-03-11 02:30", "does not exist"),
        ("2018-03-11 01:00,2018-03-11 03:00", "the clock is changed within"),
    ):
        with pytest.raises(InputError, match=why):
            coincident_demand(
                run, read_peak_intervals(peaks(tmp_path, row, header=end))
            )


BAD = {
    "outside of the run": (
        ["2018-01-25 01:00,2018-01-25 02:00,a", "2019-01-25 01:00,2019-01-25 02:00,b"],
        "peaks.csv:3: start: 2019-01-25T01:00:00 lies outside the run",
    ),
    "overlapping": (
        ["2018-01-25 01:00,2018-01-25 02:00,a", "2018-01-25 00:30,2018-01-25 01:01,b"],
        "peaks.csv:2: column 'start' is '2018-01-25 01:00', expected a time after",
    ),
    "not rising": (
        ["2018-01-25 02:00,2018-01-25 02:00,a"],
        "peaks.csv:2: column 'start' is '2018-01-25 02:00', expected a time before",
    ),
    "within an interval": (
        ["2018-01-25 01:00:30,2018-01-25 02:00,a"],
        "peaks.csv:2: start: 2018-01-25T01:00:30 lies within an interval",
    ),
    "of two clocks": (
        ["2018-01-25 01:00,2018-01-25 02:00Z,a"],
        "peaks.csv:2: column 'end' is '2018-01-25 02:00Z', expected an offset",
    ),
    "none": ([], "peaks.csv: 0 intervals, expected 1 to"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_intervals_give_one_line(
    name: str, run_folder: Path, tmp_path: Path
) -> None:
    rows, words = BAD[name]
    with pytest.raises(InputError, match=re.escape(words)):
        coincident_demand(
            open_run(run_folder), read_peak_intervals(peaks(tmp_path, *rows))
        )


def test_files_without_an_end_or_of_no_duration_are_refused(tmp_path: Path) -> None:
    columns = r"peaks\.csv:1: found 'start', 'name', expected one of 'end'"
    with pytest.raises(InputError, match=columns):
        read_peak_intervals(peaks(tmp_path, "2018-01-25 01:00,a", header="start,name"))
    path = peaks(tmp_path, "2018-01-25 01:00,-5", header="start,duration_min")
    with pytest.raises(InputError, match=r"csv:2: column 'duration_min' is '-5'"):
        read_peak_intervals(path)
