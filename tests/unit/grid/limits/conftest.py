"""Runs of a given power, and years as short as they are."""

from __future__ import annotations

import pytest
from limit_runs import fake_run


@pytest.fixture
def run_of(tmp_path):
    return lambda power_mw, step_s, **more: fake_run(tmp_path, power_mw, step_s, **more)


@pytest.fixture
def any_run_is_a_year(monkeypatch):
    monkeypatch.setattr("diploee.grid.limits.report.YEAR_MS", 1)
