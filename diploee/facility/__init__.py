"""Equipment between the devices and the meter, as stages that act on power blocks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
