"""Citations of pages: those of the code open, and pages name the code that computes."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

import diploee

ROOT = Path(__file__).parents[2]
SOURCES = {
    path: path.read_text("utf-8") for path in Path(diploee.__path__[0]).rglob("*.py")
}
PAGES = sorted((ROOT / "docs" / "models").glob("*.md"))
MODULE = re.compile(r"`(diploee(?:\.\w+)+)`")
COMPUTED = re.compile(r"^(?:Computed|Read) in .*$|.* (?:are|is) computed in .*$", re.M)
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]*) \| [^|]* \| [^|]* \|$", re.M)


def test_every_page_cited_in_the_package_exists() -> None:
    cited = {
        (page, path.name)
        for path, text in SOURCES.items()
        for page in re.findall(r"docs/[\w/]+\.md", text)
    }
    assert cited
    assert not {of for of in cited if not (ROOT / of[0]).is_file()}


def test_a_page_on_a_model_names_each_module_that_cites_it() -> None:
    for path, text in SOURCES.items():
        for page in re.findall(r"docs/models/\w+\.md", text):
            parts = path.relative_to(Path(diploee.__path__[0]).parent).with_suffix("")
            named = MODULE.findall((ROOT / page).read_text("utf-8"))
            assert ".".join(parts.parts) in named, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_of_a_page_resolve_and_each_equation_says_where_it_is_computed(
    page: Path,
) -> None:
    text = page.read_text("utf-8")
    assert [resolve_name(name) for name in MODULE.findall(text)]
    for section in (of for of in text.split("\n## ") if "$$" in of):
        assert COMPUTED.search(section), section[:40]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_defaults_of_parameters_are_those_of_the_code(page: Path) -> None:
    for table in page.read_text("utf-8").split("Parameters of `")[1:]:
        name, _, rows = table.partition("`:")
        fields: Any = resolve_name(name).model_fields
        for key, default in ROW.findall(rows.strip().partition("\n\n")[0]):
            value = fields[key].default
            assert default == ("none" if value is None else f"{value:g}"), key
