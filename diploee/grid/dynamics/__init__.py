"""Response of a site to the grid's voltage.

Ride-through, named curves, voltage changes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
