"""The steps of the model one by one: the power of a run, or a refusal of what they leave out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Keeps, job_energy_j, tiny_library, tiny_scenario

import diploee
from diploee.errors import InputError
from diploee.scenario import Scenario, load_scenario
from diploee.steps import Workload, generate_jobs, job_segments, schedule_jobs

LASTING = {"lognormal": [{"weight": 1, "median_s": 3_000, "sigma": 0.8}], "max_s": 20_000}
CLASSES = "streams.training.classes"
STARTUP = {"streams.training.startup": {"quantiles_s": {0: 100, 1: 900}}}
VARIANTS = {"streams.training.profile_variants": {"n_variants": 3}}
SMOOTHING = {
    "streams.training.power_smoothing": {"floor": 0.6, "up_per_s": 0.5, "down_per_s": 0.05},
    "resolution": "0.1 s",
    "duration": "6 h",
}
SITES: dict[str, dict[str, Any]] = {
    "whole nodes": {},
    "shared nodes": {
        "facility.pools.main.allocate": "gpus",
        CLASSES: [
            {"workload": "draw", "n_nodes": 1, "n_gpus": k, "probability": 0.5} for k in (1, 2)
        ],
    },
    "phases": {
        "facility.pools.main.phases": [
            {"since": "2018-01-01", "n_nodes": 6},
            {"since": "2018-01-02", "n_nodes": 12},
        ]
    },
    "start-up and drawn durations": {
        **STARTUP,
        **{f"{CLASSES}.{k}.duration": LASTING for k in range(3)},
    },
    "two pools, warm-up": {
        "warm_up": "1 day",
        "facility.pools.other": {"node_type": "node", "n_nodes": 5},
        "streams.further": {
            "pool": "other",
            "jobs_per_day": 40,
            "classes": [{"workload": "draw", "n_nodes": 1, "probability": 1}],
        },
    },
    "variants": VARIANTS,
}


def scheduled(scenario: Scenario) -> tuple[Workload, Any]:
    workload = generate_jobs(scenario, tiny_library())
    return workload, schedule_jobs(workload.jobs, scenario, "compiled")


@pytest.mark.parametrize("site", SITES)
def test_steps_give_the_power_of_a_run(site: str, tmp_path: Path) -> None:
    scenario, kept = tiny_scenario(SITES[site]), Keeps()
    run = diploee.simulate(
        scenario, tmp_path / "run", library=tiny_library(), engine="compiled", sinks=[kept]
    )
    workload, schedule = scheduled(scenario)
    segments = diploee.job_segments(schedule, workload.library, scenario, workload.pieces_of)
    power = diploee.power_series(segments, scenario, workload.library)
    for column in ("it_power_w", "facility_power_w"):
        np.testing.assert_allclose(power[column], kept[column], rtol=1e-9)
    jobs_j = job_energy_j(schedule, workload.library, scenario, workload.pieces_of)
    assert jobs_j.sum() < power["it_power_w"].sum() * 60
    if scenario.warm_up is None:
        assert jobs_j.sum() == pytest.approx(run.jobs()["energy_j"].sum(), rel=1e-9)


def _series(scenario: Scenario) -> object:
    return diploee.power_series(diploee.job_segments(*_plain(), scenario), scenario, tiny_library())


def _plain() -> tuple[Any, Any]:
    workload, schedule = scheduled(tiny_scenario())
    return schedule, workload.library


LEFT_OUT: dict[str, tuple[str, list[str], Callable[[Scenario], object]]] = {
    "facility.size": ("colocation_10mw", ["facility.size={nodes_factor: 2}"], generate_jobs),
    "facility.stages": ("colocation_10mw_poi", [], _series),
    "request_streams": ("mixed_11mw", [], _series),
    "replica_streams": ("replicas_under_a_cap", [], _series),
    "flexibility": (
        "demand_response_3h", [], lambda scenario: schedule_jobs(_plain()[0].jobs, scenario)
    ),
}  # fmt: skip


@pytest.mark.parametrize("part", LEFT_OUT)
def test_steps_refuse_what_they_leave_out_and_name_the_run(part: str) -> None:
    name, values, step = LEFT_OUT[part]
    with pytest.raises(InputError, match=rf"leaves .*{part}.* out.*diploee\.run\(\.\.\.\)"):
        step(load_scenario(name, values))


SIZED_STEPS: dict[str, Callable[[Scenario], object]] = {
    "schedule_jobs": lambda scenario: schedule_jobs(_plain()[0].jobs, scenario),
    "job_segments": lambda scenario: job_segments(*_plain(), scenario),
    "power_blocks": lambda scenario: list(
        diploee.power_blocks(job_segments(*_plain(), tiny_scenario()), scenario, tiny_library())
    ),
}


@pytest.mark.parametrize("step", SIZED_STEPS)
def test_every_step_refuses_a_site_that_is_not_in_its_size_yet(step: str) -> None:
    with pytest.raises(InputError, match=rf"{step}: leaves .*facility\.size"):
        SIZED_STEPS[step](tiny_scenario({"facility.size": {"nodes_factor": 2}}))


@pytest.mark.parametrize("changes", [VARIANTS, STARTUP, SMOOTHING], ids=["variants", "start-up",
                         "smoothing"])  # fmt: skip
def test_segments_of_a_library_without_the_jobs_profiles_are_refused(
    changes: dict[str, Any],
) -> None:
    scenario = tiny_scenario(changes)
    _, schedule = scheduled(scenario)
    with pytest.raises(InputError, match=r"job_segments: .* the library of 4 .*workload\.library"):
        job_segments(schedule, tiny_library(), scenario)
