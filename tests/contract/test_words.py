"""Names and docstrings of the package: nouns and verbs, as readers expect them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import diploee

PACKAGE = Path(diploee.__file__).parent
BARE = re.compile(
    "_*(about|after|asked|before|behind|beside|beyond|by|drawn|for|from|given|held|into|"
    "joined|judged|kept|known|laid|left|made|of|on|out|put|said|seen|taken|to|told|"
    "under|upon|used|wanted|with|without)",
    re.IGNORECASE,
)
"""Names of functions and classes that are only a preposition or a participle."""
CLAUSE = re.compile(r"((Return|Yield) (how|what|where|which)|How|What|Where|Which)\b")
"""Start of a docstring with a clause in place of a noun or verb."""


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of functions, classes and modules that break a rule, and why."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            name, line = getattr(node, "name", ""), getattr(node, "lineno", 1)
            if BARE.fullmatch(name):
                yield line, f"{name}: add a noun or a verb"
            if CLAUSE.match(text := ast.get_docstring(node) or ""):
                yield line, f"{text.splitlines()[0]!r}: begin with a noun or a verb"


def test_names_have_a_noun_or_verb_and_docstrings_begin_with_one() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {fault}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, fault in faults(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


def test_bare_names_and_opening_clauses_are_faults() -> None:
    source = (
        'def of():\n  """Return the sum."""\n'
        'def total():\n  """Return what was added."""\n'
        'class _Drawn:\n  """Where it is."""\n'
        'def at(time):\n  """Return the value at a time."""\n'
    )
    assert sorted(line for line, _ in faults(source)) == [1, 3, 5, 5]
