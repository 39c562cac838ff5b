"""Resampling, windows, time zones and what an export refuses, whatever the format."""

from __future__ import annotations

from datetime import datetime
from shutil import copytree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from exported import export, sidecar, stored_w

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import FORMATS, Options, export_run
from diploee.grid.export.base import ExportRequest, Format, WrittenFiles
from diploee.grid.export.csv_writer import naive_stamps
from diploee.runs import series


def requested(run: Run, step_ms: int, rows: tuple[int, int]) -> ExportRequest:
    options = Options(column="facility_power_w")
    return ExportRequest(run, options, run.folder, run.series(), step_ms, (rows,))


@pytest.mark.parametrize("batch_rows", [7, 1000, 1 << 18])
def test_coarser_steps_are_exact_means_whatever_the_batch(
    minute_run, batch_rows, monkeypatch
):
    monkeypatch.setattr(series, "BATCH_ROWS", batch_rows)
    hourly = requested(minute_run, 3_600_000, (0, 2880))
    blocks = list(hourly.blocks())
    assert max(block.power_w.size for block in blocks) <= batch_rows / 60 + 1
    found = np.concatenate([block.power_w for block in blocks])
    expected = stored_w(minute_run).reshape(48, 60).mean(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert hourly.energy_j == pytest.approx(stored_w(minute_run).sum() * 60, rel=1e-12)
    assert hourly.peak_w == pytest.approx(expected.max(), rel=1e-12)


def test_row_groups_outside_the_window_do_not_shift_it(minute_run, tmp_path):
    copytree(minute_run.folder, tmp_path / "run")
    path = tmp_path / "run" / "facility.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=100)
    part = requested(Run(tmp_path / "run"), 60_000, (150, 431))
    found = np.concatenate([block.power_w for block in part.blocks()])
    np.testing.assert_array_equal(found, stored_w(minute_run)[150:431])
    starts = np.concatenate([block.starts_ms for block in part.blocks()])
    assert naive_stamps(starts[:1], milliseconds=False).to_pylist() == [
        "2018-01-01 02:30:00"
    ]


def test_a_column_of_one_pool_is_not_mixed_with_the_total(minute_run, tmp_path):
    for column in ("it_power_w", "it_power_w.left"):
        place = export(minute_run, "csv", tmp_path / column, column=column)
        found = np.loadtxt(place, delimiter=",", skiprows=1, usecols=1)
        np.testing.assert_allclose(found, stored_w(minute_run, column), atol=6e-4)


@pytest.mark.slow
def test_a_window_is_local_time_and_keeps_its_edges(year_run, tmp_path):
    day = {"first": datetime(2018, 3, 1), "until": datetime(2018, 3, 2)}
    place = export(year_run, "csv", tmp_path, step="1 h", **day)
    lines = place.read_text().splitlines()
    assert len(lines) == 25
    assert lines[1].startswith("2018-03-01T00:00:00-07:00,")
    assert lines[-1].startswith("2018-03-01T23:00:00-07:00,")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"column": "it_power"}, "no power column 'it_power' (have: 'it_power_w', "),
        ({"column": "busy_nodes"}, "no power column 'busy_nodes'"),
        ({"step": "90 s"}, "a step of 90 s is no multiple of the run's 60 s"),
        ({"step": "7 min"}, "no whole number of steps of 420 s"),
        ({"first": datetime(2019, 1, 1)}, "--from: 2019-01-01T00:00:00 lies outside"),
        ({"until": datetime(2018, 1, 1, 0, 0, 30)}, "--to: 2018-01-01T00:00:30 lies w"),
        (
            {"first": datetime(2018, 1, 2), "until": datetime(2018, 1, 1)},
            "--from must be before",
        ),
    ],
)
def test_bad_choices_are_one_clear_line(minute_run, tmp_path, options, says):
    with pytest.raises(InputError) as caught:
        export(minute_run, "csv", tmp_path, **options)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_option_that_a_format_has_no_use_for_is_refused_by_its_flag(
    minute_run, q_table
):
    """One of each kind; a year of hours takes no window, and others no year."""
    chosen = {
        "first": datetime(2018, 1, 1),
        "event_window": "peak",
        "leap_day": "drop-feb29",
        "q_table": q_table,
        "kv": 10,
        "time_zone": "America/Denver",
    }
    flags = {"first": "--from"}
    for name, fmt in FORMATS.items():
        for option in chosen.keys() - fmt.accepted_options():
            flag = flags.get(option, f"--{option.replace('_', '-')}")
            options = Options(**{option: chosen[option]})
            with pytest.raises(InputError, match=f"^{flag}: the format '{name}' has n"):
                export_run(minute_run, name, options=options)


def test_unknown_format_names_the_known_and_how_to_name_one_s_own(minute_run):
    known = r"unknown export format 'opends', .*did you mean 'opendss'.*'module:NAME'"
    with pytest.raises(InputError, match=known):
        export_run(minute_run, "opends")


@pytest.mark.parametrize("bad", [{"name": "a,b"}, {"time_zone": "../etc"}])
def test_options_that_no_tool_could_read_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        Options(**bad)


def test_a_file_shorter_than_its_run_is_refused(minute_run, tmp_path):
    copytree(minute_run.folder, tmp_path / "run")
    path = tmp_path / "run" / "facility.parquet"
    pq.write_table(pq.read_table(path).slice(0, 99), path)
    with pytest.raises(InputError, match=r"holds 99 intervals where .* has 2,880"):
        export_run(tmp_path / "run", "csv")


def tells_nothing(request: ExportRequest) -> None:
    request.path.write_text("x")
    assert sum(block.power_w.size for block in request.blocks())


def writes_nothing(request: ExportRequest) -> WrittenFiles:
    assert sum(block.power_w.size for block in request.blocks())
    return WrittenFiles({})


def takes_nothing(request: ExportRequest) -> WrittenFiles:
    request.path.write_text("x")
    return WrittenFiles({request.path.name: "x"})


INCOMPLETE = r"must write request.path, and take all of request.blocks\(\)"


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (tells_nothing, "raised AttributeError"),
        (writes_nothing, INCOMPLETE),
        (takes_nothing, INCOMPLETE),
    ],
)
def test_writer_from_outside_that_leaves_something_out_is_refused_by_its_format(
    minute_run, tmp_path, monkeypatch, write, words
):
    monkeypatch.setattr(FORMATS, "by_name", {"own": Format("own", "x", write)})
    with pytest.raises(InputError, match=f"^export format 'own': its writer {words}"):
        export_run(minute_run, "own", tmp_path / "own.csv")
    assert not list(tmp_path.iterdir())


ZONES = ["America/Denver", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_stamps_of_a_named_zone_read_back_to_every_moment_once(
    year_run, tmp_path, zone
):
    frame = pd.read_csv(export(year_run, "csv", tmp_path, time_zone=zone))
    back = pd.to_datetime(frame["timestamp"], utc=True, format="ISO8601")
    stored = (
        pq.read_table(year_run.folder / "facility.parquet")
        .column("timestamp")
        .to_pandas()
    )
    assert back.is_unique and back.is_monotonic_increasing
    np.testing.assert_array_equal(
        back.to_numpy(), stored.dt.tz_convert("UTC").to_numpy()
    )
    assert frame["timestamp"].is_unique


def test_change_days_have_23_and_25_hours(year_run, tmp_path):
    place = export(year_run, "csv", tmp_path, time_zone="America/Denver", step="1 h")
    stamps = pd.read_csv(place)["timestamp"]
    hours = stamps.str[:10].value_counts()
    assert hours["2018-03-11"] == 23
    assert hours["2018-11-04"] == 25
    assert hours.sum() == 8_760
    spring = stamps[stamps.str.startswith("2018-03-11T0")].tolist()
    assert spring[1:3] == ["2018-03-11T01:00:00-07:00", "2018-03-11T03:00:00-06:00"]
    autumn = stamps[stamps.str.startswith("2018-11-04T01")].tolist()
    assert autumn == ["2018-11-04T01:00:00-06:00", "2018-11-04T01:00:00-07:00"]
    assert sidecar(place)["time_zone"] == "America/Denver"


def test_fixed_offset_never_changes(year_run, tmp_path):
    stamps = pd.read_csv(export(year_run, "csv", tmp_path))["timestamp"]
    assert set(stamps.str[-6:]) == {"-07:00"}
    assert set(stamps.str[:10].value_counts()) == {48}


def test_tenths_of_a_second_show_in_all_stamps(fine_run, tmp_path):
    place = export(fine_run, "csv", tmp_path, until=datetime(2018, 1, 1, 0, 0, 1))
    tenths = [f"2018-01-01T00:00:00.{k}00+00:00" for k in range(10)]
    assert pd.read_csv(place)["timestamp"].tolist() == tenths
