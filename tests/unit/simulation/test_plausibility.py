"""Warnings of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import TYPICAL_DENVER, checked_site, profile, tiny_library, tiny_scenario
from serving_builders import CODING, serving_data, serving_scenario

from diploee import simulate
from diploee.base.errors import ProfileError
from diploee.profiles import PowerProfile, ProfileLibrary, add_profile
from diploee.profiles.profile import PLUS_CONSTANT, PowerBoundary


def warnings_of(
    tmp_path: Path, library: ProfileLibrary, changes: dict[str, Any]
) -> list[str]:
    run = simulate(
        tiny_scenario({"duration": "1 d", **changes}), tmp_path / "run", library=library
    )
    return run.manifest["warnings"]


def measured(power_profile: PowerProfile) -> PowerProfile:
    return replace(
        power_profile, provenance=replace(power_profile.provenance, kind="measured")
    )


def one_class(workload: str) -> dict[str, Any]:
    classes = [{"workload": workload, "n_nodes": 1, "probability": 1.0}]
    return {"streams.training.classes": classes}


def test_plausible_run_warns_of_nothing(tmp_path: Path) -> None:
    assert (
        warnings_of(
            tmp_path, tiny_library(), {"streams.training.target_utilization": 0.3}
        )
        == []
    )


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_profile_in_the_wrong_unit_is_warned_of(tmp_path: Path, factor: float) -> None:
    wrong = profile("odd-1n-1", [2_000.0 * factor] * 600)
    found = warnings_of(tmp_path, ProfileLibrary([wrong]), one_class("odd"))
    assert any(
        "profile 'odd-1n-1'" in line and "is its power in W" in line for line in found
    )
    assert any("times the rated power" in line for line in found) == (factor > 1)


def test_measured_profiles_that_no_class_uses_are_warned_of(tmp_path: Path) -> None:
    unused = measured(profile("spare-1n-1", [2_000.0] * 60))
    used = profile("odd-1n-1", [2_000.0] * 60)
    found = warnings_of(tmp_path, ProfileLibrary([unused, used]), one_class("odd"))
    assert any("spare-1n-1" in line and "not used" in line for line in found)


def test_profiles_that_include_other_or_unknown_power_are_warned_of(
    tmp_path: Path,
) -> None:
    used = profile("odd-1n-1", [2_000.0] * 60)
    gpus = replace(
        used, provenance=replace(used.provenance, power_boundary="GPUs alone")
    )
    found = warnings_of(tmp_path, ProfileLibrary([gpus]), one_class("odd"))
    assert any("'odd-1n-1'" in line and "(GPUs alone)" in line for line in found)


@pytest.mark.parametrize(
    ("boundary", "ac_power", "words"),
    [
        (
            PowerBoundary.NODE_AC,
            None,
            "idle ones and ratings do not; give their ac_power",
        ),
        (PowerBoundary.NODE_AC, "dlc", ""),
        (
            "AC at the wall",
            "dlc",
            "count twice; if it is the nodes' AC power, import them with",
        ),
        (
            "AC at the wall",
            None,
            "CPU packages; import them with --boundary or --add-w",
        ),
        (
            f"GPUs, {PLUS_CONSTANT} 250 W per node",
            None,
            "count GPUs and CPU packages\n",
        ),
        (PowerBoundary.DEVICES, "dlc", ""),
    ],
)
def test_power_at_the_nodes_inlet_is_warned_of_if_mixed_or_converted_twice(
    tmp_path: Path, boundary: str, ac_power: str | None, words: str
) -> None:
    used = profile("odd-1n-1", [2_000.0] * 60)
    at_inlet = replace(
        used, provenance=replace(used.provenance, power_boundary=boundary)
    )
    changes = {"facility.node_types.node.ac_power": ac_power} if ac_power else {}
    found = warnings_of(
        tmp_path, ProfileLibrary([at_inlet]), {**one_class("odd"), **changes}
    )
    assert [words in f"{line}\n" for line in found if "'odd-1n-1'" in line] == [
        True
    ] * bool(words)


@pytest.mark.parametrize(
    ("hardware", "node", "refused"),
    [
        ({"gpus_per_node": 4, "gpu_tdp_w": 700.0}, {}, False),
        ({"gpus_per_node": None, "gpu_tdp_w": None}, {"n_gpus": 8}, False),
        ({"gpus_per_node": 4, "gpu_tdp_w": None}, {"gpu_tdp_w": 1_000}, False),
        ({"gpus_per_node": 4, "gpu_tdp_w": 700.0}, {"n_gpus": 8}, True),
        ({"gpus_per_node": 4, "gpu_tdp_w": 700.0}, {"gpu_tdp_w": 1_000}, True),
        (
            {"gpus_per_node": 4, "gpu_tdp_w": 700.0},
            {"n_gpus": 8, "busy_power_factor": 2},
            False,
        ),
    ],
)
def test_pool_with_other_gpus_than_its_profiles_is_refused_or_scales_them_by_the_tdp(
    tmp_path: Path, hardware: dict[str, Any], node: dict[str, Any], refused: bool
) -> None:
    used = profile("odd-1n-1", [2_000.0] * 600)
    library = ProfileLibrary(
        [replace(used, provenance=replace(used.provenance, **hardware))]
    )
    changes = {f"facility.node_types.node.{key}": value for key, value in node.items()}
    changes |= one_class("odd")
    if refused:
        with pytest.raises(
            ProfileError, match=r"'odd-1n-1' are of nodes with 4 GPUs of 700 W; us"
        ):
            warnings_of(tmp_path / "refused", library, changes)
    else:
        found = warnings_of(tmp_path / "own", library, changes)
        assert not [line for line in found if "scaled by the TDP" in line]
    changes["facility.pools.main.scale_profiles"] = "by_tdp"
    found = warnings_of(tmp_path / "scaled", library, changes)
    assert len([line for line in found if "scaled by the TDP" in line]) == refused


@pytest.mark.parametrize(
    ("node", "warned"),
    [({}, 0), ({"n_gpus": 8}, 1), ({"n_gpus": 8, "busy_power_factor": 2}, 0)],
)
def test_services_on_other_gpus_than_the_shipped_curves_are_warned_of(
    tmp_path: Path, node: dict[str, Any], warned: int
) -> None:
    (name,) = serving_data()["facility"]["node_types"]
    changes = {
        f"facility.node_types.{name}.{key}": value for key, value in node.items()
    }
    found = simulate(serving_scenario(changes), tmp_path / "run").manifest["warnings"]
    told = [
        line for line in found if "its curves are of nodes with 4 GPUs of 700 W" in line
    ]
    assert min(len(told), 1) == warned


@pytest.mark.parametrize(("rated_mw", "warned"), [(0.042, False), (0.06, True)])
def test_rated_power_at_a_meter_is_warned_to_be_of_the_devices(
    tmp_path: Path, rated_mw: float, warned: bool
) -> None:
    keys = {
        "facility.rated_power_mw": rated_mw,
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": ["point_of_interconnection"],
        "streams.training.target_utilization": 0.3,
    }
    found = warnings_of(tmp_path, tiny_library(), keys)
    assert any("it is of the devices" in line for line in found) == warned


@pytest.mark.parametrize(
    ("rated_mw", "warned"), [(0.04, False), (0.08, False), (42, True)]
)
def test_rated_power_far_above_what_the_nodes_draw_is_warned_of(
    tmp_path: Path, rated_mw: float, warned: bool
) -> None:
    keys = {
        "facility.rated_power_mw": rated_mw,
        "streams.training.target_utilization": 0.3,
    }
    found = warnings_of(tmp_path, tiny_library(), keys)
    told = "facility.rated_power_mw is 42, 994 times what the devices"
    assert [line.startswith(told) for line in found] == [True] * warned


def test_resolution_finer_than_the_samples_is_warned_of(tmp_path: Path) -> None:
    used = profile("odd-1n-1", [2_000.0] * 60)
    fine = {**one_class("odd"), "resolution": "0.5 s", "duration": "1 h"}
    found = warnings_of(tmp_path, ProfileLibrary([used]), fine)
    assert any("resolution 0.5 s is finer than the samples" in line for line in found)


def test_queue_that_only_grows_is_warned_of(tmp_path: Path) -> None:
    load = {
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 20_000,
    }
    assert any(
        "never started" in line for line in warnings_of(tmp_path, tiny_library(), load)
    )


def test_earlier_folder_replaces_the_classes_that_it_holds(tmp_path: Path) -> None:
    add_profile(profile("tune-2n-own", [3_000.0] * 60, n_nodes=2), tmp_path / "own")
    for number in (1, 2):
        add_profile(
            profile(f"tune-2n-{number}", [2_000.0], n_nodes=2), tmp_path / "later"
        )
    add_profile(profile("tune-4n-1", [9_000.0], n_nodes=4), tmp_path / "later")
    library = ProfileLibrary.open(tmp_path / "own", tmp_path / "later")
    assert library.ids == ("tune-2n-own", "tune-4n-1")


def test_weather_that_nothing_follows_is_warned_of(tmp_path: Path) -> None:
    changes = {
        **TYPICAL_DENVER,
        "streams.training.target_utilization": 0.3,
    }
    (warning,) = warnings_of(tmp_path, tiny_library(), changes)
    assert warning.startswith("facility.weather is given, but no cooling")


@pytest.mark.parametrize(
    ("utc_offset", "weather", "warned"),
    [
        ("+01:00", {}, "8 h behind"),
        ("+01:00", {"utc_offset": "+01:00"}, ""),
        ("-06:00", {}, ""),
    ],
)
def test_weather_whose_hours_are_those_of_another_zone_is_warned_of(
    utc_offset: str, weather: dict[str, str], warned: str, tmp_path: Path
) -> None:
    changes = {
        "facility.utc_offset": utc_offset,
        "facility.weather": {"kind": "typical_day", "station": "denver", **weather},
        "streams.training.target_utilization": 0.3,
    }
    warnings = warnings_of(tmp_path, tiny_library(), changes)
    found = [
        line for line in warnings if line.startswith("facility.weather: its hours")
    ]
    assert len(found) == bool(warned)
    assert warned in "".join(found)


CALL = {"id": "a", "start": "2018-01-01 12:00", "end": "2018-01-01 14:00"}


@pytest.mark.parametrize(
    ("flexibility", "tier", "warned"),
    [
        ({"events": [{**CALL, "target": {"fraction": 0.8}}]}, None, True),
        ({"events": [{**CALL, "target": {"fraction": 0.8}}]}, 0, True),
        ({"events": [{**CALL, "target": {"fraction": 0.8}}]}, 1, False),
        (
            {"events": [{**CALL, "target": {"fraction": 0.8}}], "controller": "off"},
            0,
            False,
        ),
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
    assert [
        line.startswith("flexibility.events: no stream may follow") for line in found
    ] == ([True] * warned)


@pytest.mark.parametrize(
    ("answer", "warned"), [(None, True), ({"power_limit": 0.75}, False)]
)
def test_a_service_that_caps_its_gpus_answers_an_event(
    answer: dict[str, Any] | None, warned: bool
) -> None:
    event = {**CALL, "target": {"fraction": 0.8}}
    changes = {"flexibility": {"events": [event]}, f"{CODING}.flexibility": answer}
    found = checked_site(serving_scenario(changes)).warnings
    assert [
        line.endswith("or its services flexibility: {power_limit: 0.75}")
        for line in found
    ] == ([True] * warned)


def test_nodes_of_a_phase_that_start_in_one_instant_are_warned_of(
    tmp_path: Path,
) -> None:
    phases = [
        {"since": "2018-01-01", "n_nodes": 4},
        {"since": "2018-01-01T12:00", "n_nodes": 6},
    ]
    changes = {"facility.pools.main.phases": phases, "facility.pools.main.n_nodes": 6}
    (warning,) = warnings_of(tmp_path, tiny_library(), changes)
    assert (
        "main.phases: 2 nodes start in one instant, 2018-01-01 12:00, where" in warning
    )
