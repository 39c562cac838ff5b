"""The kit that every importer of request traces must pass, on the same requests in
every format."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import AZURE, MOONCAKE, SERVEGEN

from diploee.base.errors import LogFormatError
from diploee.importers.request_traces import read_request_trace, servegen
from diploee.loads.services.request_trace import RequestTrace

Sample = Callable[[str], Path]
START = datetime(2024, 5, 10, tzinfo=UTC)
N = 400
HEADERS = {
    "azure-llm": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "csv": "time_ms,input_tokens,output_tokens,service",
}


@dataclass(frozen=True)
class Requests:
    """Requests to write: arrival [ms] from the origin, lengths, model; None for an
    empty field."""

    time_ms: Sequence[int | None]
    inputs: Sequence[int | None]
    outputs: Sequence[int | None]
    models: Sequence[str]

    def take(self, order: Sequence[int]) -> Requests:
        return Requests(
            *([column[i] for i in order] for column in vars(self).values())  # type: ignore[arg-type]
        )


def some_requests(n: int = N, coarse_ms: int = 1000) -> Requests:
    """Requests over three hours, no two alike, some of them at the same time."""
    rng = np.random.default_rng(7)
    time_ms = np.sort(rng.integers(0, 3 * 3_600_000, n) // coarse_ms * coarse_ms)
    return Requests(
        time_ms.tolist(),
        rng.integers(1, 9000, n).tolist(),
        (rng.permutation(n) + 1).tolist(),
        [["ChatGPT", "GPT-4"][i] for i in rng.integers(0, 2, n)],
    )


def text(value: object) -> str:
    return "" if value is None else str(value)


def azure_lines(requests: Requests) -> list[str]:
    def stamp(time_ms: int | None, i: int) -> str:
        if time_ms is None:
            return ""
        moment = START + timedelta(milliseconds=time_ms)
        # As in 2023 a naive stamp can't stand beside one with a zone, here it may
        if i % 3 == 0:
            return str(moment)
        return moment.strftime("%Y-%m-%d %H:%M:%S.%f+00:00")

    rows = zip(requests.time_ms, requests.inputs, requests.outputs, strict=True)
    return [HEADERS["azure-llm"]] + [
        f"{stamp(t, i)},{text(a)},{text(b)}" for i, (t, a, b) in enumerate(rows)
    ]


def burstgpt_lines(requests: Requests) -> list[str]:
    rows = zip(*vars(requests).values(), strict=True)
    return [HEADERS["burstgpt"]] + [
        f"{text(None if t is None else t // 1000)},{m},{text(a)},{text(b)},"
        f"{(a or 0) + (b or 0)},API log"
        for t, a, b, m in rows
    ]


def csv_lines(requests: Requests) -> list[str]:
    rows = zip(*vars(requests).values(), strict=True)
    return [HEADERS["csv"]] + [
        f"{text(t)},{text(a)},{text(b)},{m}" for t, a, b, m in rows
    ]


def mooncake_lines(requests: Requests) -> list[str]:
    rows = zip(requests.time_ms, requests.inputs, requests.outputs, strict=True)
    return [
        json.dumps(
            {
                "timestamp": t,
                "input_length": a,
                "output_length": b,
                "hash_ids": list(range(i % 5)),
            }
        )
        for i, (t, a, b) in enumerate(rows)
    ]


LINES: dict[str, Callable[[Requests], list[str]]] = {
    "azure-llm": azure_lines,
    "burstgpt": burstgpt_lines,
    "csv": csv_lines,
    "mooncake": mooncake_lines,
}
TELLS_SERVICES = {"burstgpt", "csv"}
IS_RELATIVE = {"burstgpt", "csv", "mooncake"}
each_format = pytest.mark.parametrize("trace_format", LINES)
two_formats = pytest.mark.parametrize("trace_format", ["azure-llm", "burstgpt"])
"""For rules that come after a format was read."""


def write(path: Path, lines: Sequence[str], end: str = "\n") -> Path:
    path.write_bytes((end.join(lines) + end).encode())
    return path


def read(
    folder: Path, trace_format: str, requests: Requests, **options: Any
) -> RequestTrace:
    path = write(folder / "trace", LINES[trace_format](requests))
    return read_request_trace(path, **options)


def same(a: RequestTrace, b: RequestTrace, but: Sequence[str] = ("source",)) -> bool:
    """Return whether two traces are equal but for some fields."""

    def plain(value: object) -> object:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        if hasattr(value, "__dataclass_fields__"):
            return {name: plain(getattr(value, name)) for name in vars(value)}
        return value

    left, right = (plain(trace) for trace in (a, b))
    assert isinstance(left, dict) and isinstance(right, dict)
    return all(left[name] == right[name] for name in left if name not in but)


@each_format
def test_requests_are_counted_per_step_and_service_and_tokens_add_up(
    trace_format: str, tmp_path: Path
) -> None:
    requests = some_requests()
    trace = read(tmp_path, trace_format, requests, step_s=300)
    assert trace.trace_format == trace_format  # found by its first line
    assert trace.is_relative == (trace_format in IS_RELATIVE)
    tells = trace_format in TELLS_SERVICES
    assert set(trace.services) == ({"ChatGPT", "GPT-4"} if tells else {"all"})
    origin_ms = 0 if trace.is_relative else int(START.timestamp() * 1000)
    edges = np.arange(0, 3 * 3600 + 1, 300) * 1000
    for index, service in enumerate(trace.services):
        mine = np.array([service in ("all", model) for model in requests.models])
        expected, _ = np.histogram(np.array(requests.time_ms)[mine], edges)
        found = np.zeros(expected.size)
        first = (trace.origin_ms - origin_ms) // 300_000
        found[first : first + trace.n_requests.shape[1]] = trace.n_requests[index]
        assert found.tolist() == expected.tolist()
        for lengths, values in (
            (trace.input_tokens[index], np.array(requests.inputs)[mine]),
            (trace.output_tokens[index], np.array(requests.outputs)[mine]),
        ):
            assert lengths.total_tokens == values.sum()
            assert lengths.n_requests.sum() == values.size
            assert lengths.mean == pytest.approx(values.mean())
            q = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0]
            exact = np.quantile(values, q, method="inverted_cdf")
            assert lengths.quantile(q) == pytest.approx(exact, rel=0.04)
    assert (trace.counts.n_rows, trace.counts.n_kept) == (N, N)
    assert not trace.counts.dropped


@each_format
def test_blocks_of_any_size_give_the_same_trace(
    trace_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = some_requests(60)
    twice = requests.take([i // 2 for i in range(40)] + list(range(59, 19, -1)))
    whole = read(tmp_path, trace_format, twice)
    assert sum(whole.counts.dropped.values()) + sum(whole.counts.repaired.values()) > 0
    monkeypatch.setattr("diploee.importers.text.file_bytes.PIECE_BYTES", 64)
    assert same(read(tmp_path, trace_format, twice), whole)


@each_format
def test_rows_in_any_order_give_the_same_trace_and_are_counted(
    trace_format: str, tmp_path: Path
) -> None:
    requests = some_requests()
    ordered = read(tmp_path, trace_format, requests)
    order = np.random.default_rng(1).permutation(N).tolist()
    times = np.array(requests.time_ms)[order]
    services = ordered.services
    mixed = read(tmp_path, trace_format, requests.take(order), services=services)
    assert same(mixed, ordered, but=("source", "counts"))
    found = [n for cause, n in mixed.counts.repaired.items() if "earlier" in cause]
    assert found == [(np.diff(times) < 0).sum()]


@each_format
def test_missing_and_negative_fields_are_counted_by_cause(
    trace_format: str, tmp_path: Path
) -> None:
    requests = Requests(
        [0, 60_000, None, 120_000, 180_000, 240_000],
        [10, None, 20, -5, 30, 40],
        [5, 6, 7, 8, -1, None],
        ["GPT-4"] * 6,
    )
    trace = read(tmp_path, trace_format, requests)
    counts = trace.counts
    assert (counts.n_rows, counts.n_kept) == (6, 5)
    assert counts.dropped == {"no time": 1}
    causes = {cause.split(";")[0]: n for cause, n in counts.repaired.items()}
    assert causes == {"no token count": 2, "negative token count": 2}
    assert trace.n_requests.sum() == 5
    assert trace.input_tokens[0].total_tokens == 80
    assert trace.output_tokens[0].total_tokens == 19


@two_formats
def test_equal_rows_are_dropped_only_where_stamps_are_fine_enough_to_tell(
    trace_format: str, tmp_path: Path
) -> None:
    made, tells = [0, 1, 1, 1, 2, 3, 3], trace_format != "burstgpt"
    for coarse_ms, is_fine in ((1000, False), (1, tells)):
        requests = some_requests(10, coarse_ms).take(made)
        trace = read(tmp_path, trace_format, requests)
        assert trace.counts.n_rows == 7
        assert trace.n_requests.sum() == (4 if is_fine else 7)
        assert trace.counts.dropped == ({"repeated rows": 3} if is_fine else {})
        kept = [n for cause, n in trace.counts.repaired.items() if "equal" in cause]
        assert kept == ([] if is_fine else [3])


@pytest.mark.parametrize("trace_format", sorted(IS_RELATIVE))
def test_a_negative_time_is_dropped_where_times_count_from_an_origin(
    trace_format: str, tmp_path: Path
) -> None:
    requests = replace(some_requests(3), time_ms=[-5000, 0, 1000])
    trace = read(tmp_path, trace_format, requests)
    assert trace.counts.dropped == {"negative time": 1}
    assert (trace.origin_ms, trace.n_requests.sum()) == (0, 2)


@each_format
@pytest.mark.parametrize(("row", "bad"), [(1, "x1"), (2, "1e9999"), (37, '"')])
def test_a_row_that_cannot_be_read_is_named_by_file_and_line(
    trace_format: str, row: int, bad: str, tmp_path: Path
) -> None:
    lines = LINES[trace_format](some_requests(50))
    at = row - (trace_format == "mooncake")
    begin = lines[at].index(":") + 1 if trace_format == "mooncake" else 0
    lines[at] = lines[at][:begin] + bad + lines[at][lines[at].index(",") :]
    path = write(tmp_path / "trace", lines)
    with pytest.raises(LogFormatError) as error:
        read_request_trace(path, trace_format)
    assert str(error.value).startswith(f"{path}:{at + 1}: ")


@two_formats
def test_a_row_far_away_in_time_is_refused_and_not_allocated(
    trace_format: str, tmp_path: Path
) -> None:
    requests = replace(some_requests(3), time_ms=[0, 3_600_000, 10**12])
    with pytest.raises(LogFormatError, match=r"steps of 1 s.*correct the times"):
        read(tmp_path, trace_format, requests, step_s=1)


def test_a_time_that_no_trace_can_have_is_dropped(tmp_path: Path) -> None:
    lines = azure_lines(some_requests(6))
    for row, year in ((2, "1979"), (3, "2100")):
        lines[row] = lines[row].replace("2024", year, 1)
    trace = read_request_trace(write(tmp_path / "trace", lines))
    assert trace.counts.dropped == {"time before 1980 or after 2099": 2}
    assert trace.n_requests.sum() == trace.counts.n_kept == 4


@two_formats
def test_a_few_requests_years_from_all_others_have_a_wrong_stamp(
    trace_format: str, tmp_path: Path
) -> None:
    requests = some_requests(60)
    far_ms = [2 * 366 * 86_400_000 + i for i in range(2)]
    stray = replace(requests, time_ms=[*requests.time_ms[:-2], *far_ms])
    trace = read(tmp_path, trace_format, stray)
    assert trace.counts.dropped == {
        "submitted more than a year apart from all others": 2
    }
    assert trace.n_requests.sum() == trace.counts.n_kept == 58
    assert trace.span_ms <= 3 * 3_600_000
    inputs = sum(lengths.total_tokens for lengths in trace.input_tokens)
    assert inputs == sum(stray.inputs[:-2])
    few = replace(some_requests(6), time_ms=[*some_requests(6).time_ms[:-1], far_ms[0]])
    # Too few to tell which are wrong
    assert read(tmp_path, trace_format, few).counts.n_kept == 6


@pytest.mark.slow
@two_formats
def test_a_span_of_more_than_twenty_years_is_refused(
    trace_format: str, tmp_path: Path
) -> None:
    far_ms = 22 * 366 * 86_400_000
    few = replace(some_requests(6), time_ms=[*some_requests(6).time_ms[:-1], far_ms])
    with pytest.raises(LogFormatError, match=r"reach over 22\.0 years"):
        read(tmp_path, trace_format, few)


@two_formats
def test_a_trace_without_requests_is_refused(trace_format: str, tmp_path: Path) -> None:
    nothing = replace(some_requests(2), time_ms=[None, None])
    with pytest.raises(LogFormatError, match=r"no row is left .*dropped 2: no time"):
        read(tmp_path, trace_format, nothing)


def test_json_nested_without_end_is_refused_and_does_not_crash(tmp_path: Path) -> None:
    good = '{"timestamp": 0, "input_length": 1, "output_length": 1}'
    for opening in ('{"a":', "["):
        path = write(tmp_path / "deep.jsonl", [good, opening * 200_000])
        with pytest.raises(LogFormatError, match=f"^{path}:2: not a JSON object"):
            read_request_trace(path)


# Samples, against figures that are taken from the files by plain Python.


def test_the_azure_sample_imports_with_its_own_rows_and_sums(sample: Sample) -> None:
    path = sample(AZURE)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    per_minute = Counter(row["TIMESTAMP"][:16] for row in rows)
    trace = read_request_trace(path)
    assert trace.trace_format == "azure-llm"
    assert trace.counts.n_rows == len(rows) == trace.n_requests.sum()
    assert not trace.counts.dropped and not trace.counts.repaired
    inputs, outputs = (
        [int(row[name]) for row in rows]
        for name in ("ContextTokens", "GeneratedTokens")
    )
    assert trace.input_tokens[0].total_tokens == sum(inputs)
    assert trace.output_tokens[0].total_tokens == sum(outputs)
    first = datetime.fromtimestamp(trace.origin_ms / 1000, UTC)
    for index, n in enumerate(trace.n_requests[0]):
        stamp = (first + timedelta(minutes=index)).strftime("%Y-%m-%d %H:%M")
        assert n == per_minute[stamp]
    assert trace.output_tokens[0].quantile(0.5) == pytest.approx(np.median(outputs))


def test_the_mooncake_sample_imports_with_its_own_rows_and_sums(sample: Sample) -> None:
    path = sample(MOONCAKE)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    trace = read_request_trace(path, step_s=3)
    assert trace.trace_format == "mooncake"
    assert trace.counts.n_rows == len(records) == trace.n_requests.sum()
    for (lengths,), key in (
        (trace.input_tokens, "input_length"),
        (trace.output_tokens, "output_length"),
    ):
        assert lengths.total_tokens == sum(record[key] for record in records)
    assert trace.n_requests[0, 0] == sum(r["timestamp"] < 3000 for r in records)
    assert trace.n_requests.shape[1] == max(r["timestamp"] for r in records) // 3000 + 1


@pytest.mark.parametrize("step_s", [600, 3600, 7])
def test_the_servegen_sample_imports_with_its_own_rows_and_sums(
    sample: Sample, step_s: float
) -> None:
    path = sample(SERVEGEN)
    rates = [float(line.split(",")[1]) for line in path.read_text().splitlines()]
    trace = read_request_trace(path, step_s=step_s)
    assert trace.trace_format == "servegen"
    assert trace.counts.n_rows == trace.counts.n_kept == len(rates)
    assert trace.n_requests.sum() == pytest.approx(600 * sum(rates), rel=1e-12)
    if step_s == 600:
        assert trace.rate_rps[0] == pytest.approx(rates, rel=1e-9)
    by_folder = read_request_trace(path.parent, step_s=step_s)
    assert by_folder.services == ("servegen",)
    assert np.array_equal(by_folder.n_requests, trace.n_requests)
    assert servegen.ROW_S == 600
