"""Generating jobs: targets, thinning, streams, scaled classes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from builders import mean_utilization, tiny_scenario

from diploee import generate_jobs
from diploee.base.errors import ProfileError, WorkloadError
from diploee.base.tables import concat
from diploee.loads.jobs.source import node_ms
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.schedule.job_table import JobTable
from diploee.simulation.steps import schedule_jobs

N_NODES = 12
SIMULATED = {"streams.training.match": "simulated"}


def simulated_by(scenario: Scenario, seen: list[JobTable] | None = None) -> Any:
    def utilization(days: Iterable[JobTable]) -> float:
        jobs = concat(list(days))
        jobs = replace(jobs, job_id=np.arange(len(jobs)))
        if seen is not None:
            seen.append(jobs)
        return mean_utilization(schedule_jobs(jobs, scenario, "compiled"), N_NODES)

    return utilization


@pytest.mark.parametrize("target", [0.05, 1.0])
def test_bisection_residual_is_below_one_job(
    library: ProfileLibrary, target: float
) -> None:
    scenario = tiny_scenario({"streams.training.target_utilization": target})
    workload = generate_jobs(scenario, library)
    (match,) = workload.matches
    reached = listed_utilization(workload.jobs, N_NODES, scenario.horizon_ms)
    assert match.matched_utilization == pytest.approx(reached, rel=1e-12)
    assert match.residual == pytest.approx(reached - target, abs=1e-12)
    largest_job_ms = (workload.jobs.n_nodes * workload.jobs.duration_ms).max()
    assert abs(match.residual) < largest_job_ms / (N_NODES * scenario.horizon_ms)


def listed_utilization(jobs: JobTable, n_nodes: int, horizon_ms: int) -> float:
    """Return the mean node occupancy if every job started at once, 0-1."""
    return float(node_ms(jobs, horizon_ms).sum() / (n_nodes * horizon_ms))


@pytest.mark.parametrize("target", [0.2, 0.85])
def test_match_simulated_meets_its_target(
    library: ProfileLibrary, target: float
) -> None:
    scenario = tiny_scenario(
        {**SIMULATED, "duration": "14 d", "streams.training.target_utilization": target}
    )
    workload = generate_jobs(scenario, library, simulated_by(scenario))
    (match,) = workload.matches
    reached = simulated_by(scenario)([workload.jobs])
    assert match.match == "simulated"
    assert match.matched_utilization == reached
    assert match.residual == pytest.approx(reached - target, abs=1e-12)
    # Within the tolerance, or as near as one job more or less allows.
    largest_job_ms = (workload.jobs.n_nodes * workload.jobs.duration_ms).max()
    assert abs(reached - target) < largest_job_ms / (N_NODES * scenario.horizon_ms)


LAST_HOUR = {
    "start": "2018-01-01T01:00:00",
    "streams.training.target_utilization": 1.0,
    "streams.training.classes": [{"workload": "draw", "n_nodes": 1, "probability": 1}],
    "streams.training.calendar": {"hour_of_day": [0] * 23 + [1]},
}
"""Jobs of 90 minutes, submitted from 23:00 to the end of the run, which cuts them."""


def test_a_list_that_the_horizon_cuts_grows_until_it_meets_the_target(
    library: ProfileLibrary,
) -> None:
    (match,) = generate_jobs(
        tiny_scenario({**LAST_HOUR, "duration": "23 h"}), library
    ).matches
    assert match.residual == pytest.approx(0, abs=0.01)
    # On average half an hour of each job's 90 minutes counts: three times the jobs are
    # needed.
    assert match.jobs_per_day == pytest.approx(3 * N_NODES * 86_400 / 5_400, rel=0.1)


@pytest.mark.slow
def test_unreachable_list_target_says_what_is_reached_and_why(
    library: ProfileLibrary,
) -> None:
    scenario = tiny_scenario({**LAST_HOUR, "duration": "1322 min"})  # ends at 23:02
    with pytest.raises(
        WorkloadError, match=r"streams\.training: .* 1 can't be reached"
    ) as caught:
        generate_jobs(scenario, library)
    # 16 layers of jobs that count for a minute of 90
    assert 0.1 < most_of(caught.value) < 0.3
    assert "the end of the run cuts jobs that begin late" in str(caught.value)


def most_of(error: WorkloadError) -> float:
    """The most that is reached, by the error."""
    (most,) = re.findall(
        r"reached: (0\.\d{4}) is the most, of [0-9,]+ jobs a day", str(error)
    )
    return float(most)


@pytest.mark.parametrize(("match", "target"), [("list", 1e-300), ("simulated", 1e-3)])
def test_target_below_one_job_says_what_one_job_takes(
    library: ProfileLibrary, match: str, target: float
) -> None:
    keys = {
        "streams.training.match": match,
        "streams.training.target_utilization": target,
    }
    with pytest.raises(
        WorkloadError, match="is less than one job, which takes"
    ) as caught:
        generate_jobs(tiny_scenario(keys), library)
    (of_a_job,) = re.findall(
        r"takes ([0-9.e-]+) of the pool's node time", str(caught.value)
    )
    nearest = {**keys, "streams.training.target_utilization": 2 * float(of_a_job)}
    scenario = tiny_scenario(nearest)
    (match_,) = generate_jobs(scenario, library, simulated_by(scenario, [])).matches
    assert match_.residual == pytest.approx(0, abs=2 * float(of_a_job))


@pytest.mark.parametrize(("target", "seed"), [(0.95, 0), (1.0, 2)])
def test_simulated_target_out_of_reach_says_how_near_one_comes(
    library: ProfileLibrary, target: float, seed: int
) -> None:
    """The target that the text offers is reached; more jobs would not have come much
    nearer."""
    keys = {**SIMULATED, "streams.training.target_utilization": target, "seed": seed}
    scenario = tiny_scenario(keys)
    with pytest.raises(WorkloadError, match="holds up those behind it") as caught:
        generate_jobs(scenario, library, simulated_by(scenario, []))
    most = most_of(caught.value)
    assert 0.9 < most < target
    offered = tiny_scenario(
        {**keys, "streams.training.target_utilization": most - 0.02}
    )
    (match,) = generate_jobs(offered, library, simulated_by(offered, [])).matches
    assert match.matched_utilization == pytest.approx(most - 0.02, abs=0.01)


def test_thinning_is_monotone(library: ProfileLibrary) -> None:
    """Every list that the bisection tries contains each smaller one, job by job."""
    scenario = tiny_scenario({**SIMULATED, "streams.training.target_utilization": 0.5})
    seen: list[JobTable] = []
    generate_jobs(scenario, library, simulated_by(scenario, seen))
    assert len(seen) > 4
    seen.sort(key=len)
    columns = ("submit_ms", "n_nodes", "duration_ms", "class_id", "profile_id")
    as_sets = [
        set(zip(*(getattr(jobs, column).tolist() for column in columns), strict=True))
        for jobs in seen
    ]
    assert [len(jobs) for jobs in as_sets] == [len(jobs) for jobs in seen], (
        "rows must differ"
    )
    for smaller, larger in pairwise(as_sets):
        assert smaller <= larger
    estimates = [
        listed_utilization(jobs, N_NODES, scenario.horizon_ms) for jobs in seen
    ]
    assert estimates == sorted(estimates)


def test_jobs_come_in_order_with_nodes_of_their_class_and_the_length_of_their_profile(
    library: ProfileLibrary,
) -> None:
    workload = generate_jobs(tiny_scenario(), library)
    jobs = workload.jobs
    assert (np.diff(jobs.submit_ms) >= 0).all()
    assert jobs.job_id.tolist() == list(range(len(jobs)))
    assert (
        jobs.submit_ms.min() >= 0 and jobs.submit_ms.max() < tiny_scenario().horizon_ms
    )
    for class_id, c in enumerate(workload.classes):
        rows = jobs.class_id == class_id
        assert set(jobs.n_nodes[rows]) == {c.job_class.n_nodes}
        assert set(jobs.profile_id[rows]) <= set(c.profile_ids)
    lengths = np.array([entry.duration_ms for entry in library.entries])
    assert np.array_equal(jobs.duration_ms, lengths[jobs.profile_id])


def test_draws_depend_on_the_seed_and_the_name_of_the_stream(
    library: ProfileLibrary,
) -> None:
    renamed = {"streams": {"tuning": tiny_streams()}}
    zero, again, default, one, other = (
        vars(generate_jobs(tiny_scenario(changes), library).jobs)
        for changes in ({"seed": 0}, {"seed": 0}, {"seed": None}, {"seed": 1}, renamed)
    )
    for name, values in zero.items():
        assert np.array_equal(values, again[name]) and np.array_equal(
            values, default[name]
        )
    for differs in (one, other):
        assert not np.array_equal(zero["submit_ms"], differs["submit_ms"])


def test_adding_a_stream_shifts_no_other_streams_draws(library: ProfileLibrary) -> None:
    alone = generate_jobs(tiny_scenario(), library)
    other = {
        "pool": "main",
        "jobs_per_day": 40,
        "classes": [{"workload": "draw", "n_nodes": 1, "probability": 1}],
    }
    for streams in (
        {"training": tiny_streams(), "other": other},
        {"other": other, "training": tiny_streams()},
    ):
        both = generate_jobs(tiny_scenario({"streams": streams}), library)
        of_training = np.array([c.stream == "training" for c in both.classes])
        rows = both.jobs.take(of_training[both.jobs.class_id])
        assert len(rows) < len(both.jobs)
        for column in ("submit_ms", "n_nodes", "duration_ms", "profile_id"):
            assert np.array_equal(getattr(rows, column), getattr(alone.jobs, column)), (
                column
            )


def tiny_streams() -> dict[str, Any]:
    return tiny_scenario().model_dump(mode="json")["streams"]["training"]


def test_a_class_without_profiles_is_refused_with_the_node_counts_there_are(
    library: ProfileLibrary,
) -> None:
    scenario = tiny_scenario({"streams.training.classes.1.n_nodes": 8})
    with pytest.raises(
        ProfileError, match=r"streams\.training: class 'tune/8'.*have: 2, 4.*scale"
    ):
        generate_jobs(scenario, library)


def test_a_scaled_class_draws_from_the_profiles_it_names(
    library: ProfileLibrary,
) -> None:
    scenario = tiny_scenario(
        {
            "streams.training.classes.1.n_nodes": 10,
            "streams.training.classes.1.scale_from_n_nodes": 4,
        }
    )
    workload = generate_jobs(scenario, library)
    scaled, jobs = workload.classes[1], workload.jobs
    assert [library.ids[index] for index in scaled.profile_ids] == ["tune-4n-1"]
    assert scaled.extrapolation_ratio == 2.5
    assert set(jobs.n_nodes[jobs.class_id == 1]) == {10}


def test_an_empty_list_of_jobs_is_a_workload(library: ProfileLibrary) -> None:
    scenario = tiny_scenario(
        {
            "streams.training.target_utilization": None,
            "streams.training.jobs_per_day": 1e-9,
        }
    )
    workload = generate_jobs(scenario, library)
    assert len(workload.jobs) == 0
    assert workload.matches[0].matched_utilization == 0
