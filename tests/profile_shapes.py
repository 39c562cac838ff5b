"""Features of the reference profiles, found in their power: full power, evaluations,
training."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diploee.profiles import PowerProfile

STEPS_PER_S = 10


def duration_s(profile: PowerProfile) -> float:
    return profile.duration_ms / 1000


def node_w(profile: PowerProfile) -> npt.NDArray[np.float64]:
    return profile.power_w.astype(np.float64) / profile.n_nodes


def runs_of(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Start and end of each run of true samples, shape (k, 2)."""
    edges = np.flatnonzero(
        np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    )
    return edges.reshape(-1, 2)


def full_power_from(profile: PowerProfile) -> int:
    return int(np.argmax(node_w(profile) > 2200))


def llama2_evaluations(profile: PowerProfile) -> npt.NDArray[np.int64]:
    """Flat stretches at the low level, longer than any low part of a cycle; shape (k,
    2)."""
    start = full_power_from(profile)
    low = runs_of(node_w(profile)[start:] < 2700)
    return start + low[low[:, 1] - low[:, 0] > 12 * STEPS_PER_S]


def llama2_training(profile: PowerProfile) -> npt.NDArray[np.float64]:
    """Node power from full power to the first evaluation."""
    start = full_power_from(profile) + 5 * STEPS_PER_S
    return node_w(profile)[start : llama2_evaluations(profile)[0, 0] - STEPS_PER_S]


def diffusion_evaluations(profile: PowerProfile) -> npt.NDArray[np.int64]:
    """Phases whose bursts reach below 1.1 kW/node at least every two minutes; shape (k,
    2)."""
    ramp = 300 * STEPS_PER_S
    low = runs_of(node_w(profile)[ramp:] < 1100) + ramp
    new = np.flatnonzero(low[1:, 0] - low[:-1, 1] > 120 * STEPS_PER_S) + 1
    return np.array([[part[0, 0], part[-1, 1]] for part in np.split(low, new)])
