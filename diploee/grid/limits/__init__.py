"""Limits of a grid operator on a load, and compliance checks of runs.

`LIMITS` is the registry of limit kinds: each kind is a pydantic model of its YAML keys
and makes a `Check` for each value that it limits. A check compares a streamed series
with the limit. The result of a limit is met, not met or inconclusive. Presets of
published requirements ship as YAML files.

See also: docs/LIMITS.md
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
