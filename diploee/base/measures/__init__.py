"""Measures: what is summed, ranked and counted of a series, whatever its blocks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
