"""Outputs: the run folder with its Parquet files, metrics and manifest, and its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.errors import OutputError as OutputError
    from diploee.errors import OutputExistsError as OutputExistsError
    from diploee.outputs.folder import MANIFEST as MANIFEST
    from diploee.outputs.folder import METRICS_FILE as METRICS_FILE
    from diploee.outputs.parquet_files import FACILITY_FILE as FACILITY_FILE
    from diploee.outputs.parquet_files import JOBS_FILE as JOBS_FILE
    from diploee.outputs.reader import Measured as Measured
    from diploee.outputs.reader import Run as Run
    from diploee.outputs.reader import open_run as open_run
    from diploee.outputs.series import RunSeries as RunSeries
    from diploee.outputs.series import SeriesBlock as SeriesBlock
else:
    from diploee.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
