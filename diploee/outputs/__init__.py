"""Outputs: the run folder with its Parquet files, metrics and manifest, and its reader."""

from diploee.outputs.facility_file import FACILITY_FILE, FacilityFile, write_event_windows
from diploee.outputs.folder import (
    MANIFEST,
    METRICS_FILE,
    RUN_FOLDER,
    build_manifest,
    default_folder,
    expected_mb,
    run_files,
    serving_entries,
    write_json,
)
from diploee.outputs.jobs_file import JOBS_FILE, JobsFile
from diploee.outputs.reader import Run, open_run
from diploee.outputs.series import RunSeries, SeriesBlock

__all__ = [
    "FACILITY_FILE",
    "JOBS_FILE",
    "MANIFEST",
    "METRICS_FILE",
    "RUN_FOLDER",
    "FacilityFile",
    "JobsFile",
    "Run",
    "RunSeries",
    "SeriesBlock",
    "build_manifest",
    "default_folder",
    "expected_mb",
    "open_run",
    "run_files",
    "serving_entries",
    "write_event_windows",
    "write_json",
]
