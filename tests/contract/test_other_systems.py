"""The command line as on Windows: no POSIX calls, one-byte consoles, drives, files in
use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import filelock  # noqa: F401  (as long as there is all that it looks for)
import pytest
from builders import tiny_run, write_scenario
from command_line import call

from diploee.base.errors import OutputError
from diploee.base.files import whole_file
from diploee.sweeps.folder import sweep_folder

POSIX = {"fcntl": None, "resource": None}
IN_USE = (
    13,
    "The process cannot access the file because it is being used by another process",
)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the modules and calls that Windows lacks."""
    for name in POSIX:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("getuid", "geteuid", "sched_getaffinity", "O_NOFOLLOW"):
        monkeypatch.delattr(os, name, raising=False)
    for name in ("SIGHUP", "pthread_sigmask"):
        monkeypatch.delattr(signal, name, raising=False)
    # Python's own of that call
    monkeypatch.setattr(resource_tracker, "_HAVE_SIGMASK", False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_results_are_written_and_replaced_without_posix_calls(
    windows: None, tmp_path: Path, library_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_scenario(Path("tiny.yaml"), {"duration": "6 h"})
    for force in ([], ["--force"]):
        for command in (
            ["run", "tiny.yaml", "--out", "C:/runs/day", "--profiles", library_folder],
            ["export", "csv", "C:/runs/day", "--out", "C:/day.csv"],
            ["report", "C:/runs/day", "--out", "C:/day.html"],
        ):
            ended = call(*command, *force)
            assert ended.code == 0, ended.err
    made = ["day.csv", "day.csv.meta.json", "day.html", "runs"]
    assert names(tmp_path / "C:") == made
    assert names(tmp_path / "C:" / "runs") == ["day"]


@pytest.mark.slow
def test_sweep_runs_on_workers_without_posix_calls(
    windows: None, tmp_path: Path, library_folder: Path
) -> None:
    file = tmp_path / "sweep.yaml"
    write_scenario(tmp_path / "tiny.yaml", {"duration": "6 h"})
    file.write_text("base: tiny.yaml\nseeds: 2\n", encoding="utf-8")
    out = tmp_path / "sweep"
    options = ("--workers", 2, "--profiles", library_folder)
    ended = call("sweep", file, "--out", out, *options)
    assert ended.code == 0, ended.err
    assert len(names(out / "runs")) == 2


@pytest.mark.parametrize("place", ["C:/sweeps/a", r"C:\sweeps\a", "c:a"])
def test_drive_is_no_scheme_of_a_url(place: str) -> None:
    assert sweep_folder(place) == Path(place).resolve()


def test_file_in_use_is_refused_in_one_line_and_nothing_is_lost(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "day.csv"
    table.write_text("old", encoding="utf-8")
    refuse_moves_of(table, monkeypatch)
    with (
        pytest.raises(OutputError, match=r"day\.csv: .*close it there"),
        whole_file(table, force=True) as path,
    ):
        path.write_text("new", encoding="utf-8")
    assert table.read_text("utf-8") == "old"
    assert names(tmp_path) == ["day.csv"]
    monkeypatch.undo()
    with whole_file(table, force=True) as path:
        path.write_text("new", encoding="utf-8")
    assert table.read_text("utf-8") == "new"


def test_run_folder_with_a_file_in_use_stays_whole(
    windows: None, tmp_path: Path, library_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = write_scenario(tmp_path / "tiny.yaml", {"duration": "6 h"})
    day = tmp_path / "runs" / "day"
    command = ("run", scenario, "--out", day, "--profiles", library_folder)
    assert call(*command).code == 0
    before = (day / "manifest.json").read_bytes()
    refuse_moves_of(day / "facility.parquet", monkeypatch)
    ended = call(*command, "--force")
    assert ended.code == 1
    assert "runs/day: can't be written (another program has it open" in ended.err
    assert (day / "manifest.json").read_bytes() == before
    assert names(tmp_path / "runs") == ["day"]


def refuse_moves_of(opened: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no rename touch a file, or a folder above it, that another program has open."""  # noqa: E501
    for name in ("rename", "replace"):
        move = getattr(Path, name)

        def refused(self: Path, target: Path, move: Any = move) -> Path:
            if any(opened.is_relative_to(path) for path in (self, target)):
                error = PermissionError(*IN_USE, str(self))
                error.winerror = 32
                raise error
            return move(self, target)

        monkeypatch.setattr(Path, name, refused)


def command_of(
    code: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        encoding="cp1252",
        check=False,
    )


@pytest.mark.slow
def test_console_of_one_byte_a_character_shows_a_mark_for_what_it_lacks(
    tmp_path: Path,
) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text('name: "power \\u2264 1 MW"\npeaks: [{max_mw: 1}]\n', "utf-8")
    asked = ["limits", str(limits), str(tiny_run(tmp_path / "run").folder)]
    code = f"import sys; sys.argv[1:] = {asked}; import diploee.cli as c; c.main()"
    ended = command_of(code, PYTHONIOENCODING="cp1252")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.lstrip().startswith("power ? 1 MW, on means of ")


@pytest.mark.slow
def test_package_opens_text_as_utf_8_and_needs_no_posix_module(
    tmp_path: Path, library_folder: Path
) -> None:
    scenario = write_scenario(tmp_path / "tiny.yaml", {"duration": "6 h"})
    code = f"""
import sys, warnings
sys.modules.update({POSIX})
warnings.filterwarnings("error", category=EncodingWarning, module=r"diploee\\.")
import diploee
run = diploee.run({str(scenario)!r}, {str(tmp_path / "run")!r}, profiles=[{str(library_folder)!r}])
run.report({str(tmp_path / "page.html")!r})
run.export("csv", {str(tmp_path / "day.csv")!r})
"""  # noqa: E501
    ended = command_of(code, "-X", "warn_default_encoding")
    assert ended.returncode == 0, ended.stderr
