"""Limits on a load, and whether it meets them.

Kinds of limits, presets by name, three verdicts. A kind, registered with `LIMITS`, is a
model of its keys in YAML that makes checks of itself for what a run shows; a `Check`
turns the stream into comparable values.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
