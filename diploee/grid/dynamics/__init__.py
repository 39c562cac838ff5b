"""Response of a site to disturbances of the grid's voltage and frequency.

Ride-through of load blocks, compliance with named curves, and a site that a grid
simulator advances step by step.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
