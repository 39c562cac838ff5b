"""Jobs drawn from a calendar and classes, with the bisection of the daily count (section 2.3.1).

One set of random numbers is drawn and thinned: every candidate job carries a mark, the daily job
count from which on it belongs to the list. The list grows with the count, job by job, so that the
estimated utilization is monotone and the bisection can't oscillate.
"""

from __future__ import annotations

import numpy as np

from diploee.errors import ProfileError, WorkloadError
from diploee.scenario import Scenario
from diploee.streams import stream
from diploee.tables import Float64Array, Int32Array, Int64Array, concat
from diploee.units import MS_PER_DAY, MS_PER_S
from diploee.workload.arrivals import draw_submissions, stream_rates
from diploee.workload.bisection import bisect
from diploee.workload.jobs import JobTable, StreamClass, check_n_jobs, draw_profiles
from diploee.workload.match import StreamMatch, Utilization, listed_utilization, node_ms
from diploee.workload.shelf import ProfileShelf
from diploee.workload.startup import draw_startups_ms

LAYER_MARGIN = 1.05
"""Candidates drawn in one layer over the expected need; short spans may need a second layer."""

MAX_LAYERS = 16
SIMULATED_TOLERANCE = 1e-4
"""Accepted distance of the simulated utilization from its target (absolute)."""


class DrawnJobs:
    """All jobs that a stream may submit, in layers, each job with its mark [jobs per day].

    Parameters
    ----------
    scenario : Scenario
        What to generate.
    name : str
        The stream.
    shelf : ProfileShelf
        Profiles that the classes draw from; variants of them are added.

    Raises
    ------
    ProfileError
        If there is no profile for a class.
    """

    def __init__(self, scenario: Scenario, name: str, shelf: ProfileShelf) -> None:
        self.name = name
        self.seed = scenario.seed
        self.spec = scenario.streams[name]
        self.horizon_ms = scenario.horizon_ms
        self.pool_id = scenario.pool_names().index(self.spec.pool)
        self.pool_n_nodes = scenario.facility.pools[self.spec.pool].n_nodes
        self.rates = stream_rates(scenario, name)
        self.classes = self._stream_classes(shelf)
        if self.spec.startup is not None:
            shelf.flat()
        self.duration_ms = np.array([entry.duration_ms for entry in shelf.library.entries])
        self.layer_jobs_per_day = LAYER_MARGIN * self._expected_jobs_per_day()
        check_n_jobs(
            self.layer_jobs_per_day * self.horizon_ms / MS_PER_DAY,
            f"streams.{name}",
            "ask for fewer or longer jobs, or shorten the run",
        )

    def _stream_classes(self, shelf: ProfileShelf) -> tuple[StreamClass, ...]:
        found = []
        for job_class in self.spec.job_classes():
            try:
                profile_ids = shelf.select(job_class.workload, job_class.profile_n_nodes)
            except ProfileError as error:
                raise ProfileError(f"class '{job_class.name}': {error}") from error
            if self.spec.profile_variants is not None:
                profile_ids = shelf.variants(profile_ids, self.spec.profile_variants)
            found.append(StreamClass(self.name, job_class, profile_ids))
        return tuple(found)

    def _expected_jobs_per_day(self) -> float:
        if self.spec.jobs_per_day is not None:
            return self.spec.jobs_per_day / LAYER_MARGIN
        assert self.spec.target_utilization is not None
        node_ms_per_job = sum(
            c.job_class.probability * c.job_class.n_nodes * self._mean_duration_ms(c)
            for c in self.classes
        )
        if not node_ms_per_job > 0:
            return float("inf")
        node_ms_per_day = self.spec.target_utilization * self.pool_n_nodes * MS_PER_DAY
        return float(node_ms_per_day / node_ms_per_job)

    def _mean_duration_ms(self, c: StreamClass) -> float:
        if c.job_class.duration is not None:
            return c.job_class.duration.mean_s(self.horizon_ms / MS_PER_S) * MS_PER_S
        own_ms = np.minimum(self.duration_ms[list(c.profile_ids)], self.horizon_ms)
        return float(own_ms.mean())

    def layer(self, number: int) -> tuple[JobTable, Float64Array]:
        """Draw one layer of candidates and their marks."""
        rng = stream(self.seed, "workload", self.name, number)
        submit_ms = draw_submissions(rng, self.rates, self.layer_jobs_per_day)
        n_jobs = submit_ms.size
        mark = (number + rng.random(n_jobs)) * self.layer_jobs_per_day

        edges = np.cumsum([c.job_class.probability for c in self.classes])
        drawn = np.searchsorted(edges[:-1] / edges[-1], rng.random(n_jobs), side="right")
        profile_id = draw_profiles(self.classes, drawn, rng)
        startup_ms = draw_startups_ms(self.spec.startup, n_jobs, self.seed, self.name, number)
        jobs = JobTable(
            job_id=np.zeros(n_jobs, dtype=np.int64),  # numbered once the list is sorted
            submit_ms=submit_ms,
            n_nodes=np.array([c.job_class.n_nodes for c in self.classes])[drawn],
            duration_ms=self._durations_ms(number, drawn, profile_id) + startup_ms,
            pool_id=np.full(n_jobs, self.pool_id),
            class_id=drawn.astype(np.int16),
            profile_id=profile_id,
            startup_ms=startup_ms,
        )
        return jobs, mark

    def _durations_ms(self, number: int, drawn: Int64Array, profile_id: Int32Array) -> Int64Array:
        """Return the run times: those of the profiles, or drawn where the class says how."""
        duration_ms: Int64Array = self.duration_ms[profile_id]
        for row, c in enumerate(self.classes):
            if (model := c.job_class.duration) is not None:
                rows = np.flatnonzero(drawn == row)
                rng = stream(self.seed, "duration", self.name, c.job_class.name, number)
                drawn_ms = np.rint(model.draw(rng, rows.size) * MS_PER_S)
                duration_ms[rows] = np.maximum(drawn_ms, 1)
        return duration_ms

    def jobs(self, simulated: Utilization | None) -> tuple[JobTable, StreamMatch]:
        """Thin the candidates to the daily job count that is given or meets the target."""
        spec, target = self.spec, self.spec.target_utilization
        if target is None:
            assert spec.jobs_per_day is not None
            jobs, _ = self.layer(0)
            listed = listed_utilization(jobs, self.pool_n_nodes, self.horizon_ms)
            return jobs, StreamMatch(self.name, spec.jobs_per_day, "given", None, listed, None, 0)

        if spec.match == "list":
            jobs, mark, high = self._enough(self._listed, target, saturation=0.0)
            asked_ms, capacity = node_ms(jobs, self.horizon_ms), self.pool_n_nodes * self.horizon_ms
            tolerance = float(asked_ms.mean()) / capacity / 2  # half a job

            def utilization(count: float) -> float:  # `listed_utilization` of the kept jobs
                return float(asked_ms[mark < count].sum() / capacity)

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
