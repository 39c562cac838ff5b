"""Sweeps and ensembles: many runs of a scenario with varied keys, and a summary."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
