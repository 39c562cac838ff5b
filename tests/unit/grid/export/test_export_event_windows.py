"""The worst windows of a one-minute run, exported at 0.1 s."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import call
from exported import export, sidecar, stored_w

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import FORMATS, Options, export_run

NAMES = ("peak", "rise_1s", "drop_1s", "rise_10s", "drop_10s", "rise_60s", "drop_60s")
MOVABLE = [
    name for name, fmt in FORMATS.items() if "event_window" in fmt.accepted_options()
]


def event_w(run: Run, name: str, column: str = "facility_power_w") -> np.ndarray:
    return stored_w(run, column, f"zooms/{name}.parquet")


@pytest.fixture
def copied(event_run, tmp_path):
    return Path(copytree(event_run.folder, tmp_path / "run"))


# GridLAB-D has whole seconds, a RAW record needs reactive power: tests of their own.
@pytest.mark.parametrize("fmt", [f for f in MOVABLE if f not in ("gridlabd", "psse")])
def test_every_format_that_takes_a_window_takes_an_event_window(
    fmt, event_run, tmp_path
):
    told = sidecar(export(event_run, fmt, tmp_path, event_window="drop_10s"))
    power_w = event_w(event_run, "drop_10s")
    assert (told["step_s"], told["n_steps"]) == (0.1, power_w.size)
    assert told["energy_mwh"] == pytest.approx(power_w.sum() * 0.1 / 3.6e9, rel=1e-12)
    assert told["peak_mw"] == pytest.approx(power_w.max() / 1e6, rel=1e-12)
    assert told["run"]["zoom"]["name"] == "drop_10s"
    assert told["run"]["zoom"]["resolution_s"] == 0.1
    assert told["run"]["resolution_s"] == 60.0
    assert "drop_10s_parquet_sha256" in told["run"]
    assert told["done"][0].startswith("the event window 'drop_10s' of the run")


def test_seconds_of_the_event_window_hold_what_the_metrics_say(event_run, tmp_path):
    assert tuple(event_run.event_windows) == NAMES
    for name, entry in event_run.event_windows.items():
        place = export(event_run, "csv", tmp_path / name, event_window=name, step="1 s")
        frame = pd.read_csv(place)
        second = frame["timestamp"].tolist().index(entry["at"])
        power_mw = frame["facility_power_w"].to_numpy() / 1e6
        found_mw = power_mw[second]
        if name != "peak":
            length = int(name.split("_")[1].removesuffix("s"))
            found_mw = power_mw[second:][:length].mean()
            found_mw -= power_mw[second - length : second].mean()
        assert found_mw == pytest.approx(entry["value_mw"], rel=1e-5)


def test_a_pool_and_a_part_of_an_event_window(event_run, tmp_path):
    start = event_run.event_window("peak").index[0]
    place = export(
        event_run,
        "csv",
        tmp_path,
        column="it_power_w.left",
        event_window="peak",
        until=(start + pd.Timedelta(seconds=1.5)).to_pydatetime(),
    )
    frame = pd.read_csv(place)
    expected_w = event_w(event_run, "peak", "it_power_w.left")[:15]
    np.testing.assert_allclose(frame["it_power_w.left"], expected_w, atol=6e-4)
    assert frame["timestamp"][0] == start.isoformat(timespec="milliseconds")
    assert frame["timestamp"][0].endswith("-07:00")


def test_reader_gives_an_event_window_as_a_frame(event_run):
    frame = event_run.event_window("rise_1s", ["facility_power_w"])
    np.testing.assert_array_equal(
        frame["facility_power_w"], event_w(event_run, "rise_1s")
    )
    assert (np.diff(frame.index) == np.timedelta64(100, "ms")).all()


def test_command_exports_an_event_window_to_a_place_of_its_name(copied):
    done = call("export", "playback", copied, "--zoom", "rise_1s")
    assert done.code == 0, done.err
    place = copied.with_name("run-rise_1s-playback.csv")
    n_steps = event_w(Run(copied), "rise_1s").size
    assert len(place.read_text().splitlines()) == n_steps + 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "no event window 'rise1s' (have: 'peak', 'rise_1s', "),
        ({}, "did you mean 'rise_1s'?"),
        ({"event_window": "../facility"}, "no event window '../facility'"),
        ({"event_window": ""}, "no event window ''"),
        (
            {"event_window": "peak", "first": datetime(2017, 1, 1)},
            "lies outside the event window, 2018-01-01T",
        ),
        ({"event_window": "peak", "step": "7 s"}, "are no whole number of steps of 7"),
    ],
)
def test_bad_choices_are_one_clear_line(options, says, event_run, tmp_path):
    with pytest.raises(InputError) as caught:
        export(event_run, "csv", tmp_path, **{"event_window": "rise1s"} | options)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_run_without_event_windows_says_how_to_get_them(minute_run):
    says = "keeps no event windows; run again with --event-windows"
    with pytest.raises(InputError, match=says):
        export_run(minute_run, "csv", options=Options(event_window="peak"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(0, 1_000)], "holds 1,000 intervals where the event window has"),
        ([(0, 0)], "holds 0 intervals where the event window has"),
        (
            [(0, 1_000), (999, 1), (1_001, None)],
            r"the timestamp of row 1,000 is .*, expected one every 0\.1 s from",
        ),
    ],
    ids=["cut", "empty", "a row twice"],
)
def test_an_event_window_that_is_not_what_the_metrics_say_is_refused(
    copied, rows, words
):
    path = copied / "zooms" / "peak.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(*of) for of in rows]), path)
    with pytest.raises(InputError, match=words) as caught:
        export_run(copied, "csv", options=Options(event_window="peak"))
    assert len(str(caught.value).splitlines()) == 1
