"""Importers of foreign files, with one module per file format.

The files are job logs, request traces, power measurements, benchmarks, weather and
other inputs of a scenario. Modules are imported on first use, which keeps the command
line quick.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
