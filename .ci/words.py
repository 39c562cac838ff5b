"""Words that this house does not write, found in its text.

Exits with 1 where there are any. Text is what people read: docstrings, comments and
strings of the package, pages, notebooks, scenarios, the release notes to come, and
names and docstrings of tests. Code is none.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFUSED = {
    r"\btold\b": "say it: given, said, known, inferred from",
    r"\btells?\s+of\b": "says, reports, describes",
    r"\bstands?\s+at\b": "is",
    (
        r"\b(held|hold|holds|"
        r"holding)\s+(\w+\s+){0,3}against\b"
    ): ("checked against, compared with"),
    r"\bso\s+many\b": "the number of, n",
    r"\bas\s+of\s+`": "see `X`, as in `X`",
    r"\bthe\s+begin\b": "the start",
}
OPENING = re.compile(r"What\s")
SUFFIXES = (".css", ".html", ".ipynb", ".js", ".md", ".py", ".yaml", ".yml")
ROOMS = ("diploee", "docs", "notebooks", "profiles/build", "scenarios", "tests", "*.md")


def texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield a file's pieces of text: line, words, and whether they are a docstring."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from of_python(text, is_test="tests" in path.parts)
    elif path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            yield 1, "".join(cell["source"]), False
    elif path.name == "CHANGELOG.md":
        # What is released stays as it is
        yield 1, "\n## ".join(text.split("\n## ")[:2]), False
    else:
        yield 1, text, False


def of_python(text: str, *, is_test: bool) -> Iterator[tuple[int, str, bool]]:
    """Yield docstrings; of tests their names, too, of other code comments and other strings."""  # noqa: E501
    tree = ast.parse(text)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node in docstrings or not is_test:
                yield node.lineno, node.value, node in docstrings
        elif (
            isinstance(node, ast.FunctionDef)
            and is_test
            and node.name.startswith("test_")
        ):
            yield node.lineno, node.name.replace("_", " "), False
    if not is_test:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string, False


def main() -> int:
    """Print each refused word with its place and what to write.

    Return 1 where there is one.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--", *ROOMS],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    found = []
    for name in listed:
        path = ROOT / name
        for line, words, is_docstring in texts(path) if path.suffix in SUFFIXES else ():
            # Of a page it may be a question
            is_own = is_docstring or name.startswith("diploee/")
            if is_own and path.suffix == ".py" and OPENING.match(words):
                found.append(
                    (name, line, words.splitlines()[0], "open with a noun or a verb")
                )
            for pattern, better in REFUSED.items():
                for hit in re.finditer(pattern, words, re.IGNORECASE):
                    at = line + words.count("\n", 0, hit.start())
                    found.append((name, at, hit[0], better))
    for name, at, words, better in sorted(found):
        print(f"{name}:{at}: '{words}': {better}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
