"""Signals from files: step functions in UTC, whatever the clock does, without gaps."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from diploee.base.clock import RunClock, fixed_zone
from diploee.base.errors import LogFormatError
from diploee.importers.signals import read_signal
from diploee.scenario import SignalFile
from diploee.schedule.signals import NO_END_MS, Signal, fit_to_run, quantile

H = 3_600_000
NEW_YORK = '"Time Stamp","Name","PTID","LBMP ($/MWHr)"'


def ms(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


def read(folder: Path, text: str, name: str = "price", **keys: str) -> Signal:
    path = folder / "signal.csv"
    path.write_text(text, encoding="utf-8")
    return read_signal(path, name, SignalFile(file="signal.csv", **keys))  # type: ignore[arg-type]


def refused(folder: Path, text: str, name: str = "price", **keys: str) -> str:
    with pytest.raises(LogFormatError) as caught:
        read(folder, text, name, **keys)
    return str(caught.value).removeprefix(f"{folder}/")


def hours(*rows: str) -> str:
    return "\n".join(["time,price", *rows]) + "\n"


GOOD = ["2023-01-01T00:00Z,10", "2023-01-01T01:00Z,20", "2023-01-01T02:00Z,-5"]


def test_each_value_holds_from_its_time_until_the_next(tmp_path: Path) -> None:
    signal = read(tmp_path, hours(*GOOD))
    begin = int(signal.times_ms[0])
    assert begin == ms("2023-01-01T00:00Z")
    assert [signal.at(begin + k) for k in (0, H - 1, H, 3 * H - 1)] == [10, 10, 20, -5]
    assert np.isnan([signal.at(begin - 1), signal.at(begin + 3 * H)]).all()


def test_windows_and_means_weigh_each_value_by_its_time(tmp_path: Path) -> None:
    signal = read(tmp_path, hours(*GOOD))
    begin = int(signal.times_ms[0])
    length_ms, values = signal.window(begin + H // 2, begin + 5 * H // 2)
    assert length_ms.tolist() == [H // 2, H, H // 2]
    assert values.tolist() == [10, 20, -5]
    assert (length_ms @ values) / length_ms.sum() == 11.25
    edges = begin + np.array([-1, 0, 2, 3, 4]) * H
    np.testing.assert_array_equal(signal.means(edges), [np.nan, 15, -5, np.nan])


def test_who_sees_a_signal_knows_it_only_as_far_ahead_as_it_is_known(
    tmp_path: Path,
) -> None:
    signal = read(tmp_path, hours(*GOOD), known_ahead="90 min")
    begin = int(signal.times_ms[0])
    seen = signal.known_at(lambda: begin)
    assert seen.at(begin + H) == 20
    assert np.isnan(seen.at(begin + 2 * H))
    assert seen.window(begin, begin + 3 * H)[1].tolist() == [10, 20]
    blind = Signal(signal.times_ms, signal.values, signal.end_ms).known_at(
        lambda: begin + H - 1
    )
    assert blind.window(begin, begin + 3 * H)[1].tolist() == [10]


def test_quantiles_are_of_time() -> None:
    length_ms, values = np.array([1, 97, 2]), np.array([9.0, 1.0, 5.0])
    found = [quantile(length_ms, values, q) for q in (0.97, 0.98, 0.99, 0.995)]
    assert found == [1, 5, 5, 9]
    assert np.isnan(quantile(length_ms[:0], values[:0], 0.5))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([*GOOD, "2023-01-01T05:00Z,7"], ":5: no value for 180 min before this one"),
        ([*GOOD, "2023-01-01T03:00Z,"], ":5: column 'price' is '', expected a number"),
        ([*GOOD, "2023-01-01T02:00Z,7"], ":5: the same time as in line 4"),
        (["2023-01-01T00:00,1"], "signal.csv:2: a time without an offset from UTC"),
        ([GOOD[0], "2023-01-01T01:00,1"], "with an offset from UTC like the first"),
        (GOOD[:1], "signal.csv: one row, expected two or more to infer the step"),
        ([], "signal.csv: no rows, expected a time and a value in each"),
    ],
)
def test_gaps_repeats_and_stamps_without_a_zone_are_refused_with_their_line(
    tmp_path: Path, rows: list[str], problem: str
) -> None:
    assert problem in refused(tmp_path, hours(*rows))


def test_a_cap_holds_until_the_next_whenever_that_comes(tmp_path: Path) -> None:
    text = "time,cap\n2023-01-01T00:00Z,10000\n2023-01-03T07:30Z,8000\n"
    signal = read(tmp_path, text, "cap", unit="kw")
    assert signal.values.tolist() == [10, 8]
    assert signal.end_ms == NO_END_MS
    assert signal.at(int(signal.times_ms[1]) - 1) == 10


def test_units_and_offsets_are_taken_from_the_scenario_where_the_file_has_none(
    tmp_path: Path,
) -> None:
    local = hours("2023-01-01 00:00,0.1", "2023-01-01 01:00,0.2")
    signal = read(tmp_path, local, unit="per_kwh", utc_offset="-07:00")
    assert signal.values.tolist() == [100, 200]
    assert signal.times_ms[0] == ms("2023-01-01T00:00-07:00")


@pytest.mark.parametrize("month", [3, 11])
def test_days_on_which_the_clock_changes_have_their_hours_in_eastern_time(
    tmp_path: Path, month: int
) -> None:
    zone, day = ZoneInfo("America/New_York"), {3: 12, 11: 5}[month]
    begin = datetime(2023, month, day, tzinfo=zone).astimezone(ZoneInfo("UTC"))
    n = {3: 23, 11: 25}[month]
    local = [(begin + timedelta(hours=k)).astimezone(zone) for k in range(n)]
    rows = [f'"{at:%m/%d/%Y %H:%M}","WEST",1,{k}' for k, at in enumerate(local)]
    signal = read(tmp_path, "\n".join([NEW_YORK, *rows]))
    assert signal.values.tolist() == list(range(n))
    assert set(np.diff(signal.times_ms).tolist()) == {H}


def test_five_minute_prices_of_new_york_are_stamped_at_their_end(
    tmp_path: Path,
) -> None:
    rows = [f'"01/01/2023 00:{m:02}:00","WEST",1,{m}' for m in (5, 10, 15)]
    signal = read(tmp_path, "\n".join([NEW_YORK, *rows]))
    assert signal.times_ms[0] == ms("2023-01-01T00:00-05:00")


def test_several_places_are_refused_until_one_is_named(tmp_path: Path) -> None:
    rows = [
        f"2023-01-01 0{h}:00:00-08:00,{place},{h}"
        for h in range(3)
        for place in ("HUB", "NODE")
    ]
    text = "\n".join(["Interval Start,Location,LMP", *rows])
    assert "rows of 2 places ('HUB', 'NODE'), expected place" in refused(tmp_path, text)
    assert "did you mean 'NODE'?" in refused(tmp_path, text, place="NODES")
    assert read(tmp_path, text, place="NODE").values.tolist() == [0, 1, 2]


def test_a_signal_must_cover_the_run(tmp_path: Path) -> None:
    clock = RunClock(datetime(2023, 1, 1), fixed_zone("+00:00"), 3 * H, 60_000)
    signal = read(tmp_path, hours(*GOOD))
    shifted = fit_to_run(signal, "signal.csv", clock)
    assert shifted.times_ms.tolist() == [0, H, 2 * H]
    longer = RunClock(datetime(2023, 1, 1), fixed_zone("+00:00"), 4 * H, 60_000)
    with pytest.raises(
        LogFormatError, match=r"to 2023-01-01T03:00:00\+00:00, expected all of the"
    ):
        fit_to_run(signal, "signal.csv", longer)
