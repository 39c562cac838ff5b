"""Fixtures shared by all tests; pytest also puts this folder on the path, for `builders`."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import tiny_library, tiny_scenario, write_library, write_scenario

from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario


@pytest.fixture
def scenario() -> Scenario:
    """Two days of jobs on a pool of 12 nodes."""
    return tiny_scenario()


@pytest.fixture(scope="session")
def library() -> ProfileLibrary:
    """Four profiles of two workloads, on 1, 2 and 4 nodes."""
    return tiny_library()


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """The tiny scenario as a file."""
    return write_scenario(tmp_path / "tiny.yaml")


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny library as a folder of profile files; do not change it."""
    return write_library(tmp_path_factory.mktemp("profiles"))
