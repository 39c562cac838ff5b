"""Synthetic jobs drawn from a calendar and classes; bisection of the daily count.

Random candidate jobs are drawn and thinned (section 2.3.1 of the paper): each candidate
has a random mark, and is in the job list if its mark is below a threshold proportional
to the daily job count. If the count rises, jobs are only added to the list, so that the
estimated utilization does not fall and the bisection can't oscillate.

Candidates are drawn in layers, as many as the count needs, and in time spans of
`DRAW_MS`. Each span of a layer has its own random generators and can be drawn again, so
that only some spans are in memory. Jobs that are submitted together as an array have
correlated run times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from diploee.base.errors import ProfileError, WorkloadError
from diploee.base.rng import named_rng, uniform_from_each
from diploee.base.tables import Float64Array, Int64Array, concat
from diploee.base.units import MS_PER_DAY, MS_PER_S
from diploee.loads.jobs.rates import bisect
from diploee.loads.jobs.source import (
    JobSource,
    LibraryBuilder,
    StreamClass,
    StreamFrame,
    StreamMatch,
    Utilization,
    check_n_jobs,
    draw_profiles,
    draw_submissions,
    node_ms,
    stream_rates,
)
from diploee.profiles.profile import PowerProfile
from diploee.scenario.durations import MAX_DURATION_S, DurationModel
from diploee.scenario.job_streams import JobClass, JobStream
from diploee.schedule.job_table import DRAW_MS, JobTable

LAYER_MARGIN = 1.05
"""Number of candidates in a layer relative to the expected need; short runs may need a
second layer."""

# Maximum number of layers of candidates
MAX_LAYERS = 16
PATIENCE = 3
"""Number of successive layers without progress after which a simulated target is out of
reach."""

SIMULATED_TOLERANCE = 1e-4
"""Accepted difference of the simulated utilization from its target (absolute)."""

MARKS = 1 << 32
"""Number of marks of a layer; a mark is proportional to a daily job count."""

BINS = 1 << 20
"""Number of bins of marks per layer in the bisection on the job list."""

AT_ONCE = 50_000
"""Number of candidates that the bisection on the job list draws at a time."""

MAX_RETAINED = 1_000_000
"""Maximum number of candidates stored during the bisection on the schedule, some 60
bytes each."""

Batches = Mapping[tuple[str, str], PowerProfile]
"""Profile of one batch of each class of offline inference, by stream and class."""

Candidates = tuple[JobTable, Int64Array]
"""Candidate jobs and their marks."""


class SyntheticJobs(JobSource):
    """Synthetic jobs of a stream: candidates in layers, and those submitted."""

    def __init__(
        self,
        spec: JobStream,
        frame: StreamFrame,
        builder: LibraryBuilder,
        batches: Batches,
    ) -> None:
        super().__init__(spec, frame)
        self._rates = stream_rates(spec, frame).cut_at(np.array(frame.spans) * DRAW_MS)
        self.classes = _stream_classes(spec, frame, builder, batches)
        self._duration_ms = np.array(
            [entry.duration_ms for entry in builder.library.entries]
        )
        per_node = frame.slots_per_node
        self._class_n_nodes = np.array(
            [c.job_class.slots(per_node) for c in self.classes]
        )
        self._class_priority = np.array(
            [c.job_class.priority or 0 for c in self.classes]
        )
        probabilities = [
            c.job_class.probability * c.job_class.submissions_per_job
            for c in self.classes
        ]
        self._class_edges = np.cumsum(probabilities)
        self._has_arrays = any(c.job_class.arrays is not None for c in self.classes)
        self._layer_jobs_per_day = LAYER_MARGIN * self._expected_jobs_per_day()
        n_expected = self._layer_jobs_per_day * frame.mean_ms / MS_PER_DAY
        n_candidates = self._layer_jobs_per_day * frame.n_days
        check_n_jobs(
            n_candidates,
            f"streams.{frame.name}",
            "ask for fewer or longer jobs, or shorten the run",
        )
        if spec.target_utilization is not None and n_expected < LAYER_MARGIN:
            job_utilization = spec.target_utilization / (n_expected / LAYER_MARGIN)
            raise WorkloadError(
                f"streams.{frame.name}: target utilization "
                f"{spec.target_utilization:g} is less than one job, which takes "
                f"{job_utilization:.3g} of the pool's node time on average; raise the "
                "target to that or above, or lengthen the run"
            )
        self._stored_candidates: dict[tuple[int, range], Candidates] | None = None
        if spec.match == "simulated" and n_candidates < MAX_RETAINED:
            self._stored_candidates = {}
        self._n_layers, self._threshold = 1, MARKS
        self._steps, self._simulated = 0, 0.0

    @property
    def jobs_per_day(self) -> float:
        """Mean number of jobs per day in the job list."""
        return self._threshold / MARKS * self._layer_jobs_per_day

    @property
    def asked_nodes(self) -> float:
        """Mean number of nodes requested by the target or the given job count."""
        if self._stream.target_utilization is not None:
            return self._stream.target_utilization * self._frame.mean_nodes
        return self.jobs_per_day * self._node_ms_per_job() / MS_PER_DAY

    def set_job_count(self, simulated: Utilization | None) -> None:
        """Set the daily job count, given or matched to the target."""
        target = self._stream.target_utilization
        if target is None:
            return  # all candidates of one layer
        if self._stream.match == "list":
            self._match_list(target)
        elif simulated is None:
            raise ValueError("match: simulated needs a function that simulates")
        else:
            self._match_simulated(target, simulated)
            self._stored_candidates = None

    def _draws(self, n_spans: int) -> Iterator[JobTable]:
        """Yield the submitted jobs of every `n_spans` draw spans."""
        for spans in self._frame.batches(n_spans):
            yield self._thinned_jobs(spans, self._n_layers, self._threshold)

    def match(self) -> StreamMatch:
        """Return the daily job count, and its match with the target."""
        name, spec, target = self.name, self._stream, self._stream.target_utilization
        if target is None:
            assert spec.jobs_per_day is not None
            return StreamMatch(name, spec.jobs_per_day, "given", None, self._listed)
        reached = self._listed if spec.match == "list" else self._simulated
        return StreamMatch(
            name,
            self.jobs_per_day,
            spec.match,
            target,
            reached,
            reached - target,
            self._steps,
        )

    def _match_list(self, target: float) -> None:
        """Match the target by bisection on the node time of the job list.

        The node time is summed by mark, in one pass per layer.
        """
        bin_node_ms, frame = np.empty(0, dtype=np.int64), self._frame
        n_candidates = 0
        spans_at_once = max(
            1, int(AT_ONCE * MS_PER_DAY / DRAW_MS / self._layer_jobs_per_day)
        )

        def add_layer(n_layers: int) -> float:
            """Add a layer; return the utilization of all candidates."""
            nonlocal bin_node_ms, n_candidates
            sums = np.zeros(BINS, dtype=np.int64)
            for spans in self._frame.batches(spans_at_once):
                jobs, mark = self._draw(n_layers - 1, spans)
                job_node_ms = node_ms(jobs, frame.clock.horizon_ms, frame.mean_from_ms)
                np.add.at(sums, mark % MARKS // (MARKS // BINS), job_node_ms)
                n_candidates += len(jobs)
            bin_node_ms = np.concatenate([bin_node_ms, sums])
            return float(bin_node_ms.sum()) / self._frame.capacity_ms

        self._add_layers(add_layer, target, patience=MAX_LAYERS)
        # U(x) = sum of n_i d_i over the jobs with marks below x, divided by nodes times
        # horizon (Eq. 1 as if each started at once): one cumulative sum by mark covers
        # the thinned lists of all x.
        below_ms = np.concatenate([[0], np.cumsum(bin_node_ms)])
        half_job_utilization = (
            float(below_ms[-1]) / max(n_candidates, 1) / self._frame.capacity_ms / 2
        )
        bin_edge, _, self._steps = bisect(
            lambda edge: float(below_ms[int(edge)]) / self._frame.capacity_ms,
            target,
            0.0,
            float(bin_node_ms.size),
            half_job_utilization,
        )
        self._threshold = int(bin_edge) * (MARKS // BINS)

    def _match_simulated(self, target: float, simulated: Utilization) -> None:
        """Match the target by bisection on the occupancy of the schedule.

        Each step schedules the thinned list again.
        """

        def utilization(threshold: float) -> float:
            """Return the simulated utilization of jobs with marks below a threshold."""
            max_mark = int(threshold)
            return simulated(
                self._thinned_jobs(span, self._n_layers, max_mark)
                for span in self._frame.batches(1)
            )

        def add_layer(n_layers: int) -> float:
            """Add a layer; return the simulated utilization of all candidates."""
            self._n_layers = n_layers
            return utilization(n_layers * MARKS)

        self._add_layers(add_layer, target - SIMULATED_TOLERANCE, patience=PATIENCE)
        threshold_found, self._simulated, self._steps = bisect(
            utilization, target, 0.0, float(self._n_layers * MARKS), SIMULATED_TOLERANCE
        )
        self._threshold = int(threshold_found)

    def _add_layers(
        self, add_layer: Callable[[int], float], target: float, patience: int
    ) -> None:
        """Add layers until all candidates together reach the target utilization.

        Raises `WorkloadError` after `patience` successive layers that did not raise the
        utilization. One such layer may be chance, as the occupancy of a full queue
        varies with the sizes of its jobs.
        """
        utilization, n_layers, best, best_layer = 0.0, 0, 0.0, 0
        while utilization < target:
            if n_layers == MAX_LAYERS or n_layers - best_layer >= patience:
                raise WorkloadError(self._out_of_reach(best, best_layer))
            n_layers += 1
            utilization = add_layer(n_layers)
            if utilization >= best + SIMULATED_TOLERANCE:
                best, best_layer = utilization, n_layers
        self._n_layers = n_layers

    def _out_of_reach(self, highest: float, n_layers: int) -> str:
        """Return the error message for a target that can't be reached."""
        reason = "the end of the run cuts jobs that begin late"
        if self._stream.match == "simulated":
            reason = "a job that waits for nodes holds up those behind it"
            if not self._frame.clock.warm_up_ms:
                reason = f"the pool begins empty, and {reason}"
        return (
            f"streams.{self.name}: target utilization "
            f"{self._stream.target_utilization:g} can't be reached: {highest:.4f} is "
            f"the most, of {n_layers * self._layer_jobs_per_day:,.0f} jobs a day "
            f"({reason}); "
            "lower the target to that, lengthen the run, flatten the calendar, or "
            "use narrower or shorter jobs"
        )

    def _thinned_jobs(self, spans: range, n_layers: int, threshold: int) -> JobTable:
        """Return the jobs of draw spans with marks below a threshold, by submission."""
        layers = []
        for layer in range(n_layers):
            jobs, mark = self._candidates(layer, spans)
            layers.append(
                jobs.take(mark < threshold) if threshold < (layer + 1) * MARKS else jobs
            )
        jobs_of_all = concat(layers)
        return (
            jobs_of_all
            if n_layers == 1
            else jobs_of_all.take(np.argsort(jobs_of_all.submit_ms, kind="stable"))
        )

    def _candidates(self, layer: int, spans: range) -> Candidates:
        """Return the candidates of draw spans of a layer, stored or drawn."""
        if self._stored_candidates is None:
            return self._draw(layer, spans)
        if (layer, spans) not in self._stored_candidates:
            self._stored_candidates[layer, spans] = self._draw(layer, spans)
        return self._stored_candidates[layer, spans]

    def _draw(self, layer: int, spans: range) -> Candidates:
        """Draw the candidates of draw spans of a layer, by submission, and their marks.

        The random numbers of each span come from its own generators.
        """
        frame, edges = self._frame, self._class_edges
        span_names = [
            (layer, frame.clock.date_ms(span_index * DRAW_MS)) for span_index in spans
        ]
        rngs = [
            named_rng(frame.seed, "workload", frame.name, *name) for name in span_names
        ]
        rates = self._rates.between(spans.start * DRAW_MS, spans.stop * DRAW_MS)
        per_day = self._layer_jobs_per_day
        if self._has_arrays:  # an array is one submission
            per_day *= edges[-1] / sum(c.job_class.probability for c in self.classes)
        submit_ms, counts = draw_submissions(rngs, rates, per_day)
        # The jobs with marks below x are a Poisson process with x / MARKS times the
        # rate of a layer (thinning, Lewis and Shedler 1979); a list of more jobs per
        # day contains every list of fewer.
        mark = layer * MARKS + np.concatenate(
            [rng.integers(0, MARKS, n) for rng, n in zip(rngs, counts, strict=True)]
        )
        class_id = np.searchsorted(
            edges[:-1] / edges[-1], uniform_from_each(rngs, counts), side="right"
        )
        span_index, array_id = (
            np.repeat(np.arange(len(spans)), counts),
            np.arange(submit_ms.size),
        )
        if self._has_arrays:
            size_rngs = (
                named_rng(frame.seed, "workload", frame.name, "arrays", *n)
                for n in span_names
            )
            uniforms = uniform_from_each(size_rngs, counts)
            array_id = np.repeat(
                array_id,
                _array_sizes([c.job_class for c in self.classes], class_id, uniforms),
            )
            submit_ms, mark, class_id, span_index = (
                x[array_id] for x in (submit_ms, mark, class_id, span_index)
            )
            counts = np.bincount(span_index, minlength=len(spans)).tolist()
        profile_id = draw_profiles(
            self.classes, class_id, uniform_from_each(rngs, counts)
        )
        startup_ms = self._startups_ms(dict(zip(span_names, counts, strict=True)))
        duration_ms: Int64Array = self._duration_ms[profile_id]
        self._draw_durations(duration_ms, span_names, class_id, span_index, array_id)
        jobs = self._jobs(
            submit_ms,
            n_nodes=self._class_n_nodes[class_id],
            duration_ms=duration_ms + startup_ms,
            class_id=class_id.astype(np.int16),
            profile_id=profile_id,
            startup_ms=startup_ms,
            power_factor=np.full(submit_ms.size, frame.node_type.busy_power_factor),
            priority=self._class_priority[class_id],
        )
        return jobs, mark

    def _draw_durations(
        self,
        duration_ms: Int64Array,
        span_names: Sequence[tuple[int, int]],
        class_id: Int64Array,
        span_index: Int64Array,
        array_id: Int64Array,
    ) -> None:
        """Draw run times for classes with a distribution, in place of the profiles'."""
        frame, array_size = self._frame, np.bincount(array_id)[array_id]
        for row, c in enumerate(self.classes):
            if (model := c.job_class.duration) is None:
                continue
            rows = np.flatnonzero(class_id == row)
            name = ("duration", frame.name, c.job_class.name)
            rngs = [
                named_rng(frame.seed, *name, *span_name) for span_name in span_names
            ]
            if (arrays := c.job_class.arrays) is not None:
                array_rows, rows = (
                    rows[array_size[rows] > 1],
                    rows[array_size[rows] == 1],
                )
                drawn_s = _draw_correlated(
                    arrays.duration or model,
                    arrays.run_time_correlation,
                    array_id[array_rows],
                    span_index[array_rows],
                    rngs,
                )
                duration_ms[array_rows] = np.maximum(np.rint(drawn_s * MS_PER_S), 1)
            counts = np.bincount(span_index[rows], minlength=len(rngs)).tolist()
            drawn_ms = np.rint(model.draw_each(rngs, counts) * MS_PER_S)
            duration_ms[rows] = np.maximum(drawn_ms, 1)

    def _expected_jobs_per_day(self) -> float:
        """Return the expected number of jobs per day of the job list."""
        if self._stream.jobs_per_day is not None:
            return self._stream.jobs_per_day / LAYER_MARGIN
        assert self._stream.target_utilization is not None
        node_ms_per_job = self._node_ms_per_job()
        if not node_ms_per_job > 0:
            return float("inf")
        node_ms_per_day = (
            self._stream.target_utilization * self._frame.mean_nodes * MS_PER_DAY
        )
        return float(node_ms_per_day / node_ms_per_job)

    def _node_ms_per_job(self) -> float:
        """Return the mean node time of a job [node ms]."""
        return sum(
            c.job_class.probability * float(n_nodes) * self._mean_duration_ms(c)
            for c, n_nodes in zip(
                self.classes, self._class_n_nodes.tolist(), strict=True
            )
        )

    def _mean_duration_ms(self, c: StreamClass) -> float:
        """Return the mean run time of a class, cut at the run's end [ms]."""
        horizon_ms = self._frame.mean_ms
        if c.job_class.duration is not None:
            mean_s = c.job_class.duration.mean_s(horizon_ms / MS_PER_S)
            if (
                arrays := c.job_class.arrays
            ) is not None and arrays.duration is not None:
                array_mean_s = arrays.duration.mean_s(horizon_ms / MS_PER_S)
                mean_s += arrays.job_share * (array_mean_s - mean_s)
            return mean_s * MS_PER_S
        profile_ms = np.minimum(self._duration_ms[list(c.profile_ids)], horizon_ms)
        return float(profile_ms.mean())


def _stream_classes(
    spec: JobStream, frame: StreamFrame, builder: LibraryBuilder, batches: Batches
) -> tuple[StreamClass, ...]:
    """Return the job classes of a stream with their profiles."""
    result = []
    for job_class in spec.job_classes():
        if job_class.batch_inference is not None:
            batch = batches[frame.name, job_class.name]
            result.append(_batch_class(job_class, frame, batch, builder))
            continue
        try:
            profile_ids = builder.select(
                job_class.workload, job_class.profile_n_nodes, frame
            )
        except ProfileError as error:
            raise ProfileError(f"class '{job_class.name}': {error}") from error
        profile_ids = builder.smoothed(builder.variants(profile_ids, spec), spec, frame)
        result.append(StreamClass(frame.name, job_class, profile_ids))
    return tuple(result)


def _batch_class(
    job_class: JobClass,
    frame: StreamFrame,
    batch: PowerProfile,
    builder: LibraryBuilder,
) -> StreamClass:
    """Return a class whose jobs repeat one batch until all tokens are generated."""
    assert job_class.batch_inference is not None
    run_s = (
        job_class.batch_inference.n_batches(job_class.n_nodes)
        * batch.duration_ms
        / MS_PER_S
    )
    if run_s > MAX_DURATION_S:
        raise WorkloadError(
            f"streams.{frame.name}: class '{job_class.name}': its batches take "
            f"{run_s:,.4g} s, more than {MAX_DURATION_S:,} s; ask for fewer tokens a "
            "job, or use more nodes"
        )
    constant = DurationModel(quantiles_s={0: run_s, 1: run_s})
    class_with_duration = job_class.model_copy(update={"duration": constant})
    profile_ids = builder.adapted_to_nodes((builder.index_of(batch),), frame)
    return StreamClass(frame.name, class_with_duration, profile_ids)


def _array_sizes(
    classes: Sequence[JobClass], class_id: Int64Array, uniforms: Float64Array
) -> Int64Array:
    """Return the number of jobs of each submission, from a uniform number."""
    n_jobs = np.ones(class_id.size, dtype=np.int64)
    for row, job_class in enumerate(classes):
        if (arrays := job_class.arrays) is None:
            continue
        sizes_by_rank = np.array([1, *arrays.sizes])
        n_arrays = (
            np.array(list(arrays.sizes.values())) * arrays.job_share / arrays.mean_size
        )
        edges = np.cumsum([1 - arrays.job_share, *n_arrays])
        in_class = class_id == row
        n_jobs[in_class] = sizes_by_rank[
            np.searchsorted(edges[:-1] / edges[-1], uniforms[in_class], side="right")
        ]
    return n_jobs


def _draw_correlated(
    model: DurationModel,
    correlation: float,
    array_id: Int64Array,
    span_index: Int64Array,
    rngs: Sequence[np.random.Generator],
) -> Float64Array:
    """Draw run times that are correlated within arrays [s].

    The correlation is that of a Gaussian copula with one factor per array.
    """
    from scipy.special import ndtr

    is_first = np.diff(array_id, prepend=-1) != 0
    common, individual = (
        np.concatenate(
            [rng.standard_normal(n) for rng, n in zip(rngs, counts, strict=True)]
        )
        for counts in (
            np.bincount(x, minlength=len(rngs))
            for x in (span_index[is_first], span_index)
        )
    )
    score = (
        np.sqrt(correlation) * common[np.cumsum(is_first) - 1]
        + np.sqrt(1 - correlation) * individual
    )
    return model.quantile(np.clip(ndtr(score), 1e-15, 1 - 1e-15))
