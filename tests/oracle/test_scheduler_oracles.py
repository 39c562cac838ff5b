"""Waits, slowdowns and every start of schedulers, as other simulators gave them.

Two codes computed the table that share nothing with this package, one of them PYSS of
Feitelson's group; they agree on the rows of the thinned and widened lists start for
start. The checksum, sum((i + 1) * start_i) mod
(1e9 + 7) over the list [s], pins each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from builders import job_table, schedule_pool

from diploee.base.units import MS_PER_S
from diploee.scenario import SCHEDULERS, Pool
from diploee.schedule.job_table import JobTable
from diploee.schedule.schedule import Engine

JOBS_FILE = Path(__file__).parent / "data" / "fifo_oracle_jobs.csv.gz"
HORIZON_MS = 10 * 24 * 3_600_000
CLASSES = {"classes": ["30 min", "1 h", "2 h", "4 h", "8 h", "24 h"]}
TWICE = {"factor": 2}
SLOWDOWN_BOUND_S = 10


class Row(NamedTuple):
    jobs: str
    scheduler: dict[str, Any]
    mean_wait_s: float
    mean_slowdown: float
    makespan_s: int
    checksum: int


FIFO, SJF, EASY = {"kind": "fifo"}, {"kind": "sjf"}, {"kind": "easy"}
A3 = {"kind": "conservative"}
SJBF = {"kind": "easy", "order": "sjbf"}
TABLE = [
    Row("full", FIFO, 1673.2344, 1.3965, 116491, 821856545),
    Row("full", EASY, 1662.7856, 1.3968, 116297, 16312060),
    Row("full", SJBF, 1471.4892, 1.4068, 115495, 8668529),
    Row("full", A3, 1667.4124, 1.3955, 116477, 346916152),
    Row("thin10", FIFO, 1492.8696, 1.3669, 113298, 288819749),
    Row("thin10", EASY, 1400.3775, 1.3747, 110404, 214231908),
    Row("thin10", SJBF, 1298.5889, 1.3767, 111484, 120034918),
    Row("thin10", A3, 1452.5366, 1.3601, 113062, 254274935),
    Row("thin10", SJF, 1398.8162, 1.1272, 113379, 41945411),
    Row("thin10", {**EASY, "estimate": TWICE}, 1143.9773, 1.5392, 110004, 984817800),
    Row("thin10", {**A3, "estimate": TWICE}, 1324.2806, 1.4311, 110085, 153791986),
    Row("thin10", {**EASY, "estimate": CLASSES}, 1299.7283, 1.4337, 110004, 131789948),
    Row("thin10", {**A3, "estimate": CLASSES}, 1366.3893, 1.3908, 111622, 189315760),
    Row("wide80", FIFO, 2773.5635, 1.6652, 120039, 535304085),
    Row("wide80", EASY, 1970.0238, 1.6015, 109509, 525081830),
    Row("wide80", A3, 2247.1508, 1.5869, 115424, 528898879),
    Row("mixed", FIFO, 5168.9476, 2.2833, 124544, 891650059),
    Row("mixed", EASY, 2510.0603, 1.5033, 120006, 690806634),
    Row("mixed", A3, 2594.2154, 1.5199, 120205, 951472461),
]


@pytest.fixture(scope="module")
def lists() -> dict[str, tuple[JobTable, int]]:
    """The lists by name, each with the nodes of its pool."""
    listed = pd.read_csv(JOBS_FILE)
    number = listed["job_id"].to_numpy()

    def of(every: int, nodes_of: Any, n_nodes: int) -> tuple[JobTable, int]:
        kept = listed[number % every == 0]
        nodes = nodes_of(kept["job_id"].to_numpy(), kept["nodes"].to_numpy())
        submit_ms = kept["submit_s"].to_numpy() * MS_PER_S
        return job_table(
            submit_ms, nodes, kept["runtime_s"].to_numpy() * MS_PER_S
        ), n_nodes

    return {
        "full": of(1, lambda _, nodes: nodes, 2_840),
        "thin10": of(10, lambda _, nodes: nodes, 284),
        "wide80": of(80, lambda _, nodes: 8 * nodes, 284),
        "mixed": of(
            5, lambda job, nodes: np.where(job % 400 == 0, 64 * nodes, nodes), 1_136
        ),
    }


def cases() -> list[Any]:
    found = []
    for row in TABLE:
        kind = row.scheduler["kind"]
        for engine in ("simpy", "compiled"):
            slow = row.jobs == "full" and engine == "simpy" and kind != "fifo"
            extra = {k: v for k, v in row.scheduler.items() if k != "kind"}
            named = "-".join([row.jobs, kind, *map(str, extra.values()), engine])
            marks = [pytest.mark.slow] if slow else []
            found.append(pytest.param(row, engine, id=named, marks=marks))
    return found


@pytest.mark.parametrize(("row", "engine"), cases())
def test_every_start_equals_other_simulators(
    lists: dict[str, tuple[JobTable, int]], row: Row, engine: Engine
) -> None:
    jobs, n_nodes = lists[row.jobs]
    pool = Pool(node_type="any", n_nodes=n_nodes)
    policy = SCHEDULERS.read(row.scheduler).open()
    schedule = schedule_pool(jobs, pool, HORIZON_MS, engine, policy)
    assert schedule.started.all()
    start_s = schedule.start_ms // MS_PER_S
    assert (
        int((np.arange(1, len(jobs) + 1) * start_s).sum()) % (10**9 + 7) == row.checksum
    )
    wait_s, run_s = schedule.wait_ms / MS_PER_S, jobs.duration_ms / MS_PER_S
    assert wait_s.mean() == pytest.approx(row.mean_wait_s, abs=5e-5)
    slowdown = np.maximum((wait_s + run_s) / np.maximum(run_s, SLOWDOWN_BOUND_S), 1)
    assert slowdown.mean() == pytest.approx(row.mean_slowdown, abs=5e-5)
    makespan_ms = schedule.end_ms.max() - jobs.submit_ms[0]
    assert makespan_ms == row.makespan_s * MS_PER_S
