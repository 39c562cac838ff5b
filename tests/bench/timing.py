"""Seconds of actions side by side, so that what slows the machine slows all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median

Clock = Callable[[], float]


def seconds(action: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Time of an action [s], by the wall or by the processor (`time.process_time`)."""
    gc.collect()
    started = clock()
    action()
    return clock() - started


def interleaved(
    n_repeats: int, *actions: Callable[[], object], clock: Clock = time.perf_counter
) -> list[float]:
    """Median time of each action [s], each repeat running them all in turn."""
    times = [[seconds(action, clock) for action in actions] for _ in range(n_repeats)]
    return [median(of_one) for of_one in zip(*times, strict=True)]
