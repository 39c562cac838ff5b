"""The page: one HTML file that holds its style, its figures and their script, and asks no network.

`page.html` is its template; jinja2 escapes all that comes from the report.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from diploee import __version__
from diploee.drawing.page import POLICY, Figures

if TYPE_CHECKING:
    from diploee.reports.build import Report

_HERE = Path(__file__).resolve().parent
MARK = '<meta name="generator" content="diploee'
_HEAD_BYTES = 2_000


def is_report(path: Path) -> bool:
    """Return whether a file is a page of this package, which its runs can give again."""
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(_HEAD_BYTES)
    except OSError:
        return False


def report_page(report: Report) -> str:
    """Return a report, or a data sheet, as the text of its page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return templates.get_template("page.html").render(
        version=__version__,
        mark=MARK,
        policy=POLICY,
        style=(_HERE / "page.css").read_text("utf-8"),
        figures=Figures(),
        report=report,
    )
