"""Job generation: calendar rates, job draws, bisection of the daily job count (section 2.3.1).

One set of random numbers is drawn and thinned: every candidate job carries a mark, the daily job
count from which on it belongs to the list. The list grows with the count, job by job, so that the
estimated utilization is monotone and the bisection can't oscillate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diploee.errors import WorkloadError
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.streams import stream
from diploee.tables import Float64Array, Int64Array, concat
from diploee.units import MS_PER_DAY
from diploee.workload.bisection import bisect
from diploee.workload.jobs import JobTable, StreamClass, stream_classes
from diploee.workload.rates import HourlyRates, hourly_rates

LAYER_MARGIN = 1.05
"""Candidates drawn in one layer over the expected need; short spans may need a second layer."""

MAX_LAYERS = 16
SIMULATED_TOLERANCE = 1e-4
"""Accepted distance of the simulated utilization from its target (absolute)."""

Utilization = Callable[[JobTable], float]


@dataclass(frozen=True)
class StreamMatch:
    """How a stream's daily job count came about.

    Parameters
    ----------
    stream : str
        Name of the stream.
    jobs_per_day : float
        Daily job count, mean over the span.
    match : {"list", "simulated", "given"}
        What was matched.
    target_utilization : float or None
        Node occupancy asked for, 0-1.
    matched_utilization : float
        Node occupancy estimated from the list, or simulated where that is matched, 0-1.
    residual : float or None
        Matched less target.
    steps : int
        Evaluations of the bisection.
    """

    stream: str
    jobs_per_day: float
    match: str
    target_utilization: float | None
    matched_utilization: float
    residual: float | None
    steps: int


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of a run and how their number was found."""

    jobs: JobTable
    classes: tuple[StreamClass, ...]
    matches: tuple[StreamMatch, ...]


def generate_jobs(
    scenario: Scenario, library: ProfileLibrary, simulated_utilization: Utilization | None = None
) -> Workload:
    """Generate the list of jobs of all streams.

    Parameters
    ----------
    scenario : Scenario
        What to generate.
    library : ProfileLibrary
        Profiles that the classes draw from; they give the durations.
    simulated_utilization : callable, optional
        Schedules a job table and returns the mean node occupancy (0-1) of its pool; needed where a
        stream has ``match: simulated``.

    Returns
    -------
    Workload
        Jobs in the order of submission; simultaneous ones in the order of their streams.

    Raises
    ------
    ProfileError
        If a class has no profile.
    WorkloadError
        If a target can't be reached; the text says by how much.
    """
    classes = stream_classes(scenario, library)
    lists, matches = [], []
    for name in scenario.streams:
        candidates = _Candidates(scenario, name, classes, library)
        jobs, match = candidates.match(simulated_utilization)
        lists.append(jobs)
        matches.append(match)
    merged = concat(lists) if lists else JobTable.empty()
    order = np.argsort(merged.submit_ms, kind="stable")
    ordered = merged.take(order)
    numbered = JobTable(
        job_id=np.arange(len(ordered)),
        submit_ms=ordered.submit_ms,
        n_nodes=ordered.n_nodes,
        duration_ms=ordered.duration_ms,
        pool_id=ordered.pool_id,
        class_id=ordered.class_id,
        profile_id=ordered.profile_id,
    )
    return Workload(numbered, classes, tuple(matches))


def listed_utilization(jobs: JobTable, n_nodes: int, horizon_ms: int) -> float:
    """Estimate the mean node occupancy from the list alone, as if every job started at once.

    Eq. 1 with N(t) from submissions and expected durations (section 2.3.1); a job that runs beyond
    the horizon counts up to it.
    """
    return float(_node_ms(jobs, horizon_ms).sum() / (n_nodes * horizon_ms))


def _node_ms(jobs: JobTable, horizon_ms: int) -> Int64Array:
    return jobs.n_nodes.astype(np.int64) * np.minimum(jobs.duration_ms, horizon_ms - jobs.submit_ms)


class _Candidates:
    """All jobs that a stream may submit, in layers, each job with its mark [jobs per day]."""

    def __init__(
        self,
        scenario: Scenario,
        name: str,
        classes: tuple[StreamClass, ...],
        library: ProfileLibrary,
    ) -> None:
        self.name = name
        self.seed = scenario.seed
        self.spec = scenario.streams[name]
        self.horizon_ms = scenario.horizon_ms
        self.pool_id = scenario.pool_names().index(self.spec.pool)
        self.pool_n_nodes = scenario.facility.pools[self.spec.pool].n_nodes
        self.rates = hourly_rates(self.spec.calendar, scenario.start, self.horizon_ms)
        self.classes = [(i, c) for i, c in enumerate(classes) if c.stream == name]
        self.duration_ms = np.array([entry.duration_ms for entry in library.entries])
        self.layer_jobs_per_day = LAYER_MARGIN * self._expected_jobs_per_day()

    def _expected_jobs_per_day(self) -> float:
        if self.spec.jobs_per_day is not None:
            return self.spec.jobs_per_day / LAYER_MARGIN
        assert self.spec.target_utilization is not None
        node_ms_per_job = sum(
            c.job_class.probability
            * c.job_class.n_nodes
            * np.minimum(self.duration_ms[list(c.profile_ids)], self.horizon_ms).mean()
            for _, c in self.classes
        )
        node_ms_per_day = self.spec.target_utilization * self.pool_n_nodes * MS_PER_DAY
        return float(node_ms_per_day / node_ms_per_job)

    def layer(self, number: int) -> tuple[JobTable, Float64Array]:
        """Draw one layer of candidates and their marks."""
        rng = stream(self.seed, "workload", self.name, number)
        submit_ms = _draw_submissions(rng, self.rates, self.layer_jobs_per_day)
        n_jobs = submit_ms.size
        mark = (number + rng.random(n_jobs)) * self.layer_jobs_per_day

        edges = np.cumsum([c.job_class.probability for _, c in self.classes])
        drawn = np.searchsorted(edges[:-1] / edges[-1], rng.random(n_jobs), side="right")
        n_profiles = np.array([len(c.profile_ids) for _, c in self.classes])
        replicate = (rng.random(n_jobs) * n_profiles[drawn]).astype(np.int64)
        profile_of = np.zeros((len(self.classes), n_profiles.max()), dtype=np.int32)
        for row, (_, c) in enumerate(self.classes):
            profile_of[row, : len(c.profile_ids)] = c.profile_ids
        profile_id = profile_of[drawn, replicate]
        jobs = JobTable(
            job_id=np.zeros(n_jobs, dtype=np.int64),  # numbered once the list is sorted
            submit_ms=submit_ms,
            n_nodes=np.array([c.job_class.n_nodes for _, c in self.classes])[drawn],
            duration_ms=self.duration_ms[profile_id],
            pool_id=np.full(n_jobs, self.pool_id),
            class_id=np.array([i for i, _ in self.classes])[drawn],
            profile_id=profile_id,
        )
        return jobs, mark

    def match(self, simulated: Utilization | None) -> tuple[JobTable, StreamMatch]:
        """Thin the candidates to the daily job count that is given or meets the target."""
        spec, target = self.spec, self.spec.target_utilization
        if target is None:
            assert spec.jobs_per_day is not None
            jobs, _ = self.layer(0)
            listed = listed_utilization(jobs, self.pool_n_nodes, self.horizon_ms)
            return jobs, StreamMatch(self.name, spec.jobs_per_day, "given", None, listed, None, 0)

        if spec.match == "list":
            jobs, mark, high = self._enough(self._listed, target, saturation=0.0)
            node_ms, capacity = _node_ms(jobs, self.horizon_ms), self.pool_n_nodes * self.horizon_ms
            tolerance = float(node_ms.mean()) / capacity / 2  # half a job

            def utilization(count: float) -> float:  # `listed_utilization` of the kept jobs
                return float(node_ms[mark < count].sum() / capacity)

        elif simulated is None:
            raise ValueError("match: simulated needs a function that simulates")
        else:
            tolerance = SIMULATED_TOLERANCE
            jobs, mark, high = self._enough(simulated, target, saturation=tolerance)

            def utilization(count: float) -> float:
                return simulated(jobs.take(mark < count))

        jobs_per_day, reached, steps = bisect(utilization, target, 0.0, high, tolerance)
        match = StreamMatch(
            self.name, jobs_per_day, spec.match, target, reached, reached - target, steps
        )
        return jobs.take(mark < jobs_per_day), match

    def _listed(self, jobs: JobTable) -> float:
        return listed_utilization(jobs, self.pool_n_nodes, self.horizon_ms)

    def _enough(
        self, measure: Utilization, target: float, saturation: float
    ) -> tuple[JobTable, Float64Array, float]:
        """Draw layers until all candidates together reach the target.

        Returns the candidates in the order of submission, their marks and the largest mark; raises
        `WorkloadError` where a further layer adds no more than `saturation`.
        """
        layers: list[tuple[JobTable, Float64Array]] = []
        before, reached = -1.0, 0.0
        while reached < target:
            if len(layers) == MAX_LAYERS or reached - before < saturation:
                raise WorkloadError(
                    f"streams.{self.name}: target utilization {target:g} can't be reached: "
                    f"{len(layers) * self.layer_jobs_per_day:,.0f} jobs a day reach {reached:.4f}, "
                    f"{target - reached:.4f} short; lower the target, flatten the calendar, or "
                    "use narrower or shorter jobs"
                )
            layers.append(self.layer(len(layers)))
            jobs = concat([jobs for jobs, _ in layers])
            mark = np.concatenate([mark for _, mark in layers])
            order = np.argsort(jobs.submit_ms, kind="stable")
            jobs, mark = jobs.take(order), mark[order]
            before, reached = reached, measure(jobs)
        return jobs, mark, len(layers) * self.layer_jobs_per_day


def _draw_submissions(
    rng: np.random.Generator, rates: HourlyRates, jobs_per_day: float
) -> Int64Array:
    """Draw a Poisson process: Poisson counts per clock hour, uniform milliseconds within it."""
    length_ms = np.diff(rates.edges_ms)
    n_jobs = rng.poisson(jobs_per_day / MS_PER_DAY * rates.relative_rate * length_ms)
    into_hour = rng.random(int(n_jobs.sum())) * np.repeat(length_ms, n_jobs)
    submit_ms: Int64Array = np.repeat(rates.edges_ms[:-1], n_jobs) + into_hour.astype(np.int64)
    return submit_ms
