"""The command line for tests: in this process, quick, or in one of its own, real.

Tests import it as ``from command_line import call, start``.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from diploee.cli import main

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def problems(self) -> list[str]:
        """What it complained about, a line each; nothing else may stand among them."""
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
        ):
            main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return Ended(code, out.getvalue(), err.getvalue())


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start ``diploee`` in a process of its own.

    It writes no byte code, which a limit on file size would cut.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "diploee", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"},
        **options,
    )


def run(*arguments: object, timeout_s: float = 120, **options: Any) -> Ended:
    """Run ``diploee`` in a process of its own to its end."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=timeout_s)
    return Ended(process.returncode, out, err)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, hidden ones too, by their relative names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
