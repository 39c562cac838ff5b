"""Multifactor priority as in Slurm's plugin, with EASY backfilling.

References
----------
.. [1] https://slurm.schedmd.com/priority_multifactor.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from diploee.base.model import default, optional
from diploee.base.units import MS_PER_WEEK
from diploee.scenario.times import SpanMs
from diploee.schedule.policies.easy import easy_starts
from diploee.schedule.policy import ClusterView, EstimatingSpec, Policy


class MultifactorPriority:
    """Queue ordered by ``age a + size n/N + fair_share F + priority c``, then EASY.

    ``a`` is the waiting time over `age_max`, at most 1; ``n/N`` is the fraction of the
    pool's nodes that a job needs; ``c`` is the priority of its class. Ties are in the
    order of submission. ``F = 2^(-U/S)`` is the fair-share factor of the user [1]_: U
    is the user's fraction of all past node time, which decays with `half_life`, and S
    is 1 over the number of users so far. Assumed (judgement): all users have equal
    shares, and jobs without a user are those of a single user.

    Parameters
    ----------
    spec : PrioritySpec
        Weights of ``a``, ``n/N``, ``F`` and ``c``, times, and the backfill depth.
    """

    def __init__(self, spec: PrioritySpec) -> None:
        self.estimate = spec.estimate
        # Usage by a job ends at its end, which requires a call at every end
        self.wants_idle = spec.fair_share > 0
        self._spec = spec
        # Node time of each user, decayed to the last decision [node ms]
        self._used: dict[int, float] = {}
        self._nodes: dict[int, int] = {}  # nodes of each user since the last decision
        self._at_ms = 0  # time of the last decision [ms]

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the jobs that EASY starts from the queue in the order of priority."""
        spec, now_ms = self._spec, view.now_ms
        shares = self.fair_shares(view) if spec.fair_share else {}
        submit_ms, job_user = view.job_submit_ms, view.job_user

        def priority(job: int) -> float:
            """Return the priority of a job."""
            return (
                spec.age * min((now_ms - submit_ms[job]) / spec.age_max, 1)
                + spec.size * view.job_n_nodes[job] / view.n_nodes
                + spec.fair_share * shares.get(job_user[job], 1)
                + (spec.priority * view.priority(job) if spec.priority else 0)
            )

        ordered = sorted(view.queue, key=lambda job: (-priority(job), job))
        started = easy_starts(view, ordered, "submission", spec.depth)
        if spec.fair_share:
            self._nodes = dict.fromkeys(self._used, 0)
            for job in (*view.running, *started):
                self._nodes[job_user[job]] += view.job_n_nodes[job]
        return started

    def fair_shares(self, view: ClusterView) -> dict[int, float]:
        """Update the usage to now; return the fair-share factor of each user, 0-1."""
        half_life_ms = self._spec.half_life
        decay = 0.5 ** ((view.now_ms - self._at_ms) / half_life_ms)
        self._at_ms = view.now_ms
        # Decayed time since the last decision: the integral of 2^(-t / half-life)
        decayed_ms = (1 - decay) * half_life_ms / math.log(2)
        for user, used in self._used.items():
            self._used[user] = used * decay + self._nodes.get(user, 0) * decayed_ms
        for job in view.queue:
            self._used.setdefault(view.job_user[job], 0.0)
        total = sum(self._used.values()) or 1.0
        n_users = len(self._used)
        return {
            user: 0.5 ** (used / total * n_users) for user, used in self._used.items()
        }


class PrioritySpec(EstimatingSpec):
    """Multifactor priority: queue by weighted factors, then EASY backfilling."""

    kind: Literal["priority"] = default(
        "priority",
        (
            "The queue sorted by weighted factors, as by Slurm's multifactor plugin, "
            "then EASY; in order of submission if all weights are 0, Slurm's default."
        ),
    )
    age: float = default(0, "Weight of the waiting time per age_max.", ge=0, le=1e9)
    age_max: SpanMs = default(
        MS_PER_WEEK,
        "Waiting time beyond which the age factor no longer rises (assumed).",
        assumed=True,
    )
    size: float = default(
        0, "Weight of a job's nodes per node of the pool.", ge=0, le=1e9
    )
    fair_share: float = default(
        0,
        (
            "Weight of 2^(-U/S), with U the user's fraction of the node time so far "
            "and S one over the number of users; users come from replayed logs."
        ),
        ge=0,
        le=1e9,
    )
    half_life: SpanMs = default(
        MS_PER_WEEK, "Half-life of past node time (assumed).", assumed=True
    )
    priority: float = default(
        0, "Weight of the priority of a job's class.", ge=0, le=1e9
    )
    depth: int | None = optional(
        "Number of queued jobs that are considered, including the first; all if "
        "absent.",
        ge=1,
    )

    def open(self) -> Policy:
        """Return a new policy of this kind."""
        return MultifactorPriority(self)
