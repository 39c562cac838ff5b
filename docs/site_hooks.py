"""The site's generated parts, beside the pages of this folder: reference, notebooks, formulas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

from diploee.cli.reference import commands_reference
from diploee.scenario import Scenario
from diploee.scenario.key_reference import markdown_reference
from diploee.sweeps import SweepSpec

ROOT = Path(__file__).parents[1]
PLACES = {
    "scenarios/REFERENCE.md": "reference/keys.md",
    "scenarios/sweeps/REFERENCE.md": "reference/sweep_keys.md",
    "notebooks/": "notebooks/",
}
"""Where files outside this folder, which pages link to as the repository has them, stand here."""
FORMULAS = ("theory.md", "nomenclature.md")


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages and the notebooks."""
    pages = {
        "reference/commands.md": commands_reference("diploee schema --commands"),
        "reference/keys.md": markdown_reference(
            Scenario, "Every key of a scenario file", "diploee schema --markdown"
        ),
        "reference/sweep_keys.md": markdown_reference(
            SweepSpec, "Every key of a sweep file", "diploee schema --sweep --markdown"
        ),
    }
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        pages[f"notebooks/{path.stem}.md"] = "\n\n".join(t for c in cells for t in _texts(c))
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where things stand in the site, and write formulas as MathML."""
    up = "../" * page.file.src_uri.count("/")
    for place, here in PLACES.items():
        markdown = re.sub(rf"\]\((\.\./)+{re.escape(place)}", f"]({up}{here}", markdown)
    markdown = re.sub(r"(\]\([^)]*notebooks/\w+)\.ipynb", r"\1.md", markdown)
    if page.file.src_uri in FORMULAS:
        markdown = re.sub(r"\$\$(.+?)\$\$", lambda m: _formula(m[1], "block"), markdown, flags=re.S)
        markdown = re.sub(r"\$(.+?)\$", lambda m: _formula(m[1], "inline"), markdown)
    return markdown


def _formula(latex: str, display: str) -> str:
    text = convert(latex.strip(), display=display)
    return (
        f'<div style="overflow-x:auto;padding:.6em 0">{text}</div>' if display == "block" else text
    )


def _texts(cell: Any) -> Iterator[str]:
    """Yield a cell of a notebook as Markdown: its text or code, what it printed, its pictures."""
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
