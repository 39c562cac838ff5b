"""Pools that allocate GPUs: jobs on parts of nodes, from the scenario to power."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import job_energy_j, profile, tiny_data, tiny_library, tiny_scenario

import diploee
from diploee import Run, generate_jobs
from diploee.base.errors import ScenarioError, WorkloadError
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario, load_scenario
from diploee.schedule import StrictFifo
from diploee.simulation.steps import schedule_jobs

POOL = "facility.pools.main"
STREAM = "streams.training"
SHARED = {f"{POOL}.allocate": "gpus"}
N_NODES, N_GPUS, IDLE_W = 12, 4, 400.0
MIXED = [
    {"workload": "draw", "n_nodes": 1, "n_gpus": 0.35, "probability": 0.3},
    {"workload": "draw", "n_nodes": 1, "n_gpus": 1, "probability": 0.3},
    {"workload": "draw", "n_nodes": 1, "n_gpus": 3, "probability": 0.2},
    {"workload": "tune", "n_nodes": 2, "probability": 0.2},
]


def run_of(folder: Path, changes: dict[str, Any], **options: Any) -> Run:
    return diploee.run(
        tiny_scenario(changes), folder, profiles=tiny_library(), **options
    )


def flat(found: Any) -> list[float]:
    """Return all numbers of nested data."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return [number for part in found for number in flat(part)]
    return [found] if isinstance(found, int | float) else []


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    changes = SHARED | {
        f"{STREAM}.classes": MIXED,
        f"{STREAM}.startup": {"quantiles_s": {0: 60, 1: 90}},
    }
    return run_of(tmp_path_factory.mktemp("mixed") / "run", changes)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_jobs_on_whole_nodes_give_what_they_give_a_pool_of_whole_nodes(
    tmp_path: Path, engine: Any
) -> None:
    by_node = run_of(tmp_path / "nodes", {f"{POOL}.allocate": "nodes"}, engine=engine)
    shared = run_of(tmp_path / "gpus", SHARED, engine=engine)
    assert shared.jobs().drop(columns="n_gpus").equals(by_node.jobs())
    assert (shared.jobs()["n_gpus"] == N_GPUS * by_node.jobs()["n_nodes"]).all()
    for name, column in by_node.facility().items():
        np.testing.assert_array_equal(shared.facility()[name], column, err_msg=name)
    for part in ("utilization", "jobs"):
        assert shared.metrics[part] == pytest.approx(by_node.metrics[part])
    for part in ("peak", "ramps"):  # with what caused them
        assert flat(shared.metrics["grid"][part]) == pytest.approx(
            flat(by_node.metrics["grid"][part]), rel=1e-6, abs=1e-9
        )


def test_a_pool_that_says_nodes_is_one_that_says_nothing() -> None:
    given = tiny_scenario({f"{POOL}.allocate": "nodes"})
    assert given.sha256() == tiny_scenario().sha256()
    assert "allocate" not in given.model_dump(mode="json")["facility"]["pools"]["main"]
    assert tiny_scenario(SHARED).sha256() != given.sha256()


def test_busy_gpus_stay_within_the_pool_and_reach_the_target(mixed: Run) -> None:
    assert set(mixed.jobs()["n_gpus"]) == {0.35, 1, 3, 8}
    assert mixed.facility()["busy_nodes"].max() <= N_NODES
    assert (mixed.facility()["busy_nodes"] % 1).any()
    assert mixed.metrics["utilization"]["mean"] == pytest.approx(0.6, abs=0.01)
    assert set(mixed.jobs()["class"]) == {
        "draw/0.35gpu",
        "draw/1gpu",
        "draw/3gpu",
        "tune/2",
    }


def test_a_job_draws_its_gpus_part_of_the_profile_of_a_node() -> None:
    library = ProfileLibrary([profile("a-1n-1", [1_000, 2_000])])
    found = {}
    for n_gpus in (0.25, 1, 3, None):
        job = {"workload": "a", "n_nodes": 1, "probability": 1, "n_gpus": n_gpus}
        few = {f"{STREAM}.target_utilization": None, f"{STREAM}.jobs_per_day": 20}
        scenario = tiny_scenario(SHARED | few | {f"{STREAM}.classes": [job]})
        workload = generate_jobs(scenario, library)
        schedule = schedule_jobs(workload.jobs, scenario)
        found[n_gpus] = float(job_energy_j(schedule, workload.library, scenario)[0])
    assert found == {0.25: 3_000 / 16, 1: 750, 3: 2_250, None: 3_000}


@pytest.mark.parametrize("startup", [None, {"quantiles_s": {0: 120, 1: 120}}])
def test_halves_of_a_node_draw_the_ac_power_of_a_node(
    tmp_path: Path, startup: dict[str, Any] | None
) -> None:
    """AC power bends with that of the devices: the parts are of what the whole node
    draws."""
    library = ProfileLibrary([profile("a-1n-1", [1_500.0] * 3_600)])
    log = "submitted,started,run_s,nodes,gpus\n"
    bent = {"facility.node_types.node.ac_power": "air_hgx"}
    (tmp_path / "whole.csv").write_text(log + "0,0,3600,1,4\n", "utf-8")
    (tmp_path / "halves.csv").write_text(log + "0,0,3600,1,2\n0,0,3600,1,2\n", "utf-8")
    power_w = []
    for name in ("whole", "halves"):
        scenario = logged(
            tmp_path,
            name,
            SHARED | bent | {"duration": "1 h", "resolution": "1 s"},
            startup,
        )
        run = diploee.run(scenario, tmp_path / name, profiles=library)
        power_w.append(run.facility()["it_ac_power_w"])
    np.testing.assert_allclose(power_w[0], power_w[1], rtol=1e-6)
    assert (power_w[0].max() > power_w[0].min() + 1_000) == (startup is not None)


def logged(
    folder: Path, name: str, changes: dict[str, Any], startup: Any = None, **replay: Any
) -> Scenario:
    import yaml

    columns = {"submit": "submitted", "start": "started", "duration": "run_s"}
    columns |= {"nodes": "nodes", "gpus": "gpus"}
    columned = {"columns": columns, "time_format": "s", "duration_unit": "s"}
    spec: dict[str, Any] = {
        "log": f"{name}.csv",
        "rules": [{"workload": "a"}],
        "align": "start",
    }
    spec |= {"repeat": False} | (replay or columned)
    data = tiny_data(changes)
    data["streams"] = {"logged": {"pool": "main", "replay": spec}}
    if startup:
        data["streams"]["logged"]["startup"] = startup
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(data), "utf-8")
    return load_scenario(folder / f"{name}.yaml")


def pods(folder: Path, n_jobs: int = 2_000) -> float:
    """Write pods as openb logs them, most on a part of 8 GPUs; return their GPU time
    [s]."""
    rng = np.random.default_rng(5)
    n_gpus = rng.choice([0, 1, 1, 1, 1, 2, 4, 8], n_jobs)
    milli = np.where(
        (n_gpus == 1) & (rng.random(n_jobs) < 0.5),
        rng.integers(10, 1_000, n_jobs),
        1_000,
    )
    created = np.sort(rng.integers(0, 20 * 3_600, n_jobs))
    run_s = rng.integers(600, 3 * 3_600, n_jobs)
    lines = [
        "name,num_gpu,gpu_milli,creation_time,scheduled_time,deletion_time,pod_phase"
    ]
    lines += [
        f"p{k},{n_gpus[k]},{milli[k]},{at},{at},{at + run_s[k]},Succeeded"
        for k, at in enumerate(created.tolist())
    ]
    (folder / "pods.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return float((n_gpus * milli / 1_000 * run_s).sum())


def test_a_shared_clusters_log_takes_the_gpu_time_that_it_tells(tmp_path: Path) -> None:
    gpu_s = pods(tmp_path)
    ratio = {}
    for allocate in ("nodes", "gpus"):
        changes = {
            f"{POOL}.allocate": allocate,
            f"{POOL}.n_nodes": 600,
            "facility.node_types.node.n_gpus": 8,
        }
        scenario = logged(tmp_path, "pods", changes, gpus_per_node=8)
        library = ProfileLibrary([profile("a-1n-1", [1_500.0] * 60)])
        run = diploee.run(
            scenario, tmp_path / allocate, profiles=library, engine="compiled"
        )
        node_s = (
            float(run.facility()["utilization"].astype(float).mean()) * 600 * 2 * 86_400
        )
        ratio[allocate] = node_s * 8 / gpu_s
        told = " ".join(run.manifest["warnings"])
        assert ("set allocate: gpus" in told) == (allocate == "nodes")
        assert ("on CPUs alone, of a pool that allocates GPUs" in told) == (
            allocate == "gpus"
        )
    assert ratio["gpus"] == pytest.approx(1, abs=0.01)
    assert ratio["nodes"] > 3


def test_jobs_whose_gpus_the_log_does_not_tell_take_whole_nodes_and_say_so(
    tmp_path: Path,
) -> None:
    text = (
        "submitted,started,run_s,nodes,gpus\n0,0,3600,1,2\n5,5,3600,1,\n"
        "9,9,3600,3,12\n9,9,9,1,0\n"
    )
    (tmp_path / "some.csv").write_text(text, "utf-8")
    workload = generate_jobs(
        logged(tmp_path, "some", SHARED), ProfileLibrary([profile("a-1n-1", [1_500.0])])
    )
    assert workload.jobs.n_nodes.tolist() == [200, 400, 1_200]
    counts = workload.matches[0].counts
    assert counts["on whole nodes, as the log does not tell their GPUs"] == 1
    assert counts["on CPUs alone, of a pool that allocates GPUs"] == 1


@pytest.mark.parametrize(
    ("name", "pool", "words"),
    [
        (
            "inference_1mw",
            "serving",
            "gpus can't go with request_streams.llama3; leave",
        ),
        (
            "chat_and_recurring",
            "training",
            "gpus can't go with streams.retraining.zeus; leave",
        ),
    ],
)
def test_services_and_recurring_jobs_keep_whole_nodes(
    name: str, pool: str, words: str
) -> None:
    with pytest.raises(ScenarioError, match=words):
        load_scenario(name, [f"facility.pools.{pool}.allocate=gpus"])


def test_own_policies_are_refused_on_a_pool_that_allocates_gpus(tmp_path: Path) -> None:
    class Own(StrictFifo):
        pass

    with pytest.raises(
        WorkloadError, match="pool 'main': allocate: gpus goes with strict FIFO"
    ):
        run_of(tmp_path / "run", SHARED, policies={"main": Own()})
