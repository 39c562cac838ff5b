"""Jobs of a log, submitted again: mapped to profiles, scaled, placed in the run and repeated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from diploee.errors import ProfileError, WorkloadError
from diploee.files import Stamp, input_stamp
from diploee.scenario import JobClass, JobReplay, Scenario
from diploee.streams import stream
from diploee.tables import Int16Array, Int32Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_WEEK
from diploee.workload.class_rules import UNMATCHED, assign_classes, nearest_n_nodes
from diploee.workload.job_log import MISSING_MS, JobLog
from diploee.workload.jobs import JobTable, StreamClass, check_n_jobs, draw_profiles
from diploee.workload.match import StreamMatch, Utilization, listed_utilization
from diploee.workload.shelf import ProfileShelf
from diploee.workload.startup import draw_startups_ms

COPY_SPREAD_MS = MS_PER_H
"""A copy of a job (`rate_factor` above 1) is submitted up to so long after the original."""

READING_KEYS = (
    *("gpus_per_node", "utc_offset", "time_format", "duration_unit", "zero_durations", "cpu_only"),
    "states",
)
"""Keys of `JobReplay` that say how to read the log."""

_MONDAY = datetime(1970, 1, 5)
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class _LoggedJobs:
    """The log's jobs as the run will submit them, times since the first [ms]."""

    into_ms: Int64Array
    duration_ms: Int64Array
    n_nodes: Int32Array
    rule: Int16Array


class ReplayedJobs:
    """The jobs of a stream with a `replay`.

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
    LogFormatError
        If the log can't be read.
    ProfileError
        If there is no profile for a rule.
    WorkloadError
        If the log's jobs do not fit the rules or the pool, or do not overlap the run.
    """

    def __init__(self, scenario: Scenario, name: str, shelf: ProfileShelf) -> None:
        spec = scenario.streams[name].replay
        assert spec is not None
        self.name, self.spec, self.scenario = name, spec, scenario
        self._stream = scenario.streams[name]
        self.counts: dict[str, int] = {}
        self._pool_n_nodes = scenario.facility.pools[self._stream.pool].n_nodes
        n_gpus = scenario.facility.node_type_of(self._stream.pool).n_gpus
        self._log = read_log(spec, scenario.folder, n_gpus or None)
        read = self._log.counts
        for what, causes in (
            ("dropped", read.dropped), ("repaired", read.repaired), ("noted", read.noted)
        ):  # fmt: skip
            self.counts |= {f"{what} on import: {cause}": n for cause, n in causes.items() if n}
        self._logged, self._origin_ms = self._prepared(self._log)
        self.classes, self._class_of = self._classes(shelf)
        if self._stream.startup is not None:
            shelf.flat()

    def jobs(self, simulated: Utilization | None) -> tuple[JobTable, StreamMatch]:  # noqa: ARG002
        """Return the jobs of all repetitions within the run, in the order of submission."""
        first_ms, period_ms = self._placing()
        horizon_ms, spec = self.scenario.horizon_ms, self.spec
        logged = self._logged
        span_ms = int(logged.into_ms.max()) + 1
        tiles = range(1)
        if spec.repeats:  # also before the first one placed, so that the run begins full
            tiles = range(-_ceil(first_ms, period_ms), _ceil(horizon_ms - first_ms, period_ms))
        check_n_jobs(
            logged.into_ms.size * len(tiles) * spec.rate_factor,
            f"streams.{self.name}.replay",
            "lower rate_factor or shorten the run",
        )
        rows, submit_ms = self._repeated(tiles, first_ms, period_ms, span_ms)
        inside = (submit_ms >= 0) & (submit_ms < horizon_ms)
        if not spec.repeats:
            self._count("outside the run", int((~inside).sum()))
        rows, submit_ms = rows[inside], submit_ms[inside]
        if not rows.size:
            raise WorkloadError(
                f"streams.{self.name}.replay: no job of {spec.log} falls into the run "
                f"({self._span_text()}); change start, or set align: start"
            )
        order = np.argsort(submit_ms, kind="stable")
        jobs = self._table(rows[order], submit_ms[order])
        listed = listed_utilization(jobs, self._pool_n_nodes, horizon_ms)
        per_day = len(jobs) / (horizon_ms / MS_PER_DAY)
        match = StreamMatch(
            self.name, per_day, "replayed", None, listed, None, 0, dict(self.counts)
        )
        return jobs, match

    def _table(self, rows: Int64Array, submit_ms: Int64Array) -> JobTable:
        n_jobs = rows.size
        class_id = self._class_of[rows]
        rng = stream(self.scenario.seed, "replay", self.name, "profile")
        duration_ms = self._logged.duration_ms[rows]
        drawn_ms = draw_startups_ms(self._stream.startup, n_jobs, self.scenario.seed, self.name)
        # A logged run time reaches from allocation to end: the start-up is a part of it.
        startup_ms = np.minimum(drawn_ms, duration_ms).astype(np.int32)
        pool_id = self.scenario.pool_names().index(self._stream.pool)
        return JobTable(
            job_id=np.arange(n_jobs),
            submit_ms=submit_ms,
            n_nodes=self._logged.n_nodes[rows],
            duration_ms=duration_ms,
            pool_id=np.full(n_jobs, pool_id),
            class_id=class_id,
            profile_id=draw_profiles(self.classes, class_id, rng),
            startup_ms=startup_ms,
        )

    def _repeated(
        self, tiles: range, first_ms: int, period_ms: int, span_ms: int
    ) -> tuple[Int64Array, Int64Array]:
        """Return the log's row and the submission of each job of all repetitions.

        Repetition 0 is the log itself, whole; the others play its whole weeks before and after it.
        """
        into_ms, factor = self._logged.into_ms, self.spec.rate_factor
        of_period = np.flatnonzero(into_ms < period_ms)
        rows, submits = [], []
        for tile in tiles:
            of_tile = of_period if tile else np.arange(into_ms.size)
            at_ms = tile * period_ms + into_ms[of_tile]  # since the log's first job
            if tile:
                of_tile = of_tile[(at_ms < 0) | (at_ms >= span_ms)]
            late_ms = np.zeros(of_tile.size, dtype=np.int64)
            if factor != 1:
                rng = stream(self.scenario.seed, "replay", self.name, "rate", tile)
                n_copies = np.floor(factor + rng.random(of_tile.size)).astype(np.int64)
                of_tile = np.repeat(of_tile, n_copies)
                is_copy = np.diff(of_tile, prepend=-1) == 0
                late_ms = np.where(is_copy, rng.integers(0, COPY_SPREAD_MS, of_tile.size), 0)
            rows.append(of_tile)
            submits.append(first_ms + tile * period_ms + into_ms[of_tile] + late_ms)
        return np.concatenate(rows), np.concatenate(submits)

    def _prepared(self, log: JobLog) -> tuple[_LoggedJobs, int]:
        """Scale the log's jobs; drop those that can't be replayed, counted by cause."""
        spec, records = self.spec, log.jobs
        rule = assign_classes(records, log.types, spec.rules)
        time_ms = records.submit_ms if spec.starts == "queued" else records.start_ms
        n_nodes = np.maximum(np.rint(records.n_nodes * spec.node_factor), 1)
        missing = "a submission" if spec.starts == "queued" else "a start"
        keep = time_ms != MISSING_MS
        self._count(f"without {missing}", int((~keep).sum()))
        unmatched = rule == UNMATCHED
        if spec.unmatched == "error" and (unmatched & keep).any():
            row = int(np.argmax(unmatched & keep))
            raise WorkloadError(
                f"streams.{self.name}.replay.rules: {int((unmatched & keep).sum()):,} jobs of "
                f"{spec.log} fit no rule, such as '{log.job_ids[row]}' on {records.n_nodes[row]} "
                f"nodes for {records.duration_ms[row] / 1000:,.0f} s; add a rule, or set "
                "unmatched: drop"
            )
        self._count("without a rule", int((unmatched & keep).sum()))
        keep &= ~unmatched
        wide = n_nodes > self._pool_n_nodes
        if (wide & keep).any():
            if spec.too_wide == "error":
                raise WorkloadError(
                    f"streams.{self.name}.replay: {int((wide & keep).sum()):,} jobs of {spec.log} "
                    f"need up to {n_nodes[keep].max():,.0f} nodes, pool '{self._stream.pool}' has "
                    f"{self._pool_n_nodes:,}; set too_wide: drop or clip, or lower node_factor"
                )
            if spec.too_wide == "drop":
                self._count("wider than the pool", int((wide & keep).sum()))
                keep &= ~wide
            else:
                self._count("clipped to the pool", int((wide & keep).sum()))
                n_nodes = np.minimum(n_nodes, self._pool_n_nodes)
        if not keep.any():
            raise WorkloadError(f"streams.{self.name}.replay: no job of {spec.log} is left")
        origin_ms = int(time_ms[keep].min())
        into_ms = np.rint((time_ms[keep] - origin_ms) * spec.time_factor).astype(np.int64)
        duration_ms = np.rint(records.duration_ms[keep] * spec.duration_factor).astype(np.int64)
        nodes = n_nodes[keep].astype(np.int32)
        scaled = _LoggedJobs(into_ms, np.maximum(duration_ms, 1), nodes, rule[keep])
        return scaled, origin_ms

    def _count(self, cause: str, n: int) -> None:
        if n:
            self.counts[cause] = n

    def _classes(self, shelf: ProfileShelf) -> tuple[tuple[StreamClass, ...], Int16Array]:
        """Return one class per rule and node count that occurs, and the class of each job."""
        logged = self._logged
        pairs, class_of, n_jobs = np.unique(
            np.stack([logged.rule.astype(np.int64), logged.n_nodes]),
            axis=1, return_inverse=True, return_counts=True,
        )  # fmt: skip
        found = []
        for rule_id, n_nodes, n in zip(*pairs.tolist(), n_jobs.tolist(), strict=True):
            rule = self.spec.rules[rule_id]
            measured = shelf.node_counts(rule.workload)
            source = rule.scale_from_n_nodes or (
                int(nearest_n_nodes(np.array([n_nodes]), measured)[0]) if measured else n_nodes
            )
            try:
                profile_ids = shelf.select(rule.workload, source)
            except ProfileError as error:
                raise ProfileError(f"replay.rules, rule {rule_id + 1}: {error}") from error
            if self._stream.profile_variants is not None:
                profile_ids = shelf.variants(profile_ids, self._stream.profile_variants)
            job_class = JobClass(
                workload=rule.workload,
                n_nodes=n_nodes,
                probability=n / logged.rule.size,
                scale_from_n_nodes=None if source == n_nodes else source,
            )
            found.append(StreamClass(self.name, job_class, profile_ids))
        return tuple(found), class_of.ravel().astype(np.int16)

    def _placing(self) -> tuple[int, int]:
        """Return where the log's first job goes in the run, and the period of repetition [ms]."""
        span_ms = int(self._logged.into_ms.max()) + 1
        start = self.scenario.start
        match self.spec.align:
            case "start":
                return 0, _ceil(span_ms, MS_PER_H) * MS_PER_H
            case "date":
                if self._log.is_relative:
                    raise WorkloadError(
                        f"streams.{self.name}.replay.align: {self.spec.log} has no dates, only "
                        "times since its start; set align: weekday or start"
                    )
                return self._local_ms() - _ms_since(_EPOCH, start), span_ms
        weeks = (span_ms + MS_PER_DAY) // MS_PER_WEEK  # a week may lack less than a day
        if self.spec.repeats and not weeks:
            raise WorkloadError(
                f"streams.{self.name}.replay.align: {self.spec.log} spans "
                f"{span_ms / MS_PER_DAY:.2f} days; repeating it by weekday needs a whole week; "
                "set align: start"
            )
        into_week_ms = (self._local_ms() - _ms_since(_EPOCH, _MONDAY)) % MS_PER_WEEK
        run_into_week_ms = _ms_since(_MONDAY, start) % MS_PER_WEEK
        first_ms = (into_week_ms - run_into_week_ms) % MS_PER_WEEK
        return first_ms, max(weeks, 1) * MS_PER_WEEK if self.spec.repeats else span_ms

    def _local_ms(self) -> int:
        """Return the first job's time on the log's own clock [ms since 1970].

        ASSUMPTION: a log without dates begins its clock on a Monday at 00:00.
        """
        if self._log.is_relative:
            return self._origin_ms + _ms_since(_EPOCH, _MONDAY)
        return self._origin_ms + (self._log.utc_offset_min or 0) * MS_PER_MIN

    def _span_text(self) -> str:
        if self._log.is_relative:
            return "its times count from its start"
        first = _EPOCH + timedelta(milliseconds=self._local_ms())
        last = first + timedelta(milliseconds=int(self._logged.into_ms.max()))
        return f"it spans {first:%Y-%m-%d} to {last:%Y-%m-%d}, the run starts {self.scenario.start}"


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _ms_since(origin: datetime, time: datetime) -> int:
    return (time - origin) // timedelta(milliseconds=1)


def read_log(spec: JobReplay, folder: Path, pool_gpus_per_node: int | None) -> JobLog:
    """Read the log of a replay; the last ones read are kept, as a run opens its log twice.

    Raises
    ------
    LogFormatError
        If it can't be read.
    """
    path = folder / spec.log
    stamp = input_stamp(path, "replay.log")
    given = {"pool_gpus_per_node": pool_gpus_per_node}
    given |= {key: getattr(spec, key) for key in READING_KEYS}
    columns = tuple((spec.columns or {}).items())
    return _read_log(path, stamp, spec.format, columns, **given)


@lru_cache(maxsize=4)
def _read_log(
    path: Path,
    stamp: Stamp,  # noqa: ARG001  # a changed file is read again
    log_format: str | None,
    columns: tuple[tuple[str, str], ...],
    **given: Any,
) -> JobLog:
    from diploee.workload.importers.jobs import read_job_log

    return read_job_log(path, log_format, columns=dict(columns) or None, **given)
