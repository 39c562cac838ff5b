"""Start-up latency: the time between a job's allocation and its first power above idle."""

from __future__ import annotations

import numpy as np

from diploee.scenario import DurationModel
from diploee.streams import stream
from diploee.tables import Int32Array
from diploee.units import MS_PER_H, MS_PER_S

LONGEST_MS = 24 * MS_PER_H


def draw_startups_ms(
    startup: DurationModel | None, n_jobs: int, seed: int, *names: str | int
) -> Int32Array:
    """Draw the start-up of each job [ms], shape (n_jobs,); 0 where the stream has none."""
    if startup is None:
        return np.zeros(n_jobs, dtype=np.int32)
    drawn_s = startup.draw(stream(seed, "startup", *names), n_jobs)
    return np.rint(np.minimum(drawn_s * MS_PER_S, LONGEST_MS)).astype(np.int32)
