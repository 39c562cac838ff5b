"""GPU power smoothing applied to profiles: power floor, ramp limits, hysteresis.

The power q of a GPU follows the target ``t = max(p, F)``: q rises by at most ``up`` per
second, stays for the hysteresis before it falls, then falls by at most ``down`` per
second. Power above p is dissipated without work. While q < p the work proceeds at the
rate q/p, so a job takes longer by the integral of (p - q)/p. At the end of the job its
nodes stay occupied until the power has ramped down.

Symbols, all powers in per unit of the GPU's TDP:

- p power without smoothing, q power with smoothing,
- F floor (`PowerSmoothing.floor`),
- up, down ramp rates [1/s], hysteresis [s].

A profile is a sum over nodes and GPUs. ASSUMPTION: all GPUs of a job draw the same
power, and its CPUs draw a constant power, their part of the node's idle power.

References
----------
NVIDIA's power smoothing in NVML and DCGM: minimum power in percent of the TDP ("TMP
floor"), ramp-up and ramp-down rates, hysteresis. arXiv:2508.14318 on its energy.

See Also
--------
diploee.profiles.derived : profiles with power-capped GPUs.

See also: docs/models/training.md
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S
from diploee.profiles.derived import cpu_power_w
from diploee.profiles.profile import PowerProfile
from diploee.scenario.job_streams import PowerSmoothing
from diploee.scenario.pools import NodeType

MAX_PASSES = 100
"""Maximum passes until a loop is periodic; only ramps of hours need that many."""

MAX_STRETCH = 4
"""Maximum ratio of a smoothed profile's length to the original; a ramp that needs more
is too slow."""


def smooth_profile(
    profile: PowerProfile, spec: PowerSmoothing, node: NodeType
) -> PowerProfile:
    """Return a profile with the GPU power smoothing of a node type applied."""
    rated_w = node.n_gpus * node.gpu_tdp_w
    cpus_w = cpu_power_w(node)
    unsmoothed = (
        profile.power_w.astype(np.float64) / profile.n_nodes - cpus_w
    ) / rated_w
    idle = max(0.0, (node.idle_power_w - cpus_w) / rated_w)
    smoothed_pu, dissipated = smooth_series(
        unsmoothed, profile.dt_ms / MS_PER_S, spec, idle
    )
    power_w = (smoothed_pu * rated_w + cpus_w) * profile.n_nodes
    note = smoothing_note(
        spec,
        dissipated / max(float(unsmoothed.sum()), 1e-9),
        smoothed_pu.size / unsmoothed.size - 1,
    )
    notes = "; ".join(filter(None, [profile.provenance.notes, note]))
    return replace(
        profile,
        profile_id=f"{profile.profile_id}~smoothed",
        power_w=power_w.astype(np.float32),
        provenance=replace(profile.provenance, notes=notes),
    )


def smoothing_note(spec: PowerSmoothing, dissipated: float, stretch: float) -> str:
    """Return a note on a smoothed profile: dissipated energy, and longer run time."""
    return (
        f"with GPU power smoothing (floor {spec.floor:g}, up {spec.up_per_s:g}/s, down "
        f"{spec.down_per_s:g}/s of the TDP, hysteresis {spec.hysteresis_s:g} s): "
        f"{dissipated:+.2%} of the GPUs' energy burnt, {stretch:+.2%} of the time"
    )


def smooth_loop(
    unsmoothed: Float64Array, dt_s: float, spec: PowerSmoothing
) -> tuple[Float64Array, float]:
    """Return a GPU's smoothed power over one period of a loop, and dissipated power.

    Power is in per unit of the TDP. The dissipated power is a sum over steps.
    """
    smoothed_pu = np.empty(MAX_STRETCH * unsmoothed.size)
    level, held_s = max(float(unsmoothed.max()), spec.floor), 0.0
    for _ in range(MAX_PASSES):
        start_state = level, held_s
        count, level, held_s, dissipated = _follow(
            unsmoothed,
            dt_s,
            spec.floor,
            spec.up_per_s * dt_s,
            spec.down_per_s * dt_s,
            spec.hysteresis_s,
            level,
            held_s,
            smoothed_pu,
        )
        if np.allclose((level, held_s), start_state, rtol=0, atol=1e-9):
            break
    return smoothed_pu[:count], float(dissipated)


def smooth_series(
    unsmoothed: Float64Array, dt_s: float, spec: PowerSmoothing, idle: float
) -> tuple[Float64Array, float]:
    """Return a GPU's smoothed power, and the sum over steps of the dissipated power.

    Power is in per unit of the TDP.
    """
    max_steps = MAX_STRETCH * unsmoothed.size + int(2 / (spec.down_per_s * dt_s)) + 1
    smoothed_pu = np.empty(max_steps)
    count, dissipated = _smooth(
        unsmoothed,
        dt_s,
        spec.floor,
        spec.up_per_s * dt_s,
        spec.down_per_s * dt_s,
        spec.hysteresis_s,
        idle,
        smoothed_pu,
    )
    return smoothed_pu[:count], float(dissipated)


@njit()
def _smooth(
    unsmoothed: Float64Array,
    dt_s: float,
    floor: float,
    up: float,
    down: float,
    hysteresis_s: float,
    idle: float,
    smoothed_pu: Float64Array,
) -> tuple[int, float]:
    """Fill `smoothed_pu` with the smoothed power of the work and of the final ramp.

    After the work, power ramps down to idle. Returns the number of steps, and the sum
    over steps of the dissipated power.
    """
    k, level, _, dissipated = _follow(
        unsmoothed, dt_s, floor, up, down, hysteresis_s, idle, 0.0, smoothed_pu
    )
    held_s = 0.0
    while level > idle + 1e-9 and k < smoothed_pu.size:
        held_s += dt_s
        if held_s > hysteresis_s + 1e-9:
            level = max(idle, level - down)
        dissipated += level - idle
        smoothed_pu[k] = level
        k += 1
    return k, dissipated


@njit()
def _follow(
    unsmoothed: Float64Array,
    dt_s: float,
    floor: float,
    up: float,
    down: float,
    hysteresis_s: float,
    level: float,
    held_s: float,
    smoothed_pu: Float64Array,
) -> tuple[int, float, float, float]:
    """Follow the work's power from a starting level that has lasted for `held_s`.

    Returns the number of steps, the last level and its duration [s], and the sum of the
    dissipated power.
    """
    # A remainder of a step due to rounding must not take a whole step
    last = unsmoothed.size - 1e-9
    done, dissipated, k = 0.0, 0.0, 0
    while done < last and k < smoothed_pu.size:
        requested = unsmoothed[int(done)]
        target = max(requested, floor)
        if target >= level:
            level = min(target, level + up)
            held_s = 0.0
        else:
            held_s += dt_s
            if held_s > hysteresis_s + 1e-9:
                level = max(target, level - down)
        rate = 1.0 if level >= requested or requested <= 0 else level / requested
        dissipated += max(0.0, level - requested)
        done += rate
        smoothed_pu[k] = level
        k += 1
    return k, level, held_s, dissipated
