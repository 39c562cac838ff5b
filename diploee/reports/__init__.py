"""The report: one self-contained HTML page, and pictures, from run folders or a sweep alone.

The way of a number: a folder (`data`, `sweep_data`) -> arrays small enough for a page
(`aggregate`) -> charts that know no drawing library (`power_charts`, `band_charts`, `job_charts`,
`service_charts`, `sweep_charts`) -> a page of plotly figures (`page`) or files (`diploee.drawing`).
`grid_section` tells how the grid sees one run: the grid metrics as tables and charts
(`demand_tables`, `grid_tables`, `grid_charts`) and the worst windows at 0.1 s
(`event_window_charts`). `datasheet` is another page, of what an interconnection asks for, with its
files (`datasheet_files`).
"""

from diploee.drawing.charts import Chart
from diploee.reports.build import build_report, report, write_pictures, write_report
from diploee.reports.content import Report
from diploee.reports.data import RunData, read_run
from diploee.reports.page import report_page

__all__ = [
    "Chart",
    "Report",
    "RunData",
    "build_report",
    "read_run",
    "report",
    "report_page",
    "write_pictures",
    "write_report",
]
