"""The classes of a scenario as a log has them: shares and durations, with limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.importers.job_log import JobRecords
from diploee.learn.jobs.classes import JobGroups
from diploee.learn.jobs.durations import DurationFit, DurationKind, fit_durations
from diploee.learn.jobs.shares import share_limits
from diploee.streams import stream
from diploee.tables import BoolArray, Float64Array, Int16Array, Int64Array
from diploee.units import MS_PER_S

MIN_JOBS_FOR_DURATIONS = 100
"""Jobs that a class needs for durations of its own; others share those of their workload."""

DurationChoice = DurationKind | Literal["profile"]


@dataclass(frozen=True, eq=False)
class NodeCountFit:
    """Shares of the node counts among the jobs, as logged, with limits."""

    n_nodes: Int64Array
    share: Float64Array
    low: Float64Array
    high: Float64Array


@dataclass(frozen=True)
class ClassFit:
    """A class of jobs: what a scenario's class takes, with limits and durations.

    Parameters
    ----------
    workload : str
        Workload of the profiles.
    n_nodes, profile_n_nodes : int
        Nodes of a job, and of the profiles that it takes its power from.
    n_jobs : int
        Jobs of the log in the class.
    probability, low, high : float
        Share of the jobs, with limits.
    duration : DurationFit or None
        How long the jobs run; None where they are to run as long as their profiles.
    shares_durations : bool
        The durations are those of all jobs of the workload, as the class has too few of its own.
    """

    workload: str
    n_nodes: int
    profile_n_nodes: int
    n_jobs: int
    probability: float
    low: float
    high: float
    duration: DurationFit | None
    shares_durations: bool


def fit_classes(
    jobs: JobRecords,
    class_of: Int16Array,
    day: Int64Array,
    groups: JobGroups,
    kind: DurationChoice,
    confidence: float,
    seed: int,
) -> tuple[tuple[ClassFit, ...], tuple[Float64Array, ...]]:
    """Fit shares and durations of the classes that occur.

    Parameters
    ----------
    jobs : JobRecords
        The jobs to fit, n of them.
    class_of : numpy.ndarray, shape (n,), int16
        Class of each job in `groups`.
    day : numpy.ndarray, shape (n,), int64
        Day of each job, from 0.
    groups : JobGroups
        The classes.
    kind : {"quantiles", "lognormal", "profile"}
        How durations are modelled; ``"profile"`` leaves them to the profiles.
    confidence : float
        Level of the limits.
    seed : int
        Seed of the tests that draw samples.

    Returns
    -------
    tuple of ClassFit
        The classes that occur.
    tuple of numpy.ndarray
        Durations of the jobs of each [s].
    """
    duration_s = jobs.duration_ms / MS_PER_S
    share, low, high = share_limits(class_of.astype(np.int64), day, len(groups), confidence)
    of_workload: dict[str, DurationFit] = {}
    found, logged = [], []
    for number in np.flatnonzero(share > 0).tolist():
        workload = groups.workload[number]
        own = class_of == number
        enough = int(own.sum()) >= MIN_JOBS_FOR_DURATIONS
        fit = None
        if kind != "profile":
            rng = stream(seed, "fit", "durations", number)
            if enough:
                fit = fit_durations(duration_s[own], kind, rng)
            elif workload not in of_workload:
                same = _of_workload(class_of, groups, workload)
                of_workload[workload] = fit_durations(duration_s[same], kind, rng)
            fit = fit or of_workload[workload]
        logged.append(duration_s[own])
        found.append(
            ClassFit(
                workload=workload,
                n_nodes=groups.n_nodes[number],
                profile_n_nodes=groups.profile_n_nodes[number],
                n_jobs=int(own.sum()),
                probability=float(share[number]),
                low=float(low[number]),
                high=float(high[number]),
                duration=fit,
                shares_durations=fit is not None and not enough,
            )
        )
    return tuple(found), tuple(logged)


def _of_workload(class_of: Int16Array, groups: JobGroups, workload: str) -> BoolArray:
    same = np.array([name == workload for name in groups.workload])
    rows: BoolArray = same[class_of]
    return rows


def fit_node_counts(jobs: JobRecords, day: Int64Array, confidence: float) -> NodeCountFit:
    """Return the shares of the node counts among jobs; `day` and limits as in `fit_classes`."""
    n_nodes, kind = np.unique(jobs.n_nodes.astype(np.int64), return_inverse=True)
    return NodeCountFit(n_nodes, *share_limits(kind, day, n_nodes.size, confidence))
