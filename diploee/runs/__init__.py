"""Outputs: the run folder with its Parquet files, metrics and manifest, and its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.errors import OutputError as OutputError
    from diploee.base.errors import OutputExistsError as OutputExistsError
    from diploee.runs.folder import MANIFEST as MANIFEST
    from diploee.runs.folder import METRICS_FILE as METRICS_FILE
    from diploee.runs.parquet_files import FACILITY_FILE as FACILITY_FILE
    from diploee.runs.parquet_files import JOBS_FILE as JOBS_FILE
    from diploee.runs.reader import Measured as Measured
    from diploee.runs.reader import Run as Run
    from diploee.runs.reader import open_run as open_run
    from diploee.runs.series import RunSeries as RunSeries
    from diploee.runs.series import SeriesBlock as SeriesBlock
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
