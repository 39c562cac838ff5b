"""Reports of runs or of a sweep: one self-contained HTML page, and chart images.

`data` and `sweep_data` read folders. `run_sections` makes sections of statistics and
tables, and `aggregate` reduces series to the points of charts. `build` adds the charts
of each section, and writes a page (`drawing.page`) or images (`drawing.pictures`).
`datasheet` makes the page for an interconnection request. `compare` compares runs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
