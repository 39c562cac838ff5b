"""The files of a data sheet: page, CSV and workbook."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from diploee.errors import InputError, cell, printable
from diploee.files import check_file, writing
from diploee.outputs import open_run
from diploee.outputs.folder import refuse_in_run, run_files
from diploee.reports.datasheet import DataSheet, Figure, SheetSection, data_sheet
from diploee.reports.page import is_report, rendered

NO_TIME = b"1980-01-01T00:00:00Z"
COLUMNS = ("section", "item", "quantity", "value", "unit", "note")


def write_datasheet(
    folder: Path | str,
    out: Path | str = "datasheet.html",
    *,
    csv_file: Path | None = None,
    xlsx: Path | None = None,
    limits: Sequence[str] = (),
    peaks: Path | None = None,
    force: bool = False,
) -> list[Path]:
    """Write the data sheet of a run; return the files.

    Parameters
    ----------
    folder : path
        Run folder.
    out : path
        Page to write.
    csv_file, xlsx : pathlib.Path, optional
        Table and workbook of its figures.
    limits : sequence of str
        Files or names of limits to check.
    peaks : pathlib.Path, optional
        CSV file of a utility's peak intervals.
    force : bool
        Replace existing files.
    """
    run = open_run(folder)
    if xlsx is not None and find_spec("openpyxl") is None:
        raise InputError(
            "--xlsx: workbooks need the package openpyxl; pip install 'diploee[xlsx]', or take "
            "--csv"
        )
    inputs = [*run_files(run.folder), *([peaks] if peaks else [])]
    places = {"--csv": csv_file, "--xlsx": xlsx}
    check_file(out, force, inputs=inputs, replaces=is_report)  # before any work
    taken = {Path(out).resolve(): "--out"}
    for option, place in places.items():
        if place is not None:
            if (other := taken.setdefault(Path(place).resolve(), option)) != option:
                raise InputError(
                    f"{option}: {place} is that of {other}; give each a place of its own"
                )
            check_file(place, force, inputs=inputs, option=option)
            refuse_in_run(place, run.folder, option)
    sheet = data_sheet(run, limits, peaks)
    page = _sheet_page(sheet)
    with writing(force, inputs) as files:
        files.file(out, replaces=is_report).write_text(page, encoding="utf-8")
        if csv_file is not None:
            write_csv(sheet, files.file(csv_file, option="--csv"))
        if xlsx is not None:
            write_workbook(sheet, files.file(xlsx, option="--xlsx"))
    return [Path(out), *(place for place in places.values() if place is not None)]


def _sheet_page(sheet: DataSheet) -> str:
    """Return the page as text."""
    return rendered("datasheet.html", "datasheet.css", sheet=sheet, is_number=_is_number)


def _is_number(rows: Iterable[dict[str, Figure]], quantity: str) -> bool:
    """Tell whether a quantity is of numbers."""
    values = (row[quantity].value for row in rows if quantity in row)
    return all(value is None or not isinstance(value, str) for value in values)


def write_csv(sheet: DataSheet, path: Path) -> None:
    """Write a row for each figure, in full precision."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(map(cell, row) for row in _long(sheet))


def _long(sheet: DataSheet) -> list[tuple[float | str | None, ...]]:
    return [
        (section.title, f.item, f.quantity, f.value, f.unit, f.note)
        for section in sheet.sections
        for f in section.figures
    ]


def write_workbook(sheet: DataSheet, path: Path) -> None:
    """Write a workbook: the sheet as the page has it, and all figures as the CSV has them."""
    from openpyxl import Workbook
    from openpyxl.styles import Alignment, Font

    book = Workbook()
    view, bold, wrap = book.active, Font(bold=True), Alignment(wrap_text=True, vertical="top")
    view.title = "Data sheet"

    def append(tab: Any, values: Iterable[float | str | None], font: Any = None) -> None:
        row = tab.max_row + 1 if tab.max_row > 1 or tab.cell(1, 1).value is not None else 1
        for column, value in enumerate(values, start=1):
            cell = tab.cell(row, column)
            cell.value = printable(value) if isinstance(value, str) else value
            if isinstance(value, str):
                cell.data_type = "s"  # a name that begins with = is no formula
            elif value is not None:
                cell.number_format = "#,##0.000"
            cell.alignment = wrap
            if font is not None:
                cell.font = font

    append(view, [f"Interconnection data sheet: {sheet.title}"], Font(bold=True, size=14))
    append(view, [sheet.subtitle])
    for section in sheet.sections:
        append(view, [" "])
        append(view, [section.title], bold)
        for k, row in enumerate(_grid(section)):
            append(view, row, bold if k == 0 else None)
        if section.note:
            append(view, [section.note])
    for note in ("", *sheet.notes):
        append(view, [note or " "])
    view.column_dimensions["A"].width = 34
    for letter in "BCDEF":
        view.column_dimensions[letter].width = 18
    view.page_setup.paperSize, view.page_setup.fitToHeight = view.PAPERSIZE_A4, 0
    view.sheet_properties.pageSetUpPr.fitToPage = True
    figures = book.create_sheet("Figures")
    append(figures, COLUMNS, bold)
    for row in _long(sheet):
        append(figures, row)
    figures.auto_filter.ref, figures.freeze_panes = figures.dimensions, "A2"
    for letter, width in zip("ABCDEF", (24, 34, 18, 18, 10, 50), strict=True):
        figures.column_dimensions[letter].width = width
    # The same sheet has the same bytes: neither the workbook nor its archive tells the time.
    book.properties.created = book.properties.modified = datetime(1980, 1, 1)
    made = BytesIO()
    book.save(made)
    with ZipFile(made) as archive, ZipFile(path, "w", ZIP_DEFLATED) as same:
        for name in archive.namelist():
            entry = ZipInfo(name)
            entry.compress_type = ZIP_DEFLATED
            content = archive.read(name)
            if name == "docProps/core.xml":  # saving sets the time of the change
                content = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\g<1>" + NO_TIME, content)
            same.writestr(entry, content)


def _grid(section: SheetSection) -> list[tuple[float | str | None, ...]]:
    """Return header and rows of a section."""
    units = section.quantities
    if not units:
        rows = [(f.item, f.value, f.unit, f.note) for f in section.figures]
        return [("", "Value", "Unit", "When, of what, or why not available"), *rows]
    heads = (f"{name} [{unit}]" if unit else name for name, unit in units.items())
    return [
        ("", *heads),
        *(
            (item, *(cells[name].value if name in cells else None for name in units))
            for item, cells in section.rows.items()
        ),
    ]
