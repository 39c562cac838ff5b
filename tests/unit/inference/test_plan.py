from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from serving_builders import CODING, CONVERSATION, one_service, serving_scenario, write_serving

from diploee.errors import WorkloadError
from diploee.inference import (
    Capacity,
    ScalingRules,
    ServicePlan,
    fifo_wait_s,
    load_curves,
    plan_services,
    serve_requests,
    service_columns,
)
from diploee.metrics.service import request_metrics, service_metrics, weighted_percentiles
from diploee.scenario import Scenario, load_scenario

CHAT = "request_streams.chat"


def plan_of(scenario: Scenario) -> ServicePlan:
    return plan_services(scenario, load_curves(scenario))[0]


def test_nodes_are_reserved_by_eq_7_unless_given() -> None:
    assert plan_of(serving_scenario()).reserved_nodes.tolist() == [3, 9]
    given = serving_scenario({f"{CODING}.reserved_nodes": 5})
    assert plan_of(given).reserved_nodes.tolist() == [5, 7]


def test_requests_split_by_probability_and_equally_over_instances() -> None:
    plan = plan_of(serving_scenario())
    assert plan.rate_rps[0] / plan.rate_rps.sum(axis=0) == pytest.approx(0.4)
    assert plan.n_serving * plan.instance_rate_rps == pytest.approx(plan.served_rps)
    assert (plan.instance_rate_rps <= np.array([[100], [50]]) * (1 + 1e-12)).all()


def test_requests_per_day_and_rate_are_two_units_of_one_thing() -> None:
    by_rate = plan_of(serving_scenario())
    by_day = plan_of(
        serving_scenario({f"{CHAT}.request_rate_rps": None, f"{CHAT}.requests_per_day": 34_560_000})
    )
    assert by_day.rate_rps == pytest.approx(by_rate.rate_rps)


@pytest.mark.parametrize("overload", ["reject", "degrade"])
def test_bisection_meets_the_target_utilization(overload: str) -> None:
    scenario = serving_scenario(
        {
            f"{CHAT}.request_rate_rps": None,
            f"{CHAT}.target_utilization": 0.55,
            f"{CHAT}.overload": overload,
        }
    )
    plan = plan_of(scenario)
    assert plan.busy_nodes @ plan.step_s / plan.step_s.sum() / 12 == pytest.approx(0.55, abs=2e-4)
    assert plan.match.residual == pytest.approx(0, abs=2e-4)


def test_target_out_of_reach_is_refused_with_what_is_reached() -> None:
    hours = [0.0] * 12 + [1.0] * 12
    scenario = serving_scenario(
        {
            f"{CHAT}.request_rate_rps": None,
            f"{CHAT}.target_utilization": 0.9,
            f"{CHAT}.calendar": {"hour_of_day": hours},
        }
    )
    with pytest.raises(WorkloadError, match=r"target utilization 0.9 can't be reached"):
        plan_of(scenario)


def test_zero_nodes_for_a_service_with_requests_are_refused() -> None:
    scenario = serving_scenario({"facility.pools.main.n_nodes": 1, f"{CODING}.probability": 0.4})
    with pytest.raises(WorkloadError, match=r"services\.coding: 0 reserved nodes hold 0 instances"):
        plan_of(scenario)


def test_latency_grows_by_the_wait_in_the_backlog() -> None:
    keys = {**one_service(reserved_nodes=1), f"{CHAT}.overload": "degrade", "duration": "2 h"}
    calm = plan_of(serving_scenario({**keys, f"{CHAT}.request_rate_rps": 10}))
    busy = plan_of(serving_scenario({**keys, f"{CHAT}.request_rate_rps": 80}))
    assert calm.latency_s.max() < 5
    assert not calm.backlog_requests.any()
    assert busy.latency_s[0, -1] > 600
    assert (np.diff(busy.latency_s[0]) > 0).mean() > 0.9


def test_degraded_service_completes_no_more_than_the_measured_throughput() -> None:
    plan = plan_of(serving_scenario({f"{CHAT}.overload": "degrade"}))
    assert plan.instance_rate_rps[0].max() <= 40.7625 * (1 + 1e-12)


def test_columns_conserve_requests_at_every_resolution() -> None:
    plan = plan_of(serving_scenario({f"{CHAT}.request_rate_rps": 900}))
    requests = float(plan.rate_rps[0] @ plan.step_s)
    for dt_ms, n_steps in ((100, 864_000), (60_000, 1_440), (150_000, 576), (3_600_000, 24)):
        columns = service_columns([plan], 0, dt_ms, n_steps)
        found = columns["incoming_rps.coding"].astype(np.float64).sum() * dt_ms / 1000
        assert found == pytest.approx(requests, rel=1e-6)
        whole = columns["incoming_rps.coding"].astype(np.float64)
        parts = columns["served_rps.coding"] + columns["unserved_rps.coding"]
        assert parts == pytest.approx(whole, rel=1e-5)
    later = service_columns([plan], 7_200_000, 150_000, 5)
    assert np.array_equal(
        later["served_rps.coding"],
        service_columns([plan], 0, 150_000, 53)["served_rps.coding"][48:],
    ) or later["served_rps.coding"] == pytest.approx(
        service_columns([plan], 0, 150_000, 53)["served_rps.coding"][48:], rel=1e-6
    )


def test_metrics_count_every_request_once() -> None:
    found = request_metrics([plan_of(serving_scenario({f"{CHAT}.request_rate_rps": 900}))])
    assert found["incoming_rps"] == pytest.approx(900)
    assert found["per_day"] == pytest.approx(900 * 86_400)
    assert found["effective_rps"] + found["incomplete_rps"] == pytest.approx(900)
    assert found["incomplete_rps"] > 0
    services = found["services"].values()
    assert sum(service["effective_rps"] for service in services) == pytest.approx(
        found["effective_rps"]
    )


def test_rejecting_keeps_the_cap_and_degrading_violates_it() -> None:
    keys = {f"{CHAT}.request_rate_rps": 900}
    rejecting = request_metrics([plan_of(serving_scenario(keys))])
    degrading = request_metrics(
        [plan_of(serving_scenario({**keys, f"{CHAT}.overload": "degrade"}))]
    )
    assert rejecting["services"]["coding"]["hours_over_latency_limit"] == 0
    assert rejecting["services"]["coding"]["hours_with_unserved_requests"] > 0
    assert degrading["services"]["coding"]["hours_over_latency_limit"] > 0


def test_service_without_requests_is_planned_with_nothing() -> None:
    for overload in ("reject", "degrade"):
        scenario = serving_scenario(
            {
                f"{CODING}.probability": 0,
                f"{CONVERSATION}.probability": 1,
                f"{CHAT}.overload": overload,
            }
        )
        plan = plan_of(scenario)
        assert plan.reserved_nodes.tolist() == [0, 12]
        assert not plan.n_instances[0].any()
        found = request_metrics([plan])["services"]["coding"]
        assert found["latency_s"] is None
        assert found["hours_over_latency_limit"] == 0


def burst_plan() -> ServicePlan:
    """Plan 60 requests/s for a minute, then 1/s for 30 more, at one node that completes 10/s."""
    plan = plan_of(serving_scenario({**one_service(), "duration": "31 min"}))
    rate_rps = np.repeat([60.0, 1.0], [1, 30])
    served = serve_requests(rate_rps, plan.step_s, ScalingRules(10, 10, 1, degrade=True))
    edges_s = plan.edges_ms / 1000
    return replace(
        plan,
        rate_rps=rate_rps[None],
        served_rps=served.served_rps[None],
        unserved_rps=served.unserved_rps[None],
        backlog_requests=served.backlog_requests[None],
        latency_s=fifo_wait_s(edges_s, rate_rps, served.served_rps, 10)[None],
        capacities=(Capacity(10, 10, latency_limit_s=100),),
    )


def test_latency_is_weighted_by_the_requests_that_arrive() -> None:
    found = service_metrics(burst_plan(), 0)
    # Every request on its own: first in, first out, at 10/s.
    arrive_s = np.concatenate([np.arange(3600) / 60, 60 + np.arange(1800)]) + 1e-9
    leave_s = np.maximum.accumulate(arrive_s - np.arange(5400) / 10) + np.arange(5400) / 10
    assert found["latency_s"]["mean"] == pytest.approx((leave_s - arrive_s).mean(), rel=0.01)
    assert found["latency_s"]["mean"] == pytest.approx(110)


def test_hours_over_the_limit_are_those_in_which_the_late_requests_arrive() -> None:
    # They arrive in the burst and, at 10/s less 1/s, until the backlog of 3,000 is down to 1,000
    # after 222 s, in the middle of the step.
    assert service_metrics(burst_plan(), 0)["hours_over_latency_limit"] * 60 == 5


def test_rounding_is_not_counted_as_overload() -> None:
    scenario = serving_scenario(
        {
            **one_service(max_request_rate_rps=0.7),
            f"{CHAT}.request_rate_rps": 2.1,
            f"{CHAT}.calendar": None,
        }
    )
    found = request_metrics([plan_of(scenario)])
    assert found["rejected_rps"] == 0
    assert found["services"]["coding"]["hours_with_unserved_requests"] == 0


def test_percentiles_are_weighted_by_requests() -> None:
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([1.0, 98.0, 1.0])
    assert weighted_percentiles(values, weight, (50, 98, 99, 100)) == [1, 1, 2, 3]


def test_user_curves_lie_beside_the_scenario_and_the_hash_does_not_depend_on_the_place(
    tmp_path: Path,
) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    scenarios = []
    for place in places:
        place.mkdir()
        (place / "mine.csv").write_text(
            "# mine\nrequest_rate_rps,mean_power_w,peak_power_w\n1,500,600\n2,700,800\n9,900,999\n"
        )
        path = write_serving(place / "s.yaml", {f"{CONVERSATION}.power_curve": "mine.csv"})
        scenarios.append(load_scenario(path))
    curves = load_curves(scenarios[0])["chat", "conversation"]
    assert curves.power.mean_power_w.tolist() == [500, 700, 900]
    assert len(curves.files[0].sha256) == 64
    assert scenarios[0].sha256() == scenarios[1].sha256()
