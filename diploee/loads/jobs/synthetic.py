"""Jobs drawn from a calendar and classes, with bisection of the daily count (2.3.1).

One set of random numbers is drawn and thinned: every candidate job carries a mark, and
belongs to the list if its mark lies below the daily job count. The list grows with the
count, job by job, so that the estimated utilization is monotone and the bisection can't
oscillate.

Candidates are drawn some spans (`DRAW_MS`) at a time and layer by layer, each span of a
layer from random streams of its own: it can be drawn again at any time, and no more
than one must be held. Jobs that are submitted together, as an array, have run times
that are alike.
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
"""Candidates drawn in one layer over the expected need; short spans may need a second
layer."""

MAX_LAYERS = 16
PATIENCE = 3
"""Layers in turn that may add next to nothing before a simulated target is out of
reach."""

SIMULATED_TOLERANCE = 1e-4
"""Accepted distance of the simulated utilization from its target (absolute)."""

MARKS = 1 << 32
"""Marks of a layer are whole numbers below this; in proportion to the daily job count."""  # noqa: E501

BINS = 1 << 20
"""Number of bins into which the bisection on the list resolves a layer's marks."""

AT_ONCE = 50_000
"""Candidates that the bisection on the list draws at a time."""

MAX_RETAINED = 1_000_000
"""Most candidates that the bisection on the schedule keeps, some 60 bytes each."""

Batches = Mapping[tuple[str, str], PowerProfile]
"""One batch of each class of offline inference, by the names of stream and class."""

Candidates = tuple[JobTable, Int64Array]
"""Jobs and the mark of each."""


class SyntheticJobs(JobSource):
    """All jobs that a stream may submit, in layers, and those it does."""

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
        shares = [
            c.job_class.probability * c.job_class.submissions_per_job
            for c in self.classes
        ]
        self._edges = np.cumsum(shares)
        self._arrays = any(c.job_class.arrays is not None for c in self.classes)
        self._layer_jobs_per_day = LAYER_MARGIN * self._expected_jobs_per_day()
        expected = self._layer_jobs_per_day * frame.mean_ms / MS_PER_DAY
        simulated = self._layer_jobs_per_day * frame.n_days
        check_n_jobs(
            simulated,
            f"streams.{frame.name}",
            "ask for fewer or longer jobs, or shorten the run",
        )
        if spec.target_utilization is not None and expected < LAYER_MARGIN:
            of_a_job = spec.target_utilization / (expected / LAYER_MARGIN)
            raise WorkloadError(
                f"streams.{frame.name}: target utilization "
                f"{spec.target_utilization:g} is less than one job, which takes "
                f"{of_a_job:.3g} of the pool's node time on average; raise the target "
                "to that or above, or lengthen the run"
            )
        self._kept: dict[tuple[int, range], Candidates] | None = None
        if spec.match == "simulated" and simulated < MAX_RETAINED:
            self._kept = {}
        self._n_layers, self._threshold = 1, MARKS
        self._steps, self._simulated = 0, 0.0

    @property
    def jobs_per_day(self) -> float:
        """Mean jobs a day that the list asks for."""
        return self._threshold / MARKS * self._layer_jobs_per_day

    @property
    def asked_nodes(self) -> float:
        """Nodes of the target, or those that the jobs given ask for on average."""
        if self._stream.target_utilization is not None:
            return self._stream.target_utilization * self._frame.mean_nodes
        return self.jobs_per_day * self._node_ms_per_job() / MS_PER_DAY

    def settle(self, simulated: Utilization | None) -> None:
        """Find the daily job count that is given or meets the target."""
        target = self._stream.target_utilization
        if target is None:
            return  # one layer, whole
        if self._stream.match == "list":
            self._match_list(target)
        elif simulated is None:
            raise ValueError("match: simulated needs a function that simulates")
        else:
            self._match_simulated(target, simulated)
            self._kept = None

    def _draws(self, n_spans: int) -> Iterator[JobTable]:
        for spans in self._frame.batches(n_spans):
            yield self._jobs_of(spans, self._n_layers, self._threshold)

    def match(self) -> StreamMatch:
        """Return how the daily job count was found, and what was reached."""
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
        """Bisect on the node time of the list, summed by mark in one pass a layer."""
        of_bins, frame = np.empty(0, dtype=np.int64), self._frame
        n_candidates = 0
        at_once = max(1, int(AT_ONCE * MS_PER_DAY / DRAW_MS / self._layer_jobs_per_day))

        def add_layer(n_layers: int) -> float:
            nonlocal of_bins, n_candidates
            sums = np.zeros(BINS, dtype=np.int64)
            for spans in self._frame.batches(at_once):
                jobs, mark = self._draw(n_layers - 1, spans)
                asked_ms = node_ms(jobs, frame.clock.horizon_ms, frame.mean_from_ms)
                np.add.at(sums, mark % MARKS // (MARKS // BINS), asked_ms)
                n_candidates += len(jobs)
            of_bins = np.concatenate([of_bins, sums])
            return float(of_bins.sum()) / self._frame.capacity_ms

        self._add_layers(add_layer, target, patience=MAX_LAYERS)
        # U(x) = sum of n_i d_i over the jobs with marks below x, over nodes times
        # horizon (Eq. 1 as if each started at once): one cumulative sum by mark has the
        # thinned lists of all x.
        below_ms = np.concatenate([[0], np.cumsum(of_bins)])
        half_a_job = (
            float(below_ms[-1]) / max(n_candidates, 1) / self._frame.capacity_ms / 2
        )
        found, _, self._steps = bisect(
            lambda edge: float(below_ms[int(edge)]) / self._frame.capacity_ms,
            target,
            0.0,
            float(of_bins.size),
            half_a_job,
        )
        self._threshold = int(found) * (MARKS // BINS)

    def _match_simulated(self, target: float, simulated: Utilization) -> None:
        """Bisect on the occupancy of the schedule.

        Each step schedules the thinned list anew.
        """

        def utilization(threshold: float) -> float:
            kept = int(threshold)
            return simulated(
                self._jobs_of(span, self._n_layers, kept)
                for span in self._frame.batches(1)
            )

        def add_layer(n_layers: int) -> float:
            self._n_layers = n_layers
            return utilization(n_layers * MARKS)

        self._add_layers(add_layer, target - SIMULATED_TOLERANCE, patience=PATIENCE)
        result, self._simulated, self._steps = bisect(
            utilization, target, 0.0, float(self._n_layers * MARKS), SIMULATED_TOLERANCE
        )
        self._threshold = int(result)

    def _add_layers(
        self, add_layer: Callable[[int], float], target: float, patience: int
    ) -> None:
        """Draw layers until all candidates together reach the target.

        Raises `WorkloadError` where `patience` layers in turn added next to nothing to
        the best. One alone says little: in a queue that never empties, jobs pack better
        or worse by chance.
        """
        reached, n_layers, best, best_at = 0.0, 0, 0.0, 0
        while reached < target:
            if n_layers == MAX_LAYERS or n_layers - best_at >= patience:
                raise WorkloadError(self._out_of_reach(best, best_at))
            n_layers += 1
            reached = add_layer(n_layers)
            if reached >= best + SIMULATED_TOLERANCE:
                best, best_at = reached, n_layers
        self._n_layers = n_layers

    def _out_of_reach(self, best: float, n_layers: int) -> str:
        why = "the end of the run cuts jobs that begin late"
        if self._stream.match == "simulated":
            why = "a job that waits for nodes holds up those behind it"
            if not self._frame.clock.warm_up_ms:
                why = f"the pool begins empty, and {why}"
        return (
            f"streams.{self.name}: target utilization "
            f"{self._stream.target_utilization:g} can't be reached: {best:.4f} is the "
            f"most, of {n_layers * self._layer_jobs_per_day:,.0f} jobs a day ({why}); "
            "lower the target to that, lengthen the run, flatten the calendar, or "
            "use narrower or shorter jobs"
        )

    def _jobs_of(self, spans: range, n_layers: int, threshold: int) -> JobTable:
        """Return the jobs of spans with marks below a threshold, as submitted."""
        kept = []
        for layer in range(n_layers):
            jobs, mark = self._candidates(layer, spans)
            kept.append(
                jobs.take(mark < threshold) if threshold < (layer + 1) * MARKS else jobs
            )
        joined = concat(kept)
        return (
            joined
            if n_layers == 1
            else joined.take(np.argsort(joined.submit_ms, kind="stable"))
        )

    def _candidates(self, layer: int, spans: range) -> Candidates:
        if self._kept is None:
            return self._draw(layer, spans)
        if (layer, spans) not in self._kept:
            self._kept[layer, spans] = self._draw(layer, spans)
        return self._kept[layer, spans]

    def _draw(self, layer: int, spans: range) -> Candidates:
        """Draw the candidates of spans of one layer, as submitted, and their marks.

        Only the random numbers come span by span, from generators of their own.
        """
        frame, edges = self._frame, self._edges
        names = [(layer, frame.clock.date_ms(span * DRAW_MS)) for span in spans]
        rngs = [named_rng(frame.seed, "workload", frame.name, *name) for name in names]
        rates = self._rates.between(spans.start * DRAW_MS, spans.stop * DRAW_MS)
        per_day = self._layer_jobs_per_day
        if self._arrays:  # an array is one submission
            per_day *= edges[-1] / sum(c.job_class.probability for c in self.classes)
        submit_ms, counts = draw_submissions(rngs, rates, per_day)
        # The jobs with marks below x are a Poisson process of x / MARKS times the rate
        # of a layer (thinning, Lewis and Shedler 1979); more jobs a day keep all jobs
        # of fewer.
        mark = layer * MARKS + np.concatenate(
            [rng.integers(0, MARKS, n) for rng, n in zip(rngs, counts, strict=True)]
        )
        drawn = np.searchsorted(
            edges[:-1] / edges[-1], uniform_from_each(rngs, counts), side="right"
        )
        span, array = (
            np.repeat(np.arange(len(spans)), counts),
            np.arange(submit_ms.size),
        )
        if self._arrays:
            of_sizes = (
                named_rng(frame.seed, "workload", frame.name, "arrays", *n)
                for n in names
            )
            level = uniform_from_each(of_sizes, counts)
            array = np.repeat(
                array, _sizes([c.job_class for c in self.classes], drawn, level)
            )
            submit_ms, mark, drawn, span = (
                x[array] for x in (submit_ms, mark, drawn, span)
            )
            counts = np.bincount(span, minlength=len(spans)).tolist()
        profile_id = draw_profiles(self.classes, drawn, uniform_from_each(rngs, counts))
        startup_ms = self._startups_ms(dict(zip(names, counts, strict=True)))
        duration_ms: Int64Array = self._duration_ms[profile_id]
        self._draw_durations(duration_ms, names, drawn, span, array)
        jobs = self._jobs(
            submit_ms,
            n_nodes=self._class_n_nodes[drawn],
            duration_ms=duration_ms + startup_ms,
            class_id=drawn.astype(np.int16),
            profile_id=profile_id,
            startup_ms=startup_ms,
            power_factor=np.full(submit_ms.size, frame.node_type.busy_power_factor),
            priority=self._class_priority[drawn],
        )
        return jobs, mark

    def _draw_durations(
        self,
        duration_ms: Int64Array,
        names: Sequence[tuple[int, int]],
        drawn: Int64Array,
        span: Int64Array,
        array: Int64Array,
    ) -> None:
        """Draw run times in place of the profiles' where a class says how."""
        frame, size = self._frame, np.bincount(array)[array]
        for row, c in enumerate(self.classes):
            if (model := c.job_class.duration) is None:
                continue
            rows = np.flatnonzero(drawn == row)
            name = ("duration", frame.name, c.job_class.name)
            rngs = [named_rng(frame.seed, *name, *of_span) for of_span in names]
            if (alike := c.job_class.arrays) is not None:
                together, rows = rows[size[rows] > 1], rows[size[rows] == 1]
                drawn_s = _draw_alike(
                    alike.duration or model,
                    alike.run_time_correlation,
                    array[together],
                    span[together],
                    rngs,
                )
                duration_ms[together] = np.maximum(np.rint(drawn_s * MS_PER_S), 1)
            counts = np.bincount(span[rows], minlength=len(rngs)).tolist()
            drawn_ms = np.rint(model.draw_each(rngs, counts) * MS_PER_S)
            duration_ms[rows] = np.maximum(drawn_ms, 1)

    def _expected_jobs_per_day(self) -> float:
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
        return sum(
            c.job_class.probability * float(n_nodes) * self._mean_duration_ms(c)
            for c, n_nodes in zip(
                self.classes, self._class_n_nodes.tolist(), strict=True
            )
        )

    def _mean_duration_ms(self, c: StreamClass) -> float:
        horizon_ms = self._frame.mean_ms
        if c.job_class.duration is not None:
            mean_s = c.job_class.duration.mean_s(horizon_ms / MS_PER_S)
            if (
                arrays := c.job_class.arrays
            ) is not None and arrays.duration is not None:
                of_arrays_s = arrays.duration.mean_s(horizon_ms / MS_PER_S)
                mean_s += arrays.job_share * (of_arrays_s - mean_s)
            return mean_s * MS_PER_S
        own_ms = np.minimum(self._duration_ms[list(c.profile_ids)], horizon_ms)
        return float(own_ms.mean())


def _stream_classes(
    spec: JobStream, frame: StreamFrame, builder: LibraryBuilder, batches: Batches
) -> tuple[StreamClass, ...]:
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
    """Return a class whose jobs repeat one batch until all tokens are there."""
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
    always = DurationModel(quantiles_s={0: run_s, 1: run_s})
    timed = job_class.model_copy(update={"duration": always})
    profile_ids = builder.adapted_to_nodes((builder.index_of(batch),), frame)
    return StreamClass(frame.name, timed, profile_ids)


def _sizes(
    classes: Sequence[JobClass], class_id: Int64Array, level: Float64Array
) -> Int64Array:
    """Return how many jobs each submission has, by a random number of 0-1."""
    sizes = np.ones(class_id.size, dtype=np.int64)
    for row, job_class in enumerate(classes):
        if (arrays := job_class.arrays) is None:
            continue
        known = np.array([1, *arrays.sizes])
        n_arrays = (
            np.array(list(arrays.sizes.values())) * arrays.job_share / arrays.mean_size
        )
        edges = np.cumsum([1 - arrays.job_share, *n_arrays])
        own = class_id == row
        sizes[own] = known[
            np.searchsorted(edges[:-1] / edges[-1], level[own], side="right")
        ]
    return sizes


def _draw_alike(
    model: DurationModel,
    correlation: float,
    array: Int64Array,
    span: Int64Array,
    rngs: Sequence[np.random.Generator],
) -> Float64Array:
    """Draw run times that correlate within arrays.

    A Gaussian copula, one factor per array.
    """
    from scipy.special import ndtr

    first = np.diff(array, prepend=-1) != 0
    common, own = (
        np.concatenate(
            [rng.standard_normal(n) for rng, n in zip(rngs, counts, strict=True)]
        )
        for counts in (np.bincount(x, minlength=len(rngs)) for x in (span[first], span))
    )
    score = (
        np.sqrt(correlation) * common[np.cumsum(first) - 1]
        + np.sqrt(1 - correlation) * own
    )
    return model.quantile(np.clip(ndtr(score), 1e-15, 1 - 1e-15))
