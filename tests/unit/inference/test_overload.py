from __future__ import annotations

import numpy as np
import pytest

from diploee.inference import ScalingRules, fifo_wait_s, serve_requests
from diploee.tables import Float64Array

STEP_S = 60.0


def steps(n_steps: int) -> Float64Array:
    return np.full(n_steps, STEP_S)


def test_requests_above_capacity_are_rejected() -> None:
    served = serve_requests(np.array([50.0, 250.0]), steps(2), ScalingRules(100, 100, 2))
    assert served.n_instances.tolist() == [1, 2]
    assert served.served_rps.tolist() == [50, 200]
    assert served.unserved_rps.tolist() == [0, 50]
    assert not served.backlog_requests.any()


def test_backlog_of_one_node_follows_the_fluid_solution() -> None:
    # 150/s arrive for 10 minutes at a node that completes 100/s, then 50/s: the backlog rises at
    # 50/s to 30,000 requests and falls at 50/s, to empty after another 10 minutes.
    rate_rps = np.repeat([150.0, 50.0], [10, 20])
    rules = ScalingRules(100, 100, 1, degrade=True)
    served = serve_requests(rate_rps, steps(30), rules)
    minutes = np.arange(31)
    expected = np.maximum(0, np.minimum(minutes, 20 - minutes)) * 50 * STEP_S
    assert served.backlog_requests == pytest.approx(expected)
    edges_s = minutes * STEP_S
    # A request that arrives at t waits for the backlog of then, served at 100/s.
    wait_s = fifo_wait_s(edges_s, rate_rps, served.served_rps, 100)
    middle = (expected[:-1] + expected[1:]) / 2
    assert wait_s == pytest.approx(middle / 100)


def test_requests_that_wait_at_the_end_are_served_at_full_capacity() -> None:
    rate_rps = np.array([200.0])
    wait_s = fifo_wait_s(np.array([0, 60.0]), rate_rps, np.array([100.0]), 100)
    # The middle request is number 6,000; it leaves at 60 s, having come at 30 s.
    assert wait_s == pytest.approx([30])


def test_free_nodes_work_the_backlog_off() -> None:
    # Of 100/s one instance completes 40/s; the two that follow are up after 5 minutes.
    rules = ScalingRules(100, 40, n_max=10, startup_steps=5, degrade=True)
    served = serve_requests(np.repeat([10.0, 100.0], [1, 60]), steps(61), rules)
    assert served.backlog_requests.max() >= 5 * 60 * STEP_S
    assert not served.backlog_requests[-30:].any()
    assert served.n_instances[-1] == 3


def test_no_backlog_stands_beside_idle_nodes() -> None:
    rules = ScalingRules(max_rate_rps=100, completion_rate_rps=40.8, n_max=64, degrade=True)
    served = serve_requests(np.full(50, 80.0), steps(50), rules)
    assert set(served.n_instances) == {2}
    assert not served.backlog_requests.any()


def test_rounding_leaves_no_request_unserved() -> None:
    for rate_rps, max_rps, n in ((2.1, 0.7, 3), (0.3, 0.1, 3), (4.35, 0.29, 15)):
        served = serve_requests(np.array([rate_rps]), steps(1), ScalingRules(max_rps, max_rps, 20))
        assert served.n_instances.tolist() == [n]
        assert served.served_rps.tolist() == [rate_rps]
        assert served.unserved_rps.tolist() == [0]


def test_nobody_waits_where_nothing_arrives() -> None:
    edges_s = np.arange(4) * STEP_S
    assert fifo_wait_s(edges_s, np.zeros(3), np.zeros(3), 0.0).tolist() == [0, 0, 0]


def test_instance_starts_to_serve_after_its_start_up_time() -> None:
    rules = ScalingRules(100, 100, 4, startup_steps=2)
    served = serve_requests(np.array([100.0, 300.0, 300.0, 300.0]), steps(4), rules)
    assert served.n_instances.tolist() == [1, 3, 3, 3]
    assert served.n_serving.tolist() == [1, 1, 1, 3]
    assert served.unserved_rps.tolist() == [0, 200, 200, 0]


def test_instance_stays_up_for_its_cool_down_time() -> None:
    rules = ScalingRules(100, 100, 4, cooldown_steps=2)
    served = serve_requests(np.array([300.0, 100.0, 100.0, 100.0]), steps(4), rules)
    assert served.n_instances.tolist() == [3, 3, 3, 1]


def test_minimum_of_instances_is_up_without_requests() -> None:
    served = serve_requests(np.zeros(2), steps(2), ScalingRules(100, 100, 4, n_min=2))
    assert served.n_instances.tolist() == [2, 2]
