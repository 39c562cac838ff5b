"""How much disk a run needs, said where the disk turns out to be too small."""

from __future__ import annotations

from diploee.units import MS_PER_S

BYTES_PER_INTERVAL = 10
"""Of `facility.parquet`, measured on year-long runs; smooth 0.1 s series compress to half."""
BYTES_PER_SERVICE = 10
BYTES_PER_JOB = 13


def expected_mb(n_intervals: int, step_ms: int, n_services: int, n_jobs: int) -> float:
    """Estimate the size of a run's files [MB], to about a factor of two.

    Parameters
    ----------
    n_intervals, step_ms : int
        Intervals of the power series and length of each [ms].
    n_services : int
        Inference services, with four columns each.
    n_jobs : int
        Rows of `jobs.parquet`; 0 where it is not written.
    """
    per_interval = float(BYTES_PER_INTERVAL + BYTES_PER_SERVICE * n_services)
    if step_ms < MS_PER_S:
        per_interval /= 2
    return (per_interval * n_intervals + BYTES_PER_JOB * n_jobs) / 1e6
