"""Power and latency models of served inference from benchmarks, and synthetic training.

A spec selects measurements of a benchmark, and a source reads them. The measurements
are compiled to `InferenceData` (traces and latencies) and `LogisticModelStore` (fits),
and cached. `TrainingTrace` is synthetic. `operating_points` converts a request rate to
power and latency.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
