"""Foundations: units, errors, time, tables, columns, metrics, models, files.

Every other package imports this one; it imports none of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
