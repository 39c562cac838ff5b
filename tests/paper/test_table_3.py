"""The year of Table 3: what its files hold adds up. Its rows are held by
`test_validation`."""

from __future__ import annotations

import pytest
from paper_tables import TABLE_3

import diploee
from diploee import Run

pytestmark = pytest.mark.paper


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    scenario = diploee.load_scenario(
        TABLE_3.scenario, values={TABLE_3.key: TABLE_3.values[40]}
    )
    return diploee.run(
        scenario, tmp_path_factory.mktemp("table_3") / "40", engine="simpy"
    )


def test_simpy_gives_the_rows_as_well(run: Run) -> None:
    assert all(row.check(40, run.metrics).holds for row in TABLE_3.rows)


def test_the_year_has_every_minute(run: Run) -> None:
    power = run.facility(["it_power_w"])
    assert len(power) == 365 * 24 * 60
    assert run.metrics["power"]["resolution_s"] == 60


def test_jobs_and_facility_have_the_same_energy(run: Run) -> None:
    """The files add up: job energies and idle power against the power series."""
    facility = run.facility(["it_power_w", "utilization"])
    idle_w = run.scenario.facility.node_type_of("h100").idle_power_w
    n_nodes = run.scenario.facility.n_nodes
    idle_j = (
        float((1 - facility["utilization"].astype(float)).sum()) * n_nodes * idle_w * 60
    )
    from_jobs_j = float(run.jobs(["energy_j"])["energy_j"].sum()) + idle_j
    # The series is stored in float32: 2**-24 relative per value.
    assert float(facility["it_power_w"].astype(float).sum()) * 60 == pytest.approx(
        from_jobs_j, rel=1e-7
    )
    assert run.metrics["power"]["energy_mwh"] == pytest.approx(
        from_jobs_j / 3.6e9, rel=1e-7
    )


def test_no_job_waits_in_the_year_of_20_percent(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    scenario = diploee.load_scenario(
        TABLE_3.scenario, values={TABLE_3.key: TABLE_3.values[20]}
    )
    folder = tmp_path_factory.mktemp("table_3") / "20"
    run = diploee.run(scenario, folder, engine="compiled")
    assert not (run.jobs(["queue_time_s"])["queue_time_s"] > 0).any()
