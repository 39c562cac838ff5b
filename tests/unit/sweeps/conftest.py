"""A sweep of the tiny scenario, run on its library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sweep_builders import Swept

from diploee.sweeps import SweepResult, run_sweep


@pytest.fixture
def swept(tmp_path: Path, library_folder: Path) -> Swept:
    """Run a sweep on the tiny library, into `out` unless a place is given."""

    def run(sweep: Any, out: Any = None, **options: Any) -> SweepResult:
        place = tmp_path / "out" if out is None else out
        return run_sweep(sweep, place, profiles=[str(library_folder)], **options)

    return run
