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
from diploee.schedule.policies.easy import backfilled
from diploee.schedule.policy import ClusterView, EstimatingSpec, Policy


class MultifactorPriority:
    """The queue by ``age a + size n/N + fair_share F + priority c``, then EASY.

    ``a`` is the wait over `age_max`, 1 at most, ``n/N`` the nodes of a job over those
    of the pool, ``c`` the priority of its class; ties in the order of submission.
    ``F = 2^(-U/S)`` of its user: U is the user's part of all node time so far, which
    decays with `half_life`, S one over the number of users seen [M]. ASSUMPTION: all
    users have equal shares, and jobs without a user are those of one [J].

    Parameters
    ----------
    spec : PrioritySpec
        Weights ``a``, ``n/N``, ``F`` and ``c``, times, and the backfill behind the
        head.
    """

    def __init__(self, spec: PrioritySpec) -> None:
        self.estimate = spec.estimate
        # The ends of jobs are the ends of their usage
        self.wants_idle = spec.fair_share > 0
        self._spec = spec
        # Node ms of each user, decayed to the last decision
        self._used: dict[int, float] = {}
        self._nodes: dict[int, int] = {}  # that each has had since
        self._at_ms = 0

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the jobs that EASY starts from the queue in the order of priority."""
        spec, now_ms = self._spec, view.now_ms
        shares = self.fair_shares(view) if spec.fair_share else {}
        submit_ms, user_of = view.job_submit_ms, view.job_user

        def priority(job: int) -> float:
            return (
                spec.age * min((now_ms - submit_ms[job]) / spec.age_max, 1)
                + spec.size * view.job_n_nodes[job] / view.n_nodes
                + spec.fair_share * shares.get(user_of[job], 1)
                + (spec.priority * view.priority(job) if spec.priority else 0)
            )

        ordered = sorted(view.queue, key=lambda job: (-priority(job), job))
        chosen = backfilled(view, ordered, "submission", spec.depth)
        if spec.fair_share:
            self._nodes = dict.fromkeys(self._used, 0)
            for job in (*view.running, *chosen):
                self._nodes[user_of[job]] += view.job_n_nodes[job]
        return chosen

    def fair_shares(self, view: ClusterView) -> dict[int, float]:
        """Bring the usage up to now and return the fair share of each user, 0-1."""
        half_life_ms = self._spec.half_life
        kept = 0.5 ** ((view.now_ms - self._at_ms) / half_life_ms)
        self._at_ms = view.now_ms
        # Nodes held since the last decision, each ms decayed: the integral of 2^(-t /
        # half-life).
        fresh_ms = (1 - kept) * half_life_ms / math.log(2)
        for user, used in self._used.items():
            self._used[user] = used * kept + self._nodes.get(user, 0) * fresh_ms
        for job in view.queue:
            self._used.setdefault(view.job_user[job], 0.0)
        whole = sum(self._used.values()) or 1.0
        n_users = len(self._used)
        return {
            user: 0.5 ** (used / whole * n_users) for user, used in self._used.items()
        }


class PrioritySpec(EstimatingSpec):
    """Multifactor priority: the queue by weighted factors, then EASY backfilling."""

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
        """Return the policy itself."""
        return MultifactorPriority(self)
