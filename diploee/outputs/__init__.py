"""Outputs: the run folder with its Parquet files, metrics and manifest, and its reader."""

from diploee.outputs.facility_file import FACILITY_FILE, FacilityFile
from diploee.outputs.folder import NewRun, default_folder, new_run_folder
from diploee.outputs.jobs_file import write_jobs
from diploee.outputs.manifest import MANIFEST, METRICS_FILE, build_manifest, write_json
from diploee.outputs.reader import Run, open_run
from diploee.outputs.serving_manifest import serving_entries
from diploee.outputs.size import expected_mb
from diploee.outputs.zooms_file import write_zooms

__all__ = [
    "FACILITY_FILE",
    "MANIFEST",
    "METRICS_FILE",
    "FacilityFile",
    "NewRun",
    "Run",
    "build_manifest",
    "default_folder",
    "expected_mb",
    "new_run_folder",
    "open_run",
    "serving_entries",
    "write_jobs",
    "write_json",
    "write_zooms",
]
