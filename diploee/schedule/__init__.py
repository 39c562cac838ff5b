"""When each job starts: a queue discipline in SimPy, or its compiled twin."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
