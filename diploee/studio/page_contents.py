"""Contents of a studio page: form fields, diagram, and commands of its scenario.

A page stores its starting text (the template of `diploee init`, a file, or a text) and
the edits since; all contents are computed from these. Pages share no state.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from diploee.api.sites import starter
from diploee.base.errors import InputError, ScenarioError, plural, shown
from diploee.base.files.paths import shipped, shipped_folder
from diploee.base.model import Model, children, field_marks
from diploee.base.units import MS_PER_DAY
from diploee.base.validation import checked
from diploee.facility.base import STAGES
from diploee.facility.cooling import CoolingSpec
from diploee.scenario.key_reference import Schema, allowed_values, key_type
from diploee.scenario.loading import (
    get_value,
    input_files,
    scenario_from_dict,
    with_overrides,
)
from diploee.scenario.models import Scenario, Size
from diploee.scenario.starter import SiteAnswers
from diploee.scenario.yaml_lines import dotted_key, load_yaml_with_lines, read_value
from diploee.schedule.policy import compiled_engine_for
from diploee.studio.edits import REMOVED, parse_yaml, set_key, set_list, to_flow_yaml

MAX_EDITS, MAX_TEXT_LENGTH, MAX_NAME_COLUMNS = 500, 500_000, 200
MAX_FIRST, MAX_MATCHES = 15, 40
"""Maximum numbers of initial fields of a page and of search results."""

STAGES_KEY, SITE_KEY = "facility.stages.", "site."
COOLING = "cooling"
_ORDER = (
    "pdu",
    "ups",
    COOLING,
    "auxiliary_load",
    "transformers",
    "",
    "point_of_interconnection",
)
"""Order of stage kinds from the nodes to the meter; the empty name is for others."""

_NEW: Mapping[str, Mapping[str, Any]] = {
    "battery": {"power_mw": 1, "energy_mwh": 1, "smoothing_s": 300},
    "generator": {"power_mw": 1, "schedule": [{"from_h": 17, "to_h": 21}]},
}
"""ASSUMPTION: initial values of a stage that needs more than the field that adds it."""

_REMOVES = {
    "battery.power_mw",
    "generator.power_mw",
    "solar.dc_mw",
    "ups.mode",
    COOLING,
}
"""Fields whose empty value removes their stage."""

EQUIPMENT = {
    f"{STAGES_KEY}{COOLING}": "Cooling",
    f"{STAGES_KEY}ups.mode": "UPS",
    f"{STAGES_KEY}battery.power_mw": "Battery power",
    f"{STAGES_KEY}battery.energy_mwh": "Battery energy",
    f"{STAGES_KEY}battery.smoothing_s": "Battery smooths over",
    f"{STAGES_KEY}solar.dc_mw": "Solar panels",
    f"{STAGES_KEY}generator.power_mw": "Generator",
    "limits": "Limits to check",
}
"""Initial equipment fields of any site, after the fields of its tenants."""

_FIRST = (
    r"facility\.pools\.[^.]+\.n_nodes",
    r"streams\.[^.]+\.synchronous\.jobs\.0\.n_nodes",
    r"(request_)?streams\.[^.]+\.target_utilization",
    r"facility\.weather\.station",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LABELS = {
    "poi_mw": "Power at the meter",
    "largest_job": "Largest job, of training",
    "training_share": "Training, share of nodes",
    "occupancy": "Nodes that are busy",
    "colocation_share": "Tenants, share of nodes",
}
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

Key = Annotated[str, Field(min_length=1, max_length=300)]
ValueText = Annotated[str, Field(max_length=20_000)]


class Draft(BaseModel):
    """Scenario that is edited on a page: its starting text, and the edits since."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: Literal["template", "file", "text"] = "template"
    file: str = Field(default="", max_length=300)  # file from which it starts
    text: str = Field(
        default="", max_length=MAX_TEXT_LENGTH
    )  # typed text from which it starts
    edits: tuple[tuple[Key, ValueText], ...] = Field(default=(), max_length=MAX_EDITS)


@dataclass(frozen=True)
class StudioFolder:
    """Folder that a studio reads and writes, with access to shipped files."""

    folder: Path  # resolved

    def resolve_inside(self, name: str | Path) -> Path:
        """Return the real path of a name in the folder; refuse paths outside."""
        try:
            path = (self.folder / name).resolve()
        except (OSError, ValueError, RuntimeError):
            path = Path("/")
        if not path.is_relative_to(self.folder) or len(str(name)) > MAX_NAME_COLUMNS:
            raise InputError(
                f"{shown(str(name))} is outside of {self.folder}, the studio's folder"
            )
        return path

    def scenario_file(self, name: str) -> Path:
        """Return a scenario's path by its name in the folder, or its shipped name."""
        path = shipped("scenario").get(name) or self.resolve_inside(name)
        if path.suffix not in (".yaml", ".yml"):
            raise InputError(
                f"'{name}': expected the name of a YAML file, or of what ships"
            )
        return path

    def files(self, is_limits: bool = False) -> list[str]:
        """Return the names of scenarios in the folder, or of other YAML files."""
        result = [
            p
            for p in self.folder.glob("*.y*ml")
            if p.is_file() and p.stat().st_size < 1e6
        ]
        texts = {p.name: p.read_text("utf-8", "replace") for p in result}
        return sorted(
            n for n, t in texts.items() if ("facility:" in t) is not is_limits
        )


@dataclass(frozen=True)
class OpenedDraft:
    """Draft as YAML text, before validation."""

    draft: Draft
    text: str
    base: str  # the text before the edits
    folder: Path  # folder to which file names are relative
    name: str  # name of its start on a command line
    answers: SiteAnswers

    @property
    def data(self) -> dict[str, Any]:
        """Data of the YAML text."""
        return parse_yaml(self.text)[0]


def checked_scenario(text: str, folder: Path, studio_folder: StudioFolder) -> Scenario:
    """Return the scenario of a YAML text.

    Custom Python code, and files outside the studio's folder, are refused.
    """
    data, _ = parse_yaml(text)
    if code := next(_code_keys(data, ""), None):
        raise ScenarioError(
            [f"{code}: code of your own is not loaded here; use 'diploee run'"]
        )
    scenario = scenario_from_dict(data).with_folder(folder)
    roots = (studio_folder.folder, shipped_folder("scenarios").resolve())
    beside = [name for name in scenario.limits if name not in shipped("limits")]
    for name in (*input_files(scenario), *beside):
        path = (folder / name).resolve()
        if not any(path.is_relative_to(root) for root in roots):
            raise ScenarioError(
                [
                    f"scenario: '{name}' is outside of {studio_folder.folder}; "
                    "move it there"
                ]
            )
    return scenario


def _code_keys(value: Any, at: str) -> Iterator[str]:
    """Yield the keys that name Python code, which a scenario would import."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if (
                key == "path"
                and isinstance(inner, str)
                and _CODE.fullmatch(inner.strip())
            ):
                yield f"{at}{key}"
            yield from _code_keys(inner, f"{at}{key}.")
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from _code_keys(inner, f"{at}{k}.")


@lru_cache(maxsize=64)
def _starter(answers: SiteAnswers, name: str) -> str:
    """Return the text of the starter scenario."""
    return starter(answers, name)[0]


def open_draft(draft: Draft, studio_folder: StudioFolder) -> OpenedDraft:
    """Return a draft's YAML text with its edits applied.

    Errors have a line ``key: message`` for each problem.
    """
    answers, folder, name = SiteAnswers(), studio_folder.folder, draft.file
    edits = [(key, text.strip()) for key, text in draft.edits]
    if draft.start == "template":
        specified = {
            k.removeprefix(SITE_KEY): v
            for k, v in edits
            if k.startswith(SITE_KEY) and v
        }
        is_text = {
            n: f.annotation is not float for n, f in SiteAnswers.model_fields.items()
        }
        answers_data = {
            n: t if is_text.get(n) else read_value(t, SITE_KEY + n)
            for n, t in specified.items()
        }
        answers = checked(
            answers_data, SiteAnswers, lambda at: SITE_KEY + dotted_key(at)
        )
        name = dict(edits).get("name") or "my_site"
        if not _NAME.fullmatch(name):
            raise InputError(
                f"name: expected letters, digits, '_', '.' and '-', found {name!r}"
            )
        base = _starter(answers, name)
    elif draft.start == "file":
        file = studio_folder.scenario_file(draft.file)
        load_yaml_with_lines(file, "keys such as 'name:'")
        base, folder = file.read_text("utf-8"), file.parent
    else:
        base = draft.text
    text = base
    for key, value in edits:
        if not key.startswith(SITE_KEY):
            text = _with_edit(text, key, value)
    return OpenedDraft(draft, text, base, folder, name, answers)


@lru_cache(maxsize=256)
def _with_edit(text: str, key: str, value_text: str) -> str:
    """Return a scenario's text with one key edited.

    Keys name a stage by its index or kind; a missing stage is added.
    """
    value = read_value(value_text, key) if value_text else REMOVED
    kind, _, rest = key.removeprefix(STAGES_KEY).partition(".")
    if not key.startswith(STAGES_KEY) or kind.isdecimal():
        return set_key(text, key, value)
    data, _ = parse_yaml(text)
    stages = list(get_value(data, "facility.stages") or [])
    index = _stage_index(stages, kind)
    if value is REMOVED and key.removeprefix(STAGES_KEY) in _REMOVES:
        stages[index or 0 : (index or 0) + (index is not None)] = []
        return set_list(text, "facility.stages", stages)
    if not rest:
        new_stage = value
    elif index is None:
        new_stage = {"kind": kind, **_NEW.get(kind, {}), rest: value}
        # One hour of storage for the specified power or energy
        if kind == "battery" and "_mw" in rest:
            new_stage |= {"power_mw": value, "energy_mwh": value}
    elif isinstance(stages[index], str):
        new_stage = {"kind": kind, rest: value}
    else:
        return set_key(text, f"{STAGES_KEY}{index}.{rest}", value)
    if value is REMOVED:
        return text
    first = (
        sum(_rank(stage) <= _rank(new_stage) for stage in stages)
        if index is None
        else index
    )
    stages[first : first + (index is not None)] = [new_stage]
    return set_list(text, "facility.stages", stages)


def _stage_index(stages: list[Any], kind: str) -> int | None:
    """Return the index of the first stage of a kind, or None."""
    names = {kind} if kind != COOLING else set(cooling_kinds())
    return next((k for k, stage in enumerate(stages) if _kind(stage) in names), None)


def _kind(stage: Any) -> str:
    return str(stage.get("kind") if isinstance(stage, dict) else stage)


def _rank(stage: Any) -> int:
    """Return a stage's position in `_ORDER`, the order from nodes to meter."""
    kind = COOLING if _kind(stage) in cooling_kinds() else _kind(stage)
    return _ORDER.index(kind if kind in _ORDER else "")


def cooling_kinds() -> list[str]:
    """Return the kinds of cooling that have no required keys."""
    kinds = STAGES.by_name.items()
    return [
        n for n, spec in kinds if issubclass(spec, CoolingSpec) and n != "cooling_table"
    ]


def page_contents(draft: Draft, studio_folder: StudioFolder) -> dict[str, Any]:
    """Return the contents of a page for its draft, or the draft's problems."""
    try:
        site = open_draft(draft, studio_folder)
    except InputError as error:
        return {"problems": _problems_by_field(error, draft, {})}
    data: dict[str, Any] = {}
    try:
        data = site.data
        scenario = checked_scenario(site.text, site.folder, studio_folder)
    except InputError as error:
        return {"text": site.text, "problems": _problems_by_field(error, draft, data)}
    return {
        "text": site.text,
        "problems": [],
        "name": scenario.name,
        "hash": scenario.sha256(),
        "title": _site_title(site, scenario),
        "start": f"{scenario.start:%Y-%m-%d}",
        "duration": scenario.duration,
        "days": scenario.horizon_ms / MS_PER_DAY,
        "line": one_line_diagram(scenario, data),
        "fields": [*_first_fields(site, scenario, studio_folder)],
        **command_and_python(site, scenario),
    }


def _site_title(site: OpenedDraft, scenario: Scenario) -> str:
    """Return a site's name and size, for the captions of its charts."""
    size = site.answers if site.draft.start == "template" else scenario.facility.size
    if size is not None and size.poi_mw is not None:
        return f"{scenario.name}, {size.poi_mw:g} MW at the meter"
    return f"{scenario.name}, {plural(scenario.facility.n_nodes, 'node')}"


def search_keys(
    draft: Draft, studio_folder: StudioFolder, words: str
) -> list[dict[str, Any]]:
    """Return the scenario keys that match all words in name or description.

    Keys of missing equipment come last; setting such a key adds the equipment.
    """
    site = open_draft(draft, studio_folder)
    scenario = checked_scenario(site.text, site.folder, studio_folder)
    written, words_asked = scenario.model_dump(mode="json"), words.lower().split()
    result: list[tuple[int, int, str, Model]] = []
    for key, owner in chain(_plain_keys(scenario, ""), _missing_stage_keys(scenario)):
        text = type(owner).model_fields[key.rpartition(".")[2]].description or ""
        if all(word in f"{key} {text}".lower() for word in words_asked):
            result.append(
                (sum(word not in key for word in words_asked), len(result), key, owner)
            )
    return [
        _form_field(
            key,
            owner,
            key.rpartition(".")[2],
            get_value(written, key),
            get_value(site.data, key) is not None,
        )
        for *_, key, owner in sorted(result)[:MAX_MATCHES]
    ]


def _problems_by_field(
    error: InputError, draft: Draft, data: dict[str, Any]
) -> list[dict[str, str]]:
    """Return the problems of an error, each with the edited field that caused it."""
    ids = {_indexed_key(key, data): key for key, _ in draft.edits}
    result = []
    for problem in error.problems:
        where, _, message = problem.partition(": ")
        names = [key for key in ids if where == key or where.startswith(f"{key}.")]
        names = names or [key for key in ids if key.startswith(f"{where}.")]
        field = ids[max(names, key=len)] if names else ""
        result.append({"field": field, "key": where, "message": message or problem})
    return result


def _indexed_key(key: str, data: dict[str, Any]) -> str:
    """Return a key with the index of a stage in place of its kind."""
    kind, dot, rest = key.removeprefix(STAGES_KEY).partition(".")
    if not key.startswith(STAGES_KEY) or kind.isdecimal():
        return key
    at = _stage_index(list(get_value(data, "facility.stages") or []), kind)
    return key if at is None else f"{STAGES_KEY}{at}{dot}{rest}"


def _plain_keys(value: Any, at: str) -> Iterator[tuple[str, Model]]:
    """Yield each key with a plain value, and its model."""
    for key, inner, owner, _ in children(value, at):
        within = list(inner.values()) if isinstance(inner, Mapping) else inner
        parts = within if isinstance(within, list | tuple) else [within]
        if any(isinstance(part, Model) for part in parts):
            yield from _plain_keys(inner, key)
        elif owner is not None:
            yield key.lstrip("."), owner


def _missing_stage_keys(scenario: Scenario) -> Iterator[tuple[str, Model]]:
    """Yield the keys of stage kinds that a scenario lacks."""
    present_kinds = {stage.kind for stage in scenario.facility.stages}
    for kind, spec in STAGES.by_name.items():
        stage: Any = spec.model_construct(kind=kind)
        names = [
            name
            for name in spec.model_fields
            if name != "kind" and kind not in present_kinds
        ]
        yield from ((f"{STAGES_KEY}{kind}.{name}", stage) for name in names)


def _first_fields(
    site: OpenedDraft, scenario: Scenario, studio_folder: StudioFolder
) -> Iterator[dict[str, Any]]:
    """Yield the initial fields of a page: tenants of the site, and equipment."""
    data, written = site.data, scenario.model_dump(mode="json")
    if site.draft.start == "template":
        for name in SiteAnswers.model_fields:
            result = _form_field(
                SITE_KEY + name, site.answers, name, getattr(site.answers, name), True
            )
            yield result | {
                "label": _LABELS.get(name, name.replace("_", " ").capitalize())
            }
    else:
        key = "facility.size.poi_mw"
        size = scenario.facility.size or Size.model_construct()
        result = _form_field(key, size, "poi_mw", get_value(data, key), True)
        yield result | {"label": _LABELS["poi_mw"]}
        keys = dict(_plain_keys(scenario, ""))
        keys_to_show = [
            key for pattern in _FIRST for key in keys if re.fullmatch(pattern, key)
        ]
        for key in keys_to_show[: MAX_FIRST - 1 - len(EQUIPMENT)]:
            *path, name = key.split(".")
            label = " ".join([*path[1:], name]).replace("_", " ")
            yield _form_field(key, keys[key], name, get_value(written, key), True) | {
                "label": label
            }
    stages = scenario.facility.stages
    for key, label in EQUIPMENT.items():
        kind, _, name = key.removeprefix(STAGES_KEY).partition(".")
        at = _stage_index([stage.kind for stage in stages], kind)
        if key == "limits":
            result = _form_field(key, scenario, key, written.get(key) or None, True)
            names = [*shipped("limits"), *studio_folder.files(is_limits=True)]
            result |= {
                "choices": ["", *(f"[{name}]" for name in names)],
                "closed": True,
            }
        elif kind == COOLING:
            result = _form_field(
                key, scenario.facility, "stages", at and stages[at].kind, True
            )
            result |= {
                "choices": ["", *cooling_kinds()],
                "closed": True,
                "assumed": False,
            }
            result["text"] = (
                "How heat leaves the site; its own keys are found by search."
            )
        else:
            spec: Any = (
                STAGES.by_name[kind].model_construct(kind=kind)
                if at is None
                else stages[at]
            )
            value = (
                None if at is None else get_value(written, f"{STAGES_KEY}{at}.{name}")
            )
            result = _form_field(key, spec, name, value, at is not None)
            if key.removeprefix(STAGES_KEY) in _REMOVES:
                result["text"] += " Empty: none."
                result["choices"] = result["choices"] and ["", *result["choices"]]
        yield result | {"label": label}


def _form_field(
    key: str, owner: Model, name: str, value: Any, given: bool
) -> dict[str, Any]:
    """Return a key as a form field, from the declaration in its model."""
    field, key_schema = (
        type(owner).model_fields[name],
        _schema(type(owner))["properties"][name],
    )
    text, marks = field.description or "", field_marks(field)
    choices, default = _allowed_values(key_schema), key_schema.get("default")
    return {
        "key": key,
        "label": key,
        "given": given,
        "unit": _key_unit(name, text),
        "text": text,
        "value": "" if value is None else to_flow_yaml(value),
        "default": "" if default in (None, "", [], {}) else to_flow_yaml(default),
        "type": re.sub(r"\[(\w+)\]\(#\w+\)", r"\1", key_type(key_schema)),
        "allowed": allowed_values(key_schema).replace("`", "") if not choices else "",
        "range": marks.get("range"),
        "assumed": marks.get("assumed", False),
        "choices": choices,
        "closed": bool(choices),
    }


def _key_unit(name: str, text: str) -> str:
    """Return the unit of a key, from its description or the suffix of its name."""
    units = re.findall(r"\[([^\[\]]+)\]", text)
    return units[-1] if units else "s" if name.endswith("_s") else ""


def _allowed_values(key_schema: Schema) -> list[str]:
    """Return the allowed values of a key that only takes literals."""
    options = key_schema.get("anyOf") or key_schema.get("oneOf") or [key_schema]
    if key_schema.get("type") == "boolean":
        return ["true", "false"]
    words: list[str] = []
    for option in options:
        values = option.get("enum") or ([option["const"]] if "const" in option else [])
        if not values and option.get("type") != "null":
            return []
        words += map(str, values)
    return ["", *words] if {"type": "null"} in options else words


@lru_cache(maxsize=256)
def _schema(model: type[Model]) -> Schema:
    return model.model_json_schema()


def one_line_diagram(scenario: Scenario, data: dict[str, Any]) -> dict[str, Any]:
    """Return the one-line diagram: pools with loads, then stages up to the meter."""
    facility, specified = scenario.facility, get_value(data, "facility.stages") or []
    kinds = (scenario.streams, scenario.request_streams, scenario.replica_streams)
    at = [(name, stream.pool) for streams in kinds for name, stream in streams.items()]
    pools = [
        {
            "key": f"facility.pools.{name}.",
            "name": name,
            "loads": [s for s, of in at if of == name],
            "text": f"{pool.n_nodes:,} nodes, {pool.n_nodes / facility.n_nodes:.0%}",
        }
        for name, pool in facility.pools.items()
    ]
    stages = [
        {
            "key": f"{STAGES_KEY}{k}.",
            "name": stage.kind.replace("_", " "),
            "text": _settings_text(stage, specified[k] if k < len(specified) else None),
        }
        for k, stage in enumerate(facility.stages)
    ]
    return {"pools": pools, "stages": stages}


def _settings_text(stage: Any, specified: Any) -> str:
    """Return the first specified settings of a stage as text, with units."""
    texts = []
    for key, value in specified.items() if isinstance(specified, dict) else ():
        if key != "kind" and isinstance(value, str | int | float):
            field = type(stage).model_fields.get(key)
            unit = _key_unit(key, (field and field.description) or "")
            texts.append(f"{value} {unit}".strip().replace("_", " "))
    return ", ".join(texts[:2])


def command_and_python(site: OpenedDraft, scenario: Scenario) -> dict[str, str]:
    """Return the command line and the Python code that run the scenario."""
    base, _ = parse_yaml(site.base)
    changes = dict(_changed_keys(base, site.data, ""))
    policies = [pool.scheduler.open() for pool in scenario.facility.pools.values()]
    compiled = scenario.flexibility is None and all(map(compiled_engine_for, policies))
    lines, name = [], site.name
    if site.draft.start == "template":
        given = site.answers.model_dump(exclude_defaults=True)
        options = [
            w for n, v in given.items() for w in (f"--{n.replace('_', '-')}", f"{v}")
        ]
        name = f"{name}.yaml"
        lines.append(
            shlex.join(["diploee", "init", *options, "--defaults", "--out", name])
        )
    if site.draft.start == "text" or not _is_same_scenario(base, changes, scenario):
        lines, changes, name = [], {}, f"{scenario.name}.yaml"
    sets = [
        w
        for key, value in changes.items()
        for w in ("--set", f"{key}={to_flow_yaml(value)}")
    ]
    engine = ["--engine", "compiled"] if compiled else []
    lines.append(shlex.join(["diploee", "run", name, *engine, *sets]))
    arguments = [repr(name), *(["engine='compiled'"] if compiled else [])]
    values = {
        k: to_flow_yaml(v) if isinstance(v, date) else v for k, v in changes.items()
    }
    arguments += [f"values={values!r}"] if values else []
    python = (
        f"import diploee\n\nrun = diploee.run({', '.join(arguments)})\nrun.report()\n"
    )
    if name not in shipped("scenario"):
        python = f"# {name}: as saved, or as 'diploee init' writes it\n{python}"
    return {"command": "\n".join(lines), "python": python}


def _is_same_scenario(
    base: dict[str, Any], changes: dict[str, Any], scenario: Scenario
) -> bool:
    """Return True if a base file with changed keys is the same scenario."""
    try:
        data, _ = with_overrides(
            base, [f"{key}={to_flow_yaml(value)}" for key, value in changes.items()]
        )
        return scenario_from_dict(data).sha256() == scenario.sha256()
    except InputError:
        return False


def _changed_keys(old: Any, new: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys that differ between two scenarios, with new values.

    Lists of different length count as one key.
    """
    if old == new:
        return
    if (
        isinstance(old, dict)
        and isinstance(new, dict)
        and not any("." in str(k) for k in new)
    ):
        for key in {**old, **new}:
            yield from _changed_keys(
                old.get(key), new.get(key), f"{at}.{key}".lstrip(".")
            )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for k, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changed_keys(before, after, f"{at}.{k}")
    else:
        yield at, new


def week_text(text: str, start: str) -> str:
    """Return a scenario's text for one week, without limits.

    Compliance results are only valid for the whole period.
    """
    data = {**parse_yaml(text)[0], "duration": "7 d"}
    data |= {"start": read_value(start, "start")} if start else {}
    return to_flow_yaml({key: value for key, value in data.items() if key != "limits"})
