"""Exports of a run to the tools that planners use: ``diploee export FORMAT RUN_DIR``.

A file for tables, power flow, dynamics and planners; `registry` lists the formats and
holds `export_run`. What they share: `base` (a format, its options, what its writer is
given), `series` (the power and reactive power, streamed and resampled by exact means,
and which part of it) and `text` (CSV and stamps).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
