"""Jobs of a Zeus workload: recurrences with the run time and power that their optimizer chose.

Duration = epochs to the target x time per epoch x runtime ratio, cut by early stopping; power is
the average of one GPU at the chosen limit. What a recurrence learns comes from those of its
recurring job that had ended when it was submitted, at their submission plus run time:
ASSUMPTION: a wait in the facility's queue does not change what is known at a submission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from diploee.errors import LogFormatError, WorkloadError
from diploee.inputs import readable
from diploee.loads.jobs.source import (
    JobSource,
    LibraryBuilder,
    StreamClass,
    StreamFrame,
    StreamMatch,
    check_n_jobs,
    draw_submissions,
    stream_rates,
)
from diploee.neighbours.zeus.results import RecurrenceTable
from diploee.neighbours.zeus.simulator import Simulation, ZeusSpec
from diploee.neighbours.zeus.traces import (
    GroupTrace,
    Submissions,
    TrainingTraces,
    chosen_workloads,
    read_groups,
    read_traces,
)
from diploee.neighbours.zeus.workload import TrainingWorkload, oracle_pair
from diploee.profiles.flat import FLAT_POWER_W, flat_profile
from diploee.scenario import JobClass, JobStream, RecurringTraining
from diploee.schedule.context import DRAW_MS, JobTable
from diploee.streams import stream
from diploee.tables import Float64Array, Int16Array, Int64Array, column, concat
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_S

PROFILE_ID = "zeus-mean-power"
KNOWN_AS_MEAN_S = 3600.0
"""The traces give one mean power per epoch: nothing is claimed of swings within an hour."""


@dataclass(frozen=True, eq=False)
class JobSeries(RecurrenceTable):
    """One row per run of a recurrence, in the order of submission; a retry is a job of its own."""

    submit_ms: Int64Array = column("int64")

    @property
    def duration_ms(self) -> Int64Array:
        """Run times [ms], at least 1."""
        return np.maximum(np.rint(self.time_s * MS_PER_S), 1).astype(np.int64)


def _jobs(table: RecurrenceTable, since_s: float = 0.0, until_ms: float = inf) -> JobSeries:
    table = table.take(np.argsort(table.start_s, kind="stable"))
    rounded_ms = np.rint((table.start_s - since_s) * MS_PER_S)
    return JobSeries(**vars(table), submit_ms=np.minimum(rounded_ms, until_ms - 1))


def shared_recurrences(
    submissions: Iterable[tuple[Int64Array, float]],
    workloads: Sequence[TrainingWorkload],
    workload_of: Int16Array,
    spec: ZeusSpec,
    seed: int,
    *name: str | int,
) -> Iterator[JobSeries]:
    """Yield jobs for times of submission [ms] and the end of each span of them [ms].

    Each is of any of several recurring jobs with equal probability, whose workloads are given.
    Those that try again what failed come with the span in which they start. Where recurring jobs
    are few and submissions dense, recurrences overlap, and Zeus explores slowly: that is its rule.
    """
    rng = stream(seed, "zeus", *name, "recurring jobs")
    simulation = Simulation(workloads, spec, seed, *name)
    for submit_ms, until_ms in submissions:
        group_id = rng.integers(workload_of.size, size=submit_ms.size, dtype=np.int32)
        nan, one = np.full(submit_ms.size, np.nan), np.ones(submit_ms.size)
        of_span = Submissions(group_id, workload_of[group_id], submit_ms / MS_PER_S, nan, one)
        yield _jobs(simulation.advance(of_span, until_ms / MS_PER_S), until_ms=until_ms)


def recurrences_of_groups(
    groups: GroupTrace,
    workloads: Sequence[TrainingWorkload],
    spec: ZeusSpec,
    seed: int,
    *name: str | int,
) -> JobSeries:
    """Return the jobs of a group trace, submitted at its starts less the earliest one."""
    submissions, _ = groups.submissions(workloads)
    simulation = Simulation(workloads, spec, seed, *name, group_names=groups.groups)
    return _jobs(simulation.advance(submissions), since_s=float(submissions.start_s.min()))


def shared_out(
    workloads: Sequence[TrainingWorkload], n_jobs: int, shares: Sequence[float] | Float64Array
) -> Int16Array:
    """Return the workload of each recurring job: the nearest whole numbers, one at least."""
    weights = np.asarray(shares, dtype=np.float64)
    if weights.size != len(workloads) or not (weights >= 0).all() or not 0 < weights.sum() < inf:
        raise WorkloadError(
            f"shares of the workloads are {weights.tolist()}, expected {len(workloads)} numbers of "
            "0 or more, not all 0"
        )
    n_needed = int(np.count_nonzero(weights))
    if n_jobs < n_needed:
        raise WorkloadError(
            f"{n_jobs} recurring jobs for {n_needed} workloads, expected one or more for each; "
            "raise the number of recurring jobs"
        )
    wanted = weights / weights.sum() * n_jobs
    counts = np.maximum(np.floor(wanted), weights > 0).astype(np.int64)
    while counts.sum() < n_jobs:
        counts[np.argmax(wanted - counts)] += 1
    while counts.sum() > n_jobs:  # small shares were rounded up to one
        counts[np.argmax(np.where(counts > 1, counts - wanted, -np.inf))] -= 1
    return np.repeat(np.arange(len(workloads)), counts).astype(np.int16)


@dataclass(frozen=True)
class _ZeusInputs:
    """Inputs of a `zeus` block: the training traces, and the submissions of recurring jobs."""

    traces: TrainingTraces
    groups: GroupTrace | None = None


def read_zeus_inputs(
    name: str, spec: RecurringTraining, folder: Path, once: Callable[..., Any]
) -> _ZeusInputs:
    """Read what the `zeus` block of a stream names, each file by `once(read, *paths)`."""
    try:
        if spec.train is not None and spec.power is not None:
            train = readable(folder / spec.train, "zeus.train")
            power = readable(folder / spec.power, "zeus.power")
            traces = once(read_traces, train, power)
        else:
            traces = once(read_traces)
        if spec.groups is None:
            return _ZeusInputs(traces)
        groups = readable(folder / spec.groups, "zeus.groups")
        return _ZeusInputs(traces, once(read_groups, groups))
    except LogFormatError as error:
        raise LogFormatError(f"streams.{name}: {error}") from error
    except WorkloadError as error:
        raise WorkloadError(f"streams.{name}.zeus: {error}") from error


class RecurringJobs(JobSource):
    """The jobs of a stream with a `zeus` block; they scale a flat profile to their mean power."""

    kind = "recurring"

    def __init__(
        self, spec: JobStream, frame: StreamFrame, builder: LibraryBuilder, inputs: _ZeusInputs
    ) -> None:
        assert spec.zeus is not None
        super().__init__(spec, frame)
        self.spec = spec.zeus
        self._groups = inputs.groups
        per_day = spec.jobs_per_day or 0.0
        try:
            self._workloads = chosen_workloads(
                inputs.traces, tuple(self.spec.workloads), max_epochs=self.spec.max_epochs
            )
            self._zeus = ZeusSpec(
                self.spec.batch_size_optimizer,
                self.spec.power_limit,
                self.spec.eta,
                self.spec.beta,
            )
            for workload in self._workloads:
                self._zeus.check(workload)
            shares = np.array([self.spec.workloads.get(w.name, 1.0) for w in self._workloads])
            if self._groups is None:
                self._workload_of = shared_out(self._workloads, self.spec.recurring_jobs, shares)
            else:
                submissions, left_out = self._groups.submissions(self._workloads)
                shares = np.bincount(submissions.workload_id, minlength=shares.size)
                per_day = len(submissions) / (_period_ms(submissions.start_s) / MS_PER_DAY)
                if left_out:
                    self.counts["rows of groups of other datasets"] = left_out
        except WorkloadError as error:
            raise WorkloadError(f"streams.{frame.name}.zeus: {error}") from error
        self._per_day = per_day
        check_n_jobs(
            per_day * frame.n_days,
            f"streams.{frame.name}",
            "submit fewer jobs a day or shorten the run",
        )
        gpu = inputs.traces.gpu
        source = f"Zeus traces of {gpu}: mean power of an epoch, no course in time"
        self._profile_id = builder.index_of(
            flat_profile(f"{PROFILE_ID}-{gpu}", source, averaging_window_s=KNOWN_AS_MEAN_S)
        )
        self.classes = self._stream_classes(shares / shares.sum())
        self._n_failed = 0

    @property
    def jobs_per_day(self) -> float:
        """Jobs a day that are given, or that the groups have."""
        return self._per_day

    @property
    def asked_nodes(self) -> float:
        """Nodes that the recurrences take on average at what their optimizer is to find."""
        shares = [c.job_class.probability for c in self.classes]
        node_s = 0.0
        for share, workload in zip(shares, self._workloads, strict=True):
            best = oracle_pair(workload, self.spec.eta)
            node_s += share * workload.mean_time_s(best.row, best.column) * self.spec.n_nodes
        return self.jobs_per_day * node_s * MS_PER_S / MS_PER_DAY

    def _draws(self) -> Iterator[JobTable]:
        """Yield the recurrences of each span; each learns from those that ended before it."""
        self._n_failed = 0
        of_spans = self._of_calendar() if self._groups is None else self._of_trace(self._groups)
        for span, series in zip(self._frame.spans, of_spans, strict=True):
            self._n_failed += int((~series.converged & (series.submit_ms >= 0)).sum())
            startup_ms = self._startups_ms(len(series), self._frame.clock.date_ms(span * DRAW_MS))
            yield self._jobs(
                series.submit_ms,
                n_nodes=np.full(len(series), self.spec.n_nodes),
                duration_ms=series.duration_ms + startup_ms,
                class_id=series.workload_id,
                profile_id=np.full(len(series), self._profile_id),
                startup_ms=startup_ms,
                power_factor=self._node_power_w(series) / FLAT_POWER_W,
            )

    def match(self) -> StreamMatch:
        """Return how many recurrences there were, and those that did not converge."""
        counts = {"stopped early or not converged": self._n_failed, **self.counts}
        return replace(super().match(), counts=counts)

    def _node_power_w(self, series: JobSeries) -> Float64Array:
        """Return the power of one busy node: the idle node, and its GPUs above their idle power.

        It is the traces' own: `busy_power_factor`, which scales profiles, does not apply.
        """
        node_type = self._frame.node_type
        n_gpus = self.spec.gpus_per_node or node_type.n_gpus
        over_idle_w = np.maximum(series.average_power_w - self.spec.gpu_idle_power_w, 0)
        power_w: Float64Array = node_type.idle_power_w + n_gpus * over_idle_w
        return power_w

    def _of_calendar(self) -> Iterator[JobSeries]:
        """Yield the recurrences of each span, with submissions drawn from the calendar."""
        frame, jobs_per_day = self._frame, self.jobs_per_day
        rates = stream_rates(self._stream, frame)

        def drawn(span: int) -> tuple[Int64Array, int]:
            begin_ms, end_ms = span * DRAW_MS, (span + 1) * DRAW_MS
            rng = stream(frame.seed, "workload", frame.name, 0, frame.clock.date_ms(begin_ms))
            of_span = rates.between(begin_ms, end_ms)
            return np.sort(draw_submissions(rng, of_span, jobs_per_day)), end_ms

        return shared_recurrences(
            map(drawn, frame.spans), self._workloads, self._workload_of, self._zeus,
            frame.seed, frame.name,
        )  # fmt: skip

    def _of_trace(self, groups: GroupTrace) -> Iterator[JobSeries]:
        """Yield the group trace's jobs in each span, simulated once and then repeated.

        It begins at the start of the run; what lies before is a repetition as well.
        """
        frame, clock = self._frame, self._frame.clock
        once = recurrences_of_groups(groups, self._workloads, self._zeus, frame.seed, frame.name)
        period_ms = _period_ms(groups.submissions(self._workloads)[0].start_s)
        # A retry beyond the last submission runs in the next repetition.
        once = replace(once, submit_ms=once.submit_ms % period_ms)
        once = once.take(np.argsort(once.submit_ms, kind="stable"))
        for span in frame.spans:
            begin_ms = max(span * DRAW_MS, clock.begin_ms)
            end_ms = min((span + 1) * DRAW_MS, clock.horizon_ms)
            parts = []
            for delay_ms in range(begin_ms // period_ms * period_ms, end_ms, period_ms):
                edges = np.searchsorted(once.submit_ms, [begin_ms - delay_ms, end_ms - delay_ms])
                part = once.take(slice(*edges.tolist()))
                parts.append(replace(part, submit_ms=part.submit_ms + delay_ms))
            yield concat(parts)

    def _stream_classes(self, shares: Float64Array) -> tuple[StreamClass, ...]:
        return tuple(
            StreamClass(
                self._frame.name,
                JobClass(
                    workload=f"zeus-{workload.spec.dataset}",
                    n_nodes=self.spec.n_nodes,
                    probability=share,
                    scale_from_n_nodes=None if self.spec.n_nodes == 1 else 1,
                ),
                (self._profile_id,),
            )
            for workload, share in zip(self._workloads, shares.tolist(), strict=True)
        )


def _period_ms(start_s: Float64Array) -> int:
    """Return the span of a group trace in whole hours [ms], after which it is repeated."""
    return (round(float(np.ptp(start_s)) * MS_PER_S) // MS_PER_H + 1) * MS_PER_H
