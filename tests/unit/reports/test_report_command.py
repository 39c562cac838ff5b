from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call

from diploee.reports.build import MARK


def test_report_says_where_it_is_and_how_large(
    run_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    ended = call("report", run_folder, "--out", out)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"{out}: ")
    assert MARK in out.read_text("utf-8")


def test_report_without_out_stands_in_the_current_folder(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("report", run_folder, "--quiet").out == ""
    assert (tmp_path / "report.html").is_file()


def test_bad_folder_is_one_line_and_exit_code_2_as_an_unwritable_place_is(
    run_folder: Path, tmp_path: Path
) -> None:
    ended = call("report", tmp_path / "nowhere", "--out", tmp_path / "report.html")
    assert (ended.code, len(ended.problems)) == (2, 1)
    assert "not a run folder" in ended.problem
    assert not (tmp_path / "report.html").exists()
    (tmp_path / "file").write_text("", "utf-8")
    ended = call("report", run_folder, "--out", tmp_path / "file" / "report.html")
    assert (ended.code, len(ended.problems)) == (2, 1)
    assert "can't be written" in ended.problem


def test_help_of_export_keeps_the_unit_of_the_voltage() -> None:
    ended = call("export", "--help")
    assert ended.code == 0
    assert "kV" in ended.out  # rich takes [kV] for markup
