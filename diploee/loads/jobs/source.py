"""`JobSource`: the source of one stream's jobs, drawn some hours at a time.

The module also has `StreamFrame`, the run's data that a source needs; `LibraryBuilder`,
which collects the profiles that sources add; and random submissions by a Poisson
process with a continuous rate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from diploee.base.clock import RunClock
from diploee.base.errors import Brief, ProfileError, WorkloadError, did_you_mean, plural
from diploee.base.jit import njit
from diploee.base.rng import named_rng, uniform_from_each
from diploee.base.tables import Float64Array, Int32Array, Int64Array
from diploee.base.units import HOURS_PER_DAY, MS_PER_DAY, MS_PER_H, MS_PER_S
from diploee.loads.jobs.rates import HourlyRates, hourly_rates, mean_from_ms
from diploee.profiles.derived import (
    gpus_text,
    is_other_hardware,
    origin_gpus,
    scale_by_tdp,
    stretch_profile,
)
from diploee.profiles.flat import flat_profile
from diploee.profiles.gpu_power_smoothing import smooth_profile
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.durations import DurationModel
from diploee.scenario.job_streams import JobClass, JobStream
from diploee.scenario.models import Scenario
from diploee.schedule.job_table import DRAW_MS, JobTable

MAX_JOBS = 2_000_000_000
"""Maximum number of jobs of a stream; a few hours of them are in memory at a time, some
50 bytes each."""

# Maximum start-up time of a job [ms]
MAX_STARTUP_MS = 24 * MS_PER_H

Utilization = Callable[[Iterable[JobTable]], float]
"""Function that schedules the jobs of a stream, one draw span (`DRAW_MS`) after
another, and returns the mean node occupancy of its pool, 0-1."""


def draw_spans(clock: RunClock) -> range:
    """Return the numbers of the draw spans of a run; span 0 begins at its start.

    The first span may be cut by the start of the simulation, and the last one by the
    end of the run.
    """
    return range(clock.begin_ms // DRAW_MS, -(-clock.horizon_ms // DRAW_MS))


class StreamFrame:
    """Run data that a stream of jobs needs, in addition to its specification.

    Nodes are counted in slots.
    """

    def __init__(self, name: str, scenario: Scenario) -> None:
        self.name, self.seed, self.clock = name, scenario.seed, scenario.clock
        spec, facility = scenario.streams[name], scenario.facility
        self.pool, self.mean_from_ms = (
            spec.pool,
            mean_from_ms(spec.calendar, self.clock),
        )
        pool_spec = facility.pools[self.pool]
        self.pool_id = list(facility.pools).index(self.pool)
        self.slots_per_node = facility.slots_per_node(self.pool)
        self.installed = pool_spec.installed(self.clock).times(self.slots_per_node)
        self.node_type = facility.node_type_of(self.pool)
        # True if the pool's scheduler uses the run times requested in a log
        self.uses_logged_estimates = (
            getattr(pool_spec.scheduler, "estimate", None) == "logged"
        )
        # True if profiles of other GPUs are scaled to the TDP of the pool's GPUs
        self.scales_by_tdp = pool_spec.scale_profiles == "by_tdp"

    @property
    def spans(self) -> range:
        """Numbers of the draw spans of the run."""
        return draw_spans(self.clock)

    def batches(self, n_spans: int) -> Iterator[range]:
        """Yield the run's draw spans as ranges of up to `n_spans`."""
        for first in range(0, len(self.spans), n_spans):
            yield self.spans[first : first + n_spans]

    @property
    def n_days(self) -> float:
        """Number of simulated days, including the warm-up."""
        return self.clock.simulated_ms / MS_PER_DAY

    @property
    def n_nodes(self) -> int:
        """Maximum number of nodes of the pool."""
        return self.installed.n_at_end

    @property
    def capacity_ms(self) -> int:
        """Node time of the installed nodes over the averaging period [node ms]."""
        return self.installed.node_ms(self.clock.horizon_ms, self.mean_from_ms)

    @property
    def mean_nodes(self) -> float:
        """Mean number of installed nodes over the averaging period."""
        return self.capacity_ms / self.mean_ms

    @property
    def mean_ms(self) -> int:
        """Length of the averaging period of a calendar's mean [ms].

        The period is the run, extended by the warm-up for short runs (see
        `mean_from_ms`).
        """
        return self.clock.horizon_ms - self.mean_from_ms


@dataclass(frozen=True)
class StreamClass:
    """Job class of one stream, and the library profiles that its jobs replay."""

    stream: str
    job_class: JobClass
    profile_ids: tuple[int, ...]

    @property
    def extrapolation_ratio(self) -> float:
        """Ratio of a job's nodes to the profile's nodes; 1 without scaling."""
        return self.job_class.n_nodes / self.job_class.profile_n_nodes


@dataclass(frozen=True)
class StreamMatch(Brief):
    """Daily job count of a stream, and its match with the target utilization."""

    stream: str  # name of the stream
    jobs_per_day: float  # mean daily job count of the run
    # Origin of the count: list, simulated, given, replayed, recurring or synchronous
    match: str
    # Target node occupancy, 0-1
    target_utilization: float | None
    # Node occupancy estimated from the job list, or simulated for `simulated`, 0-1
    matched_utilization: float
    residual: float | None = None  # matched minus target utilization
    steps: int = 0  # evaluations of the bisection
    # Number of a log's jobs dropped or changed, by cause
    counts: Mapping[str, int] = field(default_factory=dict)


class JobSource(ABC):
    """Source of the jobs of one stream.

    Call `set_job_count`, then `draws` repeatedly, then `match`.
    """

    kind: str  # name of the source in `StreamMatch.match`
    # Job classes; their profiles are indices into the extended library
    classes: tuple[StreamClass, ...]

    def __init__(self, stream: JobStream, frame: StreamFrame) -> None:
        self._stream, self._frame = stream, frame
        self.name, self.pool = frame.name, frame.pool
        # Number of a log's jobs dropped or changed on import, by cause
        self.imported: dict[str, int] = {}
        # Number of a log's jobs dropped or changed by the run, by cause
        self.counts: dict[str, int] = {}
        self._n_jobs = self._listed_ms = self._in_run_ms = 0

    @property
    @abstractmethod
    def jobs_per_day(self) -> float:
        """Expected number of jobs per day; it determines the window length."""

    @property
    @abstractmethod
    def asked_nodes(self) -> float:
        """Mean number of nodes occupied if each job started at its submission."""

    def set_job_count(self, simulated: Utilization | None) -> None:  # noqa: B027
        """Determine the number of submitted jobs.

        `simulated` is required for ``match: simulated``.
        """

    def draws(self, n_spans: int) -> Iterator[JobTable]:
        """Yield the submitted jobs of every `n_spans` draw spans (`DRAW_MS`).

        `class_id` is an index into `classes`. `job_id` is set when the streams are
        merged.
        """
        horizon_ms, from_ms = self._frame.clock.horizon_ms, self._frame.mean_from_ms
        self._n_jobs = self._listed_ms = self._in_run_ms = 0
        for jobs in self._draws(n_spans):
            self._n_jobs += int(np.count_nonzero(jobs.submit_ms >= 0))
            self._listed_ms += int(node_ms(jobs, horizon_ms, from_ms).sum())
            self._in_run_ms += int(node_ms(jobs, horizon_ms).sum())
            yield jobs
            del jobs  # frees memory before the next ones are drawn

    @abstractmethod
    def _draws(self, n_spans: int) -> Iterator[JobTable]:
        """Yield the submitted jobs of every `n_spans` draw spans."""

    def match(self) -> StreamMatch:
        """Return the job count of the stream, and its match with the target.

        The result is available after an iteration over `draws`.
        """
        per_day = self._n_jobs / (self._frame.clock.horizon_ms / MS_PER_DAY)
        counts = self.imported | self.counts
        return StreamMatch(
            self.name, per_day, self.kind, None, self._listed, counts=counts
        )

    @property
    def run_utilization(self) -> float:
        """Expected occupancy of the run, 0-1: the target, or the jobs' request."""
        spec, in_run = self._stream, not self._frame.mean_from_ms
        if spec.target_utilization is not None and (
            in_run or spec.match == "simulated"
        ):
            return spec.target_utilization
        return self._in_run_ms / self._frame.installed.node_ms(
            self._frame.clock.horizon_ms
        )

    @property
    def _listed(self) -> float:
        """Occupancy requested by the jobs, 0-1."""
        return self._listed_ms / self._frame.capacity_ms

    def _jobs(self, submit_ms: Int64Array, **columns: Any) -> JobTable:
        """Return a job table of the given columns and those common to the stream."""
        return JobTable(
            job_id=np.zeros(submit_ms.size, dtype=np.int64),
            submit_ms=submit_ms,
            pool_id=np.full(submit_ms.size, self._frame.pool_id),
            **columns,
        )

    def _startups_ms(self, n_jobs: Mapping[tuple[int, ...], int]) -> Int32Array:
        """Draw the times from allocation to the first power above idle [ms].

        The time is 0 without a start-up. `n_jobs` is the number of jobs to draw from
        each random stream, by the stream's name.
        """
        startup: DurationModel | None = self._stream.startup
        if startup is None:
            return np.zeros(sum(n_jobs.values()), dtype=np.int32)
        rngs = [
            named_rng(self._frame.seed, "startup", self.name, *name) for name in n_jobs
        ]
        drawn_ms = startup.draw_each(rngs, n_jobs.values()) * MS_PER_S
        return np.rint(np.minimum(drawn_ms, MAX_STARTUP_MS)).astype(np.int32)


def node_ms(jobs: JobTable, horizon_ms: int, from_ms: int = 0) -> Int64Array:
    """Return the node time of each job in a period, if started at once [node ms].

    The sum over jobs, divided by nodes and time, is the utilization (Eq. 1, section
    2.3.1 of the paper) if each job starts at its submission.
    """
    end_ms = np.minimum(jobs.submit_ms + jobs.duration_ms, horizon_ms)
    run_ms = np.maximum(end_ms - np.maximum(jobs.submit_ms, from_ms), 0)
    return jobs.n_nodes.astype(np.int64) * run_ms


def draw_profiles(
    classes: Sequence[StreamClass],
    class_id: npt.NDArray[np.integer],
    uniforms: Float64Array,
) -> Int32Array:
    """Return the profile of each job, chosen from its class by a uniform number."""
    n_profiles = np.array([len(c.profile_ids) for c in classes])
    replicate = (uniforms * n_profiles[class_id]).astype(np.int64)
    profile_table = np.zeros((len(classes), n_profiles.max()), dtype=np.int32)
    for row, c in enumerate(classes):
        profile_table[row, : len(c.profile_ids)] = c.profile_ids
    return profile_table[class_id, replicate]


def check_n_jobs(n_jobs: float, key: str, remedy: str) -> None:
    """Raise `WorkloadError` if a stream has too many jobs to simulate."""
    if not n_jobs <= MAX_JOBS:  # also NaN
        raise WorkloadError(
            f"{key}: {n_jobs:,.4g} jobs, more than {MAX_JOBS:,}; {remedy}"
        )


class LibraryBuilder:
    """Profile library under construction, in which existing indices stay valid."""

    def __init__(self, library: ProfileLibrary) -> None:
        self._library = library
        self._added: dict[str, PowerProfile] = {}

    @property
    def library(self) -> ProfileLibrary:
        """Library with all profiles added so far."""
        return (
            self._library.extended(self._added.values())
            if self._added
            else self._library
        )

    def index_of(self, profile: PowerProfile) -> int:
        """Return a profile's index; add the profile if its id is new."""
        self._added.setdefault(profile.profile_id, profile)
        return len(self._library) + list(self._added).index(profile.profile_id)

    def select(
        self, workload: str, n_nodes: int, frame: StreamFrame
    ) -> tuple[int, ...]:
        """Return the indices of a workload's profiles, adapted to a stream's nodes."""
        return self.adapted_to_nodes(self._library.select(workload, n_nodes), frame)

    def named(self, profile_id: str, frame: StreamFrame) -> tuple[int, ...]:
        """Return the index of a profile by id, adapted to a stream's nodes."""
        ids = self._library.ids
        if profile_id not in ids:
            raise ProfileError(
                f"no profile '{profile_id}' among the {len(ids)} of the library"
                f"{did_you_mean(profile_id, ids)}; add it (--profiles)"
            )
        return self.adapted_to_nodes((ids.index(profile_id),), frame)

    def adapted_to_nodes(
        self, profile_ids: tuple[int, ...], frame: StreamFrame
    ) -> tuple[int, ...]:
        """Return profiles for a stream's nodes, scaled if recorded with other GPUs."""
        node, entries = frame.node_type, self.library.entries
        other = [
            k for k in profile_ids if is_other_hardware(entries[k].provenance, node)
        ]
        # With a power factor, users scale the power to the hardware themselves.
        if not other or node.busy_power_factor != 1:
            return profile_ids
        if not frame.scales_by_tdp:
            raise ProfileError(
                f"pool '{frame.pool}' has nodes with "
                f"{gpus_text(node.n_gpus, node.gpu_tdp_w)}, "
                f"{plural(len(other), 'profile')} such as "
                f"'{entries[other[0]].profile_id}' are of nodes with "
                f"{origin_gpus(entries[other[0]].provenance)}; use profiles of these "
                "nodes (--profiles), or set "
                f"facility.pools.{frame.pool}.scale_profiles: by_tdp"
            )
        library = self.library
        return tuple(
            self.index_of(scale_by_tdp(library[k], node)) if k in other else k
            for k in profile_ids
        )

    def node_counts(self, workload: str) -> list[int]:
        """Return the node counts of a workload's profiles in the library."""
        return [e.n_nodes for e in self._library.entries if e.workload == workload]

    def variants(
        self, profile_ids: tuple[int, ...], spec: JobStream
    ) -> tuple[int, ...]:
        """Return a stream's profiles with slower and faster copies added."""
        if spec.profile_variants is None:
            return profile_ids
        library, factors = self.library, spec.profile_variants.time_factors()
        return tuple(
            index
            if factor == 1
            else self.index_of(stretch_profile(library[index], factor))
            for index in profile_ids
            for factor in factors
        )

    def smoothed(
        self, profile_ids: tuple[int, ...], spec: JobStream, frame: StreamFrame
    ) -> tuple[int, ...]:
        """Return profiles with the stream's GPU power smoothing applied."""
        if (smoothing := spec.power_smoothing) is None:
            return profile_ids
        library, node = self.library, frame.node_type
        return tuple(
            self.index_of(smooth_profile(library[k], smoothing, node))
            for k in profile_ids
        )

    def flat(self) -> int:
        """Return the index of the flat profile."""
        return self.index_of(flat_profile())


def stream_rates(spec: JobStream, frame: StreamFrame) -> HourlyRates:
    """Return a stream's calendar rates over the run, with random factors.

    Rates are proportional to the installed nodes; assumed: tenants arrive with their
    nodes. The hourly and daily factors are drawn once for all submissions of a stream,
    so that thinning does not change the dispersion.
    """
    name = ("workload", frame.name)
    random_factors = [
        (dispersion, per_day, partial(named_rng, frame.seed, *name, purpose))
        for purpose, dispersion, per_day in (
            ("dispersion", spec.dispersion, HOURS_PER_DAY),
            ("day dispersion", spec.day_dispersion, 1),
        )
        if dispersion is not None
    ]
    return hourly_rates(
        spec.calendar,
        frame.clock,
        frame.seed,
        *name,
        installed=frame.installed,
        random_factors=random_factors,
    )


def draw_submissions(
    rngs: Sequence[np.random.Generator], rates: HourlyRates, per_day: float
) -> tuple[Int64Array, list[int]]:
    """Draw the submission times of a Poisson process.

    The count of each clock hour is Poisson distributed, and the jobs are distributed
    within the hour in proportion to the rate. Each draw span (`DRAW_MS`) has its own
    generator, and hours are cut at its ends. Returns the sorted submissions [ms] and
    the count of each span.
    """
    hour_integrals, hour_span = rates.hour_integrals, rates.edges_ms[:-1] // DRAW_MS
    means = np.split(
        per_day / MS_PER_DAY * hour_integrals, np.flatnonzero(np.diff(hour_span)) + 1
    )
    hour_counts = [rng.poisson(mean) for rng, mean in zip(rngs, means, strict=True)]
    counts = [int(n.sum()) for n in hour_counts]
    # Given their number, the jobs are independent, and the fraction of the hour's
    # integral before each is uniform.
    submit_ms = np.empty(sum(counts), dtype=np.int64)
    first_segment = np.searchsorted(rates.points_ms, rates.edges_ms)
    fractions, jobs_per_hour = (
        uniform_from_each(rngs, counts),
        np.concatenate(hour_counts),
    )
    _find_times(
        fractions,
        jobs_per_hour,
        hour_integrals,
        first_segment,
        rates.points_ms,
        rates.point_rates,
        submit_ms,
    )
    return np.sort(submit_ms), counts


@njit()
def _find_times(
    fractions: Float64Array,
    jobs_per_hour: Int64Array,
    hour_integrals: Float64Array,
    first_segment: Int64Array,
    points_ms: Int64Array,
    point_rates: Float64Array,
    submit_ms: Int64Array,
) -> None:
    """Fill in the times at which fractions of each hour's integral are reached."""
    job = 0
    for hour in range(jobs_per_hour.size):
        for _ in range(jobs_per_hour[hour]):
            remaining = fractions[job] * hour_integrals[hour]
            segment = first_segment[hour]
            while True:
                length_ms = points_ms[segment + 1] - points_ms[segment]
                rate, rise = (
                    point_rates[segment],
                    point_rates[segment + 1] - point_rates[segment],
                )
                integral = (rate + rise / 2) * length_ms
                if remaining < integral or segment + 1 == first_segment[hour + 1]:
                    break
                remaining -= integral
                segment += 1
            # rate t + rise t**2 / (2 length) = remaining; this root suits every slope
            in_segment_ms = 0.0
            if remaining > 0:
                root = np.sqrt(max(rate**2 + 2 * rise / length_ms * remaining, 0.0))
                in_segment_ms = 2 * remaining / (rate + root)
            submit_ms[job] = points_ms[segment] + max(
                0, min(int(in_segment_ms), length_ms - 1)
            )
            job += 1
