"""Kill what writes at each of its steps, in a forked child, so that hundreds of kills
are quick.

A step is anything that changes a folder or asks for it to be kept: a file opened for
writing, a rename, a removal, a new folder, a sync. Tests import it as
``from killing import kills``.

A child ends with this process and after `PATIENCE_S` at the latest: one that hung would
hold the pipes of a test worker that died, for whose end pytest would wait for ever.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa
from command_line import PATIENCE_S, Ended, call

CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MAX_STEPS = 400

_FORKING = threading.Lock()
_PR_SET_PDEATHSIG = 1  # of Linux' prctl.h

# A child has the locks of this process as they stood. The C library's allocator takes
# all of its own before a fork; those of pyarrow don't.
pa.set_memory_pool(pa.system_memory_pool())


def ended(
    action: Callable[[], object], prepare: Callable[[], object] | None = None
) -> int:
    """Do something in a forked child; return 0, 1 where it raised, or minus its signal."""  # noqa: E501
    parent = os.getpid()
    with _FORKING, warnings.catch_warnings():
        # Other threads of ours hold no lock
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            end_with(parent)
            if prepare is not None:
                prepare()
            action()
            code = 0
        except BaseException:  # the parent sees the code alone  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def end_with(parent: int) -> None:
    """End this child when its parent ends, and tell where it stands when it takes for
    ever."""
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True, file=sys.__stderr__)
    with suppress(AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def answer(
    action: Callable[[], Any], prepare: Callable[[], object] | None = None
) -> Any:
    """Do something in a forked child and return what it returned: JSON's types, under
    64 KB."""
    read, write = os.pipe()
    code = ended(lambda: os.write(write, json.dumps(action()).encode()), prepare)
    os.close(write)
    with os.fdopen(read) as pipe:
        found = pipe.read()
    assert code == 0, code
    return json.loads(found)


def command(
    line: Sequence[object], prepare: Callable[[], object] | None = None
) -> Ended:
    """Run ``diploee`` with a command line in a forked child."""
    return Ended(*answer(lambda: astuple(call(*line)), prepare))


def n_steps(folder: Path, action: Callable[[], object]) -> int:
    """Return how many steps in a folder something has, done once in a forked child."""
    counts: list[Callable[[], int]] = []

    def act() -> int:
        action()
        return counts[0]()

    return int(answer(act, lambda: counts.append(kill_at(folder, 0))))


def kills(
    folder: Path,
    action: Callable[[], object],
    steps: Iterable[int] = (),
    first: int = 1,
) -> Iterator[int]:
    """Do something again and again, killed before one more of its steps in a folder
    each time.

    Yields the step after each kill, and ends when it was not killed any more; of
    `steps` only those that are given.
    """
    for step in steps or range(first, MAX_STEPS):
        code = ended(action, lambda step=step: kill_at(folder, step))
        if code == 0:
            return
        assert code == -signal.SIGKILL, code
        yield step
    assert steps, f"more than {MAX_STEPS} steps"


def kill_at(folder: Path, step: int, number: int = signal.SIGKILL) -> Callable[[], int]:
    """Send this process a signal before its n-th change in a folder; return what counts
    them."""
    count = 0

    def change() -> None:
        nonlocal count
        count += 1
        if count == step:
            os.kill(os.getpid(), number)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not (isinstance(flags, int) and flags & WRITES):
                return
        elif event in CHANGES:
            path = arguments[0]
        else:
            return
        with suppress(TypeError, ValueError):
            if Path.cwd().joinpath(os.fsdecode(path)).is_relative_to(folder):
                change()

    os.fsync = lambda _handle: change()  # without the disk's own time
    sys.addaudithook(hook)
    return lambda: count
