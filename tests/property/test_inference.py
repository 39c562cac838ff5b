"""Conservation of requests and of energy, and monotone instance plans."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_builders import (
    CODING,
    CONVERSATION,
    load_curves,
    plan_of,
    services_load,
    serving_scenario,
)

from diploee.base.tables import Float64Array
from diploee.loads.services.capacity import reserve_nodes
from diploee.loads.services.served_requests import (
    ScalingRules,
    serve_requests,
    whole_instances,
)
from diploee.simulation.steps import power_blocks

CHAT = "request_streams.chat"
RMAX = "max_request_rate_rps"


def minutes(n: int) -> np.ndarray:
    return np.arange(n + 1, dtype=np.int64) * 60_000


rates = st.lists(st.floats(0, 1e4), min_size=1, max_size=60).map(np.array)


@given(
    rate_rps=rates,
    max_rate=st.floats(0.5, 200),
    completion=st.floats(0.5, 200) | st.just(float("inf")),
    n_max=st.integers(1, 50),
    n_min=st.integers(0, 5),
    startup_ms=st.integers(0, 300_000),
    cooldown_ms=st.integers(0, 300_000),
    interval_ms=st.just(0) | st.integers(1_000, 300_000),
    drain_s=st.sampled_from([0.0, 60.0]),
)
def test_requests_are_served_rejected_or_waiting(
    rate_rps: np.ndarray,
    max_rate: float,
    completion: float,
    n_max: int,
    n_min: int,
    startup_ms: int,
    cooldown_ms: int,
    interval_ms: int,
    drain_s: float,
) -> None:
    edges_ms = minutes(rate_rps.size)
    edges_ms[-1] -= 43_000
    rules = ScalingRules(
        max_rate,
        completion,
        n_max,
        n_min,
        startup_ms,
        cooldown_ms,
        interval_ms,
        500,
        drain_s,
    )
    served = serve_requests(edges_ms, rate_rps, rules)
    step_s = served.step_s
    offered = rate_rps @ np.diff(edges_ms) / 1000
    found = (
        served.served_rps @ step_s
        + served.unserved_rps @ step_s
        + served.backlog_requests[-1]
    )
    assert found == pytest.approx(offered, rel=1e-9, abs=1e-9)
    assert (served.edges_ms[0], served.edges_ms[-1]) == (edges_ms[0], edges_ms[-1])
    assert (step_s > 0).all()
    assert (served.backlog_requests >= 0).all()
    assert (served.unserved_rps >= 0).all()
    assert (served.n_serving <= served.n_instances).all()
    assert (served.n_instances <= n_max).all()
    most_rps = np.where(served.n_serving > 0, served.n_serving * completion, 0.0)
    assert (served.served_rps <= most_rps * (1 + 2e-12) + 1e-6).all()
    if drain_s:
        assert not served.unserved_rps.any()
    else:
        assert not served.backlog_requests.any()


@pytest.mark.slow
@given(
    needs=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    startup_ms=st.integers(0, 200_000),
    cooldown_ms=st.integers(0, 200_000),
)
def test_instances_are_the_most_needed_lately_and_serve_after_their_start_up(
    needs: list[int], startup_ms: int, cooldown_ms: int
) -> None:
    """Against the definition, looked up at instants half a second apart."""
    edges_ms = minutes(len(needs))
    rules = ScalingRules(1, 1, 9, 0, startup_ms, cooldown_ms)
    served = serve_requests(edges_ms, np.array(needs, dtype=float), rules)
    time_ms = np.arange(0, edges_ms[-1], 7_001)

    def up_at(at_ms: int) -> int:
        first, last = max(0, at_ms - cooldown_ms) // 60_000, at_ms // 60_000
        return max(needs[first : last + 1])

    piece = np.searchsorted(served.edges_ms, time_ms, side="right") - 1
    # Where a cool-down ends exactly then, either is right.
    clear = [(t - cooldown_ms) % 60_000 > 0 for t in time_ms]
    expected = np.array([up_at(int(t)) for t in time_ms])
    assert (served.n_instances[piece] == expected)[clear].all()
    changes = served.edges_ms[:-1]
    for t, at in zip(time_ms, piece, strict=True):
        lately = (changes <= t) & (served.edges_ms[1:] > t - startup_ms)
        assert served.n_serving[at] <= served.n_instances[at]
        assert served.n_serving[at] == min(served.n_instances[lately])


@given(rate_rps=rates, max_rate=st.floats(0.01, 1e3), n_max=st.integers(1, 1000))
def test_doubling_the_highest_rate_never_raises_the_instance_count(
    rate_rps: np.ndarray, max_rate: float, n_max: int
) -> None:
    for rate in rate_rps:
        once = whole_instances(rate, max_rate, n_max)
        assert whole_instances(rate, 2 * max_rate, n_max) <= once


def instances_of(changes: dict[str, object]) -> Float64Array:
    """Return the mean instances of each service in every ten minutes of half a day."""
    scenario = serving_scenario({"duration": "12 h", **changes})
    plan = plan_of(scenario)
    edges_ms = np.arange(0, 12 * 3_600_001, 600_000)
    found = []
    for service in plan.services:
        served = service.served
        until = np.append(0.0, np.cumsum(served.n_instances * np.diff(served.edges_ms)))
        found.append(np.diff(np.interp(edges_ms, served.edges_ms, until)) / 600_000)
    return np.array(found)


@settings(max_examples=4)
@given(
    rate_rps=st.floats(1, 3000),
    coding_rps=st.floats(2, 200),
    conversation_rps=st.floats(2, 200),
    overload=st.sampled_from(["reject", "degrade", "queue"]),
    capacity=st.sampled_from(["offered", "sustained"]),
    startup_s=st.sampled_from([0, 300]),
    cooldown_s=st.sampled_from([0, 600]),
    min_instances=st.integers(0, 3),
)
def test_doubling_the_highest_rate_of_a_service_never_raises_the_instances_of_a_plan(
    rate_rps: float,
    coding_rps: float,
    conversation_rps: float,
    overload: str,
    capacity: str,
    startup_s: float,
    cooldown_s: float,
    min_instances: int,
) -> None:
    """Nodes are given, as Eq. 7 would move them from one service to the other.

    A start-up time is left out with `queue`: fewer instances ahead of a rise leave a
    larger backlog, which then needs more of them for a while.
    """
    changes = {
        f"{CHAT}.request_rate_rps": rate_rps,
        f"{CHAT}.fluctuation": {"relative_std": 0.2},
        f"{CHAT}.overload": overload,
        f"{CHAT}.capacity": capacity,
        f"{CODING}.{RMAX}": coding_rps,
        f"{CODING}.reserved_nodes": 4,
        f"{CODING}.startup_s": startup_s if overload != "queue" else 0,
        f"{CODING}.cooldown_s": cooldown_s,
        f"{CODING}.min_instances": min_instances,
        f"{CONVERSATION}.{RMAX}": conversation_rps,
        f"{CONVERSATION}.reserved_nodes": 8,
    }
    once = instances_of(changes)
    assert (
        instances_of({**changes, f"{CODING}.{RMAX}": 2 * coding_rps}) <= once + 1e-9
    ).all()
    both = {
        f"{CODING}.{RMAX}": 2 * coding_rps,
        f"{CONVERSATION}.{RMAX}": 2 * conversation_rps,
    }
    assert (instances_of({**changes, **both}) <= once + 1e-9).all()


@settings(max_examples=4)
@given(
    rate_rps=st.floats(1, 30_000),
    coding_rps=st.floats(5, 200),
    conversation_rps=st.floats(5, 200),
    overload=st.sampled_from(["reject", "degrade", "queue"]),
)
def test_doubling_all_highest_rates_never_raises_the_instances_on_nodes_shared_by_eq_7(
    rate_rps: float, coding_rps: float, conversation_rps: float, overload: str
) -> None:
    changes = {
        "facility.pools.main.n_nodes": 200,
        f"{CHAT}.request_rate_rps": rate_rps,
        f"{CHAT}.overload": overload,
        f"{CODING}.{RMAX}": coding_rps,
        f"{CONVERSATION}.{RMAX}": conversation_rps,
    }
    both = {
        f"{CODING}.{RMAX}": 2 * coding_rps,
        f"{CONVERSATION}.{RMAX}": 2 * conversation_rps,
    }
    assert (instances_of({**changes, **both}) <= instances_of(changes) + 1e-9).all()


@pytest.mark.slow
@given(rate_rps=rates, completion=st.floats(0.5, 200))
def test_requests_wait_only_while_all_nodes_are_taken(
    rate_rps: np.ndarray, completion: float
) -> None:
    rules = ScalingRules(completion, completion, n_max=20, drain_s=60)
    served = serve_requests(minutes(rate_rps.size), rate_rps, rules)
    grows = np.diff(served.backlog_requests) > 1e-6
    assert (served.n_instances[grows] == 20).all()


@given(
    rate_rps=rates,
    factor=st.floats(1, 5),
    startup_ms=st.integers(0, 300_000),
    cooldown_ms=st.integers(0, 300_000),
)
def test_more_requests_never_occupy_fewer_nodes(
    rate_rps: np.ndarray, factor: float, startup_ms: int, cooldown_ms: int
) -> None:
    rules = ScalingRules(50, 50, 20, 0, startup_ms, cooldown_ms)
    few, many = (
        serve_requests(minutes(rate_rps.size), rate, rules)
        for rate in (rate_rps, rate_rps * factor)
    )
    times_ms = np.union1d(few.edges_ms[:-1], many.edges_ms[:-1])
    of_few, of_many = (
        s.n_instances[np.searchsorted(s.edges_ms, times_ms, side="right") - 1]
        for s in (few, many)
    )
    assert (of_many >= of_few).all()


services = st.lists(
    st.tuples(st.floats(0.01, 1), st.integers(1, 8), st.floats(0.1, 500)),
    min_size=1,
    max_size=6,
)


@given(n_nodes=st.integers(1, 5000), services=services)
def test_reserved_nodes_sum_to_the_pool(
    n_nodes: int, services: list[tuple[float, int, float]]
) -> None:
    weight, per_instance, max_rate = zip(*services, strict=True)
    total = sum(weight)
    nodes = reserve_nodes(n_nodes, [w / total for w in weight], per_instance, max_rate)
    assert nodes.sum() == n_nodes
    assert (nodes >= 0).all()


@pytest.mark.slow
@settings(max_examples=8)
@given(
    rate_rps=st.floats(5, 2000),
    overload=st.sampled_from(["reject", "degrade", "queue"]),
    standby=st.sampled_from(["cold", "warm"]),
    resolution=st.sampled_from(["0.1 s", "0.7 s", "90 s", "15 min", "1 h"]),
    block_intervals=st.integers(500, 5000),
)
def test_energy_depends_neither_on_resolution_nor_on_block_size(
    rate_rps: float, overload: str, standby: str, resolution: str, block_intervals: int
) -> None:
    changes = {
        "duration": "7 h",
        "request_streams.chat.request_rate_rps": rate_rps,
        "request_streams.chat.overload": overload,
        "request_streams.chat.fluctuation": {"relative_std": 0.1},
        f"{CODING}.standby": standby,
        "facility.node_types.node.warm_power_w": 700,
        f"{CODING}.startup_s": 120,
    }

    def energy_j(resolution: str, block_intervals: int) -> float:
        scenario = serving_scenario({**changes, "resolution": resolution})
        load = services_load(scenario)
        blocks = power_blocks(load.segments, scenario, load.library, block_intervals)
        return sum(float(b.it_power_w.sum()) * b.dt_ms / 1000 for b in blocks)

    assert energy_j(resolution, block_intervals) == pytest.approx(
        energy_j("60 s", 1 << 18), rel=1e-10
    )


@settings(max_examples=6)
@given(
    rate_rps=st.floats(1, 3000),
    nodes_per_instance=st.integers(1, 3),
    min_instances=st.integers(0, 2),
)
def test_serving_energy_is_instances_times_nodes_times_the_mean_power_of_the_curve(
    rate_rps: float, nodes_per_instance: int, min_instances: int
) -> None:
    """A constant rate, against a sum that knows no segments."""
    n_nodes = {
        "coding": 4 * nodes_per_instance,
        "conversation": 12 - 4 * nodes_per_instance,
    }
    n_nodes["conversation"] += 12
    scenario = serving_scenario(
        {
            "duration": "9 min",
            "facility.pools.main.n_nodes": 24,
            f"{CHAT}.request_rate_rps": rate_rps,
            f"{CHAT}.calendar": None,
            f"{CODING}.nodes_per_instance": nodes_per_instance,
            f"{CODING}.min_instances": min_instances,
            f"{CODING}.reserved_nodes": n_nodes["coding"],
            f"{CONVERSATION}.reserved_nodes": n_nodes["conversation"],
        }
    )
    curves = load_curves(scenario)
    expected_w, n_idle = 0.0, 24
    for name, service in scenario.request_streams["chat"].services.items():
        of_service, max_rps = (
            service.probability * rate_rps,
            service.max_request_rate_rps,
        )
        assert max_rps is not None
        n_max = n_nodes[name] // service.nodes_per_instance
        n = min(n_max, max(service.min_instances, ceil(of_service / max_rps)))
        curve = curves["chat", name].power
        each_rps = min(of_service / n, max_rps)
        n_busy = n * service.nodes_per_instance
        expected_w += n_busy * np.interp(each_rps, curve.rate_rps, curve.mean_power_w)
        n_idle -= n_busy
    expected_w += n_idle * scenario.facility.node_type_of("main").idle_power_w

    load = services_load(scenario)
    found_w = n_idle * scenario.facility.node_type_of("main").idle_power_w
    for bank in load.groups:  # whatever part of its sample each plays
        mean_w = np.array(
            [load.library[index].mean_power_w for index in bank.profile_id]
        )
        found_w = found_w + bank.weight[0] * mean_w[0]
        assert bank.weight * mean_w == pytest.approx(bank.weight[0] * mean_w[0])
    assert found_w == pytest.approx(expected_w, rel=1e-6)
