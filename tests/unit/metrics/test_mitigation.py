"""A battery sized by limits: the run keeps them with it, and not with a tenth less."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from command_line import call

import diploee
from diploee.errors import InputError
from diploee.facility.battery import Store, hold
from diploee.metrics.limits import Limits
from diploee.metrics.limits.mitigation import FEEDBACK_PER_S, MARGIN, ROUND_TRIP, mitigate
from diploee.outputs import Run

RAMP = {"interval": "1 min", "between": "end_points", "mw_per_min": 0.0005}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    scenario = tiny_scenario({"duration": "12 h", "resolution": "10 s"})
    return diploee.simulate(scenario, folder, library=tiny_library(), engine="compiled")


def test_the_run_keeps_its_limits_with_the_battery_and_not_with_a_tenth_less(run: Run) -> None:
    found = mitigate(run, Limits.model_validate({"ramps": [RAMP]}))
    assert found.before.verdict == "violated"
    assert not found.after.violated
    power_w = run.facility()["facility_power_w"].to_numpy(dtype=np.float64)
    one_way = ROUND_TRIP**0.5
    for share, kept in ((1.0, True), (0.9, False)):
        energy_j = share * found.size.energy_j
        store = Store(
            found.size.power_w, 0.0, energy_j, energy_j / 2, one_way, one_way, FEEDBACK_PER_S
        )
        held = hold(power_w, 10.0, store, found.asked, (power_w[0], energy_j / 2))
        rate_w_per_min = np.abs(np.diff(held.supply_w)).max() * 6
        assert (rate_w_per_min <= found.asked.up_w_per_s * 60 * (1 + MARGIN)) == kept


def test_no_control_does_with_more_than_the_stage(run: Run) -> None:
    found = mitigate(run, Limits.model_validate({"ramps": [RAMP]}))
    assert found.least is not None
    assert found.least.energy_j <= found.size.energy_j * (1 + 1e-6)
    assert found.least.power_w <= found.size.power_w * (1 + 1e-6)


def test_swing_within_a_window_asks_for_its_ramp(run: Run) -> None:
    found = mitigate(run, Limits.model_validate({"swings": [{"window": "30 s", "max_mw": 0.001}]}))
    assert found.asked.up_w_per_s >= 1_000 / 30 * (1 - 2 * MARGIN)
    assert not found.after.violated
    (swing,) = found.after.results
    assert swing.value >= 0.9 * 0.001  # no smaller ramp than it takes


def test_run_within_its_limits_needs_none(run: Run) -> None:
    wide = {"interval": "1 min", "mw_per_min": 50}
    found = mitigate(run, Limits.model_validate({"ramps": [wide]}))
    assert (found.size.power_w, found.size.energy_j, found.full_cycles) == (0, 0, 0)


def test_limits_without_ramps_are_refused(run: Run) -> None:
    with pytest.raises(InputError, match="nothing to size a battery for"):
        mitigate(run, Limits.model_validate({"daily_energy_mwh": 5}))


def test_command_tells_before_and_after(run: Run, tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("ramps: [{interval: 1 min, between: end_points, mw_per_min: 0.0005}]\n")
    told = call("battery", limits, run.folder)
    assert told.code == 0
    assert told.out.startswith("before: VIOLATED")
    found = json.loads(call("battery", limits, run.folder, "--json").out)
    assert found["energy_mwh"] > found["least_energy_mwh"] > 0
    assert found["after"]["verdict"] != "violated"
    assert "rainflow cycles of its state of charge: " in told.out
    # One way loses 5 %, so that the store goes through about as much as is given and taken.
    assert found["cycled_depth"] == pytest.approx(found["full_cycles"], rel=0.06)
