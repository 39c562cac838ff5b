"""Replicas of served models.

Templates of power by batch size, and who chooses batch sizes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
