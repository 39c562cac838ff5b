"""Notes of `diploee run` beside its results."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import write_library, write_scenario
from command_line import call


@pytest.mark.parametrize(
    ("change", "noted"),
    [("duration=6 h", True), ("start=2018-01-02", True), ("seed=3", False)],
)
def test_run_over_another_span_says_once_that_it_draws_other_jobs(
    tmp_path: Path, change: str, noted: bool
) -> None:
    write_scenario(tmp_path / "tiny.yaml", {"duration": "12 h"})
    library = write_library(tmp_path / "profiles")
    place = (
        "run",
        tmp_path / "tiny.yaml",
        "--profiles",
        library,
        "--out",
        tmp_path / "run",
    )
    ended = call(*place, "--set", change)
    assert ended.code == 0
    assert ended.out.count("another span draws other jobs") == noted
    assert ended.out.count(f"note: {change.partition('=')[0]} changed") == noted
