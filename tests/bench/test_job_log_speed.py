"""A million-row job log: import against a bare parse of the same file, and its peak memory."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pytest

from diploee.importers import read_job_log

pytestmark = pytest.mark.bench

N_ROWS = 1_000_000
MEMORY_LIMIT_MB = 1_000
TIME_LIMIT_S = 15
LARGEST_RATIO = 15
"""Of the import over parsing the text into columns of strings with one thread, without a rule."""

GPUS = np.array([1, 2, 4, 8, 16, 64])
STATES = np.array(["COMPLETED", "FAILED", "CANCELLED by 1000", "TIMEOUT"])


class Jobs:
    """A year of jobs; every 50th has no end, every 97th no start either."""

    def __init__(self) -> None:
        rng = np.random.default_rng(6)
        self.name = np.arange(1, N_ROWS + 1)
        self.submit_s = np.sort(rng.integers(0, 365 * 86_400, N_ROWS))
        self.start_s = self.submit_s + rng.integers(0, 5_000, N_ROWS)
        self.run_s = rng.integers(1, 90_000, N_ROWS)
        self.gpus = rng.choice(GPUS, N_ROWS)
        self.state = rng.integers(0, STATES.size, N_ROWS)
        self.no_start = self.name % 97 == 0
        self.no_end = self.no_start | (self.name % 50 == 0)

    def stamps(self, time_s: np.ndarray, missing: np.ndarray | None, separator: str) -> pa.Array:
        times = pa.array(time_s + 1_672_531_200, pa.timestamp("s"))
        text = pc.strftime(times, format=f"%Y-%m-%d{separator}%H:%M:%S")
        return text if missing is None else pc.if_else(pa.array(missing), "Unknown", text)


def joined(*parts: Any) -> pa.Array:
    """Return the texts of arrays and words side by side."""
    texts = [
        pa.scalar(part) if isinstance(part, str) else pc.cast(pa.array(part), pa.string())
        for part in parts
    ]
    return pc.binary_join_element_wise(*texts, "")


def write(path: Path, columns: dict[str, Any], delimiter: str, head: str) -> Path:
    with path.open("wb") as file:
        file.write(f"{head}\n".encode())
        options = pa_csv.WriteOptions(
            include_header=False, delimiter=delimiter, quoting_style="none"
        )
        pa_csv.write_csv(pa.table(columns), file, options)
    return path


def write_swf(path: Path, jobs: Jobs) -> Path:
    none = np.full(N_ROWS, -1)
    fields = [
        *(jobs.name, jobs.submit_s, np.where(jobs.no_start, -1, jobs.start_s - jobs.submit_s)),
        *(np.where(jobs.no_end, -1, jobs.run_s), jobs.gpus, none, none, jobs.gpus, none, none),
        *(np.array([1, 0, 5, -1])[jobs.state], none, none, none, jobs.state, none, none, none),
    ]
    head = "; UnixStartTime: 1672531200\n; MaxNodes: 500\n; MaxProcs: 4000"
    return write(path, {str(i): values for i, values in enumerate(fields)}, " ", head)


def write_slurm(path: Path, jobs: Jobs) -> Path:
    steps = np.where(jobs.name % 20 == 1, ".batch", "")
    memory = jobs.name * 16  # no two texts are the same
    columns = {
        "JobID": joined(jobs.name, steps),
        "Submit": jobs.stamps(jobs.submit_s, None, "T"),
        "Start": jobs.stamps(jobs.start_s, jobs.no_start, "T"),
        "End": jobs.stamps(jobs.start_s + jobs.run_s, jobs.no_end, "T"),
        "ElapsedRaw": jobs.run_s,
        "TimelimitRaw": jobs.run_s,
        "NNodes": -(-jobs.gpus // 8),
        "AllocTRES": joined("billing=64,cpu=64,mem=", memory, "M,gres/gpu=", jobs.gpus),
        "State": STATES[jobs.state],
        "ConsumedEnergyRaw": jobs.run_s * 700,
    }
    return write(path, columns, "|", "|".join(columns))


def write_csv(path: Path, jobs: Jobs) -> Path:
    columns = {
        "id": jobs.name,
        "submit": jobs.stamps(jobs.submit_s, None, " "),
        "start": jobs.stamps(jobs.start_s, jobs.no_start, " "),
        "end": jobs.stamps(jobs.start_s + jobs.run_s, jobs.no_end, " "),
        "gpus": jobs.gpus,
        "nodes": -(-jobs.gpus // 8),
        "type": np.array(["train", "eval", "debug"])[jobs.name % 3],
        "state": STATES[jobs.state],
    }
    return write(path, columns, ",", ",".join(columns))


WRITERS = {"swf": (write_swf, " "), "slurm": (write_slurm, "|"), "csv": (write_csv, ",")}


def bare_parse(path: Path, delimiter: str) -> int:
    """Parse the text into columns of strings and nothing else; return the rows."""
    with path.open("rb") as file:
        lines = (line for line in file if not line.startswith(b";"))
        n_columns = next(lines).count(delimiter.encode()) + 1
    names = [str(index) for index in range(n_columns)]
    n_head = 3 if delimiter == " " else 1
    table = pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(use_threads=False, column_names=names, skip_rows=n_head),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, quote_char=False),
        convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    return table.num_rows


def seconds(action: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


IMPORT_AND_REPORT = """
import json, resource, sys, time
from diploee.importers import read_job_log
started = time.perf_counter()
log = read_job_log(sys.argv[1])
wall_s = time.perf_counter() - started
peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"n": log.counts.n_rows, "wall_s": wall_s, "peak_mb": peak_kb / 1024}))
"""


@pytest.mark.parametrize("log_format", WRITERS)
def test_a_million_rows_import_near_the_speed_of_a_bare_parse_in_bounded_memory(
    tmp_path: Path, log_format: str
) -> None:
    write_log, delimiter = WRITERS[log_format]
    path = write_log(tmp_path / "log", Jobs())
    # A shell stands between, as Linux counts the memory of a process that starts another one in
    # the other's peak.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", IMPORT_AND_REPORT, path]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["n"] == bare_parse(path, delimiter) == N_ROWS
    times = [
        (seconds(lambda: bare_parse(path, delimiter)), seconds(lambda: read_job_log(path)))
        for _ in range(3)
    ]
    bare_s, ours_s = (median(of_one) for of_one in zip(*times, strict=True))
    print(  # noqa: T201
        f"{log_format}: {path.stat().st_size / 1e6:.0f} MB, bare {bare_s:.2f} s, import "
        f"{ours_s:.2f} s ({ours_s / bare_s:.1f}x), alone {report['wall_s']:.2f} s, "
        f"peak {report['peak_mb']:.0f} MB"
    )
    assert report["peak_mb"] < MEMORY_LIMIT_MB
    assert report["wall_s"] < TIME_LIMIT_S
    assert ours_s / bare_s <= LARGEST_RATIO
