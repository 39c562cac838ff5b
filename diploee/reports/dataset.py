"""Power series of a run as an xarray dataset with attributes of the CF conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from diploee.base.column_specs import VALUE_KINDS, ValueKind, find_column
from diploee.base.errors import InputError
from diploee.base.version import full_version
from diploee.runs.reader import RunFolder

if TYPE_CHECKING:
    import xarray

CELL_METHODS: dict[ValueKind, str] = {
    "mean": "time: mean",
    "total": "time: sum",
    "instant": "time: point",
    "end": "time: point",
}
"""CF cell method of each kind of value in an interval."""


def power_dataset(run: RunFolder, columns: Sequence[str] | None) -> xarray.Dataset:
    """Return the power series as a dataset; see `diploee.Run.to_xarray`."""
    try:
        import xarray as xr
    except ImportError as error:
        raise InputError(
            "to_xarray: the package 'xarray' is missing; pip install 'diploee[xarray]'"
        ) from error
    import pandas as pd

    frame = run.facility(None if columns is None else [*columns])
    variables = {}
    for name, values in frame.items():
        column, _ = find_column(str(name), run.columns)
        attributes = {
            "units": column.unit or "1",
            "long_name": column.text,
            "cell_methods": CELL_METHODS[column.kind],
            "comment": VALUE_KINDS[column.kind],
            "boundary": column.boundary or "none",
        }
        variables[str(name)] = ("time", values.to_numpy(), attributes)
    time = {"standard_name": "time", "long_name": "start of the interval, UTC"}
    index = pd.DatetimeIndex(frame.index)
    start_utc = index.tz_convert("UTC").tz_localize(None)
    return xr.Dataset(
        variables,
        coords={"time": ("time", start_utc.to_numpy(), time)},
        attrs={
            "Conventions": "CF-1.11",
            "title": run.scenario.name,
            "source": f"diploee {full_version()}, scenario {run.scenario.sha256()}",
            "time_zone": str(index.tz),
        },
    )
