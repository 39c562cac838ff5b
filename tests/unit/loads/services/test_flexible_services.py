"""Services answer events: capped GPUs, and more instances or what overload says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_builders import (
    load_curves,
    one_service,
    plan_of,
    serving_data,
    serving_scenario,
)

import diploee
from diploee import Run
from diploee.base.units import MS_PER_H
from diploee.loads.services.instance_groups import cpu_power_w
from diploee.loads.services.service_plan import PlannedService
from diploee.scenario import scenario_from_dict

CHAT = "request_streams.chat"
# Inference at 300 of 400 W, as diploee.profiles.derived has it
CAP, SPEED, POWER = 0.75, 0.931, 0.784
EVENT = {
    "id": "event",
    "issued": "2018-01-01 09:00",
    "start": "2018-01-01 12:00",
    "end": "2018-01-01 15:00",
    "ramp_down": "0 s",
    "ramp_up": "0 s",
    "target": {"fraction": 0.99},
}
FLAT = {f"{CHAT}.calendar": None, f"{CHAT}.fluctuation": None}


def flexible(rate_rps: float, **changes: Any) -> dict[str, Any]:
    """Return a steady rate to a service of 100 requests/s an instance that answers an
    event."""
    service = one_service(flexibility={"power_limit": CAP})
    return {
        **FLAT,
        **service,
        f"{CHAT}.request_rate_rps": rate_rps,
        "flexibility.events": [EVENT],
        **changes,
    }


def planned(changes: dict[str, Any], answering: bool = True) -> PlannedService:
    scenario = serving_scenario(changes)
    plan = plan_of(scenario, answering=answering)
    return plan.services[0]


def at(service: PlannedService, hour: float, values: np.ndarray) -> float:
    edges_ms = service.served.edges_ms
    return float(values[np.searchsorted(edges_ms, hour * MS_PER_H, side="right") - 1])


def run_of(folder: Path, changes: dict[str, Any]) -> Run:
    return diploee.run(scenario_from_dict(serving_data(changes)), folder)


def test_capped_instances_do_less_and_more_of_them_run() -> None:
    service = planned(flexible(470))
    n_instances = service.served.n_instances
    assert [at(service, hour, n_instances) for hour in (11.9, 12, 14.9, 15)] == [
        5,
        6,
        6,
        5,
    ]
    assert 5 * 100 * SPEED < 470 < 500
    assert not service.served.unserved_rps.any()
    assert at(service, 13, service.uncapped_rate_rps) == pytest.approx(470 / 6 / SPEED)
    # As slow as an uncapped one that is as busy, and slower by what it does less.
    curve = load_curves(serving_scenario(flexible(470)))["chat", "coding"].latency
    assert curve is not None
    expected_s = float(curve.at(np.array(470 / 6 / SPEED))) / SPEED
    assert at(service, 13, service.latencies_s["mean_e2e"]) == pytest.approx(expected_s)


def test_instances_start_where_the_rate_crosses_what_capped_ones_take() -> None:
    rising = {"hour_of_day": list(range(1, 25))}
    service = planned(flexible(400, **{f"{CHAT}.calendar": rising}))
    served, starts_ms = service.served, service.served.edges_ms[:-1]
    capped = service.capped
    expected = np.ceil(served.rate_rps / np.where(capped, 100 * SPEED, 100) - 1e-3)
    middle = (
        np.abs(served.rate_rps / np.where(capped, 100 * SPEED, 100) % 1 - 0.5) < 0.45
    )
    assert capped.any() and set(starts_ms[capped] // MS_PER_H) == {12, 13, 14}
    np.testing.assert_array_equal(
        served.n_instances[middle], np.minimum(expected, 12)[middle]
    )


@pytest.mark.parametrize("overload", ["queue", "reject"])
def test_what_is_beyond_all_instances_goes_the_way_of_overload(overload: str) -> None:
    asked = {f"{CHAT}.overload": overload}
    each_rps = planned(flexible(10, **asked)).capacity.completion_rate_rps
    service = planned(flexible(0.98 * 12 * each_rps, **asked))
    served, seconds = service.served, service.served.step_s
    beyond = 12 * each_rps * (0.98 - SPEED) * 3 * 3600
    lost, waiting = float(served.unserved_rps @ seconds), served.backlog_requests.max()
    assert (lost, waiting) == pytest.approx(
        (0, beyond) if overload == "queue" else (beyond, 0)
    )
    done = float(served.served_rps @ seconds) + lost + served.backlog_requests[-1]
    assert float(served.rate_rps @ seconds) == pytest.approx(done)
    if overload == "queue":  # what waited is served by what all instances have left
        left_h = beyond / (12 * each_rps * 0.02) / 3600
        assert served.backlog_requests[-1] == pytest.approx(
            max(0, beyond * (1 - 9 / left_h))
        )


def test_the_run_draws_less_in_the_event_and_is_its_twin_before(tmp_path: Path) -> None:
    changes = flexible(470)
    run = run_of(tmp_path / "run", changes)
    frame = run.facility()
    own, twin = (
        frame["facility_power_w"].to_numpy(),
        frame["baseline_power_w"].to_numpy(),
    )
    plain = run_of(
        tmp_path / "plain", {**changes, "flexibility.controller": "off"}
    ).facility()
    np.testing.assert_array_equal(twin, plain["facility_power_w"])
    event = slice(12 * 60, 15 * 60)
    np.testing.assert_array_equal(own[: event.start], twin[: event.start])

    scenario = serving_scenario(changes)
    node = scenario.facility.node_type_of("main")
    curve = load_curves(scenario)["chat", "coding"].power

    def node_w(rate_rps: float) -> float:
        return float(np.interp(rate_rps, curve.rate_rps, curve.mean_power_w))

    cpus_w = cpu_power_w(node)
    capped_w = cpus_w + (node_w(470 / 6 / SPEED) - cpus_w) * POWER
    expected_w = 6 * capped_w + 6 * node.idle_power_w
    assert own[event].mean() == pytest.approx(expected_w, rel=0.01)
    assert twin[event].mean() == pytest.approx(
        5 * node_w(94) + 7 * node.idle_power_w, rel=0.01
    )
    assert frame["n_instances.coding"].to_numpy()[event].tolist() == [6] * 180


@pytest.mark.slow
def test_an_event_later_in_the_run_changes_nothing_before_it(tmp_path: Path) -> None:
    calendar = {"hour_of_day": [1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9] * 2}
    wavy = {f"{CHAT}.calendar": calendar, f"{CHAT}.fluctuation": {"relative_std": 0.06}}
    late = {**EVENT, "start": "2018-01-01 13:30"}
    first, second = (
        run_of(
            tmp_path / name, flexible(400, **wavy, **{"flexibility.events": [event]})
        )
        for name, event in (("first", EVENT), ("second", late))
    )
    one, other = (
        run.facility()["facility_power_w"].to_numpy() for run in (first, second)
    )
    # The event cuts the piece of the rate in which it starts, and a piece draws its
    # mean power.
    whole = 12 * 60 - 1
    np.testing.assert_array_equal(one[:whole], other[:whole])
    assert one[whole] == pytest.approx(other[whole], rel=0.005)
    assert (one[12 * 60 : 13 * 60] != other[12 * 60 : 13 * 60]).all()
