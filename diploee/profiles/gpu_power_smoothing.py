"""Profiles as GPUs with power smoothing draw them.

A GPU draws t = max(p, F), its own power p or the floor F, but rises by no more than
`up` a second, holds its power for the hysteresis and then falls by no more than `down`.
What it draws above p is burnt. Where it may not draw p yet, its work goes on at the
rate q/p of its power q, so that the job gets longer by the integral of (p - q)/p. At
its end the power falls as it may; the nodes are the job's until then.

A profile is a sum over nodes and GPUs. ASSUMPTION: the GPUs of a job draw alike, and
its CPUs draw their part of the node's idle power all the time.

References
----------
NVIDIA's names of power smoothing in NVML and DCGM: minimum power in percent of the TDP
("TMP floor"), ramp-up and ramp-down rates, hysteresis. arXiv:2508.14318 for its energy.

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
"""A loop is steady long before, but for ramps of hours."""

LONGEST = 4
"""A smoothed profile is at most this many times as long; beyond, the ramp is too slow
for it."""


def smoothed(
    profile: PowerProfile, spec: PowerSmoothing, node: NodeType
) -> PowerProfile:
    """Return a profile as the GPUs of a node type draw it with power smoothing."""
    rated_w = node.n_gpus * node.gpu_tdp_w
    cpus_w = cpu_power_w(node)
    own = (profile.power_w.astype(np.float64) / profile.n_nodes - cpus_w) / rated_w
    idle = max(0.0, (node.idle_power_w - cpus_w) / rated_w)
    drawn, burnt = smoothed_course(own, profile.dt_ms / MS_PER_S, spec, idle)
    power_w = (drawn * rated_w + cpus_w) * profile.n_nodes
    note = smoothing_note(
        spec, burnt / max(float(own.sum()), 1e-9), drawn.size / own.size - 1
    )
    notes = "; ".join(filter(None, [profile.provenance.notes, note]))
    return replace(
        profile,
        profile_id=f"{profile.profile_id}~smoothed",
        power_w=power_w.astype(np.float32),
        provenance=replace(profile.provenance, notes=notes),
    )


def smoothing_note(spec: PowerSmoothing, burnt: float, stretch: float) -> str:
    """Return what smoothing does to a profile.

    What it burns of its energy, how much longer.
    """
    return (
        f"with GPU power smoothing (floor {spec.floor:g}, up {spec.up_per_s:g}/s, down "
        f"{spec.down_per_s:g}/s of the TDP, hysteresis {spec.hysteresis_s:g} s): "
        f"{burnt:+.2%} of the GPUs' energy burnt, {stretch:+.2%} of the time"
    )


def smoothed_loop(
    own: Float64Array, dt_s: float, spec: PowerSmoothing
) -> tuple[Float64Array, float]:
    """Return what a GPU draws in one pass of a loop that it goes through for ever."""
    drawn = np.empty(LONGEST * own.size)
    now, held_s = max(float(own.max()), spec.floor), 0.0
    for _ in range(MAX_PASSES):
        begun = now, held_s
        count, now, held_s, burnt = _follow(
            own,
            dt_s,
            spec.floor,
            spec.up_per_s * dt_s,
            spec.down_per_s * dt_s,
            spec.hysteresis_s,
            now,
            held_s,
            drawn,
        )
        if np.allclose((now, held_s), begun, rtol=0, atol=1e-9):
            break
    return drawn[:count], float(burnt)


def smoothed_course(
    own: Float64Array, dt_s: float, spec: PowerSmoothing, idle: float
) -> tuple[Float64Array, float]:
    """Return what a GPU draws, and the sum over steps of what it burns."""
    most = LONGEST * own.size + int(2 / (spec.down_per_s * dt_s)) + 1
    drawn = np.empty(most)
    count, burnt = _smooth(
        own,
        dt_s,
        spec.floor,
        spec.up_per_s * dt_s,
        spec.down_per_s * dt_s,
        spec.hysteresis_s,
        idle,
        drawn,
    )
    return drawn[:count], float(burnt)


@njit()
def _smooth(
    own: Float64Array,
    dt_s: float,
    floor: float,
    up: float,
    down: float,
    hysteresis_s: float,
    idle: float,
    drawn: Float64Array,
) -> tuple[int, float]:
    k, now, _, burnt = _follow(
        own, dt_s, floor, up, down, hysteresis_s, idle, 0.0, drawn
    )
    held_s = 0.0
    while now > idle + 1e-9 and k < drawn.size:
        held_s += dt_s
        if held_s > hysteresis_s + 1e-9:
            now = max(idle, now - down)
        burnt += now - idle
        drawn[k] = now
        k += 1
    return k, burnt


@njit()
def _follow(
    own: Float64Array,
    dt_s: float,
    floor: float,
    up: float,
    down: float,
    hysteresis_s: float,
    now: float,
    held_s: float,
    drawn: Float64Array,
) -> tuple[int, float, float, float]:
    """Go through the work from a power held for a time.

    Return steps, both, and what is burnt.
    """
    # A share of a step that rounding leaves must not cost a whole one.
    last = own.size - 1e-9
    done, burnt, k = 0.0, 0.0, 0
    while done < last and k < drawn.size:
        wish = own[int(done)]
        target = max(wish, floor)
        if target >= now:
            now = min(target, now + up)
            held_s = 0.0
        else:
            held_s += dt_s
            if held_s > hysteresis_s + 1e-9:
                now = max(target, now - down)
        rate = 1.0 if now >= wish or wish <= 0 else now / wish
        burnt += max(0.0, now - wish)
        done += rate
        drawn[k] = now
        k += 1
    return k, now, held_s, burnt
