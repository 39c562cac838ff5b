"""Metrics of runs: pure functions and accumulators over power blocks and schedules."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
