"""A million-row job log: import against a bare parse of the same file, and its peak
memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pytest
from timing import interleaved

from diploee.importers import read_job_log

pytestmark = pytest.mark.bench

N_ROWS = 1_000_000
MEMORY_LIMIT_MB = 1_000
TIME_LIMIT_S = 15
MAX_RATIO = 15
"""Of the import over parsing the text into columns of strings with one thread, without
a rule."""

GPUS = np.array([1, 2, 4, 8, 16, 64])
STATES = np.array(["COMPLETED", "FAILED", "CANCELLED by 1000", "TIMEOUT"])


def joined(*parts: Any) -> pa.Array:
    """Return the texts of arrays and words side by side."""
    texts = [
        pa.scalar(part)
        if isinstance(part, str)
        else pc.cast(pa.array(part), pa.string())
        for part in parts
    ]
    return pc.binary_join_element_wise(*texts, "")


def stamps(time_s: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    times = pa.array(time_s + 1_672_531_200, pa.timestamp("s"))
    text = pc.strftime(times, format="%Y-%m-%dT%H:%M:%S")
    return text if missing is None else pc.if_else(pa.array(missing), "Unknown", text)


def write_slurm(path: Path) -> Path:
    """Write a year of jobs; every 50th has no end, every 97th no start either."""
    rng = np.random.default_rng(6)
    name = np.arange(1, N_ROWS + 1)
    submit_s = np.sort(rng.integers(0, 365 * 86_400, N_ROWS))
    start_s = submit_s + rng.integers(0, 5_000, N_ROWS)
    run_s, gpus = rng.integers(1, 90_000, N_ROWS), rng.choice(GPUS, N_ROWS)
    no_start = name % 97 == 0
    columns = {
        "JobID": joined(name, np.where(name % 20 == 1, ".batch", "")),
        "Submit": stamps(submit_s),
        "Start": stamps(start_s, no_start),
        "End": stamps(start_s + run_s, no_start | (name % 50 == 0)),
        "ElapsedRaw": run_s,
        "TimelimitRaw": run_s,
        "NNodes": -(-gpus // 8),
        # No two texts are the same.
        "AllocTRES": joined("billing=64,cpu=64,mem=", name * 16, "M,gres/gpu=", gpus),
        "State": STATES[rng.integers(0, STATES.size, N_ROWS)],
        "ConsumedEnergyRaw": run_s * 700,
    }
    options = pa_csv.WriteOptions(delimiter="|", quoting_style="none")
    pa_csv.write_csv(pa.table(columns), path, options)
    return path


def bare_parse(path: Path) -> int:
    """Parse the text into columns of strings and nothing else; return the rows."""
    with path.open("rb") as file:
        names = file.readline().decode().replace('"', "").strip().split("|")
    table = pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(
            use_threads=False, column_names=names, skip_rows=1
        ),
        parse_options=pa_csv.ParseOptions(delimiter="|", quote_char=False),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string())
        ),
    )
    return table.num_rows


IMPORT_AND_REPORT = """
import json, resource, sys, time
from diploee.importers import read_job_log
started = time.perf_counter()
log = read_job_log(sys.argv[1])
wall_s = time.perf_counter() - started
peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"n": log.counts.n_rows, "wall_s": wall_s, "peak_mb": peak_kb / 1024}))
"""


def test_a_million_rows_import_near_the_speed_of_a_bare_parse_in_bounded_memory(
    tmp_path: Path,
) -> None:
    path = write_slurm(tmp_path / "log")
    # A shell stands between, as Linux counts the memory of a process that starts
    # another one in the other's peak.
    command = [
        "sh",
        "-c",
        '"$@"; exit $?',
        "sh",
        sys.executable,
        "-c",
        IMPORT_AND_REPORT,
        path,
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["n"] == bare_parse(path) == N_ROWS
    bare_s, ours_s = interleaved(
        3, lambda: bare_parse(path), lambda: read_job_log(path)
    )
    print(  # noqa: T201
        f"{path.stat().st_size / 1e6:.0f} MB, bare {bare_s:.2f} s, import "
        f"{ours_s:.2f} s ({ours_s / bare_s:.1f}x), alone {report['wall_s']:.2f} s, "
        f"peak {report['peak_mb']:.0f} MB"
    )
    assert report["peak_mb"] < MEMORY_LIMIT_MB
    assert report["wall_s"] < TIME_LIMIT_S
    assert ours_s / bare_s <= MAX_RATIO
