"""Jobs of a Zeus workload: recurrences with the run time and power that their optimizer chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
from diploee.neighbours.zeus import (
    GroupTrace,
    TrainingTraces,
    ZeusSpec,
    chosen_workloads,
    read_groups,
    read_traces,
)
from diploee.neighbours.zeus.cost import oracle_pair
from diploee.neighbours.zeus.job_series import JobSeries, SharedRecurrences, recurrences_of_groups
from diploee.profiles.flat import FLAT_POWER_W, flat_profile
from diploee.scenario import JobClass, JobStream, RecurringTraining
from diploee.schedule.context import DRAW_MS, JobTable
from diploee.streams import stream
from diploee.tables import Float64Array, concat
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_S

PROFILE_ID = "zeus-mean-power"
KNOWN_AS_MEAN_S = 3600.0
"""The traces give one mean power per epoch: nothing is claimed of swings within an hour."""


@dataclass(frozen=True)
class ZeusInputs:
    """Inputs of a `zeus` block: the training traces, and the submissions of recurring jobs."""

    traces: TrainingTraces
    groups: GroupTrace | None = None


def read_zeus_inputs(
    name: str, spec: RecurringTraining, folder: Path, once: Callable[..., Any]
) -> ZeusInputs:
    """Read what the `zeus` block of a stream names, each file by `once(read, *paths)`."""
    try:
        if spec.train is not None and spec.power is not None:
            train = readable(folder / spec.train, "zeus.train")
            power = readable(folder / spec.power, "zeus.power")
            traces = once(read_traces, train, power)
        else:
            traces = once(read_traces)
        if spec.groups is None:
            return ZeusInputs(traces)
        groups = readable(folder / spec.groups, "zeus.groups")
        return ZeusInputs(traces, once(read_groups, groups))
    except LogFormatError as error:
        raise LogFormatError(f"streams.{name}: {error}") from error
    except WorkloadError as error:
        raise WorkloadError(f"streams.{name}.zeus: {error}") from error


class RecurringJobs(JobSource):
    """The jobs of a stream with a `zeus` block; they scale a flat profile to their mean power."""

    kind = "recurring"

    def __init__(
        self, spec: JobStream, frame: StreamFrame, builder: LibraryBuilder, inputs: ZeusInputs
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
            shares = np.array(self._shares())
            if self._groups is None:
                self._recurrences()  # can the jobs be shared out?
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
            time_s = (
                workload.mean_epochs[best.row] * workload.time_per_epoch_s[best.row, best.column]
            )
            node_s += share * float(time_s) * self.spec.n_nodes
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

    def _recurrences(self) -> SharedRecurrences:
        return SharedRecurrences(
            self._workloads,
            self._zeus,
            self._frame.seed,
            self._frame.name,
            n_recurring_jobs=self.spec.recurring_jobs,
            shares=self._shares(),
        )

    def _of_calendar(self) -> Iterator[JobSeries]:
        """Yield the recurrences of each span, with submissions drawn from the calendar."""
        frame, jobs_per_day = self._frame, self.jobs_per_day
        rates, recurrences = stream_rates(self._stream, frame), self._recurrences()
        for span in frame.spans:
            rng = stream(frame.seed, "workload", frame.name, 0, frame.clock.date_ms(span * DRAW_MS))
            of_span = rates.between(span * DRAW_MS, (span + 1) * DRAW_MS)
            submit_ms = np.sort(draw_submissions(rng, of_span, jobs_per_day))
            yield recurrences.at(submit_ms, (span + 1) * DRAW_MS)

    def _shares(self) -> list[float]:
        return [self.spec.workloads.get(w.spec.dataset, 1.0) for w in self._workloads]

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
