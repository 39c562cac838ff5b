from __future__ import annotations

import numpy as np
import pytest

from diploee.loads.services.capacity import reserve_nodes, reserved_node_shares
from diploee.loads.services.timeline import whole_instances


def test_eq_7_reserves_67_and_218_of_the_papers_285_nodes() -> None:
    assert reserve_nodes(285, [0.381, 0.619], [1, 1], [100, 50]).tolist() == [67, 218]


def test_eq_7_shares_sum_to_one() -> None:
    shares = reserved_node_shares(
        np.array([0.2, 0.3, 0.5]), np.array([1, 4, 2]), np.array([10.0, 50.0, 5.0])
    )
    assert shares.sum() == pytest.approx(1)


def test_wide_instances_are_reserved_whole() -> None:
    # By shares 44.4 and 55.6 nodes; 4-node instances fit 44, and 56 for the other service.
    nodes = reserve_nodes(100, [0.5, 0.5], [4, 1], [50, 10])
    assert nodes.sum() == 100
    assert nodes[0] % 4 == 0


def test_nodes_too_few_for_any_instance_are_still_reserved() -> None:
    assert reserve_nodes(11, [0.5, 0.5], [4, 4], [1, 1]).sum() == 11


def test_service_without_requests_gets_no_nodes() -> None:
    assert reserve_nodes(10, [1.0, 0.0], [1, 1], [10, 10]).tolist() == [10, 0]


def test_whole_multiple_of_the_rate_needs_no_further_instance() -> None:
    k = np.arange(1, 500)
    for max_rate_rps in (0.1, 3.3, 49.9, 100.0):
        rates = np.array([sum([max_rate_rps] * int(n)) for n in k])
        assert [whole_instances(rate, max_rate_rps, 1000) for rate in rates] == k.tolist()


def test_instances_are_rounded_up_and_bounded_by_the_nodes() -> None:
    rates = np.array([0.0, 1e-9, 99.9, 100.1, 250.0, 1e300])
    assert [whole_instances(rate, 100, 3) for rate in rates] == [0, 1, 1, 2, 3, 3]
