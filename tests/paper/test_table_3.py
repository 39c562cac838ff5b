"""Table 3, row by row: four utilization levels for the whole year, one parameter set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from table_3 import ABSOLUTE_TOLERANCE, LEVELS, RELATIVE_TOLERANCE, ROWS, TARGET_UTILIZATION

import diploee
from diploee.outputs import Run
from diploee.schedule import Engine

pytestmark = pytest.mark.paper

ENGINES: dict[int, Engine] = {20: "compiled", 40: "simpy", 60: "compiled", 80: "compiled"}

FOUND: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "power_mean_mw": lambda m: m["power"]["mean_mw"],
    "power_std_mw": lambda m: m["power"]["std_mw"],
    "power_median_mw": lambda m: m["power"]["median_mw"],
    "power_p90_mw": lambda m: m["power"]["p90_mw"],
    "power_max_mw": lambda m: m["power"]["max_mw"],
    "peak_to_average_ratio": lambda m: m["power"]["peak_to_average_ratio"],
    "utilization_mean": lambda m: m["utilization"]["mean"],
    "utilization_std": lambda m: m["utilization"]["std"],
    "utilization_median": lambda m: m["utilization"]["median"],
    "utilization_p90": lambda m: m["utilization"]["p90"],
    "utilization_max": lambda m: m["utilization"]["max"],
    "jobs_per_day": lambda m: m["jobs"]["submitted_per_day"],
    "queued_fraction": lambda m: m["jobs"]["queued_fraction"],
    "mean_queue_time_h": lambda m: m["jobs"]["mean_queue_time_queued_h"],
}


@pytest.fixture(scope="module", params=LEVELS, ids=[f"{level}%" for level in LEVELS])
def year(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Run]:
    level: int = request.param
    scenario = diploee.load_scenario(
        "colocation_10mw",
        values={"streams.training.target_utilization": TARGET_UTILIZATION[level]},
    )
    folder = tmp_path_factory.mktemp("table_3") / f"{level}"
    return level, diploee.simulate(scenario, folder, engine=ENGINES[level])


@pytest.mark.parametrize("row", ROWS)
def test_row_of_table_3(year: tuple[int, Run], row: str) -> None:
    level, run = year
    published = ROWS[row][LEVELS.index(level)]
    found = FOUND[row](run.metrics)
    if published is None:  # no job queued in the paper, so that there is no mean of their times
        assert found is None
        assert not (run.jobs(["queue_time_s"])["queue_time_s"] > 0).any()
        return
    if row in ABSOLUTE_TOLERANCE:
        expected = pytest.approx(published, abs=ABSOLUTE_TOLERANCE[row])
    else:
        expected = pytest.approx(published, rel=RELATIVE_TOLERANCE[row])
    assert found == expected, f"{row} at {level} %: {found} against {published} in the paper"


def test_the_year_has_every_minute(year: tuple[int, Run]) -> None:
    _, run = year
    power = run.facility(["it_power_w"])
    assert len(power) == 365 * 24 * 60
    assert run.metrics["power"]["resolution_s"] == 60


def test_jobs_and_facility_have_the_same_energy(year: tuple[int, Run]) -> None:
    """What the files hold adds up: job energies and idle power against the power series."""
    _, run = year
    facility = run.facility(["it_power_w", "utilization"])
    idle_w = run.scenario.facility.node_type_of("h100").idle_power_w
    n_nodes = run.scenario.facility.n_nodes
    idle_j = float((1 - facility["utilization"].astype(float)).sum()) * n_nodes * idle_w * 60
    from_jobs_j = float(run.jobs(["energy_j"])["energy_j"].sum()) + idle_j
    # The series is stored in float32: 2**-24 relative per value.
    assert float(facility["it_power_w"].astype(float).sum()) * 60 == pytest.approx(
        from_jobs_j, rel=1e-7
    )
    assert run.metrics["power"]["energy_mwh"] == pytest.approx(from_jobs_j / 3.6e9, rel=1e-7)
