"""Offline inference as jobs of a facility: time, power and energy of the measured
batches."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import changed, tiny_data, tiny_library

from diploee import Run, generate_jobs
from diploee import run as simulate
from diploee.base.errors import InputError, ScenarioError
from diploee.base.files.paths import shipped_folder
from diploee.importers.input_reader import load_inputs
from diploee.scenario import scenario_from_dict
from diploee.sweeps.expand import run_hash

CURVE = "llama3_70b_offline"
BATCHES: dict[str, Any] = {
    "tokens": 10e6,
    "batch_size": 500,
    "output_tokens": 512,
    "curve": CURVE,
}
CLASS = "streams.training.classes.0"
HEADER = "batch_size,elapsed_s,mean_power_w,peak_power_w\n"
LINEAR = HEADER + "10,100,1000,1500\n20,200,1100,1600\n40,300,1400,1500\n"


def offline(n_nodes: int = 2, probability: float = 1, **batches: Any) -> dict[str, Any]:
    return {
        "workload": "summaries",
        "n_nodes": n_nodes,
        "probability": probability,
        "batch_inference": {**BATCHES, **batches},
    }


def offline_data(*classes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    data = tiny_data({"duration": "6 h", **changes})
    data["streams"] = {
        "training": {
            "pool": "main",
            "jobs_per_day": 60,
            "classes": list(classes or [offline()]),
        }
    }
    return data


def run_of(folder: Path, *classes: dict[str, Any], **changes: Any) -> Run:
    scenario = scenario_from_dict(offline_data(*classes, **changes)).with_folder(folder)
    return simulate(
        scenario, folder / "run", profiles=tiny_library(), engine="compiled"
    )


def measured(output_tokens: int, batch_size: int) -> dict[str, float]:
    text = (shipped_folder("profiles") / "curves" / f"{CURVE}.csv").read_text(
        encoding="utf-8"
    )
    rows = csv.DictReader(
        line for line in text.splitlines() if not line.startswith("#")
    )
    key = str(output_tokens), str(batch_size)
    (row,) = (r for r in rows if (r["max_output_tokens"], r["batch_size"]) == key)
    return {name: float(value) for name, value in row.items()}


def whole(run: Run) -> Any:
    """Return the offline jobs that begin and end within the run, with their run times."""  # noqa: E501
    jobs = run.jobs()
    begin = run.facility().index[0]
    jobs = jobs[jobs["class"].str.startswith("summaries")].dropna(subset=["start_time"])
    jobs["run_s"] = (jobs["end_time"] - jobs["start_time"]).dt.total_seconds()
    jobs = jobs[(jobs["end_time"] - begin).dt.total_seconds() <= 6 * 3600]
    assert len(jobs)
    return jobs


@pytest.mark.parametrize(
    ("output_tokens", "batch_size", "n_nodes"),
    [(512, 25, 1), (512, 1000, 5)],
)
def test_energy_per_token_and_per_request_is_that_of_the_table(
    tmp_path: Path, output_tokens: int, batch_size: int, n_nodes: int
) -> None:
    batch_tokens = n_nodes * batch_size * output_tokens
    asked = {
        "tokens": 7 * batch_tokens,
        "batch_size": batch_size,
        "output_tokens": output_tokens,
    }
    jobs = whole(run_of(tmp_path, offline(n_nodes, **asked)))
    row = measured(output_tokens, batch_size)
    of_a_batch_j = row["mean_power_w"] * row["elapsed_s"]
    per_token_j = jobs["energy_j"] / (7 * batch_tokens)
    assert per_token_j.to_numpy() == pytest.approx(
        of_a_batch_j / (batch_size * output_tokens), rel=1e-6
    )
    per_request_j = jobs["energy_j"] / (7 * n_nodes * batch_size)
    assert per_request_j.to_numpy() == pytest.approx(
        of_a_batch_j / batch_size, rel=1e-6
    )
    assert jobs["run_s"].to_numpy() == pytest.approx(7 * row["elapsed_s"], abs=1e-6)


@pytest.mark.parametrize(
    ("tokens", "n_batches"), [(1, 1), (512_001, 2), (5_120_000, 10)]
)
def test_the_last_batch_is_a_whole_one(
    tmp_path: Path, tokens: int, n_batches: int
) -> None:
    jobs = whole(run_of(tmp_path, offline(2, tokens=tokens)))
    assert jobs["run_s"].to_numpy() == pytest.approx(n_batches * 25.46, abs=1e-6)


def test_a_batch_begins_at_the_peak_of_the_table_and_never_exceeds_it(
    tmp_path: Path,
) -> None:
    changes = {
        "resolution": "0.1 s",
        "facility.pools.main.n_nodes": 1,
        "duration": "2 h",
    }
    run = run_of(tmp_path, offline(1, tokens=1), **changes)
    power_w = run.facility()["facility_power_w"].to_numpy(dtype=float)
    peak_w = measured(512, 500)["peak_power_w"]
    assert power_w.max() <= peak_w * (1 + 1e-6)
    assert power_w.max() == pytest.approx(peak_w, rel=1e-4)
    # it falls towards the end, to no less than a small batch draws
    busy = power_w[power_w > 500]
    assert np.quantile(busy, 0.1) < measured(512, 500)["mean_power_w"]


def test_nodes_of_a_job_have_phases_of_their_own(tmp_path: Path) -> None:
    changes = {
        "resolution": "0.1 s",
        "facility.pools.main.n_nodes": 12,
        "duration": "2 h",
    }
    run = run_of(tmp_path, offline(12, batch_size=1000), **changes)
    peak_w = run.facility()["facility_power_w"].max()
    row = measured(512, 1000)
    assert 12 * row["mean_power_w"] < peak_w < 0.99 * 12 * row["peak_power_w"]


def test_between_measured_sizes_time_and_power_are_linear(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(LINEAR)
    jobs = whole(
        run_of(tmp_path, offline(2, curve="mine.csv", batch_size=15, tokens=1))
    )
    assert jobs["run_s"].to_numpy() == pytest.approx(150)
    assert jobs["energy_j"].to_numpy() == pytest.approx(2 * 150 * 1050, rel=1e-6)


@pytest.mark.parametrize("mean_w", [1, 700, 1500])
def test_any_mean_up_to_the_peak_is_met_however_long_a_batch_is(
    tmp_path: Path, mean_w: float
) -> None:
    rows = [f"{size},1234.5,{mean_w},1500\n" for size in (10, 20, 40)]
    (tmp_path / "mine.csv").write_text(HEADER + "".join(rows))
    asked = {"curve": "mine.csv", "batch_size": 20, "tokens": 3 * 20 * 512}
    jobs = whole(run_of(tmp_path, offline(1, **asked)))
    assert jobs["run_s"].to_numpy() == pytest.approx(3 * 1234.5, abs=0.1)
    assert (jobs["energy_j"] / jobs["run_s"]).to_numpy() == pytest.approx(
        mean_w, rel=1e-5
    )


def test_training_beside_it_keeps_profiles_and_run_times(tmp_path: Path) -> None:
    training = {"workload": "tune", "n_nodes": 4, "probability": 0.5}
    changes = {"facility.pools.main.n_nodes": 40}
    run = run_of(tmp_path, training, offline(2, 0.5), **changes)
    jobs = run.jobs()
    trained = jobs[(jobs["class"] == "tune/4") & jobs["end_time"].notna()]
    assert set(trained["profile_id"]) == {"tune-4n-1"}
    assert set((trained["end_time"] - trained["start_time"]).dt.total_seconds()) == {
        1_000
    }
    batches = whole(run)
    row = measured(512, 500)
    assert (batches["energy_j"] / batches["run_s"] / 2).to_numpy() == pytest.approx(
        row["mean_power_w"], rel=1e-6
    )
    idle_j = 400 * (40 * 6 * 3600 - (busy_node_s(jobs)))
    total_j = run.facility()["facility_power_w"].astype(float).sum() * 60
    assert total_j == pytest.approx(jobs["energy_j"].sum() + idle_j, rel=1e-5)


def busy_node_s(jobs: Any) -> float:
    end = jobs["submit_time"].min().normalize() + np.timedelta64(6, "h")
    busy_s = (jobs["end_time"].clip(upper=end) - jobs["start_time"]).dt.total_seconds()
    return float((busy_s * jobs["n_nodes"]).sum())


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (
            f"{CLASS}.duration",
            {"quantiles_s": {0: 1, 1: 2}},
            "can't go with 'duration'",
        ),
    ],
)
def test_wrong_keys_of_a_class_are_refused_with_their_path(
    key: str, value: Any, text: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario_from_dict(changed(offline_data(), {key: value}))
    (problem,) = caught.value.problems
    assert CLASS in problem
    assert text in problem


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"batch_size": 10},
            "batch_size must be one of the measured 25 to 1000, found 10",
        ),
        (
            {"output_tokens": 600},
            "no rows with max_output_tokens 600 (have: 512, 1024)",
        ),
        ({"curve": "llama3_70b_ofline"}, "no such curve file next to the scenario"),
        ({"curve": "llama3_70b_coding_power"}, "column 'batch_size' is missing"),
        ({"tokens": 1e300}, "ask for fewer tokens a job, or use more nodes"),
        ({"curve": "mine.csv", "batch_size": 15}, "mean_power_w or more"),
    ],
)
def test_what_the_curve_does_not_hold_is_one_clear_line(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    (tmp_path / "mine.csv").write_text(HEADER + "10,1,5,4\n20,1,5,6\n30,1,5,6\n")
    with pytest.raises(InputError) as caught:
        run_of(tmp_path, offline(**changes))
    found = str(caught.value)
    assert found.startswith("streams.training") and text in found
    assert "\n" not in found and len(found) < 500


def test_copies_of_profiles_leave_batches_as_they_were_measured() -> None:
    data = offline_data(
        offline(2, 0.5), {"workload": "tune", "n_nodes": 4, "probability": 0.5}
    )
    data["streams"]["training"]["profile_variants"] = {"n_variants": 3, "spread": 0.1}
    workload = generate_jobs(scenario_from_dict(data), tiny_library())
    batches = workload.jobs.class_id == 0
    assert set(workload.jobs.duration_ms[batches].tolist()) == {20 * 25_460}
    assert len(set(workload.jobs.duration_ms[~batches].tolist())) > 1


def test_the_hash_of_a_run_knows_the_content_of_its_curve(tmp_path: Path) -> None:
    data = offline_data(offline(curve="mine.csv", batch_size=20))
    scenario, library = scenario_from_dict(data).with_folder(tmp_path), tiny_library()
    hashes = set()
    for text in (LINEAR, LINEAR.replace("1600", "1601")):
        (tmp_path / "mine.csv").write_text(text)
        hashes.add(run_hash(scenario, load_inputs(scenario, library)))
    assert len(hashes) == 2
