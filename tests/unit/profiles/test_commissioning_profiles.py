"""The shipped commissioning tests against the figures of the appendix that they are
made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import tiny_scenario
from profile_shapes import runs_of

from diploee import run as simulate
from diploee.profiles import ProfileLibrary
from diploee.profiles.check import check_library
from diploee.profiles.looping import find_phases
from diploee.profiles.store import read_profile
from profiles.build.commissioning import build_commissioning_profiles

SHIPPED = Path(__file__).parents[3] / "profiles" / "commissioning"
# Figures 16 to 18: 668.2 W +- 1.4 W a GPU after 150 s, 338.6 W +- 1.0 W a CPU after 11
# s; idle 72.5 and 64.1 W.
LEVELS = {
    "gpu_stress": (4 * 668.2 + 2 * 64.1, 150),
    "cpu_stress": (4 * 72.5 + 2 * 338.6, 11),
    "node_stress": (4 * 668.2 + 2 * 338.6, 150),
    "node_idle": (4 * 72.5 + 2 * 64.1, 0),
}


def test_shipped_files_are_the_built_profiles() -> None:
    built = {profile.profile_id: profile for profile in build_commissioning_profiles()}
    assert {path.stem for path in SHIPPED.glob("*.parquet")} == set(built)
    for path in SHIPPED.glob("*.parquet"):
        shipped = read_profile(path)
        assert np.array_equal(shipped.power_w, built[path.stem].power_w)
        assert shipped.provenance == built[path.stem].provenance


@pytest.mark.parametrize("workload", LEVELS)
def test_a_test_has_its_published_level_once_it_is_warm(workload: str) -> None:
    level_w, warm_up_s = LEVELS[workload]
    profile = ProfileLibrary.open("commissioning").get(f"{workload}-1n-1")
    warm_w = profile.power_w[(30 + warm_up_s) * 10 :].astype(np.float64)
    assert warm_w.mean() == pytest.approx(level_w, abs=2)
    assert np.median(warm_w[:50]) == pytest.approx(level_w, abs=3)
    assert 1 < warm_w.std() < 4
    assert profile.power_w.min() > 400


def test_hpl_solves_twice_at_its_published_power_and_rate() -> None:
    profile = ProfileLibrary.open("commissioning").get("hpl-1n-1")
    solving = profile.power_w > 4 * 690 + 257
    edges = runs_of(solving)
    long = edges[np.diff(edges, axis=1).ravel() > 100]
    assert len(long) == 2
    for (start, end), flops in zip(long, (168.6e12, 169.5e12), strict=True):
        assert (end - start) / 10 == pytest.approx(2 / 3 * 192_000**3 / flops, abs=1.5)
        mean_w = np.mean(profile.power_w[start:end])
        assert mean_w == pytest.approx(4 * 695 + 257, abs=3)


def test_other_libraries_have_none_of_them() -> None:
    own = {profile.workload for profile in ProfileLibrary.open("commissioning").entries}
    for library in ("reference", "reference-8gpu"):
        entries = ProfileLibrary.open(library).entries
        assert not own & {profile.workload for profile in entries}
    checked = check_library("commissioning", rated_w=3_520)  # an idle node is no job
    assert [file.path.stem for file in checked.files if file.problems] == [
        "node_idle-1n-1"
    ]


def test_a_long_stress_test_stays_at_its_level_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "tests.csv"
    log.write_text("submit,run_s,nodes\n2026-03-02T01:00:00,18000,4\n", "utf-8")
    library = ProfileLibrary.open("commissioning")
    assert find_phases(library.get("node_stress-1n-1")).steady_ms > 30_000
    columns = {"submit": "submit", "duration": "run_s", "nodes": "nodes"}
    replay = {"log": str(log), "columns": columns, "align": "date", "repeat": False}
    replay["rules"] = [{"workload": "node_stress"}]
    changes = {
        "start": "2026-03-02",
        "duration": "8 h",
        "resolution": "1 s",
        "facility.node_types.node.idle_power_w": 420,
        "facility.pools.main.n_nodes": 4,
        "streams": {"tests": {"pool": "main", "replay": replay}},
    }
    run = simulate(tiny_scenario(changes), tmp_path / "run", profiles=library)
    power_w = run.facility()["it_power_w"].to_numpy()
    level_w = 4 * LEVELS["node_stress"][0]
    hours = np.arange(power_w.size) / 3600
    burnt_in = power_w[(hours > 1 + 150 / 3600) & (hours < 6 - 1 / 3600)]
    assert burnt_in.min() > 0.97 * level_w and burnt_in.max() < 1.005 * level_w
    assert np.abs(np.diff(burnt_in)).max() < 0.03 * level_w
    assert power_w[hours > 6.01].max() == 4 * 420
