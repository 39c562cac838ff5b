"""Syntax nodes of each package, without docstrings, beside the budget in `nodes.toml`.

Exits with 1 where a package is above its budget. Nodes are those of `ast.walk`: unlike
lines, they do not shrink when a line gets longer. A budget is raised by hand, in a
commit that says what was gained; no command writes it.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET = Path(__file__).with_name("nodes.toml")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def n_nodes(tree: ast.AST) -> int:
    """Return the number of nodes of a tree.

    A docstring is two of them, and left out.
    """
    nodes = list(ast.walk(tree))
    return len(nodes) - 2 * sum(
        isinstance(node, DOCUMENTED)
        and ast.get_docstring(node, clean=False) is not None
        for node in nodes
    )


def main() -> int:
    """Print nodes and budget of each package; return 1 where one is above it."""
    found: Counter[str] = Counter()
    for top in ("diploee", "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            package, *rest = path.relative_to(ROOT / top).parts
            room = "tests" if top == "tests" else package if rest else "top"
            found[room] += n_nodes(ast.parse(path.read_text(encoding="utf-8")))
    budget = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    for room, nodes in found.most_common():
        mark = "  above its budget: take away, or raise it by hand and say why"
        print(
            f"{room:12}{nodes:9,}{budget.get(room, 0):9,}"
            f"{mark * (nodes > budget.get(room, 0))}"
        )
    print(f"{'diploee':12}{sum(found.values()) - found['tests']:9,}")
    return int(any(nodes > budget.get(room, 0) for room, nodes in found.items()))


if __name__ == "__main__":
    sys.exit(main())
