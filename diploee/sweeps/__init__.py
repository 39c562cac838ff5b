"""Sweeps and ensembles: axes and draws to scenarios, scenarios to executors, runs to a summary."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
