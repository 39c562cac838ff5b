"""Duties of every importer of job logs, whatever its format; a format joins with a
writer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from job_log_writers import (
    JOBS,
    ORIGIN_S,
    WRITERS,
    Job,
    LogWriter,
    check_log,
    write_lines,
)

from diploee.base.errors import InputError, LogFormatError
from diploee.importers import JOB_LOG_FORMATS, read_job_log
from diploee.loads.jobs.job_log import STATES, JobLog

every_format = pytest.mark.parametrize(
    "writer", WRITERS, ids=lambda writer: writer.name
)


def formats(**traits: Any) -> Any:
    """Parametrize over the formats with these traits."""
    chosen = [
        w for w in WRITERS if all(getattr(w, name) == v for name, v in traits.items())
    ]
    return pytest.mark.parametrize("writer", chosen, ids=lambda writer: writer.name)


def told_by(writer: LogWriter, jobs: Iterable[Job] = JOBS) -> list[Job]:
    """Return the jobs whose state the format can tell."""
    return [job for job in jobs if job.state in writer.states]


def read(path: Path, writer: LogWriter, **options: Any) -> JobLog:
    log = read_job_log(path, writer.name, **(writer.options | options))
    check_log(log)
    return log


def expected_submit_ms(writer: LogWriter, job: Job) -> int:
    time_s = job.submit_s if writer.has_submission else job.start_s
    assert time_s is not None
    return (time_s + (0 if writer.zone == "none" else ORIGIN_S)) * 1000


def in_order(writer: LogWriter, jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: expected_submit_ms(writer, job))


def assert_same_jobs(log: JobLog, writer: LogWriter, jobs: Iterable[Job]) -> None:
    ordered = in_order(writer, jobs)
    shift_s = 0 if log.is_relative else ORIGIN_S
    assert list(log.job_ids) == [job.name for job in ordered]
    assert log.jobs.submit_ms.tolist() == [
        expected_submit_ms(writer, job) for job in ordered
    ]
    assert log.jobs.start_ms.tolist() == [
        (job.start_s + shift_s) * 1000 for job in ordered
    ]
    assert log.jobs.duration_ms.tolist() == [
        (job.end_s - job.start_s) * 1000 for job in ordered
    ]
    assert [STATES[index] for index in log.jobs.state_id] == [
        job.state for job in ordered
    ]
    if writer.has_kind:
        kinds = [log.types[index] for index in log.jobs.type_id]
        assert kinds == [writer.kind(job) for job in ordered]
    if writer.has_gpus:
        assert log.jobs.n_gpus.tolist() == [job.n_gpus for job in ordered]


@every_format
def test_the_same_jobs_come_back_in_a_format_known_by_the_content(
    tmp_path: Path, writer: LogWriter
) -> None:
    jobs = told_by(writer)
    path = writer.write(tmp_path / "log", jobs)
    log = read(path, writer)
    assert_same_jobs(log, writer, jobs)
    assert read_job_log(path, **writer.options).job_ids == log.job_ids
    assert log.log_format == writer.name
    assert log.source == str(tmp_path / "log")
    assert log.counts.dropped == {}


@pytest.mark.parametrize(
    "writer",
    [w for w in WRITERS if w.delimited and w.name != "swf"],
    ids=lambda writer: writer.name,
)
def test_the_same_jobs_come_back_from_a_parquet_file(
    tmp_path: Path, writer: LogWriter
) -> None:
    jobs = told_by(writer)
    text = writer.write(tmp_path / "log", jobs).read_bytes()
    delimiter = {"slurm": "|", "csv": ";"}.get(writer.name, ",")
    as_text = pa_csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
    options = pa_csv.ParseOptions(delimiter=delimiter)
    table = pa_csv.read_csv(
        pa.BufferReader(text), parse_options=options, convert_options=as_text
    )
    pq.write_table(table, tmp_path / "log.parquet")
    assert_same_jobs(read(tmp_path / "log.parquet", writer), writer, jobs)


def test_every_format_has_a_writer_in_this_kit() -> None:
    assert {writer.name for writer in WRITERS} == set(JOB_LOG_FORMATS)


@formats(has_nodes=True)
def test_without_gpus_per_node_the_logs_own_node_count_is_taken(
    tmp_path: Path, writer: LogWriter
) -> None:
    jobs = told_by(writer)
    log = read(writer.write(tmp_path / "log", jobs), writer)
    # Pods of openb run on one node each.
    assert log.jobs.n_nodes.tolist() == [
        1 if writer.name == "openb" else j.n_nodes for j in jobs
    ]


@formats(has_nodes=False)
def test_a_log_without_node_counts_asks_for_gpus_per_node(
    tmp_path: Path, writer: LogWriter
) -> None:
    path = writer.write(tmp_path / "log", told_by(writer))
    with pytest.raises(
        LogFormatError, match=r"log: no job has a node count; give gpus_per_node"
    ):
        read_job_log(path)


@every_format
def test_nodes_are_gpus_over_those_of_a_given_node_or_else_of_the_pools(
    tmp_path: Path, writer: LogWriter
) -> None:
    jobs = told_by(writer)
    path = writer.write(tmp_path / "log", jobs)
    for of_node, pool, per_node in ((1, None, 1), (512, 4, 512), (None, 4, 4)):
        if of_node is None and not writer.has_gpus:
            continue
        log = read(path, writer, gpus_per_node=of_node, pool_gpus_per_node=pool)
        assert log.jobs.n_nodes.tolist() == [
            -int(-job.n_gpus // per_node) for job in in_order(writer, jobs)
        ]
    told = "1 node = 4 GPUs, those of the pool's nodes"
    assert log.counts.noted.get(told, 0) == len(jobs) * writer.has_gpus


@every_format
def test_instants_do_not_depend_on_the_zone_that_a_log_is_written_in(
    tmp_path: Path, writer: LogWriter
) -> None:
    jobs, offset_min, zone = told_by(writer), -450, "-07:30"
    path = writer.write(tmp_path / "log", jobs, offset_min=offset_min)
    if writer.zone == "none":
        with pytest.raises(
            InputError, match="origin that is not known; leave utc_offset out"
        ):
            read(path, writer, utc_offset=zone)
        return
    options = {} if writer.zone == "stamps" else {"utc_offset": zone}
    log = read(path, writer, **options)
    assert_same_jobs(log, writer, jobs)
    assert log.utc_offset_min == offset_min


@formats(zone="option")
def test_stamps_without_a_zone_are_taken_as_utc_and_noted(
    tmp_path: Path, writer: LogWriter
) -> None:
    jobs = told_by(writer)
    log = read(writer.write(tmp_path / "log", jobs), writer)
    assert log.utc_offset_min == 0
    assert log.counts.noted["time stamps without a zone, taken as UTC"] == len(jobs)


@formats(zone="option")
def test_daylight_saving_of_a_named_zone_is_followed(
    tmp_path: Path, writer: LogWriter
) -> None:
    july = 120 / 366
    summer = [shifted(job, july, job.name) for job in told_by(writer)]
    path = writer.write(tmp_path / "summer", summer, offset_min=120)
    log = read(path, writer, utc_offset="Europe/Berlin")
    assert_same_jobs(log, writer, summer)
    assert log.utc_offset_min == 60  # of standard time


def shifted(job: Job, years: float, name: str) -> Job:
    shift_s = round(years * 366 * 86_400)
    return replace(
        job,
        name=name,
        **{
            key: getattr(job, key) + shift_s for key in ("submit_s", "start_s", "end_s")
        },
    )


@formats(zone="option")
@pytest.mark.parametrize("year", ["1979", "2100"])
def test_a_time_that_no_log_can_have_is_none(
    tmp_path: Path, writer: LogWriter, year: str
) -> None:
    lines = writer.lines([JOBS[0], JOBS[1], JOBS[2]])
    place = len(writer.header.splitlines()) + 1
    lines[place] = lines[place].replace("2023-03-06", f"{year}-03-06")
    log = read(write_lines(tmp_path / "log", lines), writer)
    assert_same_jobs(log, writer, [JOBS[0], JOBS[2]])
    (cause,) = log.counts.dropped
    assert cause == "time before 1980 or after 2099"
    lines = writer.lines([JOBS[0], JOBS[1], JOBS[2]])
    lines[place] = lines[place].replace("2023-03-06", f"{year}-03-06", 1)
    log = read(write_lines(tmp_path / "log", lines), writer)
    # The submission alone, or Philly's last attempt
    assert log.counts.n_kept == (2 if writer.name == "philly" else 3)


class Case(NamedTuple):
    """Jobs that are written, those that are read back, and what is counted."""

    written: Sequence[Job]
    kept: Sequence[Job]
    dropped: dict[str, int] = {}  # never changed  # noqa: RUF012
    options: dict[str, Any] = {}  # noqa: RUF012
    counted: str = ""  # what is repaired or noted


A, B, C, LATE, _ = JOBS
AT_ONCE = replace(B, start_s=90, end_s=90)
EARLY = replace(B, submit_s=100, start_s=90)
CANCELLED = [
    replace(A, name="77", start_s=None, end_s=None),
    replace(A, name="78", end_s=60),
]
CANCELLED = [replace(job, state="cancelled") for job in CANCELLED]
SAME_DAY = [replace(A, name=str(3_000 + i)) for i in range(59)]
STRAY = [shifted(A, years, str(4_000 + years)) for years in (-2, 2)]
CPU_ONLY = [A, replace(B, n_gpus=0), replace(C, n_gpus=0)]


def unfinished(writer: LogWriter, **times_s: None) -> list[Job]:
    return [
        A,
        replace(B, state="other" if "other" in writer.states else "failed", **times_s),
        C,
    ]


def cases_of(writer: LogWriter) -> Iterator[tuple[str, Case]]:
    """Yield what a format drops, repairs or keeps, as far as it can say it."""
    never = "never started" if writer.has_submission else "neither submission nor start"
    # Philly's attempt of negative length is left out, and with it the only run time of
    # the job.
    negative = (
        "started without an end" if writer.name == "philly" else "negative run time"
    )
    yield (
        "still running",
        Case(unfinished(writer, end_s=None), [A, C], {"started without an end": 1}),
    )
    yield (
        "never started",
        Case(unfinished(writer, start_s=None, end_s=None), [A, C], {never: 1}),
    )
    yield "no run time", Case([A, AT_ONCE], [A], {"zero run time": 1})
    yield "negative", Case([A, replace(B, end_s=B.start_s - 20)], [A], {negative: 1})
    yield "repeated", Case([A, B, A, A], [A, B], {"repeated row": 2})
    if writer.has_submission:
        moved = "start before submission, submission moved to it"
        yield "early", Case([A, EARLY], [A, replace(EARLY, submit_s=90)], {}, {}, moved)
    if "cancelled" in writer.states:
        cancelled = {"cancelled before start": 2}
        one_second = {"zero_durations": "one-second"}
        yield (
            "cancelled",
            Case([A, *CANCELLED, LATE], [A, LATE], cancelled, one_second),
        )
    if writer.has_gpus:
        yield "CPU-only", Case(CPU_ONLY, CPU_ONLY, counted="CPU-only job")


def common_cases() -> Iterator[tuple[str, Case]]:
    """Yield what is dropped, repaired or kept after a format was read."""
    failed = {"state 'failed' left out": 1}
    yield "state left out", Case(JOBS[:3], [A, C], failed, {"states": ["completed"]})
    kept = [A, replace(AT_ONCE, end_s=91)]
    taken = "zero run time, taken as 1 s"
    options = {"zero_durations": "one-second"}
    yield "one second", Case([A, AT_ONCE], kept, {}, options, taken)
    endless = replace(B, end_s=B.start_s + 11 * 366 * 86_400)
    too_long = {"run time of more than ten years": 1}
    yield "endless", Case([A, endless, C], [A, C], too_long)
    far = {"submitted more than a year apart from all others": 2}
    yield "stray", Case([STRAY[0], *SAME_DAY, STRAY[1]], SAME_DAY, far)
    few = [*SAME_DAY[:5], STRAY[1]]
    yield "too few to tell which are stray", Case(few, few)
    dropped = {"CPU-only job": 2}
    yield "no CPU-only", Case(CPU_ONLY, [A], dropped, {"cpu_only": "drop"})


CASES = [
    pytest.param(writer, case, id=f"{name}-{writer.name}")
    for writer in WRITERS
    for name, case in (
        *cases_of(writer),
        *(common_cases() if writer.name == "csv" else ()),
    )
]


@pytest.mark.parametrize(("writer", "case"), CASES)
def test_what_is_no_job_is_dropped_and_what_can_be_mended_kept_each_by_its_cause(
    tmp_path: Path, writer: LogWriter, case: Case
) -> None:
    for word in writer.missing:
        path = writer.write(tmp_path / "log", case.written, missing=word)
        log = read(path, writer, **case.options)
        assert_same_jobs(log, writer, case.kept)
        assert log.counts.dropped == case.dropped
        assert not case.counted or case.counted in {
            **log.counts.repaired,
            **log.counts.noted,
        }


WITH_PARTS = [w for w in WRITERS if type(w).parts is not LogWriter.parts]
PARTS_DROPPED = {
    "swf": {"partial execution, the job has its own line": 2},
    "slurm": {"job step": 4},
    "philly": {},
    "alibaba-2020": {"task merged into its job": 1},
}


@pytest.mark.parametrize("writer", WITH_PARTS, ids=lambda writer: writer.name)
def test_steps_attempts_and_tasks_are_not_jobs_of_their_own(
    tmp_path: Path, writer: LogWriter
) -> None:
    rows = [*writer.parts(JOBS[0]), writer.row(JOBS[1]), writer.row(JOBS[2])]
    log = read(write_lines(tmp_path / "log", writer.text_lines(rows)), writer)
    assert_same_jobs(log, writer, [JOBS[0], JOBS[1], JOBS[2]])
    assert log.counts.dropped == PARTS_DROPPED[writer.name]


@every_format
def test_rows_out_of_order_are_sorted_with_ties_in_the_order_of_the_file(
    tmp_path: Path, writer: LogWriter
) -> None:
    tied = [replace(JOBS[0], name=str(2000 + i)) for i in range(5)]
    jobs = [JOBS[1], *tied[::-1], JOBS[2]]
    log = read(writer.write(tmp_path / "log", jobs), writer)
    assert_same_jobs(log, writer, jobs)
    expected = np.array([expected_submit_ms(writer, job) for job in jobs])
    n_late = int((np.maximum.accumulate(expected) > expected).sum())
    assert log.counts.repaired["out of order of submission, sorted"] == n_late > 0


RUNS_SHARE_IDS = ("slurm",)
OF_ONE_ROW_PER_JOB = [writer for writer in WRITERS if writer.name != "alibaba-2020"]


@pytest.mark.parametrize("writer", OF_ONE_ROW_PER_JOB, ids=lambda writer: writer.name)
def test_of_rows_with_one_id_the_first_that_ran_stays(
    tmp_path: Path, writer: LogWriter
) -> None:
    state = "other" if "other" in writer.states else "failed"
    running = replace(JOBS[0], end_s=None, state=state)
    again = replace(JOBS[0], end_s=JOBS[0].end_s + 7)
    log = read(
        writer.write(tmp_path / "log", [running, JOBS[0], again, JOBS[1]]), writer
    )
    assert_same_jobs(log, writer, [JOBS[0], JOBS[1]])
    assert log.counts.dropped == {"started without an end": 1, "repeated job id": 1}
    moved = replace(
        JOBS[0], start_s=JOBS[0].start_s + 9_000, end_s=JOBS[0].end_s + 9_000
    )
    log = read(writer.write(tmp_path / "log", [JOBS[0], moved]), writer)
    assert len(log) == (2 if writer.name in RUNS_SHARE_IDS else 1)


def failure(path: Path, writer: LogWriter, **options: Any) -> str:
    with pytest.raises(LogFormatError) as caught:
        read(path, writer, **options)
    check_message(caught.value, path)
    return str(caught.value)


def check_message(error: InputError, path: Path) -> None:
    text = str(error)
    assert text.startswith(str(path)), text
    assert text.isprintable(), repr(text)
    assert re.match(r"(:\d+)?: \S", text[len(str(path)) :]), text
    assert len(text) < len(str(path)) + 1_000, text


@every_format
def test_a_header_without_rows_is_refused(tmp_path: Path, writer: LogWriter) -> None:
    path = write_lines(tmp_path / "log", writer.text_lines([]))
    assert re.search(r"no (whole row|job)", failure(path, writer))


@every_format
def test_a_last_line_cut_short_is_left_out_or_refused(
    tmp_path: Path, writer: LogWriter
) -> None:
    lines = writer.lines(told_by(writer))
    whole = "\n".join(lines)
    path = tmp_path / "log"
    path.write_text(
        whole[: whole.rindex(lines[-1] if writer.delimited else lines[-2]) + 9]
    )
    if not writer.delimited:
        n_lines = len(lines) - 1
        assert f"log:{n_lines}: not valid JSON" in failure(path, writer)
        return
    log = read(path, writer)
    assert_same_jobs(log, writer, told_by(writer)[:-1])
    assert log.counts.dropped == {"truncated last line": 1}


@every_format
def test_a_line_cut_short_before_the_last_is_refused_with_its_number(
    tmp_path: Path, writer: LogWriter
) -> None:
    lines = writer.lines(told_by(writer))
    place = len(writer.header.splitlines()) + 1
    lines[place] = lines[place][:8]
    lines.insert(1, "")
    path = write_lines(tmp_path / "log", lines)
    # JSON's text ends where its line does
    line = place + 2 + (writer.name == "philly")
    assert f"log:{line}: " in failure(path, writer)


@every_format
def test_a_value_of_the_last_row_that_does_not_parse_is_refused_with_its_line(
    tmp_path: Path, writer: LogWriter
) -> None:
    lines = writer.lines([*told_by(writer), replace(JOBS[0], name="9")])
    place = len(lines) - (1 if writer.delimited else 2)
    found = re.search(
        r"2023-03-06|(?<=[,\s])1678060860(?=\.)|(?<=[,\s])60(?=[,\s]|$)", lines[place]
    )
    assert found, lines[place]
    lines[place] = lines[place].replace(found[0], "6x8")
    text = failure(write_lines(tmp_path / "log", lines), writer)
    assert f"log:{place + 1}: column " in text
    assert "6x8" in text and "correct or remove this line" in text


def test_text_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("Dear user,\nthe log that you asked for is attached.\n")
    for writer in WRITERS:
        with pytest.raises(InputError) as caught:
            read(path, writer)
        check_message(caught.value, path)
    with pytest.raises(
        LogFormatError, match=r"log:1: not a job log of a known format"
    ) as caught:
        read_job_log(path)
    check_message(caught.value, path)
    assert all(f"'{name}'" in str(caught.value) for name in JOB_LOG_FORMATS)


jobs_of_any_size = st.lists(
    st.builds(
        Job,
        name=st.integers(1, 10**9).map(str),
        submit_s=st.integers(0, 3 * 10**7),
        start_s=st.integers(0, 10**6),  # the wait, see below
        end_s=st.integers(1, 10**7),  # the run time
        n_gpus=st.integers(1, 4_096),
        state=st.sampled_from(["completed", "failed"]),
        kind=st.sampled_from(["train", "eval"]),
    ).map(
        lambda job: replace(
            job,
            start_s=job.submit_s + job.start_s,
            end_s=job.submit_s + job.start_s + job.end_s,
        )
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda job: job.name,
)
quick = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


@pytest.mark.slow
@settings(quick, max_examples=15)
@given(jobs=jobs_of_any_size)
@every_format
def test_whatever_the_jobs_the_same_come_back(
    tmp_path: Path, writer: LogWriter, jobs: list[Job]
) -> None:
    log = read(writer.write(tmp_path / "log", jobs), writer)
    assert_same_jobs(log, writer, jobs)
