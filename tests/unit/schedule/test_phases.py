"""Nodes that come to stand in the course of a run: schedule, power, utilization,
refusals."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import job_table, tiny_library, tiny_scenario
from hypothesis import given
from hypothesis import strategies as st

from diploee import Run
from diploee import run as simulate
from diploee.metrics.attribution_text import cause_text
from diploee.scenario import Pool
from diploee.scenario.pools import InstalledNodes
from diploee.schedule import ClusterView, StrictFifo
from diploee.schedule.schedule import Cluster, Engine
from diploee.schedule.started import NEVER_MS

POOL = {"node_type": "node", "n_nodes": 5_004}
TWO = [{"since": "2018-01-01", "n_nodes": 4}, {"since": "2018-01-02", "n_nodes": 12}]
ENGINES: tuple[Engine, ...] = ("simpy", "compiled")


def phased(changes: dict[str, Any] | None = None) -> Any:
    return tiny_scenario(
        {"facility.pools.main.phases": deepcopy(TWO), **(changes or {})}
    )


def starts(
    engine: Engine, standing: InstalledNodes, jobs: Any, horizon_ms: int
) -> list[int]:
    pools = {"p": Pool(node_type="any", n_nodes=max(standing.most, 1))}
    cluster = Cluster(pools, horizon_ms, engine, standing={"p": standing})
    found = cluster.advance(jobs, horizon_ms)
    start_ms = np.full(len(jobs), NEVER_MS)
    start_ms[found.jobs.job_id] = found.start_ms
    return start_ms.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_waiting_jobs_start_the_instant_nodes_are_added(engine: Engine) -> None:
    jobs = job_table([0, 1, 2], [2, 2, 3], [100, 100, 100])
    assert starts(engine, InstalledNodes(2, ((50, 2), (70, 2))), jobs, 1_000) == [
        0,
        50,
        100,
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 3), st.integers(1, 60)),
        max_size=30,
    ),
    st.lists(st.tuples(st.integers(1, 150), st.integers(1, 4)), max_size=3),
)
def test_both_engines_give_the_same_starts(
    rows: list[tuple[int, int, int]], added: list[tuple[int, int]]
) -> None:
    jobs = job_table(*(zip(*sorted(rows), strict=True) if rows else ([], [], [])))
    standing = InstalledNodes(3, tuple(sorted(added)))
    found = [starts(engine, standing, jobs, 300) for engine in ENGINES]
    assert found[0] == found[1]
    taken = [
        (s, s + d, n)
        for s, (_, n, d) in zip(found[0], sorted(rows), strict=True)
        if s >= 0
    ]
    for now, _, _ in taken:
        busy = sum(n for begin, end, n in taken if begin <= now < end)
        assert busy <= standing.at(np.array([now]))[0]


def test_policy_sees_the_nodes_that_stand() -> None:
    seen = []

    class Watching(StrictFifo):
        def select(self, view: ClusterView) -> Any:
            seen.append((view.now_ms, view.n_nodes, view.free_nodes))
            return super().select(view)

    pools = {"p": Pool(node_type="any", n_nodes=5)}
    cluster = Cluster(
        pools,
        100,
        "simpy",
        {"p": Watching()},
        standing={"p": InstalledNodes(2, ((50, 3),))},
    )
    cluster.advance(job_table([0, 10, 60], [2, 2, 1], [100, 10, 10]), 100)
    assert seen == [(0, 2, 2), (10, 2, 0), (50, 5, 3), (60, 5, 3)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    site = phased(
        {"duration": "20 d", "facility.pools.main.phases.1.since": "2018-01-11"}
    )
    return simulate(
        site, tmp_path_factory.mktemp("phases") / "run", profiles=tiny_library()
    )


def test_idle_power_and_utilization_are_of_nodes_that_stand(run: Run) -> None:
    facility = run.facility()
    standing = np.repeat([4.0, 12.0], len(facility) // 2)
    np.testing.assert_array_equal(facility["standing_nodes"], standing)
    assert (facility["busy_nodes"] <= standing).all()
    idle = facility[facility["utilization"] == 0]
    np.testing.assert_allclose(
        idle["it_power_w"], 400 * standing[facility["utilization"] == 0]
    )


def test_one_phase_from_the_start_is_a_run_without_phases(tmp_path: Path) -> None:
    whole = [{"since": "2018-01-01", "n_nodes": 12}]
    sites = (tiny_scenario(), phased({"facility.pools.main.phases": whole}))
    runs = [
        simulate(site, tmp_path / str(k), profiles=tiny_library())
        for k, site in enumerate(sites)
    ]
    plain, one = (found.facility() for found in runs)
    assert one.drop(columns="standing_nodes").equals(plain)


def test_step_of_idle_power_is_reported_as_installed_nodes(tmp_path: Path) -> None:
    few_jobs = {
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 5,
    }
    grown = [*TWO[:1], {"since": "2018-01-02", "n_nodes": 5_004}]
    pools = {"warm_up": "1 h", "facility.pools.main": {**POOL, "phases": grown}}
    site = tiny_scenario({**few_jobs, **pools})
    run = simulate(site, tmp_path / "run", profiles=tiny_library())
    (ramp,) = (
        r for r in run.metrics["grid"]["ramps"]["intervals"] if r["interval_s"] == 60
    )
    cause = ramp["up"]["cause"]
    assert sum(part["mw"] for part in cause["parts"]) == pytest.approx(
        cause["change_mw"]
    )
    (added,) = (part for part in cause["parts"] if part["what"] == "nodes added")
    assert added["count"] == 5_000
    assert added["mw"] == pytest.approx(5_000 * 400 / 1e6)
    assert "nodes added +2.00 MW (5,000 nodes)" in cause_text(cause)


def test_ac_and_reactive_power_follow_the_nodes_that_stand(tmp_path: Path) -> None:
    few_jobs = {
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 2,
    }
    site = phased({**few_jobs, "facility.node_types.node.ac_power": "dlc"})
    power = simulate(site, tmp_path / "run", profiles=tiny_library()).facility()
    idle_w = power["it_ac_power_w"][power["utilization"] == 0] / power["standing_nodes"]
    np.testing.assert_allclose(idle_w.dropna(), idle_w.iloc[0], rtol=1e-6)
    var = power["facility_reactive_var"] / power["standing_nodes"]
    np.testing.assert_allclose(var, site.facility.reactive_power_var / 12, rtol=1e-6)


def test_nodes_above_the_last_phase_are_warned_of(tmp_path: Path) -> None:
    scenario = phased({"facility.pools.main.n_nodes": 20, "duration": "2 d"})
    run = simulate(
        scenario, tmp_path / "run", profiles=tiny_library(), engine="compiled"
    )
    (told,) = (w for w in run.manifest["warnings"] if "never stand" in w)
    assert told.startswith("facility.pools.main: 8 of its 20 nodes never stand")
