"""Stretches of jobs as power: energy, levels, sizes, and whole runs of acting policies."""  # noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Planned, Restless, job_table, tiny_library, tiny_scenario
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee import Run
from diploee import run as simulate
from diploee.loads.jobs import StreamClass
from diploee.loads.jobs.preempted_lowering import lower_runs, with_levels
from diploee.profiles.derived import CapLevels, cpu_power_w
from diploee.scenario import JobClass, Pool
from diploee.schedule import (
    Action,
    Preempt,
    PreemptiveSchedule,
    Resume,
    Start,
    StrictFifo,
)
from diploee.schedule.schedule import Cluster

MIN, H = 60_000, 3_600_000
LONG = {"lognormal": [{"weight": 1, "median_s": 20_000, "sigma": 0.8}]}
CHANGES: dict[str, Any] = {
    "duration": "2 d",
    "warm_up": "1 d",
    "streams.training.classes.0.duration": LONG,
    "streams.training.startup": {
        "lognormal": [{"weight": 1.0, "median_s": 120, "sigma": 0.5}]
    },
}


class Fifo:
    """Strict FIFO by `decide`, with further actions."""

    wants_idle = True

    def decide(self, view: Any) -> list[Action]:
        return [*self.act(view), *(Start(job) for job in StrictFifo().select(view))]

    def act(self, view: Any) -> list[Action]:
        return []


def run(
    folder: Path, policy: Any = None, changes: dict[str, Any] = CHANGES, **how: Any
) -> Run:
    policies = {} if policy is None else {"main": policy}
    scenario = tiny_scenario(changes)
    return simulate(scenario, folder, profiles=tiny_library(), policies=policies, **how)


@pytest.fixture(scope="module")
def restless(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("runs") / "restless", Restless(3, 20 * MIN))


def test_bytes_are_equal_over_windows_and_threads(
    tmp_path: Path, restless: Run
) -> None:
    how: dict[str, Any] = {"window_days": 0.25, "n_threads": 3}
    again = run(tmp_path / "again", Restless(3, 20 * MIN), **how)
    for name in ("facility.parquet", "jobs.parquet", "metrics.json"):
        found = [(each.folder / name).read_bytes() for each in (again, restless)]
        assert found[0] == found[1], name


def test_energy_of_jobs_and_idle_nodes_is_that_of_the_facility(restless: Run) -> None:
    jobs, series = restless.jobs(), restless.facility()
    busy_node_s = (series["utilization"] * 12 * 60).sum()
    idle_j = (12 * len(series) * 60 - busy_node_s) * 400
    # The file holds single precision
    total_j = series["it_power_w"].astype(float).sum() * 60
    assert jobs["energy_j"].sum() + idle_j == pytest.approx(total_j, rel=1e-8)
    assert restless.metrics["utilization"]["mean"] == pytest.approx(
        busy_node_s / 12 / 172_800
    )


def test_queue_times_count_to_the_first_start_and_jobs_put_back_wait_again(
    restless: Run,
) -> None:
    jobs = restless.jobs()
    started = jobs.dropna(subset=["start_time"])
    wait_s = (started["start_time"] - started["submit_time"]).dt.total_seconds()
    assert wait_s.tolist() == pytest.approx(started["queue_time_s"].tolist(), abs=1e-3)
    assert (started["end_time"] > started["start_time"]).all()
    series = restless.facility()["queued_jobs"]
    assert (series >= 0).all()
    at = series.index[1_000]
    waits = ((jobs["submit_time"] <= at) & ~(jobs["start_time"] <= at)).sum()
    assert series.iloc[1_000] >= waits


def test_a_policy_that_only_starts_gives_the_power_of_the_plain_run(
    tmp_path: Path,
) -> None:
    plain, acting = run(tmp_path / "plain"), run(tmp_path / "acting", Fifo())
    assert acting.jobs()["start_time"].equals(plain.jobs()["start_time"])
    assert acting.jobs()["end_time"].equals(plain.jobs()["end_time"])
    for name, values in plain.facility().items():
        got = acting.facility()[name].to_numpy()
        np.testing.assert_allclose(
            got, values.to_numpy(), rtol=1e-12, err_msg=str(name)
        )
    energy = [found.jobs()["energy_j"].to_numpy() for found in (plain, acting)]
    np.testing.assert_allclose(energy[1], energy[0], rtol=1e-12)


@pytest.mark.slow
@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_segments_cover_each_stretch_once_with_its_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    library, pool = tiny_library(), Pool(node_type="node", n_nodes=6)
    jobs = job_table(
        np.sort(rng.integers(0, 10 * H, 8)),
        rng.integers(1, 5, 8),
        rng.choice([1, 1_000_000, 1_800_000, 5_000_001, 20_000_000], 8),
        rng.integers(0, 4, 8),
    )
    policies = {"main": Restless(seed, 20 * MIN)}
    found = Cluster({"main": pool}, 30 * H, policies=policies).advance(jobs, 30 * H)
    assert isinstance(found, PreemptiveSchedule)
    classes = (
        StreamClass(
            "training",
            JobClass(workload="tune", n_nodes=1, probability=1),
            (0, 1, 2, 3),
        ),
    )
    node = tiny_scenario().facility.node_types["node"]
    extended, levels = with_levels(
        library, classes, [node], ["pre_training"], CapLevels()
    )
    load = lower_runs(found, extended, levels, tiny_scenario().facility)
    segments, runs = load.segments, found.runs
    order = np.lexsort((segments.start_ms, load.job))
    segments, of_run = segments.take(order), load.job[order]
    first = np.flatnonzero(np.diff(of_run, prepend=-1))
    last = np.append(first[1:], of_run.size) - 1
    assert of_run[first].tolist() == list(range(len(runs)))
    assert segments.start_ms[first].tolist() == runs.start_ms.tolist()
    assert segments.end_ms[last].tolist() == runs.end_ms.tolist()
    inner = np.setdiff1d(np.arange(of_run.size), first)
    assert (segments.start_ms[inner] == segments.end_ms[inner - 1]).all()
    assert (segments.n_nodes == runs.n_nodes[of_run]).all()
    duration_ms = np.array([entry.duration_ms for entry in extended.entries])
    over_ms = segments.offset_ms + segments.end_ms - segments.start_ms
    # Rounding to whole ms
    assert (over_ms <= duration_ms[segments.profile_id] + 1).all()


ONE = {
    "duration": "12 h",
    "streams.training.target_utilization": None,
    "streams.training.jobs_per_day": 2.5,
    "streams.training.classes": [
        {"workload": "tune", "n_nodes": 4, "probability": 1.0}
    ],
    "seed": 5,
}


class Starting(Fifo):
    """Starts what waits at once, at a level or on fewer nodes."""

    def __init__(self, **how: int) -> None:
        self.how = how

    def decide(self, view: Any) -> list[Action]:
        return [Start(job, **self.how) for job in view.queue]


def first_job(folder: Path, policy: Any) -> tuple[float, float, int]:
    """Return energy [J], run time [s] and start [ms] of the first job."""
    found = run(folder, policy, ONE)
    first = found.jobs().iloc[0]
    into_s = (first["start_time"] - found.facility().index[0]).total_seconds()
    run_s = (first["end_time"] - first["start_time"]).total_seconds()
    return first["energy_j"], run_s, round(1_000 * into_s)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, float, int]:
    """The first job as it is without any action."""
    return first_job(tmp_path_factory.mktemp("plain") / "run", Fifo())


def test_a_capped_job_takes_power_over_speed_of_the_energy_of_its_gpus(
    tmp_path: Path, plain: tuple[float, float, int]
) -> None:
    plain_j, plain_s, _ = plain
    capped_j, capped_s, _ = first_job(tmp_path / "capped", Starting(level=4))
    levels, node = CapLevels(), tiny_scenario().facility.node_types["node"]
    speed, power = levels.speed("pre_training", 4), levels.power("pre_training", 4)
    cpu_w = 4 * cpu_power_w(node)
    ratio = (capped_j - cpu_w * capped_s) / (plain_j - cpu_w * plain_s)
    assert capped_s == pytest.approx(plain_s / speed, abs=0.002)
    assert ratio == pytest.approx(power / speed, rel=2e-3)


def test_a_suspended_job_draws_idle_power_and_goes_on_where_it_was(
    tmp_path: Path, plain: tuple[float, float, int]
) -> None:
    plain_j, plain_s, start_ms = plain
    at_ms = start_ms + 10 * MIN
    plan = {at_ms: [Preempt(0, "suspend")], at_ms + 30 * MIN: [Resume(0)]}
    paused_j, paused_s, _ = first_job(tmp_path / "paused", Planned(plan))
    assert paused_j == pytest.approx(plain_j + 4 * 400 * 1_800, rel=1e-12)
    assert paused_s == pytest.approx(plain_s + 1_800)


def test_a_job_on_half_of_its_nodes_draws_half_and_works_at_the_power_of_nine_tenths(
    tmp_path: Path, plain: tuple[float, float, int]
) -> None:
    plain_j, plain_s, _ = plain
    half_j, half_s, _ = first_job(tmp_path / "half", Starting(n_nodes=2))
    assert half_s == pytest.approx(plain_s / 0.5**0.9, abs=0.002)
    # The waveform is that of the profile piece by piece: its mean is met to a percent.
    assert half_j == pytest.approx(plain_j * 0.5 / 0.5**0.9, rel=0.01)


def test_policies_see_power_of_jobs_and_pools(tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []

    class Looking(Fifo):
        def act(self, view: Any) -> list[Action]:
            if view.queue:
                view.wake_at(view.now_ms + 10 * MIN)
            for job in view.running:
                seen.append(
                    {
                        "mean": view.power_w(job),
                        "capped": view.power_w(job, 4),
                        "pool": view.pool_power_w,
                        "facility": view.facility.power_w,
                    }
                )
            return []

    run(tmp_path / "run", Looking(), ONE)
    assert seen
    tune_w = float(tiny_library().get("tune-4n-1").power_w.mean())
    for found in seen:
        assert found["mean"] == pytest.approx(tune_w, rel=1e-6)
        assert found["capped"] < found["mean"]
        assert found["pool"] == pytest.approx(found["mean"] + 8 * 400, rel=1e-6)
        assert found["facility"] == found["pool"]
