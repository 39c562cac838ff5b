"""Whatever YAML a user gives, in whatever place: it is read in bounds, or refused in
one line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import MAX_S

from diploee.base.errors import DiploeeError, ScenarioError, one_line
from diploee.fits.jobs.classes import read_rules
from diploee.grid.limits.file import load_limits
from diploee.integrations.openg2g import load_specs
from diploee.scenario import load_scenario
from diploee.scenario.yaml_lines import load_yaml_with_lines
from diploee.sweeps import load_ensemble, load_sweep

READERS: tuple[Callable[[Path], object], ...] = (
    load_scenario,
    load_sweep,
    load_ensemble,
    load_limits,
    load_specs,
    read_rules,
)


def doubling(n_levels: int, row: str) -> str:
    """Return anchors each of which holds the one before it twice."""
    rows = [row.format(own=n, last=n - 1) for n in range(1, n_levels)]
    return "\n".join(["a0: &a0 {x: 1}", *rows])


DEEP = 2_000
OWN, LAST = "a{own}: &a{own} ", "*a{last}"
BAD_TEXTS = {
    "merge key twice": (
        doubling(40, f"{OWN}{{{{<<: {LAST}, '<<': {LAST}}}}}"),
        "twice",
    ),
    "merged list": (
        doubling(40, f"{OWN}{{{{<<: [{LAST}, {LAST}]}}}}"),
        "more than 20,000",
    ),
    "aliases": (doubling(40, f"{OWN}[{LAST}, {LAST}]"), "more than 20,000 keys"),
    "alias as key": (
        doubling(40, f"{OWN}{{{{? {LAST} : {LAST}}}}}"),
        "unhashable key",
    ),
    "chain of anchors": (
        doubling(DEEP, f"{OWN}{{{{<<: {LAST}}}}}"),
        "nested more than 64",
    ),
    "list in lists": (f"a: {'[' * DEEP}", "nested more than 64 deep"),
    "group in groups": (f"a: {'{b: ' * DEEP}", "nested more than 64 deep"),
    "block in blocks": (
        "\n".join(f"{' ' * n}a:" for n in range(300)),
        "nested more than 64 deep",
    ),
    "time tag": ("b: 1\na: !!timestamp abc", ":2: not valid YAML: tag '!!timestamp'"),
    "type changed": ("a: !!str 5", "tag '!!str' is not read; write the value"),
    "tag of a group": ("a: !!set {b: 1}", "tag '!!set' is not read"),
    "own tag": ("a: !mine 5", "tag '!mine' is not read"),
    "no tag": ("a: ! 5", "tag '!' is not read"),
    "code": ("a: !!python/object/apply:os.getcwd []", "tag '!!python/object/apply:os"),
    "surrogate": ('b: 1\na: "x\\uD800"', r":2: not valid YAML: 'x\ud800' holds a"),
    "surrogate as key": ('"\\uDFFF": 1', "holds a surrogate, half a character"),
    "digits": (f"a: {'9' * 5_000}", "a number of 5,000 digits is out of range"),
    "hex digits": (f"a: 0x{'f' * 5_000}", "a number of 5,002 digits is out of range"),
    "no date": ("a: 2018-13-45", "is no valid value (month must be in 1..12)"),
    "control": ("a: \x1b[31m", r"not text: character '\x1b'"),
}


def refused(read: Callable[[Any], object], given: object) -> str:
    started = time.process_time()
    with pytest.raises(ScenarioError) as caught:
        read(given)
    assert time.process_time() - started < MAX_S
    problems = caught.value.problems
    assert all(problem.isprintable() and len(problem) < 500 for problem in problems)
    return problems[0]


@pytest.mark.parametrize(
    ("read", "name"),
    [
        *((load_scenario, name) for name in BAD_TEXTS),
        *(
            (read, name)
            for read in READERS[1:]
            for name in ("aliases", "own tag", "surrogate")
        ),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_bad_yaml_is_one_line_with_its_file_for_every_reader(
    tmp_path: Path, read: Callable[[Path], object], name: str
) -> None:
    """One loader reads all: the other files are tried with three of the texts."""
    text, words = BAD_TEXTS[name]
    path = tmp_path / "bad.yaml"
    path.write_text(text, "utf-8")
    problem = refused(read, path)
    assert problem.startswith(f"{path}:")
    assert words in problem


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_what_is_no_file_of_text_is_named(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    pipe, large = tmp_path / "pipe.yaml", tmp_path / "large.yaml"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(10**12)
    assert str(pipe) in refused(read, pipe)
    assert f"{large}: has 1,000,000,000,000 bytes, expected a" in refused(read, large)
    assert "none.yaml" in refused(read, tmp_path / "none.yaml")


MANY = 2_000
SPEC = "{model_label: a, model_id: m, gpu_model: H100, task: t, batch_sizes: [8]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "text"),
    [
        (load_specs, f"models: [&a {SPEC},{','.join(['*a'] * (MANY // 4))}]"),
        (load_limits, f"ramps: [{','.join(['{interval: 5}'] * MANY)}]"),
        (read_rules, f"[{','.join(['{wrkload: 5}'] * MANY)}]"),
        (
            load_sweep,
            (
                "base: colocation_10mw\naxes: [grid: "
                f"{{{','.join(f'a.b{k}: [1]' for k in range(MANY))}}}, zip: {{a: [1]}}]"
            ),
        ),
        (load_scenario, "\n".join(f"key{k}: 1" for k in range(MANY))),
    ],
)
def test_file_of_thousands_of_slips_is_refused_soon(
    tmp_path: Path, read: Callable[[Path], object], text: str
) -> None:
    path = tmp_path / "many.yaml"
    path.write_text(text, "utf-8")
    assert refused(read, path).startswith(f"{path}:")


def test_merge_keys_and_aliases_of_honest_size_are_read(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(
        "a: &a {x: 1, y: 2}\nb: &b {<<: *a, y: 3}\nc: {<<: [*b, *a], z: =}\n", "utf-8"
    )
    data, lines = load_yaml_with_lines(path, "keys")
    assert data["c"] == {"x": 1, "y": 3, "z": "="}
    assert lines["c", "z"] == 3


def test_message_of_an_error_is_printable_and_short_whoever_wrote_it() -> None:
    error = DiploeeError(f"a\x1b]0;x\x07\n\u202e\ud800{'b' * 1_000}: give less")
    (problem,) = error.problems
    assert problem.isprintable()
    assert len(problem) < 500
    assert problem.startswith(r"a\x1b]0;x\x07\n\u202e\ud800bbb")
    assert problem.endswith("bbb: give less")
    assert one_line(problem) == problem == str(error)


def test_error_of_many_problems_tells_the_first_and_survives_another_process() -> None:
    import pickle

    error = ScenarioError(f"{n}: bad" for n in range(10**9))
    assert len(error.problems) == 51
    assert error.problems[-1] == "and more problems: mend those above first"
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == error.problems
