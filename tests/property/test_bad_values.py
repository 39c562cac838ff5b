"""Every key of every file that users write, with every value that it may not have: one
line with file, line, key, what must be, and what was found.

What a key may be is read off the committed references, not off the models, so that a
bound or a type that a model loses is seen here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from builders import write_scenario
from command_line import call

from diploee.base.errors import InputError
from diploee.base.model import Choices
from diploee.fits.jobs.arrivals import JobFitOptions
from diploee.grid.limits.file import load_limits
from diploee.importers.power_logs.options import ImportOptions
from diploee.scenario import load_scenario
from diploee.scenario.key_reference import markdown_reference
from diploee.simulation.layout_power import LayoutSpan
from diploee.sweeps import load_sweep

ROOT = Path(__file__).parents[2]
LINE = re.compile(
    r"must (be|have|lie|not|sum|tell) .*, found |unknown |this key is missing|.*: "
    r"this key is missing|.*; |give |.* needs |expected "
)
OF_LIBRARIES = re.compile(
    r"Input should|pydantic|https?:|instance of|type=|Traceback|Value error|function-|"
    r"\[key\]|[╭│╰]"
)
NUMBER = r"-?[\d.,]+(?:e[+-]?\d+)?"
BOUND = re.compile(rf"(from|above|up to|below) ({NUMBER})")

HUGE = [10**350]
SAMPLES: dict[str, list[Any]] = {
    "text": ["5", "x y"],
    "whole number": [7],
    "number": [1.5],
    "not finite": [float("nan"), -float("inf"), *HUGE],
    "truth": [True],
    "date": [date(2018, 1, 1)],
    "list": [[{}]],
    "group": [{"zz": 1}],
}
TAKES = {  # beside itself
    "number": {"whole number"},
    "date": {"text"},
    "[PowerBound](#powerbound)": {"group", "number", "whole number"},
}
MODES = {"ramp_limit", "smoothing_s", "peak_shaving", "demand_charge", "time_of_use"}
BESIDE = {"BatterySpec": {"smoothing_s": 600}}
"""Keys without which the others of a group are not looked at."""


class Key(NamedTuple):
    """A key as the reference has it."""

    name: str
    kind: str
    default: str
    allowed: str

    @property
    def number(self) -> str:
        """Its bounds, if it takes a single number."""
        parts = self.allowed.split("; ")
        return next((part for part in parts if BOUND.search(part)), "")

    @property
    def takes(self) -> set[str]:
        """The kinds of samples that its type leaves open."""
        found: set[str] = set()
        words = self.kind.replace("true or false", "truth")
        for option in words.split(" or "):
            if (
                option == "group of keys"
                or option.endswith(" by name")
                or (option[:1] == "[" and option not in TAKES)
            ):
                found.add("group")
            elif option.startswith("list"):
                return found | {"list"}
            else:
                found |= {option} | TAKES.get(option, set())
        return set(SAMPLES) if "any value" in found else found

    def bounds(self) -> Iterator[tuple[float, float]]:
        """Yield a number that is allowed and one beside it that is not."""
        for words, text in BOUND.findall(self.number):
            limit = float(text.replace(",", ""))
            step = max(abs(limit) * 1e-6, 1e-9) if "whole" not in self.kind else 1
            if "whole" in self.kind:
                limit = int(text.replace(",", ""))
            step = step if words in ("up to", "below") else -step
            is_within = words in ("from", "up to")
            yield (limit, limit + step) if is_within else (limit - step, limit)


class Section(NamedTuple):
    """A model as the reference has it, at the first of its places."""

    title: str
    place: tuple[str, ...]
    keys: dict[str, Key]
    kind: dict[str, str]
    """The key that says which of several it is, with its value; empty where none is."""


def sections_of(text: str) -> dict[str, Section]:
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        places = re.search(r"^At `([^`]*)`", body, re.MULTILINE)
        rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", body, re.MULTILINE)
        cells = ((name, *row.split(" | ")[:3]) for name, row in rows)
        keys = {name: Key(name, *rest) for name, *rest in cells}
        word = next((word for word in ("kind", "distribution") if word in keys), "")
        kind = keys.pop(word, None)
        place = places[1].split(".") if places else ()
        of_kind = {word: kind.allowed.strip("`")} if kind else {}
        found[title] = Section(title, tuple(place), keys, of_kind)
    return found


@cache
def page(kind: str) -> dict[str, Section]:
    match kind:
        case "scenario":
            return sections_of((ROOT / "scenarios/REFERENCE.md").read_text("utf-8"))
        case "sweep":
            text = (ROOT / "scenarios/sweeps/REFERENCE.md").read_text("utf-8")
            return sections_of(text)
    text = (ROOT / "docs/LIMITS.md").read_text("utf-8")
    return sections_of("## Limits\n" + text.partition("## Keys of a file")[2])


READ: dict[str, Callable[[Path], object]] = {
    "scenario": load_scenario,
    "sweep": load_sweep,
    "limits": load_limits,
}
ALL = [
    pytest.param(kind, title, id=f"{kind}-{title}")
    for kind in READ
    for title in page(kind)
]


def chain(kind: str, section: Section, inner: dict[str, Any]) -> dict[str, Any]:
    """Return a file that holds nothing but a group of keys at its place."""
    beside = BESIDE.get(section.title, {})
    data: Any = section.kind | (beside if not MODES & set(inner) else {}) | inner
    for at in range(len(section.place) - 1, -1, -1):
        part, above = section.place[at], section.place[:at]
        if part == "<n>":
            data = [data]
            continue
        data = {"x" if part == "<name>" else part: data}
        below = section.title
        parents = [
            of
            for of in page(kind).values()
            if of.place == above and part in of.keys and of.kind
        ]
        if parents:
            mine = [of for of in parents if f"[{below}]" in of.keys[part].kind]
            data = (mine or parents)[0].kind | data
    return data  # type: ignore[no-any-return]


def problems(
    folder: Path, kind: str, section: Section, inner: dict[str, Any]
) -> tuple[str, list[str]]:
    """Return where the last key stands, and what is said of it or within it."""
    data = chain(kind, section, inner)
    path = folder / "x.yaml"
    text = yaml.safe_dump(data, sort_keys=False)
    path.write_text(text, "utf-8")
    name = list(inner)[-1]
    places = enumerate(text.splitlines(), 1)
    number = [k for k, line in places if line.lstrip(" -").startswith(f"{name}:")][-1]
    parts = ["x" if p == "<name>" else "0" if p == "<n>" else p for p in section.place]
    key = ".".join([*parts, name])
    try:
        READ[kind](path)
    except InputError as error:
        said = list(error.problems)
    else:
        said = []
    for problem in said:
        assert problem.startswith(f"{path}:"), problem
        assert problem.isprintable(), problem
        assert len(problem) <= 490, problem
        assert not OF_LIBRARIES.search(problem), problem
    where = f"{path}:{number} {key}"
    of_key = re.compile(rf"{re.escape(str(path))}:\d+ {re.escape(key)}[.:]")
    return where, [problem for problem in said if of_key.match(problem)]


def check_refused(
    folder: Path, kind: str, section: Section, key: Key, value: Any
) -> None:
    where, said = problems(folder, kind, section, {key.name: value})
    assert said, f"{where}: {value!r} was taken; {key}"
    if len(said) > 1:
        assert isinstance(value, list | dict), said
    for problem in said:
        place, _, text = problem.partition(": ")
        assert place == where or isinstance(value, list | dict), (problem, where)
        assert LINE.match(text), problem


@pytest.mark.parametrize(("kind", "title"), ALL)
def test_value_of_a_wrong_type_is_refused_at_its_key(
    tmp_path: Path, kind: str, title: str
) -> None:
    section = page(kind)[title]
    for key in section.keys.values():
        for sample in SAMPLES.keys() - key.takes:
            for value in SAMPLES[sample]:
                if sample == "list" and "list" in key.takes:
                    continue
                if value in HUGE and "whole" in key.kind and "up to" not in key.number:
                    continue
                check_refused(tmp_path, kind, section, key, value)


@pytest.mark.parametrize(("kind", "title"), ALL)
def test_number_beyond_a_bound_is_refused_and_one_at_it_is_not(
    tmp_path: Path, kind: str, title: str
) -> None:
    section = page(kind)[title]
    for key in section.keys.values():
        for within, beyond in key.bounds():
            shapes: list[Callable[[Any], Any]] = [lambda value: value]
            if key.kind.startswith("list of ") and "number" in key.kind:
                count = re.search(r"\d+", key.kind)
                n = int(count[0]) if count else 1
                shapes = [lambda value, n=n: [1] * (n - 1) + [value]]
            elif key.kind.endswith(" by name"):
                shapes = [lambda value: {"1": value}, lambda value: {"5": value}]
            elif "number" not in key.kind:
                continue
            for shape in shapes:
                inner = {key.name: shape(beyond)}
                _, said = problems(tmp_path, kind, section, inner)
                assert any(
                    re.search(r": must be .*(above|below|at (mo|lea)st) ", p)
                    for p in said
                ), (key, beyond, said)
                inner = {key.name: shape(within)}
                _, said = problems(tmp_path, kind, section, inner)
                assert not [p for p in said if f"{key.name}: must" in p], said


@pytest.mark.parametrize(
    ("kind", "title", "key", "at", "values"),
    [
        ("scenario", "SynchronousJob", "phases", ".0.0", [[-1, "load"], [2, "end"]]),
        (
            "scenario",
            "SynchronousJob",
            "phases",
            ".1.0",
            [[0, "load"], [86_401, "end"]],
        ),
        ("scenario", "SynchronousJob", "phases", ".1.1", [[0, "load"], [1, "ends"]]),
        ("scenario", "SynchronousJob", "phases", "", [[0, "load"]]),
        ("scenario", "ReplicaStream", "amplitude_range", ".0", [-1, 1]),
        ("scenario", "ReplicaStream", "amplitude_range", ".1", [1, 11]),
        ("scenario", "ReplicaStream", "amplitude_range", ".0", [11, 11]),
        ("scenario", "JobArrays", "sizes", ".100001", {100_001: 1}),
        ("sweep", "SweepSpec", "seeds", ".1", [1, 2**63]),
        ("sweep", "SweepSpec", "seeds", ".0", [-1]),
    ],
)
def test_item_of_a_list_is_refused_at_its_place(
    tmp_path: Path, kind: str, title: str, key: str, at: str, values: Any
) -> None:
    where, said = problems(tmp_path, kind, page(kind)[title], {key: values})
    place = re.compile(rf" {re.escape(where.split()[1] + at)}: must be .*, found ")
    assert any(map(place.search, said)), said


@pytest.mark.parametrize(("kind", "title"), ALL)
def test_word_that_is_not_allowed_is_refused_with_the_nearest(
    tmp_path: Path, kind: str, title: str
) -> None:
    section = page(kind)[title]
    for key in section.keys.values():
        words = [
            word
            for word in re.findall(r"`([^`]+)`", key.allowed)
            if "such as" not in key.allowed and "matches" not in key.allowed
        ]
        for word in words:
            value: Any = f"{word}z"
            if key.kind.startswith("list"):
                value = [value]
            if key.kind == "whole number":
                value = 12345
            where, said = problems(tmp_path, kind, section, {key.name: value})
            if not key.kind.startswith("list"):
                assert said[0].startswith(where), said
                assert ", found " in said[0] or ": unknown " in said[0], said


@pytest.mark.parametrize(("kind", "title"), ALL)
def test_key_with_a_slip_is_refused_with_the_nearest(
    tmp_path: Path, kind: str, title: str
) -> None:
    section = page(kind)[title]
    for name in section.keys:
        slip = f"{name}q"
        where, said = problems(tmp_path, kind, section, {slip: 1})
        if title.startswith("Estimate") or section.kind == {"kind": "path"}:
            continue  # its one key says which it is, or it takes keys of users
        assert len(said) == 1, said
        assert said[0].startswith(f"{where}: unknown key '{slip}'"), said
        assert f"did you mean '{name}'" in said[0], said


@pytest.mark.parametrize(("kind", "title"), ALL)
def test_nothing_given_is_taken_or_refused_in_the_same_form(
    tmp_path: Path, kind: str, title: str
) -> None:
    section = page(kind)[title]
    for key in section.keys.values():
        where, said = problems(tmp_path, kind, section, {key.name: None})
        assert len(said) <= 1, said
        if key.default == "**required**":
            assert said[0].startswith(f"{where}: must be "), said
            assert "found null" in said[0], said


OPTIONS: list[type[Choices]] = [JobFitOptions, ImportOptions, LayoutSpan]


@pytest.mark.parametrize("model", OPTIONS)
def test_argument_in_python_is_refused_at_its_name(model: type[Choices]) -> None:
    section = next(iter(sections_of(markdown_reference(model, "", "")).values()))
    for key in section.keys.values():
        bad = [v for sample in SAMPLES.keys() - key.takes for v in SAMPLES[sample]]
        for value in [*bad, *(beyond for _, beyond in key.bounds())]:
            if value in HUGE and "whole" in key.kind and "up to" not in key.number:
                continue
            with pytest.raises(InputError) as caught:
                model(**{key.name: value})
            text = str(caught.value)
            mine = rf"(^|; ){key.name}[.\w]*: must be .*, found "
            assert re.search(mine, text), text
            assert not OF_LIBRARIES.search(text), text
        with pytest.raises(InputError, match=f"did you mean .*{key.name}"):
            model(**{f"{key.name}q": 1})


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("facility.pools.main.n_nodes", "12", "must be a whole number, found '12'"),
        ("streams.training.target_utilization", 2, "must be at most 1, found 2"),
        ("facility.weather", {"kind": "file"}, "path: this key is missing; add it"),
        ("sed", 1, "unknown key 'sed'"),
    ],
)
def test_command_ends_with_2_and_leaves_no_folder(
    tmp_path: Path, key: str, value: Any, text: str
) -> None:
    path = write_scenario(tmp_path / "x.yaml", {key: value})
    ended = call("run", path, "--out", tmp_path / "run")
    assert ended.code == 2
    assert ended.problem.startswith(f"{path}:")
    assert text in ended.problem
    assert not OF_LIBRARIES.search(ended.err)
    assert [file.name for file in tmp_path.iterdir()] == ["x.yaml"]
