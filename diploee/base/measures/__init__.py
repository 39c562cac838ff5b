"""Streaming measures of a series: percentiles, ramps, spectra, voltage changes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
