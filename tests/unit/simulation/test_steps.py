"""Laws that each kind of site obeys, and the steps of the model one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from builders import Keeps, job_energy_j, tiny_library, tiny_scenario
from serving_builders import SERVING

import diploee
from diploee import Run, generate_jobs
from diploee.base.errors import InputError
from diploee.scenario import Scenario, load_scenario
from diploee.simulation.steps import Workload, job_segments, schedule_jobs

LASTING = {
    "lognormal": [{"weight": 1, "median_s": 3_000, "sigma": 0.8}],
    "max_s": 20_000,
}
ARRAYS = {"job_share": 0.7, "sizes": {3: 0.5, 12: 0.5}, "duration": LASTING}
STREAM, POOL = "streams.training", "facility.pools.main"
CLASSES = f"{STREAM}.classes"
STARTUP = {f"{STREAM}.startup": {"quantiles_s": {0: 100, 1: 900}}}
VARIANTS = {f"{STREAM}.profile_variants": {"n_variants": 3}}
SMOOTHING = {
    f"{STREAM}.power_smoothing": {"floor": 0.6, "up_per_s": 0.5, "down_per_s": 0.05},
    "resolution": "0.1 s",
    "duration": "6 h",
}
PHASES = [{"since": "2018-01-01", "n_nodes": 6}, {"since": "2018-01-02", "n_nodes": 12}]
SIMULATED = {f"{STREAM}.match": "simulated"}
FAILING = {
    "n_nodes": 8,
    "period_s": 6.0,
    "work_days": 1,
    "spare_nodes": 2,
    "failures_per_1000_node_days": 400,
    "reschedule_s": 60,
}
EVENT = {
    "id": "e",
    "issued": "2018-01-01 09:00",
    "start": "2018-01-01 12:00",
    "end": "2018-01-01 15:00",
    "ramp_down": "15 min",
    "target": {"fraction": 0.75},
}
DRAW = {"workload": "draw", "n_nodes": 1, "probability": 1}
IDLE_W = 400
PLAIN: dict[str, dict[str, Any]] = {
    "whole nodes": {},
    "shared nodes": STARTUP
    | {
        f"{POOL}.allocate": "gpus",
        CLASSES: [
            DRAW | {"n_gpus": n_gpus, "probability": 0.5} for n_gpus in (0.35, 3)
        ],
    },
    "phases": {f"{POOL}.phases": PHASES},
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
            "classes": [DRAW | {"n_nodes": 2, "scale_from_n_nodes": 1}],
        },
    },
    "variants": VARIANTS,
    "smoothing": SMOOTHING,
    "warm-up, simulated": SIMULATED | {"duration": "7 d", "warm_up": "31 h"},
    "easy, simulated": SIMULATED
    | {
        "duration": "4 d",
        f"{POOL}.scheduler": {"kind": "easy", "estimate": {"classes": ["1 h", "4 h"]}},
        f"{STREAM}.target_utilization": 0.85,
    },
    "phases, simulated": SIMULATED
    | {
        "duration": "10 d",
        f"{POOL}.phases": [
            {"since": "2018-01-03", "n_nodes": 4},
            {"since": "2018-01-06", "n_nodes": 8},
        ],
        f"{STREAM}.target_utilization": 0.5,
    },
    "arrays and days that differ": {
        "duration": "14 d",
        f"{STREAM}.day_dispersion": 0.3,
        CLASSES: [
            DRAW | {"duration": LASTING, "arrays": ARRAYS},
        ],
    },
    "synchronous": {
        "streams": {"training": {"pool": "main", "synchronous": {"jobs": [FAILING]}}}
    },
}
"""Sites of jobs alone."""
STEPPED = [name for name in PLAIN if "simulated" not in name]
SITES = PLAIN | {
    "recurring": {
        "streams": {"again": {"pool": "main", "jobs_per_day": 150, "zeus": {}}}
    },
    "requests in phases": {
        "streams": None,
        f"{POOL}.phases": PHASES,
        "request_streams": SERVING["request_streams"],
    },
    "flexible": {
        f"{STREAM}.flexibility": {"tier": 2, "pausable": True},
        "flexibility.events": [EVENT],
    },
}


class Site(NamedTuple):
    run: Run
    kept: Keeps

    @property
    def standing(self) -> np.ndarray:
        """Nodes that stand in each interval."""
        if "standing_nodes" in self.kept.blocks[0].columns:
            return self.kept["standing_nodes"]
        return np.full(
            self.kept["utilization"].size, self.run.scenario.facility.n_nodes
        )


@pytest.fixture(scope="module", params=SITES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Site:
    """A site and its run in one window."""
    scenario, kept = tiny_scenario(SITES[request.param]), Keeps()
    folder = tmp_path_factory.mktemp("sites") / "run"
    how: Any = {"profiles": tiny_library(), "sinks": [kept], "n_threads": 1}
    how["engine"] = "simpy" if request.param == "flexible" else "compiled"
    return Site(diploee.run(scenario, folder, **how), kept)


def test_windows_threads_and_engines_change_no_byte(site: Site, tmp_path: Path) -> None:
    how: Any = {"engine": "simpy", "window_days": 0.25, "n_threads": 3}
    how["profiles"] = tiny_library()
    again = diploee.run(site.run.scenario, tmp_path / "again", **how)
    names = {path.name for path in site.run.folder.iterdir()} - {"manifest.json"}
    assert len(names) == 2 + ("jobs" in site.run.metrics)
    for name in names:
        first, second = (of.folder / name for of in (site.run, again))
        assert first.read_bytes() == second.read_bytes(), name


@pytest.mark.parametrize(
    "site", [name for name in SITES if "requests" not in name], indirect=True
)
def test_energy_of_jobs_and_idle_nodes_is_that_of_the_facility(site: Site) -> None:
    kept = site.kept
    step_s = site.run.scenario.resolution_ms / 1_000
    idle_j = (IDLE_W * site.standing * (1 - kept["utilization"])).sum() * step_s
    total_j = kept["it_power_w"].sum() * step_s
    jobs_j = site.run.jobs()["energy_j"].sum()
    assert jobs_j + idle_j == pytest.approx(total_j, rel=1e-7)


def test_targets_are_met_of_the_node_time_that_stands(site: Site) -> None:
    for match in site.run.manifest.get("workload", ()):
        target = site.run.scenario.streams[match["stream"]].target_utilization
        if target is None:
            continue
        assert match["matched_utilization"] == pytest.approx(target, abs=0.01)
        if match["match"] == "simulated":
            reached = site.kept["utilization"] @ site.standing / site.standing.sum()
            assert reached == pytest.approx(match["matched_utilization"], rel=1e-9)


def scheduled(scenario: Scenario) -> tuple[Workload, Any]:
    workload = generate_jobs(scenario, tiny_library())
    return workload, schedule_jobs(workload.jobs, scenario, "compiled")


@pytest.mark.parametrize("site", STEPPED, indirect=True)
def test_steps_give_the_power_of_a_run(site: Site) -> None:
    scenario, kept = site.run.scenario, site.kept
    workload, schedule = scheduled(scenario)
    segments = diploee.job_segments(
        schedule, workload.library, scenario, workload.pieces_of
    )
    power = diploee.power_series(segments, scenario, workload.library)
    for column in ("it_power_w", "facility_power_w"):
        np.testing.assert_allclose(power[column], kept[column], rtol=1e-9)
    jobs_j = job_energy_j(schedule, workload.library, scenario, workload.pieces_of)
    assert jobs_j.sum() < power["it_power_w"].sum() * 60
    if scenario.warm_up is None:
        of_run_j = site.run.jobs()["energy_j"].sum()
        assert jobs_j.sum() == pytest.approx(of_run_j, rel=1e-9)


def _series(scenario: Scenario) -> object:
    return diploee.power_series(
        diploee.job_segments(*_plain(), scenario), scenario, tiny_library()
    )


def _plain() -> tuple[Any, Any]:
    workload, schedule = scheduled(tiny_scenario())
    return schedule, workload.library


LEFT_OUT: dict[str, tuple[str, list[str], Callable[[Scenario], object]]] = {
    "facility.size": (
        "colocation_10mw",
        ["facility.size={nodes_factor: 2}"],
        generate_jobs,
    ),
    "facility.stages": ("colocation_10mw_poi", [], _series),
    "request_streams": ("mixed_11mw", [], _series),
    "replica_streams": ("replicas_under_a_cap", [], _series),
    "flexibility": (
        "demand_response_3h",
        [],
        lambda scenario: schedule_jobs(_plain()[0].jobs, scenario),
    ),
}


@pytest.mark.parametrize("part", LEFT_OUT)
def test_steps_refuse_what_they_leave_out_and_name_the_run(part: str) -> None:
    name, values, step = LEFT_OUT[part]
    words = rf"leaves .*{part}.* out.*diploee\.run\(\.\.\.\)"
    with pytest.raises(InputError, match=words):
        step(load_scenario(name, values))


@pytest.mark.parametrize("changes", [VARIANTS, STARTUP])
def test_segments_of_a_library_without_the_jobs_profiles_are_refused(
    changes: dict[str, Any],
) -> None:
    scenario = tiny_scenario(changes)
    _, schedule = scheduled(scenario)
    words = r"job_segments: .* the library of 4 .*workload\.library"
    with pytest.raises(InputError, match=words):
        job_segments(schedule, tiny_library(), scenario)
