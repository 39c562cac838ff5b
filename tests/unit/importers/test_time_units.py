"""Units of times and run times in logs: what the numbers tell, what is asked, what goes
first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_library
from hypothesis import given
from hypothesis import strategies as st

from diploee.base.errors import InputError, LogFormatError, WorkloadError
from diploee.base.units import US_PER_UNIT, TimeUnit
from diploee.fits.jobs.job_log_fit import fit_job_log
from diploee.importers import read_job_log, read_request_trace
from diploee.importers.text.time_units import (
    UNITS,
    TimeScale,
    infer_time_scale,
    unit_in_name,
)
from diploee.loads.jobs.job_log import JobLog
from diploee.loads.services.request_trace import RequestTrace

NINE_S = 1_709_542_800
"""09:00 UTC on 4 March 2024, since 1970."""
RUN_S = 3_600


def jobs(folder: Path, text: str, name: str = "jobs.csv", **options: Any) -> JobLog:
    path = folder / name
    path.write_text(text)
    return read_job_log(path, **options)


def requests(
    folder: Path, times: Any, also: Any = None, **options: Any
) -> RequestTrace:
    """Return a trace of JSON lines with these times."""
    path = folder / "trace.jsonl"
    of_all = {"input_length": 256, "output_length": 128, **(also or {})}
    path.write_text(
        "".join(json.dumps({"timestamp": t, **of_all}) + "\n" for t in times)
    )
    return read_request_trace(path, step_s=1, **options)


def rate_per_s(trace: RequestTrace) -> float:
    assert trace.own_span_ms is not None
    begin_ms, end_ms = trace.own_span_ms
    return float(trace.n_requests.sum()) / (end_ms - begin_ms) * 1000


HASHES = {"hash_ids": [1, 2]}


@pytest.mark.parametrize("also", [{}, HASHES])
def test_whole_seconds_in_the_layout_of_milliseconds_show_in_their_spacing(
    tmp_path: Path, also: Any
) -> None:
    trace = requests(tmp_path, np.arange(0.0, 120.0), also)
    assert rate_per_s(trace) == pytest.approx(1.0)
    assert list(trace.counts.noted.values()) == [120]


def test_rounded_milliseconds_show_in_their_spacing_and_the_documented_unit_holds(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    stamps = np.arange(1_200) * 3_000 + rng.integers(0, 2, 1_200)
    rounded = stamps[np.sort(rng.integers(0, 1_200, 3_600))]
    fine = np.sort(rng.integers(0, 3_600_000, 3_600))
    for times, also in ((rounded, None), (fine, HASHES)):
        rate = rate_per_s(requests(tmp_path, times.tolist(), also))
        assert rate == pytest.approx(1, abs=0.01)


def test_a_unit_that_may_be_one_of_several_is_asked_for(tmp_path: Path) -> None:
    times = np.sort(np.random.default_rng(2).integers(0, 3_600_000, 3_600)).tolist()
    with pytest.raises(
        LogFormatError, match=r"jsonl:1: column 'timestamp' is .*\(--time-unit\)"
    ):
        requests(tmp_path, times)
    rate = rate_per_s(requests(tmp_path, times, time_unit="ms"))
    assert rate == pytest.approx(1, abs=0.01)
    with pytest.raises(
        LogFormatError, match=r"csv:2: column 'submit' is '0'.*\(--time-unit\)"
    ):
        jobs(tmp_path, "submit,duration,nodes\n0,60,2\n100,60,2\n")


@given(
    st.sampled_from(UNITS), st.integers(1, 50), st.integers(946_684_800, 4_000_000_000)
)
def test_numbers_since_1970_tell_their_unit(
    unit: TimeUnit, n: int, first_s: int
) -> None:
    times = (first_s + np.arange(n)) * 1e6 / US_PER_UNIT[unit]
    assert infer_time_scale(times) == TimeScale(unit, is_relative=False)
    assert infer_time_scale(times, unit) == TimeScale(unit, is_relative=False)


@pytest.mark.parametrize("unit", ["ns", "ms"])
def test_jobs_and_requests_read_numbers_since_1970_alike(
    tmp_path: Path, unit: TimeUnit
) -> None:
    times = [int((NINE_S + k) * 1e6 / US_PER_UNIT[unit]) for k in range(40)]
    rows = "".join(f"{t},30,2\n" for t in times)
    log = jobs(tmp_path, "submit,duration,nodes\n" + rows)
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["timestamp", *map(str, times)]) + "\n")
    of_csv = read_request_trace(path, step_s=1, utc_offset="+08:00")
    for trace in (of_csv, requests(tmp_path, times, HASHES)):
        assert (trace.origin_ms, trace.is_relative) == (NINE_S * 1000, False)
    assert log.jobs.submit_ms.tolist() == [(NINE_S + k) * 1000 for k in range(40)]
    assert not log.is_relative and log.jobs.duration_ms.tolist() == [30_000] * 40


@pytest.mark.parametrize(
    ("header", "options", "problem"),
    [
        ("unix_s", {}, "map it as timestamp"),
        ("submit,duration,nodes", {"time_format": "ms"}, "leave time_format"),
    ],
)
def test_a_stated_unit_that_the_size_of_numbers_rules_out_is_refused(
    tmp_path: Path, header: str, options: dict[str, Any], problem: str
) -> None:
    row = f"{NINE_S}000" + ",30,2" * ("nodes" in header)
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n{row}\n")
    reader: Any = read_job_log if "nodes" in header else read_request_trace
    with pytest.raises(
        LogFormatError, match=rf"log.csv:2: .*by its size is ms since.*{problem}"
    ):
        reader(path, **options)


ISO = "submit,start,{end},{run},nodes\n" + "".join(
    (
        f"2024-03-04T{h:02}:00:00,2024-03-04T{h:02}:10:00,2024-03-04T{h + 1:02}:10:00,"
        "{value},2\n"
    )
    for h in (9, 10, 11)
)


def table(value: Any, end: str = "end", run: str = "duration") -> str:
    return ISO.format(end=end, run=run, value=value)


@pytest.mark.parametrize(
    ("run", "value"),
    [
        *(("elapsed", RUN_S * 1e6 / us) for us in US_PER_UNIT.values()),
        *(
            ("duration", text)
            for text in ("0:01:00:00", "0-01:00:00", "0 days 01:00:00.000")
        ),
    ],
)
def test_a_run_time_has_the_unit_in_which_it_is_as_long_as_from_start_to_end(
    tmp_path: Path, run: str, value: Any
) -> None:
    log = jobs(tmp_path, table(value, run=run), columns={"duration": run})
    assert log.jobs.duration_ms.tolist() == [RUN_S * 1000] * 3
    assert not any("differ" in cause for cause in log.counts.noted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_ms", 5_400_000),
        ("elapsed [min]", 90),
        ("wallHours", 1.5),
        ("run (nanoseconds)", 5.4e12),
        ("run_usec", 5.4e9),
    ],
)
def test_a_run_time_has_the_unit_of_its_name(
    tmp_path: Path, name: str, value: float
) -> None:
    text = f"submit,{name},nodes\n2024-03-04T09:00:00,{value},2\n"
    log = jobs(tmp_path, text, columns={"duration": name})
    assert log.jobs.duration_ms.tolist() == [5_400_000]
    assert (
        unit_in_name("duration")
        is unit_in_name("ms")
        is unit_in_name("runtime")
        is None
    )


@pytest.mark.parametrize("unit", ["ms", "min"])
def test_times_have_the_unit_of_their_columns_name(
    tmp_path: Path, unit: TimeUnit
) -> None:
    times = [60 * k * 1e6 / US_PER_UNIT[unit] for k in range(40)]
    header = f"submit_{unit},run_s,nodes\n"
    columns = {"submit": f"submit_{unit}", "duration": "run_s"}
    rows = "".join(f"{t},30,2\n" for t in times)
    log = jobs(tmp_path, header + rows, columns=columns)
    assert np.diff(log.jobs.submit_ms).tolist() == [60_000] * 39
    mapped = {"timestamp": f"submit_{unit}"}
    trace = read_request_trace(tmp_path / "jobs.csv", step_s=1, columns=mapped)
    assert trace.own_span_ms == (0, 2_400_000)
    assert log.counts.noted.keys() == {"start not known"}
    clash = f"submit_ms,run_s,nodes\n{NINE_S},30,2\n"
    with pytest.raises(LogFormatError, match=r"csv:2: .*submit_ms.* .*--time-unit"):
        jobs(tmp_path, clash, columns={"submit": "submit_ms", "duration": "run_s"})


@pytest.mark.parametrize("value", [0.5, 6e10])
def test_run_times_that_are_unlikely_in_seconds_are_asked_for(
    tmp_path: Path, value: float
) -> None:
    text = f"submit,elapsed,nodes\n2024-03-04T09:00:00,{value},2\n"
    with pytest.raises(LogFormatError, match=r"csv:2: .*elapsed.* .*--duration-unit"):
        jobs(tmp_path, text)


def test_run_times_beside_a_submission_and_an_end_are_as_long_as_between_them(
    tmp_path: Path,
) -> None:
    rows = "2024-03-04T09:00:00,2024-03-04T09:11:00,600000,2\n" * 3
    log = jobs(tmp_path, "submit,end,runtime,nodes\n" + rows)
    assert log.jobs.duration_ms.tolist() == [600_000] * 3
    assert (log.jobs.start_ms - log.jobs.submit_ms).tolist() == [60_000] * 3


@pytest.mark.parametrize(
    ("value", "cause"), [("0", "zero run time"), ("", "never started")]
)
def test_a_table_without_a_run_time_has_no_jobs_and_a_fit_says_why(
    tmp_path: Path, value: str, cause: str
) -> None:
    log = jobs(tmp_path, f"submit,duration,nodes\n2024-03-04T09:00:00,{value},2\n")
    assert len(log) == 0
    with pytest.raises(
        WorkloadError, match=rf"jobs.csv: no job is left to fit \(1 {cause}\)"
    ):
        fit_job_log(log, [], tiny_library())


CASES: dict[str, tuple[str, dict[str, Any], float]] = {
    "a mapped end goes before durations found by name": (
        table(4200, end="complete"),
        {"columns": {"end": "complete"}},
        RUN_S,
    ),
    "a mapped duration goes before an end": (
        table(4200),
        {"columns": {"duration": "duration", "end": "end"}},
        4200,
    ),
    "a run can't go beyond its start and end": (table(4200), {}, RUN_S),
    "a run may leave out its pauses": (table(1800), {}, 1800),
    "a wait in milliseconds": (table(4_200_000), {}, RUN_S),
}


@pytest.mark.parametrize("name", CASES)
def test_run_times_that_differ_are_compared_and_the_taken_one_is_said(
    tmp_path: Path, name: str
) -> None:
    text, options, run_s = CASES[name]
    log = jobs(tmp_path, text, **options)
    assert log.jobs.duration_ms.tolist() == [run_s * 1000] * 3
    (told,) = (
        n for cause, n in log.counts.noted.items() if "differ; taken is" in cause
    )
    assert told == 3


def test_run_times_of_times_in_milliseconds_may_be_either_and_are_asked_for(
    tmp_path: Path,
) -> None:
    text = f"submit,duration,nodes\n{NINE_S}000,4200000,2\n"
    with pytest.raises(LogFormatError, match=r"csv:2: .*duration.* .*--duration-unit"):
        jobs(tmp_path, text)
    for unit, run_s in (("ms", 4_200), ("s", 4_200_000)):
        log = jobs(tmp_path, text, duration_unit=unit)
        assert log.jobs.duration_ms.tolist() == [run_s * 1000]


def test_a_column_found_by_name_is_left_out_by_an_empty_name(tmp_path: Path) -> None:
    for key, run_s in (("duration", RUN_S), ("end", 1800)):
        log = jobs(tmp_path, table(1800), columns={key: ""})
        assert log.jobs.duration_ms.tolist() == [run_s * 1000] * 3
        assert not any("differ" in cause for cause in log.counts.noted)
    with pytest.raises(InputError, match=r"no column for 'duration' or 'end'"):
        jobs(tmp_path, table(1800), columns={"duration": "", "end": ""})
    path = tmp_path / "trace.csv"
    path.write_text("time_s,input_tokens,output_tokens\n1,2,3\n2,3,4\n")
    trace = read_request_trace(path, columns={"output_tokens": ""})
    assert trace.output_tokens == () and trace.input_tokens[0].total_tokens == 5


AZURE_NAMES = "TIMESTAMP,ContextTokens,GeneratedTokens"
FORMATS = {
    "%d/%m/%Y %H:%M:%S%z": "04/03/2024 17:00:00+0800",
    "%d/%m/%Y %H:%M:%S.%f %z": "04/03/2024 14:30:00.000000 +05:30",
    "%d.%m.%Y %H:%M %Z": "04.03.2024 09:00 UTC",
    "%Y%m%dT%H%M%SZ%z": "20240304T090000ZZ",
}


@pytest.mark.parametrize("time_format", FORMATS)
def test_an_offset_of_a_time_format_is_taken_once(
    tmp_path: Path, time_format: str
) -> None:
    text = f"submit,duration,nodes\n{FORMATS[time_format]},60,2\n"
    for zone in (None, "+08:00", "America/Denver"):
        log = jobs(tmp_path, text, time_format=time_format, utc_offset=zone)
        assert log.jobs.submit_ms.tolist() == [NINE_S * 1000]
        assert not log.is_naive


def test_fractions_of_a_time_format_are_read_and_zones_by_name_refused(
    tmp_path: Path,
) -> None:
    text = "submit,duration,nodes\n04/03/2024 09:00:00{},60,2\n"
    for digits, ms in ((".250", 250), (".25", 250), (".250999", 250), (".000", 0)):
        log = jobs(tmp_path, text.format(digits), time_format="%d/%m/%Y %H:%M:%S.%f")
        assert log.jobs.submit_ms.tolist() == [NINE_S * 1000 + ms]
    given = {"time_format": "%d/%m/%Y %H:%M:%S %Z"}
    with pytest.raises(
        LogFormatError, match=r"csv:2: .*09:00:00 PST'.*in place of %Z and give utc"
    ):
        jobs(tmp_path, text.format(" PST"), **given)
    with pytest.raises(LogFormatError, match=r"csv:2: .*give the format of all times"):
        jobs(tmp_path, text.format(".250"))


@pytest.mark.parametrize(
    ("fraction", "each", "names", "is_fine"),
    [
        ("", 10, "timestamp,service", False),  # ten a second, in whole seconds
        (".417", 2, AZURE_NAMES, False),  # whole seconds from the first
        (".{k:03}", 2, "timestamp,service", True),
        (".{k:06}", 2, AZURE_NAMES, True),
        (".{k:06}", 20, AZURE_NAMES, False),  # as of rounded times with a jitter
    ],
)
def test_equal_requests_are_one_by_the_fineness_of_their_times(
    tmp_path: Path, fraction: str, each: int, names: str, is_fine: bool
) -> None:
    stamps = [
        f"2024-05-10 00:00:{k % 60:02}{fraction.format(k=7 * k * k % 1000)}"
        for k in range(60)
        for _ in range(each)
    ]
    path = tmp_path / "trace.csv"
    rows = (stamp + ",512,128"[: 4 * names.count(",")] for stamp in stamps)
    path.write_text("\n".join([names, *rows]) + "\n")
    assert read_request_trace(path).n_requests.sum() == (60 if is_fine else 60 * each)
