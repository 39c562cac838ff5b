"""Power of a GPU in the iterations of synchronous training.

Two levels, edges and a period. One iteration rises to the high level, holds it for the
duty, falls to the low one and stays there until the next. Nothing in it is measured.

See also: docs/models/training.md
"""

from __future__ import annotations

import numpy as np

from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.scenario.synchronous import SynchronousJob

LOOP_S = 600.0
"""Length of a loop of iterations [s], about."""

MAX_SIGMAS = 3.0
"""Draws of the jitter are cut there."""


def loop_of_iterations(
    job: SynchronousJob,
    period_s: float,
    rng: np.random.Generator,
    n_nodes: int = 1,
    gpus_per_node: int = 1,
    step_s: float = PROFILE_STEP_MS / MS_PER_S,
) -> Float64Array:
    """Return the power of a GPU in some ten minutes of iterations, as parts of its TDP.

    The periods scatter by the job's jitter; their mean is the period, to half a step
    over the loop. Noise is white: of density S, it has a variance of S / (2 step_s)
    over steps.

    Parameters
    ----------
    job : SynchronousJob
        The job, with its levels.
    period_s : float
        Length of an iteration [s].
    rng : numpy.random.Generator
        Draws jitter and noise.
    n_nodes, gpus_per_node : int
        GPUs of the job, over which it is the mean.
    step_s : float
        Step of the series [s].
    """
    n_iterations = max(round(LOOP_S / period_s), 1)
    n_steps = max(round(n_iterations * period_s / step_s), 1)
    drawn = np.clip(rng.standard_normal(n_iterations), -MAX_SIGMAS, MAX_SIGMAS)
    lengths_s = 1 + job.jitter * drawn
    ends_s = np.cumsum(lengths_s) * (n_steps * step_s / lengths_s.sum())
    begins_s = np.concatenate([[0.0], ends_s[:-1]])
    lengths_s = ends_s - begins_s
    levels = job.corners()
    begin_s = (
        begins_s[:, None] + lengths_s[:, None] * [at for at, _ in levels]
    ).ravel()
    level = np.tile([level for _, level in levels], n_iterations)
    before = np.concatenate([[job.low], level[:-1]])
    # An edge lasts from its corner on and shrinks with its iteration, so that corners
    # keep their order; where it has no length a step is left between two points.
    edge_s = np.repeat(lengths_s, len(levels)) * max(job.edge_s / period_s, 1e-9)
    points_s = np.stack([begin_s, begin_s + edge_s], axis=1).ravel()
    values = np.stack([before, level], axis=1).ravel()
    share, at_work = _step_means(points_s, values, n_steps, step_s), gpus_per_node
    if job.in_turn:
        share, at_work = job.load_level + (share - job.load_level) / gpus_per_node, 1
    if (noise := job.noise) is not None:
        density = noise.common**2 + noise.own**2 / (n_nodes * at_work)
        sd = np.sqrt(density / (2 * step_s)) * at_work / gpus_per_node
        share = np.clip(share + sd * rng.standard_normal(share.size), 0, 1)
    return share


def _step_means(
    points_s: Float64Array, values: Float64Array, n_steps: int, step_s: float
) -> Float64Array:
    """Return means over steps of a line that is level behind its last point."""
    area = np.concatenate(
        [[0.0], np.cumsum(np.diff(points_s) * (values[1:] + values[:-1]) / 2)]
    )
    edges_s = np.arange(n_steps + 1) * step_s
    piece = np.clip(np.searchsorted(points_s, edges_s, side="right") - 1, 0, None)
    into_s = edges_s - points_s[piece]
    after = np.minimum(piece + 1, values.size - 1)
    width_s = np.maximum(points_s[after] - points_s[piece], 1e-12)
    slope = (values[after] - values[piece]) / width_s
    upto = area[piece] + into_s * (values[piece] + slope * into_s / 2)
    means: Float64Array = np.diff(upto) / step_s
    return means
