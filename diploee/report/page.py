"""The page: one HTML file that holds its style, its figures and plotly, and asks no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path

from diploee import __version__
from diploee.report.charts import Chart, Panel, Report, Section, Table
from diploee.report.place import MARK
from diploee.report.plotly_panels import plotly_figure

_HERE = Path(__file__).resolve().parent
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
"""The browser itself refuses every request that the page could make."""


def report_page(report: Report) -> str:
    """Return the page as text."""
    from plotly.offline import get_plotlyjs

    body = "\n".join(_body(report))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK} {__version__}">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>diploee report: {escape(report.title)}</title>
<style>
{_file("page.css")}</style>
</head>
<body>
{body}
<script>{_in_script(get_plotlyjs())}</script>
<script>
{_file("page.js")}</script>
</body>
</html>
"""


def _file(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


def _in_script(code: str) -> str:
    """Return code that can't end the script element that holds it."""
    return code.replace("</script", "<\\/script")


def _body(report: Report) -> Iterator[str]:
    yield "<header>"
    yield f"<p class='kind'>diploee report</p><h1>{escape(report.title)}</h1>"
    yield f"<p class='subtitle'>{escape(report.subtitle)}</p>"
    for text in report.summary:
        yield f"<p class='summary'>{escape(text)}</p>"
    yield "</header>"
    yield "<nav aria-label='Sections'>"
    yield " ".join(f"<a href='#{s.id}'>{escape(s.title)}</a>" for s in report.sections)
    yield "</nav><main>"
    if report.warnings:
        items = "".join(f"<li>{escape(text)}</li>" for text in report.warnings)
        yield f"<aside class='warnings'><h2>Warnings of the simulation</h2><ul>{items}</ul></aside>"
    if report.figures:
        cards = "".join(
            f"<div><dt>{escape(meaning)}</dt><dd>{escape(value)}<small>{escape(unit)}</small></dd></div>"
            for value, unit, meaning in report.figures
        )
        yield f"<dl class='cards'>{cards}</dl>"
    yield "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>"
    for section in report.sections:
        yield from _section(section)
    yield "</main>"
    yield (
        "<footer><p>In the figures: drag to zoom, double-click to reset, hover or tap to read "
        "values, click a legend entry to hide it. This file needs no network.</p>"
        f"<p>Made by diploee {escape(__version__)}, an independent open implementation of the "
        "DIPLOEE model (arXiv:2604.07345). Figures drawn by plotly.js (MIT licence).</p></footer>"
    )


def _section(section: Section) -> Iterator[str]:
    yield f"<section id='{section.id}'><h2>{escape(section.title)}</h2>"
    for note in section.notes:
        yield f"<p class='note'>{escape(note)}</p>"
    for part in section.content:
        if isinstance(part, Chart):
            yield from _chart(part)
        else:
            yield from _table(part, titled=len(section.content) > 1)
    yield "</section>"


def _chart(chart: Chart) -> Iterator[str]:
    columns = "one" if len(chart.panels) == 1 or chart.panels[0].wide else "two"
    yield f"<figure id='{chart.id}'><h3>{escape(chart.title)}</h3><div class='panels {columns}'>"
    for index, panel in enumerate(chart.panels):
        yield from _panel(f"{chart.id}-{index + 1}", panel)
    yield f"</div><figcaption>{escape(chart.caption)}</figcaption></figure>"


def _panel(plot_id: str, panel: Panel) -> Iterator[str]:
    title = f"<h4>{escape(panel.title)}</h4>" if panel.title else ""
    figure = plotly_figure(panel)
    content = json.dumps(figure, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    yield f"<div class='panel'>{title}<div class='plot' id='{plot_id}' role='img'"
    yield f" aria-label='{escape(panel.y.label)} against {escape(panel.x.label)}'></div></div>"
    yield f"<script type='application/json' class='spec' data-plot='{plot_id}'>{content}</script>"


def _table(table: Table, titled: bool) -> Iterator[str]:
    if table.numeric and len(table.header) == 2 and table.rows:
        yield from _pair(table)
    else:
        yield from _grid(table, titled)
    if table.note:
        yield f"<p class='note'>{escape(table.note)}</p>"


def _pair(table: Table) -> Iterator[str]:
    """Give a table of one column of numbers as two, side by side where there is room."""
    half = -(-len(table.rows) // 2)
    yield "<div class='pair'>"
    for rows in (table.rows[:half], table.rows[half:]):
        yield from _grid(replace(table, rows=rows), titled=False)
    yield "</div>"


def _grid(table: Table, titled: bool) -> Iterator[str]:
    yield "<div class='table'><table>"
    if titled:
        yield f"<caption>{escape(table.title)}</caption>"
    numbers = range(table.n_names, len(table.header) - table.n_texts) if table.numeric else range(0)
    kinds = [" class='number'" if k in numbers else "" for k in range(len(table.header))]
    head = "".join(
        f"<th scope='col'{kind}>{escape(cell)}</th>"
        for kind, cell in zip(kinds, table.header, strict=True)
    )
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for row in table.rows:
        names = "".join(f"<th scope='row'>{escape(cell)}</th>" for cell in row[: table.n_names])
        values = row[table.n_names :]
        if not table.numeric and len(set(values)) == 1:  # the same for all runs: said once
            cells = f"<td colspan='{len(values)}'>{escape(values[0])}</td>"
        else:
            cells = "".join(
                f"<td{kind}>{escape(cell)}</td>"
                for kind, cell in zip(kinds[table.n_names :], values, strict=True)
            )
        yield f"<tr>{names}{cells}</tr>"
    yield "</tbody></table></div>"
