"""Exports of a run for the tools that planners use: ``diploee export FORMAT RUN_DIR``.

`registry` lists the formats and has `export_run`. `base` has the types that all formats
share, `series` the resampled power, `csv_writer` the writer of CSV files and
timestamps. The other modules contain the formats.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
