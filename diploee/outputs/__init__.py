"""Outputs: the run folder with its Parquet files, metrics and manifest, and its reader."""

from diploee.outputs.event_window_files import write_event_windows
from diploee.outputs.facility_file import FACILITY_FILE, FacilityFile
from diploee.outputs.folder import (
    MANIFEST,
    NewRun,
    default_folder,
    expected_mb,
    new_run_folder,
    run_files,
)
from diploee.outputs.jobs_file import JOBS_FILE, JobsFile
from diploee.outputs.manifest import METRICS_FILE, build_manifest, serving_entries, write_json
from diploee.outputs.reader import Run, open_run
from diploee.outputs.series import RunSeries, SeriesBlock

__all__ = [
    "FACILITY_FILE",
    "JOBS_FILE",
    "MANIFEST",
    "METRICS_FILE",
    "FacilityFile",
    "JobsFile",
    "NewRun",
    "Run",
    "RunSeries",
    "SeriesBlock",
    "build_manifest",
    "default_folder",
    "expected_mb",
    "new_run_folder",
    "open_run",
    "run_files",
    "serving_entries",
    "write_event_windows",
    "write_json",
]
