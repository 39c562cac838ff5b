"""No result is decided by wording: with every message of the package as noise all are
the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from noise import blank, is_message, noise

TESTS = Path(__file__).parents[1]


def start(folder: Path, *script: str) -> subprocess.Popen[bytes]:
    """Start to find all results in a folder."""
    folder.mkdir()
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS)))
    command = [sys.executable, *(str(TESTS / name) for name in script), str(folder)]
    return subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": path})


def results(folder: Path) -> dict[str, Any]:
    """Return the results of a folder, without its name."""
    text = (folder / "results.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text.replace(str(folder), "."))
    return found


@pytest.mark.slow
def test_results_are_the_same_whatever_the_messages_say(tmp_path: Path) -> None:
    said, noisy = tmp_path / "words", tmp_path / "noise"
    for process in (
        start(said, "all_results.py"),
        start(noisy, "noise.py", "all_results.py"),
    ):
        assert process.wait(600) == 0
    expected, found = results(said), results(noisy)
    assert [
        name for name in expected if blank(expected[name]) != blank(found[name])
    ] == []
    assert sum(expected[name] != found[name] for name in expected) > len(expected) / 2


def test_messages_are_texts_of_several_words() -> None:
    texts = {
        "must be a number, found ": True,
        ", restored to ": True,
        "not met": True,  # unless it is the value of a Literal or an Enum
        "facility.pools": False,
        "restored": False,
        "15 min": False,
        "#  <b>\n</b>": False,
        r"(\d+) nodes": False,
    }
    assert {text: is_message(text) for text in texts} == texts


def test_noise_differs_from_place_to_place_and_leaves_keys_and_numbers() -> None:
    text = "facility.pools.main: 3 nodes, at most 2 [MW]; add it"
    first, second = noise(text, 1), noise(text, 2)
    assert len({text, first, second}) == 3
    assert blank(first) == blank(second) == blank(text)
    assert first.startswith("facility.pools.main: 3 ") and " 2 [MW]; " in first
