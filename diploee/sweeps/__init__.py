"""Sweeps and ensembles: from axes and draws to scenarios, runs and a summary."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
