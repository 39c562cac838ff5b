"""Small real runs to report on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import profile, tiny_library, tiny_run, tiny_scenario

from diploee import run as simulate
from diploee.profiles import ProfileLibrary

SPAN = {"start": "2018-01-25", "duration": "10 d"}
"""Ten days, of which a calendar week and parts of two months."""


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days of the tiny scenario; do not change it."""
    folder = tmp_path_factory.mktemp("report") / "tiny"
    tiny_run(folder, SPAN)
    return folder


@pytest.fixture(scope="session")
def busier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same at a higher utilization; do not change it."""
    folder = tmp_path_factory.mktemp("report") / "busier"
    changes = SPAN | {"streams.training.target_utilization": 0.8}
    tiny_run(folder, changes)
    return folder


@pytest.fixture(scope="session")
def fine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours at 0.1 s of jobs that swing every 20 s, with event windows; do not
    change it."""
    folder = tmp_path_factory.mktemp("report") / "fine"
    changes = {
        "duration": "2 h",
        "warm_up": "1 d",
        "resolution": "0.1 s",
        "facility.utc_offset": "-07:00",
    }
    simulate(
        tiny_scenario(changes),
        folder,
        profiles=_waves(),
        engine="compiled",
        event_windows=True,
    )
    return folder


def _waves() -> ProfileLibrary:
    """Return `tiny_library` with training profiles that swing like a sine of 20 s."""
    swing = np.round(1_500 + 800 * np.sin(2 * np.pi * np.arange(1_800) / 20))
    tiny = tiny_library()
    return ProfileLibrary(
        [
            profile("tune-2n-1", 2 * swing, n_nodes=2),
            profile("tune-4n-1", 4 * swing, n_nodes=4),
            tiny.get("draw-1n-1"),
        ]
    )
