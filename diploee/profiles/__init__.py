"""Power profiles of jobs: the profile type, its Parquet store, and the library."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
