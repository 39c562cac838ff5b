from __future__ import annotations

import numpy as np
import pytest

from diploee.base.tables import Float64Array, Int64Array
from diploee.loads.services.served_requests import (
    ScalingRules,
    cut_at_crossings,
    fifo_wait_s,
    serve_requests,
)

MINUTE_MS = 60_000
EDGES = [0, 60_000, 120_000, 150_000, 180_000, 240_000]


def minutes(n: int) -> Int64Array:
    return np.arange(n + 1, dtype=np.int64) * MINUTE_MS


def at(edges_ms: Int64Array, values: Float64Array, time_ms: Int64Array) -> Float64Array:
    """Return what holds at instants of pieces of time."""
    return values[np.searchsorted(edges_ms, time_ms, side="right") - 1]


def test_time_is_cut_where_the_rate_passes_a_multiple_to_the_millisecond() -> None:
    edges_ms, rate_rps = cut_at_crossings(
        np.array([0, 60_000, 120_000]), np.array([50.0, 350.0, 150.0]), 100.0, 10
    )
    # Up by 5/s per second: 100 after 10 s, 200 after 30 s; down by 3.33/s: 300 after 15
    # s.
    assert edges_ms.tolist() == [
        0,
        10_000,
        30_000,
        50_000,
        60_000,
        75_000,
        105_000,
        120_000,
    ]
    assert rate_rps == pytest.approx([75, 150, 250, 325, 325, 250, 175])


def test_mean_rates_of_the_pieces_keep_the_requests() -> None:
    rng = np.random.default_rng(1)
    nodes_ms = np.cumsum(rng.integers(1, 120_000, 500))
    rate_rps = rng.gamma(2, 300, 500)
    edges_ms, mean_rps = cut_at_crossings(nodes_ms, rate_rps, 37.0, 20)
    assert mean_rps @ np.diff(edges_ms) == pytest.approx(
        np.trapezoid(rate_rps, nodes_ms)
    )
    assert set(nodes_ms) <= set(edges_ms)


def test_rate_that_stays_on_a_multiple_is_cut_nowhere() -> None:
    nodes_ms, rate_rps = np.array([0, 60_000, 120_000]), np.full(3, 0.3)
    edges_ms, _ = cut_at_crossings(nodes_ms, rate_rps, 0.1, 10)
    assert edges_ms.tolist() == nodes_ms.tolist()


def test_large_service_changes_in_even_groups_and_a_smaller_one_by_one() -> None:
    for n_max, n_groups in ((200, 200), (1_000_000, 256)):
        edges_ms, rate_rps = cut_at_crossings(
            np.array([0, 600_000]), np.array([0.0, 1.1 * n_max]), 1.0, n_max
        )
        assert edges_ms.size == n_groups + 2
        steps = np.diff(np.minimum(np.ceil(rate_rps), n_max))
        assert steps.max() <= n_max / n_groups + 2


CASES: dict[str, tuple[ScalingRules, list[float], dict[str, list[float]]]] = {
    "requests above capacity are rejected": (
        ScalingRules(100, 100, 2),
        [50, 250],
        {"n_instances": [1, 2], "served_rps": [50, 200], "unserved_rps": [0, 50]},
    ),
    "instances without a limit serve all requests": (
        ScalingRules(100, float("inf"), 2),
        [50, 250],
        {"n_instances": [1, 2], "served_rps": [50, 250], "unserved_rps": [0, 0]},
    ),
    "an instance serves after its start-up time": (
        ScalingRules(100, 100, 4, startup_ms=90_000),
        [100, 300, 300, 300],
        {
            "edges_ms": EDGES,
            "n_instances": [1, 3, 3, 3, 3],
            "n_serving": [1, 1, 1, 3, 3],
        },
    ),
    "an instance stays up for its cool-down time": (
        ScalingRules(100, 100, 4, cooldown_ms=90_000),
        [300, 100, 100, 100],
        {"edges_ms": EDGES, "n_instances": [3, 3, 3, 1, 1]},
    ),
    **{
        f"rounding of {rate} over {each} leaves no request unserved": (
            ScalingRules(each, each, 20),
            [rate],
            {"n_instances": [n], "served_rps": [rate], "unserved_rps": [0]},
        )
        for rate, each, n in ((2.1, 0.7, 3), (4.35, 0.29, 15))
    },
}


@pytest.mark.parametrize("case", CASES)
def test_instances_serve_by_the_rules_of_their_scaling(case: str) -> None:
    rules, rate_rps, expected = CASES[case]
    served = serve_requests(
        minutes(len(rate_rps)), np.array(rate_rps, dtype=float), rules
    )
    assert {name: getattr(served, name).tolist() for name in expected} == expected
    assert not served.backlog_requests.any()


def test_backlog_of_one_node_follows_the_fluid_solution() -> None:
    # 150/s arrive for 10 minutes at a node that completes 100/s, then 50/s: the backlog
    # rises at 50/s to 30,000 requests and falls at 50/s, to empty after another 10
    # minutes.
    rate_rps = np.repeat([150.0, 50.0], [10, 20])
    served = serve_requests(
        minutes(30), rate_rps, ScalingRules(100, 100, 1, drain_s=60)
    )
    minute = np.arange(31)
    expected = np.maximum(0, np.minimum(minute, 20 - minute)) * 50 * 60
    found = np.interp(minutes(30), served.edges_ms, served.backlog_requests)
    assert found == pytest.approx(expected)
    # A request that arrives at t waits for the backlog of then, served at 100/s.
    edges_s = served.edges_ms / 1000
    wait_s = fifo_wait_s(edges_s, served.rate_rps, served.served_rps, 100)
    middle = (served.backlog_requests[:-1] + served.backlog_requests[1:]) / 2
    assert wait_s == pytest.approx(middle / 100)


def test_last_waiting_request_leaves_between_two_steps() -> None:
    served = serve_requests(
        np.array([0, 60_000, 600_000]),
        np.array([110.0, 50.0]),
        ScalingRules(100, 100, 1, drain_s=60),
    )
    # 600 requests wait after a minute; 50/s of them leave.
    assert served.edges_ms.tolist() == [0, 60_000, 72_000, 600_000]
    assert served.served_rps == pytest.approx([100, 100, 50])


def test_requests_that_wait_at_the_end_are_served_at_full_capacity() -> None:
    rate_rps = np.array([200.0])
    wait_s = fifo_wait_s(np.array([0, 60.0]), rate_rps, np.array([100.0]), 100)
    # The middle request is number 6,000; it leaves at 60 s, having come at 30 s.
    assert wait_s == pytest.approx([30])


def test_free_nodes_work_the_backlog_off() -> None:
    # Of 100/s one instance completes 40/s; the two that follow are up after 5 minutes.
    rules = ScalingRules(40, 40, n_max=10, startup_ms=5 * MINUTE_MS, drain_s=60)
    rate_rps = np.repeat([10.0, 100.0], [1, 60])
    served = serve_requests(minutes(61), rate_rps, rules)
    assert served.backlog_requests.max() >= 5 * 60 * 60
    assert served.backlog_requests[-1] == 0
    assert served.n_instances[-1] == 3


def test_decisions_are_taken_at_intervals_by_the_mean_since_the_last() -> None:
    rules = ScalingRules(100, 100, 9, interval_ms=120_000, phase_ms=60_000)
    rate_rps = np.array([100.0, 500.0, 300.0, 100.0, 100.0, 100.0])
    served = serve_requests(minutes(6), rate_rps, rules)
    # At 1 min by the mean of 100/s, at 3 min by that of 500 and 300/s, at 5 min by that
    # of 100/s.
    assert at(served.edges_ms, served.n_instances, minutes(5)).tolist() == [
        1,
        1,
        1,
        4,
        4,
        1,
    ]
    assert served.unserved_rps.sum() > 0
