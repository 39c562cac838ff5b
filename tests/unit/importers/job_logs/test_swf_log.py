"""Standard Workload Format: header, spacing, floating times, processors to nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diploee.errors import InputError, LogFormatError
from diploee.importers import read_job_log
from diploee.loads.jobs.job_log import MISSING_MS

ROW = "{job} {submit} {wait} {run} {procs} -1 -1 {requested} -1 -1 {status} 1 1 -1 1 -1 -1 -1"
BASE = {"job": 1, "submit": 0, "wait": 10, "run": 100, "procs": 8, "requested": 8, "status": 1}


def row(**values: object) -> str:
    return ROW.format(**(BASE | values))


def write(folder: Path, *lines: str) -> Path:
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_submissions_count_from_unix_start_time_in_the_headers_zone(tmp_path: Path) -> None:
    header = ["; UnixStartTime: 1000000000", "; TimeZoneString: Europe/Zurich", "; MaxNodes: 9"]
    log = read_job_log(write(tmp_path, *header, row(submit=5)))
    assert log.jobs.submit_ms.tolist() == [1_000_000_005_000]
    assert log.jobs.start_ms.tolist() == [1_000_000_015_000]
    assert log.utc_offset_min == 60
    assert not log.is_relative


def test_users_zone_goes_before_the_headers(tmp_path: Path) -> None:
    header = ["; UnixStartTime: 1000000000", "; TimeZoneString: nonsense", "; MaxNodes: 9"]
    path = write(tmp_path, *header, row())
    assert read_job_log(path, utc_offset="-05:00").utc_offset_min == -300
    with pytest.raises(InputError, match=r"log.swf:2: TimeZoneString: unknown time zone 'nonsens"):
        read_job_log(path)


@pytest.mark.parametrize("start", ["", "; UnixStartTime: 0", "; UnixStartTime: ?"])
def test_without_a_start_time_the_origin_is_not_known(tmp_path: Path, start: str) -> None:
    log = read_job_log(write(tmp_path, start or ";", "; MaxNodes: 9", row(submit=7)))
    assert log.is_relative and log.utc_offset_min is None
    assert log.jobs.submit_ms.tolist() == [7_000]


@pytest.mark.parametrize(
    ("header", "processors", "n_nodes"),
    [
        (["; MaxNodes: 100", "; MaxProcs: 800"], 9, 2),
        (["; MaxNodes: 100", "; MaxProcs: 801"], 9, 1),  # nodes of up to 9 processors
        (["; MaxNodes: 100"], 9, 9),
        (["; MaxNodes: 144 (128+16)", "; MaxProcs: 288"], 9, 5),
    ],
)
def test_nodes_are_processors_over_those_of_a_node(
    tmp_path: Path, header: list[str], processors: int, n_nodes: int
) -> None:
    log = read_job_log(write(tmp_path, *header, row(procs=processors)))
    assert log.jobs.n_nodes.tolist() == [n_nodes]
    assert np.isnan(log.jobs.n_gpus).all()


def test_without_a_node_count_in_the_header_a_processor_is_a_node_and_noted(tmp_path: Path) -> None:
    path = write(tmp_path, "; MaxProcs: 800", row(procs=9))
    log = read_job_log(path)
    assert log.jobs.n_nodes.tolist() == [9]
    (rule,) = (cause for cause in log.counts.noted if cause.startswith("1 node = 1 processor, as"))
    assert "gpus_per_node" in rule
    log = read_job_log(path, gpus_per_node=4)
    assert log.jobs.n_nodes.tolist() == [3]
    assert log.jobs.n_gpus.tolist() == [9]
    assert log.counts.noted["1 node = 4 processors, as given"] == 1


def test_requested_processors_stand_in_for_missing_allocated_ones(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "; MaxNodes: 9",
        row(job=1, procs=-1, requested=5),
        row(job=2, procs=-1, requested=-1),
    )
    log = read_job_log(path)
    assert log.jobs.n_nodes.tolist() == [5]
    assert log.counts.dropped == {"no node count": 1}


def test_fractions_of_seconds_tabs_comments_and_blank_lines_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "",
        "\t; MaxNodes: 9",
        "   \t",
        "  ; a comment ; with a semicolon",
        " \t" + row(submit="1.25", run="0.5").replace(" ", " \t "),
        "; a comment between the rows",
        "",
        row(job=2, submit=3) + "   ",
    )
    log = read_job_log(path)
    assert log.jobs.submit_ms.tolist() == [1_250, 3_000]
    assert log.jobs.duration_ms.tolist() == [500, 100_000]


def test_line_numbers_count_comments_and_blank_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path, "; MaxNodes: 9", row(), "", "; comment", "  ", row(job=2, submit="x"), row()
    )
    with pytest.raises(LogFormatError, match=r"log.swf:6: column 'submit' is 'x'"):
        read_job_log(path)
    path = write(tmp_path, "; MaxNodes: 9", "", row(), ";", "1 2 3", row())
    with pytest.raises(LogFormatError, match=r"log.swf:5: 3 fields, expected 18"):
        read_job_log(path)


def test_a_job_without_a_wait_has_no_start_and_stays(tmp_path: Path) -> None:
    log = read_job_log(write(tmp_path, "; MaxNodes: 9", row(wait=-1)))
    assert log.jobs.start_ms.tolist() == [MISSING_MS]
    assert log.counts.noted == {"start not known": 1}


def test_unknown_status_is_another_state(tmp_path: Path) -> None:
    rows = [row(job=job, status=status) for job, status in enumerate((1, 0, 5, -1, 9))]
    log = read_job_log(write(tmp_path, "; MaxNodes: 9", *rows))
    assert log.jobs.state_id.tolist() == [0, 1, 2, 4, 4]


def test_blocks_of_text_end_at_any_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["; MaxNodes: 9", *(row(job=i, submit=3 * i).replace(" ", "   ") for i in range(200))]
    path = write(tmp_path, *lines)
    whole = read_job_log(path)
    monkeypatch.setattr("diploee.textio.text.CHUNK_BYTES", 50)
    assert read_job_log(path).job_ids == whole.job_ids == tuple(map(str, range(200)))
    broken = [*lines[:150], "1 2", *lines[150:]]
    with pytest.raises(LogFormatError, match=r"log.swf:151: 2 fields"):
        read_job_log(write(tmp_path, *broken))


@pytest.mark.parametrize("header", [[], ["; UnixStartTime: 0"], ["; UnixStartTime: 1356996147"]])
def test_submissions_after_1980_count_from_1970_whatever_the_header_says(
    tmp_path: Path, header: list[str]
) -> None:
    rows = [row(job=1, submit=1_356_996_147), row(job=2, submit=1_356_996_695, wait=71)]
    log = read_job_log(write(tmp_path, "; MaxNodes: 9", *header, *rows), utc_offset="Europe/Prague")
    assert log.jobs.submit_ms.tolist() == [1_356_996_147_000, 1_356_996_695_000]
    assert log.jobs.start_ms.tolist()[1] == 1_356_996_766_000
    assert not log.is_relative and log.utc_offset_min == 60


def test_a_named_zone_of_the_header_has_its_summer_time(tmp_path: Path) -> None:
    noons_s = [1_704_106_800, 1_719_828_000]  # 12:00 in Stockholm on 1 January and 1 July 2024
    header = ["; UnixStartTime: 1704063600", "; TimeZoneString: Europe/Stockholm", "; MaxNodes: 9"]
    rows = [row(job=k, submit=noon_s - 1_704_063_600) for k, noon_s in enumerate(noons_s)]
    log = read_job_log(write(tmp_path, *header, *rows))
    assert (log.zone.local_ms(log.jobs.submit_ms) // 3_600_000 % 24).tolist() == [12, 12]


def test_alea_asks_for_nodes_in_the_last_of_21_fields(tmp_path: Path) -> None:
    rows = [
        row(job=1, procs=64) + " {1241,1241} q_1d 1:ppn=64:x86_64:cl_zewura#excl",
        row(job=2, procs=64) + " {1273,1255} q_1d 8:ppn=8",
    ]
    log = read_job_log(write(tmp_path, *rows))
    assert log.jobs.n_nodes.tolist() == [1, 8]
    assert np.isnan(log.jobs.n_gpus).all()
    assert log.counts.noted == {"nodes as asked for in field 21": 2}
    assert read_job_log(write(tmp_path, *rows), gpus_per_node=16).jobs.n_nodes.tolist() == [4, 4]


def test_aleang_counts_gpus_in_field_19(tmp_path: Path) -> None:
    rows = [
        row(job=1, procs=336) + " 0 5585 all:excl:3x112",
        row(job=2, procs=21504) + " 384 538 normal:excl:192x112",
    ]
    log = read_job_log(write(tmp_path, *rows))
    assert log.jobs.n_nodes.tolist() == [3, 192]
    assert log.jobs.n_gpus.tolist() == [0, 384]


def test_of_20_fields_the_last_counts_nodes_where_processors_tell_none(tmp_path: Path) -> None:
    rows = [row(job=k, procs=-1, requested=-1) + f" -1 {n}" for k, n in enumerate((9408, 2))]
    log = read_job_log(write(tmp_path, *rows))
    assert log.jobs.n_nodes.tolist() == [9408, 2]
    assert log.counts.noted == {"nodes counted by field 20": 2}
    cores = row(procs=448) + " -1 8"
    assert read_job_log(write(tmp_path, cores)).jobs.n_nodes.tolist() == [8]
    assert read_job_log(write(tmp_path, cores), gpus_per_node=64).jobs.n_nodes.tolist() == [7]
    header = ["; MaxNodes: 100", "; MaxProcs: 3200"]
    assert read_job_log(write(tmp_path, *header, cores)).jobs.n_nodes.tolist() == [14]


def test_all_lines_have_as_many_fields_as_the_first(tmp_path: Path) -> None:
    path = write(tmp_path, "; MaxNodes: 9", row() + " -1", row(job=2))
    with pytest.raises(LogFormatError, match=r"log.swf:3: 18 fields, expected 19"):
        read_job_log(path)


def test_requested_times_and_users_are_read_and_missing_ones_are_zero(tmp_path: Path) -> None:
    rows = [row(job=k, submit=k).split() for k in range(3)]
    for fields, requested, user in zip(rows, ("3600", "-1", "1.5"), ("7", "-1", "9"), strict=True):
        fields[8], fields[11] = requested, user
    jobs = read_job_log(write(tmp_path, "; MaxNodes: 9", *map(" ".join, rows))).jobs
    assert jobs.requested_ms.tolist() == [3_600_000, 0, 1_500]
    first, none, other = jobs.user_id.tolist()
    assert none == 0 and 0 < first != other > 0
