"""The logs that a reader of the README and of `docs/profiles.md` is said to have."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

LOG_START = datetime(2025, 10, 7, 9, 38, 40, 617_145)


def write_logs(folder: Path, n_nodes: int = 2, n_rows: int = 301) -> None:
    """Write the logs of a job of 30 s as WattAMeter does: a GPU at 600 W, a CPU at 150 W a node."""
    folder.mkdir()
    for node in range(n_nodes):
        for kind, tag, first, step in (
            ("nvml", "gpu-0[mW]", 600_000, 0),
            ("rapl", "cpu-0[uJ]", 5_000_000_000, 15_000_000),
        ):
            rows = [
                f"  {LOG_START + k * timedelta(milliseconds=100):%Y-%m-%d_%H:%M:%S.%f} 45560 "
                f"{first + k * step}"
                for k in range(n_rows)
            ]
            text = "\n".join([f"# timestamp reading-time[ns] {tag}", *rows, ""])
            (folder / f"{kind}_wattameter_slurmid_4711_node_x{node}.log").write_text(text, "utf-8")
