"""Standard Workload Format: header, spacing, floating times, processors to nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_facts import check_log

from diploee.base.errors import InputError, LogFormatError
from diploee.importers import read_job_log
from diploee.loads.jobs.job_log import MISSING_MS

ROW = (
    "{job} {submit} {wait} {run} {procs} -1 -1 {requested} {limit} -1 {status} {user} "
    "1 -1 1 -1 -1 -1"
)
BASE = {
    "job": 1,
    "submit": 0,
    "wait": 10,
    "run": 100,
    "procs": 8,
    "requested": 8,
    "status": 1,
}
BASE |= {"limit": -1, "user": 1}
NODES = "; MaxNodes: 9"
ZURICH = ["; UnixStartTime: 1000000000", "; TimeZoneString: Europe/Zurich", NODES]


def row(**values: object) -> str:
    return ROW.format(**(BASE | values))


def rows(**columns: list[Any]) -> list[str]:
    """Return a row for each value of some columns."""
    values = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    return [row(**{"job": k, **of_row}) for k, of_row in enumerate(values)]


def write(folder: Path, *lines: str) -> Path:
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


ALEA = ["64 1:ppn=64:x86_64:cl_zewura#excl", "64 8:ppn=8"]
RELATIVE = {"is_relative": True, "utc_offset_min": None, "submit_ms": [7_000]}
Case = tuple[list[str], dict[str, Any], dict[str, Any]]


def case(lines: list[str], options: Any = None, **expected: Any) -> Case:
    return lines, options or {}, expected


CASES: dict[str, Case] = {
    "submissions count from the start in the header's zone": case(
        [*ZURICH, row(submit=5)],
        submit_ms=[1_000_000_005_000],
        start_ms=[1_000_000_015_000],
        utc_offset_min=60,
        is_relative=False,
    ),
    "the user's zone goes before the header's": case(
        [ZURICH[0], "; TimeZoneString: nonsense", NODES, row()],
        {"utc_offset": "-05:00"},
        utc_offset_min=-300,
    ),
    "no start": case([";", NODES, row(submit=7)], **RELATIVE),
    "start unknown": case(["; UnixStartTime: ?", NODES, row(submit=7)], **RELATIVE),
    "nodes are processors over those of a node": case(
        ["; MaxNodes: 100", "; MaxProcs: 800", row(procs=9)],
        n_nodes=[2],
        n_gpus=[np.nan],
    ),
    "nodes of up to 9 processors": case(
        ["; MaxNodes: 100", "; MaxProcs: 801", row(procs=9)], n_nodes=[1]
    ),
    "nodes with a remark": case(
        ["; MaxNodes: 144 (128+16)", "; MaxProcs: 288", row(procs=9)], n_nodes=[5]
    ),
    "without nodes in the header a processor is a node": case(
        ["; MaxProcs: 800", row(procs=9)], n_nodes=[9]
    ),
    "processors per node as given": case(
        ["; MaxProcs: 800", row(procs=9)],
        {"gpus_per_node": 4},
        n_nodes=[3],
        n_gpus=[9],
        noted={"1 node = 4 processors, as given": 1},
    ),
    "requested processors stand in for missing ones": case(
        [NODES, *rows(procs=[-1, -1], requested=[5, -1])],
        n_nodes=[5],
        dropped={"no node count": 1},
    ),
    "fractions of seconds, tabs, comments and blank lines": case(
        [
            "",
            "\t; MaxNodes: 9",
            "   \t",
            "  ; a comment ; with a semicolon",
            " \t" + row(submit="1.25", run="0.5").replace(" ", " \t "),
            "; a comment between",
            "",
            row(job=2, submit=3) + "   ",
        ],
        submit_ms=[1_250, 3_000],
        duration_ms=[500, 100_000],
    ),
    "a job without a wait has no start and stays": case(
        [NODES, row(wait=-1)], start_ms=[MISSING_MS], noted={"start not known": 1}
    ),
    "an unknown status is another state": case(
        [NODES, *rows(status=[1, 0, 5, -1, 9])],
        states=["completed", "failed", "cancelled", "other", "other"],
    ),
    "requested times and users": case(
        [NODES, *rows(limit=["3600", -1, 1.5], user=[7, -1, 9], submit=[0, 1, 2])],
        requested_ms=[3_600_000, 0, 1_500],
        user_id=[1, 0, 3],
    ),
    "Alea asks for nodes in the last of 21 fields": case(
        [row(job=k, procs=64) + f" 1 q_1d {asked[3:]}" for k, asked in enumerate(ALEA)],
        n_nodes=[1, 8],
        noted={"nodes as asked for in field 21": 2},
    ),
    "Alea's processors, where those of a node are given": case(
        [row(job=k, procs=64) + f" 1 q_1d {asked[3:]}" for k, asked in enumerate(ALEA)],
        {"gpus_per_node": 16},
        n_nodes=[4, 4],
    ),
    "AleaNG counts GPUs in field 19": case(
        [
            row(job=1, procs=336) + " 0 5585 all:excl:3x112",
            row(job=2, procs=21_504) + " 384 538 normal:excl:192x112",
        ],
        n_nodes=[3, 192],
        n_gpus=[0, 384],
    ),
    "of 20 fields the last counts nodes": case(
        [
            row(job=k, procs=-1, requested=-1) + f" -1 {n}"
            for k, n in enumerate((9_408, 2))
        ],
        n_nodes=[9_408, 2],
        noted={"nodes counted by field 20": 2},
    ),
    "field 20 beside processors": case(
        [
            row(job=k, procs=n, requested=n) + f" DAG-1 {k}"
            for k, n in enumerate((1, 5, 1))
        ],
        n_nodes=[1, 5, 1],
    ),
    "field 20 beside a given node": case(
        [row(procs=448) + " -1 8"], {"gpus_per_node": 64}, n_nodes=[7]
    ),
    "field 20 beside a header": case(
        ["; MaxNodes: 100", "; MaxProcs: 3200", row(procs=448) + " -1 8"], n_nodes=[14]
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_log_is_read_as_its_header_and_fields_say(tmp_path: Path, name: str) -> None:
    lines, options, expected = CASES[name]
    check_log(read_job_log(write(tmp_path, *lines), "swf", **options), **expected)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (
            [ZURICH[0], "; TimeZoneString: nonsense", NODES, row()],
            r":2: TimeZoneString: unknown time zone 'nonsens",
        ),
        (
            [NODES, *[row().replace(" ", "   ")] * 200, "", row(submit="x"), row()],
            r":203: column 'submit' is 'x'",
        ),
        ([NODES, "", row(), ";", "1 2 3", row()], r":5: 3 fields, expected 18"),
        ([NODES, row() + " -1", row(job=2)], r":3: 18 fields, expected 19"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(
    tmp_path: Path, lines: list[str], problem: str
) -> None:
    with pytest.raises(InputError, match=f"log.swf{problem}"):
        read_job_log(write(tmp_path, *lines))


@pytest.mark.parametrize(
    "header", [[], ["; UnixStartTime: 0"], ["; UnixStartTime: 1356996147"]]
)
def test_submissions_after_1980_count_from_1970_whatever_the_header_says(
    tmp_path: Path, header: list[str]
) -> None:
    lines = rows(submit=[1_356_996_147, 1_356_996_695], wait=[10, 71])
    log = read_job_log(
        write(tmp_path, NODES, *header, *lines), utc_offset="Europe/Prague"
    )
    start_ms = [1_356_996_157_000, 1_356_996_766_000]
    check_log(log, start_ms=start_ms, is_relative=False, utc_offset_min=60)


def test_a_named_zone_of_the_header_has_its_summer_time(tmp_path: Path) -> None:
    # 12:00 in Stockholm on 1 January and 1 July 2024
    noons_s = [1_704_106_800, 1_719_828_000]
    header = [
        "; UnixStartTime: 1704063600",
        "; TimeZoneString: Europe/Stockholm",
        NODES,
    ]
    lines = rows(submit=[noon_s - 1_704_063_600 for noon_s in noons_s])
    log = read_job_log(write(tmp_path, *header, *lines))
    local_ms = log.zone.local_ms(log.jobs.submit_ms)
    assert (local_ms // 3_600_000 % 24).tolist() == [12, 12]


def test_an_offset_in_seconds_stands_in_for_a_missing_zone(tmp_path: Path) -> None:
    begin = "; UnixStartTime: 1038708000"
    for offset, minutes in (("-28800", -480), ("19800", 330), ("0", 0)):
        log = read_job_log(
            write(tmp_path, begin, f"; TimeZone: {offset}", NODES, row())
        )
        check_log(log, utc_offset_min=minutes, submit_ms=[1_038_708_000_000])
    both = [begin, "; TimeZone: 0", "; TimeZoneString: Europe/Zurich", NODES, row()]
    assert read_job_log(write(tmp_path, *both)).utc_offset_min == 60
    for offset in ("-8", "+0900"):
        wrong = write(tmp_path, begin, f"; TimeZone: {offset}", NODES, row())
        with pytest.raises(
            LogFormatError, match=r"swf:2: TimeZone is '[-+0-9]+'.*\(--utc-offset\)"
        ):
            read_job_log(wrong)
        assert read_job_log(wrong, utc_offset="-08:00").utc_offset_min == -480


def test_an_origin_after_2099_is_no_count_of_seconds(tmp_path: Path) -> None:
    with pytest.raises(
        LogFormatError, match=r"swf:1: UnixStartTime is 1038708000000, expected s"
    ):
        read_job_log(write(tmp_path, "; UnixStartTime: 1038708000000", NODES, row()))
