"""Sections: figures, tables, charts and words, which every view of results renders.

Page, data sheet, terminal, notebook, comparison, JSON and CSV take them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

from diploee.base.metric import NONE, number
from diploee.runs.formatting import pattern_for


@dataclass(frozen=True)
class Statistic:
    """A number or a word of a section; of a table, a cell."""

    item: str  # whose it is, or the name of what it is
    value: float | str | None  # in `unit`; None where the run does not support it
    unit: str = ""  # empty for words and ratios
    note: str = ""  # when, or of what; of what is absent the reason
    quantity: str = ""  # the column, in tables
    key: str = ""  # of its metric
    pattern: str = ""  # its format; of four digits where empty
    link: str = ""  # id of the chart of a page that shows it
    band: tuple[float, float] | None = None  # P5 and P95 over an ensemble, in `unit`

    @property
    def shown(self) -> str:
        """The value as text."""
        if isinstance(self.value, str):
            return self.value
        return number(self.value, self.pattern or pattern_for([self.value]))


@dataclass(frozen=True)
class SectionTable:
    """Figures by item and quantity."""

    title: str
    figures: tuple[Statistic, ...]
    note: str = ""
    first: str = ""  # heading of the column of the items

    @cached_property
    def rows(self) -> dict[str, dict[str, Statistic]]:
        """The figures by item and quantity."""
        result: dict[str, dict[str, Statistic]] = {}
        for figure in self.figures:
            result.setdefault(figure.item, {})[figure.quantity] = figure
        return result

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit by quantity, in the order of the columns.

        None where its numbers differ in it.
        """
        result: dict[str, set[str]] = {}
        for figure in self.figures:
            units = result.setdefault(figure.quantity, set())
            units |= set() if isinstance(figure.value, str) else {figure.unit}
        return {
            name: units.pop() if len(units) == 1 else ""
            for name, units in result.items()
        }

    @cached_property
    def numeric(self) -> set[str]:
        """Quantities that are numbers."""
        words = {f.quantity for f in self.figures if isinstance(f.value, str)}
        return set(self.units) - words

    @cached_property
    def heads(self) -> list[str]:
        """Headings of the columns, with units."""
        return [
            f"{name} [{unit}]" if unit else name for name, unit in self.units.items()
        ]

    def cell(self, item: str, quantity: str) -> str:
        """Return a cell as text, the numbers of a column with like decimals.

        It has its unit where the heading has none.
        """
        result = self.rows[item].get(quantity)
        if result is None or isinstance(result.value, str):
            return result.value if result and isinstance(result.value, str) else NONE
        column = (f.value for f in self.figures if f.quantity == quantity)
        text = number(result.value, result.pattern or pattern_for(column))
        unit = "" if self.units[quantity] or result.value is None else result.unit
        return f"{text} {unit}".rstrip()

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows as texts."""
        for item in self.rows:
            yield item, *(self.cell(item, quantity) for quantity in self.units)


@dataclass(frozen=True)
class Section:
    """A heading with what belongs to it, in the order of reading."""

    id: str
    title: str
    figures: tuple[Statistic, ...] = ()
    tables: tuple[SectionTable, ...] = ()
    charts: tuple[Any, ...] = ()  # ids of charts; a page has the charts themselves
    notes: tuple[str, ...] = ()
    folded: bool = False  # detail, of which a page shows the heading at first

    def __bool__(self) -> bool:
        return bool(self.figures or self.tables)


def beside(named: Mapping[str, Section]) -> Section:
    """Return sections of several runs as one.

    The figures side by side, tables by run.
    """
    first = next(iter(named.values()))
    if len(named) == 1:
        return first
    rows: dict[tuple[str, str], list[Statistic]] = {}
    for name, section in named.items():
        for figure in section.figures:
            item = f"{figure.item} [{figure.unit}]" if figure.unit else figure.item
            cell = replace(figure, quantity=name, note="", unit="", item=item)
            rows.setdefault((item, figure.unit), []).append(cell)
    for (item, unit), cells in rows.items() if len(named) == 2 else ():
        before, after = (cell.value for cell in (cells[0], cells[-1]))
        if (
            isinstance(before, float | int)
            and isinstance(after, float | int)
            and len(cells) == 2
        ):
            of_percent, known = unit == "%", before or unit == "%"
            change = (
                after - before
                if of_percent
                else 100 * (after / before - 1)
                if known
                else None
            )
            change = change if change is None else round(change, 1) + 0.0
            of = "pp" if of_percent else "%"
            cells.append(
                Statistic(item, change, of, quantity="change", pattern="{:+,.1f}")
            )
    figures = tuple(
        replace(
            cell,
            pattern=cell.pattern or pattern_for([c.value for c in cells if not c.unit]),
        )
        for cells in rows.values()
        for cell in cells
    )
    table = SectionTable("Side by side", figures) if figures else None
    return replace(first, figures=(), tables=(table,) if table else (), notes=())


COLUMNS = ("section", "item", "quantity", "value", "unit", "note")


def long_rows(sections: Iterable[Section]) -> Iterator[tuple[float | str | None, ...]]:
    """Yield each figure as a row of `COLUMNS`, in full precision."""
    for section in sections:
        for f in section.figures:
            yield section.title, f.item, f.quantity, f.value, f.unit, f.note
        for table in section.tables:
            title = ": ".join(filter(None, (section.title, table.title)))
            for f in table.figures:
                yield title, f.item, f.quantity, f.value, f.unit, f.note


def as_dict(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Return sections in plain types, for JSON."""

    def plain(figure: Statistic) -> dict[str, Any]:
        names = ("item", "quantity", "value", "unit", "note", "key", "band")
        result = {k: v for k in names if (v := getattr(figure, k)) not in ("",)}
        return (
            result if figure.band else {k: v for k, v in result.items() if k != "band"}
        )

    return [
        {
            "id": section.id,
            "title": section.title,
            "figures": [plain(figure) for figure in section.figures],
            "tables": [
                {"title": table.title, "figures": [plain(f) for f in table.figures]}
                for table in section.tables
            ],
            "notes": list(section.notes),
        }
        for section in sections
    ]


def as_lines(sections: Iterable[Section]) -> Iterator[str]:
    """Yield sections as lines of text, such as comments of a file."""
    for section in sections:
        yield from filter(None, [section.title])
        for f in section.figures:
            note = f" ({f.note})" if f.note else ""
            yield f"{f.item}: {f.shown} {f.unit}".rstrip() + note
        for table in section.tables:
            yield from filter(None, [table.title])
            rows = [(table.first, *table.heads), *table.lines()]
            yield from (" | ".join(row) for row in rows)
        yield from section.notes


def as_html(title: str, sections: Iterable[Section]) -> str:
    """Return sections as a notebook shows them.

    The first one open, the others folded.
    """
    parts = [f"<b>{escape(title)}</b>"]
    for k, section in enumerate(sections):
        rows: list[tuple[str, ...]] = [
            (f.item, f.shown, f.unit, f.note) for f in section.figures
        ]
        tables = [("", rows)] if rows else []
        tables += [
            (table.title, [(table.first, *table.heads), *table.lines()])
            for table in section.tables
        ]
        html = "".join(
            f"<table><caption>{escape(name)}</caption>"
            + "".join(
                f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
                for row in lines
            )
            + "</table>"
            for name, lines in tables
        )
        if k:
            html = (
                f"<details><summary>{escape(section.title)}</summary>{html}</details>"
            )
        parts.append(html)
    return "".join(parts)
