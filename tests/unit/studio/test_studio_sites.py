"""A page's draft: fields from the schema, problems at their field, and what is taken
away."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from diploee.base.errors import InputError, ScenarioError
from diploee.facility import STAGES
from diploee.scenario import load_scenario, scenario_from_dict
from diploee.scenario.starter import SiteAnswers
from diploee.studio.edits import parse_yaml
from diploee.studio.page_contents import (
    EQUIPMENT,
    MAX_FIRST,
    Draft,
    StudioFolder,
    checked_scenario,
    open_draft,
    page_contents,
    search_keys,
    week_text,
)

FILE = {"start": "file", "file": "colocation_10mw_poi"}
BATTERY = ("facility.stages.battery.power_mw", "0.5")


@pytest.fixture
def place(tmp_path: Path) -> StudioFolder:
    """A folder of its own."""
    return StudioFolder(tmp_path.resolve())


def shown(place: StudioFolder, *edits: tuple[str, str], **start: Any) -> dict[str, Any]:
    """Return the state of a draft of what ships, the quickest to check."""
    return page_contents(Draft(edits=edits, **(start or FILE)), place)


def field_of(found: dict[str, Any], key: str) -> dict[str, Any]:
    return next(field for field in found["fields"] if field["key"] == key)


def line_of(found: dict[str, Any]) -> list[str]:
    return [stage["name"] for stage in found["line"]["stages"]]


def test_first_fields_are_the_questions_of_the_template_and_its_equipment(
    place: StudioFolder,
) -> None:
    found = shown(place, start="template")
    keys = [field["key"] for field in found["fields"]]
    assert keys == [*(f"site.{name}" for name in SiteAnswers.model_fields), *EQUIPMENT]
    assert len(keys) == MAX_FIRST
    assert found["problems"] == []


def test_field_says_unit_default_range_and_what_is_assumed_as_its_model_declares(
    place: StudioFolder,
) -> None:
    draft = Draft(edits=(BATTERY,), **FILE)
    (found,) = search_keys(draft, place, "charge_efficiency discharge")
    spec = STAGES.by_name["battery"].model_fields["discharge_efficiency"]
    assert (found["default"], found["given"]) == (str(spec.default), False)
    assert (found["range"], found["assumed"]) == (spec.json_schema_extra["range"], True)  # type: ignore[call-overload,index]
    assert found["text"] == spec.description
    power = field_of(page_contents(draft, place), BATTERY[0])
    assert (power["value"], power["unit"]) == ("0.5", "MW")


def test_search_finds_keys_by_name_and_by_description(place: StudioFolder) -> None:
    draft = Draft(**FILE)
    assert search_keys(draft, place, "seed")[0]["key"] == "seed"
    by_text = [field["key"] for field in search_keys(draft, place, "length of the run")]
    assert "duration" in by_text
    assert search_keys(draft, place, "no such words") == []


def test_search_finds_equipment_that_is_not_there_and_setting_its_key_adds_it(
    place: StudioFolder,
) -> None:
    (found, *_) = search_keys(Draft(**FILE), place, "ramp_limit up_mw_per_min")
    key = "facility.stages.ramp_limit.up_mw_per_min"
    assert (found["key"], found["value"]) == (key, "")
    assert "ramp limit" in line_of(shown(place, (key, "2")))


def test_equipment_joins_and_leaves_the_line_at_its_place(place: StudioFolder) -> None:
    before = shown(place)
    *inner, meter = line_of(before)
    found = shown(place, BATTERY, ("facility.stages.cooling", "wse"))
    changed = ["wse" if name == "dlc tower" else name for name in inner]
    assert line_of(found) == [*changed, "battery", meter]
    back = shown(place, BATTERY, (BATTERY[0], ""))
    assert line_of(back) == [*inner, meter]
    assert back["hash"] == before["hash"]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("facility.stages.battery.power_mw", "x"), "must be a number, found 'x'"),
        (("facility.stages.ups.mode", "ecco"), "'eco'"),
        (("seed", "[1"), "not valid YAML"),
    ],
)
def test_problem_is_at_the_field_that_made_it(
    edit: tuple[str, str], words: str, place: StudioFolder
) -> None:
    problems = shown(place, edit)["problems"]
    assert words in next(p["message"] for p in problems if p["field"] == edit[0])


def test_problem_of_an_answer_is_at_the_question(place: StudioFolder) -> None:
    (problem,) = shown(place, ("site.poi_mw", "-1"), start="template")["problems"]
    assert problem["field"] == "site.poi_mw"
    assert "above 0" in problem["message"]


EDITS = [
    ("seed", "7"),
    BATTERY,
    ("facility.stages.ups.mode", "eco"),
    ("duration", "2 weeks"),
]


def test_command_and_python_run_what_the_page_shows(place: StudioFolder) -> None:
    found = shown(place, *EDITS)
    words = shlex.split(found["command"])
    assert words[:3] == ["diploee", "run", "colocation_10mw_poi"]
    sets = [after for word, after in pairwise(words) if word == "--set"]
    assert load_scenario(words[2], sets).sha256() == found["hash"]
    calls: list[Any] = []
    text = found["python"].replace("import diploee", "").replace("run.report()", "")
    exec(
        text, {"diploee": type("D", (), {"run": lambda *a, **k: calls.append((a, k))})}
    )
    ((name,), options) = calls[0]
    assert load_scenario(name, values=options["values"]).sha256() == found["hash"]


def test_text_is_the_file_with_its_comments_and_gives_the_same_scenario(
    place: StudioFolder,
) -> None:
    found = shown(place, *EDITS)
    assert scenario_from_dict(parse_yaml(found["text"])[0]).sha256() == found["hash"]
    given = open_draft(Draft(**FILE), place).text.splitlines()
    kept = [line for line in given if line in found["text"].splitlines()]
    assert len(given) - len(kept) <= len(EDITS)


def test_template_is_what_init_writes(place: StudioFolder, tmp_path: Path) -> None:
    from command_line import call

    found = shown(place, ("site.poi_mw", "3"), start="template")
    first, second = found["command"].splitlines()
    words = shlex.split(first)
    assert call(*words[1:-1], tmp_path / "my_site.yaml").code == 0
    assert (tmp_path / "my_site.yaml").read_text("utf-8") == found["text"]
    assert second.startswith("diploee run my_site.yaml")


def test_week_changes_span_and_limits_alone(place: StudioFolder) -> None:
    text = shown(place, ("limits", "[ieso_3_0]"))["text"]
    whole, week = parse_yaml(text)[0], parse_yaml(week_text(text, "2018-07-02"))[0]
    changed = {key for key in {**whole, **week} if whole.get(key) != week.get(key)}
    assert changed == {"start", "duration", "limits"}
    assert "limits" not in week


@pytest.mark.parametrize("name", ["../secret.yaml", "link.yaml", "a\0.yaml", "x.txt"])
def test_file_outside_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("name: secret\n", "utf-8")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (inner / "x.txt").write_text("name: x\n", "utf-8")
    with pytest.raises(InputError):
        open_draft(Draft(start="file", file=name), StudioFolder(inner.resolve()))


@pytest.mark.parametrize(
    "edit",
    [
        ("facility.weather", "{kind: file, path: /etc/passwd}"),
        ("facility.weather", "{kind: file, path: ../x.epw}"),
        ("limits", "[/etc/passwd]"),
        ("limits", "[../x.yaml]"),
    ],
)
def test_scenario_names_no_file_outside_of_the_folder(
    edit: tuple[str, str], place: StudioFolder
) -> None:
    found = shown(place, edit, start="text", text=open_draft(Draft(**FILE), place).text)
    assert "outside of" in found["problems"][0]["message"]


@pytest.mark.parametrize("kind", ["", "kind: path, "])
def test_scenario_loads_no_code(
    kind: str, place: StudioFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.folder / "planted_module.py").write_text("raise SystemExit\n", "utf-8")
    monkeypatch.syspath_prepend(place.folder)
    signal = f"{{{kind}path: 'planted_module:Thing'}}"
    draft = Draft(edits=(("replica_streams.x.controller", signal),), **FILE)
    with pytest.raises(ScenarioError, match="code of your own"):
        checked_scenario(open_draft(draft, place).text, place.folder, place)


def test_name_of_a_template_is_a_name_alone(place: StudioFolder) -> None:
    (problem,) = shown(place, ("name", "x\nstreams: 1"), start="template")["problems"]
    assert problem["field"] == "name"
