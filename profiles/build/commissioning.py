"""Commissioning tests of one node with 4 x H100.

Stress of GPUs and CPUs, idle, and HPL. Levels are those of Appendix A of
arXiv:2604.07345 (CC BY 4.0), figures 16 to 19: gpu-burn, dense matrix products on all
cores, a node without a job, and HPL-NVIDIA with two solves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.profiles.profile import PowerProfile
from profiles.build.facts import AVERAGING_WINDOW_S, CPU_W
from profiles.build.shaping import (
    STEP_S,
    Staircase,
    n_samples_of,
    normal,
    reference_profile,
)


@dataclass(frozen=True)
class Device:
    """Power of one device [W], and how long it takes to its level under stress [s]."""

    count: int
    idle_w: float
    idle_std_w: float
    stress_w: float
    stress_std_w: float
    warm_up_s: float


GPU = Device(4, 72.5, 0.1, 668.2, 1.4, 150.0)
# ASSUMPTION: an idle socket's readings scatter as a loaded one's; 4.8 W is between
# sockets.
CPU = Device(2, 64.1, 1.0, 338.6, 1.0, 11.0)
HPL_GPU_W = 695.0
"""A GPU in a solve [W]; the mean of the peaks is 696 W."""
HPL_FLOPS = (168.6e12, 169.5e12)
"""Floating point operations per second of the two solves, four GPUs."""
HPL_SIZE = 192_000
"""ASSUMPTION: rows of the matrix, which fills 295 of the GPUs' 320 GB; a solve then
takes 28 s."""
HPL_SET_UP_S, HPL_SET_UP_W = 20.0, 750.0
"""ASSUMPTION: before each solve, at the level at which training loads its data."""

TEST_S = 3_600.0
BEFORE_S = 30.0
"""ASSUMPTION: an idle half minute while a stress test is set up."""
COLD = 0.97
"""ASSUMPTION: share of the level at which a cold device starts, within the driver's
second; the rest comes with the warm-up. The steep end: slower rises make smaller steps
of a site."""
NOTES = (
    "A commissioning test of one node (Appendix A). Assumed: power rises to 97 % of "
    "its level at once, and to the level within the published warm-up; other devices "
    "of the node are idle."
)
NOTES_HPL = (
    "Two solves of HPL on one node (Appendix A). Assumed: matrix size, from which the "
    "length of a solve follows, set-up, and CPUs as while fine-tuning."
)


def build_commissioning_profiles() -> list[PowerProfile]:
    """Build one profile per test at 0.1 s in whole watts; always the same."""
    tests: dict[str, Callable[[np.random.Generator], Float64Array]] = {
        "gpu_stress": lambda rng: (
            _devices_w(GPU, True, rng) + _devices_w(CPU, False, rng)
        ),
        "cpu_stress": lambda rng: (
            _devices_w(GPU, False, rng) + _devices_w(CPU, True, rng)
        ),
        # ASSUMPTION: both at once reach what each reaches alone.
        "node_stress": lambda rng: (
            _devices_w(GPU, True, rng) + _devices_w(CPU, True, rng)
        ),
        "node_idle": lambda rng: (
            _devices_w(GPU, False, rng) + _devices_w(CPU, False, rng)
        ),
        "hpl": _hpl_w,
    }
    return [
        reference_profile(
            name,
            1,
            1,
            power_w(named_rng(0, "profiles", "commissioning", name)),
            NOTES_HPL if name == "hpl" else NOTES,
        )
        for name, power_w in tests.items()
    ]


def _devices_w(
    device: Device, stressed: bool, rng: np.random.Generator
) -> Float64Array:
    """Return the power of all devices of a kind in a node [W], scattered."""
    n = n_samples_of(TEST_S)
    noise = np.sqrt(device.count) * normal(rng, n)
    power_w: Float64Array = device.count * device.idle_w + device.idle_std_w * noise
    if not stressed:
        return power_w
    at_s = np.maximum((np.arange(n) + 0.5) * STEP_S - BEFORE_S, 0)
    # A hundredth of what is missing is left at the end of the warm-up.
    level_w = device.stress_w * (
        1 - (1 - COLD) * np.exp(-np.log(100) * at_s / device.warm_up_s)
    )
    rise = np.minimum(at_s / AVERAGING_WINDOW_S, 1)
    level_w = device.idle_w + (level_w - device.idle_w) * rise
    power_w = device.count * level_w + device.stress_std_w * noise
    return power_w


def _hpl_w(rng: np.random.Generator) -> Float64Array:
    """Return two solves with their set-up [W]."""
    solves_s = 2 / 3 * HPL_SIZE**3 / np.array(HPL_FLOPS)
    lengths_s = np.stack([np.full(2, HPL_SET_UP_S), solves_s], axis=1).ravel()
    solving_w = GPU.count * HPL_GPU_W + CPU_W
    n = n_samples_of(float(lengths_s.sum()))
    idle_w = GPU.count * GPU.idle_w + CPU.count * CPU.idle_w
    before = np.ones(1)  # for the first second's average
    course = Staircase.of_lengths(
        np.concatenate([before, lengths_s]),
        np.concatenate([idle_w * before, np.tile([HPL_SET_UP_W, solving_w], 2)]),
        start_s=-1.0,
    )
    noise = GPU.stress_std_w * np.sqrt(GPU.count) * normal(rng, n)
    power_w: Float64Array = course.readings_w(n) + noise
    return power_w
