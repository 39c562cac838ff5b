"""Exports of a run to the tools that planners use: ``diploee export FORMAT RUN_DIR``.

A file per tool, those of plain tables in one; `registry` lists the formats and holds `export_run`.
What they share: `base` (a format, its options, what its writer is given), `series` (the power and
reactive power, streamed and resampled by exact means), `window` (which part of it), `text` (CSV and
stamps) and `sidecar` (what the numbers are).
"""

from diploee.outputs.export.base import Format, LeapDay, Options
from diploee.outputs.export.registry import FORMATS, export_run

__all__ = ["FORMATS", "Format", "LeapDay", "Options", "export_run"]
