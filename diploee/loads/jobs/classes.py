"""The classes that jobs are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diploee.errors import WorkloadError
from diploee.scenario import JobClass
from diploee.tables import (
    Int32Array,
)

MOST_JOBS = 2_000_000_000
"""Jobs of a stream; a few hours of them are held at a time, some 50 bytes each."""


@dataclass(frozen=True)
class StreamClass:
    """A job class of one stream, with the library's profiles that it draws from."""

    stream: str
    job_class: JobClass
    profile_ids: tuple[int, ...]

    @property
    def extrapolation_ratio(self) -> float:
        """Nodes over the nodes of the measured profiles; 1 where nothing is scaled."""
        return self.job_class.n_nodes / self.job_class.profile_n_nodes


def draw_profiles(
    classes: Sequence[StreamClass], class_id: npt.NDArray[np.integer], rng: np.random.Generator
) -> Int32Array:
    """Draw for every job one of its class's profiles, each with the same probability."""
    n_profiles = np.array([len(c.profile_ids) for c in classes])
    replicate = (rng.random(class_id.size) * n_profiles[class_id]).astype(np.int64)
    profile_of = np.zeros((len(classes), n_profiles.max()), dtype=np.int32)
    for row, c in enumerate(classes):
        profile_of[row, : len(c.profile_ids)] = c.profile_ids
    profile_id: Int32Array = profile_of[class_id, replicate]
    return profile_id


def check_n_jobs(n_jobs: float, where: str, remedy: str) -> None:
    """Raise `WorkloadError` where a stream would have more jobs than can be simulated."""
    if not n_jobs <= MOST_JOBS:  # also NaN
        raise WorkloadError(f"{where}: {n_jobs:,.4g} jobs, more than {MOST_JOBS:,}; {remedy}")
