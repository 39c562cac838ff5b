"""An installation that nothing can be written to, used without a home, as in a hardened
container.

A file in the place of each folder for compiled code keeps root out as well, whom no
permission would stop.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from builders import write_library, write_scenario
from command_line import Ended, contents, run

import diploee

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, which commands of the test find first; it has no place to
    write to."""
    package = Path(diploee.__file__).parent
    site = tmp_path / "site"
    shutil.copytree(
        package, site / "diploee", ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [site, *(path for path in site.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("no folder", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site))
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "/proc/nope")
    for name in ("MPLCONFIGDIR", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return site


@pytest.mark.slow
def test_runs_and_draws_without_a_word_and_leaves_nothing_behind(
    installation: Path, tmp_path: Path
) -> None:
    before = contents(installation)
    scenario = write_scenario(tmp_path / "tiny.yaml")
    library = write_library(tmp_path / "library")
    out, picture = tmp_path / "run", tmp_path / "profile.png"
    arguments = ("--profiles", library, "--engine", "compiled", "--out", out, "--quiet")
    assert run("run", scenario, *arguments, cwd=tmp_path) == Ended(0, "", "")
    arguments = ("show", "draw-1n-1", "--profiles", library, "--out", picture)
    shown = run("profiles", *arguments, cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert picture.stat().st_size > 10_000
    assert contents(installation) == before
    assert not list((tmp_path / "tmp").iterdir())


def test_wheel_ships_every_folder_of_profiles_but_the_builder() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
        "hatch"
    ]["build"]
    shipped = build["targets"]["wheel"]["force-include"]
    there = {path.name for path in (ROOT / "profiles").iterdir() if path.is_dir()}
    expected = {f"profiles/{name}" for name in there - {"build", "__pycache__"}}
    assert {path for path in shipped if path.startswith("profiles/")} == expected
