"""The site's generated parts, beside the pages of this folder.

Reference, notebooks, formulas.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from runpy import run_path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.structure.files import File

import diploee
from diploee.scenario import Scenario
from diploee.scenario.key_reference import markdown_reference
from diploee.sweeps import SweepSpec

ROOT = Path(__file__).parents[1]
PLACES = {
    "scenarios/REFERENCE.md": "reference/keys.md",
    "scenarios/sweeps/REFERENCE.md": "reference/sweep_keys.md",
    "notebooks/": "notebooks/",
}
"""Where files outside this folder, which pages link to as the repository has them,
stand here."""
FORMULAS = re.compile(r"theory\.md|nomenclature\.md|firm\.md|models/\w+\.md")
BEHIND = "---\nsearch:\n  boost: 0.2\n---\n\n"
"""Ranks a page of the reference behind the guides in the search."""


def public_names() -> dict[str, list[str]]:
    """Return the public names of each package that has a front, `diploee` first."""
    packages = [
        "diploee",
        *(m.name for m in walk_packages(diploee.__path__, "diploee.") if m.ispkg),
    ]
    found = {name: getattr(import_module(name), "__all__", []) for name in packages}
    return {name: names for name, names in found.items() if names}


def on_config(config: Any) -> Any:
    """Add the pages of keys and one for each front to the navigation."""
    (reference,) = (part["Reference"] for part in config["nav"] if "Reference" in part)
    keys = [
        {part: _key_page(part)}
        for part in dict.fromkeys(key_pages()[1].values())
        if part
    ]
    (scenario,) = (part for part in reference if "reference/keys.md" in part.values())
    scenario["Keys of scenarios"] = ["reference/keys.md", *keys]
    reference.append({"Public names": [{name: _page(name)} for name in public_names()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages and the notebooks."""
    pages = {
        "reference/commands.md": run_path(str(ROOT / ".ci" / "pages.py"))[
            "commands_reference"
        ](),
        "reference/sweep_keys.md": markdown_reference(
            SweepSpec, "Every key of a sweep file", "diploee schema --sweep --markdown"
        ),
    }
    pages = {place: BEHIND + text for place, text in (pages | key_pages()[0]).items()}
    for package, names in public_names().items():
        about = import_module(package).__doc__ or ""
        entries = "\n\n".join(f"::: {package}.{name}" for name in names)
        pages[_page(package)] = f"{BEHIND}# {package}\n\n{about}\n\n{entries}\n"
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        pages[f"notebooks/{path.stem}.md"] = "\n\n".join(
            t for c in cells for t in _texts(c)
        )
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where things stand in the site, and write formulas as MathML."""
    up = "../" * page.file.src_uri.count("/")
    for place, here in PLACES.items():
        markdown = re.sub(rf"\]\((\.\./)+{re.escape(place)}", f"]({up}{here}", markdown)
    markdown = markdown.replace("](../docs/", "](../")  # from a notebook
    for anchor, place in key_pages()[1].items():
        markdown = markdown.replace(
            f"keys.md#{anchor})", f"{_key_page(place)[10:]}#{anchor})"
        )
    markdown = re.sub(r"(\]\([^)]*notebooks/\w+)\.ipynb", r"\1.md", markdown)
    if FORMULAS.fullmatch(page.file.src_uri):
        markdown = re.sub(
            r"\$\$(.+?)\$\$", lambda m: _formula(m[1], "block"), markdown, flags=re.S
        )
        markdown = re.sub(r"\$(.+?)\$", lambda m: _formula(m[1], "inline"), markdown)
    return markdown


@cache
def key_pages() -> tuple[dict[str, str], dict[str, str]]:
    """Return the pages of a scenario's keys by part, and each anchor's part."""
    title, command = "Every key of a scenario file", "diploee schema --markdown"
    top, *sections = markdown_reference(Scenario, title, command).split("\n## ")
    part_of, texts = {}, {"": [top]}
    for section in sections:
        place = re.search(r"^At `([^`]+)`", section, re.M)
        keys = place[1].split(".") if place else [""]
        part = ".".join(keys[:2] if keys[0] == "facility" else keys[:1])
        part_of[section.partition("\n")[0].lower()] = part
        texts.setdefault(part, [f"# Keys of `{part}`\n"]).append(section)
    link = re.compile(r"\]\(#(\w+)\)")
    pages = {
        _key_page(part): link.sub(
            lambda to: (
                f"]({_key_page(part_of[to[1]]).removeprefix('reference/')}#{to[1]})"
            ),
            "\n## ".join(found),
        )
        for part, found in texts.items()
    }
    return pages, part_of


def _key_page(part: str) -> str:
    return f"reference/keys-{part}.md" if part else "reference/keys.md"


def _page(package: str) -> str:
    return f"reference/python/{package}.md"


class FieldTexts(griffe.Extension):
    """Show what fields are: of a dataclass its comment, of a model its description."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Make the text of each field, written once in the code, its docstring."""
        lines = cls.lines_collection[cls.filepath]
        for field in cls.members.values():
            if (
                field.is_attribute
                and not field.is_alias
                and not field.docstring
                and field.lineno
            ):
                text = field_text(lines, field.lineno, field.endlineno)
                field.docstring = griffe.Docstring(text, parent=field) if text else None


def field_text(lines: list[str], first: int, last: int) -> str:
    """Return the text of the field on some lines of a file, from 1; "" if none.

    A comment above several fields is that of each of them without one beside it.
    """
    for node in ast.walk(ast.parse("\n".join(lines[first - 1 : last]).strip())):
        if isinstance(node, ast.keyword) and node.arg == "description":
            return (
                str(ast.literal_eval(node.value))
                if isinstance(node.value, ast.Constant)
                else ""
            )
    _, beside, comment = lines[last - 1].partition("  # ")
    if beside:
        return comment
    while re.match(r" +\w+:", lines[first - 2]) and "  # " not in lines[first - 2]:
        first -= 1
    above: list[str] = []
    while lines[first - 2].lstrip().startswith("#"):
        first -= 1
        above.insert(0, lines[first - 1].strip().removeprefix("# "))
    return " ".join(above)


def _formula(latex: str, display: str) -> str:
    text = convert(latex.strip(), display=display)
    return (
        f'<div style="overflow-x:auto;padding:.6em 0">{text}</div>'
        if display == "block"
        else text
    )


def _texts(cell: Any) -> Iterator[str]:
    """Yield a cell of a notebook as Markdown.

    Its text or code, what it printed, its pictures.
    """
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "image/png" in data:
            png = "".join(data["image/png"]).replace("\n", "")
            yield f"![Picture of the cell above](data:image/png;base64,{png})"
        elif text := "".join(output.get("text", data.get("text/plain", ()))).rstrip():
            yield f"```text\n{text}\n```"
