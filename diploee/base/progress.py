"""Progress of a run: its stages, their wall time and memory, and progress bars."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

_stops: list[BaseException] = []

Update = Callable[[float, str], None]
"""Callback that reports a stage's progress: fraction done (0-1) and a short text."""


def _ignore(fraction: float, text: str) -> None:
    """Ignore a progress report, if no progress is shown."""


def stop_with(error: BaseException | None) -> None:
    """Make the next stage or lap of a run raise an error; None cancels that.

    Python drops an exception that a signal handler raises during a callback, such as a
    finalizer or a callback of compiled code. The run must end nevertheless.
    """
    _stops[:] = [] if error is None else [error]


def _raise_if_stopped() -> None:
    """Raise the error of `stop_with`, if any."""
    if _stops:
        raise _stops[0]


class Progress:
    """A silent progress observer, which the command line overrides with bars."""

    @contextmanager
    # Subclasses use the name
    def stage(self, name: str) -> Iterator[Update]:  # noqa: ARG002
        """Enclose a stage of the run, and yield its progress callback."""
        yield _ignore

    def tell(self, text: str) -> None:
        """Show a warning at once, not only at the end of the run."""

    def forecast(self, text: str) -> None:
        """Show the forecast time and memory of the run, by default like a warning."""
        self.tell(text)


_observer: ContextVar[Progress | None] = ContextVar("watch", default=None)
_stage: ContextVar[Update | None] = ContextVar("stage", default=None)


@contextmanager
def show_progress(progress: Progress) -> Iterator[None]:
    """Show the progress of all stages within the block, as a command does."""
    token = _observer.set(progress)
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def stage(name: str, progress: Progress | None = None) -> Iterator[Update]:
    """Enclose a long stage of work (context manager or decorator).

    Within another stage it is shown as a part of the outer stage.
    """
    observer = progress or _observer.get() or Progress()
    if progress is None and (outer := _stage.get()) is not None:
        yield outer
        return
    with observer.stage(name) as update:
        token = _stage.set(update)
        try:
            yield update
        finally:
            _stage.reset(token)


def report(fraction: float, text: str = "") -> None:
    """Report progress of the current stage: fraction done (0-1) and a short text."""
    if (update := _stage.get()) is not None:
        update(fraction, text)


NOTEBOOK_EVERY_S = 0.25
"""Minimum interval between updates of a notebook's bar [s]."""


class NotebookBar:
    """A progress bar in the output of a notebook cell, updated through IPython."""

    def __init__(self, name: str) -> None:
        ipython: Any = import_module("IPython.display")
        self._name, self._html = name, ipython.HTML
        self._started_s, self._updated_s = time.monotonic(), 0.0
        self._handle = ipython.display(self._bar("value=0", ""), display_id=True)

    def _bar(self, state: str, text: str) -> Any:
        escaped = escape(text)
        return self._html(
            f"{escape(self._name)} <progress max=1 {state}></progress> {escaped}"
        )

    def update(self, fraction: float, text: str) -> None:
        """Update the bar with the fraction done (0-1) and a short text."""
        if time.monotonic() - self._updated_s >= NOTEBOOK_EVERY_S:
            self._updated_s = time.monotonic()
            self._handle.update(self._bar(f"value={fraction:.4f}", text))

    def end(self) -> None:
        """Draw the full bar, with the time taken."""
        self._handle.update(
            self._bar("value=1", f"{time.monotonic() - self._started_s:.1f} s")
        )


class NotebookProgress(Progress):
    """A progress observer that draws a bar per stage in a notebook cell."""

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Show the bar of a stage; after an error it stays at its last position."""
        bar = NotebookBar(name)
        yield bar.update
        bar.end()


def usual_progress() -> Progress:
    """Return the progress of a Python call: bars in a Jupyter kernel, else none."""
    return NotebookProgress() if "ipykernel" in sys.modules else Progress()


@dataclass
class Stopwatch:
    """Wall time and peak memory of stages, passed on to an observer."""

    progress: Progress  # observer that receives every stage and its progress
    # Per stage: wall time [s] and the process's peak memory at its end [MB]
    stages: dict[str, dict[str, float]] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Measure the wall time and peak memory of a stage."""
        _raise_if_stopped()
        started = time.perf_counter()
        with stage(name, self.progress) as update:
            yield update
        self.stages[name] = {
            "wall_s": round(time.perf_counter() - started, 3),
            "peak_memory_mb": round(peak_memory_mb(), 1),
        }

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        """Add the wall time of one repetition to a stage that is repeated."""
        _raise_if_stopped()
        started = time.perf_counter()
        yield
        previous_s = self.stages.get(name, {"wall_s": 0.0})["wall_s"]
        wall_s = round(previous_s + time.perf_counter() - started, 6)
        self.stages[name] = {
            "wall_s": wall_s,
            "peak_memory_mb": round(peak_memory_mb(), 1),
        }


def peak_memory_mb() -> float:
    """Return the peak resident memory of this process so far [MB], 0 if unknown."""
    # Linux: ru_maxrss would also count the process that started this one.
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # not on Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
