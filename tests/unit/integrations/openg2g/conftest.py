"""Fixtures of the tests of fitted models."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search three valleys of the grid, not twelve, except where the fit itself is
    tested."""
    if request.module.__name__ != "test_logistic_model":
        monkeypatch.setattr("diploee.integrations.openg2g.logistic.N_POLISHED", 3)
