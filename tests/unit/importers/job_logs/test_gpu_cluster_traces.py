"""Traces of GPU clusters: what AcmeTrace, Philly and Alibaba's two traces each do their
own way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from log_facts import check_log

from diploee.base.errors import InputError, LogFormatError
from diploee.importers import read_job_log
from diploee.loads.jobs.job_log import JobLog

KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,"
    "state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,"
    "gpu_time\n"
    "dlc1,u1,8,64,960,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 "
    "11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 "
    "11:01:16+00:00,,18,10.0,1152\n"
)
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
    "duration\n"
    "1,u,vc,8,64,1,COMPLETED,2020-04-01 00:08:59,2020-04-01 00:08:59,2020-04-02 "
    "23:16:19,7\n"
)
PAI = (
    "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,"
    "plan_gpu,gpu_type"
)
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time"
)


def write(folder: Path, text: str) -> Path:
    path = folder / "log"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "zone", "minutes", "kind", "submit_ms", "duration_ms"),
    [
        (KALOS, None, 0, "Pretrain", 1_684_321_258_000, 8_000),
        (KALOS, "+08:00", 480, "Pretrain", 1_684_321_258_000, 8_000),
        # 2020-03-31 16:08:59 UTC
        (HELIOS, "+08:00", 480, "", 1_585_670_939_000, 169_640_000),
    ],
)
def test_acme_and_helios_share_columns_and_their_duration_counts_the_wait(
    tmp_path: Path,
    text: str,
    zone: str | None,
    minutes: int,
    kind: str,
    submit_ms: int,
    duration_ms: int,
) -> None:
    log = read_job_log(write(tmp_path, text), utc_offset=zone)
    check_log(log, log_format="acme", utc_offset_min=minutes, types=(kind,))
    check_log(log, submit_ms=[submit_ms], duration_ms=[duration_ms])


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    detail = [
        {"ip": f"m{i}", "gpus": [f"gpu{k}" for k in range(n)]}
        for i, n in enumerate(gpus)
    ]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly(folder: Path, *attempts: dict[str, Any], **values: Any) -> JobLog:
    job = {
        "status": "Pass",
        "vc": "v",
        "jobid": "a_1",
        "attempts": list(attempts),
        "submitted_time": "2017-10-07 01:00:00",
        "user": "u",
    }
    return read_job_log(write(folder, json.dumps([job | values], indent=1)))


def test_a_philly_job_runs_as_long_as_its_attempts_together(tmp_path: Path) -> None:
    log = philly(
        tmp_path,
        attempt("2017-10-07 01:10:00", "2017-10-07 01:20:00", 8),
        attempt("2017-10-07 03:00:00", "2017-10-07 04:00:00", 8, 8, 4),
        attempt("2017-10-08 00:00:00", "2017-10-08 00:05:00", 1),
    )
    assert log.jobs.duration_ms.tolist() == [75 * 60_000]
    assert log.jobs.start_ms.tolist() == [1_507_338_600_000]
    assert log.jobs.n_nodes.tolist() == [3]  # of the longest attempt
    assert log.jobs.n_gpus.tolist() == [20]


@pytest.mark.parametrize(
    "broken",
    [
        attempt(None, "2017-10-07 02:00:00", 2),
        attempt("2017-10-07 02:00:00", None, 2),
        attempt("2017-10-07 02:00:00", "2017-10-07 01:00:00", 2),
        attempt(None, None),
    ],
)
def test_attempts_without_a_whole_run_time_are_left_out(
    tmp_path: Path, broken: dict[str, Any]
) -> None:
    whole = attempt("2017-10-07 03:00:00", "2017-10-07 04:00:00", 4)
    log = philly(tmp_path, broken, whole)
    assert log.jobs.duration_ms.tolist() == [3_600_000]
    assert log.jobs.n_gpus.tolist() == [4]
    noted = log.counts.noted.items()
    assert [n for cause, n in noted if cause.startswith("attempt")] == [1]


def test_a_philly_job_whose_last_attempt_has_no_end_was_still_running(
    tmp_path: Path,
) -> None:
    whole = attempt("2017-10-07 03:00:00", "2017-10-07 04:00:00", 4)
    log = philly(tmp_path, whole, attempt("2017-10-07 05:00:00", None, 4))
    assert log.counts.dropped == {"started without an end": 1}


def test_a_server_counts_once(tmp_path: Path) -> None:
    twice = attempt("2017-10-07 03:00:00", "2017-10-07 04:00:00", 2, 2)
    for server in twice["detail"]:
        server["ip"] = "m1"
    log = philly(tmp_path, twice)
    assert log.jobs.n_nodes.tolist() == [1]
    assert log.jobs.n_gpus.tolist() == [4]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"attempts": [{"detail": 1}]}, r"log: 0.attempts.0.detail: must be a list"),
        ({"submitted_time": "soon"}, r"log:5: column 'submitted_time' is 'soon'"),
    ],
)
def test_philly_values_of_another_kind_are_refused(
    tmp_path: Path, values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(LogFormatError, match=problem):
        philly(tmp_path, **values)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[\n{"a": 1}\n{"a": 1}]', r"log:3: not valid JSON \(expected"),
        ("[1]", r"log: 0: must be a group of keys, found 1"),
        ("[" * 100_000, r"log:1: not valid JSON \(recursion"),
    ],
)
def test_broken_json_is_refused_with_its_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(LogFormatError, match=problem):
        read_job_log(write(tmp_path, text), "philly")


@pytest.mark.parametrize(
    "text", ['[{"id": "a", "turns": [{"from": "x"}]}]', '[{"jobid": "a"}]']
)
def test_a_list_of_other_things_is_no_log_of_jobs(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(LogFormatError, match=r"log:1: .*; (specify|give) "):
        read_job_log(path)
    with pytest.raises(LogFormatError, match=r"log:1: .* key 'attempts' .*other logs"):
        read_job_log(path, "philly")


def pai(folder: Path, *rows: str, header: bool = True, **options: Any) -> JobLog:
    lines = [*([PAI] if header else []), *rows]
    return read_job_log(
        write(folder, "\n".join(lines) + "\n"), **{"gpus_per_node": 8, **options}
    )


def test_an_alibaba_job_is_all_its_tasks_together(tmp_path: Path) -> None:
    log = pai(
        tmp_path,
        "j1,ps,2.0,Terminated,1000.0,5000.0,600,29,,",
        "j2,tensorflow,1.0,Terminated,1200.0,1500.0,600,29,50.0,MISC",
        "j1,worker,20.0,Terminated,900.0,4000.0,600,29,100.0,T4",
        "j1,evaluator,1.0,Failed,1000.0,1100.0,600,29,25.0,T4",
    )
    check_log(log, job_ids=("j1", "j2"), start_ms=[900_000, 1_200_000])
    check_log(log, duration_ms=[4_100_000, 300_000], n_gpus=[20.25, 0.5])
    assert log.jobs.n_nodes.tolist() == [3, 1]
    check_log(log, states=["failed", "completed"], kinds=["worker", "tensorflow"])
    assert log.counts.dropped == {"task merged into its job": 2}


def test_a_sum_of_shares_a_rounding_above_a_whole_number_needs_no_other_node(
    tmp_path: Path,
) -> None:
    shares = (110, 295, 295)
    # As columns are added; Python's `sum` rounds once since 3.12
    assert 1.1 + 2.95 + 2.95 > 7
    rows = [
        f"j,w{i},1.0,Terminated,1,9,1,1,{share},T4" for i, share in enumerate(shares)
    ]
    assert pai(tmp_path, *rows, gpus_per_node=7).jobs.n_nodes.tolist() == [1]


def test_alibabas_hours_are_true_and_its_dates_are_not(tmp_path: Path) -> None:
    log = pai(tmp_path, "j,w,1.0,Terminated,100.0,200.0,1,1,100.0,T4")
    assert log.utc_offset_min == 480
    assert log.dates_are_shifted and not log.is_relative


def test_the_published_table_without_a_header_is_recognised(tmp_path: Path) -> None:
    log = pai(
        tmp_path,
        "j1,w,1.0,Terminated,100.0,200.0,600.0,29.3,100.0,T4",
        "j2,w,,Failed,9.0,10.0,,,,",
        header=False,
    )
    assert log.log_format == "alibaba-2020"
    assert log.job_ids == ("j2", "j1")
    whole = "j1,w,1.0,Failed,1,2,600.0,29.3,100.0,T4"
    with pytest.raises(LogFormatError, match=r"log:2: 3 fields, expected 10 as in"):
        pai(tmp_path, whole, "j2,w,7", "j3,,", header=False)


def test_a_task_without_an_end_is_noted_where_its_job_has_one(tmp_path: Path) -> None:
    log = pai(
        tmp_path,
        "j,w,1.0,Terminated,100.0,200.0,1,1,100.0,T4",
        "j,ps,1.0,Running,100.0,,1,1,,",
    )
    assert log.jobs.duration_ms.tolist() == [100_000]
    noted = log.counts.noted.items()
    assert [n for cause, n in noted if cause.startswith("task without")] == [1]


def test_a_pod_has_a_share_of_one_gpu_or_whole_ones(tmp_path: Path) -> None:
    rows = [
        "p1,12000,16384,1,460,,LS,Running,0,100,0",
        "p2,12000,16384,1,1000,,BE,Failed,0,100,0",
        "p3,88000,327680,8,1000,V100M16|V100M32,Burstable,Succeeded,0,100,0",
        "p4,8000,30517,0,0,,BE,Running,0,100,0",
    ]
    log = read_job_log(write(tmp_path, "\n".join([OPENB, *rows]) + "\n"))
    check_log(log, n_gpus=[0.46, 1, 8, 0], n_nodes=[1, 1, 1, 1])
    check_log(log, states=["other", "failed", "completed", "other"])


def test_options_of_plain_tables_do_not_fit_other_formats(tmp_path: Path) -> None:
    path = write(tmp_path, KALOS)
    for options in ({"duration_unit": "h"}, {"columns": {"id": "job_id"}}):
        with pytest.raises(
            InputError, match=r"log: \w+ is only for format 'csv'.*, this log is"
        ):
            read_job_log(path, "acme", **options)  # type: ignore[arg-type]
