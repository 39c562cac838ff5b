"""A job of the engine for policies that act: what it holds, does and has saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diploee.schedule.runs import RUN
from diploee.schedule.surroundings import JobFlexibility, PowerBasis


class ActingJob:
    """A job that waits or holds nodes."""

    __slots__ = (
        "asked",
        "class_id",
        "duration_ms",
        "end_ms",
        "estimate_ms",
        "flexible",
        "held",
        "kind",
        "level",
        "nodes",
        "number",
        "others_uw",
        "power_factor",
        "power_mw",
        "priority",
        "profile_id",
        "rate",
        "resized",
        "saved_ms",
        "since_ms",
        "standing_w",
        "submit_ms",
        "told_ms",
        "turn",
        "used",
        "user_id",
        "work_ms",
    )  # fmt: skip

    def __init__(self, number: int, columns: Sequence[Any], flexible: JobFlexibility) -> None:
        self.number, self.flexible = number, flexible
        (
            self.submit_ms, self.asked, self.duration_ms, self.estimate_ms, self.class_id,
            self.profile_id, self.power_factor, self.user_id, self.priority,
        ) = columns  # fmt: skip
        self.held, self.nodes = 0, self.asked  # nodes taken from the pool, and those in use
        self.kind, self.level, self.rate = RUN, 0, 1.0
        self.work_ms = self.saved_ms = 0  # at `since_ms`, and in the last checkpoint
        self.since_ms = self.told_ms = self.end_ms = 0
        self.turn = 0  # an event of another turn is out of date
        self.resized = 0  # nodes to go on with after a checkpoint; 0 = back into the queue
        self.used, self.power_mw, self.standing_w = 0, 0, 0.0
        self.others_uw: dict[PowerBasis, int] = {}

    def work_at(self, time_ms: int) -> int:
        """Return the work done by a time of the present stretch [ms]."""
        if self.kind != RUN:
            return int(self.work_ms)
        if time_ms >= self.end_ms:
            return int(self.duration_ms)
        passed_ms = time_ms - self.since_ms
        done_ms = passed_ms if self.rate == 1 else int(passed_ms * self.rate)
        return int(min(self.work_ms + done_ms, self.duration_ms))

    def saved_at(self, time_ms: int) -> int:
        """Return the work in its last checkpoint by a time [ms]."""
        every_ms = self.flexible.checkpoint_every_ms
        return int(max(self.saved_ms, self.work_at(time_ms) // every_ms * every_ms))
