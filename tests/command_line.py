"""The command line for tests: in this process, quick, or in one of its own, real.

Tests import it as ``from command_line import call, start``.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from diploee.cli import command_line

PATIENCE_S = 900
"""For what a test waits for: only what hangs takes so long, on whatever machine."""
MAX_S = 60
"""CPU time of what should take a second, and 10 s at most: on a slow machine that
compiles too."""
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # the last not on Windows
SIGNALS = tuple(signal.Signals[name] for name in _NAMES if hasattr(signal, name))

for _number in SIGNALS:
    # What is ignored, as in a shell's background, the processes of tests would ignore
    # as well.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def problems(self) -> list[str]:
        """Its complaints, a line each; nothing else may be among them."""
        lines = self.err.splitlines()
        assert "Traceback" not in self.err, self.err
        assert all(line.startswith("diploee: ") for line in lines), self.err
        return [line.removeprefix("diploee: ") for line in lines]

    @property
    def problem(self) -> str:
        """The one thing that it complained about."""
        (problem,) = self.problems
        return problem


def call(*arguments: object) -> Ended:
    """Run ``diploee`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    code = 0
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            mock.patch.object(sys, "argv", ["diploee", *map(str, arguments)]),
            # Not `-m pytest`
            mock.patch.object(sys.modules["__main__"], "__package__", None),
        ):
            command_line()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return Ended(code, out.getvalue(), err.getvalue())


def start(
    *arguments: object, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start ``diploee`` in a process of its own.

    It writes no byte code, which a limit on file size would cut.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "diploee", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "100",
            **(environment or {}),
        },
        **options,
    )


def run(*arguments: object, **options: Any) -> Ended:
    """Run ``diploee`` in a process of its own to its end."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Ended(process.returncode, out, err)


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None
) -> None:
    """Wait for what others do; fail where a process that should do it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, hidden ones too, by their relative names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
