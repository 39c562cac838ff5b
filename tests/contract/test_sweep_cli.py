"""`diploee sweep` and `diploee ensemble` as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from builders import write_scenario
from command_line import call
from sweep_builders import UTILIZATION, sweep_file

FOUR = {"axes": [{"grid": {UTILIZATION: [0.2, 0.4]}}], "seeds": 2}


@pytest.mark.slow
def test_sweep_prints_a_row_per_point_or_json_alone_and_writes_its_files(
    tmp_path: Path, library_folder: Path
) -> None:
    file, out = sweep_file(tmp_path, FOUR), tmp_path / "out"
    options = ("--workers", 0, "--profiles", library_folder)
    command = ("sweep", file, "--out", out, *options)
    ended = call(*command)
    assert ended.code == 0
    assert "4 runs, 4 computed now" in ended.out
    assert "medians over 2 seeds" in ended.out
    files = {f"{name}.parquet" for name in ("summary", "ensemble", "envelope")}
    assert files | {"sweep.json"} <= {path.name for path in out.iterdir()}
    content = json.loads((out / "sweep.json").read_text())
    assert content["axes"] == [UTILIZATION]
    assert [run["status"] for run in content["runs"]] == ["finished"] * 4
    again = call(*command, "--json")
    content = json.loads(again.out)
    assert not again.err
    assert (content["n_runs"], content["n_computed"], content["failed"]) == (4, 0, {})
    assert content["runs"][3][UTILIZATION] == 0.4
    assert content["runs"][3]["power.mean_mw"] > 0


@pytest.mark.slow
def test_failing_run_ends_with_1_and_names_its_scenario(
    tmp_path: Path, library_folder: Path
) -> None:
    content = {
        "set": {"duration": "10 min", UTILIZATION: 1.0},
        "axes": [{"grid": {"streams.training.match": ["list", "simulated"]}}],
    }
    file = sweep_file(tmp_path, content)
    options = ("--out", tmp_path / "out", "--workers", 0, "--profiles", library_folder)
    ended = call("sweep", file, *options)
    assert ended.code == 1
    assert "failed streams.training.match = simulated, seed = 0" in " ".join(
        ended.out.split()
    )
    assert (tmp_path / "out" / "summary.parquet").is_file()
    assert "failed: " in call("sweep", file, *options, "--quiet").problem


@pytest.mark.slow
def test_ensemble_of_a_scenario_shows_seeds_needed(
    tmp_path: Path, library_folder: Path
) -> None:
    sweep_file(tmp_path, {})
    ended = call(
        *("ensemble", tmp_path / "tiny.yaml", "--seeds", 4, "--accuracy", 0.05),
        *("--out", tmp_path / "out", "--workers", 0, "--profiles", library_folder),
    )
    assert ended.code == 0
    assert "Spread over 4 members" in ended.out
    assert "to 5 %" in ended.out
    assert re.search(r"Metric +min +P50 +max", ended.out)  # of four seeds
    assert (
        json.loads((tmp_path / "out" / "ensemble.json").read_text())["accuracy"] == 0.05
    )


@pytest.mark.slow
def test_ensemble_of_assumptions_names_what_moves_a_metric(
    tmp_path: Path, library_folder: Path
) -> None:
    node = {"facility.node_types.node.ac_power": "air_hgx", "facility.stages": ["pdu"]}
    write_scenario(tmp_path / "site.yaml", {"duration": "2 h", **node})
    ended = call(
        *("ensemble", tmp_path / "site.yaml", "--assumed", "--runs", 24),
        *("--out", tmp_path / "out", "--workers", 0, "--profiles", library_folder),
    )
    assert ended.code == 0
    assert re.search(r"Metric +P5 +P50 +P95 +seeds.* +moved by", ended.out)
    words = " ".join(ended.out.split())
    assert "none stands out" in words
    assert "fixed_share (+0." in words


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        (
            {"axes": [{"grid": {"facility.pool": [1]}}]},
            (),
            "unknown key 'pool' (allowed: ",
        ),
        ({"seeds": 11}, ("--max-runs", 10), "11 runs, more than --max-runs 10"),
        ({}, ("--dask", "tcp://127.0.0.1:1", "--workers", 2), "exclude each other"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    content: dict[str, Any], arguments: tuple[Any, ...], expected: str, tmp_path: Path
) -> None:
    ended = call("sweep", sweep_file(tmp_path, content), *arguments)
    assert ended.code == 2
    assert expected in ended.problem
    assert not ended.out


def test_summary_that_cannot_be_written_is_found_before_the_first_run(
    tmp_path: Path, library_folder: Path
) -> None:
    (tmp_path / "out" / "summary.parquet").mkdir(parents=True)
    file = sweep_file(tmp_path, FOUR)
    ended = call("sweep", file, "--out", tmp_path / "out", "--profiles", library_folder)
    assert ended.code == 2
    assert "summary.parquet: is a folder" in ended.problem
    assert "nothing was run" in ended.problem
    assert not list(tmp_path.glob("out/runs/*"))
