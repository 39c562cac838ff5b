"""Whole runs with request streams, alone and beside jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import TINY
from serving_builders import CODING, plan_of, serving_scenario

from diploee.profiles import ProfileLibrary
from diploee.scenario import load_scenario
from diploee.simulation import simulate

PAIR: dict[str, Any] = {
    "facility.pools": {
        "main": {"node_type": "node", "n_nodes": 12},
        "training": {"node_type": "node", "n_nodes": 20},
    },
    "streams": {"tune": {**TINY["streams"]["training"], "pool": "training"}},
}
CHAT = "request_streams.chat"


def test_inference_run_has_its_files_and_no_block_of_the_other_mode(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    run = simulate(
        serving_scenario({f"{CHAT}.request_rate_rps": 900}), tmp_path / "run", library=library
    )
    frame = run.facility()
    assert {"incoming_rps.coding", "n_instances.conversation"} <= set(frame.columns)
    busy = frame["n_instances.coding"] + frame["n_instances.conversation"]
    assert np.array_equal(frame["busy_nodes"], busy)
    incoming = frame["served_rps.coding"] + frame["unserved_rps.coding"]
    assert incoming.to_numpy() == pytest.approx(frame["incoming_rps.coding"].to_numpy(), rel=1e-5)
    assert "jobs" not in run.metrics
    assert run.metrics["requests"]["incoming_rps"] == pytest.approx(900, rel=1e-5)
    assert not (run.folder / "jobs.parquet").exists()
    assert len(run.manifest["curves"]) == 4


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="rejected"),
        pytest.param({f"{CHAT}.overload": "queue", f"{CODING}.startup_s": 90}, id="queued"),
    ],
)
def test_latency_column_weighted_by_requests_is_the_mean_latency_metric(
    changes: dict[str, Any], tmp_path: Path, library: ProfileLibrary
) -> None:
    """The column of the intervals adds up to the metric; no request, no latency."""
    calendar = {f"{CHAT}.calendar": {"hour_of_day": [0, 0, 1, 1, 2, 9] * 4}, "duration": "6 h"}
    scenario = serving_scenario({f"{CHAT}.request_rate_rps": 900, **calendar, **changes})
    run = simulate(scenario, tmp_path / "run", library=library)
    for service, found in run.metrics["requests"]["services"].items():
        names = [f"{name}.{service}" for name in ("incoming_rps", "unserved_rps", "latency_s")]
        incoming, unserved, latency_s = run.series().read(names).columns.values()
        taken, known = incoming - unserved, ~np.isnan(latency_s)
        assert not known.all()
        np.testing.assert_allclose(taken[~known], 0, atol=1e-4)
        mean_s = np.average(latency_s[known], weights=np.maximum(taken[known], 0))
        assert mean_s == pytest.approx(found["latency_s"]["mean"], rel=1e-5)
        assert latency_s[known].max() <= found["latency_s"]["max"] * (1 + 1e-6)
        assert (
            run.facility()[f"latency_s.{service}"].isna().to_numpy().tolist() == (~known).tolist()
        )


def test_service_without_latency_curve_has_no_latency_column(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    scenario = serving_scenario({f"{CODING}.latency_curve": None, "duration": "1 h"})
    names = simulate(scenario, tmp_path / "run", library=library).facility().columns
    assert "latency_s.coding" not in names
    assert "latency_s.conversation" in names


@pytest.mark.slow
def test_pools_of_a_mixed_facility_give_what_they_give_alone(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    mixed = simulate(serving_scenario(PAIR), tmp_path / "mixed", library=library)
    serving = simulate(serving_scenario(), tmp_path / "serving", library=library)
    changes = {**PAIR, "request_streams": None}
    jobs = simulate(serving_scenario(changes), tmp_path / "jobs", library=library)
    pools = mixed.metrics["pools"]
    alone = serving.metrics["power"]
    assert pools["main"]["power"]["energy_mwh"] == pytest.approx(alone["energy_mwh"], rel=1e-12)
    assert pools["main"]["requests"] == serving.metrics["requests"]
    assert "jobs" not in pools["main"]
    assert "requests" not in pools["training"]
    # Equal but for the rounding of sums over pools.
    expected = jobs.metrics["pools"]["training"]
    assert pools["training"]["jobs"] == expected["jobs"]
    assert pools["training"]["power"] == pytest.approx(expected["power"], rel=1e-12)
    assert pools["training"]["utilization"] == pytest.approx(expected["utilization"], rel=1e-12)
    total = mixed.metrics["power"]["energy_mwh"]
    parts = sum(pool["power"]["energy_mwh"] for pool in pools.values())
    assert total == pytest.approx(parts, rel=1e-12)


def test_cap_of_ten_seconds_gives_the_rates_of_the_curve_by_eq_5() -> None:
    plan = plan_of(load_scenario("inference_1mw_latency_10s", values={"duration": "1 d"}))
    rates = [service.capacity.max_request_rate_rps for service in plan.services]
    assert rates == pytest.approx([105.1, 46.1], abs=0.05)
    assert all(service.capacity.latency_limit_s == 10 for service in plan.services)
    assert max(float(service.latency_s.max()) for service in plan.services) <= 10 * (1 + 1e-9)
