"""Public Python functions for planners: the table by year."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from diploee.runs.reader import RunFolder

if TYPE_CHECKING:
    import pandas as pd


def by_year(
    run: RunFolder | Path | str, peaks: Path | str | None = None, **options: Any
) -> pd.DataFrame:
    """Return what planners ask of each step of a build-out in each year.

    Parameters
    ----------
    run : Run or path
        A finished run, or its folder.
    peaks : path, optional
        CSV of the peak hours, such as those of `diploee.datasheet`; rows of the same
        name are one case. By default the site's own highest hours of each season.
    **options : object
        Further fields of `diploee.grid.export.Options` that ``by-year`` takes, such as
        ``step="15 min"``.

    Returns
    -------
    pandas.DataFrame
        A row for each calendar year, step and case: the largest of its means, and P50
        and P95 of MW, Mvar, power factor, and of IT and cooling apart [MW]; rated power
        and contract of all nodes that stand [MW]. Each ``*_basis`` says what the
        figures before it are, and what is assumed.

    Raises
    ------
    InputError
        If the run can't be read, or the file has other hours than the run.
    """
    import pandas as pd

    from diploee.grid.export.base import Options
    from diploee.grid.export.registry import by_year as year_table
    from diploee.importers.peak_intervals import read_peak_intervals

    if peaks is not None:
        options["peaks"] = read_peak_intervals(peaks)
    rows = year_table(RunFolder.open(run), Options(**options))
    return pd.DataFrame(rows)
