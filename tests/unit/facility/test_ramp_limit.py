"""A ramp limit without storage: what a ballast burns on falls, and what it can't do on
rises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import tiny_run

from diploee.facility import Block
from diploee.facility.base import Stages
from diploee.facility.ramp_limit import RampLimitSpec

MW = 1e6
FALL = np.where(np.arange(1_800) < 300, 100 * MW, 0.0)
RISE = FALL[::-1].copy()


def held(
    spec: RampLimitSpec, load_w: np.ndarray, dt_ms: int = 1_000
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return the columns and metrics of a load."""
    meter = spec.meter()
    given = Block(0, dt_ms, {"facility_power_w": load_w})
    (block,) = Stages([spec]).pass_blocks(iter([given]))
    meter.add(block)
    values = meter.values().items()
    return block.columns, {k.removeprefix("ramp_limit."): v for k, v in values}


def test_ballast_burns_half_the_square_of_a_fall_over_the_ramp() -> None:
    # 100 MW at 10 MW/min: E = dP^2 / 2 r = 8.33 MWh less half a step, and dP less a
    # step.
    columns, told = held(RampLimitSpec(down_mw_per_min=10), FALL)
    step_mw = 10 / 60
    assert told["burnt_mwh"] == pytest.approx(
        100 * (100 / step_mw - 1) / 2 / 3600, rel=1e-9
    )
    assert told["max_ballast_mw"] == pytest.approx(100 - step_mw)
    assert told["uncovered_steps"] == 0
    falls_w = np.diff(columns["facility_power_w"])
    assert falls_w.min() == pytest.approx(-step_mw * MW)
    # Its cost is all that it adds.
    np.testing.assert_array_equal(
        columns["facility_power_w"] - FALL, columns["ballast_power_w"]
    )


def test_ballast_that_is_too_small_leaves_the_rest_as_one_step() -> None:
    columns, told = held(RampLimitSpec(down_mw_per_min=10, ballast_mw=30), FALL)
    step_mw = 10 / 60
    assert told["max_ballast_mw"] == 30
    assert told["uncovered_steps"] == 1
    # 100 MW fall at once; 30 MW are held, one step is allowed.
    assert told["max_uncovered_mw"] == pytest.approx(70 - step_mw)
    assert told["burnt_mwh"] == pytest.approx(
        30 * (30 / step_mw + 1) / 2 / 3600, rel=1e-9
    )
    assert columns["facility_power_w"][300] == 30 * MW


def test_rise_passes_and_is_counted() -> None:
    columns, told = held(RampLimitSpec(up_mw_per_min=10), RISE)
    np.testing.assert_array_equal(columns["facility_power_w"], RISE)
    assert told["uncovered_steps"] == 1
    assert told["max_uncovered_mw"] == pytest.approx(100 - 10 / 60)
    assert told["uncovered_mwh"] == pytest.approx((100 - 10 / 60) / 3600)
    assert told["burnt_mwh"] == told["curtailed_mwh"] == 0


def test_rise_is_held_back_where_the_load_can_be_curtailed() -> None:
    columns, told = held(RampLimitSpec(up_mw_per_min=20, curtails=True), RISE)
    step_mw = 20 / 60
    # 300 s at 20 MW/min end the rise just as the run ends: the whole triangle.
    lost_mwh = 100 * (100 / step_mw - 1) / 2 / 3600
    assert told["curtailed_mwh"] == pytest.approx(lost_mwh, rel=1e-9)
    assert told["max_curtailed_mw"] == pytest.approx(100 - step_mw)
    assert told["uncovered_steps"] == 0
    np.testing.assert_allclose(np.diff(columns["facility_power_w"]).max(), step_mw * MW)


def test_square_wave_that_falls_slower_than_its_trough_never_reaches_it() -> None:
    # High 10 MW for 6 s, low 4 MW for 4 s, 0.5 MW/s down: each trough burns the rest of
    # 0.5, 1.0, 1.5, 2.0 MW below the top, (6 - 1.25) MW on average of its seconds.
    load_w = np.tile(np.repeat([10.0, 4.0], [6, 4]), 60) * MW
    columns, told = held(RampLimitSpec(down_mw_per_min=30), load_w)
    assert told["burnt_mwh"] == pytest.approx(60 * (5.5 + 5 + 4.5 + 4) / 3600)
    assert columns["facility_power_w"].min() == 8 * MW


def test_energy_balances_and_parts_never_act_together() -> None:
    load_w = 8 * MW + 3 * MW * np.random.default_rng(5).standard_normal(5_000)
    spec = RampLimitSpec(
        up_mw_per_min=40, down_mw_per_min=60, ballast_mw=2, curtails=True
    )
    columns, _ = held(spec, load_w)
    ballast_w, curtailed_w = columns["ballast_power_w"], columns["curtailed_power_w"]
    held_w = load_w + ballast_w - curtailed_w
    np.testing.assert_allclose(columns["facility_power_w"], held_w, rtol=0, atol=0.02)
    assert not (ballast_w * curtailed_w).any()
    assert ballast_w.max() == 2 * MW
    assert curtailed_w.max() > 2 * MW


def test_ramps_without_limit_leave_the_run_as_it_is(tmp_path: Path) -> None:
    ramps = {"up_mw_per_min": 1e9, "down_mw_per_min": 1e9}
    limit = {"kind": "ramp_limit", "curtails": True, **ramps}
    size = {"power_mw": 1.0, "energy_mwh": 1.0}
    battery = {"kind": "battery", "ramp_limit": ramps, **size}
    power = []
    for name, stages in (("plain", []), ("battery", [battery]), ("limit", [limit])):
        run = tiny_run(tmp_path / name, {"facility.stages": stages})
        power.append(run.facility()["facility_power_w"].to_numpy().tobytes())
    assert power[0] == power[1] == power[2]
    assert set(run.metrics["ramp_limit"].values()) == {0}
