"""The examples of the architecture page run as they stand, one file's worth each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import tiny_library, tiny_scenario

from diploee import simulate
from diploee.importers import JOB_LOG_FORMATS
from diploee.metrics import MEASURES
from diploee.metrics.limits import LIMITS, Limits
from diploee.outputs.export import FORMATS
from diploee.scenario import SCHEDULERS, Scenario

PAGE = Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


@pytest.fixture
def registries_as_before() -> Iterator[None]:
    kept = [
        (JOB_LOG_FORMATS, "_formats", dict(JOB_LOG_FORMATS)),
        (FORMATS, "_formats", dict(FORMATS)),
        (SCHEDULERS, "_added", {}),
        (LIMITS, "_added", {}),
        (MEASURES, "_formats", {}),
    ]
    yield
    for registry, attribute, before in kept:
        setattr(registry, attribute, before)
    Limits.model_fields.pop("travel", None)
    Limits.model_rebuild(force=True)


def with_values(scenario: Scenario, values: dict[str, object]) -> Scenario:
    return tiny_scenario({"duration": "1 d", **values})


def test_a_load_a_stage_a_policy_a_measure_a_log_format_and_an_export_are_added_in_one_place_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registries_as_before: None
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) == 7
    assert all(len(example.splitlines()) <= 45 for example in EXAMPLES)
    names = {
        "simulate": simulate,
        "scenario": tiny_scenario({"duration": "1 d"}),
        "library": tiny_library(),
        "with_values": with_values,
    }
    for example in EXAMPLES:
        exec(compile(example, str(PAGE), "exec", dont_inherit=True), names)
