"""Recurring jobs of a Zeus workload as a job source.

An optimizer chooses the batch size and power limit of each recurrence, which determine
its run time and power. The run time is the epochs to the target x time per epoch x
runtime ratio, unless the run is stopped early. The power is the average of one GPU at
the chosen limit. The choice uses the results of earlier recurrences of the job that
ended, at their submission plus run time, before the submission. ASSUMPTION: these
results are known at that time even if the recurrence waited in the facility's queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diploee.base.errors import LogFormatError, WorkloadError
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array, Int16Array, concat
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_S
from diploee.importers.text.file_bytes import existing_file
from diploee.integrations.zeus.simulator import Simulation, check_limit
from diploee.integrations.zeus.traces import (
    TrainingTraces,
    chosen_workloads,
    read_groups,
    read_traces,
    workload_submissions,
)
from diploee.integrations.zeus.workload import oracle_pair
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
from diploee.profiles.flat import FLAT_POWER_W, flat_profile
from diploee.scenario.job_streams import JobClass, JobStream
from diploee.scenario.recurring import RecurringTraining
from diploee.schedule.job_table import DRAW_MS, JobTable

PROFILE_ID = "zeus-mean-power"
KNOWN_AS_MEAN_S = 3600.0
"""Averaging window of the power [s], as the traces have one mean value per epoch."""


def _to_ms(
    runs: pd.DataFrame, since_s: float = 0.0, until_ms: float = np.inf
) -> pd.DataFrame:
    """Return runs with submission and run time [ms], each retry as a separate job."""
    submit_ms = np.rint((runs.start_s.to_numpy() - since_s) * MS_PER_S)
    duration_ms = np.maximum(np.rint(runs.time_s.to_numpy() * MS_PER_S), 1)
    runs["submit_ms"] = np.minimum(submit_ms, until_ms - 1).astype(np.int64)
    runs["duration_ms"] = duration_ms.astype(np.int64)
    return runs.sort_values("start_s", kind="stable")


def assign_workloads(n_jobs: int, weights: Float64Array) -> Int16Array:
    """Return the workload index of each recurring job, in proportion to weights.

    Numbers of jobs are rounded; each workload with a weight has at least one job.
    """
    n_needed = int(np.count_nonzero(weights))
    if n_jobs < n_needed:
        raise WorkloadError(
            f"{n_jobs} recurring jobs for {n_needed} workloads, expected one or more "
            "for each; raise the number of recurring jobs"
        )
    exact = weights / weights.sum() * n_jobs
    counts = np.maximum(np.floor(exact), weights > 0).astype(np.int64)
    while counts.sum() < n_jobs:
        counts[np.argmax(exact - counts)] += 1
    while counts.sum() > n_jobs:  # small weights were rounded up to one
        counts[np.argmax(np.where(counts > 1, counts - exact, -np.inf))] -= 1
    return np.repeat(np.arange(weights.size), counts).astype(np.int16)


@dataclass(frozen=True)
class _ZeusInputs:
    """Inputs of a `zeus` block: training traces, and an optional group trace."""

    traces: TrainingTraces
    groups: pd.DataFrame | None = None


def read_zeus_inputs(
    name: str, spec: RecurringTraining, folder: Path, once: Callable[..., Any]
) -> _ZeusInputs:
    """Read the files of a stream's `zeus` block, cached by ``once(read, *paths)``."""
    try:
        if spec.train is not None and spec.power is not None:
            train = existing_file(folder / spec.train, "zeus.train")
            power = existing_file(folder / spec.power, "zeus.power")
            traces = once(read_traces, train, power)
        else:
            traces = once(read_traces)
        if spec.groups is None:
            return _ZeusInputs(traces)
        groups = existing_file(folder / spec.groups, "zeus.groups")
        return _ZeusInputs(traces, once(read_groups, groups))
    except LogFormatError as error:
        raise LogFormatError(f"streams.{name}: {error}") from error
    except WorkloadError as error:
        raise WorkloadError(f"streams.{name}.zeus: {error}") from error


class RecurringJobs(JobSource):
    """Source of the jobs of a stream with a `zeus` block.

    Each job has constant power: its mean power.
    """

    kind = "recurring"

    def __init__(
        self,
        spec: JobStream,
        frame: StreamFrame,
        builder: LibraryBuilder,
        inputs: _ZeusInputs,
    ) -> None:
        assert spec.zeus is not None
        super().__init__(spec, frame)
        self.spec = spec.zeus
        self._groups = inputs.groups
        per_day = spec.jobs_per_day or 0.0
        try:
            self._workloads = chosen_workloads(
                inputs.traces,
                tuple(self.spec.workloads),
                max_epochs=self.spec.max_epochs,
            )
            for workload in self._workloads:
                check_limit(self.spec, workload)
            shares = np.array(
                [self.spec.workloads.get(w.name, 1.0) for w in self._workloads]
            )
            if self._groups is None:
                self._workload_of = assign_workloads(self.spec.recurring_jobs, shares)
            else:
                submissions, left_out = workload_submissions(
                    self._groups, self._workloads
                )
                shares = np.bincount(submissions.workload_id, minlength=shares.size)
                per_day = len(submissions) / (
                    _period_ms(submissions.start_s) / MS_PER_DAY
                )
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
            flat_profile(
                f"{PROFILE_ID}-{gpu}", source, averaging_window_s=KNOWN_AS_MEAN_S
            )
        )
        self.classes = self._stream_classes(shares / shares.sum())
        self._n_failed = 0

    @property
    def jobs_per_day(self) -> float:
        """Jobs per day of the scenario, or of the group trace."""
        return self._per_day

    @property
    def asked_nodes(self) -> float:
        """Mean number of nodes in use at the cheapest batch sizes and power limits."""
        shares = [c.job_class.probability for c in self.classes]
        node_s = 0.0
        for share, workload in zip(shares, self._workloads, strict=True):
            best = oracle_pair(workload, self.spec.eta)
            node_s += (
                share
                * workload.mean_time_to_target_s(best.row, best.column)
                * self.spec.n_nodes
            )
        return self.jobs_per_day * node_s * MS_PER_S / MS_PER_DAY

    def _draws(self, n_spans: int) -> Iterator[JobTable]:
        jobs_by_block = self._recurrences_by_block()
        for spans in self._frame.batches(n_spans):
            yield concat(list(islice(jobs_by_block, len(spans))))

    def _recurrences_by_block(self) -> Iterator[JobTable]:
        """Yield the recurrences of each sampling block as jobs, in order of time."""
        self._n_failed = 0
        runs_by_block = (
            self._runs_from_calendar()
            if self._groups is None
            else self._runs_from_group_trace(self._groups)
        )
        for span, runs in zip(self._frame.spans, runs_by_block, strict=True):
            self._n_failed += int((~runs.converged & (runs.submit_ms >= 0)).sum())
            startup_ms = self._startups_ms(
                {(self._frame.clock.date_ms(span * DRAW_MS),): len(runs)}
            )
            power_w = self._node_power_w(runs.average_power_w.to_numpy())
            yield self._jobs(
                runs.submit_ms.to_numpy(),
                n_nodes=np.full(len(runs), self.spec.n_nodes),
                duration_ms=runs.duration_ms.to_numpy() + startup_ms,
                class_id=runs.workload_id.to_numpy(),
                profile_id=np.full(len(runs), self._profile_id),
                startup_ms=startup_ms,
                power_factor=power_w / FLAT_POWER_W,
            )

    def match(self) -> StreamMatch:
        """Return the stream's match with the scenario, with counts of failed runs."""
        counts = {"stopped early or not converged": self._n_failed, **self.counts}
        return replace(super().match(), counts=counts)

    def _node_power_w(self, gpu_w: Float64Array) -> Float64Array:
        """Return the power of one busy node by mean GPU power [W].

        ``P = P_idle + n (P_gpu - P_gpu,idle)`` with the node's idle power P_idle, n
        GPUs, and their idle power P_gpu,idle. `busy_power_factor`, which scales
        profiles, does not apply.
        """
        node_type = self._frame.node_type
        n_gpus = self.spec.gpus_per_node or node_type.n_gpus
        idle_w = self.spec.gpu_idle_power_w
        # ASSUMPTION: devices share the idle power of a node by their ratings
        if idle_w is None:
            share = (
                node_type.gpu_tdp_w / node_type.rated_power_w
                if node_type.rated_power_w
                else 0
            )
            idle_w = node_type.idle_power_w * share
        over_idle_w = np.maximum(gpu_w - idle_w, 0)
        power_w: Float64Array = node_type.idle_power_w + n_gpus * over_idle_w
        return power_w

    def _runs_from_calendar(self) -> Iterator[pd.DataFrame]:
        """Yield the runs of each sampling block, with submissions from the calendar.

        Each submission belongs to a random recurring job, all with equal probability.
        Retries of failed runs are in the block in which they start. With few recurring
        jobs and frequent submissions, recurrences overlap, and the optimizers learn
        slowly.
        """
        frame, jobs_per_day = self._frame, self.jobs_per_day
        rates = stream_rates(self._stream, frame)
        job_rng = named_rng(frame.seed, "zeus", frame.name, "recurring jobs")
        simulation = Simulation(self._workloads, self.spec, frame.seed, frame.name)
        for span in frame.spans:
            begin_ms, end_ms = span * DRAW_MS, (span + 1) * DRAW_MS
            rng = named_rng(
                frame.seed, "workload", frame.name, 0, frame.clock.date_ms(begin_ms)
            )
            span_rates = rates.between(begin_ms, end_ms)
            submit_ms = draw_submissions([rng], span_rates, jobs_per_day)[0]
            group_id = job_rng.integers(
                self._workload_of.size, size=submit_ms.size, dtype=np.int32
            )
            submissions = pd.DataFrame(
                {
                    "group_id": group_id,
                    "workload_id": self._workload_of[group_id],
                    "start_s": submit_ms / MS_PER_S,
                    "end_s": np.nan,
                    "runtime_ratio": 1.0,
                }
            )
            runs = simulation.advance(submissions, end_ms / MS_PER_S)
            yield _to_ms(runs, until_ms=end_ms)

    def _runs_from_group_trace(self, groups: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield the group trace's runs in each sampling block, simulated once.

        The trace starts with the run and is repeated, also before the start.
        """
        frame, clock = self._frame, self._frame.clock
        names = list(groups.group.cat.categories)
        simulation = Simulation(
            self._workloads, self.spec, frame.seed, frame.name, group_names=names
        )
        submissions, _ = workload_submissions(groups, self._workloads)
        once = _to_ms(simulation.advance(submissions), float(submissions.start_s.min()))
        period_ms = _period_ms(submissions.start_s)
        # A retry beyond the last submission runs in the next repetition.
        once["submit_ms"] %= period_ms
        once = once.sort_values("submit_ms", kind="stable")
        for span in frame.spans:
            begin_ms = max(span * DRAW_MS, clock.begin_ms)
            end_ms = min((span + 1) * DRAW_MS, clock.horizon_ms)
            parts = []
            for delay_ms in range(begin_ms // period_ms * period_ms, end_ms, period_ms):
                submit_ms = once.submit_ms + delay_ms
                part = once.assign(submit_ms=submit_ms)
                parts.append(part[(submit_ms >= begin_ms) & (submit_ms < end_ms)])
            yield pd.concat(parts)

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


def _period_ms(start_s: pd.Series[float]) -> int:
    """Return a group trace's length in whole hours [ms], the repetition period."""
    return (round(float(np.ptp(start_s)) * MS_PER_S) // MS_PER_H + 1) * MS_PER_H
