"""Writer of workbooks (xlsx), whose bytes depend on their content alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from diploee.base.errors import InputError, spreadsheet_cell

ORIGIN = datetime(1980, 1, 1)
"""Time of a workbook, that of its parts: the first that a ZIP file can hold."""


def openpyxl() -> ModuleType:
    """Return the package `openpyxl`, or raise an error if it is not installed."""
    try:
        return import_module("openpyxl")
    except ImportError:
        raise InputError(
            "--excel: workbooks need the package openpyxl; pip install "
            "'diploee[excel]', or leave it out for CSV files alone"
        ) from None


def write_workbook(
    path: Path, tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[Any]]]]
) -> None:
    """Write a workbook with a sheet for each named table."""
    book = openpyxl().Workbook()
    book.remove(book.active)
    book.properties.created = book.properties.modified = ORIGIN
    for name, (header, rows) in tables.items():
        sheet = book.create_sheet(name)
        sheet.freeze_panes = "A2"
        for row in (header, *rows):
            sheet.append([spreadsheet_cell(value) for value in row])
    parts = BytesIO()
    writer = import_module("openpyxl.writer.excel").ExcelWriter
    writer(book, ZipFile(parts, "w")).save()
    with ZipFile(parts) as source, ZipFile(path, "w", ZIP_DEFLATED) as target:
        for part in source.namelist():
            target.writestr(ZipInfo(part), source.read(part), ZIP_DEFLATED)
