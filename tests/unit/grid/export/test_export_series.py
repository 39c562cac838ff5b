"""Resampling, windows, time zones and what an export refuses, whatever the format."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from exported import sidecar, stored_w

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import FORMATS, Options, export_run
from diploee.grid.export.base import ExportRequest, Format, WrittenFiles
from diploee.grid.export.text import naive_stamps
from diploee.runs import series


def requested(run: Run, step_ms: int, rows: tuple[int, int]) -> ExportRequest:
    options = Options(column="facility_power_w")
    return ExportRequest(run, options, run.folder, run.series(), step_ms, (rows,))


@pytest.mark.parametrize("batch_rows", [7, 1000, 1 << 18])
def test_coarser_steps_are_exact_means_whatever_the_batch(
    minute_run: Run, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "BATCH_ROWS", batch_rows)
    hourly = requested(minute_run, 3_600_000, (0, 2880))
    blocks = list(hourly.blocks())
    assert max(block.power_w.size for block in blocks) <= batch_rows / 60 + 1
    found = np.concatenate([block.power_w for block in blocks])
    expected = stored_w(minute_run).reshape(48, 60).mean(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert hourly.energy_j == pytest.approx(stored_w(minute_run).sum() * 60, rel=1e-12)
    assert hourly.peak_w == pytest.approx(expected.max(), rel=1e-12)


def test_row_groups_outside_the_window_do_not_shift_it(
    minute_run: Run, tmp_path: Path
) -> None:
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


def test_a_column_of_one_pool_is_not_mixed_with_the_total(
    minute_run: Run, tmp_path: Path
) -> None:
    for column in ("it_power_w", "it_power_w.left"):
        place = export_run(minute_run, "csv", tmp_path / column, Options(column=column))
        found = np.loadtxt(place, delimiter=",", skiprows=1, usecols=1)
        np.testing.assert_allclose(found, stored_w(minute_run, column), atol=6e-4)


@pytest.mark.slow
def test_a_window_is_local_time_and_keeps_its_edges(
    year_run: Run, tmp_path: Path
) -> None:
    options = Options(
        first=datetime(2018, 3, 1), until=datetime(2018, 3, 2), step="1 h"
    )
    lines = (
        export_run(year_run, "csv", tmp_path / "day.csv", options)
        .read_text()
        .splitlines()
    )
    assert len(lines) == 25
    assert lines[1].startswith("2018-03-01T00:00:00-07:00,")
    assert lines[-1].startswith("2018-03-01T23:00:00-07:00,")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            Options(column="it_power"),
            "no power column 'it_power' (have: 'it_power_w', ",
        ),
        (Options(column="busy_nodes"), "no power column 'busy_nodes'"),
        (Options(column="it_power_w.up"), "did you mean 'it_power_w"),
        (Options(step="1 s"), "no multiple of the run's 60 s, which holds no more"),
        (Options(step="15"), "--step: must be a number and a unit"),
        (Options(step="90 s"), "no multiple of the run's 60 s"),
        (Options(step="7 min"), "no whole number of steps of 420 s"),
        (
            Options(first=datetime(2019, 1, 1)),
            "--from: 2019-01-01T00:00:00 lies outside the run",
        ),
        (
            Options(until=datetime(2018, 1, 1, 0, 0, 30)),
            "--to: 2018-01-01T00:00:30 lies within",
        ),
        (
            Options(first=datetime(2018, 1, 2), until=datetime(2018, 1, 1)),
            "--from must be before",
        ),
        (
            Options(leap_day="drop-feb29"),
            "--leap-day: the format 'csv' has no use for it",
        ),
        (
            Options(kv=10),
            "--kv: the format 'csv' has no use for it",
        ),
    ],
)
def test_bad_choices_are_one_clear_line(
    minute_run: Run, tmp_path: Path, options: Options, says: str
) -> None:
    with pytest.raises(InputError) as caught:
        export_run(minute_run, "csv", tmp_path / "out.csv", options)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_unknown_format_names_the_known(minute_run: Run) -> None:
    with pytest.raises(
        InputError,
        match=(
            r"unknown export format 'opends', .*did you mean 'opendss'.*; name one of "
            r"your own by its import path, 'module:NAME'"
        ),
    ):
        export_run(minute_run, "opends")


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "a,b"},
        {"bus": ""},
        {"kv": 0.0},
        {"kv": float("nan")},
        {"leap_day": "no"},
        {"time_zone": "Amerika/Denver"},
        {"time_zone": "../etc"},
    ],
)
def test_options_that_no_tool_could_read_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        Options(**bad)  # type: ignore[arg-type]


def test_a_file_shorter_than_its_run_is_refused(
    minute_run: Run, tmp_path: Path
) -> None:
    copytree(minute_run.folder, tmp_path / "run")
    path = tmp_path / "run" / "facility.parquet"
    pq.write_table(pq.read_table(path).slice(0, 99), path)
    with pytest.raises(InputError, match=r"holds 99 intervals where .* has 2,880"):
        export_run(tmp_path / "run", "csv")


def streamed(request: ExportRequest) -> None:
    request.path.write_text("x")
    assert sum(block.power_w.size for block in request.blocks())


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda request: streamed(request), "raised AttributeError"),
        (lambda request: request.nothing, "raised AttributeError"),
        (lambda request: WrittenFiles({}), "must write request.path, and take all"),
        (
            lambda request: (
                request.path.write_text("x") and WrittenFiles({request.path.name: "x"})
            ),
            r"must write request.path, and take all of request.blocks\(\)",
        ),
    ],
)
def test_writer_from_outside_that_leaves_something_out_is_refused_by_its_format(
    minute_run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[ExportRequest], Any],
    words: str,
) -> None:
    monkeypatch.setattr(FORMATS, "by_name", {"own": Format("own", "x", write)})
    with pytest.raises(InputError, match=f"^export format 'own': its writer {words}"):
        export_run(minute_run, "own", tmp_path / "own.csv")
    assert not list(tmp_path.iterdir())


ZONES = ["America/Denver", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_stamps_of_a_named_zone_read_back_to_every_moment_once(
    year_run: Run, tmp_path: Path, zone: str
) -> None:
    place = export_run(year_run, "csv", tmp_path / "zone.csv", Options(time_zone=zone))
    frame = pd.read_csv(place)
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


def test_change_days_have_23_and_25_hours(year_run: Run, tmp_path: Path) -> None:
    options = Options(time_zone="America/Denver", step="1 h")
    place = export_run(year_run, "csv", tmp_path / "zone.csv", options)
    stamps = pd.read_csv(place)["timestamp"]
    hours = stamps.str[:10].value_counts()
    assert hours["2018-03-11"] == 23
    assert hours["2018-11-04"] == 25
    assert hours.sum() == 8_760
    spring = stamps[stamps.str.startswith("2018-03-11T0")].tolist()
    assert (
        "2018-03-11T01:00:00-07:00" in spring and "2018-03-11T03:00:00-06:00" in spring
    )
    assert not any("T02" in stamp for stamp in spring)
    autumn = [s for s in stamps if s.startswith("2018-11-04T01")]
    assert autumn == ["2018-11-04T01:00:00-06:00", "2018-11-04T01:00:00-07:00"]
    assert sidecar(place)["time_zone"] == "America/Denver"


def test_fixed_offset_never_changes(year_run: Run, tmp_path: Path) -> None:
    stamps = pd.read_csv(export_run(year_run, "csv", tmp_path / "fixed.csv"))[
        "timestamp"
    ]
    assert set(stamps.str[-6:]) == {"-07:00"}
    assert set(stamps.str[:10].value_counts()) == {48}


def test_tenths_of_a_second_show_in_all_stamps(fine_run: Run, tmp_path: Path) -> None:
    options = Options(first=datetime(2018, 1, 1), until=datetime(2018, 1, 1, 0, 0, 1))
    stamps = pd.read_csv(export_run(fine_run, "csv", tmp_path / "x.csv", options))[
        "timestamp"
    ]
    assert stamps.tolist()[:2] == [
        "2018-01-01T00:00:00.000+00:00",
        "2018-01-01T00:00:00.100+00:00",
    ]
