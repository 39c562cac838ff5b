"""Small inputs for tests: profiles, libraries, job tables and scenarios that run in
milliseconds.

Tests import it as ``from builders import tiny_scenario``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from diploee import Run
from diploee import run as simulate
from diploee.api.sites import site_of
from diploee.base.tables import Float64Array
from diploee.facility import Block
from diploee.importers.input_reader import load_inputs
from diploee.loads.jobs import StreamClass
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.jobs.lowering import lower_jobs
from diploee.loads.jobs.queue import QueueLength
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.profile import Provenance
from diploee.profiles.store import add_profile
from diploee.runs.folder import write_json
from diploee.scenario import Pool, Scenario, scenario_from_dict
from diploee.schedule import (
    Action,
    Policy,
    Preempt,
    Resize,
    Resume,
    Schedule,
    SetLevel,
    Start,
    StrictFifo,
)
from diploee.schedule.job_table import JobTable
from diploee.schedule.schedule import Cluster, Engine, in_order_of_submission
from diploee.simulation.prepared import RunOptions
from diploee.simulation.run import CheckedSite, check

PROVENANCE = Provenance(
    kind="reference",
    source="made up for tests",
    licence="CC0",
    sampling_interval_s=1.0,
    averaging_window_s=1.0,
    bandwidth_hz=0.5,
)

TYPICAL_DENVER: dict[str, Any] = {
    "facility.utc_offset": "-07:00",
    "facility.weather": {"kind": "typical_day", "station": "denver"},
}

TINY: dict[str, Any] = {
    "name": "tiny",
    "start": "2018-01-01",
    "duration": "2 d",
    "resolution": "60 s",
    "seed": 0,
    "facility": {
        "node_types": {
            "node": {
                "n_gpus": 4,
                "gpu_tdp_w": 700,
                "n_cpus": 2,
                "cpu_tdp_w": 360,
                "idle_power_w": 400,
            }
        },
        "pools": {"main": {"node_type": "node", "n_nodes": 12}},
    },
    "streams": {
        "training": {
            "pool": "main",
            "target_utilization": 0.6,
            "classes": [
                {"workload": "tune", "n_nodes": 2, "probability": 0.5},
                {"workload": "tune", "n_nodes": 4, "probability": 0.25},
                {"workload": "draw", "n_nodes": 1, "probability": 0.25},
            ],
        }
    },
}
"""The tiny scenario as plain data; take a copy with `tiny_data`."""


def changed(
    base: Mapping[str, Any], changes: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a copy of plain data with values set (or, where None, removed) by dotted
    key."""
    data: dict[str, Any] = deepcopy(dict(base))
    for key, value in (changes or {}).items():
        *parents, last = key.split(".")
        here: Any = data
        for part in parents:
            here = (
                here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
            )
        if isinstance(here, list):
            here[int(last)] = value
        elif value is None:
            here.pop(last, None)
        else:
            here[last] = value
    return data


def tiny_data(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a copy of `TINY` with values set (or, where None, removed) by dotted key."""  # noqa: E501
    return changed(TINY, changes)


def tiny_scenario(changes: Mapping[str, Any] | None = None) -> Scenario:
    """Return the tiny scenario with values changed by dotted key."""
    return scenario_from_dict(tiny_data(changes))


def write_scenario(path: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """Write the tiny scenario, with values changed by dotted key, and return its path."""  # noqa: E501
    path.write_text(
        yaml.safe_dump(tiny_data(changes), sort_keys=False), encoding="utf-8"
    )
    return path


def profile(
    profile_id: str,
    power_w: Sequence[float] | np.ndarray,
    *,
    n_nodes: int = 1,
    dt_ms: int = 1_000,
) -> PowerProfile:
    """Return a profile; its workload is its id up to the first hyphen."""
    workload = profile_id.split("-")[0]
    values = np.asarray(power_w, dtype=np.float32)
    return PowerProfile(profile_id, workload, n_nodes, dt_ms, values, PROVENANCE)


def wavy_profile(
    profile_id: str, n_nodes: int, duration_s: int, seed: int
) -> PowerProfile:
    """Return a profile of whole watts that varies from second to second."""
    power_w = np.random.default_rng(seed).integers(500, 2_500, duration_s) * n_nodes
    return profile(profile_id, power_w, n_nodes=n_nodes)


def tiny_library() -> ProfileLibrary:
    """Return four profiles: ``tune`` on 2 (twice) and 4 nodes, ``draw`` on 1 node."""
    return ProfileLibrary(
        [
            wavy_profile("tune-2n-1", 2, 1_800, seed=1),
            wavy_profile("tune-2n-2", 2, 2_000, seed=2),
            wavy_profile("tune-4n-1", 4, 1_000, seed=3),
            wavy_profile("draw-1n-1", 1, 5_400, seed=4),
        ]
    )


def tiny_run(
    folder: Path, changes: Mapping[str, Any] | None = None, **options: Any
) -> Run:
    """Run the tiny scenario, with values changed by dotted key, on its library."""
    return simulate(
        tiny_scenario(changes),
        folder,
        profiles=tiny_library(),
        engine="compiled",
        **options,
    )


def checked_site(
    scenario: Scenario, library: ProfileLibrary | None = None, **options: Any
) -> CheckedSite:
    """Check a scenario as `diploee validate` does."""
    return check(site_of(scenario, library, RunOptions(**options)))


def stream_classes(
    scenario: Scenario, library: ProfileLibrary | None = None
) -> tuple[tuple[StreamClass, ...], ProfileLibrary]:
    """Return the classes of all job streams, and the library that their profiles are
    indices of."""
    streams = JobStreams(scenario, load_inputs(scenario, library))
    return streams.classes, streams.library


def write_library(folder: Path, library: ProfileLibrary | None = None) -> Path:
    """Write a library's profiles to a folder and return it."""
    for entry in (library or tiny_library()).entries:
        assert isinstance(entry, PowerProfile)
        add_profile(entry, folder)
    return folder


def job_table(
    submit_ms: Sequence[int] | np.ndarray,
    n_nodes: Sequence[int] | np.ndarray,
    duration_ms: Sequence[int] | np.ndarray,
    profile_id: Sequence[int] | np.ndarray | None = None,
    pool_id: Sequence[int] | np.ndarray | None = None,
) -> JobTable:
    """Return a job table; columns that are not given are 0."""
    zeros = np.zeros(len(submit_ms), dtype=np.int64)
    return JobTable(
        job_id=np.arange(len(submit_ms)),
        submit_ms=submit_ms,
        n_nodes=n_nodes,
        duration_ms=duration_ms,
        pool_id=zeros if pool_id is None else pool_id,
        class_id=zeros,
        profile_id=zeros if profile_id is None else profile_id,
    )


def schedule_pool(
    jobs: JobTable,
    pool: Pool,
    horizon_ms: int,
    engine: Engine = "simpy",
    policy: Policy | None = None,
    window_ms: int | None = None,
) -> Schedule:
    """Schedule the jobs of one pool, in windows where asked."""
    cluster = Cluster(
        {"pool": pool}, horizon_ms, engine, {} if policy is None else {"pool": policy}
    )
    edges_ms = [
        *range(window_ms or horizon_ms, horizon_ms, window_ms or horizon_ms),
        horizon_ms,
    ]
    parts, n_done = [], 0
    for edge_ms in edges_ms:
        stop = int(np.searchsorted(jobs.submit_ms, edge_ms))
        parts.append(cluster.advance(jobs.take(slice(n_done, stop)), edge_ms))
        n_done = stop
    return in_order_of_submission(parts, jobs, horizon_ms)


class Keeps:
    """A sink that keeps blocks in double precision."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def add(self, block: Block) -> None:
        self.blocks.append(block)

    def __getitem__(self, column: str) -> np.ndarray:
        return np.concatenate([block.columns[column] for block in self.blocks])


def mean_utilization(schedule: Schedule, n_nodes: int) -> float:
    """Return the mean node occupancy over the run, 0-1 (Eq. 1)."""
    return int(schedule.node_ms.sum()) / (n_nodes * schedule.horizon_ms)


def queued_at(schedule: Schedule, times_ms: np.ndarray | Sequence[int]) -> list[int]:
    """Return how many jobs of a schedule wait at instants, in any order."""
    times_ms = np.asarray(times_ms, dtype=np.int64)
    length = QueueLength()
    length.add(schedule.jobs.submit_ms, schedule.start_ms[schedule.started])
    order = np.argsort(times_ms, kind="stable")
    found = np.empty(times_ms.size, dtype=np.int64)
    found[order] = length.at(times_ms[order])
    return found.tolist()


def job_energy_j(
    schedule: Schedule,
    library: ProfileLibrary,
    scenario: Scenario,
    pieces_of: Any = None,
) -> Float64Array:
    """Return the energy of each job up to the horizon [J], shape (n,); 0 = never
    started."""
    return lower_jobs(schedule, library, scenario.facility, pieces_of).energy_j(library)


def change_metrics(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the metrics of a run as a run would have written them."""
    metrics, manifest = (
        json.loads((folder / name).read_text("utf-8"))
        for name in ("metrics.json", "manifest.json")
    )
    edit(metrics)
    manifest["results_sha256"]["metrics.json"] = write_json(
        folder / "metrics.json", metrics
    )
    write_json(folder / "manifest.json", manifest)


class Planned:
    """Strict FIFO that does what is planned at given times as well."""

    wants_idle = True

    def __init__(self, plan: Mapping[int, Sequence[Action]]) -> None:
        self.plan = plan

    def decide(self, view: Any) -> list[Action]:
        later = [time_ms for time_ms in self.plan if time_ms > view.now_ms]
        if later:
            view.wake_at(min(later))
        self.look(view)
        actions = list(self.plan.get(view.now_ms, ()))
        touched = {action.job for action in actions}
        starts = StrictFifo().select(view)
        return actions + [Start(job) for job in starts if job not in touched]

    def look(self, view: Any) -> None:
        """See something."""


class Restless:
    """Strict FIFO that does anything that is allowed to its jobs, by random numbers
    that depend on nothing but its turns."""

    wants_idle = True

    def __init__(self, seed: int, every_ms: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.every_ms, self.woken_ms = every_ms, -(10**12)

    def decide(self, view: Any) -> list[Action]:
        if self.woken_ms <= view.now_ms:
            self.woken_ms = view.now_ms + self.every_ms
            view.wake_at(self.woken_ms)
        actions: list[Action] = []
        for job in list(view.running):
            x = self.rng.random()
            if job in view.stopping:
                continue
            if job in view.suspended:
                if x < 0.5:
                    actions.append(Resume(job))
            elif x < 0.1:
                actions.append(SetLevel(job, int(self.rng.integers(0, view.n_levels))))
            elif x < 0.2:
                actions.append(Preempt(job, ("checkpoint", "kill")[x < 0.15]))
            elif x < 0.3 and view.works(job):
                n_nodes = int(self.rng.integers(1, view.job_n_nodes[job] + 1))
                actions.append(
                    (Preempt(job, "suspend"), Resize(job, n_nodes))[x < 0.25]
                )
        return actions + [Start(job) for job in StrictFifo().select(view)]
