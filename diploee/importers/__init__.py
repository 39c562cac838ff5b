"""Importers of foreign files, with one module per file format.

Job logs, request traces, power, benchmarks. Names are imported on first use: the
command line lists its options without loading them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
