"""Values that the tools must find, computed apart from the exports."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq

from diploee import Run

STEP = "15 min"
STEP_H = 0.25


def means_mw(run: Run, rows: int) -> np.ndarray:
    """The run's power as means over n intervals [MW], computed apart from the export."""  # noqa: E501
    table = pq.read_table(run.folder / "facility.parquet")
    power_w = table.column("facility_power_w").to_numpy().astype(np.float64)
    return power_w.reshape(-1, rows).mean(axis=1) / 1e6
