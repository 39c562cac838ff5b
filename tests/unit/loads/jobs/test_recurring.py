"""A Zeus stream in a facility: durations and power from batch size and power limit."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_data, tiny_library

from diploee import generate_jobs
from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.base.files.paths import shipped_folder
from diploee.importers.input_reader import load_inputs
from diploee.integrations.zeus import read_traces
from diploee.integrations.zeus.recurring_jobs import assign_workloads
from diploee.integrations.zeus.traces import chosen_workloads
from diploee.loads.jobs.job_streams import JobStreams
from diploee.scenario import Scenario, load_scenario, scenario_from_dict
from diploee.schedule.job_table import JobTable
from diploee.simulation.steps import Workload


def scenario_of(stream: dict[str, Any] | None = None, **zeus: Any) -> Scenario:
    return scenario_from_dict(data_of(stream, **zeus))


def data_of(stream: dict[str, Any] | None = None, **zeus: Any) -> dict[str, Any]:
    data = tiny_data({"duration": "14 d"})
    data["streams"] = {
        "again": {
            "pool": "main",
            "jobs_per_day": 200,
            "zeus": zeus or {"eta": 0.5},
            **(stream or {}),
        }
    }
    return data


def generated(**zeus: Any) -> Workload:
    return generate_jobs(scenario_of(**zeus), tiny_library())


def test_default_jobs_run_as_long_as_an_epoch_times_the_epochs_of_a_recorded_path() -> (
    None
):
    workload = generated(
        batch_size_optimizer="default", workloads={"synthetic-vision": 1}
    )
    (vision,) = chosen_workloads(read_traces(), ["synthetic-vision"])
    row = vision.default_row
    durations = np.unique(workload.jobs.duration_ms)
    # as many different run times as recorded training paths, at most
    assert durations.size <= len(vision.target_epochs[row])
    # all of them at one power: that of the default batch size at the highest limit
    assert np.unique(workload.jobs.power_factor).size == 1


def test_a_lower_power_limit_lowers_power_and_lengthens_jobs() -> None:
    full = generated(batch_size_optimizer="default", power_limit="max")
    limits = synthetic_limits()
    low = generated(batch_size_optimizer="default", power_limit=float(limits[0]))
    assert low.jobs.power_factor.mean() < full.jobs.power_factor.mean()
    assert low.jobs.duration_ms.mean() > full.jobs.duration_ms.mean()
    assert low.jobs.submit_ms.tolist() == full.jobs.submit_ms.tolist()


def synthetic_limits() -> np.ndarray[Any, Any]:
    (vision,) = chosen_workloads(read_traces(), ["synthetic-vision"])
    return vision.limits_of(vision.default_row)


@pytest.mark.slow
def test_the_power_of_a_job_is_its_node_at_idle_and_its_gpus_above_their_idle() -> None:
    options = {"batch_size_optimizer": "default", "workloads": {"synthetic-vision": 1}}
    with_idle = generated(**options, gpu_idle_power_w=0)
    less = generated(**options, gpu_idle_power_w=30, gpus_per_node=4)
    one = generated(**options, gpus_per_node=1, gpu_idle_power_w=0)
    node_w = [w.jobs.power_factor[0] * 1_000 for w in (with_idle, less, one)]
    assert node_w[0] - node_w[1] == pytest.approx(4 * 30, rel=1e-5)
    assert node_w[0] - 400 == pytest.approx(4 * (node_w[2] - 400), rel=1e-5)
    # Left out, the four GPUs' part of the node's idle 400 W by 2,800 of 3,520 W is
    # counted once.
    absent_w = generated(**options).jobs.power_factor[0] * 1_000
    assert node_w[0] - absent_w == pytest.approx(400 * 2_800 / 3_520, rel=1e-5)


def test_a_group_trace_gives_the_submissions_and_repeats(tmp_path: Path) -> None:
    import yaml

    shutil.copytree(shipped_folder("profiles") / "zeus", tmp_path, dirs_exist_ok=True)
    data = data_of(
        {"jobs_per_day": None},
        train="summary_train.csv",
        power="summary_power_synthetic.csv",
        groups="groups.csv",
        batch_size_optimizer="default",  # none fails, so no retries
    )
    data["streams"]["again"].pop("jobs_per_day")
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(data), "utf-8")
    workload = generate_jobs(load_scenario(tmp_path / "s.yaml"), tiny_library())
    rows = (tmp_path / "groups.csv").read_text().splitlines()[1:]
    starts = sorted(float(row.split(",")[1]) for row in rows)
    period_s = (int(starts[-1] - starts[0]) // 3_600 + 1) * 3_600
    expected = sum(
        start - starts[0] + k * period_s < 14 * 86_400
        for start in starts
        for k in range(14 * 86_400 // period_s + 1)
    )
    assert len(workload.jobs) == expected


@pytest.mark.parametrize(
    ("n_jobs", "shares", "wanted"),
    [
        (4, [100, 1, 1], [2, 1, 1]),  # each has one
        (7, [0, 3, 4], [0, 3, 4]),
        (10, [1, 1, 1], [4, 3, 3]),
    ],
)
def test_shares_become_whole_numbers_of_recurring_jobs(
    n_jobs: int, shares: list[float], wanted: list[int]
) -> None:
    assert (
        np.bincount(assign_workloads(n_jobs, np.array(shares, float))).tolist()
        == wanted
    )


def test_each_recurring_job_recurs_with_the_same_probability() -> None:
    names = ("synthetic-vision", "synthetic-language", "synthetic-recommendation")
    workload = generated(
        batch_size_optimizer="default",
        workloads=dict(zip(names, (8, 1, 1), strict=True)),
        recurring_jobs=10,
    )
    n, share = (
        len(workload.jobs),
        np.bincount(workload.jobs.class_id) / len(workload.jobs),
    )
    assert np.abs(share - (0.8, 0.1, 0.1)).max() < 3.3 * np.sqrt(0.25 / n)


def windows(days: int, n_draws: int) -> Iterator[JobTable]:
    scenario = scenario_from_dict(
        {**data_of({"jobs_per_day": 400}), "duration": f"{days} d"}
    )
    streams = JobStreams(scenario, load_inputs(scenario, tiny_library()))
    streams.set_job_counts({})
    return streams.windows(n_draws)


@pytest.mark.slow
def test_a_longer_run_holds_no_more_recurrences() -> None:
    def peak_bytes(days: int) -> int:
        tracemalloc.start()
        for _ in windows(days, 1):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(1)
    assert peak_bytes(21) < 1.3 * peak_bytes(3)


def test_nothing_is_claimed_of_swings_within_a_mean(tmp_path: Path) -> None:
    fine = {"duration": "1 d", "resolution": "1 s"}
    recurring = scenario_from_dict({**data_of(), **fine})
    drawn = scenario_from_dict({**tiny_data(), **fine})
    runs = {
        name: simulate(scenario, tmp_path / name, profiles=tiny_library())
        for name, scenario in (("recurring", recurring), ("drawn", drawn))
    }
    bands = {
        name: run.metrics["grid"]["spectrum"]["bands"] for name, run in runs.items()
    }
    assert bands["drawn"]
    assert not bands["recurring"]
    assert runs["recurring"].metrics["grid"]["bandwidth"]["averaging_window_s"] == 3_600
    assert runs["recurring"].manifest["warnings"] == []


NAME = "batch_size_optimizer"
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {},
        {NAME: "zues"},
        r"again\.zeus.*found 'zues'; did you mean",
    ),
    ({}, {NAME: {"path": "nowhere:Loyal"}}, "can't import 'nowhere:Loyal'"),
    ({}, {"workloads": {"synthetic-visio": 1}}, "did you mean 'synthetic-vision'"),
    ({}, {"power_limit": 123.0}, "123"),
    ({}, {"train": "x.csv"}, "'train' needs 'power'"),
    ({"jobs_per_day": None}, {}, "'zeus' needs 'jobs_per_day'"),
    ({"target_utilization": 0.5}, {}, "'zeus' can't go with"),
    ({}, {"recurring_jobs": 1}, "1 recurring jobs for 3 workloads"),
]


@pytest.mark.parametrize(("stream", "zeus", "words"), REFUSED)
def test_a_zeus_stream_that_can_not_be_is_one_line(
    stream: dict[str, Any], zeus: dict[str, Any], words: str
) -> None:
    data = data_of(stream, **zeus)
    data["streams"]["again"] = {
        k: v for k, v in data["streams"]["again"].items() if v is not None
    }
    with pytest.raises(InputError, match=words) as error:
        generate_jobs(scenario_from_dict(data), tiny_library())
    assert "\n" not in str(error.value)


def test_scenario_names_an_own_optimizer_by_its_import_path() -> None:
    own = {"path": "diploee.integrations.zeus.optimizers:DefaultBatchSize"}
    zeus = scenario_of(batch_size_optimizer=own, max_epochs=50).streams["again"].zeus
    assert zeus is not None
    assert (zeus.batch_size_optimizer.kind, zeus.max_epochs) == ("path", 50)
