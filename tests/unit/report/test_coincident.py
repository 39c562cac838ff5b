"""Demand at coincident peaks: closed forms, seeds, tests on minimum take, and bad files."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import tiny_library, tiny_scenario
from command_line import call
from sweep_builders import UTILIZATION, tiny_sweep

from diploee import open_run, simulate
from diploee.errors import InputError
from diploee.reports.coincident import at_peaks
from diploee.reports.peak_intervals import coincident_demand, read_peak_intervals
from diploee.sweeps import run_sweep

NO_JOBS = {
    "streams.training.target_utilization": None, "streams.training.jobs_per_day": 1e-9
}  # fmt: skip


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


def test_demand_is_the_mean_of_the_intervals_of_the_run(rising: Path, tmp_path: Path) -> None:
    path = peaks(
        tmp_path, "2018-01-25 01:00,2018-01-25 02:00,1CP", "2018-01-26T00:00,2018-01-26T00:01,2CP"
    )
    first, second = coincident_demand(open_run(rising), read_peak_intervals(path))
    assert first.mw == pytest.approx((60 + 59 / 2) / 1000)
    assert second.mw == pytest.approx(1440 / 1000)
    assert (first.name, second.mvar) == ("1CP", None)
    grid = open_run(rising).metrics["grid"]
    hourly = next(d for d in grid["maximum_demand"]["intervals"] if d["interval_min"] == 60)
    assert first.own_peak_mw == hourly["max_mw"], "an hour against the largest hour"
    assert second.own_peak_mw == grid["peak"]["max_mw"], "a minute against the largest minute"
    (group,) = at_peaks([rising], read_peak_intervals(path))
    *_, mean = group.rows()
    assert mean["mw"] == pytest.approx((first.mw + second.mw) / 2)


def test_times_with_an_offset_and_durations_say_the_same(rising: Path, tmp_path: Path) -> None:
    utc = peaks(tmp_path, "2018-01-24T20:00:00-05:00,60", header="start,duration_min")
    (by_offset,) = coincident_demand(open_run(rising), read_peak_intervals(utc))
    local = peaks(tmp_path, "2018-01-25 01:00,2018-01-25 02:00", header="start,end")
    (by_local,) = coincident_demand(open_run(rising), read_peak_intervals(local))
    assert by_offset == by_local


def test_hour_that_comes_twice_needs_an_offset_or_a_duration(tmp_path: Path) -> None:
    changes = {"start": "2018-11-04", "duration": "1 d", "facility.time_zone": "America/Denver"}
    scenario = tiny_scenario(changes)
    simulate(scenario, tmp_path / "run", library=tiny_library(), engine="compiled")
    path = peaks(tmp_path, "2018-11-04 01:00,2018-11-04 02:00", header="start,end")
    ended = call("coincident", tmp_path / "run", path)
    assert ended.code == 2 and "peaks.csv:2: the clock is changed within" in ended.problem
    frame = open_run(tmp_path / "run").facility(["facility_power_w"])["facility_power_w"]
    for start, first in (("2018-11-04 01:00-07:00", 120), ("2018-11-04 01:00", 60)):
        path = peaks(tmp_path, f"{start},60", header="start,duration_min")
        (found,) = coincident_demand(open_run(tmp_path / "run"), read_peak_intervals(path))
        of_hour = frame.iloc[first : first + 60].astype(float)
        assert found.mw == pytest.approx(of_hour.mean() / 1e6)


def test_interval_may_end_when_the_clock_is_put_forward(tmp_path: Path) -> None:
    changes = {"start": "2018-03-11", "duration": "1 d", "facility.time_zone": "America/Denver"}
    simulate(tiny_scenario(changes), tmp_path / "run", library=tiny_library(), engine="compiled")
    run = open_run(tmp_path / "run")
    frame = run.facility(["facility_power_w"])["facility_power_w"].astype(float)
    end, duration = ("start,end", "start,duration_min")
    for header, row, last in (
        (end, "2018-03-11 01:00,2018-03-11 02:00", 120),
        (duration, "2018-03-11 01:00,60", 120),
        (duration, "2018-03-11 01:00,120", 180),
    ):
        path = peaks(tmp_path, row, header=header)
        (found,) = coincident_demand(run, read_peak_intervals(path))
        assert found.mw == pytest.approx(frame.iloc[60:last].mean() / 1e6)
    for row, why in (
        ("2018-03-11 02:00,2018-03-11 04:00", "does not exist"),
        ("2018-03-11 01:00,2018-03-11 02:30", "does not exist"),
        ("2018-03-11 01:00,2018-03-11 03:00", "the clock is changed within"),
    ):
        with pytest.raises(InputError, match=why):
            coincident_demand(run, read_peak_intervals(peaks(tmp_path, row, header=end)))


def test_constant_load_meets_every_test_up_to_its_own_size(tmp_path: Path) -> None:
    idle = {**NO_JOBS, "start": "2018-02-01", "duration": "28 d", "warm_up": "1 d"}
    scenario = tiny_scenario(idle | {"facility.rated_power_mw": 0.0056})
    simulate(scenario, tmp_path / "idle", library=tiny_library(), engine="compiled")
    path = peaks(tmp_path, "2018-02-01 17:00,2018-02-01 18:00", header="start,end")
    for percent, verdict in ((85, "kept, worst"), (86, "1 violation")):  # 12 x 400 W: 85.7 %
        tests = ("--minimum-take", percent, "--load-factor", 99)
        _, demand, _, factor, take = call("coincident", tmp_path / "idle", path, *tests).out.split(
            "\n  "
        )
        assert demand.endswith("0.005 MW, 100.0 % of own peak, 0.005 MW")
        assert verdict in take
        assert "limit 0.99: kept, 1 over the run" in factor


def test_sweep_gives_percentiles_over_seeds_for_each_point(
    tmp_path: Path, library_folder: Path
) -> None:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {UTILIZATION: [0.3, 0.6]}}], seeds=3)
    run_sweep(sweep, tmp_path / "out", profiles=[str(library_folder)])
    path = peaks(tmp_path, "2018-01-01 16:00,2018-01-01 17:00,CP")
    low, high = at_peaks([tmp_path / "out"], read_peak_intervals(path))
    assert [len(low.runs), len(high.runs)] == [3, 3] and low.label != high.label
    mw = sorted(of_run[0].mw for of_run in high.demands)
    row = high.rows()[0]
    assert row["mw"] == pytest.approx(np.mean(mw))
    assert row["mw_p5"] == pytest.approx(mw[0] + 0.1 * (mw[1] - mw[0])), "linear between values"
    assert row["mw_p95"] == pytest.approx(mw[1] + 0.9 * (mw[2] - mw[1]))
    ended = call("coincident", tmp_path / "out", path, "--out", tmp_path / "cp.csv")
    assert ended.code == 0 and "of 3 seeds" in ended.out
    with (tmp_path / "cp.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["CP", "mean"] * 2
    assert float(rows[2]["mw_p95"]) == pytest.approx(row["mw_p95"])


@pytest.mark.slow
def test_seeds_that_draw_their_values_stay_together_and_no_run_counts_twice(
    tmp_path: Path, library_folder: Path, run_folder: Path
) -> None:
    draw = {UTILIZATION: {"distribution": "uniform", "low": 0.3, "high": 0.7}}
    run_sweep(
        tiny_sweep(tmp_path, draw=draw, seeds=2), tmp_path / "out", profiles=[str(library_folder)]
    )
    path = peaks(tmp_path, "2018-01-01 16:00,2018-01-01 17:00,CP")
    (group,) = at_peaks([tmp_path / "out"], read_peak_intervals(path))
    assert len(group.runs) == 2 and group.rows()[0]["mw_p5"] < group.rows()[0]["mw_p95"]
    shutil.copytree(run_folder, tmp_path / "again")
    ended = call("coincident", run_folder, tmp_path / "again", path)
    assert ended.code == 2 and "give each once" in ended.problem


def test_minimum_take_holds_each_month_against_the_contract(
    run_folder: Path, tmp_path: Path
) -> None:
    path = peaks(tmp_path, "2018-01-25 01:00,2018-01-25 02:00,CP")
    ended = call("coincident", run_folder, path, "--minimum-take", 85, "--json")
    (found,) = json.loads(ended.out)
    (report,) = found["limits"]
    assert report["unchecked"][0]["key"] == "minimum_take.0", "ten days hold no whole month"
    assert found["demands"][0]["name"] == "CP" and found["seeds"] == [0]


BAD = {
    "outside of the run": (
        ["2018-01-25 01:00,2018-01-25 02:00,a", "2019-01-25 01:00,2019-01-25 02:00,b"],
        "peaks.csv:3: start: 2019-01-25T01:00:00 lies outside the run",
    ),
    "overlapping": (
        ["2018-01-25 01:00,2018-01-25 02:00,a", "2018-01-25 00:30,2018-01-25 01:01,b"],
        "peaks.csv:2: the interval overlaps that of 3",
    ),
    "not rising": (["2018-01-25 02:00,2018-01-25 02:00,a"], "peaks.csv:2: the interval does not"),
    "within an interval": (
        ["2018-01-25 01:00:30,2018-01-25 02:00,a"],
        "peaks.csv:2: start: 2018-01-25T01:00:30 lies within an interval",
    ),
    "no time": (["noon,2018-01-25 02:00,a"], "peaks.csv:2: column 'start' is 'noon'"),
    "missing": ([",2018-01-25 02:00,a"], "peaks.csv:2: column 'start' is ''"),
    "of two clocks": (
        ["2018-01-25 01:00,2018-01-25 02:00Z,a"],
        "peaks.csv:2: column 'end' is '2018-01-25 02:00Z', expected a time with no offset",
    ),
    "none": ([], "peaks.csv: 0 intervals, expected 1 to"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_intervals_are_told_in_one_line(name: str, run_folder: Path, tmp_path: Path) -> None:
    rows, words = BAD[name]
    ended = call("coincident", run_folder, peaks(tmp_path, *rows))
    assert ended.code == 2 and words in ended.problem


def test_files_without_an_end_or_unreadable_are_refused(run_folder: Path, tmp_path: Path) -> None:
    path = peaks(tmp_path, "2018-01-25 01:00,a", header="start,name")
    ended = call("coincident", run_folder, path)
    assert "peaks.csv:1: columns 'end' and 'duration_min' are both missing" in ended.problem
    path = peaks(tmp_path, "2018-01-25 01:00,-5", header="start,duration_min")
    assert (
        "peaks.csv:2: column 'duration_min' is '-5'" in call("coincident", run_folder, path).problem
    )
    path.write_bytes(b"\x00\x01PAR1")
    assert call("coincident", run_folder, path).code == 2
    assert "can't be read" in call("coincident", run_folder, tmp_path / "no.csv").problem
