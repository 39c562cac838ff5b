"""Device power of a run: sums of load segments over time, with exact energy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
