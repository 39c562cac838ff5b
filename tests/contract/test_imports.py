"""No imports go in a circle: at load, in functions or for types."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import diploee

PACKAGE = Path(diploee.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
    if path.name != "__init__.py"
}


def import_object(path: Path) -> set[str]:
    """Return the modules that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(MODULES)


def test_no_imports_go_in_a_circle() -> None:
    edges = {name: import_object(path) for name, path in MODULES.items()}
    assert sum(map(len, edges.values())) > 1_000
    TopologicalSorter(edges).prepare()
