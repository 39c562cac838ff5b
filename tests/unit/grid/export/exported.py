"""Exports of a run, their sidecars, and the power that they were made of."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from diploee import Run
from diploee.grid.export import FORMATS, Options, export_run
from diploee.grid.export.registry import sidecar_path


def export(run: Run | Path, name: str, folder: Path, /, **options: Any) -> Path:
    """Export a run within a folder, under a name that the format takes."""
    suffix = (FORMATS[name].suffixes or ("",))[0]
    return export_run(run, name, folder / f"out{suffix}", Options(**options))


def stored_w(
    run: Run, column: str = "facility_power_w", file: str = "facility.parquet"
) -> np.ndarray:
    return pq.read_table(run.folder / file).column(column).to_numpy().astype(np.float64)


def sidecar(place: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        sidecar_path(place, place.is_dir()).read_text("utf-8")
    )
    return content


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))
