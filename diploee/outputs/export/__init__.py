"""Exports of a run to the tools that planners use: ``diploee export FORMAT RUN_DIR``.

One file per format; `registry` lists them and holds `export_run`. What they share: `base` (a
format, its options, what its writer is given), `source` (the run or one of its zooms), `series`
(the power, streamed and resampled by exact means), `window` and `calendar_year` (which part of it),
`reactive` (a user's Q(P) table), `stamps` (local time), `text` (CSV), `sidecar` (what the numbers
are) and `place` (whole or not at all).
"""

from diploee.outputs.export.base import Format, LeapDay, Options
from diploee.outputs.export.registry import FORMATS, export_run

__all__ = ["FORMATS", "Format", "LeapDay", "Options", "export_run"]
