"""Public functions for planners: a table by calendar year, and a planner's package."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pydantic import InstanceOf

from diploee.api import run
from diploee.api.sites import AnyProfiles, AnyScenario, Values
from diploee.base.arguments import AnyDuration, checked_arguments
from diploee.base.files import check_output_folder
from diploee.base.progress import Progress
from diploee.grid.export.workbook import openpyxl
from diploee.grid.limits.file import AnyLimits
from diploee.importers.peak_intervals import read_peak_intervals
from diploee.reports.package import PACKAGE_FOLDER, write_package
from diploee.runs.reader import AnyRun, RunFolder
from diploee.runs.sections import Section
from diploee.scenario.models import Scenario
from diploee.sweeps.firm import firm

if TYPE_CHECKING:
    import pandas as pd


@checked_arguments
def by_year(
    run: AnyRun, peaks: Path | str | None = None, *, step: AnyDuration | None = None
) -> pd.DataFrame:
    """Return power and capacity by calendar year and step of a build-out.

    Parameters
    ----------
    run : Run or path
        A finished run, or its folder.
    peaks : path, optional
        CSV of the peak hours, such as those of `diploee.datasheet`; rows of the same
        name are one case. By default the site's own highest hours of each season.
    step : str, optional
        Step of the values, such as ``"15 min"``; means over steps of the run.

    Returns
    -------
    pandas.DataFrame
        A row for each calendar year, step of the build-out and case (all hours or a
        peak): the peak, and P50 and P95 of MW, Mvar, power factor, IT power and
        cooling power [MW]; rated power and contract of all nodes installed so far
        [MW]. Each column ``*_basis`` gives the source and the assumptions of the
        columns before it.

    Raises
    ------
    InputError
        If the run can't be read, or a peak hour is not within the run.
    """
    from diploee.grid.export.base import Options
    from diploee.grid.export.registry import by_year as year_table

    spans = None if peaks is None else read_peak_intervals(peaks)
    return year_table(RunFolder.open(run), Options(peaks=spans, step=step))


@checked_arguments
def package(
    site: AnyScenario,
    out: Path | str,
    *,
    limits: AnyLimits = (),
    peaks: Path | str | None = None,
    excel: bool = False,
    force: bool = False,
    duration: timedelta | str | None = None,
    seed: int | None = None,
    values: Values = (),
    profiles: AnyProfiles = (),
    at_most_s: float | None = None,
    progress: InstanceOf[Progress] | None = None,
) -> Path:
    """Simulate a site, and write a folder with all documents that a planner requests.

    The folder's README lists the file for each question, the assumptions, and the
    questions that the run can't answer. The same scenario gives the same bytes. If the
    folder replaces an older package with other keys or results, a page lists the
    differences.

    Parameters
    ----------
    site : Scenario, mapping, path or str
        A scenario, its content, its file, or the name of a shipped one.
    out : path
        Folder to write; it is whole or absent.
    limits : Limits, path or str, or a list of these
        Limits to check during the run, files of limits, or names of presets.
    peaks : path, optional
        CSV of the power system's peak hours, for the tables by year and of firm levels.
    excel : bool
        Also write the table by year as a workbook.
    force : bool
        Replace an older package.
    duration, seed, values, profiles, at_most_s, progress
        As in `diploee.run`.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    ScenarioError
        If the scenario or a value is invalid.
    InputError
        If an input or the folder is not usable, or the forecast is too long.
    """
    check_output_folder(out, force, kind=PACKAGE_FOLDER)  # before any work
    if excel:
        openpyxl()
    spans = None if peaks is None else read_peak_intervals(peaks)
    with TemporaryDirectory() as folder:
        result = run(
            site,
            Path(folder, "run"),
            duration=duration,
            seed=seed,
            limits=limits,
            values=values,
            profiles=profiles,
            engine=None,
            event_windows=True,
            at_most_s=at_most_s,
            progress=progress,
        )
        write_package(
            result,
            out,
            peaks=spans,
            excel=excel,
            firm=lambda: firm_section(result.scenario, profiles, peaks),
            force=force,
        )
    return Path(out)


def firm_section(
    scenario: Scenario, profiles: AnyProfiles = (), peaks: Path | str | None = None
) -> Section:
    """Return the table of a site's firm levels, for the scenario's seed alone."""
    study = firm(scenario, seeds=1, notice="1 h", profiles=profiles, peaks=peaks)
    return study.sections()[0]
