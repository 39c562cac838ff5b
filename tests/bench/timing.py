"""Seconds of actions side by side, so that what slows the machine slows all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median


def seconds(action: Callable[[], object]) -> float:
    """Wall time of an action [s]."""
    gc.collect()
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def interleaved(n_repeats: int, *actions: Callable[[], object]) -> list[float]:
    """Median time of each action [s], each repeat running them all in turn."""
    times = [[seconds(action) for action in actions] for _ in range(n_repeats)]
    return [median(of_one) for of_one in zip(*times, strict=True)]
