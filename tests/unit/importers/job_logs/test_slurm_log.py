"""Slurm's accounting: job arrays, requeues, GPUs of a job, energy, columns in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diploee.errors import LogFormatError
from diploee.importers import read_job_log
from diploee.loads.jobs.job_log import STATES, JobLog

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


def read(folder: Path, *rows: dict[str, str], end: str = "", **options: Any) -> JobLog:
    names = list(BASE | rows[0])
    lines = ["|".join(names) + end]
    lines += ["|".join((BASE | row)[name] for name in names) + end for row in rows]
    path = folder / "sacct.txt"
    path.write_text("\n".join(lines) + "\n")
    return read_job_log(path, **options)


def test_elements_of_arrays_and_components_are_jobs(tmp_path: Path) -> None:
    ids = ("7_1", "7_2", "7_2.batch", "8+0", "8+1", "8+1.0", "8+1.extern")
    log = read(tmp_path, *({"JobID": name} for name in ids))
    assert log.job_ids == ("7_1", "7_2", "8+0", "8+1")
    assert log.counts.dropped == {"job step": 3}


def test_array_elements_that_wait_in_one_row_never_started(tmp_path: Path) -> None:
    waiting = {"Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "State": "PENDING"}
    log = read(tmp_path, {}, {"JobID": "7_[4-9%2]", **waiting})
    assert log.counts.dropped == {"never started": 1}


def test_each_run_of_a_requeued_job_is_kept(tmp_path: Path) -> None:
    later = {"Start": "2024-03-01T05:00:00", "End": "2024-03-01T06:00:00"}
    rows = ({"State": "NODE_FAIL"}, later, later, {"State": "REQUEUED"})
    log = read(tmp_path, *rows)
    assert log.job_ids == ("7", "7")
    assert [STATES[i] for i in log.jobs.state_id] == ["failed", "completed"]
    assert log.counts.dropped == {"repeated row": 1, "repeated job id": 1}


def test_elapsed_goes_before_the_span_that_daylight_saving_shortens(tmp_path: Path) -> None:
    spring = {"Start": "2024-03-31T01:30:00", "End": "2024-03-31T03:30:00", "ElapsedRaw": "3600"}
    autumn = {"Start": "2024-10-27T02:50:00", "End": "2024-10-27T02:10:00", "ElapsedRaw": "1200"}
    log = read(tmp_path, spring, {"JobID": "8", **autumn}, utc_offset="Europe/Berlin")
    assert log.jobs.duration_ms.tolist() == [3_600_000, 1_200_000]


def test_without_elapsed_the_span_in_the_named_zone_counts(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    row = {**BASE, "Start": "2024-03-31T01:30:00", "End": "2024-03-31T03:30:00"}
    names = [name for name in BASE if name != "ElapsedRaw"]
    path.write_text("|".join(names) + "\n" + "|".join(row[name] for name in names) + "\n")
    assert read_job_log(path, utc_offset="Europe/Berlin").jobs.duration_ms.tolist() == [3_600_000]
    assert read_job_log(path, utc_offset="+01:00").jobs.duration_ms.tolist() == [7_200_000]


def test_a_job_that_runs_while_the_log_is_written_is_dropped(tmp_path: Path) -> None:
    log = read(tmp_path, {}, {"JobID": "8", "End": "Unknown", "State": "RUNNING"})
    assert log.job_ids == ("7",)
    assert log.counts.dropped == {"started without an end": 1}


@pytest.mark.parametrize(
    ("tres", "n_gpus"),
    [
        ("billing=64,cpu=64,gres/gpu=16,mem=500G,node=2", 16),
        ("cpu=64,gres/gpu:a100=3,gres/gpu=4,mem=1G", 4),
        ("cpu=64,gres/gpu:a100=3,gres/gpu:h100=1", 4),
        ("cpu=64,mem=500G,node=1", 0),
        ("cpu=64,gres/gpumem=80G,gres/gpuutil=50", 0),
        ("", np.nan),
    ],
)
def test_gpus_are_those_of_alloc_tres(tmp_path: Path, tres: str, n_gpus: float) -> None:
    log = read(tmp_path, {"AllocTRES": tres}, {"JobID": "8", "AllocTRES": "gres/gpu=1"})
    assert np.array_equal(log.jobs.n_gpus, [n_gpus, 1], equal_nan=True)


def test_where_no_job_has_gpus_they_are_not_known(tmp_path: Path) -> None:
    log = read(tmp_path, {"AllocTRES": "cpu=1"}, {"JobID": "8", "AllocTRES": "cpu=2"})
    assert np.isnan(log.jobs.n_gpus).all()
    assert log.jobs.n_nodes.tolist() == [2, 2]
    assert "CPU-only job" not in log.counts.noted


def test_thousands_of_nodes_are_written_with_a_letter(tmp_path: Path) -> None:
    rows = [{"JobID": name, "NNodes": n} for name, n in (("1", "2K"), ("2", "1.5K"), ("3", "9"))]
    log = read(tmp_path, *rows)
    assert log.jobs.n_nodes.tolist() == [2_048, 1_536, 9]
    with pytest.raises(LogFormatError, match=r"sacct.txt:2: column 'NNodes' is 'K', expected"):
        read(tmp_path, {"NNodes": "K"})


@pytest.mark.parametrize(
    ("text", "energy_j", "repaired"),
    [
        ("3600000", 3.6e6, {}),
        ("0", np.nan, {}),
        ("", np.nan, {}),
        ("18446744073709551614", np.nan, {"energy out of range, left out": 1}),
    ],
)
def test_energy_is_joules_and_slurms_words_for_none_are_not(
    tmp_path: Path, text: str, energy_j: float, repaired: dict[str, int]
) -> None:
    log = read(tmp_path, {"ConsumedEnergyRaw": text})
    assert np.array_equal(log.jobs.energy_j, [energy_j], equal_nan=True)
    assert log.counts.repaired == repaired


def test_partition_is_the_kind_and_columns_come_in_any_order(tmp_path: Path) -> None:
    rows = [{"Partition": "gpu", "JobID": "9"}, {"Partition": "debug", "JobID": "10"}]
    log = read(tmp_path, *rows)
    assert [log.types[i] for i in log.jobs.type_id] == ["gpu", "debug"]
    shuffled = tmp_path / "shuffled.txt"
    names = list(reversed(BASE))
    lines = ["|".join(names), "|".join(BASE[name] for name in names)]
    shuffled.write_text("\n".join(lines) + "\n")
    assert read_job_log(shuffled).jobs.n_gpus.tolist() == [16]


def test_a_bar_at_the_end_of_lines_is_no_column(tmp_path: Path) -> None:
    assert len(read(tmp_path, {}, {"JobID": "8"}, end="|")) == 2


def test_another_delimiter_is_inferred_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("^".join(BASE) + "\n" + "^".join(BASE.values()) + "\n")
    assert read_job_log(path, "slurm").job_ids == ("7",)


def test_a_bar_in_a_job_name_is_refused_with_its_line(tmp_path: Path) -> None:
    rows = ({"JobName": "a"}, {"JobName": "a|b", "JobID": "8"})
    with pytest.raises(LogFormatError, match=r"sacct.txt:3: 10 fields, expected 9 as in the head"):
        read(tmp_path, *rows)


def test_quotes_mean_nothing_to_sacct(tmp_path: Path) -> None:
    log = read(tmp_path, {"JobName": 'my "job'}, {"JobName": '"', "JobID": "8"})
    assert log.job_ids == ("7", "8")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|State|Submitted\n1|COMPLETED|x\n")
    with pytest.raises(LogFormatError, match=r"sacct.txt:1: column 'Submit' is missing.*'Submitt"):
        read_job_log(path)


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    row = "|".join(BASE.values())
    lines = ["|".join(BASE), row, "   ", "", row.replace("|2|", "|two|"), row]
    path.write_text("\n".join(lines))
    with pytest.raises(LogFormatError, match=r"sacct.txt:5: column 'NNodes' is 'two'"):
        read_job_log(path)


def test_a_last_line_with_too_many_fields_was_not_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    row = "|".join(BASE.values())
    path.write_text("\n".join(["|".join(BASE), row, f"{row}|more"]))
    with pytest.raises(LogFormatError, match=r"sacct.txt:3: 9 fields, expected 8"):
        read_job_log(path)


def test_line_numbers_count_steps_that_are_left_out(tmp_path: Path) -> None:
    rows = [{"JobID": "7"}, {"JobID": "7.batch"}, {"JobID": "7.0"}, {"JobID": "8", "NNodes": "x"}]
    with pytest.raises(LogFormatError, match=r"sacct.txt:5: column 'NNodes' is 'x'"):
        read(tmp_path, *rows)


@pytest.mark.parametrize(
    ("column", "limits"),
    [
        ("TimelimitRaw", ["90", "UNLIMITED", "Partition_Limit", ""]),
        ("Timelimit", ["01:30:00", "UNLIMITED", "Partition_Limit", ""]),
    ],
)
def test_time_limits_are_requested_times_where_they_are_numbers(
    tmp_path: Path, column: str, limits: list[str]
) -> None:
    rows = [{"JobID": str(k), column: limit} for k, limit in enumerate(limits)]
    assert read(tmp_path, *rows).jobs.requested_ms.tolist() == [5_400_000, 0, 0, 0]


def test_time_limits_of_days_and_users_are_read(tmp_path: Path) -> None:
    rows = [
        {"JobID": "1", "Timelimit": "2-00:00:01", "User": "ada"},
        {"JobID": "2", "Timelimit": "00:00:30", "User": "bob"},
        {"JobID": "3", "Timelimit": "7-12:00:00", "User": "ada"},
    ]
    jobs = read(tmp_path, *rows).jobs
    assert jobs.requested_ms.tolist() == [172_801_000, 30_000, 648_000_000]
    assert jobs.user_id.tolist() == [1, 2, 1]
    assert not read(tmp_path, {}).jobs.requested_ms.any()
