from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_builders import (
    CODING,
    CONVERSATION,
    load_curves,
    one_service,
    plan_of,
    request_rates,
    serving_scenario,
    write_serving,
)

from diploee.base.errors import WorkloadError
from diploee.importers.serving.service_curves import load_latency_curve
from diploee.loads.services.capacity import Capacity
from diploee.loads.services.curves import LatencyCurve
from diploee.loads.services.load import service_columns
from diploee.loads.services.metrics import (
    mixture_percentiles,
    request_metrics,
    service_metrics,
)
from diploee.loads.services.served_requests import (
    ScalingRules,
    fifo_wait_s,
    serve_requests,
)
from diploee.loads.services.service_plan import PlannedService, ServicePlan
from diploee.scenario import load_scenario

CHAT = "request_streams.chat"


def reserved(plan: ServicePlan) -> list[int]:
    return [service.reserved_nodes for service in plan.services]


def test_nodes_are_reserved_by_eq_7_unless_given() -> None:
    assert reserved(plan_of(serving_scenario())) == [3, 9]
    given = serving_scenario({f"{CODING}.reserved_nodes": 5})
    assert reserved(plan_of(given)) == [5, 7]


def test_requests_split_by_probability_and_equally_over_instances() -> None:
    plan = plan_of(serving_scenario())
    coding, conversation = (service.served for service in plan.services)
    requests = [
        float(served.rate_rps @ served.step_s) for served in (coding, conversation)
    ]
    assert requests[0] / sum(requests) == pytest.approx(0.4)
    for service, most_rps in zip(plan.services, (100, 50), strict=True):
        served = service.served
        assert served.n_serving * service.instance_rate_rps == pytest.approx(
            served.served_rps
        )
        assert (service.instance_rate_rps <= most_rps * (1 + 1e-12)).all()


def test_requests_per_day_and_rate_are_two_units_of_one_thing() -> None:
    by_rate = plan_of(serving_scenario())
    by_day = plan_of(
        serving_scenario(
            {f"{CHAT}.request_rate_rps": None, f"{CHAT}.requests_per_day": 34_560_000}
        )
    )
    for one, other in zip(by_rate.services, by_day.services, strict=True):
        assert one.served.rate_rps == pytest.approx(other.served.rate_rps)


def test_means_of_a_minute_scaled_by_eq_4_are_as_busy_as_the_plan() -> None:
    plan = plan_of(
        serving_scenario(
            {f"{CHAT}.fluctuation": {"relative_std": 0.06}, "duration": "28 d"}
        )
    )
    columns = service_columns([plan], 0, 60_000, 28 * 1440)
    for service, most_rps in zip(plan.services, (100, 50), strict=True):
        served = service.served
        n_max = service.reserved_nodes // service.nodes_per_instance
        of_minutes = np.minimum(
            np.ceil(columns[f"incoming_rps.{service.name}"] / most_rps), n_max
        )
        in_plan = served.n_instances @ served.step_s / served.step_s.sum()
        assert of_minutes.mean() == pytest.approx(in_plan, rel=0.01)


@pytest.mark.parametrize("overload", ["reject", "degrade", "queue"])
def test_bisection_meets_the_target_utilization(overload: str) -> None:
    scenario = serving_scenario(
        {
            f"{CHAT}.request_rate_rps": None,
            f"{CHAT}.target_utilization": 0.55,
            f"{CHAT}.overload": overload,
        }
    )
    plan = plan_of(scenario)
    busy_s = sum(float(s.served.n_instances @ s.served.step_s) for s in plan.services)
    assert busy_s / 86_400 / 12 == pytest.approx(0.55, abs=2e-4)
    assert plan.match.residual == pytest.approx(0, abs=2e-4)


TARGET = {f"{CHAT}.request_rate_rps": None, f"{CHAT}.target_utilization": 0.9}
AFTERNOONS = {f"{CHAT}.calendar": {"hour_of_day": [0.0] * 12 + [1.0] * 12}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (TARGET | AFTERNOONS, r"target utilization 0.9 can't be reached"),
        (
            {"facility.pools.main.n_nodes": 1},
            r"coding: 0 reserved nodes hold 0 instances",
        ),
    ],
)
def test_a_plan_that_can_not_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        plan_of(serving_scenario(changes))


def test_degraded_service_serves_all_at_the_latency_of_the_curve() -> None:
    keys = {
        **one_service(reserved_nodes=1, max_request_rate_rps=50),
        f"{CHAT}.calendar": None,
    }
    scenario = serving_scenario(
        {**keys, f"{CHAT}.overload": "degrade", f"{CHAT}.request_rate_rps": 120}
    )
    curve = load_curves(scenario)["chat", "coding"].latency
    (service,) = plan_of(scenario).services
    assert curve is not None
    assert service.served.served_rps == pytest.approx(120)
    assert not service.served.unserved_rps.any()
    assert service.latencies_s["mean_e2e"] == pytest.approx(
        float(curve.at(np.array(120.0)))
    )
    assert not service.beyond_measured.any()


def test_degraded_service_says_where_it_leaves_the_measured_range() -> None:
    keys = {
        **one_service(reserved_nodes=1),
        f"{CHAT}.overload": "degrade",
        "duration": "2 h",
    }
    plan = plan_of(
        serving_scenario(
            {**keys, f"{CHAT}.calendar": None, f"{CHAT}.request_rate_rps": 5000}
        )
    )
    found = service_metrics(plan.services[0])
    assert found["hours_beyond_measured_rate"] == pytest.approx(2)
    assert found["rejected_rps"] == 0


def test_columns_conserve_requests_at_every_resolution() -> None:
    plan = plan_of(serving_scenario({f"{CHAT}.request_rate_rps": 900}))
    served = plan.services[0].served
    requests = float(served.rate_rps @ served.step_s)
    for dt_ms, n_steps in (
        (100, 864_000),
        (60_000, 1_440),
        (150_000, 576),
        (3_600_000, 24),
    ):
        columns = service_columns([plan], 0, dt_ms, n_steps)
        found = columns["incoming_rps.coding"].astype(np.float64).sum() * dt_ms / 1000
        assert found == pytest.approx(requests, rel=1e-6)
        whole = columns["incoming_rps.coding"].astype(np.float64)
        parts = columns["served_rps.coding"] + columns["unserved_rps.coding"]
        np.testing.assert_allclose(parts, whole, rtol=1e-5)
    later = service_columns([plan], 7_200_000, 150_000, 5)
    whole = service_columns([plan], 0, 150_000, 53)
    np.testing.assert_allclose(
        later["served_rps.coding"], whole["served_rps.coding"][48:], rtol=1e-6
    )


def test_offered_rate_is_the_mean_of_its_line_at_any_resolution() -> None:
    scenario = serving_scenario({f"{CHAT}.request_rate_rps": 300, "duration": "1 h"})
    plan, rates = plan_of(scenario), request_rates(scenario, "chat")
    (row,) = [k for k, service in enumerate(plan.services) if service.name == "coding"]
    probability = list(scenario.request_streams["chat"].services.values())[
        row
    ].probability
    assert probability is not None
    line = rates.service_rate_rps(row, probability, 300)
    for dt_ms in (100, 5_000):
        found = service_columns([plan], 0, dt_ms, 3_600_000 // dt_ms)[
            "incoming_rps.coding"
        ]
        at = np.interp(np.arange(0, 3_600_001, 100), rates.times_ms, line)
        means = ((at[1:] + at[:-1]) / 2).reshape(-1, dt_ms // 100).mean(axis=1)
        np.testing.assert_allclose(found, means, rtol=1e-3)
    assert np.count_nonzero(np.diff(found) == 0) < 0.01 * found.size


def test_rejecting_keeps_the_cap_and_degrading_violates_it() -> None:
    keys = {
        f"{CHAT}.request_rate_rps": 900,
        f"{CODING}.latency_cap": {"limit_s": 10},
        f"{CODING}.max_request_rate_rps": None,
    }
    rejecting = request_metrics([plan_of(serving_scenario(keys))])
    degrading = request_metrics(
        [plan_of(serving_scenario({**keys, f"{CHAT}.overload": "degrade"}))]
    )
    assert rejecting["services"]["coding"]["latency_cap"]["mean_e2e"]["limit_s"] == 10
    assert rejecting["services"]["coding"]["hours_over_latency_limit"] == 0
    assert rejecting["services"]["conversation"]["latency_cap"] == {}
    assert rejecting["services"]["conversation"]["hours_over_latency_limit"] is None
    assert rejecting["services"]["coding"]["hours_with_unserved_requests"] > 0
    assert degrading["services"]["coding"]["hours_over_latency_limit"] > 0


@pytest.mark.parametrize("overload", ["reject", "degrade", "queue"])
def test_service_without_requests_is_planned_with_nothing(overload: str) -> None:
    scenario = serving_scenario(
        {
            f"{CODING}.probability": 0,
            f"{CONVERSATION}.probability": 1,
            f"{CHAT}.overload": overload,
        }
    )
    plan = plan_of(scenario)
    assert reserved(plan) == [0, 12]
    assert not plan.services[0].served.n_instances.any()
    latency_s = request_metrics([plan])["services"]["coding"]["latency_s"]
    assert {absent["reason"] for absent in latency_s.pop("absent")} == {
        "no request was served"
    }
    assert set(latency_s.values()) == {None}


def burst() -> PlannedService:
    """Plan 60 requests/s for a minute, then 1/s for 30 more, at one node that completes
    10/s."""
    edges_ms = np.arange(32, dtype=np.int64) * 60_000
    rate_rps = np.repeat([60.0, 1.0], [1, 30])
    served = serve_requests(edges_ms, rate_rps, ScalingRules(10, 10, 1, drain_s=60))
    wait_s = fifo_wait_s(served.edges_ms / 1000, served.rate_rps, served.served_rps, 10)
    capacity = Capacity(10, 10, latency_limit_s=100, latency_metric="mean_e2e")
    reserved = np.ones(wait_s.size, dtype=np.int32)
    rise_rps, waits_s = np.zeros(wait_s.size), np.stack([wait_s] * 3)
    curve = LatencyCurve("mean_e2e", *np.array([[1.0, 10], [0, 0], [1, 10]]))
    return PlannedService(
        "burst",
        1,
        1,
        capacity,
        False,
        served,
        curve,
        reserved,
        rise_rps,
        waits_s,
    )


def test_latency_is_weighted_by_the_requests_that_arrive() -> None:
    found = service_metrics(burst())
    # Every request on its own: first in, first out, at 10/s.
    arrive_s = np.concatenate([np.arange(3600) / 60, 60 + np.arange(1800)]) + 1e-9
    leave_s = (
        np.maximum.accumulate(arrive_s - np.arange(5400) / 10) + np.arange(5400) / 10
    )
    assert found["latency_s"]["mean"] == pytest.approx(
        (leave_s - arrive_s).mean(), rel=0.01
    )


def test_percentiles_at_a_constant_rate_are_those_of_the_curve() -> None:
    steady = {
        "request_streams.chat.calendar": None,
        "request_streams.chat.request_rate_rps": 90,
    }
    scenario = serving_scenario({**one_service(), **steady})
    found = request_metrics([plan_of(scenario)])["services"]["coding"]["latency_s"]
    for name in ("p50", "p90"):
        curve, _ = load_latency_curve(
            "llama3_70b_coding_latency", Path(), f"{name}_e2e"
        )  # type: ignore[arg-type]
        assert found[name] == pytest.approx(float(curve.at(np.array(90.0))), rel=1e-6)
    assert found["p50"] < found["max_mean"] == pytest.approx(found["mean"])


def test_percentiles_are_of_all_requests_of_unlike_moments() -> None:
    rng = np.random.default_rng(0)
    median, sigma = np.exp(rng.normal(1, 0.5, 300)), rng.uniform(0.1, 0.6, 300)
    weight = rng.uniform(0.1, 2, 300)
    moment = rng.choice(300, 400_000, p=weight / weight.sum())
    drawn = median[moment] * np.exp(sigma[moment] * rng.standard_normal(moment.size))
    p90 = median * np.exp(1.2815515655446004 * sigma)
    found = mixture_percentiles(median, p90, weight, (50, 90))
    assert found == pytest.approx(np.percentile(drawn, (50, 90)), rel=0.01)


def test_percentiles_are_absent_of_a_curve_without_quantiles(tmp_path: Path) -> None:
    rows = (
        "request_rate_rps,request_throughput_rps,mean_e2e_latency_s\n1,1,1\n50,40,5\n"
        "99,41,9\n"
    )
    (tmp_path / "mean.csv").write_text(rows, "utf-8")
    changes = one_service(latency_curve="mean.csv")
    plan = plan_of(load_scenario(write_serving(tmp_path / "s.yaml", changes)))
    found = request_metrics([plan])["services"]["coding"]["latency_s"]
    assert found["p50"] is None
    assert found["mean"] > 0


def test_hours_over_the_limit_are_those_in_which_the_late_requests_arrive() -> None:
    # They arrive in the burst and, at 10/s less 1/s, until the backlog of 3,000 is down
    # to 1,000 after 222 s, in the middle of a step.
    assert service_metrics(burst())["hours_over_latency_limit"] * 60 == 5


def test_user_curves_lie_beside_the_scenario_and_the_hash_does_not_depend_on_the_place(
    tmp_path: Path,
) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    scenarios = []
    for place in places:
        place.mkdir()
        (place / "mine.csv").write_text(
            "# mine\nrequest_rate_rps,mean_power_w,peak_power_w\n1,500,600\n"
            "2,700,800\n9,900,999\n"
        )
        path = write_serving(
            place / "s.yaml", {f"{CONVERSATION}.power_curve": "mine.csv"}
        )
        scenarios.append(load_scenario(path))
    curves = load_curves(scenarios[0])["chat", "conversation"]
    assert curves.power.mean_power_w.tolist() == [500, 700, 900]
    assert len(curves.files[0].sha256) == 64
    assert scenarios[0].sha256() == scenarios[1].sha256()
