"""A job of the engine for policies that act: what it holds, does and has saved."""

from __future__ import annotations

from dataclasses import dataclass, field

from diploee.schedule.context import JobFlexibility, PowerBasis
from diploee.schedule.runs import RUN


@dataclass(eq=False, slots=True)
class ActingJob:
    """A job that waits or holds nodes."""

    number: int
    flexible: JobFlexibility
    submit_ms: int
    asked: int
    duration_ms: int
    estimate_ms: int
    class_id: int
    profile_id: int
    power_factor: float
    user_id: int
    priority: float
    held: int = 0  # nodes taken from the pool; `nodes` are those in use
    nodes: int = 0
    kind: int = RUN
    level: int = 0
    rate: float = 1.0
    work_ms: int = 0  # at `since_ms`; `saved_ms` in the last checkpoint
    saved_ms: int = 0
    since_ms: int = 0
    told_ms: int = 0
    end_ms: int = 0
    turn: int = 0  # an event of another turn is out of date
    resized: int = 0  # nodes to go on with after a checkpoint; 0 = back into the queue
    used: int = 0
    power_mw: int = 0
    held_w: float = 0.0
    others_uw: dict[PowerBasis, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = self.asked

    def work_at(self, time_ms: int) -> int:
        """Return the work done by a time of the present stretch [ms]."""
        if self.kind != RUN:
            return self.work_ms
        if time_ms >= self.end_ms:
            return self.duration_ms
        passed_ms = time_ms - self.since_ms
        done_ms = passed_ms if self.rate == 1 else int(passed_ms * self.rate)
        return min(self.work_ms + done_ms, self.duration_ms)

    def saved_at(self, time_ms: int) -> int:
        """Return the work in its last checkpoint by a time [ms]."""
        every_ms = self.flexible.checkpoint_every_ms
        return max(self.saved_ms, self.work_at(time_ms) // every_ms * every_ms)
