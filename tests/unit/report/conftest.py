"""Small real runs to report on."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import tiny_library, tiny_scenario

from diploee.run import simulate

SPAN = {"start": "2018-01-25", "duration": "10 d"}
"""Ten days, of which a calendar week and parts of two months."""


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days of the tiny scenario; do not change it."""
    folder = tmp_path_factory.mktemp("report") / "tiny"
    simulate(tiny_scenario(SPAN), folder, library=tiny_library(), engine="compiled")
    return folder


@pytest.fixture(scope="session")
def busier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same at a higher utilization; do not change it."""
    folder = tmp_path_factory.mktemp("report") / "busier"
    changes = SPAN | {"streams.training.target_utilization": 0.8}
    simulate(tiny_scenario(changes), folder, library=tiny_library(), engine="compiled")
    return folder
