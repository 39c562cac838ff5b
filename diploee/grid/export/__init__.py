"""Exports of a run to the tools that planners use: ``diploee export FORMAT RUN_DIR``.

A file for tables, power flow, dynamics and planners; `registry` lists the formats and holds
`export_run`.
What they share: `base` (a format, its options, what its writer is given), `series` (the power and
reactive power, streamed and resampled by exact means, and which part of it) and `text` (CSV and
stamps).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.grid.export.base import ExportRequest as ExportRequest
    from diploee.grid.export.base import Format as Format
    from diploee.grid.export.base import Options as Options
    from diploee.grid.export.base import Written as Written
    from diploee.grid.export.registry import FORMATS as FORMATS
    from diploee.grid.export.registry import export_run as export_run
    from diploee.grid.export.series import Series as Series
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
