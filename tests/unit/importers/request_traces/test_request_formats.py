"""Particulars of single formats: services, failures, folders, column mappings,
sniffing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from diploee.base.errors import InputError, LogFormatError
from diploee.importers.request_traces import read_request_trace, request_counts
from diploee.importers.text.text_lines import TextLines, read_blocks

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
BURST_2 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total "
    "tokens,Log Type"
)


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_azure_stamps_of_both_years_are_read_as_utc(tmp_path: Path) -> None:
    rows_2023 = ["2024-05-10 00:00:00.0000000,1,1", "2024-05-10 00:01:59.9999999,1,2"]
    rows_2024 = [
        "2024-05-10 00:00:00+00:00,1,1",
        "2024-05-10 00:00:00.001163+00:00,1,1",
        "2024-05-10 00:01:00+00:00,1,2",
    ]
    start_ms = int(datetime(2024, 5, 10, tzinfo=UTC).timestamp() * 1000)
    for rows, expected in ((rows_2023, [1, 1]), (rows_2024, [2, 1])):
        trace = read_request_trace(write(tmp_path / "azure.csv", AZURE, *rows))
        assert trace.origin_ms == start_ms
        assert trace.n_requests.tolist() == [expected]
    zoned = "2024-05-10 08:00:30+08:00,1,1"
    trace = read_request_trace(write(tmp_path / "azure.csv", AZURE, zoned))
    assert trace.origin_ms == start_ms


def test_concatenated_files_are_one_trace(tmp_path: Path) -> None:
    part = (AZURE, "2024-05-10 00:00:00,5,6", AZURE, "2024-05-10 00:01:00,7,8")
    trace = read_request_trace(write(tmp_path / "a.csv", *part))
    assert trace.n_requests.tolist() == [[1, 1]]
    assert trace.counts.n_rows == 2
    assert list(trace.counts.repaired.values()) == [1]


@pytest.mark.parametrize(("header", "session"), [(BURST, ""), (BURST_2, "S1,3.5,")])
def test_burstgpt_models_are_services_and_empty_responses_failures(
    header: str, session: str, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "burst.csv",
        header,
        f"5,{session}ChatGPT,472,18,490,Conversation log",
        f"45,{session}GPT-4,100,0,100,API log",
        f"118,{session}GPT-4,210,30,240,API log",
    )
    trace = read_request_trace(path)
    assert trace.services == ("ChatGPT", "GPT-4")
    assert trace.is_relative
    assert trace.n_requests.tolist() == [[1, 0], [0, 1]]
    assert trace.counts.dropped == {"failed requests (no response tokens)": 1}
    assert [side.total_tokens for side in trace.input_tokens] == [472, 210]


def test_a_relative_trace_keeps_its_distance_from_its_origin(tmp_path: Path) -> None:
    day_3 = 2 * 86_400
    path = write(tmp_path / "b.csv", BURST, f"{day_3 + 61},GPT-4,1,1,2,API log")
    trace = read_request_trace(path)
    assert trace.origin_ms == (day_3 + 60) * 1000
    assert trace.n_requests.tolist() == [[1]]


def test_only_wanted_services_are_kept_in_their_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "b.csv",
        BURST,
        *(f"{i},{model},1,1,2,API log" for i, model in enumerate(["A", "B", "C", "B"])),
    )
    trace = read_request_trace(path, services=["C", "B"])
    assert trace.services == ("C", "B")
    assert trace.n_requests.sum(axis=1).tolist() == [1, 2]
    assert trace.counts.dropped == {"other services": 1}
    with pytest.raises(InputError, match=r"no request of service 'GPT'.*have: 'A'"):
        read_request_trace(path, services=["GPT"])
    with pytest.raises(InputError, match="services is empty"):
        read_request_trace(path, services=[])


def test_a_trace_that_tells_no_service_takes_the_one_name_given(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "time_s", "1", "2")
    assert read_request_trace(path, services=["coding"]).services == ("coding",)
    with pytest.raises(InputError, match="can't be distinguished"):
        read_request_trace(path, services=["coding", "chat"])


def test_an_empty_model_is_the_service_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "b.csv", BURST, "1,,1,1,2,API log", "2,X,1,1,2,API log")
    trace = read_request_trace(path)
    assert trace.services == ("unknown", "X")
    assert trace.counts.repaired == {"no service; named 'unknown'": 1}


def test_too_many_services_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_counts, "MAX_SERVICES", 3)
    path = write(
        tmp_path / "c.csv", "time_s,service", *(f"{i},user{i}" for i in range(4))
    )
    with pytest.raises(LogFormatError, match=f"^{path}:2: found more than 3 services"):
        read_request_trace(path)


@pytest.mark.parametrize(
    ("meaning", "values", "origin_ms", "is_relative"),
    [
        (
            "timestamp",
            ["2024-01-01T01:00:30+01:00", "2024-01-01 00:02:00"],
            1_704_067_200_000,
            False,
        ),
        ("unix_s", ["1704067230.5", "1704067320"], 1_704_067_200_000, False),
        ("time_s", ["30.5", "120"], 0, True),
    ],
)
def test_the_meaning_of_a_mapped_column_tells_its_unit(
    meaning: str, values: list[str], origin_ms: int, is_relative: bool, tmp_path: Path
) -> None:
    path = write(tmp_path / "log.csv", "id,When,tok", *(f"x,{v},12.0" for v in values))
    trace = read_request_trace(path, columns={meaning: "when", "output_tokens": "tok"})
    assert (trace.trace_format, trace.origin_ms) == ("csv", origin_ms)
    assert trace.is_relative == is_relative
    assert trace.n_requests.tolist() == [[1, 0, 1]]
    assert trace.output_tokens[0].total_tokens == 24
    assert trace.input_tokens == ()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"when": "t"}, r"columns: unknown meaning 'when', expected 'timestamp'"),
        ({"output_tokens": "b"}, r"log.csv:1: found 'output_tokens' mapped"),
        ({"time_s": "T_s"}, r"log.csv:1: column 'T_s' is missing"),
        ({"time_s": "t", "service": "b"}, r"'b' is there several times"),
    ],
)
def test_a_wrong_column_mapping_is_refused(
    columns: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "log.csv", "t,b,b", "1,2,3")
    with pytest.raises(InputError, match=message):
        read_request_trace(path, columns=columns)


def test_servegen_folders_are_services_that_sum_their_clients(tmp_path: Path) -> None:
    large = tmp_path / "m-large"
    write(large / "chunk-1-trace.csv", "0,2.0,1,Gamma,1,1", "600,1.0,1,Gamma,1,1")
    write(large / "chunk-2-trace.csv", "600,0.5,1,Weibull,1,1")
    write(tmp_path / "m-small" / "chunk-1-trace.csv", "1200,3.0,1,Gamma,1,1")
    write(tmp_path / "m-small" / "chunk-1-dataset.json", "{}")
    trace = read_request_trace(tmp_path, step_s=300)
    assert trace.services == ("m-large", "m-small")
    assert trace.n_requests == pytest.approx(
        np.array([[600, 600, 450, 450, 0, 0], [0, 0, 0, 0, 900, 900]])
    )
    assert (trace.counts.n_rows, trace.counts.n_kept) == (4, 4)
    assert read_request_trace(tmp_path / "m-large").services == ("m-large",)
    only = read_request_trace(tmp_path, services=["m-small"], step_s=1800)
    assert only.n_requests.tolist() == [[1800]]
    with pytest.raises(InputError, match=r"no chunks of 'm-smal' .*mean 'm-small'"):
        read_request_trace(tmp_path, services=["m-smal"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no chunks of"):
        read_request_trace(tmp_path / "empty")


def test_servegen_rows_are_dropped_by_cause_and_put_in_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "chunk-1-trace.csv",
        *(
            "1200,2,1,Gamma,1,1",
            "0,1,1,Gamma,1,1",
            "0,1,1,Gamma,1,1",
            "600,-1,1,Gamma,1,1",
        ),
        *("600,,1,Gamma,1,1", "-600,1,1,Gamma,1,1", ",1,1,Gamma,1,1", "1800,0,,"),
    )
    trace = read_request_trace(path, "servegen", step_s=600)
    assert trace.n_requests.tolist() == [[600, 0, 1200, 0]]
    assert trace.counts.dropped == {
        "repeated rows": 1,
        "negative rate": 1,
        "no rate": 1,
        "negative time": 1,
        "no time": 1,
    }
    assert list(trace.counts.repaired.values()) == [1]
    assert (trace.counts.n_rows, trace.counts.n_kept) == (8, 3)


def test_servegen_row_years_from_all_others_is_dropped_and_few_are_refused(
    tmp_path: Path,
) -> None:
    rows = [f"{600 * k},1.0,1,Gamma,1,1" for k in range(30)]
    path = write(tmp_path / "chunk-1-trace.csv", *rows, "99999600,1.0,1,Gamma,1,1")
    trace = read_request_trace(path, "servegen", step_s=600)
    assert trace.n_requests.tolist() == [[600.0] * 30]
    assert trace.counts.dropped == {
        "submitted more than a year apart from all others": 1
    }
    path = write(tmp_path / "chunk-2-trace.csv", rows[0], "999999600,1.0,1,Gamma,1,1")
    with pytest.raises(InputError, match=r"reach over 31\.7 years"):
        read_request_trace(path, "servegen", step_s=600)


def test_servegen_rows_that_overlap_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "0,1,1,Gamma,1,1", "300,1,1,Gamma,1,1")
    with pytest.raises(LogFormatError, match=f"^{path}:2: this row starts 300 s after"):
        read_request_trace(path)


def test_a_bailian_trace_has_seconds(tmp_path: Path) -> None:
    row = {"chat_id": 1, "timestamp": 61.1, "input_length": 5, "output_length": 6}
    path = write(tmp_path / "t.jsonl", json.dumps(row | {"hash_ids": []}))
    assert read_request_trace(path, step_s=1).origin_ms == 61_000


def test_a_first_line_that_fits_no_format_is_shown_with_the_formats(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "t.csv", "a,b,c", "1,2,3")
    with pytest.raises(LogFormatError, match=r":1: not a trace of .*'a,b,c'.*azure"):
        read_request_trace(path)
    with pytest.raises(InputError, match=r"unknown trace format 'azure', .*azure-llm"):
        read_request_trace(path, "azure")
    with pytest.raises(LogFormatError, match=r":1: column 'TIMESTAMP' is missing"):
        read_request_trace(path, "azure-llm")
    with pytest.raises(LogFormatError, match=r":1: key 'timestamp' is missing"):
        read_request_trace(write(tmp_path / "t.jsonl", "{}"))


def test_a_path_of_no_system_and_a_parquet_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError, match="can't be read"):
        read_request_trace("a\0b", "azure-llm")
    (tmp_path / "binary").write_bytes(b"PAR1\xff\xfe\n")
    with pytest.raises(LogFormatError, match=r"binary:1: found a Parquet file"):
        read_request_trace(tmp_path / "binary")


@pytest.mark.parametrize("step_s", [0, 0.0015, float("nan"), 1e12])
def test_a_step_that_is_no_whole_number_of_milliseconds_is_refused(
    step_s: float, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="step_s is"):
        read_request_trace(write(tmp_path / "a.csv", "time_s", "1"), step_s=step_s)


def test_column_mappings_are_for_plain_csv_only(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "time_s", "1")
    with pytest.raises(InputError, match="columns are for the format 'csv'"):
        read_request_trace(path, "azure-llm", columns={"time_s": "time_s"})


def test_blocks_hold_whole_lines_and_know_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.importers.text.file_bytes.PIECE_BYTES", 7)
    path = write(tmp_path / "t", "one", "", "three", "a longer fourth", "five")
    found = list(read_blocks(path))
    assert b"".join(block.data for block in found) == path.read_bytes()
    assert all(block.data.endswith(b"\n") for block in found)
    rows = [row for block in found for row in block.rows()]
    assert rows == [(1, "one"), (3, "three"), (4, "a longer fourth"), (5, "five")]
    assert list(TextLines(path, path.read_bytes(), 11).rows())[1] == (13, "three")


def test_a_line_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.importers.text.file_bytes.PIECE_BYTES", 2**16)
    monkeypatch.setattr("diploee.importers.text.text_lines.MAX_LINE_BYTES", 2**20)
    path = write(tmp_path / "t", "one", "x" * 2**21)
    with pytest.raises(LogFormatError, match=f"^{path}:2: a line of more than 1 MiB"):
        list(read_blocks(path))


def test_servegen_lengths_are_those_of_the_requests_of_their_window(
    tmp_path: Path,
) -> None:
    rates = ["0,1.0,1,Gamma,1,1", "600,3.0,1,Gamma,1,1", "1200,0.5,1,Gamma,1,1"]
    write(tmp_path / "chunk-0-trace.csv", *rates)
    windows = {
        "0": {"input_tokens": "{10: 1.0}", "output_tokens": "{100: 0.25, 101: 0.75}"},
        "600": {"input_tokens": "{20: 1.0}", "output_tokens": "{}", "other": 3},
    }
    lengths = tmp_path / "chunk-0-dataset.json"
    lengths.write_text(json.dumps(windows), "utf-8")
    trace = read_request_trace(tmp_path, step_s=600)
    (inputs,), (outputs,) = trace.input_tokens, trace.output_tokens
    assert trace.n_requests.tolist() == [[600, 1800, 300]]
    assert inputs.n_requests[[10, 20]].tolist() == [600, 2100]
    # The first window's goes on
    assert outputs.n_requests[[100, 101]].tolist() == [675, 2025]
    assert outputs.mean == pytest.approx(100.75)
    alone = read_request_trace(tmp_path / "chunk-0-trace.csv")
    assert alone.output_tokens[0].mean == outputs.mean
    for wrong in ("{1: __import__('os')}", "{1: -1}", 5):
        lengths.write_text(json.dumps({"0": {"input_tokens": wrong}}), "utf-8")
        with pytest.raises(LogFormatError, match="window '0': input_tokens is"):
            read_request_trace(tmp_path)
    lengths.unlink()
    assert read_request_trace(tmp_path).input_tokens == ()


def test_servegen_lengths_are_read_of_the_largest_clients_alone(tmp_path: Path) -> None:
    clients = [(1, "wrong"), (60, "{7: 1}"), (35, "{9: 1}")]
    for chunk, (rate, text) in enumerate(clients):
        write(tmp_path / f"chunk-{chunk}-trace.csv", f"0,{rate},1,Gamma,1,1")
        lengths = json.dumps({"0": {"output_tokens": text}})
        write(tmp_path / f"chunk-{chunk}-dataset.json", lengths)
    (outputs,) = read_request_trace(tmp_path).output_tokens
    assert outputs.n_requests[[7, 9]].tolist() == [36_000, 21_000]
