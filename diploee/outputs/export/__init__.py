"""Exports of a run to the tools that planners use: ``diploee export FORMAT RUN_DIR``.

One file per format; `registry` lists them and holds `export_run`. What they share: `base` (a
format, its options, what its writer is given), `series` (the power, streamed and resampled by exact
means), `window` (which part of it), `reactive` (the run's own Q or a user's Q(P)), `stamps` (local
time), `text` (CSV) and `sidecar` (what the numbers are).
"""

from diploee.outputs.export.base import Format, LeapDay, Options
from diploee.outputs.export.registry import FORMATS, export_run

__all__ = ["FORMATS", "Format", "LeapDay", "Options", "export_run"]
