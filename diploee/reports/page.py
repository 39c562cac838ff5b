"""The page: one HTML file that holds its style, its figures and plotly, and asks no network.

`page.html` is its template; jinja2 escapes all that comes from the report.
"""

from __future__ import annotations

from pathlib import Path

from diploee import __version__
from diploee.drawing.plotly import plotly_figure
from diploee.reports.content import Report

_HERE = Path(__file__).resolve().parent
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
"""The browser itself refuses every request that the page could make."""

MARK = '<meta name="generator" content="diploee'
_HEAD_BYTES = 2_000


def is_report(path: Path) -> bool:
    """Return whether a file is a page of this package, which its runs can give again."""
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(_HEAD_BYTES)
    except OSError:
        return False


def rendered(template: str, style: str, **values: object) -> str:
    """Return a page of a template and a style beside this module, with the head of all pages."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["figure"] = plotly_figure
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    head = {"version": __version__, "mark": MARK, "policy": POLICY, "style": _file(style)}
    return templates.get_template(template).render(**head, **values)


def report_page(report: Report) -> str:
    """Return the page as text."""
    from plotly.offline import get_plotlyjs

    return rendered(
        "page.html",
        "page.css",
        report=report,
        script=_file("page.js"),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),  # which would end its element
    )


def _file(name: str) -> str:
    return (_HERE / name).read_text("utf-8")
