"""The sidecar of an export, and the power that it was made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from diploee import Run
from diploee.grid.export.registry import sidecar_of


def stored_w(
    run: Run, column: str = "facility_power_w", file: str = "facility.parquet"
) -> np.ndarray:
    return pq.read_table(run.folder / file).column(column).to_numpy().astype(np.float64)


def sidecar(place: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        sidecar_of(place, place.is_dir()).read_text("utf-8")
    )
    return content
