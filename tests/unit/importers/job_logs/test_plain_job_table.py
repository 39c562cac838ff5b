"""Plain tables of jobs: named columns, times in any form, delimiters, quotes."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_facts import check_log
from pydantic import ValidationError

from diploee.base.errors import InputError, LogFormatError
from diploee.importers import JOB_LOG_FORMATS, read_job_log
from diploee.loads.jobs.job_log import MISSING_MS, JobLog
from diploee.scenario import JobReplay

ORACLE = Path(__file__).parents[3] / "oracle" / "data" / "fifo_oracle_jobs.csv.gz"


def read(folder: Path, text: str, **options: Any) -> JobLog:
    path = folder / "jobs.csv"
    path.write_text(text)
    return read_job_log(path, "csv", **options)


def test_the_oracle_jobs_come_in_whole() -> None:
    names = {"id": "job_id", "submit": "submit_s", "duration": "runtime_s"}
    log = read_job_log(ORACLE, columns=names, time_format="s")
    text = gzip.decompress(ORACLE.read_bytes()).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(log) == len(rows) == log.counts.n_rows == 10_120
    assert int(log.jobs.n_nodes.sum()) == sum(int(row["nodes"]) for row in rows)
    run_s = sum(float(row["runtime_s"]) for row in rows)
    assert log.jobs.duration_ms.sum() == round(run_s * 1000)
    kinds = [log.types[i] for i in log.jobs.type_id]
    assert sorted(kinds) == sorted(row["type"] for row in rows)
    assert log.is_relative
    assert (log.jobs.start_ms == MISSING_MS).all()


HEAD = "submit,duration,nodes"
USUAL = "job_id,class,n_nodes,submit_time,start_time,end_time,energy_j"
DAY = "2024-01-01"
NOON_MS = 1_704_110_400_000
"""12:00 UTC on that day."""
HOUR_MS = 3_600_000
TASKS = ["job_id,submit,duration,nodes"]
TASKS += [
    f"{name},{DAY},{run},1"
    for name, run in (("7", 60), ("7", 90), ("8", 60), ("7", 60))
]

Case = tuple[list[str], dict[str, Any], dict[str, Any]]


def case(lines: list[str], options: Any = None, **expected: Any) -> Case:
    return lines, options or {}, expected


CASES: dict[str, Case] = {
    "usual names need no mapping": case(
        [USUAL, f"1,llama/4,4,{DAY} 00:00:00Z,{DAY} 00:00:10Z,{DAY} 00:01:00.5Z,7.5"],
        duration_ms=[50_500],
        energy_j=[7.5],
        types=("llama/4",),
        log_format="csv",
    ),
    "stamps of one column with offsets or none": case(
        [
            f"{HEAD},id",
            f"{DAY} 12:00:00,60,1,0",
            f"{DAY} 12:00:00+08:00,60,1,1",
            f"{DAY} 12:00:00Z,60,1,2",
        ],
        {"utc_offset": "-06:00"},
        job_ids=("1", "2", "0"),
        utc_offset_min=-360,
        submit_ms=[NOON_MS - 8 * HOUR_MS, NOON_MS, NOON_MS + 6 * HOUR_MS],
    ),
    "the local time is the offset of most stamps": case(
        [
            HEAD,
            *(
                f"{DAY} 0{k}:00:00{o},60,1"
                for k, o in enumerate(("+02:00", "+01:00", "+01:00", "Z"))
            ),
        ],
        utc_offset_min=60,
    ),
    "durations in min": case(
        [HEAD, f"{DAY},90,2"], {"duration_unit": "min"}, duration_ms=[5_400_000]
    ),
    "no submission": case(
        ["start,end,nodes", f"{DAY} 00:00,{DAY} 00:01,2"],
        submit_ms=[NOON_MS - 12 * HOUR_MS],
        repaired={"submission missing, taken as the start": 1},
    ),
    "no start": case(
        ["submit,end,duration,nodes", f"{DAY} 00:00,{DAY} 00:09,60,2"],
        start_ms=[NOON_MS - 12 * HOUR_MS + 480_000],
        repaired={"start missing, taken as end less run time": 1},
    ),
    "rows without ids are never repeated, ends without states unknown": case(
        [HEAD, *[f"{DAY},60,2"] * 3], job_ids=("1", "2", "3"), states=["other"] * 3
    ),
    "words of states of many systems": case(
        [
            f"{HEAD},state",
            *(
                f"{DAY},60,2,{word}"
                for word in (" Succeeded", "CANCELLED+", "out_of_memory", "RUNNING", "")
            ),
        ],
        states=["completed", "cancelled", "failed", "other", "other"],
    ),
    "fractions of nodes are whole ones": case(
        [HEAD, f"{DAY},60,1.5", f"{DAY},60,-3"],
        n_nodes=[2],
        dropped={"no node count": 1},
    ),
    "GPUs over those of a node go before the logged nodes": case(
        [f"{HEAD},gpus", f"{DAY},60,1,8", f"{DAY},60,3,", f"{DAY},60,2,8"],
        {"gpus_per_node": 4},
        n_nodes=[2, 3, 2],
        n_gpus=[8, np.nan, 8],
        noted={"node count by GPUs differs from the log's": 1},
    ),
    "quoted fields with delimiters and quotes": case(
        ['submit,"duration",nodes,type', f'{DAY},"60",2,"a, ""b"""', f"{DAY},60,2,c"],
        types=('a, "b"', "c"),
    ),
    "ids that come back are tasks of arrays": case(
        [*TASKS, f",{DAY},60,1"],
        job_ids=("7", "7#2", "8", "7#3", "5"),
        dropped={},
        noted={"repeated job id, kept and renumbered as tasks of an array": 2},
    ),
    "ids of a mapped column are those of jobs": case(
        [*TASKS, f",{DAY},60,1"],
        {"columns": {"id": "job_id"}},
        job_ids=("7", "8", "5"),
        dropped={"repeated job id": 1, "repeated row": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plain_table_is_read_by_its_columns(tmp_path: Path, name: str) -> None:
    lines, options, expected = CASES[name]
    check_log(read(tmp_path, "\n".join(lines) + "\n", **options), **expected)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_is_inferred_from_the_header(
    tmp_path: Path, delimiter: str
) -> None:
    text = "submit,duration,nodes\n2024-01-01,60,2\n".replace(",", delimiter)
    assert read(tmp_path, text).jobs.n_nodes.tolist() == [2]


@pytest.mark.parametrize(
    ("time_format", "value", "submit_ms", "is_relative"),
    [
        ("s", "7.5", 7_500, True),
        ("ms", "7500", 7_500, True),
        ("unix-s", "1700000000", 1_700_000_000_000, False),
        ("unix-ms", "1700000000123", 1_700_000_000_123, False),
        ("%d.%m.%Y %H:%M", "14.11.2023 22:13", 1_699_999_980_000, False),
        (None, "2023-11-14T22:13:20Z", 1_700_000_000_000, False),
        (None, "2023-11-14 22:13:20.1234567", 1_700_000_000_123, False),
        (None, "2023-11-14 17:13:20 -0500", 1_700_000_000_000, False),
        (None, "2023-11-14", 1_699_920_000_000, False),
    ],
)
def test_times_in_any_form(
    tmp_path: Path,
    time_format: str | None,
    value: str,
    submit_ms: int,
    is_relative: bool,
) -> None:
    log = read(
        tmp_path, f"submit,duration,nodes\n{value},60,2\n", time_format=time_format
    )
    assert log.jobs.submit_ms.tolist() == [submit_ms]
    assert log.is_relative == is_relative


@pytest.mark.parametrize("rest", ['c"\n2024-01-01,60,2,d', "2024-01-01,60,2,c"])
def test_a_quote_that_is_open_at_the_end_of_a_line_is_refused(
    tmp_path: Path, rest: str
) -> None:
    text = f'{HEAD},type\n{DAY},60,2,a\n{DAY},60,2,"b\n{rest}\n'
    with pytest.raises(LogFormatError, match=r"csv:3: .* a double quote without"):
        read(tmp_path, text)


def test_an_endless_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.importers.text.delimited_tables.MAX_LINE_BYTES", 64)
    text = "submit,duration,nodes\n2024-01-01,60,2\n2024-01-01,60," + "2" * 99 + "\n"
    with pytest.raises(LogFormatError, match=r"csv:3: a line that is too long "):
        read(tmp_path, text)


TABLE = "submit,nodes,duration\n1,2,3\n"


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("submit,nodes\n1,2\n", {}, r"no column for 'duration' or 'end', expected one"),
        ("when,nodes,duration\n1,2,3\n", {}, r"for 'submit' or 'start'.*\{submit: 'wh"),
        (
            "When,nodes,duration\n1,2,3\n",
            {"columns": {"submit": "whem"}},
            r"column 'whem' is missing, .* \(found: 'When', .*did you mean 'Wh",
        ),
        ("submit,submit,nodes,duration\n1,1,2,3\n", {}, r"'submit' is there several"),
        ("a,b\n1,2\n", {"columns": {"begin": "a"}}, r"columns.begin: must be 'submit'"),
        ("submit,nodes,duration\n17,2,3\n", {}, r":2: .* is '17'.* give time_unit"),
        ("submit,nodes,duration\nx,2,3\n", {"time_format": "%Y"}, r"csv:2: .*as '%Y'"),
        ("submit,nodes,duration\nx,2,3\n", {"time_format": "%Q"}, r"time_format .*%Q"),
        (TABLE, {"gpus_per_node": True}, r"gpus_per_node: must be .* true"),
    ],
)
def test_what_is_missing_or_not_allowed_is_said(
    tmp_path: Path, text: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        read(tmp_path, text, **options)
    assert str(caught.value).startswith(str(tmp_path / "jobs.csv"))


def test_a_wrong_byte_is_reported_with_its_line(tmp_path: Path) -> None:
    text = "submit,duration,nodes,type\n2024-01-01,60,2,äöü€🙂\n2024-01-01,60,2,ä\n"
    assert read(tmp_path, text).types == ("äöü€🙂", "ä")
    path = tmp_path / "wrong.csv"
    path.write_bytes(text.encode()[:-2] + b"\n2024-01-02,\n")
    with pytest.raises(LogFormatError, match=r"csv:3: found a byte that .* \(0xc3\)"):
        read_job_log(path)


def test_an_unknown_format_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"log: unknown job log format 'slrm', expected .*'slurm'\?"
    ):
        read_job_log(tmp_path / "log", "slrm")


def test_a_format_from_outside_may_be_named_in_a_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JOB_LOG_FORMATS, "by_name", dict(JOB_LOG_FORMATS))
    given = {"log": "x", "format": "ours", "rules": [{"workload": "tune"}]}
    with pytest.raises(ValidationError, match=r"must be 'swf', .*input_value='ours'"):
        JobReplay.model_validate(given)
    JOB_LOG_FORMATS.register(replace(JOB_LOG_FORMATS["csv"], name="ours"))
    assert JobReplay.model_validate(given).format == "ours"
    path = tmp_path / "jobs.csv"
    path.write_text("submit,duration,nodes\n2024-01-01,60,2\n")
    assert read_job_log(path, "ours").log_format == "ours"
    with pytest.raises(InputError, match=r"^job log format 'csv' is known already"):
        JOB_LOG_FORMATS.register(JOB_LOG_FORMATS["csv"])


def test_a_parquet_file_is_read_as_the_csv_file_of_its_table(tmp_path: Path) -> None:
    submit = np.array(["2024-07-01T12:00:00", "2024-07-01T12:30:00"], "datetime64[ns]")
    table = pa.table(
        {
            "job_id": pa.array([5, 6]),
            "submit_time": pa.array(submit, pa.timestamp("ns", "America/Denver")),
            "run_time": pa.array([90_500, None], pa.duration("ms")),
            "end_time": pa.array(
                [None, submit[1] + np.timedelta64(60, "s")], pa.timestamp("ns")
            ),
            "nodes": pa.array([2, 3], pa.int32()),
            "class": pa.array(["a, b", 'say\n"c"']).dictionary_encode(),
            "hosts": pa.array([["n1"], ["n2", "n3"]]),
        }
    )
    path = tmp_path / "jobs.parquet"
    pq.write_table(table, path)
    log = read_job_log(path, columns={"start": "submit_time"})
    assert log.log_format == "csv" and log.job_ids == ("5", "6")
    assert log.jobs.n_nodes.tolist() == [2, 3]
    assert log.jobs.duration_ms.tolist() == [90_500, 60_000]
    assert log.types == ("a, b", 'say "c"')
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(LogFormatError, match=r"parquet: not a readable Parquet file"):
        read_job_log(path)
