"""Latency of services: end to end with the wait, whatever latency is capped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from serving_builders import one_service, plan_of, serving_scenario, write_serving

from diploee.base.metric import flatten
from diploee.importers.serving.service_curves import load_latency_curve
from diploee.loads.services.load import service_columns
from diploee.loads.services.metrics import request_metrics
from diploee.metrics.catalogue import declared_metrics
from diploee.scenario import load_scenario
from diploee.scenario.serving import LatencyMetric

CURVE = Path("profiles/curves/llama3_70b_coding_latency.csv")
OVERLOADED = {
    "duration": "1 h",
    "request_streams.chat.calendar": None,
    "request_streams.chat.overload": "queue",
    "request_streams.chat.request_rate_rps": 120,
}


def metrics_of(
    cap: dict[str, Any] | None, tmp_path: Path | None = None, **keys: Any
) -> Any:
    """Return the metrics of one service on one node that gets twice what it completes."""  # noqa: E501
    capacity = {"max_request_rate_rps": 60} if cap is None else {"latency_cap": cap}
    service = one_service(
        **{"max_request_rate_rps": None, "reserved_nodes": 1, **capacity, **keys}
    )
    changes = {**service, **OVERLOADED}
    scenario = serving_scenario(changes)
    if tmp_path is not None:
        scenario = load_scenario(write_serving(tmp_path / "s.yaml", changes))
    plan = plan_of(scenario)
    return request_metrics([plan])["services"]["coding"], plan.services[0].capacity


def measured(column: str, rate_rps: float) -> float:
    """Return a latency of the shipped table on the lines between its rows."""
    table = pd.read_csv(CURVE, comment="#").query("max_output_tokens == 512")
    return float(np.interp(rate_rps, table["request_rate_rps"], table[column].cummax()))


@pytest.mark.parametrize("metric", get_args(LatencyMetric))
def test_end_to_end_latency_is_the_same_whatever_latency_is_capped(
    metric: LatencyMetric,
) -> None:
    uncapped, _ = metrics_of(None)
    curve, _ = load_latency_curve("llama3_70b_coding_latency", Path(), metric)
    limit_s = float(curve.at(np.array(60.0)))
    found, _ = metrics_of({"metric": metric, "limit_s": limit_s})
    for key, value in flatten(
        {k: v for k, v in uncapped.items() if k != "latency_cap"}
    ):
        if key != "hours_over_latency_limit":
            assert dict(flatten(found))[key] == pytest.approx(value, rel=1e-5), key
    (of_cap,) = found["latency_cap"].items()
    assert of_cap[0] == metric
    assert of_cap[1]["limit_s"] == limit_s


def test_mean_and_percentiles_hold_the_wait_of_a_queue() -> None:
    found, capacity = metrics_of({"metric": "mean_itl", "limit_s": 0.0275})
    # A fluid, 120/s in and what the instance completes out: the request of time t waits
    # t (120 / out - 1), the last one of the hour included.
    out_rps = capacity.completion_rate_rps
    wait_s = 3_600 / 2 * (120 / out_rps - 1)
    mean_s = measured("mean_e2e_latency_s", out_rps)
    assert found["latency_s"]["mean"] == pytest.approx(wait_s + mean_s, rel=1e-3)
    assert found["latency_s"]["p50"] == pytest.approx(wait_s + mean_s, rel=0.01)
    assert found["latency_s"]["p90"] == pytest.approx(1.8 * wait_s + mean_s, rel=0.01)
    assert found["latency_cap"]["mean_itl"]["max_s"] < 0.03


def test_mean_under_a_cap_of_a_percentile_is_the_mean() -> None:
    steady = {"request_streams.chat.overload": "reject"}
    cap = {"metric": "p90_e2e", "limit_s": 11.85}
    service = one_service(max_request_rate_rps=None, reserved_nodes=1, latency_cap=cap)
    plan = plan_of(serving_scenario({**service, **OVERLOADED, **steady}))
    found = request_metrics([plan])["services"]["coding"]
    rate_rps = plan.services[0].capacity.max_request_rate_rps
    expected_s = measured("mean_e2e_latency_s", rate_rps)
    assert found["latency_s"]["mean"] == pytest.approx(expected_s, rel=0.01)
    assert found["latency_cap"]["p90_e2e"]["mean_s"] == pytest.approx(11.85, rel=1e-6)


def test_latency_that_a_curve_lacks_is_null_with_the_reason(tmp_path: Path) -> None:
    rows = (
        "request_rate_rps,request_throughput_rps,p90_ttft_s\n1,1,.1\n50,40,.5\n"
        "99,41,.9\n"
    )
    (tmp_path / "ttft.csv").write_text(rows, "utf-8")
    cap = {"metric": "p90_ttft", "limit_s": 0.6}
    found, _ = metrics_of(cap, tmp_path, latency_curve="ttft.csv")
    absent = {of["name"]: of["reason"] for of in found["latency_s"].pop("absent")}
    assert found["latency_s"] == dict.fromkeys(("mean", "p50", "p90", "max_mean"))
    assert absent["mean"] == "the latency curve has no mean_e2e_latency_s"
    assert (
        absent["p90"]
        == "the latency curve has no p50_e2e_latency_s and no p90_e2e_latency_s"
    )
    # The wait delays it as well
    assert found["latency_cap"]["p90_ttft"]["mean_s"] > 3_600 * 0.3
    plan = plan_of(serving_scenario(one_service(latency_curve=None)))
    without = request_metrics([plan])["services"]["coding"]["latency_s"]["absent"]
    reasons = {of["reason"] for of in without}
    assert reasons == {"the service has no latency curve"}


def test_labels_of_latency_name_the_latency_that_is_shown() -> None:
    of_services = [m for m in declared_metrics() if ".latency_s." in m.key]
    assert len(of_services) == 4
    assert all("end-to-end" in metric.label for metric in of_services)


def test_columns_of_a_time_are_those_of_the_whole_whether_requests_wait_then() -> None:
    keys = {
        **one_service(reserved_nodes=1),
        "request_streams.chat.overload": "queue",
        "request_streams.chat.request_rate_rps": 30,
        "duration": "1 day",
    }
    plan = plan_of(serving_scenario(keys))
    whole = service_columns([plan], 0, 60_000, 1440)
    waiting = whole["backlog_requests.coding"]
    assert 0 < (waiting > 0).mean() < 1
    for first in range(0, 1440, 60):
        part = service_columns([plan], first * 60_000, 60_000, 60)
        assert list(part) == list(whole)
        for name, values in part.items():
            np.testing.assert_array_equal(values, whole[name][first : first + 60])
