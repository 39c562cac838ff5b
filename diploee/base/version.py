"""The version of diploee; a development version includes its git commit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__version__ = "0.5.0.dev0"


@cache
def full_version(
    root: Path = Path(__file__).parents[2], version: str = __version__
) -> str:
    """Return the version; a development version in a git checkout has its commit.

    Uncommitted changes are marked, as in ``0.5.0.dev0+g1a2b3c4d5e.dirty``.
    """
    if ".dev" not in version or not (root / ".git").exists():
        return version
    import subprocess

    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        result = subprocess.run(
            command, cwd=root, capture_output=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version}+g{result.stdout.decode().strip().replace('-', '.')}"
