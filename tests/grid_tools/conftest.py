"""Runs that the grid tools load: half a day by the quarter of an hour, with and without
Q."""

from __future__ import annotations

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from grid_truth import means_mw

from diploee import Run
from diploee import run as simulate
from diploee.base.column_specs import Column
from diploee.facility import Block
from diploee.facility.base import POWER, REACTIVE
from diploee.grid.export.series import ReactiveTable
from diploee.importers.site_tables import read_reactive_table


class LeadsAtLowLoad:
    """A stage with reactive power that is supplied at low and drawn at high load."""

    columns = (Column(REACTIVE, "var", "facility", "mean", None, "reactive power"),)
    boundary = None

    def start(self) -> None:
        return None

    def apply(self, block: Block, state: None) -> tuple[dict[str, np.ndarray], None]:
        return {REACTIVE: 0.3 * block.columns[POWER] - 2e3}, state


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Half a day by the minute, its worst windows at 0.1 s."""
    scenario = tiny_scenario({"duration": "12 h", "facility.utc_offset": "-07:00"})
    folder = tmp_path_factory.mktemp("runs") / "half_a_day"
    return simulate(
        scenario, folder, profiles=tiny_library(), engine="compiled", event_windows=True
    )


@pytest.fixture(scope="session")
def reactive_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Half a day by the minute with reactive power of its own."""
    return simulate(
        tiny_scenario({"duration": "12 h"}),
        tmp_path_factory.mktemp("runs") / "reactive",
        profiles=tiny_library(),
        engine="compiled",
        stages=[LeadsAtLowLoad()],
    )


@pytest.fixture(scope="session")
def own_mvar(reactive_run: Run) -> np.ndarray:
    stored_var = reactive_run.facility()[REACTIVE].to_numpy(np.float64)
    return stored_var.reshape(-1, 15).mean(axis=1) / 1e6


@pytest.fixture(scope="session")
def year_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A year by the hour."""
    scenario = tiny_scenario({"duration": "1 year", "resolution": "1 h"})
    folder = tmp_path_factory.mktemp("runs") / "year"
    return simulate(scenario, folder, profiles=tiny_library(), engine="compiled")


@pytest.fixture(scope="session")
def expected_mw(run: Run) -> np.ndarray:
    return means_mw(run, 15)


@pytest.fixture(scope="session")
def q_table(tmp_path_factory: pytest.TempPathFactory) -> ReactiveTable:
    path = tmp_path_factory.mktemp("q") / "q_of_p.csv"
    path.write_text("p_mw,q_mvar\n0,-0.002\n0.01,0\n0.1,0.018\n", encoding="utf-8")
    return ReactiveTable(path, *read_reactive_table(path))


@pytest.fixture(scope="session")
def expected_mvar(expected_mw: np.ndarray) -> np.ndarray:
    return np.interp(expected_mw, [0, 0.01, 0.1], [-0.002, 0, 0.018])
