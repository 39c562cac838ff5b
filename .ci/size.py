"""Sizes of each package beside the table in `size.toml`; exits with 1 where one is 5 % above it.

`just size` prints lines, files, public names (those of the fronts, see `diploee/fronts.py`) and the
number of other packages imported. `just size --write` writes the table, in a commit that says what
was gained.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("size.toml")
PACKAGE = "diploee"
MEASURES = ("lines", "files", "names", "edges")
ROOM = 1.05


def package_of(module: str) -> str:
    """Return the package right below the top one; ``base`` for the modules there."""
    parts = module.split(".")
    is_package = len(parts) > 1 and (ROOT / PACKAGE / parts[1]).is_dir()
    return parts[1] if is_package else "base"


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield each module of the package that a module imports, lazy imports too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def public(tree: ast.Module) -> list[ast.alias]:
    """Return the names of a front: what its ``if TYPE_CHECKING:`` imports."""
    blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
    return [name for body in blocks for node in body for name in getattr(node, "names", ())]


def sizes() -> dict[str, dict[str, int]]:
    """Return the measures of each package of `diploee`, and lines and files of the tests."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(MEASURES, 0))
    edges = defaultdict(set)
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        package = package_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
        row = found[package]
        row["lines"] += text.count("\n")
        row["files"] += 1
        row["names"] += len(public(tree)) if path.name == "__init__.py" else 0
        edges[package] |= {package_of(m) for m in imported(tree) if m.split(".")[0] == PACKAGE}
    for package, others in edges.items():
        found[package]["edges"] = len(others - {package})
    for path in (ROOT / "tests").rglob("*.py"):
        found["tests"]["lines"] += path.read_text(encoding="utf-8").count("\n")
        found["tests"]["files"] += 1
    return dict(found)


def main() -> int:
    """Print the sizes; return 1 where one is above the table."""
    now = sizes()
    if "--write" in sys.argv:
        rows = (
            f"{package} = {{ " + ", ".join(f"{m} = {row[m]}" for m in MEASURES) + " }"
            for package, row in sorted(now.items())
        )
        TABLE.write_text("# Written by `just size --write`.\n" + "\n".join(rows) + "\n")
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    print(f"{'':12}" + "".join(f"{measure:>18}" for measure in MEASURES))
    above = []
    for package, row in sorted(now.items(), key=lambda item: -item[1]["lines"]):
        kept = table.get(package, dict.fromkeys(MEASURES, 0))
        cells = (f"{row[m]:,} ({kept[m]:,})" for m in MEASURES)
        print(f"{package:12}" + "".join(f"{cell:>18}" for cell in cells))
        above += [f"{package}: {row[m]:,} {m}, {kept[m]:,} in the table"
                  for m in MEASURES if row[m] > ROOM * kept[m]]  # fmt: skip
    total = sum(row["lines"] for package, row in now.items() if package != "tests")
    print(f"{PACKAGE}: {total:,} lines")
    for line in above:
        print(f"5 % above the table: {line}; take away, or `just size --write` and say why")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
