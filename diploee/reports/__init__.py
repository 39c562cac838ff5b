"""The report: one self-contained HTML page, and pictures, from run folders or a sweep alone.

The way of a number: a folder (`data`, `sweep_data`) -> sections of figures and tables
(`diploee.runs.run_sections`), and arrays small enough for a page (`aggregate`) -> charts, by the
ids that the sections name (`build`) -> a page (`page`) or files (`diploee.reports.drawing`). `datasheet` is
another page of sections, of what an interconnection asks for; `compare` ranks by the same sections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.reports.build import report as report
    from diploee.reports.build import write_report as write_report
    from diploee.reports.compare import Comparison as Comparison
    from diploee.reports.datasheet import write_datasheet as write_datasheet
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
