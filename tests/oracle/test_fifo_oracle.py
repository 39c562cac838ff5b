"""The mean wait of a day of jobs under strict FIFO, as three other simulators gave it.

See data/README.md for the list and its origin.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import job_table, schedule_pool

from diploee.scenario import Pool
from diploee.schedule import Schedule
from diploee.schedule.job_table import JobTable
from diploee.schedule.schedule import Engine

JOBS_FILE = Path(__file__).parent / "data" / "fifo_oracle_jobs.csv.gz"
N_NODES = 2_840
MEAN_WAIT_S = 1_673.2  # plain SimPy Container; AccaSim 1,673.23
HORIZON_MS = 10 * 24 * 3_600_000  # long enough for every job to start and end


@pytest.fixture(scope="module")
def jobs() -> JobTable:
    listed = pd.read_csv(JOBS_FILE).sort_values("submit_s", kind="stable")
    assert len(listed) == 10_120
    return job_table(
        listed["submit_s"].to_numpy() * 1_000,
        listed["nodes"].to_numpy(),
        listed["runtime_s"].to_numpy() * 1_000,
    )


def scheduled(jobs: JobTable, engine: Engine) -> Schedule:
    pool = Pool(node_type="h100_4x", n_nodes=N_NODES)
    return schedule_pool(jobs, pool, HORIZON_MS, engine)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_mean_wait_equals_three_other_simulators(
    jobs: JobTable, engine: Engine
) -> None:
    schedule = scheduled(jobs, engine)
    assert schedule.started.all()
    assert schedule.wait_ms.mean() / 1_000 == pytest.approx(MEAN_WAIT_S, abs=0.05)


def test_simpy_equals_compiled_job_for_job(jobs: JobTable) -> None:
    by_simpy, by_twin = scheduled(jobs, "simpy"), scheduled(jobs, "compiled")
    assert np.array_equal(by_simpy.start_ms, by_twin.start_ms)
