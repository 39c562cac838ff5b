"""Every bad scenario gives one clear line per problem: file, line, key, found, allowed."""  # noqa: E501

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from builders import tiny_data, write_scenario

from diploee.base.errors import ScenarioError
from diploee.scenario import load_scenario, scenario_from_dict

NODES = "facility.pools.main.n_nodes"
STREAM = "streams.training"
TARGET = f"{STREAM}.target_utilization"
MIX = f"{STREAM}.mix"
CLASSES = f"{STREAM}.classes"


def problems_of(data: Any) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as caught:
        scenario_from_dict(data)
    return caught.value.problems


def problem_of(changes: dict[str, Any]) -> str:
    (problem,) = problems_of(tiny_data(changes))
    return problem


WRONG: list[tuple[str, Any, str]] = [
    ("facility.pools", {}, "must be at least 1 long, found an empty group"),
    ("name", "a/b", "must be text that matches ^[A-Za-z0-9]"),
    ("facility.utc_offset", "CET", "must be a UTC offset such as '+00:00'"),
    (f"{STREAM}.pool", "mian", "must be a pool ('main'), found 'mian'; did you mean"),
    (
        "facility.pools.main.node_type",
        "nod",
        "must be a node type ('node'), found 'nod'; did",
    ),
    ("start", "2018-01-01T00:00:00Z", "must be local time in whole milliseconds"),
    ("start", "9999-12-31", "must lie in the years 1900 to 2199, found 9999-12-31"),
    ("duration", "101 years", "and at most 100 years, found 101 years"),
    ("duration", "9999 years", "must lie in the years 1900 to 2199, found 9999 years"),
    ("duration", f"{'9' * 400} years", "must be a number and a unit"),
    ("duration", "0 d", "must be longer than 0"),
    ("duration", "0.0001 ms", "must be at least one interval of the resolution, 60 s"),
    ("duration", "1.5 months", "must be longer than 0, and of whole months or years"),
    ("duration", "-2 d", "and a unit (ms, s, min, h, d, "),
    ("resolution", "0.05 s", "must be a multiple of 0.1 s from 0.1 s to 1 h"),
    ("resolution", "2 h", "must be a multiple of 0.1 s from 0.1 s to 1 h"),
    ("resolution", "7 min", "420 s does not divide the duration of 172800 s (2 d)"),
    (f"{STREAM}.calendar.hour_of_day", [0] * 24, "of which one or more are above 0"),
    (f"{STREAM}.calendar.hour_of_day", [1] * 23, "must be at least 24 long"),
    (f"{CLASSES}.0.n_nodes", 13, "class 'tune/13' needs 13 nodes, pool 'main' has 12"),
]


@pytest.mark.parametrize(
    ("key", "value", "words"), WRONG, ids=[words for *_, words in WRONG]
)
def test_wrong_value_gives_one_line_with_key_found_and_allowed(
    key: str, value: Any, words: str
) -> None:
    problem = problem_of({key: value})
    assert problem.startswith(
        key.removesuffix(".n_nodes") if "needs 13" in words else key
    )
    assert words in problem


def mixed(workload: dict[str, float], n_nodes: dict[int, float]) -> dict[str, Any]:
    return {CLASSES: None, MIX: {"workload": workload, "n_nodes": n_nodes}}


JOBS = f"{STREAM}.jobs_per_day"
PARTS: dict[str, dict[str, Any]] = {
    "the classes must sum to 1, found 1.2": {f"{CLASSES}.0.probability": 0.7},
    "class 'tune/2' is given twice; add up": {f"{CLASSES}.1.n_nodes": 2},
    "give one of 'mix', 'classes', 'replay'": {CLASSES: []},
    "give one of 'target_utilization', 'jobs_per_day'": {TARGET: None},
    "give one of 'target_utilization', ": {JOBS: 5},
    "'match' needs 'target_utilization'": {
        **{JOBS: 5, TARGET: None},
        f"{STREAM}.match": "simulated",
    },
    "workloads must sum to 1, found 0.5": mixed({"a": 0.5}, {1: 1}),
    "node counts must sum to 1, found 0.9": mixed({"a": 1}, {1: 0.9}),
    "class 'a/13' needs 13 nodes, pool 'main'": mixed({"a": 1}, {13: 1}),
}


@pytest.mark.parametrize(("words", "changes"), PARTS.items(), ids=PARTS)
def test_parts_of_a_stream_that_do_not_fit_are_named(
    words: str, changes: dict[str, Any]
) -> None:
    problem = problem_of(changes)
    assert problem.startswith(MIX if MIX in changes else STREAM)
    assert words in problem


@pytest.mark.parametrize("data", [None, 5, "text", [], [1]])
def test_data_that_is_no_mapping_is_refused(data: Any) -> None:
    (problem,) = problems_of(data)
    assert problem.startswith("scenario: must be a group of keys, found ")


def test_what_only_python_can_give_is_refused_in_one_line() -> None:
    for key in (5, None, True, float("nan"), ("a", "b"), b"\xff"):
        (problem,) = problems_of(tiny_data() | {key: 1})
        assert "must be a group of keys that are text, found " in problem
        assert problem.isprintable()
    for key, value in {"name": b"\xff", "start": datetime(1, 1, 1, 5)}.items():
        problem = problem_of({key: value})
        assert problem.startswith(f"{key}: must ") and problem.isprintable()


def test_all_problems_are_reported_at_once_with_file_and_line(tmp_path: Path) -> None:
    month = f"{STREAM}.calendar.month"
    changes = {"seed": -1, NODES: 0, "colour": "red", TARGET: 2, month: [1]}
    path = write_scenario(tmp_path / "tiny.yaml", changes)
    lines = path.read_text("utf-8").splitlines()
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    found = {}
    for problem in caught.value.problems:
        place, _, _ = problem.partition(": ")
        where, _, key = place.partition(" ")
        file, _, number = where.rpartition(":")
        assert file == str(path)
        found[key] = lines[int(number) - 1].strip()
    assert len(caught.value.problems) == len(found) == len(changes)
    for key, line in found.items():
        assert key in changes and line.startswith(f"{key.rpartition('.')[2]}:")


BAD_FILES: list[tuple[str, bytes, str]] = [
    ("empty", b"", ": is empty"),
    ("list", b"- a\n- b\n", ":1: expected keys such as 'name:', found a list of 2"),
    ("text", b"hello\n", ":1: expected keys such as 'name:', found 'hello'"),
    ("bracket", b"name: [1,\n", ":2: not valid YAML: "),
    (
        "two documents",
        b"name: a\n---\nname: b\n",
        ":2: not valid YAML: expected a single document",
    ),
    (
        "duplicate",
        b"name: a\nseed: 1\nname: b\n",
        ":3 name: key given twice (first on line 1)",
    ),
    (
        "tab",
        b"name: x\n\tstart: y\n",
        ":2: not valid YAML: found character '\\t' that cannot start any token; indent "
        "with spaces, not tabs",
    ),
    ("alias", b"name: *a\n", ":1: not valid YAML: found undefined alias 'a'"),
    ("loop", b"name: &a [*a]\n", ":1: not valid YAML: an alias holds itself"),
    ("latin 1", "name: Zürich\n".encode("latin-1"), ": is not UTF-8 text (byte 7)"),
]


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES)
def test_file_that_is_no_scenario_gives_one_line(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}{words}")


def test_all_duplicate_keys_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("name: a\nname: b\nfacility:\n  pools: {}\n  pools: {}\n", "utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert caught.value.problems == (
        f"{path}:2 name: key given twice (first on line 1); remove one",
        f"{path}:5 facility.pools: key given twice (first on line 4); remove one",
    )


def test_folder_and_missing_file_are_named(tmp_path: Path) -> None:
    for place, words in (
        (tmp_path, "is a folder, expected a scenario file"),
        (tmp_path / "nowhere.yaml", r"nowhere\.yaml: no such scenario file or shipped"),
        ("x" * 5_000, "no such scenario file"),
        ("colocation_10nw", "did you mean 'colocation_10mw'"),
    ):
        with pytest.raises(ScenarioError, match=words):
            load_scenario(place)


def test_scenario_without_permission_is_named(
    scenario_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(
        ScenarioError, match=r"tiny\.yaml: can't be read \(Permission denied\)"
    ):
        load_scenario(scenario_file)


def test_number_with_an_exponent_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    text = write_scenario(path).read_text("utf-8")
    path.write_text(text.replace("idle_power_w: 400", "idle_power_w: 4e2"), "utf-8")
    scenario = load_scenario(path)
    assert scenario.facility.node_types["node"].idle_power_w == 400


@pytest.mark.parametrize(
    "duration", ["1234560 s", "123456789000 ms", "2.5 d", "0.1 s", "1 month"]
)
def test_duration_keeps_all_its_digits(duration: str) -> None:
    scenario = scenario_from_dict(
        tiny_data({"duration": duration, "resolution": "0.1 s"})
    )
    assert scenario.duration == duration
    assert scenario_from_dict(scenario.model_dump(mode="json")) == scenario


def test_two_keys_that_are_equally_near_are_both_named() -> None:
    problem = problem_of(
        {"facility.stages": [{"kind": "point_of_interconnection", "contract_mwa": 1}]}
    )
    assert problem.endswith("did you mean 'contract_mw' or 'contract_mva'?")
