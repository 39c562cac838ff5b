"""Services on a pool that is built out: instances, requests and power as nodes come to
stand."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_builders import (
    CODING,
    plan_of,
    request_rates,
    serving_scenario,
    write_serving,
)

from diploee import Run
from diploee import run as simulate
from diploee.base.errors import ScenarioError, WorkloadError
from diploee.loads.services.capacity import reserve_nodes
from diploee.loads.services.served_requests import ScalingRules, serve_requests
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario, load_scenario

CHAT = "request_streams.chat"
PHASES = "facility.pools.main.phases"
FOUR_THEN_TWELVE = [
    {"since": "2018-01-01", "n_nodes": 4},
    {"since": "2018-01-02", "n_nodes": 12},
]
DAY_MS = 86_400_000


def phased(changes: dict[str, Any] | None = None) -> Scenario:
    """Return two days, a third of the nodes on the first."""
    steady = {
        "duration": "2 d",
        PHASES: deepcopy(FOUR_THEN_TWELVE),
        f"{CHAT}.fluctuation": None,
    }
    return serving_scenario({**steady, **(changes or {})})


def test_requests_are_made_in_proportion_to_the_nodes_that_stand() -> None:
    rates = request_rates(phased({f"{CHAT}.calendar": None}), "chat")
    rate_rps = rates.of_service(0, 1.0, 400.0)
    before_ms, before = rates.over(rate_rps, 0, DAY_MS)
    after_ms, after = rates.over(rate_rps, DAY_MS, 2 * DAY_MS)
    # 4 and 12 of 8 nodes on average: 200 and 600 of 400 requests a second, in one step.
    assert before == pytest.approx(200) and after == pytest.approx(600)
    assert (before_ms[-1], after_ms[0]) == (DAY_MS, DAY_MS)


def test_instances_follow_the_rate_and_the_nodes_of_their_phase() -> None:
    plan = plan_of(phased({f"{CHAT}.request_rate_rps": 700}))
    for service, nodes in zip(plan.services, ([1, 3], [3, 9]), strict=True):
        served, starts_ms = service.served, service.served.edges_ms[:-1]
        most = np.where(starts_ms < DAY_MS, *nodes)
        np.testing.assert_array_equal(service.reserved, most)
        rate_rps = {"coding": 100, "conversation": 50}[service.name]
        needed = np.minimum(np.ceil(served.rate_rps / rate_rps * (1 - 1e-9)), most)
        np.testing.assert_array_equal(served.n_instances, needed)
        assert served.n_instances[starts_ms < DAY_MS].max() == nodes[0]
        assert served.n_instances.max() == nodes[1]
        assert DAY_MS in starts_ms


def test_target_is_met_of_the_node_time_that_stands() -> None:
    target = {f"{CHAT}.request_rate_rps": None, f"{CHAT}.target_utilization": 0.5}
    plan = plan_of(phased(target))
    node_ms = sum(
        float(s.nodes_per_instance * s.served.n_instances @ np.diff(s.served.edges_ms))
        for s in plan.services
    )
    assert node_ms / ((4 + 12) * DAY_MS) == pytest.approx(0.5, abs=1e-5)
    assert plan.match.matched_utilization == pytest.approx(0.5, abs=1e-5)


def test_nothing_is_asked_before_the_first_node_stands() -> None:
    plan = plan_of(phased({PHASES: [{"since": "2018-01-01T12:00:00", "n_nodes": 12}]}))
    for service in plan.services:
        early = service.served.edges_ms[:-1] < DAY_MS // 2
        assert early.any()
        for of_time in (
            service.served.rate_rps,
            service.served.n_instances,
            service.reserved,
        ):
            assert not of_time[early].any()
        assert service.served.n_instances[~early].max() > 0


def test_trace_is_played_as_it_is_and_rejected_where_nodes_lack(tmp_path: Path) -> None:
    rows = [
        f"2023-11-16 18:{m:02d}:{s:02d}.0000000,100,100"
        for m in range(60)
        for s in range(60)
    ]
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n"
    (tmp_path / "trace.csv").write_text(text, "utf-8")
    changes = {
        "duration": "2 d",
        PHASES: deepcopy(FOUR_THEN_TWELVE),
        f"{CHAT}.calendar": None,
        f"{CHAT}.request_rate_rps": 400,
        f"{CHAT}.replay": {"trace": "trace.csv"},
    }
    plan = plan_of(load_scenario(write_serving(tmp_path / "s.yaml", changes)))
    for service, most_rps in zip(plan.services, (100, 150), strict=True):
        served = service.served
        days = [served.edges_ms[:-1] < DAY_MS, served.edges_ms[:-1] >= DAY_MS]
        asked = [np.average(served.rate_rps[d], weights=served.step_s[d]) for d in days]
        assert asked[0] == pytest.approx(asked[1], rel=1e-3)
        assert served.served_rps[days[0]].max() == pytest.approx(most_rps)
        assert not served.unserved_rps[days[1]].any()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, library: ProfileLibrary) -> Run:
    warm = {
        f"{CODING}.standby": "warm",
        f"{CODING}.cooldown_s": 900,
        f"{CODING}.startup_s": 120,
    }
    warm["facility.node_types.node.warm_power_w"] = 700
    return simulate(
        phased(warm), tmp_path_factory.mktemp("phases") / "run", profiles=library
    )


def test_idle_and_warm_nodes_are_those_that_stand(run: Run) -> None:
    facility = run.facility()
    standing = np.repeat([4.0, 12.0], len(facility) // 2)
    np.testing.assert_array_equal(facility["standing_nodes"], standing)
    assert (facility["busy_nodes"] <= standing).all()
    idle_w = run.scenario.facility.node_type_of("main").idle_power_w
    assert (facility["it_power_w"] >= idle_w * standing * (1 - 1e-6)).all()
    least_w = facility["it_power_w"].to_numpy().reshape(2, -1).min(axis=1)
    assert least_w[1] > 1.8 * least_w[0]
    assert run.metrics["requests"]["services"]["coding"]["reserved_nodes"] == 3


def test_rise_of_a_phase_is_made_of_its_nodes_and_of_the_instances_on_them(
    run: Run,
) -> None:
    rise = run.metrics["grid"]["ramps"]["intervals"][0]["up"]
    assert rise["time"].startswith("2018-01-01T23:59")
    parts = rise["cause"]["parts"]
    assert sum(part["mw"] for part in parts) == pytest.approx(rise["max_mw"], rel=1e-3)
    assert {part["what"] for part in parts if part["mw"] > 1e-4} >= {
        "nodes added",
        "instances",
    }
    # An instance that loads draws less than one that serves: power per instance falls.
    per_instance = [part["mw"] for part in parts if part["what"] == "rate per instance"]
    assert -2.1e-3 < min(per_instance) < -1e-3
    assert min(part["mw"] for part in parts if part["mw"] not in per_instance) > -1e-3


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=5),
    st.lists(
        st.tuples(st.floats(0.01, 1), st.integers(1, 6), st.floats(1, 99)),
        min_size=1,
        max_size=4,
    ),
)
def test_no_service_loses_an_instance_as_a_pool_grows(
    added: list[int], services: list[tuple[float, int, float]]
) -> None:
    columns = [list(column) for column in zip(*services, strict=True)]
    per_instance = np.array(columns[1])
    least, n_nodes = None, 0
    for more in added:
        n_nodes += more
        nodes = reserve_nodes(n_nodes, *columns, least=least)
        assert nodes.sum() == n_nodes and (nodes >= 0).all()
        if least is not None:
            assert (nodes >= least).all()
        least = nodes // per_instance * per_instance


@pytest.mark.slow
@given(
    rates=st.lists(st.floats(0, 12), min_size=2, max_size=30),
    at=st.integers(0, 29),
    first=st.integers(0, 9),
    waits=st.booleans(),
    times_ms=st.tuples(*[st.integers(0, 200_000)] * 3),
)
def test_instances_keep_to_what_stands_and_requests_are_conserved(
    rates: list[float], at: int, first: int, waits: bool, times_ms: tuple[int, int, int]
) -> None:
    edges_ms = np.arange(len(rates) + 1, dtype=np.int64) * 60_000
    n_max = np.where(np.arange(len(rates)) < at, first, 9)
    rules = ScalingRules(1, 1, 9, 2, *times_ms, drain_s=60.0 if waits else 0.0)
    served = serve_requests(edges_ms, np.array(rates), rules, n_max)
    of_piece = np.searchsorted(edges_ms, served.edges_ms[:-1], side="right") - 1
    assert (served.n_instances <= n_max[of_piece]).all()
    assert (served.n_serving <= served.n_instances).all()
    found = (
        served.served_rps + served.unserved_rps
    ) @ served.step_s + served.backlog_requests[-1]
    assert found == pytest.approx(sum(rates) * 60, rel=1e-9, abs=1e-9)


def test_services_that_the_first_phase_does_not_hold_are_refused() -> None:
    with pytest.raises(
        ScenarioError, match="pool 'main' has 4 in its first phase; lower"
    ):
        phased({f"{CODING}.reserved_nodes": 5})
    wide = {f"{CODING}.nodes_per_instance": 4}
    with pytest.raises(
        WorkloadError, match=r"services\.\w+: 0 reserved nodes .* first phase"
    ):
        plan_of(phased(wide))
