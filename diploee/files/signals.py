"""Signals held back for the moments in which a result takes its place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_HELD = ("SIGINT", "SIGTERM", "SIGHUP")
_late: list[int] = []


def is_late() -> bool:
    """Return whether the signal that is being handled came once a result had taken its place.

    A handler may then let the command end as if the signal had come after it.
    """
    return bool(_late)


@contextmanager
def uninterrupted(completes: bool = False) -> Iterator[None]:
    """Hold back what ends a process, as Ctrl-C, until the block is done.

    Only the main thread is ever interrupted, so elsewhere nothing is to be done.

    Parameters
    ----------
    completes : bool
        At the end of the block a result stands; `is_late` says so to the handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = [getattr(signal, name) for name in _HELD if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    # None is a handler that is not Python's, which could not be put back.
    held = {n: h for n, h in handlers.items() if h not in (None, signal.SIG_IGN)}
    done = False
    try:
        for number in held:
            signal.signal(number, lambda number, _frame: came.append(number))
        yield
        done = True
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if came:
            _late.extend(came if completes and done else ())
            try:
                signal.raise_signal(came[0])
            finally:
                _late.clear()
