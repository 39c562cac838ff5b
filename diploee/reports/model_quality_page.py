"""HTML page of a site's model-quality tests: outcomes, and charts of each group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import InstanceOf

from diploee.base.arguments import checked_arguments
from diploee.base.errors import InputError
from diploee.base.files import check_output_file, whole_file
from diploee.grid.dynamics.quality_tests import ModelQuality
from diploee.reports.build import Report, is_report, report_page
from diploee.reports.drawing.charts import Axis, Chart, Line, Panel, colour

PANELS = {
    "pu": ("Voltage", "pu"),
    "hz": ("Frequency", "Hz"),
    "p_mw": ("P", "MW"),
    "q_mvar": ("Q", "Mvar"),
}
"""Title and unit of each panel, by the field of a recording."""


def model_quality_chart(result: ModelQuality, group: str) -> Chart:
    """Return the chart of a group's tests: voltage or frequency, P and Q over time."""
    group_tests = [
        test for test in result.tests if test.group == group and test.recording
    ]
    unseen, panels = "pu" if group == "frequency steps" else "hz", []
    for key, (title, unit) in PANELS.items():
        lines = [
            Line(record.time_s, getattr(record, key), test.name, colour(k), unit, 3)
            for k, test in enumerate(group_tests)
            if (record := test.recording)
        ]
        if key != unseen:
            axes = Axis("Time [s]"), Axis(f"{title} [{unit}]")
            panels.append(Panel(*axes, tuple(lines), title, wide=True))
    text = "Above what goes in, below P and Q that come out, drawn positive."
    return Chart(group.replace(" ", "-"), group.capitalize(), text, tuple(panels))


def check_page_name(out: Path | str) -> None:
    """Raise an error unless a path ends in ``.html`` or ``.htm``."""
    if Path(out).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{out}: the name of a page must end in .html")


@checked_arguments
def write_model_quality(
    result: InstanceOf[ModelQuality], out: Path | str, force: bool = False
) -> Path:
    """Write the HTML page of a site's model-quality tests; replace an earlier one.

    Parameters
    ----------
    result : ModelQuality
        From `diploee.Run.model_quality`.
    out : path
        HTML page.
    force : bool
        Replace any file at this path, not only an earlier page.

    Raises
    ------
    InputError, OutputError
        If there is a file already, or the page can't be written.
    """
    check_page_name(out)
    check_output_file(out, force, replaces=is_report)  # before any work
    (section,) = result.sections()
    charts = tuple(model_quality_chart(result, name) for name in section.charts)
    page = Report(
        title=result.name,
        subtitle=f"load of {result.at:%Y-%m-%d %H:%M:%S}, held",
        sections=(replace(section, charts=charts),),
        kind="diploee model quality",
    )
    with whole_file(out, force, replaces=is_report) as path:
        path.write_text(report_page(page), encoding="utf-8")
    return Path(out)
