"""A development version is that of a commit; a release is not, nor what has no git
checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import diploee
from diploee.base.version import full_version


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_development_version_has_the_commit_of_its_checkout_and_marks_changes(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "model.py").write_text("1\n")
    git(tmp_path, "add", "model.py")
    git(tmp_path, "commit", "-q", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")[:10]
    assert full_version.__wrapped__(tmp_path, "9.0.dev0") == f"9.0.dev0+g{commit}"
    (tmp_path / "model.py").write_text("2\n")
    assert full_version.__wrapped__(tmp_path, "9.0.dev0") == f"9.0.dev0+g{commit}.dirty"
    assert full_version.__wrapped__(tmp_path, "9.0") == "9.0"


def test_version_without_a_checkout_or_without_git_is_the_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert full_version.__wrapped__(tmp_path, "9.0.dev0") == "9.0.dev0"
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", "")
    assert full_version.__wrapped__(tmp_path, "9.0.dev0") == "9.0.dev0"
    assert full_version().startswith(diploee.__version__)
