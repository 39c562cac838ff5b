"""`diploee studio` on the command line: what it refuses, and how it is closed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from command_line import PATIENCE_S, call, start


def test_missing_extra_is_one_line_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("diploee.cli.studio.find_spec", lambda _: None)
    ended = call("studio", "--no-browser")
    assert ended.code == 2
    assert "pip install 'diploee[studio]'" in ended.problem


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--at-most", "nan"], "--at-most must be minutes above 0, found nan"),
        (["--folder", "{place}/none"], "is no folder"),
        (["{place}/none.yaml"], "none.yaml"),
        (["{place}/site.yaml", "--folder", "{place}/inner"], "is outside of"),
    ],
)
def test_argument_that_is_none_is_one_line(
    words: list[str], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "site.yaml").write_text("name: site\n", "utf-8")
    ended = call(
        "studio", "--no-browser", *(word.format(place=tmp_path) for word in words)
    )
    assert ended.code == 2
    assert problem in ended.problem


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_closing_says_where_the_runs_are_and_leaves_no_process(
    number: Any, tmp_path: Path
) -> None:
    process = start("studio", "--no-browser", "--folder", tmp_path)
    assert process.stderr is not None
    address = process.stderr.readline()
    assert "http://127.0.0.1:" in address
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert out == f"Runs are in {tmp_path.resolve() / 'runs'}.\n"
