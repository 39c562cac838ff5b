"""Profiles made of others: under a cap, and with the power of GPUs smoothed."""

from __future__ import annotations

import numpy as np
import pytest
from builders import profile, tiny_scenario, wavy_profile

from diploee.profiles.derived import MEASURED, CapLevels, CappedProfile, cpu_power_w
from diploee.profiles.gpu_power_smoothing import _smooth, smooth_profile, smooth_series
from diploee.scenario.job_streams import PowerSmoothing

NODE = tiny_scenario().facility.node_types["node"]
LEVELS = CapLevels()


@pytest.mark.parametrize(
    ("kind", "speed", "power"),
    [
        ("pre_training", 0.629, 0.515),
        ("fine_tuning", 0.796, 0.568),
        ("inference", 0.781, 0.529),
    ],
)
def test_half_of_the_tdp_is_the_measured_cap_of_200_w(
    kind: str, speed: float, power: float
) -> None:
    assert LEVELS.caps[-1] == 0.5
    assert (LEVELS.speed(kind, 4), LEVELS.power(kind, 4)) == (speed, power)  # type: ignore[arg-type]
    assert (LEVELS.speed(kind, 0), LEVELS.power(kind, 0)) == (1, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", MEASURED)
def test_energy_per_work_falls_with_the_cap_and_is_above_one_below_half_of_the_tdp(
    kind: str,
) -> None:
    throughput, power = MEASURED[kind]  # type: ignore[index]
    per_work = np.array(power) / np.array(throughput)
    assert per_work[0] > 1.15
    assert (per_work[1:-1] < 1).all()


def test_between_two_caps_power_and_speed_are_interpolated() -> None:
    halfway = CapLevels((1.0, 0.9375))
    assert halfway.power("fine_tuning", 1) == pytest.approx((0.926 + 1) / 2)
    assert halfway.speed("fine_tuning", 1) == pytest.approx((0.974 + 1) / 2)


@pytest.mark.parametrize("kind", MEASURED)
@pytest.mark.parametrize("level", [1, 4])
def test_the_energy_of_the_gpus_is_power_over_speed_of_what_it_was(
    kind: str, level: int
) -> None:
    base = wavy_profile("tune-2n-1", 2, 1_800, seed=1)
    speed, power = LEVELS.speed(kind, level), LEVELS.power(kind, level)  # type: ignore[arg-type]
    capped = CappedProfile(base, NODE, speed, power)
    cpu_w = cpu_power_w(NODE) * base.n_nodes
    assert (base.power_w > cpu_w).all()
    gpu_j = base.energy_j - cpu_w * base.duration_ms / 1_000
    capped_j = capped.profile.energy_j - cpu_w * capped.duration_ms / 1_000
    assert capped_j / gpu_j == pytest.approx(power / speed, rel=1e-3)
    assert capped.duration_ms == capped.profile.duration_ms
    assert capped.duration_ms == pytest.approx(base.duration_ms / speed, abs=base.dt_ms)


def test_a_node_without_ratings_has_no_cpu_power() -> None:
    bare = NODE.model_copy(update={"n_gpus": 0, "n_cpus": 0})
    assert cpu_power_w(bare) == 0


def test_a_capped_profile_says_that_it_is_no_measurement() -> None:
    capped = CappedProfile(profile("tune-1n-1", [900, 1_000]), NODE, 0.8, 0.6)
    assert capped.provenance.kind == "reference"
    assert "A100" in capped.provenance.notes
    assert capped.profile.profile_id == capped.profile_id != "tune-1n-1"


HIGH, LOW, DUTY, DT_S = 1.0, 0.35, 0.8, 0.1
AT_ONCE = 1e9


def wave(periods: int = 400) -> np.ndarray:
    """A square wave: 1 for 8 s, 0.35 for 2 s."""
    one = np.where(np.arange(100) < 100 * DUTY, HIGH, LOW)
    return np.tile(one, periods)


def course(
    own: np.ndarray, floor: float = 0.0, down: float = AT_ONCE, hold_s: float = 0.0
) -> np.ndarray:
    drawn = np.empty(4 * own.size)
    count, _ = _smooth(own, DT_S, floor, AT_ONCE, down, hold_s, 0.0, drawn)
    return drawn[:count]


def test_no_floor_and_ramps_without_limit_change_no_byte() -> None:
    for own in (wave(20), np.random.default_rng(1).uniform(0.1, 1, 5_000)):
        drawn = course(own)
        assert drawn[: own.size].tobytes() == own.tobytes()
        assert drawn.size <= own.size + 1, "nothing is left to ramp down"


@pytest.mark.parametrize(("hold_s", "more"), [(1.0, 0.0747), (2.0, 0.1494)])
def test_hysteresis_burns_the_time_that_it_holds(hold_s: float, more: float) -> None:
    drawn = course(wave(), hold_s=hold_s)[: wave().size]
    assert drawn.sum() / wave().sum() - 1 == pytest.approx(more, abs=1e-4)


def test_slow_fall_burns_and_leaves_a_tenth() -> None:
    drawn = course(wave(), down=0.05 * DT_S)[: wave().size]
    assert drawn.sum() / wave().sum() - 1 == pytest.approx(0.1374, abs=2e-4)
    assert np.ptp(drawn) == pytest.approx(0.1, abs=1e-9)


def test_work_that_waits_for_the_ramp_is_done_later() -> None:
    spec = PowerSmoothing(floor=0.0, up_per_s=0.1, down_per_s=1.0, hysteresis_s=0.0)
    own = np.full(6_000, 1.0)
    drawn, burnt = smooth_series(own, DT_S, spec, idle=0.0)
    # It rises within 10 s, half of whose work waits: 5 s more, and 1 s to fall.
    assert drawn.size * DT_S == pytest.approx(600 + 5 + 1, abs=0.3)
    assert np.diff(drawn).max() <= 0.1 * DT_S + 1e-12
    # What is drawn beyond the work is burnt, all of it.
    assert drawn.sum() - own.sum() == pytest.approx(burnt, abs=1.5)


def test_profile_keeps_its_nodes_and_tells_its_cost() -> None:
    own_w = (np.where(np.arange(3_000) % 100 < 80, 0.9, 0.3) * 2_800 + 100) * 2
    made = smooth_profile(
        profile("a", own_w, n_nodes=2, dt_ms=100), PowerSmoothing(), NODE
    )
    assert made.profile_id == "a~smoothed"
    assert made.n_nodes == 2
    steps_w = np.diff(made.power_w.astype(np.float64))
    # A tenth of the TDP a second, of eight GPUs.
    assert np.abs(steps_w).max() <= 0.1 * DT_S * 8 * 700 * (1 + 1e-3)
    assert "of the GPUs' energy burnt" in made.provenance.notes
