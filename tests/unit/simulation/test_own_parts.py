"""Code of the user's own is named by a run with a hash of what Python runs of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from diploee.simulation.own_parts import code_sha256

SOURCE = """
import functools
import helping
from helping import step
LEVEL, TABLE = 3, {"a": [1, 2.5], "b": {"x"}}
def widest(view): return helper(view, LEVEL) + helping.far(view)
def helper(view, level=1): return [level, TABLE]
class Base:
    def first(self): return 1
class Policy(Base):
    limit = 5
    width = property(lambda self: 7)
    def __init__(self, a=1): self.a = a
    @functools.lru_cache
    def cached(self): return 11
    @staticmethod
    def still(): return 13
    def select(self, view): return [widest(view), step(17), {"p", "q", "r", "s"}]
"""
HELPING = (
    "def far(view): return 19\ndef step(n): return n + 23\ndef unused(): return 29\n"
)


def policy(source: str = SOURCE, helping: str = HELPING) -> Any:
    """Make a policy of source text, as a cell of a notebook does."""
    other = ModuleType("helping")
    exec(helping, other.__dict__)
    sys.modules["helping"] = other
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(source, names)
    return names["Policy"]


CHANGES = {
    "LEVEL, TABLE = 3": "LEVEL, TABLE = 4",
    "[1, 2.5]": "[1, 2.6]",
    'b": {"x"}': 'b": {"y"}',
    "level=1": "level=2",
    "return 1\n": "return 2\n",
    "limit = 5": "limit = 6",
    "self: 7": "self: 8",
    "a=1": "a=2",
    "return 11": "return 12",
    "return 13": "return 14",
    "step(17)": "step(18)",
    '"p", ': "",
    "[level, TABLE]": "[TABLE, level]",
    "helper(view, LEVEL) +": "helper(view) +",
    "class Policy(Base)": "class Policy",
}


@pytest.mark.parametrize("before", CHANGES)
def test_hash_is_another_when_anything_that_runs_has_changed(before: str) -> None:
    assert SOURCE.count(before) == 1
    assert code_sha256(policy(SOURCE.replace(before, CHANGES[before]))) != code_sha256(
        policy()
    )


@pytest.mark.parametrize(
    ("found", "changes"), [("19", True), ("23", True), ("29", False)]
)
def test_hash_follows_the_users_other_modules_as_far_as_they_are_called(
    found: str, changes: bool
) -> None:
    other = code_sha256(policy(helping=HELPING.replace(found, "31")))
    assert (other != code_sha256(policy())) == changes


def test_hash_does_not_depend_on_lines_comments_or_order_of_text() -> None:
    moved = (
        SOURCE.replace("class Base", "# a note\n\nclass Base").replace(
            "def helper(view, level=1): return [level, TABLE]\n", ""
        )
        + "def helper(view, level=1): return [level, TABLE]\n"
    )
    assert code_sha256(policy(moved)) == code_sha256(policy())


def test_hash_of_an_object_has_its_state() -> None:
    of = policy()
    assert code_sha256(of(1)) == code_sha256(of(1)) != code_sha256(of(2))


def test_hash_takes_numpys_masked_constant() -> None:
    one, other = (type("Own", (), {"gap": gap}) for gap in (np.ma.masked, np.nan))
    for own in (one, other):
        own.__module__ = __name__
    assert code_sha256(one) != code_sha256(other)


def test_hash_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "helping.py").write_text(HELPING)
    (tmp_path / "mine.py").write_text(SOURCE)
    program = (
        "import mine; from diploee.simulation.own_parts import code_sha256; "
        "print(code_sha256(mine.Policy))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
