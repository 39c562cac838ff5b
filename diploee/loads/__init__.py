"""Loads of a site: jobs, request services and replicas.

Each load is lowered to segments of power.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
