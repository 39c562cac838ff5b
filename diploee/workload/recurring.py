"""Jobs of a Zeus workload: recurrences with the run time and power that their optimizer chose."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from diploee.errors import WorkloadError
from diploee.profiles.flat import FLAT_POWER_W, flat_profile
from diploee.scenario import JobClass, Scenario
from diploee.streams import stream
from diploee.tables import Float64Array, concat
from diploee.units import MS_PER_DAY, MS_PER_H
from diploee.workload.arrivals import draw_submissions
from diploee.workload.jobs import JobTable, StreamClass
from diploee.workload.match import StreamMatch, Utilization, listed_utilization
from diploee.workload.rates import dispersed, hourly_rates
from diploee.workload.shelf import ProfileShelf
from diploee.workload.startup import draw_startups_ms
from diploee.zeus import (
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
        except WorkloadError as error:
            raise WorkloadError(f"streams.{name}.zeus: {error}") from error
        source = f"Zeus traces of {traces.gpu}: mean power of an epoch, no course in time"
        self._profile_id = shelf.index_of(
            flat_profile(PROFILE_ID, source, averaging_window_s=KNOWN_AS_MEAN_S)
        )
        if self._stream.startup is not None:
            shelf.flat()
        self.classes = self._stream_classes()

    def jobs(self, simulated: Utilization | None) -> tuple[JobTable, StreamMatch]:  # noqa: ARG002
        """Return all recurrences within the run, in the order of submission."""
        series = self._of_groups() if self.spec.groups is not None else self._of_calendar()
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
        stopped = {"stopped early or not converged": int((~series.converged).sum())}
        return jobs, StreamMatch(self.name, per_day, "recurring", None, listed, None, 0, stopped)

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
        rates = hourly_rates(spec.calendar, scenario.start, scenario.horizon_ms)
        if spec.dispersion is not None:
            rng = stream(scenario.seed, "workload", self.name, "dispersion")
            rates = dispersed(rates, spec.dispersion, rng)
        rng = stream(scenario.seed, "workload", self.name, 0)
        submit_ms = np.sort(draw_submissions(rng, rates, spec.jobs_per_day), kind="stable")
        shares = [self.spec.workloads.get(w.spec.dataset, 1.0) for w in self._workloads]
        try:
            return recurrences_at(
                submit_ms, self._workloads, self._zeus, scenario.seed, self.name,
                n_recurring_jobs=self.spec.recurring_jobs, shares=shares,
            )  # fmt: skip
        except WorkloadError as error:
            raise WorkloadError(f"streams.{self.name}.zeus: {error}") from error

    def _of_groups(self) -> JobSeries:
        """Return the group trace's jobs, repeated by its span in whole hours."""
        assert self.spec.groups is not None
        groups = read_groups(self.scenario.folder / self.spec.groups)
        once = recurrences_of_groups(
            groups, self._workloads, self._zeus, self.scenario.seed, self.name
        )
        period_ms = (int(once.submit_ms[-1]) // MS_PER_H + 1) * MS_PER_H
        tiles = range(-(-self.scenario.horizon_ms // period_ms))
        repeated = concat([_later(once, tile * period_ms) for tile in tiles])
        return repeated.take(repeated.submit_ms < self.scenario.horizon_ms)

    def _stream_classes(self) -> tuple[StreamClass, ...]:
        shares = np.array([self.spec.workloads.get(w.spec.dataset, 1.0) for w in self._workloads])
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
    return _read(folder / train, folder / power)


@lru_cache(maxsize=4)
def _read(train: Path | None, power: Path | None) -> TrainingTraces:
    if train is None or power is None:
        return synthetic_traces()
    return read_traces(train, power)
