"""Actions that a policy's `decide` may return besides starting jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from diploee.base.errors import Brief

How = Literal["checkpoint", "kill", "suspend"]


@dataclass(frozen=True, slots=True)
class Start(Brief):
    """Start a waiting job, on the nodes that it asks for unless others are given.

    Parameters
    ----------
    job : int
        A job of `view.queue`.
    n_nodes : int, optional
        Nodes to run it on, within what its class tolerates.
    level : int
        Cap level; 0 = uncapped.
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
        A job of `view.running`.
    how : {"checkpoint", "kill", "suspend"}
        `checkpoint` saves its work, which takes its stop time, and puts it back into
        the queue; `kill` does so at once and loses the work since the last checkpoint;
        `suspend` keeps its work and its nodes, which draw idle power until it is
        resumed.
    """

    job: int
    how: How = "checkpoint"


@dataclass(frozen=True, slots=True)
class Resume(Brief):
    """Let a suspended job work on."""

    job: int  # its number


@dataclass(frozen=True, slots=True)
class Resize(Brief):
    """Run a running job on other nodes.

    It is stopped, its work saved, and started again.
    """

    job: int  # its number
    n_nodes: int  # its nodes from then on


@dataclass(frozen=True, slots=True)
class SetLevel(Brief):
    """Cap the GPUs of a running job at a level; 0 = uncapped."""

    job: int  # its number
    level: int  # of the cap


Action = Start | Preempt | Resume | Resize | SetLevel
