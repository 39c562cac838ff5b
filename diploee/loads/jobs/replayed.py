"""Replay of a job log: logged jobs are submitted again.

The jobs are mapped to profiles, scaled, aligned with the run and repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import numpy as np

from diploee.base.errors import ProfileError, WorkloadError, did_you_mean
from diploee.base.rng import named_rng
from diploee.base.tables import (
    BoolArray,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    concat,
)
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_WEEK, SLOTS_PER_GPU
from diploee.loads.jobs.class_rules import UNMATCHED, assign_classes, nearest_n_nodes
from diploee.loads.jobs.job_log import (
    MISSING_MS,
    NO_GPU,
    REPORTED_RATIO,
    JobLog,
    JobRecords,
)
from diploee.loads.jobs.shuffled_weeks import ShuffledWeeks
from diploee.loads.jobs.source import (
    JobSource,
    LibraryBuilder,
    StreamClass,
    StreamFrame,
    Utilization,
    check_n_jobs,
    draw_profiles,
)
from diploee.profiles.flat import FLAT_POWER_W
from diploee.scenario.job_streams import JobClass, JobStream
from diploee.schedule.job_table import DRAW_MS, JobTable

COPY_SPREAD_MS = MS_PER_H
"""Maximum delay of a copy of a job (`rate_factor` above 1) after the original [ms]."""

MAX_SHIFT_MS = MS_PER_DAY
"""Maximum change of the local time's UTC offset since the start of the run [ms]."""

IDLE = "idle"
"""Workload of replayed jobs without GPUs, whose nodes draw idle power."""

_MONDAY = datetime(1970, 1, 5)
_EPOCH = datetime(1970, 1, 1)


class ReplayedJobs(JobSource):
    """Jobs of a stream with a `replay` block."""

    kind = "replayed"

    def __init__(
        self, spec: JobStream, frame: StreamFrame, builder: LibraryBuilder, log: JobLog
    ) -> None:
        assert spec.replay is not None
        super().__init__(spec, frame)
        self.spec, self._log = spec.replay, log
        is_known = not (log.is_naive or log.is_relative or log.dates_are_shifted)
        self._aligns_by_utc = self.spec.align == "date" and is_known
        self._aligns_by_local_time = (
            self.spec.align != "start" and not self._aligns_by_utc
        )
        self.imported = log.counts.by_cause(
            as_local=self._aligns_by_local_time and log.is_naive
        )
        self._profile_ids = tuple(sorted(set(self.spec.profiles.values())))
        # Rule indices: of the rules, of profiles of single jobs, and of idle power
        self._idle_rule = len(self.spec.rules) + len(self._profile_ids)
        # The log's jobs as the run submits them, with times since the first [ms]
        jobs, rule, self._origin_ms = self._prepare_jobs(log)
        self.classes, class_id = self._classes_in_use(builder, rule, jobs.n_nodes)
        self._logged = replace(jobs, class_id=class_id)
        self._last_ms = int(jobs.submit_ms.max())
        self._n_days = max((self._last_ms + 1) / MS_PER_DAY, 1)
        self._shuffled: ShuffledWeeks | None = None
        self._first_week = 0

    @property
    def jobs_per_day(self) -> float:
        """Mean number of jobs per day while the log is replayed."""
        return len(self._logged) * self.spec.rate_factor / self._n_days

    @property
    def asked_nodes(self) -> float:
        """Mean number of nodes requested by jobs while the log is replayed."""
        node_ms = float(
            (self._logged.n_nodes * self._logged.duration_ms.astype(np.float64)).sum()
        )
        return node_ms * self.spec.rate_factor / (self._n_days * MS_PER_DAY)

    def set_job_count(self, simulated: Utilization | None) -> None:  # noqa: ARG002
        """Align the log with the run."""
        clock = self._frame.clock
        self._first_ms, self._period_ms = self._first_and_period_ms()
        self._repetitions = range(1)
        # Also earlier repetitions, so that the run begins with running jobs
        if self.spec.repeat:
            before_ms = self._first_ms - clock.begin_ms
            after_ms = clock.horizon_ms + MAX_SHIFT_MS - self._first_ms
            self._repetitions = range(
                -_ceil_divide(before_ms, self._period_ms),
                _ceil_divide(after_ms, self._period_ms),
            )
        elif clock.warm_up_ms and clock.begin_ms < self._first_ms < clock.horizon_ms:
            before_h = max(-self._first_ms, 0) / MS_PER_H
            raise self._error(
                f": warm_up is {clock.warm_up_ms / MS_PER_H:g} h, {self.spec.log} has "
                f"{before_h:g} h before the start of the run; shorten warm_up or "
                "leave it out, or play the log repeatedly (repeat: true)"
            )
        check_n_jobs(
            len(self._logged) * len(self._repetitions) * self.spec.rate_factor,
            f"streams.{self.name}.replay",
            "lower rate_factor or shorten the run",
        )
        if not any(len(self._repetition_jobs(tile)) for tile in self._repetitions):
            raise self._error(
                f": no job of {self.spec.log} falls into the run "
                f"({self._spans_text()}); change start or duration of the run, or set "
                "align: start"
            )

    def _draws(self, n_spans: int) -> Iterator[JobTable]:
        """Yield the jobs of all repetitions in the run, some draw spans at a time."""
        upcoming, remaining = JobTable.empty(), list(self._repetitions)
        for spans in self._frame.batches(n_spans):
            end_ms = spans.stop * DRAW_MS
            while (
                remaining
                and self._first_ms + remaining[0] * self._period_ms
                < end_ms + MAX_SHIFT_MS
            ):
                upcoming = concat([upcoming, self._repetition_jobs(remaining.pop(0))])
            if (np.diff(upcoming.submit_ms) < 0).any():
                upcoming = upcoming.take(np.argsort(upcoming.submit_ms, kind="stable"))
            n_jobs = int(np.searchsorted(upcoming.submit_ms, end_ms))
            jobs, upcoming = (
                upcoming.take(slice(n_jobs)),
                upcoming.take(slice(n_jobs, None)),
            )
            yield jobs

    def _repetition_jobs(self, number: int) -> JobTable:
        """Return the jobs of one repetition that are submitted in the run."""
        rows, submit_ms = self._at_local_times(*self._repetition(number))
        frame, logged = self._frame, self._logged.take(rows)
        rng = named_rng(frame.seed, "replay", frame.name, "profile", number)
        jobs = replace(
            logged,
            submit_ms=submit_ms,
            profile_id=draw_profiles(
                self.classes, logged.class_id, rng.random(rows.size)
            ),
            # A logged run time is from allocation to end, with the start-up. Assumed
            # (judgement): the start-up is at most half of it.
            startup_ms=np.minimum(
                self._startups_ms({(number,): rows.size}), logged.duration_ms // 2
            ),
        )
        is_in_run = (submit_ms >= frame.clock.begin_ms) & (
            submit_ms < frame.clock.horizon_ms
        )
        if not self.spec.repeat:
            self._count("outside the run", int((~is_in_run).sum()))
        jobs_in_run = jobs.take(is_in_run)
        return jobs_in_run.take(np.argsort(jobs_in_run.submit_ms, kind="stable"))

    def _repetition(self, number: int) -> tuple[Int64Array, Int64Array]:
        """Return the log row and submission time of each job of a repetition.

        Repetition 0 is the whole log. The others repeat the log's whole weeks before
        and after repetition 0. Each repetition of a shuffled log is a week.
        """
        into_ms, factor = self._logged.submit_ms, self.spec.rate_factor
        shift_ms = number * self._period_ms
        rows = np.arange(into_ms.size)
        if self._shuffled is not None:
            rows, times_ms = self._shuffled.week(self._first_week + number)
            into_ms = np.zeros_like(into_ms)
            into_ms[rows] = times_ms
        elif number:
            times_ms = shift_ms + into_ms  # since the log's first job
            is_outside = (times_ms < 0) | (times_ms > self._last_ms)
            rows = np.flatnonzero((into_ms < self._period_ms) & is_outside)
        delay_ms = np.zeros(rows.size, dtype=np.int64)
        if factor != 1:
            rng = named_rng(self._frame.seed, "replay", self.name, "rate", number)
            rows = np.repeat(
                rows, np.floor(factor + rng.random(rows.size)).astype(np.int64)
            )
            is_copy = np.diff(rows, prepend=-1) == 0
            delay_ms = np.where(is_copy, rng.integers(0, COPY_SPREAD_MS, rows.size), 0)
        return rows, self._first_ms + shift_ms + into_ms[rows] + delay_ms

    def _at_local_times(
        self, rows: Int64Array, submit_ms: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return jobs at the times when the run's local time is theirs.

        Jobs in an hour skipped by daylight saving are dropped, and jobs in a repeated
        hour occur twice.
        """
        clock = self._frame.clock
        spans = clock.wall.constant_offset_spans(clock.begin_ms, clock.horizon_ms)
        if not self._aligns_by_local_time or len(spans) == 1:
            return rows, submit_ms
        start_shift_ms = int(clock.wall.local_ms(np.zeros(1, dtype=np.int64))[0])
        span_jobs = []
        for span in spans:
            times_ms = submit_ms + start_shift_ms - span.shift_ms
            is_in_span = (times_ms >= span.begin_ms) | (span is spans[0])
            is_in_span &= (times_ms < span.end_ms) | (span is spans[-1])
            span_jobs.append((rows[is_in_span], times_ms[is_in_span]))
        return np.concatenate([r for r, _ in span_jobs]), np.concatenate(
            [ms for _, ms in span_jobs]
        )

    def _prepare_jobs(self, log: JobLog) -> tuple[JobTable, Int16Array, int]:
        """Scale the log's jobs, and drop and count the jobs that cannot be replayed.

        Returns the jobs, their rules and the time of the first job, which is local if
        jobs are aligned by local time.
        """
        spec, records = self.spec, log.jobs
        rule = self._rules_with_power(
            log, assign_classes(records, log.types, spec.rules, log.labels)
        )
        time_ms = records.submit_ms if spec.starts == "queued" else records.start_ms
        n_nodes = records.slots(self._frame.slots_per_node, spec.node_factor)
        is_kept = self._replayable_mask(log, rule, time_ms, n_nodes)
        is_kept &= self._in_period(log, time_ms, is_kept)
        time_ms, records = time_ms[is_kept], records.take(is_kept)
        self._count_partial_node_jobs(records)
        if self._aligns_by_local_time and not log.is_relative:
            time_ms = log.zone.local_ms(time_ms)
        origin_ms = int(time_ms.min())
        duration_ms = np.rint(records.duration_ms * spec.duration_factor).astype(
            np.int64
        )
        node, zero = self._frame.node_type, np.zeros(time_ms.size, dtype=np.int64)
        jobs = self._jobs(
            np.rint((time_ms - origin_ms) * spec.time_factor).astype(np.int64),
            n_nodes=np.minimum(n_nodes[is_kept], self._frame.n_nodes).astype(np.int32),
            duration_ms=np.maximum(duration_ms, 1),
            class_id=zero,
            profile_id=zero,
            power_factor=np.where(
                rule[is_kept] == self._idle_rule,
                node.idle_power_w / FLAT_POWER_W,
                node.busy_power_factor,
            ),
            requested_ms=self._requested_ms(records),
            user_id=records.user_id,
        )
        return jobs, rule[is_kept], origin_ms

    def _replayable_mask(
        self, log: JobLog, rule: Int16Array, time_ms: Int64Array, n_nodes: Float64Array
    ) -> BoolArray:
        """Return a mask of the jobs that can be replayed.

        Jobs that need more nodes than the pool has are handled by the option
        `too_wide`.
        """
        spec, records = self.spec, log.jobs
        missing = "a submission" if spec.starts == "queued" else "a start"
        is_kept: BoolArray = time_ms != MISSING_MS
        is_unmatched = (rule == UNMATCHED) & is_kept
        if spec.unmatched == "error" and is_unmatched.any():
            row = int(np.argmax(is_unmatched))
            raise self._error(
                f".rules: {int(is_unmatched.sum()):,} jobs of {spec.log} fit no rule, "
                f"such as '{log.job_ids[row]}' on {records.n_nodes[row]} nodes for "
                f"{records.duration_ms[row] / 1000:,.0f} s; add a rule, or set "
                "unmatched: drop"
            )
        dropped = {
            f"without {missing}": int((~is_kept).sum()),
            "without a rule": int(is_unmatched.sum()),
        }
        is_kept &= ~is_unmatched
        dropped[NO_GPU] = int((is_kept & (n_nodes == 0)).sum())
        is_kept &= n_nodes > 0
        is_too_large, per_node = (
            (n_nodes > self._frame.n_nodes) & is_kept,
            self._frame.slots_per_node,
        )
        if is_too_large.any() and spec.too_wide == "error":
            raise self._error(
                f": {int(is_too_large.sum()):,} jobs of {spec.log} need up to "
                f"{n_nodes[is_kept].max() / per_node:,.0f} nodes, pool "
                f"'{self._frame.pool}' has {self._frame.n_nodes // per_node:,}; set "
                "too_wide: drop or clip, or lower node_factor"
            )
        if spec.too_wide == "drop":
            dropped["wider than the pool"] = int(is_too_large.sum())
            is_kept &= ~is_too_large
        else:
            self._count("clipped to the pool", int(is_too_large.sum()))
        if not is_kept.any():
            left_out = {**log.counts.dropped, **dropped}
            causes = "; ".join(f"{n:,} {cause}" for cause, n in left_out.items() if n)
            raise self._error(
                f": no job of {spec.log} is left ({causes or 'it has none'}); change "
                "rules, too_wide, node_factor, states, cpu_only or zero_durations, "
                "which leave jobs out"
            )
        for cause, n in dropped.items():
            self._count(cause, n)
        return is_kept

    def _in_period(
        self, log: JobLog, time_ms: Int64Array, is_kept: BoolArray
    ) -> BoolArray:
        """Return a mask of times from `start` to before `end`, by the log's clock."""
        spec, is_inside = self.spec, np.ones_like(is_kept)
        if spec.start is None and spec.end is None:
            return is_inside
        monday_ms = _ms_since(_EPOCH, _MONDAY)
        local_ms = (
            time_ms + monday_ms if log.is_relative else log.zone.local_ms(time_ms)
        )
        if spec.start is not None:
            is_inside &= local_ms >= _ms_since(_EPOCH, spec.start)
        if spec.end is not None:
            is_inside &= local_ms < _ms_since(_EPOCH, spec.end)
        self._count("outside start to end", int((is_kept & ~is_inside).sum()))
        if not (is_kept & is_inside).any():
            job_period = _span_text(local_ms[is_kept].min(), local_ms[is_kept].max())
            period = f"from {spec.start or 'its first'} to {spec.end or 'its last'}"
            raise self._error(
                f": no job of {spec.log} lies {period} (its jobs are of {job_period}); "
                "change replay.start and replay.end, which are on the log's own clock"
            )
        return is_inside

    def _requested_ms(self, records: JobRecords) -> Int64Array:
        """Return the requested run times, scaled like the true run times [ms].

        0 means unknown.
        """
        is_known = records.requested_ms > 0
        if self._frame.uses_logged_estimates:
            if not is_known.any():
                raise self._error(
                    f": the scheduler of pool '{self._frame.pool}' has estimate: "
                    f"logged, but {self.spec.log} has no requested times; give "
                    "estimate: exact, {factor: ...} or {classes: [...]}"
                )
            self._count(
                "without a requested time, run time as estimate", int((~is_known).sum())
            )
        requested_ms = np.rint(records.requested_ms * self.spec.duration_factor).astype(
            np.int64
        )
        return np.where(is_known, np.maximum(requested_ms, 1), 0)

    def _error(self, text: str) -> WorkloadError:
        """Return an error that names the stream's `replay` key."""
        return WorkloadError(f"streams.{self.name}.replay{text}")

    def _rules_with_power(self, log: JobLog, rule: Int16Array) -> Int16Array:
        """Return each job's rule index, or a higher index for a specified profile.

        The indices after those of the rules are the profiles that the log specifies for
        single jobs, in the order of `_profile_ids`. The last index is idle power, for
        CPU-only jobs.
        """
        spec, n_rules = self.spec, len(self.spec.rules)
        if self._frame.node_type.n_gpus and spec.cpu_jobs != "rules":
            is_cpu_only = log.jobs.n_gpus == 0
            if spec.cpu_jobs == "error" and is_cpu_only.any():
                row = int(np.argmax(is_cpu_only))
                raise self._error(
                    f".cpu_jobs: {int(is_cpu_only.sum()):,} jobs of {spec.log} have no "
                    f"GPUs, such as '{log.job_ids[row]}'; set cpu_jobs: idle or "
                    "rules, or cpu_only: drop"
                )
            if self._frame.slots_per_node > 1:  # such a pool drops CPU-only jobs
                is_cpu_only = np.zeros_like(is_cpu_only)
            self._count(
                "without GPUs, at idle power (cpu_jobs)", int(is_cpu_only.sum())
            )
            rule = np.where(is_cpu_only, self._idle_rule, rule).astype(np.int16)
        if spec.profiles:
            rows = np.flatnonzero(np.isin(np.array(log.job_ids), list(spec.profiles)))
            named_ids = [log.job_ids[row] for row in rows]
            if unknown := set(spec.profiles) - set(named_ids):
                first = min(unknown)
                raise self._error(
                    f".profiles: no job '{first}' among the {len(log):,} of {spec.log}"
                    f"{did_you_mean(first, log.job_ids)}; correct its id"
                )
            profile_rows = [
                self._profile_ids.index(spec.profiles[name]) for name in named_ids
            ]
            rule[rows] = n_rules + np.array(profile_rows)
            self._count("with the profile given for them", rows.size)
        return rule

    def _count_partial_node_jobs(self, records: JobRecords) -> None:
        """Count jobs that use fewer GPUs than a node has but occupy a whole node."""
        if self._frame.slots_per_node > 1:
            unknown = int(np.isnan(records.n_gpus).sum())
            self._count("on whole nodes, as the log does not tell their GPUs", unknown)
            return
        per_node = self._frame.node_type.n_gpus
        n_small, ratio = records.small_jobs(per_node, self.spec.node_factor)
        if ratio >= REPORTED_RATIO:
            self._count(
                (
                    f"on a whole node each with fewer GPUs than its {per_node}: the "
                    f"GPU jobs take {ratio:.3g} times the nodes of their GPU time; "
                    "set allocate: gpus of the pool"
                ),
                n_small,
            )

    def _count(self, cause: str, n: int) -> None:
        """Add a number of jobs to the counts, by cause."""
        if n:
            self.counts[cause] = n

    def _classes_in_use(
        self, builder: LibraryBuilder, rule: Int16Array, slots: Int32Array
    ) -> tuple[tuple[StreamClass, ...], Int16Array]:
        """Return a class per rule and node count in use, and each job's class."""
        pairs, class_index, n_jobs = np.unique(
            np.stack([rule.astype(np.int64), slots]),
            axis=1,
            return_inverse=True,
            return_counts=True,
        )
        result, per_node = [], self._frame.slots_per_node
        for rule_id, n_slots, n in zip(*pairs.tolist(), n_jobs.tolist(), strict=True):
            n_nodes = _ceil_divide(n_slots, per_node)
            workload, source, profile_ids = self._profiles_of_rule(
                builder, rule_id, n_nodes
            )
            job_class = JobClass(
                workload=workload,
                n_nodes=n_nodes,
                n_gpus=n_slots / SLOTS_PER_GPU if n_slots < per_node else None,
                probability=n / rule.size,
                scale_from_n_nodes=None if source == n_nodes else source,
                flexibility=self._stream.flexibility
                if rule_id < self._idle_rule
                else None,
            )
            result.append(StreamClass(self.name, job_class, profile_ids))
        return tuple(result), class_index.ravel().astype(np.int16)

    def _profiles_of_rule(
        self, builder: LibraryBuilder, rule_id: int, n_nodes: int
    ) -> tuple[str, int, tuple[int, ...]]:
        """Return workload, number of nodes and profile indices of a rule."""
        number = rule_id - len(self.spec.rules)
        if rule_id == self._idle_rule:
            return IDLE, 1, (builder.flat(),)
        try:
            if number >= 0:
                key = "profiles"
                profile_ids = builder.named(self._profile_ids[number], self._frame)
                entry = builder.library.entries[profile_ids[0]]
                workload, source = entry.workload, entry.n_nodes
            else:
                rule, key = self.spec.rules[rule_id], f"rules, rule {rule_id + 1}"
                workload, measured = rule.workload, builder.node_counts(rule.workload)
                source = rule.scale_from_n_nodes or (
                    int(nearest_n_nodes(np.array([n_nodes]), measured)[0])
                    if measured
                    else n_nodes
                )
                profile_ids = builder.select(workload, source, self._frame)
                profile_ids = builder.variants(profile_ids, self._stream)
        except ProfileError as error:
            raise ProfileError(f"replay.{key}: {error}") from error
        return (
            workload,
            source,
            builder.smoothed(profile_ids, self._stream, self._frame),
        )

    def _first_and_period_ms(self) -> tuple[int, int]:
        """Return the first job's time in the run and the repetition period [ms]."""
        span_ms = self._last_ms + 1
        start = self._frame.clock.start
        match self.spec.align:
            case "start":
                return 0, _ceil_divide(span_ms, MS_PER_H) * MS_PER_H
            case "date":
                if self._log.is_relative:
                    raise self._error(
                        f".align: {self.spec.log} has no dates, only times since its "
                        "start; set align: weekday or start"
                    )
                if self._aligns_by_utc:
                    return self._origin_ms - self._frame.clock.wall.origin_ms, span_ms
                return self._first_local_ms() - _ms_since(_EPOCH, start), span_ms
        # A week may lack less than a day
        weeks = (span_ms + MS_PER_DAY) // MS_PER_WEEK
        if self.spec.repeat and not weeks:
            raise self._error(
                f".align: {self.spec.log} spans {span_ms / MS_PER_DAY:.2f} days; "
                "repeating it by weekday needs a whole week; set repeat: false, or "
                "align: start, which repeats it by its span in whole hours"
            )
        log_week, into_week_ms = divmod(
            self._first_local_ms() - _ms_since(_EPOCH, _MONDAY), MS_PER_WEEK
        )
        self._first_week, run_into_week_ms = divmod(
            _ms_since(_MONDAY, start), MS_PER_WEEK
        )
        if self.spec.repeat == "shuffled":
            self._shuffled = ShuffledWeeks(
                self._logged.submit_ms + into_week_ms,
                self._logged.duration_ms.astype(np.float64) * self._logged.n_nodes,
                None if self._log.is_relative else log_week,
                partial(named_rng, self._frame.seed, "replay", self.name, "weeks"),
            )
            return -run_into_week_ms, MS_PER_WEEK
        first_ms = (into_week_ms - run_into_week_ms) % MS_PER_WEEK
        return first_ms, max(weeks, 1) * MS_PER_WEEK if self.spec.repeat else span_ms

    def _first_local_ms(self) -> int:
        """Return the first job's time on the log's own clock [ms since 1970].

        Assumed: a log without dates begins on a Monday at 00:00.
        """
        if self._log.is_relative:
            return self._origin_ms + _ms_since(_EPOCH, _MONDAY)
        if self._aligns_by_local_time:
            return self._origin_ms
        return int(self._log.zone.local_ms(np.array([self._origin_ms]))[0])

    def _spans_text(self) -> str:
        """Return a text with the periods of the log and of the run."""
        clock, log_text = self._frame.clock, "its times count from its start"
        if not self._log.is_relative:
            first_ms = self._first_local_ms()
            log_text = (
                f"its jobs are of {_span_text(first_ms, first_ms + self._last_ms)}"
            )
        start_ms = _ms_since(_EPOCH, clock.start)
        run_text = _span_text(start_ms, start_ms + clock.horizon_ms)
        return f"{log_text}, the run is of {run_text}"


def _span_text(first_ms: int, last_ms: int) -> str:
    """Return a text with the first and last time of a period."""
    first, last = (
        _EPOCH + timedelta(milliseconds=int(ms)) for ms in (first_ms, last_ms)
    )
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"


def _ceil_divide(number: int, divisor: int) -> int:
    """Return a quotient of integers, rounded up."""
    return -(-number // divisor)


def _ms_since(origin: datetime, time: datetime) -> int:
    """Return the time from an origin [ms]."""
    return (time - origin) // timedelta(milliseconds=1)
