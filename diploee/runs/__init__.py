"""The run folder: its Parquet files, metrics and manifest, and their reader."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
