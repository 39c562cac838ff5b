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
from exported import sidecar, stored_w

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import FORMATS, Options, export_run

NAMES = ("peak", "rise_1s", "drop_1s", "rise_10s", "drop_10s", "rise_60s", "drop_60s")
MOVABLE = [name for name, fmt in FORMATS.items() if "event_window" in fmt.accepts()]


def event_w(run: Run, name: str, column: str = "facility_power_w") -> np.ndarray:
    return stored_w(run, column, f"zooms/{name}.parquet")


@pytest.fixture
def copied(event_run: Run, tmp_path: Path) -> Path:
    return Path(copytree(event_run.folder, tmp_path / "run"))


# GridLAB-D has whole seconds, a RAW record needs reactive power: tests of their own.
@pytest.mark.parametrize("fmt", [f for f in MOVABLE if f not in ("gridlabd", "psse")])
def test_every_format_that_takes_a_window_takes_an_event_window(
    fmt: str, event_run: Run, tmp_path: Path
) -> None:
    out = tmp_path / f"out{(FORMATS[fmt].suffixes or ('',))[0]}"
    place = export_run(event_run, fmt, out, Options(event_window="drop_10s"))
    told = sidecar(place)
    power_w = event_w(event_run, "drop_10s")
    assert (told["step_s"], told["n_steps"]) == (0.1, power_w.size)
    assert told["energy_mwh"] == pytest.approx(power_w.sum() * 0.1 / 3.6e9, rel=1e-12)
    assert told["peak_mw"] == pytest.approx(power_w.max() / 1e6, rel=1e-12)
    assert told["run"]["zoom"]["name"] == "drop_10s"
    assert told["run"]["zoom"]["resolution_s"] == 0.1
    assert told["run"]["resolution_s"] == 60.0
    assert "drop_10s_parquet_sha256" in told["run"]
    assert told["done"][0].startswith("the event window 'drop_10s' of the run")


def test_seconds_of_the_event_window_hold_what_the_metrics_say(
    event_run: Run, tmp_path: Path
) -> None:
    for name in NAMES:
        entry = event_run.event_windows[name]
        options = Options(event_window=name, step="1 s")
        frame = pd.read_csv(
            export_run(event_run, "csv", tmp_path / f"{name}.csv", options)
        )
        second = frame["timestamp"].tolist().index(entry["at"])
        power_mw = frame["facility_power_w"].to_numpy() / 1e6
        if name == "peak":
            found_mw = power_mw[second]
        else:
            length = int(name.split("_")[1].removesuffix("s"))
            after, before = (
                power_mw[second:][:length],
                power_mw[second - length : second],
            )
            found_mw = after.mean() - before.mean()
        assert found_mw == pytest.approx(entry["value_mw"], rel=1e-5)


def test_a_pool_and_a_part_of_an_event_window(event_run: Run, tmp_path: Path) -> None:
    at = datetime.fromisoformat(event_run.event_windows["peak"]["at"])
    options = Options(
        column="it_power_w.left",
        event_window="peak",
        first=at,
        until=at.replace(second=at.second // 60),
    )
    with pytest.raises(InputError, match="--from must be before --to"):
        export_run(event_run, "csv", tmp_path / "p.csv", options)
    start = event_run.event_window("peak").index[0]
    until = (start + pd.Timedelta(seconds=1.5)).to_pydatetime()
    options = Options(column="it_power_w.left", event_window="peak", until=until)
    frame = pd.read_csv(export_run(event_run, "csv", tmp_path / "p.csv", options))
    expected_w = event_w(event_run, "peak", "it_power_w.left")[:15]
    np.testing.assert_allclose(frame["it_power_w.left"], expected_w, atol=6e-4)
    assert frame["timestamp"][0] == start.isoformat(timespec="milliseconds")
    assert frame["timestamp"][0].endswith("-07:00")


def test_reader_gives_an_event_window_as_a_frame(event_run: Run) -> None:
    assert tuple(event_run.event_windows) == NAMES
    frame = event_run.event_window("rise_1s", ["facility_power_w"])
    np.testing.assert_array_equal(
        frame["facility_power_w"], event_w(event_run, "rise_1s")
    )
    assert (np.diff(frame.index) == np.timedelta64(100, "ms")).all()


def test_default_place_names_the_event_window(copied: Path) -> None:
    place = export_run(copied, "playback", options=Options(event_window="rise_1s"))
    assert place == copied.with_name("run-rise_1s-playback.csv")


def test_command_line_takes_an_event_window(event_run: Run, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    done = call(
        "export", "playback", event_run.folder, "--zoom", "rise_1s", "--out", out
    )
    assert done.code == 0, done.err
    assert len(out.read_text().splitlines()) == event_w(event_run, "rise_1s").size + 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            Options(event_window="rise_2s"),
            "no event window 'rise_2s' (have: 'peak', 'rise_1s', ",
        ),
        (Options(event_window="rise1s"), "did you mean 'rise_1s'?"),
        (Options(event_window="../facility"), "no event window '../facility'"),
        (Options(event_window=""), "no event window ''"),
        (
            Options(event_window="peak", first=datetime(2017, 1, 1)),
            "lies outside the event window, 2018-01-01T",
        ),
        (
            Options(event_window="peak", step="7 s"),
            "are no whole number of steps of 7 s",
        ),
    ],
)
def test_bad_choices_are_one_clear_line(
    options: Options, says: str, event_run: Run, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        export_run(event_run, "csv", tmp_path / "out.csv", options)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "fmt", [name for name, fmt in FORMATS.items() if fmt.whole_year]
)
def test_a_year_of_hours_is_not_made_of_an_event_window(
    fmt: str, event_run: Run
) -> None:
    with pytest.raises(
        InputError, match=f"--event-window: the format '{fmt}' has no use for it"
    ):
        export_run(event_run, fmt, options=Options(event_window="peak"))


def test_run_without_event_windows_says_how_to_get_them(minute_run: Run) -> None:
    with pytest.raises(
        InputError, match="keeps no event windows; run again with --event-windows"
    ):
        export_run(minute_run, "csv", options=Options(event_window="peak"))


def test_an_event_window_that_is_not_what_the_metrics_say_is_refused(
    copied: Path,
) -> None:
    path = copied / "zooms" / "peak.parquet"
    table = pq.read_table(path)
    twice = pa.concat_tables(
        [table.slice(0, 1_000), table.slice(999, 1), table.slice(1_001)]
    )
    damaged = {
        "holds 1,000 intervals where the event window has": table.slice(0, 1_000),
        r"the timestamp of row 1,000 is .*, expected one every 0\.1 s from": twice,
        "holds 0 intervals where the event window has": table.slice(0, 0),
    }
    for words, written in damaged.items():
        pq.write_table(written, path)
        assert_refused(copied, words)


def assert_refused(folder: Path, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        export_run(folder, "csv", options=Options(event_window="peak"))
    assert len(str(caught.value).splitlines()) == 1
