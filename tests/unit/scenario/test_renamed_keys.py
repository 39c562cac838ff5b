"""Keys that have a new name are read by their old one, with a note."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from diploee import load_scenario
from diploee.base import ScenarioError, shipped_folder


def site(folder: Path, keys: str) -> Path:
    """Write the shipped site with other keys of its cooling."""
    text = (shipped_folder("scenarios") / "colocation_10mw_poi.yaml").read_text()
    path = folder / "site.yaml"
    path.write_text(text.replace("- dlc_tower ", f"- {{kind: dlc_tower, {keys}}} "))
    return path


def test_an_old_name_of_a_key_gives_what_the_new_one_gives(tmp_path: Path) -> None:
    new = load_scenario(site(tmp_path, "min_part_load: 0.4"))
    with pytest.warns(FutureWarning, match="is now 'min_part_load'"):
        old = load_scenario(site(tmp_path, "least_part_load: 0.4"))
    assert old == new


def test_both_names_of_a_key_are_refused(tmp_path: Path) -> None:
    both = site(tmp_path, "least_part_load: 0.4, min_part_load: 0.4")
    with pytest.raises(ScenarioError, match="unknown key 'least_part_load'"):
        load_scenario(both)


def test_the_command_line_says_once_what_a_key_is_called_now(tmp_path: Path) -> None:
    path = site(tmp_path, "least_part_load: 0.4")
    command = [sys.executable, "-m", "diploee", "validate", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    note = "diploee: key 'least_part_load' is now 'min_part_load'"
    assert result.stderr.count(note) == 1
