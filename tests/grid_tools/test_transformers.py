"""Our transformers against a power flow of pandapower's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diploee.facility import STAGES, Block
from diploee.facility.base import POWER, REACTIVE
from diploee.facility.transformers import PRESETS

# pandapower itself warns about changes of its dependencies to come.
pytestmark = [pytest.mark.grid_tools, pytest.mark.filterwarnings("default")]

pandapower: Any = pytest.importorskip("pandapower", reason="needs diploee[grid-test]")

UNITS: list[dict[str, Any]] = [
    {"preset": "mv_lv", "rated_mva": 16.0},
    {"preset": "hv_mv", "rated_mva": 20.0},
]
VOLTAGES_KV = [0.4, 20.0, 110.0]

# A site computed apart at its low-voltage bus: full load at 15 and 22 deg C, and part
# load.
LOADS = [(11.249e6, -0.460e6), (12.53e6, -0.075e6), (4.49e6, -0.576e6), (1e6, -0.6e6)]


@pytest.mark.parametrize(("power_w", "reactive_var"), LOADS)
def test_a_power_flow_through_the_same_transformers_finds_our_power(
    power_w: float, reactive_var: float
) -> None:
    """The source holds the low-voltage bus at its rated voltage, as our equations have
    it."""
    net = pandapower.create_empty_network()
    buses = [pandapower.create_bus(net, vn_kv=voltage_kv) for voltage_kv in VOLTAGES_KV]
    for unit, low, high in zip(UNITS, buses, buses[1:], strict=False):
        losses = PRESETS[unit["preset"]]
        pandapower.create_transformer_from_parameters(
            net,
            hv_bus=high,
            lv_bus=low,
            sn_mva=unit["rated_mva"],
            vn_hv_kv=net.bus.vn_kv[high],
            vn_lv_kv=net.bus.vn_kv[low],
            vkr_percent=100 * losses.p_k,
            vk_percent=100 * losses.u_k,
            pfe_kw=1e3 * losses.p0 * unit["rated_mva"],
            i0_percent=100 * losses.i0,
        )
    pandapower.create_load(
        net, bus=buses[0], p_mw=power_w / 1e6, q_mvar=reactive_var / 1e6
    )
    source = pandapower.create_ext_grid(net, bus=buses[-1], vm_pu=1.0)
    for _ in range(5):
        pandapower.runpp(net, trafo_model="t", tolerance_mva=1e-9)
        net.ext_grid.loc[source, "vm_pu"] += 1 - net.res_bus.vm_pu[buses[0]]
    columns = {POWER: np.array([power_w]), REACTIVE: np.array([reactive_var])}
    stage: Any = STAGES.read({"kind": "transformers", "units": UNITS})
    found, _ = stage.apply(Block(0, 1_000, columns), None)
    assert found[POWER][0] / 1e6 == pytest.approx(
        net.res_ext_grid.p_mw[source], rel=0.002
    )
    assert found[REACTIVE][0] / 1e6 == pytest.approx(
        net.res_ext_grid.q_mvar[source], rel=0.03
    )
