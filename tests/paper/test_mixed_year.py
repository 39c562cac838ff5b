"""The mixed facility's year: each pool has what it has alone, and the whole is their
sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import diploee
from diploee import Run

pytestmark = pytest.mark.paper

ALONE = {"training": "request_streams", "serving": "streams"}
"""For each pool the streams of the other one, left out when it is alone."""


def year(folder: Path, values: dict[str, Any] | None = None) -> Run:
    scenario = diploee.load_scenario("mixed_11mw", values=values or {})
    return diploee.run(scenario, folder, engine="compiled", jobs_file=False)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return year(tmp_path_factory.mktemp("mixed") / "year")


@pytest.mark.parametrize("pool", ALONE)
def test_pool_of_the_mixed_year_has_the_metrics_that_it_has_alone(
    mixed: Run, pool: str, tmp_path: Path
) -> None:
    alone = year(tmp_path / "year", {ALONE[pool]: {}}).metrics["pools"][pool]
    found = mixed.metrics["pools"][pool]
    assert set(found) == set(alone)
    for block, expected in alone.items():
        if block in ("jobs", "requests"):
            assert found[block] == expected
        elif block in ("power", "utilization"):  # sums over pools round differently
            assert found[block] == pytest.approx(expected, rel=1e-9)


def test_mixed_year_is_the_sum_of_its_pools(mixed: Run) -> None:
    metrics = mixed.metrics
    pools = metrics["pools"]
    assert set(pools) == set(ALONE)
    parts_mwh = sum(pool["power"]["energy_mwh"] for pool in pools.values())
    assert metrics["power"]["energy_mwh"] == pytest.approx(parts_mwh, rel=1e-12)
    n_nodes = {
        name: pool.n_nodes for name, pool in mixed.scenario.facility.pools.items()
    }
    busy = sum(
        n_nodes[name] * pool["utilization"]["mean"] for name, pool in pools.items()
    )
    assert metrics["utilization"]["mean"] * sum(n_nodes.values()) == pytest.approx(
        busy, rel=1e-9
    )
    assert metrics["jobs"] == pools["training"]["jobs"]
    assert metrics["requests"] == pools["serving"]["requests"]
    # It fluctuates
    assert metrics["requests"]["incoming_rps"] == pytest.approx(10782.01, rel=2e-3)
