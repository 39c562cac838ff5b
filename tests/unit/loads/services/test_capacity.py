from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from serving_builders import CODING, plan_of, serving_scenario

from diploee.base.errors import WorkloadError
from diploee.importers.serving.service_curves import load_latency_curve
from diploee.loads.services.capacity import max_request_rate_rps, reserve_nodes
from diploee.loads.services.curves import LatencyCurve
from diploee.loads.services.served_requests import whole_instances


def curve(
    service: str, output_tokens: int = 512, metric: str = "mean_e2e"
) -> LatencyCurve:
    found, _ = load_latency_curve(
        f"llama3_70b_{service}_latency",
        Path(),
        metric,
        output_tokens,  # type: ignore[arg-type]
    )
    return found


@pytest.mark.parametrize(
    ("service", "output_tokens", "expected_rps"),
    [
        ("conversation", 256, 60.4),
        ("coding", 1024, 100.7),
    ],
)
def test_ten_seconds_mean_latency_gives_the_rates_of_linear_interpolation(
    service: str, output_tokens: int, expected_rps: float
) -> None:
    measured = curve(service, output_tokens)
    linear_rps = np.interp(10, measured.latency_s, measured.rate_rps)
    assert linear_rps == pytest.approx(expected_rps, rel=0.02)
    assert max_request_rate_rps(measured, 10) == pytest.approx(linear_rps, rel=0.1)


@pytest.mark.parametrize("metric", ["mean_e2e", "p90_e2e", "mean_itl"])
def test_latency_at_the_capped_rate_is_the_cap(metric: str) -> None:
    of_metric = curve("conversation", metric=metric)
    limit_s = float(of_metric.latency_s[3] + of_metric.latency_s[4]) / 2
    rate_rps = max_request_rate_rps(of_metric, limit_s)
    assert of_metric.rate_rps[3] < rate_rps < of_metric.rate_rps[4]
    assert float(of_metric.at(np.array(rate_rps))) == pytest.approx(limit_s, rel=1e-9)


def test_falling_latency_is_raised_to_the_running_maximum_and_the_rise_reported() -> (
    None
):
    rates = np.array([1.0, 2.0, 3.0, 4.0])
    dented = LatencyCurve("mean_e2e", rates, np.array([1.0, 3.0, 2.5, 4.0]), rates)
    assert dented.latency_s.tolist() == [1, 3, 3, 4]
    assert dented.largest_correction_s == 0.5
    assert max_request_rate_rps(dented, 3.0) == 3.0


def test_cap_below_all_latencies_is_refused_with_the_lowest_that_can_be_met() -> None:
    scenario = serving_scenario(
        {
            f"{CODING}.max_request_rate_rps": None,
            f"{CODING}.latency_cap": {"limit_s": 2},
        }
    )
    with pytest.raises(WorkloadError) as error:
        plan_of(scenario)
    text = str(error.value)
    assert text.startswith(
        f"{CODING}.latency_cap: a mean_e2e latency of 2 s can't be kept"
    )
    assert "3.7414 s" in text


def test_refused_cap_names_what_the_running_maximum_lets_be_met() -> None:
    rates = np.array([1.0, 2.0, 3.0, 4.0])
    dented = LatencyCurve("mean_e2e", rates, np.array([12.0, 10.0, 11.0, 20.0]), rates)
    with pytest.raises(WorkloadError) as error:
        max_request_rate_rps(dented, 10.5)
    text = str(error.value)
    assert "the lowest that can be met is 12 s, at 3 requests/s" in text
    assert "measured were down to 10 s" in text
    assert "a running maximum raised them" in text
    assert max_request_rate_rps(dented, 12) == 3


def test_cap_above_all_latencies_gives_the_highest_measured_rate_with_a_warning() -> (
    None
):
    scenario = serving_scenario(
        {
            f"{CODING}.max_request_rate_rps": None,
            f"{CODING}.latency_cap": {"limit_s": 60},
            f"{CODING}.reserved_nodes": 4,
        }
    )
    plan = plan_of(scenario)
    assert plan.services[0].capacity.max_request_rate_rps == 1000
    assert any(
        "60 s lies above all measured latencies" in text for text in plan.warnings
    )


def test_sustained_reading_lowers_the_rate_to_the_measured_throughput() -> None:
    scenario = serving_scenario({"request_streams.chat.capacity": "sustained"})
    plan = plan_of(scenario)
    rates = [service.capacity.max_request_rate_rps for service in plan.services]
    assert rates == pytest.approx([40.7625, 34.1822])


def test_eq_7_reserves_67_and_218_of_the_papers_285_nodes() -> None:
    assert reserve_nodes(285, [0.381, 0.619], [1, 1], [100, 50]).tolist() == [67, 218]


def test_wide_instances_are_reserved_whole() -> None:
    # By shares 44.4 and 55.6 nodes; 4-node instances fit 44, and 56 for the other
    # service.
    nodes = reserve_nodes(100, [0.5, 0.5], [4, 1], [50, 10])
    assert nodes.sum() == 100
    assert nodes[0] % 4 == 0


def test_whole_multiple_of_the_rate_needs_no_further_instance() -> None:
    k = np.arange(1, 500)
    for max_rate_rps in (0.1, 3.3, 49.9, 100.0):
        rates = np.array([sum([max_rate_rps] * int(n)) for n in k])
        assert [
            whole_instances(rate, max_rate_rps, 1000) for rate in rates
        ] == k.tolist()


def test_instances_are_rounded_up_and_bounded_by_the_nodes() -> None:
    rates = np.array([0.0, 1e-9, 99.9, 100.1, 250.0, 1e300])
    assert [whole_instances(rate, 100, 3) for rate in rates] == [0, 1, 1, 2, 3, 3]
