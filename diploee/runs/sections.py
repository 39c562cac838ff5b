"""Sections of results: statistics, tables, charts and notes, for all outputs.

The same sections are shown in the report page, data sheet, terminal, notebook and
comparison, and are written as JSON and CSV.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

from diploee.base.metric import NONE, format_number
from diploee.runs.formatting import number_format


@dataclass(frozen=True)
class Statistic:
    """A number or text of a section, or a cell of a table."""

    item: str  # owner of the value (row of a table), or its name
    value: float | str | None  # in `unit`; None if the run does not support it
    unit: str = ""  # empty for text and ratios
    note: str = ""  # time or explanation; the reason if the value is absent
    quantity: str = ""  # column of a table
    key: str = ""  # key of the metric
    pattern: str = ""  # number format; four digits if empty
    link: str = ""  # id of the chart that shows it
    band: tuple[float, float] | None = None  # P5 and P95 over an ensemble, in `unit`

    @property
    def shown(self) -> str:
        """Value as text, in the statistic's number format."""
        if isinstance(self.value, str):
            return self.value
        return format_number(self.value, self.pattern or number_format([self.value]))


@dataclass(frozen=True)
class SectionTable:
    """A table of statistics, with a row per item and a column per quantity."""

    title: str
    figures: tuple[Statistic, ...]
    note: str = ""
    first: str = ""  # heading of the column of the items

    @cached_property
    def rows(self) -> dict[str, dict[str, Statistic]]:
        """Statistics of the table by item (row) and quantity (column)."""
        result: dict[str, dict[str, Statistic]] = {}
        for figure in self.figures:
            result.setdefault(figure.item, {})[figure.quantity] = figure
        return result

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit of each quantity in column order; "" if a column has several units."""
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
        """Quantities (columns) whose values are numbers."""
        text_columns = {f.quantity for f in self.figures if isinstance(f.value, str)}
        return set(self.units) - text_columns

    @cached_property
    def headings(self) -> list[str]:
        """Headings of the columns, with units."""
        return [
            f"{name} [{unit}]" if unit else name for name, unit in self.units.items()
        ]

    def cell(self, item: str, quantity: str) -> str:
        """Return a cell as text; numbers of a column have equal decimals.

        The unit is included if the heading has none.
        """
        statistic = self.rows[item].get(quantity)
        if statistic is None or isinstance(statistic.value, str):
            return (
                statistic.value
                if statistic and isinstance(statistic.value, str)
                else NONE
            )
        column = (f.value for f in self.figures if f.quantity == quantity)
        text = format_number(
            statistic.value, statistic.pattern or number_format(column)
        )
        unit = "" if self.units[quantity] or statistic.value is None else statistic.unit
        return f"{text} {unit}".rstrip()

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows as tuples of text."""
        for item in self.rows:
            yield item, *(self.cell(item, quantity) for quantity in self.units)


@dataclass(frozen=True)
class Section:
    """A heading with its statistics, tables, charts and notes, in display order."""

    id: str
    title: str
    figures: tuple[Statistic, ...] = ()
    tables: tuple[SectionTable, ...] = ()
    charts: tuple[Any, ...] = ()  # ids of charts; a page has the charts themselves
    notes: tuple[str, ...] = ()
    folded: bool = False  # a detail, collapsed to its heading on a page

    def __bool__(self) -> bool:
        return bool(self.figures or self.tables)


def side_by_side(named: Mapping[str, Section]) -> Section:
    """Merge the same section of several runs, with a column of statistics per run."""
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
        first_value, last_value = (cell.value for cell in (cells[0], cells[-1]))
        if (
            isinstance(first_value, float | int)
            and isinstance(last_value, float | int)
            and len(cells) == 2
        ):
            is_percent, has_base = unit == "%", first_value or unit == "%"
            change = (
                last_value - first_value
                if is_percent
                else 100 * (last_value / first_value - 1)
                if has_base
                else None
            )
            change = change if change is None else round(change, 1) + 0.0
            change_unit = "pp" if is_percent else "%"
            cells.append(
                Statistic(
                    item, change, change_unit, quantity="change", pattern="{:+,.1f}"
                )
            )
    figures = tuple(
        replace(
            cell,
            pattern=cell.pattern
            or number_format([c.value for c in cells if not c.unit]),
        )
        for cells in rows.values()
        for cell in cells
    )
    table = SectionTable("Side by side", figures) if figures else None
    return replace(first, figures=(), tables=(table,) if table else (), notes=())


COLUMNS = ("section", "item", "quantity", "value", "unit", "note")


def long_rows(sections: Iterable[Section]) -> Iterator[tuple[float | str | None, ...]]:
    """Yield each statistic as a row of `COLUMNS`, in full precision."""
    for section in sections:
        for f in section.figures:
            yield section.title, f.item, f.quantity, f.value, f.unit, f.note
        for table in section.tables:
            title = ": ".join(filter(None, (section.title, table.title)))
            for f in table.figures:
                yield title, f.item, f.quantity, f.value, f.unit, f.note


def as_dict(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Return sections as plain dictionaries, for JSON."""

    def statistic_dict(figure: Statistic) -> dict[str, Any]:
        names = ("item", "quantity", "value", "unit", "note", "key", "band")
        result = {k: v for k in names if (v := getattr(figure, k)) not in ("",)}
        return (
            result if figure.band else {k: v for k, v in result.items() if k != "band"}
        )

    return [
        {
            "id": section.id,
            "title": section.title,
            "figures": [statistic_dict(figure) for figure in section.figures],
            "tables": [
                {
                    "title": table.title,
                    "figures": [statistic_dict(f) for f in table.figures],
                }
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
            rows = [(table.first, *table.headings), *table.lines()]
            yield from (" | ".join(row) for row in rows)
        yield from section.notes


def as_html(title: str, sections: Iterable[Section]) -> str:
    """Return sections as notebook HTML, the first one open, the others collapsed."""
    parts = [f"<b>{escape(title)}</b>"]
    for k, section in enumerate(sections):
        rows: list[tuple[str, ...]] = [
            (f.item, f.shown, f.unit, f.note) for f in section.figures
        ]
        tables = [("", rows)] if rows else []
        tables += [
            (table.title, [(table.first, *table.headings), *table.lines()])
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
