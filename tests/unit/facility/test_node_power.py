"""A node's AC input: golden values, measured nodes and supplies, and what no curve can
meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diploee.facility.loss_curves import MEASURED
from diploee.facility.node_power import AC_POWER, AcPowerSpec

# 4 x H100 and their hosts: rating and idle power of the devices
R, I = 3520.0, 420.0  # noqa: E741
DEVICE_W = np.array([420.0, 1000, 2000, 2490, 3520])
TITANIUM = {0.1: 0.924, 0.2: 0.951, 0.5: 0.959, 1.0: 0.946}
ORV3 = {0.1: 0.941, 0.2: 0.966, 0.5: 0.976, 1.0: 0.970}
IMMERSED = {2_400.0: 0.934, 2_900.0: 0.939, 7_300.0: 0.973}
"""Efficiency by AC power [W]: 8 x H100 node, MLPerf Training v4.0, both sides of its
supplies."""

SHARES = {
    "fixed_share": 0.1,
    "fan_share_min": 0.03,
    "fan_share_max": 0.1,
    "variable_share": 0.0,
}


def node(kind: str, **keys: Any) -> AcPowerSpec:
    return AC_POWER.read({"kind": kind, "network_w": 0.0, **keys})


def supply(efficiency: dict[float, float], kind: str = "points") -> dict[str, Any]:
    return {"kind": kind, "efficiency": efficiency}


@pytest.mark.parametrize(
    ("kind", "ac_w"),
    [
        # With the Titanium supply
        ("air_hgx", [1090.3, 1686.1, 2784.0, 3383.0, 4850.5]),
        ("dlc", [745.4, 1341.3, 2374.5, 2883.4, 3958.8]),  # with the power shelf
    ],
)
def test_a_node_draws_the_golden_power(kind: str, ac_w: list[float]) -> None:
    found_w = node(kind).ac_power_w(DEVICE_W, R, I)
    np.testing.assert_allclose(found_w, ac_w, rtol=1e-4)
    assert [node(kind).ac_power_w(w, R, I) for w in DEVICE_W.tolist()] == list(found_w)
    switches = AC_POWER.read(kind)
    np.testing.assert_allclose(
        switches.ac_power_w(DEVICE_W, R, I) - found_w, 60, rtol=1e-12
    )


def test_frontiers_node_draws_what_raps_says() -> None:
    found_w = node("raps_frontier").ac_power_w(
        np.array([442.0, 1000, 2000, 2520]), 2520, 442
    )
    np.testing.assert_allclose(found_w, [683.9, 1277.0, 2340.0, 2892.7], rtol=1e-4)


def test_air_cooled_servers_of_acme_are_met_within_a_tenth() -> None:
    gpus_w, hosts_w = np.array([480.0, 504, 3161]), np.array([190.0, 190, 360])
    # 8 x A100 of 400 W and two CPUs of 240 W
    found_w = node("air_hgx").ac_power_w(gpus_w + hosts_w, 8 * 400 + 2 * 240, 480 + 190)
    np.testing.assert_allclose(found_w, [1375, 1400, 4816], rtol=4e-4)
    np.testing.assert_allclose(found_w, [1421, 1512, 4851], rtol=0.10)


def test_eight_h100_draw_what_brookhaven_measured_within_a_tenth() -> None:
    found_w = node("air_hgx").ac_power_w(np.array([5500.0, 5900, 6300]), 6300, 780)
    np.testing.assert_allclose(found_w, [7468, 8059, 8681], rtol=1e-4)
    # Intensive training: 76 % of 10.2 kW
    assert found_w[0] == pytest.approx(7750, rel=0.10)
    assert found_w[-1] == pytest.approx(8400, rel=0.10)  # the highest


@pytest.mark.parametrize("kind", ["air_hgx", "dlc", "raps_frontier"])
def test_more_device_power_never_draws_less(kind: str) -> None:
    found_w = node(kind).ac_power_w(np.linspace(0, 1.2 * R, 500), R, I)
    assert (np.diff(found_w) > 0).all()
    assert (found_w > np.linspace(0, 1.2 * R, 500)).all()


@pytest.mark.parametrize(
    ("name", "efficiency"), [("titanium_typ", TITANIUM), ("orv3", ORV3)]
)
def test_a_preset_supply_has_the_sheets_efficiencies_and_so_has_its_fit(
    name: str, efficiency: dict[float, float]
) -> None:
    load = np.array([0.1, 0.2, 0.5, 1.0])
    for given in (name, supply(efficiency)):
        loss = node("dlc", supply=given).supply.curve(load)
        np.testing.assert_allclose(
            load / (load + loss), list(efficiency.values()), atol=6e-4
        )


def test_the_supplies_of_an_immersed_node_against_the_presets_and_as_points() -> None:
    """The shelf is 3 points too good at idle, right in training; the node's own points
    are met."""
    rated_w, idle_w = 8 * 700 + 2 * 300, 760.0
    dc_w = np.array([ac_w * efficiency for ac_w, efficiency in IMMERSED.items()])
    measured = np.array(list(IMMERSED.values()))
    shelf = node("dlc")
    installed_w = -shelf.reactive_power_var(rated_w, idle_w) / 0.026
    load = dc_w / installed_w

    def missed(given: Any) -> np.ndarray:
        loss = node("dlc", supply=given).supply.curve(load)
        return 100 * (load / (load + loss) - measured)

    np.testing.assert_allclose(missed("orv3"), [3.0, 2.9, 0.3], atol=0.15)
    np.testing.assert_allclose(missed("titanium_typ"), [1.4, 1.4, -1.6], atol=0.15)
    points = dict(zip(load.tolist(), measured.tolist(), strict=True))
    assert np.abs(missed(supply(points))).max() < 0.5
    assert np.abs(missed(supply(points, "table"))).max() < 1e-9


def test_a_table_runs_straight_through_its_points_and_ends_at_no_loss() -> None:
    curve = MEASURED.read(supply({0.2: 0.9, 0.4: 0.94, 0.8: 0.95}, "table")).curve
    at = np.array([0.2, 0.4, 0.8])
    loss = at * (1 / np.array([0.9, 0.94, 0.95]) - 1)
    np.testing.assert_allclose(curve(at), loss, rtol=1e-12)
    assert curve(0.3) == pytest.approx(loss[:2].mean())
    assert curve(0.0) == pytest.approx(2 * loss[0] - loss[1])  # along the first line
    assert curve(1.0) == pytest.approx(1.5 * loss[2] - 0.5 * loss[1])
    falls_to_none = MEASURED.read(supply({0.4: 0.99, 0.8: 0.95}, "table")).curve
    assert falls_to_none(0.0) == 0.0


@pytest.mark.parametrize("kind", ["points", "table"])
def test_the_kernel_is_the_curve(kind: str) -> None:
    curve = MEASURED.read(supply({0.1: 0.924, 0.3: 0.955, 1.0: 0.946}, kind)).curve
    power_w = np.random.default_rng(3).uniform(0, 1.3e6, 1_001)
    expected = 1e6 * curve(power_w / 1e6)
    assert curve.loss_w(power_w, 1e6).tobytes() == expected.tobytes()


def test_supplies_supply_reactive_power_by_their_installed_rating() -> None:
    air = node("air_hgx")
    installed_w = 1.8 * R * (1 + 0.13 + 0.19)
    assert air.reactive_power_var(R, I) == pytest.approx(-0.026 * installed_w)
    assert node("air_hgx", reactive_share=0.0).reactive_power_var(R, I) == 0
    # power factors computed apart at AC powers in parts of the supplies' rating
    load = np.array([0.1, 0.25, 0.5, 1.0])
    factor = load / np.hypot(load, air.reactive_power_var(R, I) / installed_w)
    np.testing.assert_allclose(factor, [0.968, 0.995, 0.999, 0.9997], atol=5e-4)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        # 80 PLUS Titanium are minima, not a curve
        (
            {"supply": supply({0.1: 0.90, 0.2: 0.94, 0.5: 0.96, 1.0: 0.91})},
            "misses 0.96 at load",
        ),
        ({"supply": supply({0.1: 0.9, 0.5: 0.0, 1.0: 0.95})}, "found 0 at load 0.5"),
        ({"supply": supply({0.0: 0.9, 0.5: 0.9, 1.0: 0.95})}, "at most 1, found 0"),
        ({"supply": supply({0.1: 0.5, 0.15: 0.99}, "table")}, "less is drawn for more"),
        ({"supply": supply({0.1: 0.9, 0.5: 0.9})}, "3 loads or more, found 2"),
        ({"supply": "titanium"}, "must be a kind of power supply"),
        ({"fan_share_max": 0.01}, "fan_share_max must be fan_share_min"),
    ],
)
def test_what_no_node_can_have_is_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        node("custom", **({**SHARES, "supply": "orv3", "supply_ratio": 1.8} | keys))
