"""Type checkers accept the right calls of the front and refuse each wrong one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "typing"
RIGHT, WRONG = FOLDER / "right_calls.py", FOLDER / "wrong_calls.py"
WRONG_LINES = {
    number
    for number, line in enumerate(WRONG.read_text("utf-8").splitlines(), start=1)
    if line.startswith("diploee.")
}


def checked_by_mypy() -> set[tuple[str, int]]:
    """Return file and line of every error that mypy finds."""
    pytest.importorskip("mypy")
    line = [sys.executable, "-m", "mypy", "--no-error-summary", RIGHT, WRONG]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    rows = [row.split(":") for row in done.stdout.splitlines() if ": error:" in row]
    assert done.returncode in (0, 1), done.stderr
    return {(Path(row[0]).name, int(row[1])) for row in rows}


def checked_by_pyright() -> set[tuple[str, int]]:
    """Return file and line of every error that pyright finds."""
    pytest.importorskip("basedpyright")
    line = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error"]
    line += ["--pythonpath", sys.executable, str(RIGHT), str(WRONG)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found
    }


@pytest.mark.slow
@pytest.mark.parametrize("check", [checked_by_mypy, checked_by_pyright])
def test_type_checkers_refuse_exactly_the_wrong_calls(check: object) -> None:
    assert callable(check)
    assert check() == {(WRONG.name, line) for line in WRONG_LINES}
