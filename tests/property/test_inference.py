"""Conservation of requests and of energy, and monotone instance plans."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_builders import CODING, serving_scenario

from diploee.inference import (
    ScalingRules,
    instances_needed,
    load_curves,
    plan_services,
    reserve_nodes,
    serve_requests,
)
from diploee.power import power_blocks
from diploee.power.serving import serving_segments

rates = st.lists(st.floats(0, 1e4), min_size=1, max_size=60).map(np.array)


@given(
    rate_rps=rates,
    max_rate=st.floats(0.5, 200),
    completion=st.floats(0.5, 200),
    n_max=st.integers(1, 50),
    n_min=st.integers(0, 5),
    startup=st.integers(0, 5),
    cooldown=st.integers(0, 5),
    degrade=st.booleans(),
)
def test_requests_are_served_rejected_or_waiting(
    rate_rps: np.ndarray,
    max_rate: float,
    completion: float,
    n_max: int,
    n_min: int,
    startup: int,
    cooldown: int,
    degrade: bool,
) -> None:
    step_s = np.full(rate_rps.size, 60.0)
    step_s[-1] = 17.0
    rules = ScalingRules(max_rate, completion, n_max, n_min, startup, cooldown, degrade)
    served = serve_requests(rate_rps, step_s, rules)
    offered = rate_rps @ step_s
    found = served.served_rps @ step_s + served.unserved_rps @ step_s + served.backlog_requests[-1]
    assert found == pytest.approx(offered, rel=1e-9, abs=1e-9)
    assert (served.backlog_requests >= 0).all()
    assert (served.unserved_rps >= 0).all()
    assert (served.n_serving <= served.n_instances).all()
    assert (served.n_instances <= n_max).all()
    assert (served.served_rps <= served.n_serving * completion * (1 + 1e-12)).all()
    if degrade:
        assert not served.unserved_rps.any()
    else:
        assert not served.backlog_requests.any()


@given(rate_rps=rates, max_rate=st.floats(0.01, 1e3), n_max=st.integers(1, 1000))
def test_doubling_the_highest_rate_never_raises_the_instance_count(
    rate_rps: np.ndarray, max_rate: float, n_max: int
) -> None:
    once = instances_needed(rate_rps, max_rate, n_max)
    twice = instances_needed(rate_rps, 2 * max_rate, n_max)
    assert (twice <= once).all()


@given(
    rate_rps=rates,
    factor=st.floats(1, 5),
    startup=st.integers(0, 4),
    cooldown=st.integers(0, 4),
)
def test_more_requests_never_occupy_fewer_nodes(
    rate_rps: np.ndarray, factor: float, startup: int, cooldown: int
) -> None:
    step_s = np.full(rate_rps.size, 60.0)
    rules = ScalingRules(50, 50, 20, 0, startup, cooldown)
    few = serve_requests(rate_rps, step_s, rules).n_instances
    many = serve_requests(rate_rps * factor, step_s, rules).n_instances
    assert (many >= few).all()


services = st.lists(
    st.tuples(st.floats(0.01, 1), st.integers(1, 8), st.floats(0.1, 500)), min_size=1, max_size=6
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


@settings(deadline=None, max_examples=15)
@given(
    rate_rps=st.floats(5, 2000),
    overload=st.sampled_from(["reject", "degrade"]),
    standby=st.sampled_from(["idle", "warm"]),
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
        "request_streams.chat.minute_jitter_relative_std": 0.1,
        f"{CODING}.standby": standby,
        f"{CODING}.startup_s": 120,
    }

    def energy_j(resolution: str, block_intervals: int) -> float:
        scenario = serving_scenario({**changes, "resolution": resolution})
        curves = load_curves(scenario)
        load = serving_segments(plan_services(scenario, curves), curves, scenario)
        blocks = power_blocks(load.segments, scenario, load.library, block_intervals)
        return sum(float(b.it_power_w.sum()) * b.dt_ms / 1000 for b in blocks)

    assert energy_j(resolution, block_intervals) == pytest.approx(
        energy_j("60 s", 1 << 18), rel=1e-10
    )
