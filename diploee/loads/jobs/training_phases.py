"""Phases of a synchronous job in its own time.

Training, checkpoints, failures, restarts. A failure stops the job as a whole. It hangs
until that is detected, is scheduled again on its nodes and a spare one, loads the last
checkpoint and does the work since then again. A checkpoint is written after every
interval of work, none at the end of the work. Nodes fail all the time, a Poisson
process: a failure while the job hangs is found with the one before, one while it is
scheduled begins that anew, one while it loads is a failure as any other.

References
----------
Sheet "Flexibility and mitigation", section 6 (D).

See also: docs/models/training.md
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice, repeat

import numpy as np

from diploee.base.errors import WorkloadError
from diploee.base.tables import Int16Array, Int64Array, Table, column

MAX_STOPS = 300_000
"""Interruptions of a job; a cluster of 100,000 GPUs has some 17,000 in a year."""

MAX_CHECKPOINTS = 5_000_000

NEVER_MS = np.iinfo(np.int64).max // 4


class TrainingPhase(IntEnum):
    """Phase of a job."""

    TRAIN = 0
    REDO = 1
    """Work since the last checkpoint, once more: full power and no progress."""
    CHECKPOINT = 2
    HUNG = 3
    WAIT = 4
    """No spare node: all wait until one is repaired."""
    RESCHEDULE = 5
    PLANNED = 6
    """Scheduled again after a planned interruption."""
    LOAD = 7
    END = 8
    """The work is done: the processes exit, and GPUs with power smoothing fall to idle."""  # noqa: E501


@dataclass(frozen=True, eq=False)
class TrainingPhases(Table):
    """The phases of a job in its own time, which adjoin."""

    phase: Int16Array = column("int16")  # a `TrainingPhase`
    # Start of the phase since the start of the job [ms]
    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")  # its length [ms], positive

    @property
    def duration_ms(self) -> int:
        """Time from the start to the end of the job [ms]."""
        return int(self.into_ms[-1] + self.length_ms[-1])

    def time_ms(self, phase: TrainingPhase) -> int:
        """Return the time spent in a phase [ms]."""
        return int(self.length_ms[self.phase == phase].sum())


@dataclass(frozen=True)
class TrainingPlan:
    """Work of a job, and its duration."""

    work_ms: int  # training to be done [ms]
    # Training between two checkpoints [ms]; `NEVER_MS` = none
    interval_ms: int = NEVER_MS
    write_ms: int = 0  # stall of a checkpoint, mean [ms]
    # First start on idle GPUs and loading, rescheduling and loading after an
    # interruption [ms]
    start_ms: int = 0
    warm_up_ms: int = 0
    reschedule_ms: int = 0
    load_ms: int = 0
    spare_nodes: int = 0  # nodes in repair beyond which the job waits
    repair_ms: int = 0  # time that a failed node is in repair [ms]
    exit_ms: int = 0  # time for which the processes exit [ms]


Gaps = Iterator[int]
"""Times between the events of a process, one after the other [ms]."""


def poisson_gaps(rng: np.random.Generator, mean_ms: float) -> Gaps:
    """Yield the times between the events of a Poisson process [ms]."""
    while True:
        if not mean_ms < NEVER_MS:
            yield NEVER_MS
        else:
            yield from np.ceil(rng.exponential(mean_ms, 256)).astype(np.int64).tolist()


def store_writes(
    rng: np.random.Generator,
    medians_ms: tuple[float, float],
    sigmas: tuple[float, float],
    change: float,
) -> Iterator[int]:
    """Yield the stalls of a store that is fast or slow [ms].

    Lognormal about the median of each. It begins fast, and changes from one to the
    other with a probability at each write.
    """
    slow = 0
    while True:
        state = (slow + np.cumsum(rng.random(256) < change)) % 2
        slow = int(state[-1])
        drawn_ms = np.array(medians_ms)[state] * np.exp(
            np.array(sigmas)[state] * rng.standard_normal(256)
        )
        yield from np.maximum(np.rint(drawn_ms), 1).astype(np.int64).tolist()


def training_phases(
    plan: TrainingPlan,
    failures: Gaps,
    planned: Gaps,
    detection_ms: Callable[[], int],
    writes: Iterator[int] | None = None,
) -> TrainingPhases:
    """Go through a job from its start to the end of its work.

    `writes` gives stalls [ms].
    """
    if plan.work_ms / plan.interval_ms > MAX_CHECKPOINTS:
        raise WorkloadError(
            f"the job writes {plan.work_ms / plan.interval_ms:,.0f} checkpoints, at "
            f"most {MAX_CHECKPOINTS:,} can be simulated; lengthen checkpoint_interval"
        )
    return _Walk(
        plan, failures, planned, detection_ms, writes or repeat(plan.write_ms)
    ).phases()


class _Walk:
    """A job at a time of its own, with the phases so far."""

    def __init__(
        self,
        plan: TrainingPlan,
        failures: Gaps,
        planned: Gaps,
        detection_ms: Callable[[], int],
        writes: Iterator[int],
    ) -> None:
        self._plan, self._failures, self._detection_ms = plan, failures, detection_ms
        self._planned, self._writes = planned, writes
        self._drawn: list[int] = []
        self._now_ms = 0
        self._fails_ms, self._stops_ms = next(failures), next(planned)
        self._saved_ms = self._reached_ms = self._at_ms = 0
        self._in_repair: list[int] = []
        self._phase: list[np.ndarray] = []
        self._length_ms: list[np.ndarray] = []

    def phases(self) -> TrainingPhases:
        """Go through the job."""
        loads_ms, n_stops = self._plan.warm_up_ms, 0
        self._schedule(TrainingPhase.RESCHEDULE, self._plan.start_ms)
        while not (self._play(TrainingPhase.LOAD, loads_ms) and self._train()):
            n_stops += 1
            if n_stops > MAX_STOPS:
                raise WorkloadError(
                    f"the job was interrupted {MAX_STOPS:,} times with "
                    f"{self._reached_ms:,} of {self._plan.work_ms:,} ms of its work "
                    "done; lower the failure rate, or the times of detection, "
                    "reschedule_s and load_s"
                )
            if self._now_ms < self._fails_ms:
                self._stop_as_planned()
            else:
                self._come_back()
            loads_ms = self._plan.load_ms
        self._add(np.array([TrainingPhase.END]), np.array([self._plan.exit_ms]))
        length_ms = np.concatenate(self._length_ms)
        kept = length_ms > 0
        length_ms = length_ms[kept]
        into_ms = np.cumsum(length_ms) - length_ms
        return TrainingPhases(np.concatenate(self._phase)[kept], into_ms, length_ms)

    def _add(self, phase: np.ndarray, length_ms: np.ndarray) -> None:
        self._phase.append(phase)
        self._length_ms.append(length_ms)
        self._now_ms += int(length_ms.sum())

    def _play(self, phase: TrainingPhase, length_ms: int) -> bool:
        """Do something until it is done or a node fails; return whether it is done."""
        inside_ms = min(length_ms, self._fails_ms - self._now_ms)
        self._add(np.array([phase]), np.array([inside_ms]))
        return inside_ms == length_ms

    def _fail(self) -> None:
        """Send a node to repair."""
        if self._plan.repair_ms:
            heapq.heappush(self._in_repair, self._fails_ms + self._plan.repair_ms)
        self._fails_ms += next(self._failures)

    def _come_back(self) -> None:
        """Hang, wait for a node, and be scheduled.

        The latter begins anew where a node fails.
        """
        found_ms = self._now_ms + self._detection_ms()
        while self._fails_ms <= found_ms:
            self._fail()
        self._add(np.array([TrainingPhase.HUNG]), np.array([found_ms - self._now_ms]))
        self._at_ms = self._saved_ms
        self._wait()
        self._schedule(TrainingPhase.RESCHEDULE, self._plan.reschedule_ms)

    def _schedule(self, phase: TrainingPhase, length_ms: int) -> None:
        while not self._play(phase, length_ms):
            self._fail()
            self._wait()

    def _wait(self) -> None:
        """Wait while more nodes are in repair than there are spare ones."""
        while self._in_repair and self._in_repair[0] <= self._now_ms:
            heapq.heappop(self._in_repair)
        lacking, until_ms = len(self._in_repair) - self._plan.spare_nodes, self._now_ms
        for _ in range(lacking):
            until_ms = heapq.heappop(self._in_repair)
        waits_ms = until_ms - self._now_ms
        # ASSUMPTION: waiting nodes are idle and do not fail.
        self._fails_ms += waits_ms
        self._add(np.array([TrainingPhase.WAIT]), np.array([waits_ms]))

    def _stop_as_planned(self) -> None:
        """Write a checkpoint and be scheduled again, unless a node fails meanwhile."""
        self._stops_ms = self._now_ms + next(self._planned)
        (write_ms,) = self._next_writes_ms(1)
        del self._drawn[:1]
        if self._play(TrainingPhase.CHECKPOINT, write_ms):
            self._saved_ms = self._at_ms
            self._schedule(TrainingPhase.PLANNED, self._plan.reschedule_ms)
        else:
            self._come_back()

    def _next_writes_ms(self, count: int) -> list[int]:
        """Return the next stalls, which stay the next ones until they are deleted."""
        self._drawn += islice(self._writes, max(count - len(self._drawn), 0))
        return self._drawn[:count]

    def _train(self) -> bool:
        """Train until the work is done or the job is interrupted.

        Return whether it is done.
        """
        plan = self._plan
        # One while the job was down is a part of that
        while self._stops_ms <= self._now_ms:
            self._stops_ms += next(self._planned)
        room_ms = min(self._fails_ms, self._stops_ms) - self._now_ms
        first = self._at_ms // plan.interval_ms + 1
        # None at the end of the work
        n_writes = -(-plan.work_ms // plan.interval_ms) - first
        n_writes = max(0, min(n_writes, room_ms // plan.interval_ms + 2))
        writes_ms = (first + np.arange(n_writes)) * plan.interval_ms
        to_end = (first + n_writes) * plan.interval_ms >= plan.work_ms
        edges_ms = np.concatenate(
            [[self._at_ms], writes_ms, [plan.work_ms] if to_end else []]
        )
        # Work and, between pieces of it, writing; what was done before comes first.
        length_ms = np.empty(2 * edges_ms.size - 2 - to_end, dtype=np.int64)
        length_ms[::2] = np.diff(edges_ms)
        length_ms[1::2] = self._next_writes_ms(length_ms.size // 2)
        phase = np.full(length_ms.size, TrainingPhase.CHECKPOINT)
        phase[::2] = TrainingPhase.TRAIN
        redone_ms = self._reached_ms - self._at_ms
        phase = np.concatenate([[TrainingPhase.REDO], phase])
        length_ms = np.concatenate([[redone_ms], length_ms])
        length_ms[1] -= redone_ms
        ends_ms = np.cumsum(length_ms)
        done = bool(to_end and ends_ms[-1] <= room_ms)
        if not done:
            n_kept = int(np.searchsorted(ends_ms, room_ms)) + 1
            phase, length_ms = phase[:n_kept], length_ms[:n_kept]
            length_ms[-1] -= ends_ms[n_kept - 1] - room_ms
            saved = int((phase == TrainingPhase.CHECKPOINT).sum())
            # The last write counts if it was finished in that very millisecond.
            saved -= bool(
                phase[-1] == TrainingPhase.CHECKPOINT and ends_ms[n_kept - 1] > room_ms
            )
            if saved:
                self._saved_ms = int(writes_ms[saved - 1])
        writes = phase == TrainingPhase.CHECKPOINT
        del self._drawn[: int(writes.sum())]
        self._at_ms += int(length_ms[~writes].sum())
        self._reached_ms = max(self._reached_ms, self._at_ms)
        self._add(phase, length_ms)
        return done


def expected_ettr(
    n_failures_per_ms: float, recovery_ms: float, interval_ms: float, write_ms: float
) -> float:
    """Return the share of time that is progress under failures (Daly)."""
    if not n_failures_per_ms:
        return 1 / (1 + write_ms / interval_ms)
    x = min(n_failures_per_ms * (interval_ms + write_ms), 700.0)
    trained = n_failures_per_ms * interval_ms / math.expm1(x)
    return trained * math.exp(-n_failures_per_ms * recovery_ms)
