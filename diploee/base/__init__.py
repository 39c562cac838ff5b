"""Units, errors, time, tables, files.

What every other room stands on, and it on none.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
