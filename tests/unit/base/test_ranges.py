"""Ranges of assumed numbers: each has one, beside its default."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from diploee.base.files.paths import shipped
from diploee.base.model import Kinds
from diploee.facility import STAGES
from diploee.scenario import Scenario, load_scenario, scenario_from_dict
from diploee.scenario.loading import get_value, with_value
from diploee.scenario.yaml_lines import dotted_key

NO_DEFAULT_ASSUMED = {
    "RecurringTraining.gpu_idle_power_w": "worked out from other keys where absent",
    "SynchronousJob.spare_nodes": "worked out from other keys where absent",
    "Service.startup_s": "the default is the paper's, advice on others is assumed",
    "Service.instance_utilization": "likewise",
}


def _models(annotation: Any, metadata: Any = ()) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation allows, kinds included."""
    for mark in (*metadata, *getattr(annotation, "__metadata__", ())):
        if isinstance(mark, Kinds):
            yield from mark.by_name.values()
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _fields() -> Iterator[tuple[str, FieldInfo]]:
    """Yield every field of all that a scenario may say, with its name."""
    seen, todo = set[type[BaseModel]](), [Scenario, *STAGES.by_name.values()]
    while todo:
        model = todo.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            todo += _models(field.annotation, field.metadata)
            yield f"{model.__name__}.{name}", field


def _is_number(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return all(map(_is_number, get_args(annotation)))
    if hasattr(annotation, "__metadata__"):
        return _is_number(get_args(annotation)[0])
    return annotation in (int, float, NoneType)


def _range(field: FieldInfo) -> list[float] | None:
    extra: Any = field.json_schema_extra
    return extra.get("range") if isinstance(extra, dict) else None


def test_every_assumed_number_has_a_range() -> None:
    without = [
        name
        for name, field in _fields()
        if "assum" in (field.description or "").lower()
        and not field.is_required()
        and _is_number(field.annotation)
        # Spans of time
        and not any(isinstance(mark, BeforeValidator) for mark in field.metadata)
        and not _range(field)
        and name not in NO_DEFAULT_ASSUMED
    ]
    assert without == [], (
        "declare them with diploee.base.model.uncertain, which asks for the range"
    )


def test_every_default_is_within_its_range() -> None:
    ranged = [(name, field) for name, field in _fields() if _range(field)]
    assert len(ranged) > 90
    for name, field in ranged:
        low, high = _range(field) or (0.0, 0.0)
        assert low < high, name
        assert field.default is None or low <= field.default <= high, name


@pytest.mark.parametrize("name", shipped("scenario"))
def test_a_shipped_scenario_allows_both_ends_of_all_its_ranges(name: str) -> None:
    scenario = load_scenario(name)
    plain = scenario.model_dump(mode="json")
    found = scenario.ranges()
    for end in (0, 1):
        data = plain
        for key, within in found.items():
            is_whole = isinstance(get_value(plain, key), int)
            value = round(within[end]) if is_whole else within[end]
            data = with_value(data, key, value, str)
        changed = scenario_from_dict(data, dotted_key).with_folder(scenario.folder)
        for key in changed.ranges():  # those whose default is this end
            assert get_value(plain, key) == found[key][end]
