"""Profiles of nodes with 8 x H100 beside the facts of metered runs, and those beside
the logs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from builders import tiny_scenario
from samples import MLPERF, PUBLISHED

from diploee import run as simulate
from diploee.base.tables import Float64Array
from diploee.importers.power_logs.mlperf_power import read_node_log
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.check import check_library
from diploee.profiles.profile import PowerBoundary
from diploee.profiles.resample import common_power_w
from profiles.build import build_eight_gpu_profiles, write_reference_profiles
from profiles.build.eight_gpus import EIGHT_GPU_CLASSES, IDLE_W, SUPPLY_EFFICIENCY

SHIPPED = Path(__file__).parents[3] / "profiles" / "reference-8gpu"
MEAN_W = {1: 6_950, 8: 5_825}
"""Mean AC power of a node, 6.92-6.99 kW on one and 5.80-5.82 kW on eight nodes as
published [W]."""


@pytest.fixture(scope="module")
def built() -> dict[int, list[PowerProfile]]:
    of_nodes: dict[int, list[PowerProfile]] = defaultdict(list)
    for profile in build_eight_gpu_profiles():
        of_nodes[profile.n_nodes].append(profile)
    return of_nodes


def measured(n_nodes: int, side: str) -> list[Float64Array]:
    """Return the power of each run [W], in steps of 2 s over the time that all nodes
    share."""
    if not (PUBLISHED / MLPERF).exists():
        pytest.skip("the published sample is not at hand")
    system = (
        PUBLISHED
        / MLPERF
        / f"smc-{side}-power"
        / "results"
        / f"{n_nodes}xSMC-H100-SXM-80GB"
    )
    runs = sorted((system / "llama2_70b_lora" / "power").iterdir())
    of_nodes = (
        [read_node_log(log).curve for log in run.glob("node_*.txt")] for run in runs
    )
    return [common_power_w(curves, 2_000_000) for curves in of_nodes]


def test_shipped_files_are_rebuilt_byte_for_byte(tmp_path: Path) -> None:
    written = write_reference_profiles(tmp_path, "reference-8gpu")
    assert sorted(path.name for path in written) == sorted(
        path.name for path in SHIPPED.iterdir()
    )
    for path in written:
        assert path.read_bytes() == (SHIPPED / path.name).read_bytes(), path.name


def test_each_run_has_its_duration_and_mean(
    built: dict[int, list[PowerProfile]],
) -> None:
    for of_class in EIGHT_GPU_CLASSES:
        profiles = built[of_class.n_nodes]
        assert len(profiles) == 10
        for run, profile in enumerate(profiles):
            assert profile.duration_ms == 1000 * of_class.durations_s[run]
            node_w = profile.mean_power_w / profile.n_nodes
            assert node_w == pytest.approx(of_class.means_w[run], abs=0.1)
            assert node_w == pytest.approx(MEAN_W[profile.n_nodes], rel=0.01)
            assert profile.power_w.min() / profile.n_nodes >= IDLE_W


def test_they_are_marked_as_built_from_published_measurements() -> None:
    library = ProfileLibrary.open("reference-8gpu")
    for entry in library.entries:
        told = entry.provenance
        assert told.kind == "reference"
        assert "Built by diploee from published measurements" in told.notes
        assert "MLPerf Training v4.0" in told.source
        assert (told.gpus_per_node, told.gpu_tdp_w) == (8, 700)
        assert told.power_boundary == PowerBoundary.NODE_AC
        assert told.bandwidth_hz < 0.25
        assert entry.workload == "llama2_70b_lora"


@pytest.mark.slow
@pytest.mark.parametrize("n_nodes", [1, 8])
def test_the_facts_are_those_of_the_logs(n_nodes: int) -> None:
    of_class = next(one for one in EIGHT_GPU_CLASSES if one.n_nodes == n_nodes)
    ac, dc = measured(n_nodes, "ac"), measured(n_nodes, "dc")
    assert [2 * run.size for run in ac] == list(of_class.durations_s)
    for runs, facts_w in ((ac, of_class.means_w), (dc, of_class.dc_means_w)):
        means_w = [run.mean() / n_nodes for run in runs]
        assert means_w == pytest.approx(facts_w, abs=0.06)
    plateau_w = np.concatenate([run[run > 0.95 * run.max()] for run in ac])
    training_w = pytest.approx(of_class.training_w, rel=0.005)
    assert np.median(plateau_w) / n_nodes == training_w


@pytest.mark.slow
@pytest.mark.parametrize("n_nodes", [1, 8])
def test_profiles_are_as_spread_and_as_restless_as_the_runs(
    built: dict[int, list[PowerProfile]], n_nodes: int
) -> None:
    runs = measured(n_nodes, "ac")
    for power in (np.std, lambda power_w: np.std(np.diff(power_w)), np.max):
        found = np.mean([power(profile.power_w) for profile in built[n_nodes]])
        assert found == pytest.approx(np.mean([power(run) for run in runs]), rel=0.2)
    # A run whose log ends early is shifted; its median step is still within 3 %.
    for run, profile in zip(runs, built[n_nodes], strict=True):
        off = np.abs(profile.power_w[: run.size] / run - 1)
        assert np.median(off) < 0.03


@pytest.mark.slow
def test_the_supplies_efficiency_is_that_of_steady_stretches_of_both_sides() -> None:
    ac_w, dc_w = [], []
    for ac, dc in zip(measured(1, "ac"), measured(1, "dc"), strict=True):
        n = min(ac.size, dc.size)
        sides = [
            np.lib.stride_tricks.sliding_window_view(side[:n], 5) for side in (ac, dc)
        ]
        steady = np.ones(n - 4, dtype=bool)
        for side, most in zip(sides, (0.02, 0.05), strict=True):
            steady &= np.ptp(side, axis=1) < most * side.mean(axis=1)
        ac_w.append(sides[0][steady].mean(axis=1))
        dc_w.append(sides[1][steady].mean(axis=1))
    of_ac, of_dc = np.concatenate(ac_w), np.concatenate(dc_w)
    for at_w, efficiency in SUPPLY_EFFICIENCY.items():
        near = np.abs(of_ac - at_w) < 60
        found = of_dc[near].sum() / of_ac[near].sum()
        assert found == pytest.approx(efficiency, abs=0.001)


def test_they_pass_the_check_of_a_library_for_nodes_of_eight() -> None:
    assert check_library("reference-8gpu").n_problems == 0
    assert check_library("reference-8gpu", rated_w=3_520).n_problems > 0


def test_a_finer_run_on_nodes_of_eight_claims_no_more_than_the_readings(
    tmp_path: Path,
) -> None:
    node = "facility.node_types.node"
    changes = {
        "duration": "1 h",
        "resolution": "0.5 s",
        f"{node}.n_gpus": 8,
        f"{node}.idle_power_w": 1_200,
        f"{node}.ac_power": "dlc",
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 200,
        "streams.training.classes": [
            {"workload": "llama2_70b_lora", "n_nodes": n, "probability": 0.5}
            for n in (1, 8)
        ],
    }
    run = simulate(
        tiny_scenario(changes),
        tmp_path / "run",
        profiles=ProfileLibrary.open("reference-8gpu"),
        engine="compiled",
    )
    told = run.metrics["grid"]["bandwidth"]
    assert told["flagged_hz"] < 0.25
    assert told["trusted_hz"] < told["flagged_hz"]
    warnings = run.manifest["warnings"]
    assert any(
        "is finer than the samples of 20 profile(s)" in line for line in warnings
    )
    assert not any("outside the" in line or "scaled" in line for line in warnings)
    power_w = run.facility()["it_power_w"].to_numpy()
    assert (np.diff(power_w) == 0).mean() > 0.4  # steps of 2 s, and nothing in between


def test_both_sides_of_the_facts_agree_with_the_supplies() -> None:
    """On one node; on eight the meters' shared readings leave 98 %, outside of a
    supply's."""
    one = next(of_class for of_class in EIGHT_GPU_CLASSES if of_class.n_nodes == 1)
    ratio = np.array(one.dc_means_w) / np.array(one.means_w)
    assert np.all(np.abs(ratio - 0.971) < 0.003)
