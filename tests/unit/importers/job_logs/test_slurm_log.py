"""Slurm's accounting: job arrays, requeues, GPUs of a job, energy, columns in any
order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_facts import check_log

from diploee.base.errors import LogFormatError
from diploee.importers import read_job_log
from diploee.loads.jobs.job_log import JobLog

BASE = {
    "JobID": "7",
    "Submit": "2024-03-01T00:00:00",
    "Start": "2024-03-01T00:01:00",
    "End": "2024-03-01T01:01:00",
    "ElapsedRaw": "3600",
    "NNodes": "2",
    "AllocTRES": "billing=64,cpu=64,gres/gpu=16,mem=500G,node=2",
    "State": "COMPLETED",
}
WAITING = {"Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "State": "PENDING"}
LATER = {"Start": "2024-03-01T05:00:00", "End": "2024-03-01T06:00:00"}
SPRING = {"Start": "2024-03-31T01:30:00", "End": "2024-03-31T03:30:00"}
AUTUMN = {
    "Start": "2024-10-27T02:50:00",
    "End": "2024-10-27T02:10:00",
    "ElapsedRaw": "1200",
}


def jobs(column: str, *values: str) -> list[dict[str, str]]:
    """Return a job for each value of a column."""
    return [{"JobID": str(k), column: value} for k, value in enumerate(values, 1)]


def read(folder: Path, *rows: dict[str, str], end: str = "", **options: Any) -> JobLog:
    names = list(BASE | rows[0])
    lines = ["|".join(names) + end]
    lines += ["|".join((BASE | row)[name] for name in names) + end for row in rows]
    return read_text(folder, *lines, **options)


def read_text(folder: Path, *lines: str, **options: Any) -> JobLog:
    path = folder / "sacct.txt"
    path.write_text("\n".join(lines))
    return read_job_log(path, **options)


CASES: dict[str, tuple[list[dict[str, str]], dict[str, Any]]] = {
    "elements of arrays and components are jobs, steps are not": (
        jobs("JobID", "7_1", "7_2", "7_2.batch", "8+0", "8+1", "8+1.0", "8+1.extern"),
        {"job_ids": ("7_1", "7_2", "8+0", "8+1"), "dropped": {"job step": 3}},
    ),
    "elements that wait share a row": (
        [{}, {"JobID": "7_[4-9%2]", **WAITING}],
        {"dropped": {"never started": 1}},
    ),
    "each run of a requeued job": (
        [{"State": "NODE_FAIL"}, LATER, LATER, {"State": "REQUEUED"}],
        {
            "job_ids": ("7", "7"),
            "states": ["failed", "completed"],
            "dropped": {"repeated row": 1, "repeated job id": 1},
        },
    ),
    "elapsed goes before the span that daylight saving shortens": (
        [SPRING | {"ElapsedRaw": "3600"}, {"JobID": "8", **AUTUMN}],
        {"duration_ms": [3_600_000, 1_200_000]},
    ),
    "GPUs of all kinds": (
        jobs(
            "AllocTRES",
            "billing=64,cpu=64,gres/gpu=16,mem=500G,node=2",
            "cpu=64,mem=500G,node=1",
            "cpu=64,gres/gpu:a100=3,gres/gpu=4,mem=1G",
            "cpu=64,gres/gpu:a100=3,gres/gpu:h100=1",
            "cpu=64,gres/gpumem=80G,gres/gpuutil=50",
            "",
        ),
        {"n_gpus": [16, 0, 4, 4, 0, np.nan]},
    ),
    "where no job has GPUs they are not known": (
        jobs("AllocTRES", "cpu=1", "cpu=2"),
        {"n_gpus": [np.nan] * 2, "n_nodes": [2, 2]},
    ),
    "thousands of nodes": (
        jobs("NNodes", "2K", "1.5K", "9"),
        {"n_nodes": [2_048, 1_536, 9]},
    ),
    "energy, and Slurm's numbers for none": (
        jobs("ConsumedEnergyRaw", "3600000", "0", "", "18446744073709551614"),
        {
            "energy_j": [3.6e6, np.nan, np.nan, np.nan],
            "repaired": {"energy out of range, left out": 1},
        },
    ),
    "the partition is the kind": (
        jobs("Partition", "gpu", "dev"),
        {"kinds": ["gpu", "dev"]},
    ),
    "quotes mean nothing": (jobs("JobName", 'my "job', '"'), {"job_ids": ("1", "2")}),
    "time limits in minutes": (
        jobs("TimelimitRaw", "90", "UNLIMITED", "Partition_Limit", ""),
        {"requested_ms": [5_400_000, 0, 0, 0]},
    ),
    "time limits of days": (
        jobs("Timelimit", "01:30:00", "UNLIMITED", "", "2-00:00:01", "00:00:30"),
        {"requested_ms": [5_400_000, 0, 0, 172_801_000, 30_000]},
    ),
    "users": (
        jobs("User", "ada", "bob", "ada"),
        {"user_id": [1, 2, 1], "requested_ms": [0] * 3},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_of_sacct_become_jobs(tmp_path: Path, name: str) -> None:
    rows, expected = CASES[name]
    for end in ("", "|"):  # a bar at the end of lines is no column
        check_log(
            read(tmp_path, *rows, end=end, utc_offset="Europe/Berlin"), **expected
        )


def test_without_elapsed_the_span_in_the_named_zone_counts(tmp_path: Path) -> None:
    names = [name for name in BASE if name != "ElapsedRaw"]
    lines = ("|".join(names), "|".join((BASE | SPRING)[name] for name in names))
    for zone, run_ms in (("Europe/Berlin", 3_600_000), ("+01:00", 7_200_000)):
        assert read_text(
            tmp_path, *lines, utc_offset=zone
        ).jobs.duration_ms.tolist() == [run_ms]


@pytest.mark.parametrize("delimiter", "|^")
def test_columns_come_in_any_order_with_any_delimiter(
    tmp_path: Path, delimiter: str
) -> None:
    values = [BASE[name] for name in reversed(BASE)]
    lines = (delimiter.join(reversed(BASE)), delimiter.join(values))
    log = read_text(tmp_path, *lines, log_format="slurm")
    check_log(log, log_format="slurm", job_ids=("7",), n_gpus=[16])


HEADER, ROW = "|".join(BASE), "|".join(BASE.values())


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (
            [HEADER + "|JobName", ROW + "|a|b"],
            r":2: 10 fields, expected 9 as in the head",
        ),
        (
            ["JobID|State|Submitted", "1|COMPLETED|x"],
            r":1: column 'Submit' is missing.*'Submitt",
        ),
        (
            [HEADER, ROW.replace("7", "7.0"), "  ", "", ROW.replace("|2|", "|K|"), ROW],
            r":5: column 'NNodes' is 'K', expected",
        ),
        # Was not cut short
        ([HEADER, ROW, f"{ROW}|more"], r":3: 9 fields, expected 8"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(
    tmp_path: Path, lines: list[str], problem: str
) -> None:
    with pytest.raises(LogFormatError, match=f"sacct.txt{problem}"):
        read_text(tmp_path, *lines)


PAUSED = {
    "Start": "2024-03-04T09:00:00",
    "End": "2024-03-04T13:00:00",
    "Elapsed": "02:00:00",
}


def test_elapsed_time_counts_where_its_seconds_are_missing(tmp_path: Path) -> None:
    rows = [
        {"JobID": "1", **PAUSED, "ElapsedRaw": ""},
        {"JobID": "2", **PAUSED, "ElapsedRaw": "60"},
    ]
    autumn = {**AUTUMN, "ElapsedRaw": "", "Elapsed": "1-00:20:00"}
    log = read(tmp_path, *rows, {"JobID": "3", **autumn})
    assert log.jobs.duration_ms.tolist() == [7_200_000, 60_000, 87_600_000]
    assert any("differ; taken is the logged one" in cause for cause in log.counts.noted)


def aligned(*rows: dict[str, str]) -> list[str]:
    """Return what sacct prints without -P, in columns of ten to twenty characters."""
    widths = {name: 20 if name in ("Submit", "Start", "End") else 10 for name in BASE}
    lines = [" ".join(f"{name:>{width}}" for name, width in widths.items())]
    lines.append(" ".join("-" * width for width in widths.values()) + " ")
    for row in rows:
        cells = {name: (BASE | {"AllocTRES": ""} | row)[name] for name in BASE}
        cut = {
            n: v if len(v) <= widths[n] else v[: widths[n] - 1] + "+"
            for n, v in cells.items()
        }
        lines.append(
            " ".join(f"{cut[name]:>{width}}" for name, width in widths.items()) + " "
        )
    return lines


def test_columns_that_are_aligned_by_blanks_are_read_where_nothing_was_cut(
    tmp_path: Path,
) -> None:
    rows = [
        {"JobID": "1", "State": "CANCELLED by 7"},
        {"JobID": "1.batch"},
        {"JobID": "2"},
    ]
    log = read_text(tmp_path, *aligned(*rows))
    check_log(
        log, job_ids=("1", "2"), states=["cancelled", "completed"], n_nodes=[2, 2]
    )
    assert log.jobs.duration_ms.tolist() == [3_600_000] * 2
    with pytest.raises(
        LogFormatError, match=r"txt:4: .*'AllocTRES' is 'billing=6\+'.*'sacct -P"
    ):
        read_text(tmp_path, *aligned({}, {"AllocTRES": BASE["AllocTRES"]}))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_log_that_a_spreadsheet_saved_again_is_read(
    tmp_path: Path, delimiter: str
) -> None:
    cells = (f'"{value}"' if "," in value else value for value in BASE.values())
    log = read_text(tmp_path, delimiter.join(BASE), delimiter.join(cells))
    check_log(log, n_gpus=[16], n_nodes=[2], log_format="slurm")
    with pytest.raises(LogFormatError, match=r"txt:2: 12 fields, expected 8"):
        read_text(tmp_path, ",".join(BASE), ",".join(BASE.values()))


def test_times_since_1970_are_read_as_such(tmp_path: Path) -> None:
    times = {"Submit": "1709251200", "Start": "1709251260", "End": "1709254860"}
    log = read(tmp_path, WAITING | {"Submit": "1709251200"}, times | {"JobID": "8"})
    stamped = read(tmp_path, {"JobID": "8"})
    assert (
        log.jobs.start_ms.tolist()
        == stamped.jobs.start_ms.tolist()
        == [1_709_251_260_000]
    )
    assert not log.is_naive and stamped.is_naive
