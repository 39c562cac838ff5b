"""The `synchronous` block of the metrics: time use of large training jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from diploee.base.units import MS_PER_H
from diploee.loads.jobs.streams import JobStreams
from diploee.loads.jobs.training_phases import TrainingPhase
from diploee.schedule.execution_intervals import (
    RUN,
    ExecutionIntervals,
    execution_intervals,
)
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import Schedule

_HOURS: dict[str, tuple[TrainingPhase, ...]] = {
    "redone": (TrainingPhase.REDO,),
    "checkpoint": (TrainingPhase.CHECKPOINT,),
    "hung": (TrainingPhase.HUNG,),
    "restart": (
        TrainingPhase.RESCHEDULE,
        TrainingPhase.PLANNED,
        TrainingPhase.LOAD,
        TrainingPhase.END,
    ),
    "waiting": (TrainingPhase.WAIT,),
}
STOPPED = len(TrainingPhase)
"""Beside the phases: nodes held while the pool's policy pauses, saves or restarts a
job."""


class SynchronousMetrics:
    """Accumulator of the synchronous jobs' phases within the run, by window."""

    def __init__(self, streams: JobStreams, names: Iterable[str]) -> None:
        self._streams = streams
        none = np.zeros(len(TrainingPhase) + 1, dtype=np.int64)
        self._reached_ms: dict[int, int] = {}
        self._node_ms = {name: none.copy() for name in names}
        self._begun = {name: none.copy() for name in names}

    def add(self, started: Schedule) -> None:
        """Add the jobs that started in a window, or their execution intervals."""
        started = started.take(started.jobs.synchronous_id > 0)
        runs = execution_intervals(started)
        for nth in range(len(runs)):
            self._add(started.jobs, runs.take(slice(nth, nth + 1)), started.horizon_ms)

    def _add(self, jobs: JobTable, run: ExecutionIntervals, horizon_ms: int) -> None:
        """Add the phases of a job between the work at an interval's start and end."""
        row, start_ms, end_ms = (
            int(run.job[0]),
            int(run.start_ms[0]),
            int(run.end_ms[0]),
        )
        from_ms, upto_ms = int(run.work_from_ms[0]), int(run.work_to_ms[0])
        source = self._streams.synchronous(int(jobs.class_id[row]))
        node_ms, n_nodes = self._node_ms[source.name], int(run.n_nodes[0])
        if run.kind[0] != RUN:
            inside_ms = min(end_ms, horizon_ms) - max(start_ms, 0)
            node_ms[STOPPED] += n_nodes * max(inside_ms, 0)
            return
        phases = source.phases(int(jobs.synchronous_id[row]))
        # What a job that was killed does once more is no progress, whatever it was
        # before.
        job_id = int(jobs.job_id[row])
        reached_ms = self._reached_ms.get(job_id, 0)
        self._reached_ms[job_id] = max(reached_ms, upto_ms)
        for low_ms, high_ms, again in (
            (from_ms, min(upto_ms, max(reached_ms, from_ms)), True),
            (min(upto_ms, max(reached_ms, from_ms)), upto_ms, False),
        ):
            if low_ms >= high_ms:
                continue
            high = int(np.searchsorted(phases.into_ms, high_ms))
            low = max(int(np.searchsorted(phases.into_ms, low_ms, side="right")) - 1, 0)
            phase = phases.phase[low:high]
            if again:
                phase = np.where(
                    phase == TrainingPhase.TRAIN, TrainingPhase.REDO, phase
                )
            edges_ms = np.append(np.maximum(phases.into_ms[low:high], low_ms), high_ms)
            edges_ms -= from_ms
            # A slowed job takes longer for it
            if end_ms - start_ms != upto_ms - from_ms:
                edges_ms = edges_ms * (end_ms - start_ms) // (upto_ms - from_ms)
            edges_ms += start_ms
            inside_ms = np.diff(np.clip(edges_ms, 0, horizon_ms))
            begins = (
                (phases.into_ms[low:high] >= low_ms)
                & (edges_ms[:-1] >= 0)
                & (inside_ms > 0)
            )
            self._begun[source.name] += np.bincount(
                phase[begins], minlength=len(TrainingPhase) + 1
            )
            np.add.at(node_ms, phase, n_nodes * inside_ms)

    def block(self) -> dict[str, Any]:
        """Return the `synchronous` block of the metrics."""
        return {"synchronous": {name: self._of(name) for name in self._node_ms}}

    def _of(self, name: str) -> dict[str, Any]:
        node_ms, begun = self._node_ms[name], self._begun[name]
        total, progress = int(node_ms.sum()), int(node_ms[TrainingPhase.TRAIN])
        return {
            "ettr": progress / total if total else None,
            "failures": int(begun[TrainingPhase.HUNG]),
            "planned_interruptions": int(begun[TrainingPhase.PLANNED]),
            "checkpoints": int(begun[TrainingPhase.CHECKPOINT]),
            "node_h": total / MS_PER_H,
            "stopped_node_h": int(node_ms[STOPPED]) / MS_PER_H,
            "lost_node_h": (total - progress) / MS_PER_H,
            **{
                f"{key}_node_h": int(node_ms[list(of)].sum()) / MS_PER_H
                for key, of in _HOURS.items()
            },
        }
