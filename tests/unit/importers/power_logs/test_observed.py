"""Observed facility loads: read exactly, repaired with counts, or refused with the row's place."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.csv import WriteOptions, write_csv

from diploee.errors import DiploeeError, LogFormatError
from diploee.importers.power_logs.observed import read_observed_series


def put(folder, text, name="load.csv"):
    path = folder / name
    path.write_text(text)
    return path


def repairs(series):
    return {cause: n for cause, n in series.counts.items() if n and cause != "rows"}


def published(folder, start="2018-01-01", end="2019-01-01T00:01"):
    """A facility in the layout of the published simulated profiles: both ends of the span."""
    minutes = np.arange(start, end, dtype="datetime64[m]").astype("datetime64[s]")
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "timestamp": minutes,
            "power_W": np.round(rng.uniform(2e6, 6e6, minutes.size), 1),
            "utilization": np.round(rng.uniform(0, 1, minutes.size), 6),
        }
    )
    path = folder / "colocation_60_power.csv"
    with path.open("wb") as file:
        file.write(b"timestamp,power_W,utilization\n")
        write_csv(table, file, WriteOptions(include_header=False, quoting_style="none"))
    return path


@pytest.mark.slow
def test_a_year_in_the_published_layout_keeps_every_row_and_its_sums(tmp_path):
    path = published(tmp_path)
    series = read_observed_series(path)
    table = pd.read_csv(path)
    assert len(series) == len(table) == 525_601
    assert (series.start, series.step_ms) == (datetime(2018, 1, 1), 60_000)
    assert series.power_w.sum() == pytest.approx(table["power_W"].sum(), rel=1e-12)
    assert series.utilization.sum() == pytest.approx(table["utilization"].sum(), rel=1e-12)
    assert series.counts["rows"] == 525_601
    assert repairs(series) == {}


@pytest.mark.parametrize(
    ("column", "factor"),
    [("power_w", 1), ("power_kw", 1e3), ("power_mw", 1e6), ("power_MW", 1e6), ("it_power_w", 1)],
)
def test_the_name_of_the_column_tells_the_unit(tmp_path, column, factor):
    path = put(tmp_path, f"timestamp,{column}\n2024-02-28,1.5\n2024-02-29,2\n2024-03-01,4\n")
    series = read_observed_series(path, max_gap_s=1e6)
    np.testing.assert_allclose(series.power_w, np.array([1.5, 2, 4]) * factor)
    assert series.step_ms == 86_400_000
    assert series.utilization is None


def test_mapped_columns_are_read_in_the_given_unit(tmp_path):
    path = put(tmp_path, "When;x\n".replace(";", ",") + "2024-01-01 00:00,1\n2024-01-01 00:15,3\n")
    series = read_observed_series(path, time_column="When", power_column="x", power_unit="kW")
    np.testing.assert_array_equal(series.power_w, [1000, 3000])
    assert series.step_ms == 900_000
    with pytest.raises(LogFormatError, match="does not tell its unit; give power_unit"):
        read_observed_series(path, time_column="When", power_column="x")
    with pytest.raises(LogFormatError, match="power_unit is 'GW', expected one of 'W', 'kW', 'MW'"):
        read_observed_series(path, time_column="When", power_column="x", power_unit="GW")


def test_utilization_alone_is_a_series_without_power(tmp_path):
    path = put(tmp_path, "t_s,utilization_pct\n0,20\n60,40\n120,100\n")
    series = read_observed_series(path, start=datetime(2020, 5, 4, 6))
    np.testing.assert_allclose(series.utilization, [0.2, 0.4, 1.0])
    assert np.isnan(series.power_w).all()
    assert series.start == datetime(2020, 5, 4, 6)


def test_seconds_begin_at_the_given_start(tmp_path):
    path = put(tmp_path, "t_s,power_w\n90,1\n120,2\n150,3\n")
    assert read_observed_series(path, start=datetime(2020, 1, 1)).start == datetime(
        2020, 1, 1, 0, 1, 30
    )
    with pytest.raises(LogFormatError, match="the date of its 0 is not known; give 'start'"):
        read_observed_series(path)


@pytest.mark.parametrize(
    ("stamps", "start"),
    [
        (["2018-01-01T00:00:00Z", "2018-01-01T00:01:00Z"], datetime(2018, 1, 1, tzinfo=UTC)),
        (
            ["2018-01-01 00:00:00-07:00", "2018-01-01 00:01:00-07:00"],
            datetime(2018, 1, 1, tzinfo=timezone(timedelta(hours=-7))),
        ),
        (["2018/01/01 00:00:00", "2018/01/01 00:01:00"], datetime(2018, 1, 1)),
        (
            ["2018-01-01 00:00:00.9799600", "2018-01-01 00:01:00.9799600"],
            datetime(2018, 1, 1, 0, 0, 0, 979_960),
        ),
        (  # the clock of a zone goes back: the time goes on
            ["2018-10-28T02:59:00+02:00", "2018-10-28T02:00:00+01:00"],
            datetime(2018, 10, 28, 2, 59, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_stamps_in_every_manner(tmp_path, stamps, start):
    rows = "".join(f"{stamp},1\n" for stamp in stamps)
    series = read_observed_series(put(tmp_path, "timestamp,power_w\n" + rows))
    assert series.start == start
    assert series.start.utcoffset() == start.utcoffset()
    assert series.step_ms == 60_000


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_parquet_gives_the_same_as_csv(tmp_path, zone):
    stamps = pd.date_range("2024-07-01", periods=50, freq="15min", tz=zone)
    table = pd.DataFrame({"timestamp": stamps, "power_w": np.arange(50.0)})
    table.to_parquet(tmp_path / "a.parquet")
    table.to_csv(tmp_path / "a.csv", index=False)
    one = read_observed_series(tmp_path / "a.parquet")
    other = read_observed_series(tmp_path / "a.csv")
    assert one.start == other.start == stamps[0].to_pydatetime()
    assert one.start.utcoffset() == other.start.utcoffset()
    np.testing.assert_array_equal(one.power_w, other.power_w)


def test_comment_lines_are_left_out_and_counted_as_lines(tmp_path):
    text = "# from the meter\ntimestamp,power_w\n2024-01-01,5\n2024-01-01 01:00,6\n"
    np.testing.assert_array_equal(read_observed_series(put(tmp_path, text)).power_w, [5, 6])
    bad = put(tmp_path, text + "2024-01-01 02:00,x\n")
    with pytest.raises(LogFormatError, match=r"load.csv:5: column 'power_w' is 'x'"):
        read_observed_series(bad)


def test_every_repair_is_counted_by_its_cause(tmp_path):
    text = (
        "timestamp,power_w,utilization\n"
        "2024-01-01 00:02,30,0.3\n"  # out of order
        "2024-01-01 00:00,10,0.1\n"
        "2024-01-01 00:01,,0.2\n"  # power is missing: 20 on the line
        "2024-01-01 00:01,99,0.9\n"  # its time is taken
        "2024-01-01 00:03:03,40,nan\n"  # three seconds late; utilization is missing
        ",1,1\n"  # no time
        "2024-01-01 00:06,70,0.7\n"  # two rows before it are missing
        "2024-01-01 00:07,80,0.8\n"
    )
    series = read_observed_series(put(tmp_path, text))
    np.testing.assert_allclose(series.power_w, [10, 20, 30, 40, 50, 60, 70, 80])
    np.testing.assert_allclose(series.utilization, np.arange(1, 9) / 10)
    assert series.counts["rows"] == 8
    assert repairs(series) == {
        "rows_without_time": 1,
        "rows_out_of_order": 1,
        "repeated_times": 1,
        "times_moved_to_the_grid": 1,
        "missing_rows_filled": 2,
        "missing_power_w_filled": 1,
        "missing_utilization_filled": 1,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("date,power_w\n1,1", r"load.csv:1: no column of time \(found: 'date', 'power_w'\)"),
        ("timestamp,power_mW\n1,1", r"no column of power or utilization .*did you mean 'power_"),
        ("timestamp,power_w\n2024-01-01,1", r"load.csv: 1 rows with a time of their own"),
        (
            "timestamp,power_w\n2024-01-01,1\n2024-13-01,1",
            r"load.csv:3: column 'timestamp' is '2024-13",
        ),
        (
            "timestamp,power_w\n2024-01-01,1\n2024-01-01T01:00Z,1",
            "expected a time .* without an offset from UTC like the first",
        ),
        ("timestamp,power_w\n0,1\n60,1", r"load.csv:2: column 'timestamp' is '0', expected a time"),
        (
            "timestamp,power_w\n2024-01-01,1\n2024-01-01 00:01,-4",
            r"load.csv:3: column 'power_w' is '-4'",
        ),
        ("timestamp,utilization\n2024-01-01,1\n2024-01-01 00:01,40", "name a column of percent"),
        (
            "timestamp,power_w\n2024-01-01,1\n2024-01-01 00:01,inf",
            r"load.csv:3: column 'power_w' is 'inf",
        ),
        ("timestamp,power_w\n2024-01-01,\n2024-01-01 00:01,", "'power_w' is missing in every row"),
        ("timestamp,power_w\n2024-01-01,1\n2024-01-02,1", r"csv:3: 86,400.0 s without a good"),
        (
            "timestamp,power_w\n2024-01-01,1,1\n2024-01-02,1",
            r"load.csv:2: 3 fields, expected 2 as in the header",
        ),
        (
            "timestamp,power_w\n2024-01-01 00:00,1\n2024-01-01 00:01,1\n2024-01-01 00:02,1\n"
            "2024-01-01 00:02:25,1\n2024-01-01 00:03,1\n",
            r"load.csv:5: its time lies between the steps of 60 s",
        ),
    ],
)
def test_bad_files_are_refused_in_one_line_with_the_place(tmp_path, text, problem):
    with pytest.raises(LogFormatError, match=problem) as caught:
        read_observed_series(put(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"power_column": "timestamp"}, "'timestamp' is read as time and as power"),
        ({"time_column": "utilization"}, "'utilization' is read as time and as utilization"),
        ({"power_column": "Utilization"}, "'utilization' is read as power and as utilization"),
    ],
)
def test_a_column_of_two_meanings_is_refused(tmp_path, options, problem):
    path = put(tmp_path, "timestamp,power_w,utilization\n2024-01-01,5,0.5\n2024-01-02,5,0.5\n")
    with pytest.raises(LogFormatError, match=f"load.csv:1: column {problem}; name another one"):
        read_observed_series(path, **options)


def test_a_gap_of_values_is_held_to_the_same_limit(tmp_path):
    hours = pd.date_range("2024-01-01", periods=24, freq="h")
    power = np.where((np.arange(24) > 3) & (np.arange(24) < 12), np.nan, 5.0)
    path = tmp_path / "a.csv"
    pd.DataFrame({"time": hours, "power_w": power}).to_csv(path, index=False)
    with pytest.raises(
        LogFormatError, match=r"a.csv:14: 32,400.0 s without a good reading of 'pow"
    ):
        read_observed_series(path)
    assert read_observed_series(path, max_gap_s=9 * 3600).counts["missing_power_w_filled"] == 8


@settings(max_examples=100)
@given(
    head=st.sampled_from(
        [b"", b"timestamp,power_w\n", b"timestamp,utilization\n2024-01-01,1\n2024-01-01 00:01,1\n"]
    ),
    data=st.binary(max_size=60) | st.text('0123456789,.-:\n"eTZ+ ', max_size=80).map(str.encode),
    suffix=st.sampled_from(["csv", "parquet", "csv.gz"]),
)
def test_no_bytes_raise_anything_but_the_packages_own_error(tmp_path, head, data, suffix):
    path = tmp_path / f"load.{suffix}"
    path.write_bytes(head + data)
    try:
        series = read_observed_series(path)
    except DiploeeError as error:
        assert "\n" not in str(error)
    else:
        assert len(series) >= 2
