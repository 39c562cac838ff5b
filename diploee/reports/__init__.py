"""The report: one self-contained HTML page, and pictures, from run folders or a sweep alone.

The way of a number: a folder (`data`, `sweep_data`) -> arrays small enough for a page
(`aggregate`) -> charts that know no drawing library (`power_charts`, `band_charts`, `job_charts`,
`service_charts`, `sweep_charts`) -> a page of plotly figures (`page`) or files (`diploee.drawing`).
`grid_section` tells how the grid sees one run: the grid metrics as tables and charts
(`demand_tables`, `grid_tables`, `grid_charts`) and the worst windows at 0.1 s
(`event_window_charts`). `datasheet` is another page, of what an interconnection asks for, with its
files (`datasheet_files`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.reports.build import report as report
    from diploee.reports.build import write_report as write_report
    from diploee.reports.compare import Comparison as Comparison
    from diploee.reports.datasheet_files import write_datasheet as write_datasheet
else:
    from diploee.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
