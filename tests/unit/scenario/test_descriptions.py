"""A description stands for what it was written of: what was set since is named before
it."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import tiny_library, tiny_scenario, write_scenario

import diploee
from diploee import load_scenario
from diploee.reports.build import build_report

TEXT = "A room of 12 nodes."
KEY = "facility.pools.main.n_nodes"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_scenario(
        tmp_path / "site.yaml", {"description": TEXT, "duration": "2 h"}
    )


def test_what_was_set_since_stands_before_a_description(file: Path) -> None:
    assert load_scenario(file).description == TEXT
    assert (
        load_scenario(file, [f"{KEY}=24"]).description == f"Set since: {KEY}=24. {TEXT}"
    )
    of_python = load_scenario(file, values={KEY: 24, "duration": "3 h"}).description
    assert of_python == f"Set since: {KEY}=24, duration=3 h. {TEXT}"


def test_what_changes_nothing_described_leaves_a_description(file: Path) -> None:
    for overrides in (["seed=7"], ["name=other"], [f"{KEY}=12"]):
        assert load_scenario(file, overrides).description == TEXT
    assert (
        load_scenario(file, [f"{KEY}=24", "description=Two rooms."]).description
        == "Two rooms."
    )
    changed, plain = (load_scenario(file, [f"{KEY}={n}"]) for n in (24, 12))
    assert changed.sha256() != plain.sha256() == load_scenario(file).sha256()


def test_report_and_comparison_of_a_changed_site_say_so(tmp_path: Path) -> None:
    base = tiny_scenario({"description": TEXT, "duration": "2 h"})
    folders = []
    for n in (12, 24):
        run = diploee.run(
            base, tmp_path / str(n), values={KEY: n}, profiles=tiny_library()
        )
        folders.append(run.folder)
    assert build_report([folders[0]], drawn=False).summary == (TEXT,)
    assert build_report([folders[1]], drawn=False).summary == (
        f"Set since: {KEY}=24. {TEXT}",
    )
    assert list(diploee.compare(*folders).settings) == [KEY]
