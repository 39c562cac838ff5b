"""Phases of a synchronous job on its own time axis: training, checkpoints, failures.

A failure stops the whole job. The job hangs until the failure is detected, is
rescheduled on its nodes and a spare node, loads the last checkpoint and repeats the
work since then. A checkpoint is written after every interval of work, but not at the
end of the work. Failures of nodes are a Poisson process that continues in all phases. A
further failure while the job hangs is detected together with the first one; a failure
during rescheduling restarts the rescheduling; and a failure during loading stops the
job again.

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
"""Maximum number of interruptions of a job; a cluster of 100,000 GPUs has some 17,000
per year."""

# Maximum number of checkpoints of a job
MAX_CHECKPOINTS = 5_000_000

# Time of an event that never happens [ms]
NEVER_MS = np.iinfo(np.int64).max // 4


class TrainingPhase(IntEnum):
    """Kind of phase of a synchronous training job."""

    TRAIN = 0
    REDO = 1
    """Repeated work since the last checkpoint: full power without progress."""
    CHECKPOINT = 2
    HUNG = 3
    WAIT = 4
    """Waiting for a node in repair, as there is no spare node."""
    RESCHEDULE = 5
    PLANNED = 6
    """Rescheduling after a planned interruption."""
    LOAD = 7
    END = 8
    """Exit of the processes after the end of the work; GPUs with power smoothing fall
    to idle."""


@dataclass(frozen=True, eq=False)
class TrainingPhases(Table):
    """Contiguous phases of a job, in the job's own time."""

    phase: Int16Array = column("int16")  # a `TrainingPhase`
    # Start of the phase since the start of the job [ms]
    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")  # length of the phase [ms], positive

    @property
    def duration_ms(self) -> int:
        """Time from the start to the end of the job [ms]."""
        return int(self.into_ms[-1] + self.length_ms[-1])

    def time_ms(self, phase: TrainingPhase) -> int:
        """Return the time spent in a phase [ms]."""
        return int(self.length_ms[self.phase == phase].sum())


@dataclass(frozen=True)
class TrainingPlan:
    """Amount of work of a job, and the durations of its phases."""

    work_ms: int  # training time to the end of the work [ms]
    # Training time between two checkpoints [ms]; `NEVER_MS` = no checkpoints
    interval_ms: int = NEVER_MS
    write_ms: int = 0  # mean stall of a checkpoint [ms]
    start_ms: int = 0  # first start, on idle GPUs [ms]
    warm_up_ms: int = 0  # first loading [ms]
    reschedule_ms: int = 0  # rescheduling after an interruption [ms]
    load_ms: int = 0  # loading after an interruption [ms]
    spare_nodes: int = 0  # number of nodes in repair above which the job waits
    repair_ms: int = 0  # repair time of a failed node [ms]
    exit_ms: int = 0  # exit time of the processes [ms]


Gaps = Iterator[int]
"""Times between successive events of a process [ms]."""


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
    """Yield the checkpoint stalls of a store that is either fast or slow [ms].

    Stalls are lognormal, with a median for each state. The store is fast at first, and
    changes its state at each write with the probability `change`.
    """
    is_slow = 0
    while True:
        state = (is_slow + np.cumsum(rng.random(256) < change)) % 2
        is_slow = int(state[-1])
        stalls_ms = np.array(medians_ms)[state] * np.exp(
            np.array(sigmas)[state] * rng.standard_normal(256)
        )
        yield from np.maximum(np.rint(stalls_ms), 1).astype(np.int64).tolist()


def training_phases(
    plan: TrainingPlan,
    failures: Gaps,
    planned: Gaps,
    detection_ms: Callable[[], int],
    writes: Iterator[int] | None = None,
) -> TrainingPhases:
    """Simulate a training job's phases from its start to the end of its work.

    `failures` and `planned` are the times between failures and between planned
    interruptions [ms]; `detection_ms` draws the time to detect a failure; `writes`
    yields the checkpoint stalls [ms].
    """
    if plan.work_ms / plan.interval_ms > MAX_CHECKPOINTS:
        raise WorkloadError(
            f"the job writes {plan.work_ms / plan.interval_ms:,.0f} checkpoints, at "
            f"most {MAX_CHECKPOINTS:,} can be simulated; lengthen checkpoint_interval"
        )
    return _TrainingSimulation(
        plan, failures, planned, detection_ms, writes or repeat(plan.write_ms)
    ).phases()


class _TrainingSimulation:
    """Simulation of a job on its own time axis, with the phases so far."""

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
        self._next_stalls_ms: list[int] = []
        self._now_ms = 0
        self._next_failure_ms, self._next_stop_ms = next(failures), next(planned)
        self._saved_work_ms = self._max_work_ms = self._work_ms = 0
        self._repair_ends_ms: list[int] = []
        self._phase: list[np.ndarray] = []
        self._length_ms: list[np.ndarray] = []

    def phases(self) -> TrainingPhases:
        """Return all phases of the job."""
        load_ms, n_stops = self._plan.warm_up_ms, 0
        self._schedule(TrainingPhase.RESCHEDULE, self._plan.start_ms)
        while not (
            self._add_until_failure(TrainingPhase.LOAD, load_ms) and self._train()
        ):
            n_stops += 1
            if n_stops > MAX_STOPS:
                raise WorkloadError(
                    f"the job was interrupted {MAX_STOPS:,} times with "
                    f"{self._max_work_ms:,} of {self._plan.work_ms:,} ms of its work "
                    "done; lower the failure rate, or the times of detection, "
                    "reschedule_s and load_s"
                )
            if self._now_ms < self._next_failure_ms:
                self._interrupt()
            else:
                self._recover()
            load_ms = self._plan.load_ms
        self._add_phases(np.array([TrainingPhase.END]), np.array([self._plan.exit_ms]))
        length_ms = np.concatenate(self._length_ms)
        is_positive = length_ms > 0
        length_ms = length_ms[is_positive]
        into_ms = np.cumsum(length_ms) - length_ms
        return TrainingPhases(
            np.concatenate(self._phase)[is_positive], into_ms, length_ms
        )

    def _add_phases(self, phase: np.ndarray, length_ms: np.ndarray) -> None:
        """Add phases, and advance the time."""
        self._phase.append(phase)
        self._length_ms.append(length_ms)
        self._now_ms += int(length_ms.sum())

    def _add_until_failure(self, phase: TrainingPhase, length_ms: int) -> bool:
        """Add a phase, cut at the next failure; return True if it is complete."""
        cut_ms = min(length_ms, self._next_failure_ms - self._now_ms)
        self._add_phases(np.array([phase]), np.array([cut_ms]))
        return cut_ms == length_ms

    def _start_repair(self) -> None:
        """Send the failed node to repair, and draw the next failure."""
        if self._plan.repair_ms:
            heapq.heappush(
                self._repair_ends_ms, self._next_failure_ms + self._plan.repair_ms
            )
        self._next_failure_ms += next(self._failures)

    def _recover(self) -> None:
        """Hang until the failure is detected, wait for a node, and be rescheduled."""
        detected_ms = self._now_ms + self._detection_ms()
        while self._next_failure_ms <= detected_ms:
            self._start_repair()
        self._add_phases(
            np.array([TrainingPhase.HUNG]), np.array([detected_ms - self._now_ms])
        )
        self._work_ms = self._saved_work_ms
        self._wait()
        self._schedule(TrainingPhase.RESCHEDULE, self._plan.reschedule_ms)

    def _schedule(self, phase: TrainingPhase, length_ms: int) -> None:
        """Add a phase of scheduling; the phase restarts if a node fails."""
        while not self._add_until_failure(phase, length_ms):
            self._start_repair()
            self._wait()

    def _wait(self) -> None:
        """Wait while more nodes are in repair than there are spare nodes."""
        while self._repair_ends_ms and self._repair_ends_ms[0] <= self._now_ms:
            heapq.heappop(self._repair_ends_ms)
        n_lacking, until_ms = (
            len(self._repair_ends_ms) - self._plan.spare_nodes,
            self._now_ms,
        )
        for _ in range(n_lacking):
            until_ms = heapq.heappop(self._repair_ends_ms)
        wait_ms = until_ms - self._now_ms
        # Assumed: waiting nodes are idle and do not fail
        self._next_failure_ms += wait_ms
        self._add_phases(np.array([TrainingPhase.WAIT]), np.array([wait_ms]))

    def _interrupt(self) -> None:
        """Write a checkpoint and be rescheduled, for a planned interruption.

        If a node fails during the write, the job recovers from that.
        """
        self._next_stop_ms = self._now_ms + next(self._planned)
        (write_ms,) = self._next_writes_ms(1)
        del self._next_stalls_ms[:1]
        if self._add_until_failure(TrainingPhase.CHECKPOINT, write_ms):
            self._saved_work_ms = self._work_ms
            self._schedule(TrainingPhase.PLANNED, self._plan.reschedule_ms)
        else:
            self._recover()

    def _next_writes_ms(self, count: int) -> list[int]:
        """Return the next checkpoint stalls, without removing them."""
        self._next_stalls_ms += islice(
            self._writes, max(count - len(self._next_stalls_ms), 0)
        )
        return self._next_stalls_ms[:count]

    def _train(self) -> bool:
        """Train until the work is done or the job is interrupted.

        Returns True if the work is done.
        """
        plan = self._plan
        # A planned interruption while the job is down is part of that down time
        while self._next_stop_ms <= self._now_ms:
            self._next_stop_ms += next(self._planned)
        available_ms = min(self._next_failure_ms, self._next_stop_ms) - self._now_ms
        first_checkpoint = self._work_ms // plan.interval_ms + 1
        # No checkpoint at the end of the work
        n_writes = -(-plan.work_ms // plan.interval_ms) - first_checkpoint
        n_writes = max(0, min(n_writes, available_ms // plan.interval_ms + 2))
        writes_ms = (first_checkpoint + np.arange(n_writes)) * plan.interval_ms
        reaches_end = (first_checkpoint + n_writes) * plan.interval_ms >= plan.work_ms
        edges_ms = np.concatenate(
            [[self._work_ms], writes_ms, [plan.work_ms] if reaches_end else []]
        )
        # Periods of work and, between them, checkpoints; repeated work comes first
        length_ms = np.empty(2 * edges_ms.size - 2 - reaches_end, dtype=np.int64)
        length_ms[::2] = np.diff(edges_ms)
        length_ms[1::2] = self._next_writes_ms(length_ms.size // 2)
        phase = np.full(length_ms.size, TrainingPhase.CHECKPOINT)
        phase[::2] = TrainingPhase.TRAIN
        redone_ms = self._max_work_ms - self._work_ms
        phase = np.concatenate([[TrainingPhase.REDO], phase])
        length_ms = np.concatenate([[redone_ms], length_ms])
        length_ms[1] -= redone_ms
        ends_ms = np.cumsum(length_ms)
        is_done = bool(reaches_end and ends_ms[-1] <= available_ms)
        if not is_done:
            n_phases = int(np.searchsorted(ends_ms, available_ms)) + 1
            phase, length_ms = phase[:n_phases], length_ms[:n_phases]
            length_ms[-1] -= ends_ms[n_phases - 1] - available_ms
            n_saved = int((phase == TrainingPhase.CHECKPOINT).sum())
            # The last checkpoint counts if it was finished in that very millisecond
            n_saved -= bool(
                phase[-1] == TrainingPhase.CHECKPOINT
                and ends_ms[n_phases - 1] > available_ms
            )
            if n_saved:
                self._saved_work_ms = int(writes_ms[n_saved - 1])
        is_write = phase == TrainingPhase.CHECKPOINT
        del self._next_stalls_ms[: int(is_write.sum())]
        self._work_ms += int(length_ms[~is_write].sum())
        self._max_work_ms = max(self._max_work_ms, self._work_ms)
        self._add_phases(phase, length_ms)
        return is_done


def expected_ettr(
    n_failures_per_ms: float, recovery_ms: float, interval_ms: float, write_ms: float
) -> float:
    """Return the expected fraction of time that is progress under failures (Daly)."""
    if not n_failures_per_ms:
        return 1 / (1 + write_ms / interval_ms)
    exponent = min(n_failures_per_ms * (interval_ms + write_ms), 700.0)
    trained_fraction = n_failures_per_ms * interval_ms / math.expm1(exponent)
    return trained_fraction * math.exp(-n_failures_per_ms * recovery_ms)
