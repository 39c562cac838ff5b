"""Watching a run: its stages, their progress, their wall time and memory."""

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
"""Reports progress of a stage: the fraction done, 0-1, and a short text."""


def _ignore(fraction: float, text: str) -> None:
    """Take a report of progress and do nothing."""


def stop_with(error: BaseException | None) -> None:
    """Have the next stage or lap of a run raise an error; None: have it raise nothing.

    What a signal's handler raises is lost where it comes within a callback, such as
    that of a finalizer or of compiled code: Python reports and drops it. A run must end
    all the same.
    """
    _stops[:] = [] if error is None else [error]


def _go_on() -> None:
    if _stops:
        raise _stops[0]


class Progress:
    """Does nothing; the command line's watch draws a progress bar per stage."""

    @contextmanager
    # Subclasses show it
    def stage(self, name: str) -> Iterator[Update]:  # noqa: ARG002
        """Enclose a stage of the run; yields the function that reports its progress."""
        yield _ignore

    def tell(self, text: str) -> None:
        """Show a warning before the run ends."""

    def forecast(self, text: str) -> None:
        """Show the expected time and memory of the run, by default as `tell` does."""
        self.tell(text)


_watch: ContextVar[Progress | None] = ContextVar("watch", default=None)
_stage: ContextVar[Update | None] = ContextVar("stage", default=None)


@contextmanager
def watched_by(progress: Progress) -> Iterator[None]:
    """Have a watch show the stages of whatever is called within, as a command does."""
    token = _watch.set(progress)
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def stage(name: str, progress: Progress | None = None) -> Iterator[Update]:
    """Enclose a long part, or decorate its function.

    Within another stage it is a part of that.
    """
    watch = progress or _watch.get() or Progress()
    if progress is None and (outer := _stage.get()) is not None:
        yield outer
        return
    with watch.stage(name) as update:
        token = _stage.set(update)
        try:
            yield update
        finally:
            _stage.reset(token)


def report(fraction: float, text: str = "") -> None:
    """Move the bar of the stage that is open.

    The fraction done, 0-1, and a short text.
    """
    if (update := _stage.get()) is not None:
        update(fraction, text)


NOTEBOOK_EVERY_S = 0.25
"""A bar in a notebook is drawn anew so often at most."""


class NotebookBar:
    """A bar in the output of a notebook's cell, which IPython draws anew."""

    def __init__(self, name: str) -> None:
        ipython: Any = import_module("IPython.display")
        self._name, self._html = name, ipython.HTML
        self._started_s, self._drawn_s = time.monotonic(), 0.0
        self._handle = ipython.display(self._bar("value=0", ""), display_id=True)

    def _bar(self, state: str, text: str) -> Any:
        words = escape(text)
        return self._html(
            f"{escape(self._name)} <progress max=1 {state}></progress> {words}"
        )

    def update(self, fraction: float, text: str) -> None:
        """Move the bar: the fraction done, 0-1, and a short text."""
        if time.monotonic() - self._drawn_s >= NOTEBOOK_EVERY_S:
            self._drawn_s = time.monotonic()
            self._handle.update(self._bar(f"value={fraction:.4f}", text))

    def end(self) -> None:
        """Draw the bar full, with the time taken."""
        self._handle.update(
            self._bar("value=1", f"{time.monotonic() - self._started_s:.1f} s")
        )


class NotebookProgress(Progress):
    """Draws a bar per stage into the output of a notebook's cell."""

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Show a stage; its bar stays where the run was stopped."""
        bar = NotebookBar(name)
        yield bar.update
        bar.end()


def in_notebook() -> bool:
    """Return whether this process draws into the cells of a notebook."""
    return "ipykernel" in sys.modules


@dataclass
class Stopwatch:
    """Wall time and peak memory of stages, passing each on to a watch."""

    progress: Progress  # receives every stage and its progress
    # Per stage: wall time [s] and the process's peak memory at its end [MB]
    stages: dict[str, dict[str, float]] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Time a stage."""
        _go_on()
        started = time.perf_counter()
        with stage(name, self.progress) as update:
            yield update
        self.stages[name] = {
            "wall_s": round(time.perf_counter() - started, 3),
            "peak_memory_mb": round(peak_memory_mb(), 1),
        }

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        """Add to the time of a part of a stage that comes again and again."""
        _go_on()
        started = time.perf_counter()
        yield
        before_s = self.stages.get(name, {"wall_s": 0.0})["wall_s"]
        wall_s = round(before_s + time.perf_counter() - started, 6)
        self.stages[name] = {
            "wall_s": wall_s,
            "peak_memory_mb": round(peak_memory_mb(), 1),
        }


def peak_memory_mb() -> float:
    """Return the largest resident memory of this process so far [MB].

    0 where unknown.
    """
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
