"""Benchmark measurements of serving models, compiled into cached artifacts.

A spec says which measurements; a source reads them; `InferenceData` and
`LogisticModelStore` are compiled from them and cached, `TrainingTrace` is synthesised.
`operating_points` turns a request rate into power and latency.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
