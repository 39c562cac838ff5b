"""Warnings of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import TYPICAL_DENVER, checked_site, profile, tiny_library, tiny_scenario
from serving_builders import CODING, serving_data, serving_scenario

from diploee import run as simulate
from diploee.base.errors import ProfileError
from diploee.profiles import ProfileLibrary, add_profile
from diploee.profiles.profile import PLUS_CONSTANT, PowerBoundary

NODE, MAIN = "facility.node_types.node", "facility.pools.main"
UTILIZATION = "streams.training.target_utilization"
ODD = {
    "streams.training.classes": [{"workload": "odd", "n_nodes": 1, "probability": 1.0}]
}
"""All jobs are of the profile of `odd`."""


def odd(power_w: float = 2_000.0, n: int = 60, **origin: Any) -> ProfileLibrary:
    """Return a profile that is the same all the time, of an origin of its own."""
    used = profile("odd-1n-1", [power_w] * n)
    used = replace(used, provenance=replace(used.provenance, **origin))
    return ProfileLibrary([used])


def warnings_of(
    folder: Path, changes: dict[str, Any], library: ProfileLibrary | None = None
) -> list[str]:
    scenario = tiny_scenario({"duration": "1 d", UTILIZATION: 0.3, **changes})
    run = simulate(scenario, folder / "run", profiles=library or tiny_library())
    return run.manifest["warnings"]


def at_meter(rated_mw: float) -> dict[str, Any]:
    return {
        "facility.rated_power_mw": rated_mw,
        f"{NODE}.ac_power": "air_hgx",
        "facility.stages": ["point_of_interconnection"],
    }


def denver(site: str, **weather: str) -> dict[str, Any]:
    typical = {"kind": "typical_day", "station": "denver", **weather}
    return {"facility.utc_offset": site, "facility.weather": typical}


GROWS = [
    {"since": "2018-01-01", "n_nodes": 4},
    {"since": "2018-01-01T12:00", "n_nodes": 6},
]


@pytest.mark.parametrize(
    ("changes", "told", "warned"),
    [
        ({}, "", False),
        (at_meter(0.042), "it is of the devices", False),
        (at_meter(0.06), "it is of the devices", True),
        ({"facility.rated_power_mw": 0.08}, "times what the devices", False),
        ({"facility.rated_power_mw": 42}, "is 42, 994 times what the devices", True),
        (
            {UTILIZATION: None, "streams.training.jobs_per_day": 20_000},
            "never started",
            True,
        ),
        (TYPICAL_DENVER, "facility.weather is given, but no cooling", True),
        (denver("+01:00"), "facility.weather: its hours are 8 h behind", True),
        (denver("+01:00", utc_offset="+01:00"), "facility.weather: its hours", False),
        (denver("-06:00"), "facility.weather: its hours", False),
        (
            {f"{MAIN}.phases": GROWS, f"{MAIN}.n_nodes": 6},
            "main.phases: 2 nodes start in one instant, 2018-01-01 12:00, where",
            True,
        ),
    ],
)
def test_site_that_is_not_plausible_is_warned_of(
    tmp_path: Path, changes: dict[str, Any], told: str, warned: bool
) -> None:
    found = warnings_of(tmp_path, changes)
    assert [told in line for line in found].count(True) == warned, found


@pytest.mark.parametrize(
    ("library", "changes", "told"),
    [
        (odd(2.0), {}, "is its power in W"),
        (odd(2e6), {}, "is its power in W"),
        (odd(2e6), {}, "times the rated power"),
        (odd(power_boundary="GPUs alone"), {}, "(GPUs alone)"),
        (odd(), {"resolution": "0.5 s"}, "0.5 s is finer than the samples"),
    ],
)
def test_profile_that_is_not_plausible_is_warned_of(
    tmp_path: Path, library: ProfileLibrary, changes: dict[str, Any], told: str
) -> None:
    found = warnings_of(tmp_path, {"duration": "1 h", **ODD, **changes}, library)
    assert any(told in line for line in found), found


def test_measured_profiles_that_no_class_uses_are_warned_of(tmp_path: Path) -> None:
    spare = profile("spare-1n-1", [2_000.0] * 60)
    spare = replace(spare, provenance=replace(spare.provenance, kind="measured"))
    library = ProfileLibrary([spare, *odd().entries])
    found = warnings_of(tmp_path, ODD, library)
    assert any("spare-1n-1" in line and "not used" in line for line in found)


@pytest.mark.parametrize(
    ("boundary", "ac_power", "words"),
    [
        (PowerBoundary.NODE_AC, None, "idle ones and ratings do not; give their ac_po"),
        (PowerBoundary.NODE_AC, "dlc", ""),
        ("AC at the wall", "dlc", "count twice; if it is the nodes' AC power, import"),
        ("AC at the wall", None, "packages; import them with --boundary or --add-w"),
        (f"GPUs, {PLUS_CONSTANT} 250 W per node", None, "count GPUs and CPU packages"),
        (PowerBoundary.DEVICES, "dlc", ""),
    ],
)
def test_power_at_the_nodes_inlet_is_warned_of_if_mixed_or_converted_twice(
    tmp_path: Path, boundary: str, ac_power: str | None, words: str
) -> None:
    changes = ODD | ({f"{NODE}.ac_power": ac_power} if ac_power else {})
    found = warnings_of(tmp_path, changes, odd(power_boundary=boundary))
    told = [line for line in found if "'odd-1n-1'" in line]
    assert [words in line for line in told] == [True] * bool(words)


@pytest.mark.parametrize(
    ("gpus", "tdp_w", "node", "refused"),
    [
        (4, 700.0, {}, False),
        (None, None, {"n_gpus": 8}, False),
        (4, None, {"gpu_tdp_w": 1_000}, False),
        (4, 700.0, {"n_gpus": 8}, True),
        (4, 700.0, {"gpu_tdp_w": 1_000}, True),
        (4, 700.0, {"n_gpus": 8, "busy_power_factor": 2}, False),
    ],
)
def test_pool_with_other_gpus_than_its_profiles_is_refused_or_scales_them_by_the_tdp(
    tmp_path: Path,
    gpus: int | None,
    tdp_w: float | None,
    node: dict[str, Any],
    refused: bool,
) -> None:
    library = odd(n=600, gpus_per_node=gpus, gpu_tdp_w=tdp_w)
    changes = ODD | {f"{NODE}.{key}": value for key, value in node.items()}
    if refused:
        words = r"'odd-1n-1' are of nodes with 4 GPUs of 700 W; us"
        with pytest.raises(ProfileError, match=words):
            warnings_of(tmp_path / "refused", changes, library)
    else:
        found = warnings_of(tmp_path / "own", changes, library)
        assert not [line for line in found if "scaled by the TDP" in line]
    scaled = changes | {f"{MAIN}.scale_profiles": "by_tdp"}
    found = warnings_of(tmp_path / "scaled", scaled, library)
    assert len([line for line in found if "scaled by the TDP" in line]) == refused


@pytest.mark.parametrize(
    ("node", "warned"),
    [
        ({}, False),
        ({"n_gpus": 8}, True),
        ({"n_gpus": 8, "busy_power_factor": 2}, False),
    ],
)
def test_services_on_other_gpus_than_the_shipped_curves_are_warned_of(
    tmp_path: Path, node: dict[str, Any], warned: int
) -> None:
    (name,) = serving_data()["facility"]["node_types"]
    changes = {f"facility.node_types.{name}.{k}": value for k, value in node.items()}
    found = simulate(serving_scenario(changes), tmp_path / "run").manifest["warnings"]
    told = "its curves are of nodes with 4 GPUs of 700 W"
    assert any(told in line for line in found) == warned


def test_earlier_folder_replaces_the_classes_that_it_holds(tmp_path: Path) -> None:
    add_profile(profile("tune-2n-own", [3_000.0] * 60, n_nodes=2), tmp_path / "own")
    for name, n_nodes in (("tune-2n-1", 2), ("tune-2n-2", 2), ("tune-4n-1", 4)):
        add_profile(profile(name, [2_000.0], n_nodes=n_nodes), tmp_path / "later")
    library = ProfileLibrary.open(tmp_path / "own", tmp_path / "later")
    assert library.ids == ("tune-2n-own", "tune-4n-1")


EVENT = {
    "id": "a",
    "start": "2018-01-01 12:00",
    "end": "2018-01-01 14:00",
    "target": {"fraction": 0.8},
}


@pytest.mark.parametrize(
    ("flexibility", "tier", "warned"),
    [
        ({"events": [EVENT]}, None, True),
        ({"events": [EVENT]}, 0, True),
        ({"events": [EVENT]}, 1, False),
        ({"events": [EVENT], "controller": "off"}, 0, False),
        ({}, 0, False),
    ],
)
def test_an_event_that_no_stream_may_follow_is_warned_of_before_a_run(
    flexibility: dict[str, Any], tier: int | None, warned: bool
) -> None:
    changes: dict[str, Any] = {"duration": "1 d", "flexibility": flexibility}
    if tier is not None:
        changes["streams.training.flexibility"] = {"tier": tier}
    found = checked_site(tiny_scenario(changes), tiny_library()).warnings
    told = "flexibility.events: no stream may follow"
    assert [line.startswith(told) for line in found] == [True] * warned


@pytest.mark.parametrize(
    ("answer", "warned"), [(None, True), ({"power_limit": 0.75}, False)]
)
def test_a_service_that_caps_its_gpus_answers_an_event(
    answer: dict[str, Any] | None, warned: bool
) -> None:
    changes = {"flexibility": {"events": [EVENT]}, f"{CODING}.flexibility": answer}
    found = checked_site(serving_scenario(changes)).warnings
    told = "or its services flexibility: {power_limit: 0.75}"
    assert [line.endswith(told) for line in found] == [True] * warned
