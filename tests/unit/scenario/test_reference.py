"""The reference of every key, and the shipped files against the JSON Schema that it
comes from."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import yaml
from command_line import call
from jsonschema import Draft202012Validator

from diploee.base.errors import ScenarioError
from diploee.base.files.paths import shipped
from diploee.base.model import Model
from diploee.scenario import Scenario, scenario_from_dict
from diploee.scenario.key_reference import markdown_reference
from diploee.sweeps import SweepSpec

SCENARIOS = Path(__file__).parents[3] / "scenarios"
PAGES = {
    "scenario": (SCENARIOS / "REFERENCE.md", ("schema", "--markdown")),
    "sweep": (
        SCENARIOS / "sweeps" / "REFERENCE.md",
        ("schema", "--sweep", "--markdown"),
    ),
    "outputs": (SCENARIOS.parent / "docs" / "OUTPUTS.md", ("schema", "--outputs")),
}
MODELS: dict[str, type[Model]] = {"scenario": Scenario, "sweep": SweepSpec}


def plain_yaml(path: Path) -> Any:
    """Read a file as JSON has it: dates and the keys of mappings are text."""
    return json.loads(json.dumps(yaml.safe_load(path.read_text("utf-8")), default=str))


@cache
def schema_of(kind: str) -> Any:
    """Return the JSON Schema that the command prints; do not change it."""
    schema = json.loads(call("schema", *(["--sweep"] if kind == "sweep" else [])).out)
    Draft202012Validator.check_schema(schema)
    return schema


def models_within(kind: str) -> dict[str, dict[str, Any]]:
    schema = schema_of(kind)
    return {schema["title"]: schema, **schema["$defs"]}


@pytest.mark.parametrize("kind", PAGES)
def test_reference_file_is_what_the_command_prints(kind: str) -> None:
    path, command = PAGES[kind]
    ended = call(*command)
    assert (ended.code, ended.err) == (0, "")
    remedy = (
        f"write it again: diploee {' '.join(command)} > "
        f"{path.relative_to(SCENARIOS.parent)}"
    )
    assert path.read_text("utf-8") == ended.out, remedy


def test_page_of_limits_is_what_its_generator_gives() -> None:
    root = SCENARIOS.parent
    page = run_path(str(root / ".ci" / "pages.py"))["limits_reference"]()
    remedy = "write it again: python .ci/pages.py > docs/LIMITS.md"
    assert (root / "docs" / "LIMITS.md").read_text("utf-8") == page, remedy


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_every_key_has_a_row_with_its_description(kind: str) -> None:
    text = markdown_reference(MODELS[kind], "Title", "command")
    for name, model in models_within(kind).items():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == list(model["properties"]), name
        for row, key in zip(rows, model["properties"].values(), strict=True):
            cells = re.split(r" (?<!\\)\| ", row.strip("| "))
            assert len(cells) == 5
            assert cells[4] == key["description"] != ""
        assert model["additionalProperties"] is False, name


def test_rows_tell_type_default_and_what_is_allowed() -> None:
    lines = markdown_reference(Scenario, "Title", "command").splitlines()
    by_start = {line.split(" | ")[0]: line for line in lines}
    assert (
        "| `resolution` | text | `60 s` | such as `0.1 s`, `60 s`, `1 h` |"
        in "\n".join(lines)
    )
    assert (
        "| `n_gpus` | whole number | **required** | from 0 up to 1,000 | GPUs per "
        "node. |"
    ) in lines
    assert by_start["| `hour_of_week`"].split(" | ")[1:4] == [
        "list of 168 numbers",
        "none",
        "each from 0 up to 1,000,000,000",
    ]
    assert "| text | `list` | `list`, `simulated` |" in by_start["| `match`"]
    assert "At `streams.<name>.calendar`, `request_streams.<name>.calendar`." in lines
    assert "At `streams.<name>.classes.<n>`." in lines


@pytest.mark.parametrize("kind", MODELS)
def test_links_lead_to_a_heading(kind: str) -> None:
    text = markdown_reference(MODELS[kind], "Title", "command")
    headings = {name.lower() for name in re.findall(r"^## (\w+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", text)) <= headings


@pytest.mark.parametrize("kind", MODELS)
def test_shipped_files_fit_the_json_schema(kind: str) -> None:
    validator = Draft202012Validator(schema_of(kind))
    for path in shipped(kind).values():
        assert [
            error.message for error in validator.iter_errors(plain_yaml(path))
        ] == []


def test_json_schema_refuses_what_the_models_refuse() -> None:
    file = shipped("scenario")["colocation_10mw"]
    schema = Draft202012Validator(schema_of("scenario"))
    stream = {"pool": "h100", "calendar": {"month": [1.0]}}
    for changes in (
        {"nodes": 5},
        {"seed": -1},
        {"seed": "five"},
        {"resolution": 60},
        {"facility": {}},
        {"streams": {"training": {"pool": "h100", "match": "both"}}},
        {"streams": {"training": stream}},
    ):
        with pytest.raises(ScenarioError):
            scenario_from_dict(yaml.safe_load(file.read_text("utf-8")) | changes)
        assert not schema.is_valid(plain_yaml(file) | changes), changes
