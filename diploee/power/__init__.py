"""Power: loads lower to segments, segments sum to power blocks with exact energy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
