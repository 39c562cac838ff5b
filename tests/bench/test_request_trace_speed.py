"""A request trace of millions of rows: its time against pyarrow's bare reader, and its
memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pytest
from timing import interleaved

from diploee.importers.request_traces import read_request_trace

pytestmark = pytest.mark.bench

N_ROWS = int(os.environ.get("DIPLOEE_BENCH_REQUESTS", "3_000_000"))
"""Azure's trace of 2024 has 44 million; set the variable to measure that."""

N_ROUNDS = 3
MAX_RATIO = 3
MAX_GROWTH_MIB = 64
MAX_ABOVE_IMPORT_MIB = 400
DAYS = 9
BATCH = 500_000

PEAK = """
import sys
from pathlib import Path
from diploee.importers.request_traces import read_request_trace

def peak_kib():  # of this program; getrusage would begin with the peak of the one that started it
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

before = peak_kib()
trace = read_request_trace(sys.argv[1])
print(trace.counts.n_kept, (peak_kib() - before) / 1024)
"""  # noqa: E501


def write_trace(path: Path, n_rows: int) -> int:
    """Write a trace as Azure's of 2024, some stamps without decimals; return its output
    tokens."""
    rng = np.random.default_rng(0)
    start_us = int(np.datetime64("2024-05-10", "us").astype(np.int64))
    schema = pa.schema(
        [
            ("TIMESTAMP", pa.string()),
            ("ContextTokens", pa.int64()),
            ("GeneratedTokens", pa.int64()),
        ]
    )
    total = 0
    options = pa_csv.WriteOptions(quoting_style="none")
    with pa_csv.CSVWriter(path, schema, write_options=options) as writer:
        for first in range(0, n_rows, BATCH):
            index = np.arange(first, min(first + BATCH, n_rows))
            time_us = start_us + (index * (DAYS * 86_400e6 / n_rows)).astype(np.int64)
            stamps = pc.strftime(
                pa.array(time_us, pa.timestamp("us")), "%Y-%m-%d %H:%M:%S"
            )
            stamps = pc.replace_substring_regex(stamps, r"\.000000$", "")
            stamps = pc.binary_join_element_wise(stamps, "+00:00", "")
            inputs, outputs = (
                rng.integers(1, 8000, index.size),
                rng.integers(1, 800, index.size),
            )
            total += int(outputs.sum())
            writer.write(
                pa.record_batch([stamps, pa.array(inputs), pa.array(outputs)], schema)
            )
    return total


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("requests") / "trace.csv"
    return path, write_trace(path, N_ROWS)


def test_a_trace_takes_at_most_three_times_the_bare_csv_reader(
    trace_file: tuple[Path, int],
) -> None:
    path, n_tokens = trace_file

    def bare() -> int:
        return sum(batch.num_rows for batch in pa_csv.open_csv(path))

    assert bare() == N_ROWS
    trace = read_request_trace(path)
    assert trace.n_requests.sum() == trace.counts.n_kept == N_ROWS
    assert trace.output_tokens[0].total_tokens == n_tokens
    assert trace.n_requests.shape == (1, DAYS * 1440)
    ours_s, bare_s = interleaved(N_ROUNDS, lambda: read_request_trace(path), bare)
    ratio = ours_s / bare_s
    # Pytest -rP
    print(f"{N_ROWS / ours_s:,.0f} rows/s, {ratio:.2f} times the bare reader")  # noqa: T201
    assert ratio <= MAX_RATIO


def peak_mib(path: Path) -> tuple[int, float]:
    """Return the rows read by a fresh process and the memory that reading added [MiB]."""  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    n_rows, mib = done.stdout.split()
    return int(n_rows), float(mib)


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)
def test_memory_does_not_grow_with_the_rows(
    trace_file: tuple[Path, int], tmp_path: Path
) -> None:
    path, _ = trace_file
    small = tmp_path / "small.csv"
    write_trace(small, N_ROWS // 5)
    n_small, mib_small = peak_mib(small)
    n_rows, mib = peak_mib(path)
    print(f"{mib_small:.0f} MiB for {n_small:,} rows, {mib:.0f} for {n_rows:,}")  # noqa: T201
    assert (n_small, n_rows) == (N_ROWS // 5, N_ROWS)
    assert mib - mib_small <= MAX_GROWTH_MIB
    assert 1 < mib <= MAX_ABOVE_IMPORT_MIB
