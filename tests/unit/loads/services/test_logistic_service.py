"""A service by logistic curves: capacity from the deadline, power and latency from the
batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_builders import one_service, plan_of, serving_scenario

from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.integrations.openg2g import operating_points
from diploee.integrations.openg2g.operating_curves import serving_fits
from diploee.scenario import Scenario

LOGISTIC: dict[str, Any] = {
    "power_w": {"L": 868, "k": 0.884, "x0": 6.953, "b0": 1725},
    "itl_ms": {"L": 111.62, "k": 1.441, "x0": 9.018, "b0": 19.68},
    "throughput_tps": {"L": 8581, "k": 0.562, "x0": 7.209, "b0": -330.3},
    "smallest_batch": 8,
    "largest_batch": 1024,
    "other_node_power_w": 257,
}
WITHOUT = {"max_request_rate_rps": None, "power_curve": None, "latency_curve": None}
CAP = {"metric": "mean_itl", "limit_s": 0.05}


def scenario_of(changes: dict[str, Any] | None = None, **keys: Any) -> Scenario:
    service = one_service(
        **{**WITHOUT, "output_tokens": 350, "logistic": LOGISTIC, **keys}
    )
    rate = {"request_streams.chat.request_rate_rps": 60}
    return serving_scenario({**service, **rate, **(changes or {})})


def fits_of(scenario: Scenario) -> Any:
    model = scenario.request_streams["chat"].services["coding"].logistic
    assert model is not None
    return serving_fits(model)


def test_the_deadline_gives_the_highest_rate() -> None:
    scenario = scenario_of(latency_cap=CAP)
    capacity = plan_of(scenario).services[0].capacity
    batch = float(fits_of(scenario).itl.inverse(0.05))
    x = np.log2(batch)
    itl_ms = 19.68 + 111.62 / (1 + np.exp(-1.441 * (x - 9.018)))
    assert itl_ms == pytest.approx(50)
    tokens_per_s = -330.3 + 8581 / (1 + np.exp(-0.562 * (x - 7.209)))
    assert capacity.max_request_rate_rps == pytest.approx(tokens_per_s / 350, rel=1e-4)


def test_without_a_cap_an_instance_gives_all_it_can() -> None:
    capacity = plan_of(scenario_of()).services[0].capacity
    tokens_per_s = -330.3 + 8581 / (1 + np.exp(-0.562 * (10 - 7.209)))
    assert capacity.max_request_rate_rps == pytest.approx(tokens_per_s / 350, rel=1e-9)


def test_the_power_of_a_run_is_that_of_the_operating_points(tmp_path: Path) -> None:
    scenario = scenario_of(
        {"request_streams.chat.calendar": None, "resolution": "1 h"}, latency_cap=CAP
    )
    run = simulate(scenario, tmp_path / "run")
    plan = plan_of(scenario)
    n_instances = int(plan.services[0].served.n_instances[0])
    points = operating_points(fits_of(scenario), 60 / n_instances, 350)
    expected_w = n_instances * (float(points.power_w) + 257) + (12 - n_instances) * 400
    mean_w = run.facility()["it_power_w"].mean()
    # Straight lines between 20 rates
    assert mean_w == pytest.approx(expected_w, rel=2e-3)
    found = run.metrics["requests"]["services"]["coding"]
    assert found["latency_cap"]["mean_itl"]["mean_s"] == pytest.approx(
        float(points.itl_s), rel=1e-3
    )
    # By Little's law: sequences in the batch over the rate at which they leave it.
    stay_s = float(points.batch) / (60 / n_instances)
    assert found["latency_s"]["mean"] == pytest.approx(stay_s, rel=1e-3)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"power_curve": "llama3_70b_coding_power"},
            "one of 'power_curve', 'logistic', 'batch_power_model'",
        ),
        (
            {"latency_curve": "llama3_70b_coding_latency"},
            "can't go with 'latency_curve'",
        ),
        (
            {"latency_cap": {"metric": "p90_ttft", "limit_s": 1}},
            "gives the latencies 'mean_itl'",
        ),
        ({"latency_cap": {"metric": "mean_itl", "limit_s": 0.001}}, "can't be kept"),
        ({"logistic": {**LOGISTIC, "smallest_batch": 2_000}}, "is above largest_batch"),
        (
            {"logistic": {**LOGISTIC, "itl_ms": {"L": -5, "k": 1, "x0": 9, "b0": 20}}},
            "latency may not fall",
        ),
    ],
)
def test_a_logistic_service_that_can_not_be_is_one_line(
    keys: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as error:
        plan_of(scenario_of(**keys))
    assert "\n" not in str(error.value)


def test_a_replica_without_requests_draws_its_idle_power(tmp_path: Path) -> None:
    logistic = {**LOGISTIC, "idle_power_w": 600}
    quiet = {"request_streams.chat.request_rate_rps": 1e-6, "resolution": "1 h"}
    scenario = scenario_of(quiet, logistic=logistic, min_instances=2)
    mean_w = simulate(scenario, tmp_path / "run").facility()["it_power_w"].mean()
    assert mean_w == pytest.approx(2 * (600 + 257) + 10 * 400, rel=1e-3)


def test_a_rate_above_the_logistic_throughput_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"max_request_rate_rps 1000 lies above .* 19\.346"
    ):
        plan_of(scenario_of(max_request_rate_rps=1000))
