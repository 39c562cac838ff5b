"""Small runs to export, simulated once."""

from __future__ import annotations

from typing import Any

import pytest
from builders import TINY, tiny_run

from diploee.base.column_specs import Column
from diploee.facility import Block
from diploee.facility.base import POWER, REACTIVE
from diploee.grid.export.series import ReactiveTable
from diploee.importers.site_tables import read_reactive_table

TWO_POOLS: dict[str, Any] = {
    "facility.pools": {
        "left": {"node_type": "node", "n_nodes": 8},
        "right": {"node_type": "node", "n_nodes": 4},
    },
    "streams": {
        pool: {**TINY["streams"]["training"], "pool": pool, "target_utilization": 0.4}
        for pool in ("left", "right")
    },
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def year_run(runs):
    """The year 2018 by the half hour at UTC-07:00."""
    changes = {
        "duration": "1 year",
        "resolution": "30 min",
        "facility.utc_offset": "-07:00",
    }
    return tiny_run(runs / "year", changes)


@pytest.fixture(scope="session")
def leap_run(runs):
    """The leap year 2020 by the hour."""
    return tiny_run(
        runs / "leap",
        {"start": "2020-01-01", "duration": "1 year", "resolution": "1 h"},
    )


@pytest.fixture(scope="session")
def minute_run(runs):
    """Two days of two pools by the minute."""
    return tiny_run(runs / "minute", TWO_POOLS)


@pytest.fixture(scope="session")
def fine_run(runs):
    """Twenty minutes at 0.1 s."""
    return tiny_run(runs / "fine", {"duration": "20 min", "resolution": "0.1 s"})


@pytest.fixture(scope="session")
def event_run(runs):
    """Six hours of two pools by the minute at UTC-07:00, with the worst windows at 0.1
    s."""
    changes = TWO_POOLS | {"duration": "6 h", "facility.utc_offset": "-07:00"}
    return tiny_run(runs / "zoomed", changes, event_windows=True)


class LeadsAtLowLoad:
    """A stage with reactive power that is supplied at low and drawn at high load."""

    columns = (
        Column(
            REACTIVE, "var", "facility", "mean", "behind a filter", "reactive power"
        ),
    )
    boundary = None

    def start(self) -> None:
        return None

    def apply(self, block: Block, state: None) -> tuple[dict[str, Any], None]:
        return {REACTIVE: 0.3 * block.columns[POWER] - 2e3}, state


@pytest.fixture(scope="session")
def reactive_run(runs):
    """Half a day by the minute at UTC-07:00, with reactive power and event windows at
    0.1 s."""
    changes = {"duration": "12 h", "facility.utc_offset": "-07:00"}
    stages = [LeadsAtLowLoad()]
    return tiny_run(runs / "reactive", changes, event_windows=True, stages=stages)


@pytest.fixture
def q_table(tmp_path):
    """Reactive power that is supplied at low and drawn at high load."""
    path = tmp_path / "q_of_p.csv"
    path.write_text(
        "# ours\np_mw,q_mvar\n0,-0.002\n0.01,0\n0.1,0.018\n", encoding="utf-8"
    )
    return ReactiveTable(path, *read_reactive_table(path))
