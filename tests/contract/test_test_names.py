"""Names of tests: the same in every worker, at any time, in any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
COLLECT = """
import sys, time
now = time.time
time.time = lambda: now() + float(sys.argv[1])
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", "tests"]))
"""  # noqa: E501


def names(repository: Path, *, hash_seed: int, hurry_s: float) -> list[str]:
    """Return the names that pytest collects in a process whose clock is ahead."""
    ended = subprocess.run(
        [sys.executable, "-c", COLLECT, str(hurry_s)],
        cwd=repository,
        env={
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [line for line in ended.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_names_depend_on_neither_time_nor_hash_seed_nor_folder(tmp_path: Path) -> None:
    other = tmp_path / "another place" / "clone"
    for folder in ("diploee", "docs", "notebooks", "profiles", "scenarios", "tests"):
        shutil.copytree(REPOSITORY / folder, other / folder)
    for file in (
        *REPOSITORY.glob("*.md"),
        REPOSITORY / "mkdocs.yml",
        REPOSITORY / "pyproject.toml",
    ):
        shutil.copy(file, other)
    here = names(REPOSITORY, hash_seed=1, hurry_s=0)
    assert len(here) > 1_000
    assert names(other, hash_seed=2, hurry_s=1e7) == here
