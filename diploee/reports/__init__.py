"""The report: one self-contained HTML page, and pictures, of runs or a sweep.

The way of a number: a folder (`data`, `sweep_data`) -> sections of figures and tables
(`run_sections`), and arrays small enough for a page (`aggregate`) -> charts, by the ids
that the sections name (`build`) -> a page (`page`) or files
(`drawing`). `datasheet` is another page of sections, of what an
interconnection asks for; `compare` ranks by the same sections.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
