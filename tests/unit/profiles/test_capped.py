"""Profiles under a cap: the measured table, the energy of a job, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from builders import profile, tiny_scenario, wavy_profile

from diploee.errors import InputError
from diploee.profiles.derived import (
    MEASURED,
    WORK_KINDS,
    CapLevels,
    CappedProfile,
    capped_power_w,
    cpu_power_w,
)

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


@pytest.mark.parametrize("kind", WORK_KINDS)
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


@pytest.mark.parametrize("kind", WORK_KINDS)
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_the_energy_of_the_gpus_is_power_over_speed_of_what_it_was(kind: str, level: int) -> None:
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


def test_power_below_that_of_the_cpus_is_left_as_it_is() -> None:
    assert capped_power_w(np.array([50.0, 100, 300]), 100.0, 0.5).tolist() == [50, 100, 200]


def test_a_node_without_ratings_has_no_cpu_power() -> None:
    bare = NODE.model_copy(update={"n_gpus": 0, "n_cpus": 0})
    assert cpu_power_w(bare) == 0


def test_a_capped_profile_says_that_it_is_no_measurement() -> None:
    capped = CappedProfile(profile("tune-1n-1", [900, 1_000]), NODE, 0.8, 0.6)
    assert capped.provenance.kind == "reference"
    assert "A100" in capped.provenance.notes
    assert capped.profile.profile_id == capped.profile_id != "tune-1n-1"


@pytest.mark.parametrize("caps", [(), (0.9, 0.5), (1.0, 0.4), (1.0, 0.7, 0.7), (1.0, 0.6, 0.8)])
def test_caps_that_do_not_fall_from_one_to_half_are_refused(caps: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"shares of the TDP that fall from 1 to 0\.5"):
        CapLevels(caps)


def test_an_unknown_kind_of_work_is_refused() -> None:
    with pytest.raises(InputError, match="kind of work: found 'training', expected 'pre_training'"):
        LEVELS.speed("training", 1)  # type: ignore[arg-type]
