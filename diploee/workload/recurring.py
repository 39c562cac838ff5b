"""Jobs of a Zeus workload: recurrences with the run time and power that their optimizer chose."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from diploee.errors import WorkloadError
from diploee.files import Stamp, input_stamp
from diploee.profiles.flat import FLAT_POWER_W, flat_profile
from diploee.scenario import JobClass, Scenario
from diploee.streams import stream
from diploee.tables import Float64Array, Int64Array, concat
from diploee.units import MS_PER_DAY, MS_PER_H
from diploee.workload.arrivals import draw_submissions, stream_rates
from diploee.workload.jobs import JobTable, StreamClass, check_n_jobs
from diploee.workload.match import StreamMatch, Utilization, listed_utilization
from diploee.workload.shelf import ProfileShelf
from diploee.workload.startup import draw_startups_ms
from diploee.zeus import (
    GroupTrace,
    JobSeries,
    TrainingTraces,
    ZeusSpec,
    chosen_workloads,
    read_groups,
    read_traces,
    recurrences_at,
    recurrences_of_groups,
    synthetic_traces,
)

PROFILE_ID = "zeus-mean-power"
KNOWN_AS_MEAN_S = 3600.0
"""The traces give one mean power per epoch: nothing is claimed of swings within an hour."""


class RecurringJobs:
    """The jobs of a stream with a `zeus` block.

    Parameters
    ----------
    scenario : Scenario
        What to generate.
    name : str
        The stream.
    shelf : ProfileShelf
        A flat profile is added; the jobs scale it to their mean power.

    Raises
    ------
    LogFormatError
        If a trace can't be read.
    WorkloadError
        If a dataset is unknown, or a power limit was never measured.
    """

    def __init__(self, scenario: Scenario, name: str, shelf: ProfileShelf) -> None:
        spec = scenario.streams[name].zeus
        assert spec is not None
        self.name, self.spec, self.scenario = name, spec, scenario
        self._stream = scenario.streams[name]
        try:
            traces = _traces(spec.train, spec.power, scenario.folder)
            self._workloads = chosen_workloads(traces, tuple(spec.workloads))
            self._zeus = ZeusSpec(spec.batch_size_optimizer, spec.power_limit, spec.eta, spec.beta)
            for workload in self._workloads:
                self._zeus.check(workload)
            self._groups = None if spec.groups is None else _groups(spec.groups, scenario.folder)
            if self._groups is None:
                self._recurrences(np.empty(0, dtype=np.int64))  # can the jobs be shared out?
            else:
                self._groups.submissions(self._workloads)
        except WorkloadError as error:
            raise WorkloadError(f"streams.{name}.zeus: {error}") from error
        check_n_jobs(
            (self._stream.jobs_per_day or 0) * scenario.horizon_ms / MS_PER_DAY,
            f"streams.{name}",
            "lower jobs_per_day or shorten the run",
        )
        source = f"Zeus traces of {traces.gpu}: mean power of an epoch, no course in time"
        self._profile_id = shelf.index_of(
            flat_profile(f"{PROFILE_ID}-{traces.gpu}", source, averaging_window_s=KNOWN_AS_MEAN_S)
        )
        if self._stream.startup is not None:
            shelf.flat()
        self.classes = self._stream_classes()

    def jobs(self, simulated: Utilization | None) -> tuple[JobTable, StreamMatch]:  # noqa: ARG002
        """Return all recurrences within the run, in the order of submission."""
        series = self._of_calendar() if self._groups is None else self._of_groups(self._groups)
        startup_ms = draw_startups_ms(
            self._stream.startup, len(series), self.scenario.seed, self.name
        )
        pool_id = self.scenario.pool_names().index(self._stream.pool)
        jobs = JobTable(
            job_id=np.arange(len(series)),
            submit_ms=series.submit_ms,
            n_nodes=np.full(len(series), self.spec.n_nodes, dtype=np.int32),
            duration_ms=series.duration_ms + startup_ms,
            pool_id=np.full(len(series), pool_id, dtype=np.int16),
            class_id=series.workload_id,
            profile_id=np.full(len(series), self._profile_id, dtype=np.int32),
            startup_ms=startup_ms,
            power_factor=(self._node_power_w(series) / FLAT_POWER_W).astype(np.float32),
        )
        pool = self.scenario.facility.pools[self._stream.pool]
        horizon_ms = self.scenario.horizon_ms
        listed = listed_utilization(jobs, pool.n_nodes, horizon_ms)
        per_day = len(jobs) / (horizon_ms / MS_PER_DAY)
        counts = {"stopped early or not converged": int((~series.converged).sum())}
        if self._groups is not None:
            _, left_out = self._groups.submissions(self._workloads)
            counts |= {"rows of groups of other datasets": left_out} if left_out else {}
        return jobs, StreamMatch(self.name, per_day, "recurring", None, listed, None, 0, counts)

    def _node_power_w(self, series: JobSeries) -> Float64Array:
        """Return the power of one busy node: the idle node, and its GPUs above their idle power."""
        node_type = self.scenario.facility.node_type_of(self._stream.pool)
        n_gpus = self.spec.gpus_per_node or node_type.n_gpus
        over_idle_w = np.maximum(series.average_power_w - self.spec.gpu_idle_power_w, 0)
        power_w: Float64Array = node_type.idle_power_w + n_gpus * over_idle_w
        return power_w / node_type.busy_power_factor

    def _of_calendar(self) -> JobSeries:
        spec, scenario = self._stream, self.scenario
        assert spec.jobs_per_day is not None
        rates = stream_rates(scenario, self.name)
        rng = stream(scenario.seed, "workload", self.name, 0)
        submit_ms = np.sort(draw_submissions(rng, rates, spec.jobs_per_day), kind="stable")
        return self._recurrences(submit_ms)

    def _recurrences(self, submit_ms: Int64Array) -> JobSeries:
        return recurrences_at(
            submit_ms,
            self._workloads,
            self._zeus,
            self.scenario.seed,
            self.name,
            n_recurring_jobs=self.spec.recurring_jobs,
            shares=self._shares(),
        )

    def _shares(self) -> list[float]:
        return [self.spec.workloads.get(w.spec.dataset, 1.0) for w in self._workloads]

    def _of_groups(self, groups: GroupTrace) -> JobSeries:
        """Return the group trace's jobs, repeated by its span in whole hours."""
        once = recurrences_of_groups(
            groups, self._workloads, self._zeus, self.scenario.seed, self.name
        )
        period_ms = (int(once.submit_ms[-1]) // MS_PER_H + 1) * MS_PER_H
        tiles = range(-(-self.scenario.horizon_ms // period_ms))
        repeated = concat([_later(once, tile * period_ms) for tile in tiles])
        return repeated.take(repeated.submit_ms < self.scenario.horizon_ms)

    def _stream_classes(self) -> tuple[StreamClass, ...]:
        shares = np.array(self._shares())
        if self._groups is not None:
            submissions, _ = self._groups.submissions(self._workloads)
            shares = np.bincount(submissions.workload_id, minlength=len(self._workloads))
        shares = shares / shares.sum()
        return tuple(
            StreamClass(
                self.name,
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


def _later(series: JobSeries, delay_ms: int) -> JobSeries:
    columns = {name: getattr(series, name) for name, _ in series._dtypes()}
    return JobSeries(**{**columns, "submit_ms": series.submit_ms + delay_ms})


def _traces(train: str | None, power: str | None, folder: Path) -> TrainingTraces:
    if train is None or power is None:
        return _read(None, None)
    paths = folder / train, folder / power
    return _read(*paths, input_stamp(paths[0], "zeus.train"), input_stamp(paths[1], "zeus.power"))


@lru_cache(maxsize=4)
def _read(
    train: Path | None,
    power: Path | None,
    *stamps: Stamp,  # noqa: ARG001  # a changed file is read again
) -> TrainingTraces:
    if train is None or power is None:
        return synthetic_traces()
    return read_traces(train, power)


def _groups(name: str, folder: Path) -> GroupTrace:
    path = folder / name
    input_stamp(path, "zeus.groups")
    return read_groups(path)
