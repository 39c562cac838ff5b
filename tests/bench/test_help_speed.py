"""The help against the floor of typer itself in the same minute, best of several."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

FLOOR = "import typer, rich.console, rich.panel, rich.table, rich.markdown, rich.markup"


def best_s(*arguments: str) -> float:
    def once_s() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        return time.perf_counter() - started

    return min(once_s() for _ in range(3))


@pytest.mark.bench
def test_help_is_quick() -> None:
    assert best_s("-m", "diploee", "--help") < max(0.6, 3 * best_s("-c", FLOOR))
