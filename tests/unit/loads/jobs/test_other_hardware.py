"""Pools whose GPUs are not those of their profiles: refused in words, or scaled by the
TDP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import profile, tiny_data
from command_line import call

from diploee import Run
from diploee import run as simulate
from diploee.base.errors import ProfileError
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.derived import gpu_tdp_w_by_model
from diploee.scenario import Scenario, scenario_from_dict

NODE, POOL = "facility.node_types.node", "facility.pools.main"
EIGHT_OF_1000 = {f"{NODE}.n_gpus": 8, f"{NODE}.gpu_tdp_w": 1_000}
BY_TDP = {f"{POOL}.scale_profiles": "by_tdp"}
ONE_CLASS = [{"workload": "tune", "n_nodes": 1, "probability": 1}]
SHORT = {"duration": "3 h", "streams.training.classes": ONE_CLASS}


def known(
    name: str = "tune-1n-1", n_gpus: int | None = 4, tdp_w: float = 700.0
) -> PowerProfile:
    course_w = np.random.default_rng(5).integers(500, 2_500, 1_000)
    plain = profile(name, course_w)
    hardware = {
        "gpus_per_node": n_gpus,
        "gpu_tdp_w": tdp_w,
        "gpu_model": "NVIDIA H100 SXM",
    }
    return replace(plain, provenance=replace(plain.provenance, **hardware))


def scenario(changes: dict[str, Any] | None = None) -> Scenario:
    return scenario_from_dict(tiny_data({**SHORT, **(changes or {})}))


def run(folder: Path, changes: dict[str, Any], *profiles: PowerProfile) -> Run:
    library = ProfileLibrary(profiles or [known()])
    return simulate(scenario(changes), folder, profiles=library, engine="compiled")


def test_other_gpus_are_refused_in_one_line_with_both_remedies(tmp_path: Path) -> None:
    words = (
        r"streams.training: class 'tune/1': pool 'main' has nodes with 8 GPUs of "
        r"1,000 W, 1 "
        r"profile such as 'tune-1n-1' are of nodes with 4 GPUs of 700 W; use profiles "
        r"of these "
        r"nodes \(profiles\), or set facility.pools.main.scale_profiles: by_tdp"
    )
    with pytest.raises(ProfileError, match=f"^{words}$"):
        run(tmp_path / "run", EIGHT_OF_1000)
    assert not (tmp_path / "run").exists()


def test_scaled_jobs_draw_in_proportion_to_the_tdp_at_the_same_times(
    tmp_path: Path,
) -> None:
    idle = {f"{NODE}.idle_power_w": 0}
    as_measured = run(tmp_path / "own", idle)
    scaled = run(tmp_path / "scaled", {**idle, **EIGHT_OF_1000, **BY_TDP})
    times = ["submit_time", "start_time", "end_time"]
    assert as_measured.jobs()[times].equals(scaled.jobs()[times])
    own_w, scaled_w = (
        of.facility()["it_power_w"].to_numpy() for of in (as_measured, scaled)
    )
    assert own_w.max() > 0
    assert scaled_w == pytest.approx(own_w * 8_000 / 2_800, rel=1e-6)


def test_manifest_warnings_and_report_say_what_was_scaled(tmp_path: Path) -> None:
    of = run(tmp_path / "run", {**EIGHT_OF_1000, **BY_TDP})
    ((name, entry),) = of.manifest["profiles"].items()
    assert name == "tune-1n-1~tdp-2.85714"
    origin = entry["provenance"]
    assert origin["power_factor"] == pytest.approx(8_000 / 2_800)
    assert origin["kind"] == "reference"
    assert (
        "power scaled by 2.857, the TDP of 8 GPUs of 1,000 W over that of 4"
        in origin["notes"]
    )
    assert (
        of.manifest["scenario"]["facility"]["pools"]["main"]["scale_profiles"]
        == "by_tdp"
    )
    assert [line for line in of.manifest["warnings"] if "scaled by the TDP" in line]
    page = tmp_path / "page.html"
    assert call("report", tmp_path / "run", "-q", "--out", page).code == 0
    assert "1 of other GPUs, scaled by the TDP" in page.read_text("utf-8")


def test_own_hardware_and_unknown_hardware_change_nothing_with_the_key(
    tmp_path: Path,
) -> None:
    for name, of in (
        ("own", known()),
        ("unknown", profile("tune-1n-1", [2_000.0] * 100)),
    ):
        plain = run(tmp_path / f"{name}-plain", {}, of)
        keyed = run(tmp_path / f"{name}-keyed", BY_TDP, of)
        assert plain.facility().equals(keyed.facility())
        assert (
            list(plain.manifest["profiles"])
            == list(keyed.manifest["profiles"])
            == ["tune-1n-1"]
        )


def test_a_factor_of_the_users_own_stands_for_the_hardware(tmp_path: Path) -> None:
    own = run(tmp_path / "own", {**EIGHT_OF_1000, f"{NODE}.busy_power_factor": 2.0})
    assert list(own.manifest["profiles"]) == ["tune-1n-1"]


def test_profiles_of_mixed_hardware_are_scaled_each_by_its_own(tmp_path: Path) -> None:
    mixed = [known(), known("tune-1n-2", 8, 1_000.0)]
    of = run(tmp_path / "run", {**EIGHT_OF_1000, **BY_TDP}, *mixed)
    assert set(of.manifest["profiles"]) == {"tune-1n-1~tdp-2.85714", "tune-1n-2"}


def test_nodes_or_profiles_without_gpus_can_not_be_scaled(tmp_path: Path) -> None:
    with pytest.raises(
        ProfileError, match=r"of 0 GPUs of 700 W can't be scaled by the TDP to 4"
    ):
        run(tmp_path / "run", BY_TDP, known(n_gpus=0))


@pytest.mark.parametrize(
    ("model", "tdp_w"),
    [
        ("NVIDIA H100-SXM5-80GB", 700),
        ("NVIDIA H100 PCIe", 350),
        ("NVIDIA H200-SXM-141GB", 700),
        ("NVIDIA B200-SXM-180GB", 1_000),
        ("AMD Instinct MI300X", None),
        ("", None),
    ],
)
def test_the_tdp_of_known_models(model: str, tdp_w: float | None) -> None:
    assert gpu_tdp_w_by_model(model) == tdp_w
