"""Actions that the method `decide` of a policy or controller may return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from diploee.base.errors import Brief

How = Literal["checkpoint", "kill", "suspend"]


@dataclass(frozen=True, slots=True)
class Start(Brief):
    """Start a waiting job, by default on the number of nodes that it requests.

    Parameters
    ----------
    job : int
        Number of a job in `view.queue`.
    n_nodes : int, optional
        Number of nodes to run it on, within the limits of its class.
    level : int
        Level of the power cap; 0 = uncapped.
    """

    job: int
    n_nodes: int | None = None
    level: int = 0


@dataclass(frozen=True, slots=True)
class Preempt(Brief):
    """Stop a running job.

    Parameters
    ----------
    job : int
        Number of a job in `view.running`.
    how : {"checkpoint", "kill", "suspend"}
        `checkpoint` saves the job's work, which takes the stop time of its class, and
        puts the job back into the queue. `kill` puts the job back into the queue at
        once, and the work since the last checkpoint is lost. With `suspend` the job
        retains its work and its nodes, which draw idle power until the job is resumed.
    """

    job: int
    how: How = "checkpoint"


@dataclass(frozen=True, slots=True)
class Resume(Brief):
    """Resume a suspended job."""

    job: int  # number of the job


@dataclass(frozen=True, slots=True)
class Resize(Brief):
    """Continue a running job on another number of nodes.

    The job is stopped, its work is saved, and it is started again.
    """

    job: int  # number of the job
    n_nodes: int  # new number of nodes


@dataclass(frozen=True, slots=True)
class SetLevel(Brief):
    """Cap the GPU power of a running job at a level; 0 = uncapped."""

    job: int  # number of the job
    level: int  # level of the power cap


Action = Start | Preempt | Resume | Resize | SetLevel
