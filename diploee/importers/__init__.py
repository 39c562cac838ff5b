"""Importers of foreign files, with one module per file format.

Formats of job logs, request traces, power measurements and benchmarks. Modules are
imported on first use, so the command line can list options without loading them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
