"""Reports of runs or of a sweep: one self-contained HTML page, and chart images.

`data` and `sweep_data` read folders. `run_sections` gives sections of statistics and
tables, `aggregate` reduces series to the points of a chart. `build` adds the charts
that the sections name, and writes a page (`drawing.page`) or images
(`drawing.pictures`). `datasheet` is a page for an interconnection request; `compare`
compares runs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
