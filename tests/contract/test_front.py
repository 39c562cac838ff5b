"""Public names: importable, explained, in the reference; pages and notebooks use no
others."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

import diploee

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "diploee",
    *(m.name for m in walk_packages(diploee.__path__, "diploee.") if m.ispkg),
]
FRONTS: dict[str, list[str]] = {
    name: names
    for name in PACKAGES
    if (names := getattr(import_module(name), "__all__", []))
}
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
    ]
)


def parameters_of(text: str | None) -> set[str]:
    """Return the names that the numpydoc sections of parameters and attributes
    describe."""
    parts = re.split(
        r"^(\w+)\n-{3,}\n", inspect.cleandoc(text or ""), flags=re.MULTILINE
    )
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    listed = sections.get("Parameters", "") + "\n" + sections.get("Attributes", "")
    lines = re.findall(r"^([\w*, ]+?)(?: :.*)?$", listed, flags=re.MULTILINE)
    return {name.strip(" *") for line in lines for name in line.split(",")}


def has_comment(cls: type, name: str) -> bool:
    """Whether a field has a comment, beside it, or above it or the fields right before
    it."""
    owner = next(c for c in cls.__mro__ if name in inspect.get_annotations(c))
    lines = [line.strip() for line in inspect.getsource(owner).splitlines()]
    at = next(k for k, line in enumerate(lines) if line.startswith(f"{name}:"))
    if "  # " in lines[at]:
        return True
    while re.match(r"\w+:", lines[at - 1]) and "  # " not in lines[at - 1]:
        at -= 1
    return lines[at - 1].startswith("#")


def unexplained(value: Any) -> Iterator[str]:
    """Yield the parameters and fields of a public function or class that no text
    explains."""
    text = value.__doc__ or ""
    known = parameters_of(text)
    if inspect.isclass(value) and issubclass(value, BaseModel):
        for name, field in value.model_fields.items():
            is_name_of_kind = name in ("kind", "distribution")
            if not (field.description or is_name_of_kind or name in known):
                yield name
    elif inspect.isclass(value) and is_dataclass(value):
        for each in fields(value):
            is_known = (
                each.name in known or f"`{each.name}`" in text or each.name[0] == "_"
            )
            if each.init and not is_known and not has_comment(value, each.name):
                yield each.name
    elif not getattr(value, "_is_protocol", False):
        call = value if inspect.isfunction(value) else value.__dict__.get("__init__")
        for name in inspect.signature(call).parameters if call else ():
            if name not in known | {"self"} and name[0] != "_":
                yield name


def public_classes() -> Iterator[type]:
    """Yield the public dataclasses and models."""
    names = ((package, name) for package, of in FRONTS.items() for name in of)
    for package, name in names:
        value = getattr(import_module(package), name)
        is_record = is_dataclass(value) or (
            inspect.isclass(value) and issubclass(value, BaseModel)
        )
        if is_record and not inspect.isabstract(value):
            yield value


def test_no_public_name_is_a_module_and_the_parameters_of_all_are_explained() -> None:
    for package, names in FRONTS.items():
        for name in names:
            value, full = getattr(import_module(package), name), f"{package}.{name}"
            assert not isinstance(value, ModuleType), full
            assert importlib.util.find_spec(full) is None, f"{full} is also a module"
            if inspect.isfunction(value) or inspect.isclass(value):
                assert value.__doc__, full
                assert list(unexplained(value)) == [], full


def test_whatever_an_object_holds_a_notebook_shows_one_line() -> None:
    huge = {f"key {k}": "line\n" * 1_000 for k in range(1_000)}
    frame = pd.DataFrame({"power": range(999)})
    for cls in {*public_classes()}:
        for value in (huge, [huge] * 50, np.zeros((1_000, 3)), frame, "x" * 999):
            if issubclass(cls, BaseModel):
                shown: Any = cls.model_construct(
                    **dict.fromkeys(cls.model_fields, value)
                )
            else:
                shown = object.__new__(cls)
                for each in fields(cls):
                    object.__setattr__(shown, each.name, value)
            assert cls.__name__ in repr(shown)
            assert len(repr(shown)) <= 200 and len(repr(shown).splitlines()) == 1, cls


def test_tab_shows_the_public_names_and_no_others() -> None:
    assert dir(diploee) == FRONTS["diploee"]
    assert {"run", "report", "limits", "sweep"} <= {*dir(diploee)}


def code_of(page: Path) -> Iterator[str]:
    """Yield the Python of a page or notebook."""
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        cells = [
            cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"
        ]
        yield from (
            "".join(line for line in cell["source"] if line[0] not in "%!")
            for cell in cells
        )
    else:
        yield from re.findall(
            r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL
        )


def names_used(code: str) -> Iterator[tuple[str, str]]:
    """Yield the names that code takes from packages of ours, with those packages."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "")[:7] == "diploee":
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "diploee":
            yield "diploee", node.attr


def test_pages_and_notebooks_use_public_names_alone() -> None:
    found = [
        (page.name, package, name)
        for page in PAGES
        for code in code_of(page)
        for package, name in names_used(code)
    ]
    assert len(found) > 20
    assert [
        (page, package, name)
        for page, package, name in found
        if name not in FRONTS[package] and f"{package}.{name}" not in PACKAGES
    ] == []


@pytest.mark.slow
def test_reference_of_the_site_has_every_public_name(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="the site needs diploee[docs]")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            tmp_path,
        ],
        cwd=ROOT,
        check=True,
    )
    for package, names in FRONTS.items():
        page = (tmp_path / "reference" / "python" / package / "index.html").read_text(
            "utf-8"
        )
        assert [name for name in names if f'id="{package}.{name}"' not in page] == []
