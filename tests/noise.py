"""Every message of the package as noise: an import hook that rewrites what is said in
words.

``python noise.py SCRIPT [ARGUMENT ...]`` runs a script on a package whose sentences say
nothing.

A message is a text, or the fixed part of one that is put together, with a space and two
letters of a word in it. Each has its own noise, so that two places that spell the same
words no longer agree: letters of words move along the alphabet, by a distance that the
place of the text decides. What holds a digit, ``.``, ``_``, ``/``, a bracket or a
brace, or ends in a colon, as keys, files, units and fields do, stays.

No messages are

- docstrings, of which some are parsed (numpydoc), and annotations;
- values of an `Enum` or a `Literal`, wherever they stand: these decide, and are
  declared to;
- texts of several lines: templates of YAML, HTML and JavaScript;
- spans such as ``15 min``, values that are read as those of a file;
- names of random streams, from which the numbers are drawn;
- patterns: arguments of `re`, and what has a backslash, ``^``, ``$`` or ``|``;
- words of other programs' files (`OF_OTHERS`).
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar
from zlib import crc32

PACKAGE = "diploee"

OF_OTHERS = {
    "STATE_WORDS": "states of jobs as the logs of schedulers spell them",
}
"""Names of constants that hold words of other programs' files, and what these are."""

_NAMED = ("named_rng", "random_stream")
_WORD = re.compile(r"(?<!\S)[('\"]*[A-Za-z][A-Za-z'-]+[)'\",;.?!]*(?!\S)")
_LETTERS = re.compile(r"[A-Za-z]{2}")
_SPAN = re.compile(r"\d[\d.]* [a-z]+")
_OF_PATTERN = re.compile(r"[\\^$|\n]")


def is_message(text: str) -> bool:
    """Return whether a text, or a part of one, is said in words."""
    is_said = " " in text and _LETTERS.search(text)
    return bool(is_said) and not _OF_PATTERN.search(text) and not _SPAN.fullmatch(text)


def noise(text: str, place: object) -> str:
    """Return a text whose words say nothing, by its place."""
    by = 1 + crc32(repr(place).encode()) % 24

    def moved(letter: str) -> str:
        first = ord("a" if letter.islower() else "A")
        return chr(first + (ord(letter) - first + by) % 26)

    return _WORD.sub(
        lambda found: re.sub("[A-Za-z]", lambda letter: moved(letter[0]), found[0]),
        text,
    )


def blank(value: Any) -> Any:
    """Return results in which all words of texts look the same, whatever they say."""
    match value:
        case str():
            return re.sub("[A-Za-z]", "x", value) if " " in value else value
        case dict():
            return [[blank(key), blank(inner)] for key, inner in value.items()]
        case list() | tuple():
            return [blank(inner) for inner in value]
    return value


def declared(tree: ast.AST) -> set[str]:
    """Return the values of the enums and literals of a module."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                found.append(inner)
            case ast.ClassDef(bases=bases) if any(
                "Enum" in ast.unparse(of) for of in bases
            ):
                found.append(node)
    constants = (
        node for of in found for node in ast.walk(of) if isinstance(node, ast.Constant)
    )
    return {of.value for of in constants if isinstance(of.value, str)}


class _Noise(ast.NodeTransformer):
    """Rewrites the messages of a module."""

    def __init__(self, path: str, kept: set[str]) -> None:
        self.path, self.kept = Path(path).name, kept

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        text = node.value
        if not isinstance(text, str) or text in self.kept or not is_message(text):
            return node
        return ast.copy_location(
            ast.Constant(noise(text, (self.path, node.lineno, node.col_offset, text))),
            node,
        )

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_docstring = isinstance(node.value, ast.Constant)
        return node if is_docstring else self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)  # not its format, as of a date
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_name = ast.unparse(node.func) in _NAMED or ast.unparse(node.func).startswith(
            "re."
        )
        return node if is_name else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        is_theirs = (
            isinstance(node.targets[0], ast.Name) and node.targets[0].id in OF_OTHERS
        )
        return node if is_theirs else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        is_theirs = isinstance(node.target, ast.Name) and node.target.id in OF_OTHERS
        return node if is_theirs else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node  # its annotation: Typer's help is in it


class _Loader(SourceFileLoader):
    kept: ClassVar[set[str]] = set()

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        changed = ast.fix_missing_locations(_Noise(path, self.kept).visit(tree))
        return compile(changed, path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Let the package be imported with its messages as noise."""
    found = PathFinder.find_spec(PACKAGE)
    assert found and found.origin
    for path in Path(found.origin).parent.rglob("*.py"):
        _Loader.kept |= declared(ast.parse(path.read_bytes()))
    sys.meta_path.insert(0, _Finder())


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    install()
    runpy.run_path(sys.argv[0], run_name="__main__")
