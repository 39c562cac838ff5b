"""Power of a GPU over iterations of synchronous training: two levels, edges, period.

In each iteration power rises to the high level, stays there for a fraction of the
period (the duty), then falls to the low level. The waveform is synthetic, not measured.

See also: docs/models/training.md
"""

from __future__ import annotations

import numpy as np

from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.scenario.synchronous import SynchronousJob

LOOP_S = 600.0
"""Approximate length of a loop of iterations [s]."""

MAX_SIGMAS = 3.0
"""Maximum deviation of the jitter, in standard deviations."""


def loop_of_iterations(
    job: SynchronousJob,
    period_s: float,
    rng: np.random.Generator,
    n_nodes: int = 1,
    gpus_per_node: int = 1,
    step_s: float = PROFILE_STEP_MS / MS_PER_S,
) -> Float64Array:
    """Return a GPU's power over some ten minutes of iterations [per unit of its TDP].

    Iteration lengths vary randomly by the job's jitter. The length of the loop is that
    of its iterations without jitter, to within half a step. White noise of the density
    S adds a variance of ``S / (2 step_s)`` to the values.

    Parameters
    ----------
    job : SynchronousJob
        The job, with its power levels.
    period_s : float
        Length of an iteration [s].
    rng : numpy.random.Generator
        Generator of jitter and noise.
    n_nodes, gpus_per_node : int
        Nodes of the job, and GPUs per node, over which the power is the mean.
    step_s : float
        Step of the series [s].
    """
    n_iterations = max(round(LOOP_S / period_s), 1)
    n_steps = max(round(n_iterations * period_s / step_s), 1)
    deviations = np.clip(rng.standard_normal(n_iterations), -MAX_SIGMAS, MAX_SIGMAS)
    lengths_s = 1 + job.jitter * deviations
    ends_s = np.cumsum(lengths_s) * (n_steps * step_s / lengths_s.sum())
    begins_s = np.concatenate([[0.0], ends_s[:-1]])
    lengths_s = ends_s - begins_s
    levels = job.corners()
    begin_s = (
        begins_s[:, None] + lengths_s[:, None] * [fraction for fraction, _ in levels]
    ).ravel()
    level = np.tile([level for _, level in levels], n_iterations)
    previous_level = np.concatenate([[job.low], level[:-1]])
    # An edge begins at its corner and shrinks with its iteration, so that corners keep
    # their order; an edge without length is nearly vertical.
    edge_s = np.repeat(lengths_s, len(levels)) * max(job.edge_s / period_s, 1e-9)
    points_s = np.stack([begin_s, begin_s + edge_s], axis=1).ravel()
    values = np.stack([previous_level, level], axis=1).ravel()
    power_pu, n_active = _step_means(points_s, values, n_steps, step_s), gpus_per_node
    if job.in_turn:
        power_pu, n_active = (
            job.load_level + (power_pu - job.load_level) / gpus_per_node,
            1,
        )
    if (noise := job.noise) is not None:
        density = noise.common**2 + noise.own**2 / (n_nodes * n_active)
        sd = np.sqrt(density / (2 * step_s)) * n_active / gpus_per_node
        power_pu = np.clip(power_pu + sd * rng.standard_normal(power_pu.size), 0, 1)
    return power_pu


def _step_means(
    points_s: Float64Array, values: Float64Array, n_steps: int, step_s: float
) -> Float64Array:
    """Return the means over steps of a piecewise linear curve, constant at the end."""
    area = np.concatenate(
        [[0.0], np.cumsum(np.diff(points_s) * (values[1:] + values[:-1]) / 2)]
    )
    edges_s = np.arange(n_steps + 1) * step_s
    segment = np.clip(np.searchsorted(points_s, edges_s, side="right") - 1, 0, None)
    into_s = edges_s - points_s[segment]
    segment_end = np.minimum(segment + 1, values.size - 1)
    width_s = np.maximum(points_s[segment_end] - points_s[segment], 1e-12)
    slope = (values[segment_end] - values[segment]) / width_s
    integral = area[segment] + into_s * (values[segment] + slope * into_s / 2)
    means: Float64Array = np.diff(integral) / step_s
    return means
