"""Large synchronous training jobs: submissions, run times and power.

The phases of a job are drawn on demand from a random stream named by seed, job stream
and job number, and are never stored. Iterations are loops of about ten minutes, drawn
once for each entry of the list and played in random order. All other phases have
constant power. With power smoothing, a period of training repeats one loop, so that
power has no step between loops.

See also: docs/models/training.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from diploee.base.errors import WorkloadError
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array, Int16Array, Int64Array, concat, repeated
from diploee.base.units import MS_PER_DAY, MS_PER_S, PROFILE_STEP_MS
from diploee.loads.jobs.lowering import ProfileSections, cut
from diploee.loads.jobs.smoothed_phases import FALL, RISE, SLOWEST_PER_S, SmoothedPhases
from diploee.loads.jobs.source import (
    JobSource,
    LibraryBuilder,
    StreamClass,
    StreamFrame,
    StreamMatch,
    node_ms,
)
from diploee.loads.jobs.training_phases import (
    NEVER_MS,
    TrainingPhase,
    TrainingPhases,
    TrainingPlan,
    expected_ettr,
    poisson_gaps,
    store_writes,
    training_phases,
)
from diploee.profiles.derived import cpu_power_w
from diploee.profiles.flat import FLAT_DURATION_MS, FLAT_POWER_W, flat_profile
from diploee.profiles.gpu_power_smoothing import (
    MAX_STRETCH,
    smooth_loop,
    smoothing_note,
)
from diploee.profiles.iterations import MAX_SIGMAS, loop_of_iterations
from diploee.profiles.profile import PowerBoundary, PowerProfile
from diploee.scenario.job_streams import JobClass, JobStream, PowerSmoothing
from diploee.scenario.synchronous import MAX_LED, SynchronousJob
from diploee.scenario.times import end_date
from diploee.schedule.job_table import DRAW_MS, JobTable

N_LOOPS = 3
MAX_JOBS = 100_000
MIN_ETTR = 0.01
"""A job that is expected to spend less of its time on progress never gets anywhere."""

LAG_STEPS = 10
"""Steps in which the nodes of a job go over to its next phase."""

KEPT = 4
"""Phases of jobs that are kept, some 10 MB each."""

PHASE_PREFIX = "~synchronous-"
"""Begins the ids of the profiles that synchronous jobs play, before the phase."""

SOURCE = (
    "synthetic iterations of synchronous training by the scenario's keys, not measured"
)


def _phase_profile_id(phase: TrainingPhase, of: str = "") -> str:
    """Return the id of a phase's profile; training profiles are particular to a job."""
    return f"{PHASE_PREFIX}{phase.name.lower()}{of}"


class _Kind:
    """Entry of the list of synchronous jobs, on the pool's nodes, with its profiles."""

    def __init__(
        self,
        spec: SynchronousJob,
        frame: StreamFrame,
        label: str,
        smoothing: PowerSmoothing | None,
        builder: LibraryBuilder,
    ) -> None:
        self.spec, self.frame, self.label = spec, frame, label
        self.n_nodes = spec.nodes(frame.node_type.n_gpus)
        self.n_gpus = self.n_nodes * frame.node_type.n_gpus
        self.spares = spec.spares(self.n_nodes)
        self.held_nodes = self.n_nodes + self.spares
        self.period_s = spec.iteration_s(self.n_gpus)
        # Power of a GPU in each stall with a process on it, in parts of its TDP
        self.levels = {
            TrainingPhase.CHECKPOINT: spec.checkpoint_level,
            TrainingPhase.HUNG: spec.hung_level,
            TrainingPhase.LOAD: spec.load_level,
        } | ({TrainingPhase.END: spec.load_level} if smoothing is None else {})
        # Power of a GPU in each loop without smoothing, in parts of its TDP
        self.own_loops = tuple(
            loop_of_iterations(
                spec,
                self.period_s,
                named_rng(frame.seed, "synchronous", frame.name, label, "loop", loop),
                self.n_nodes,
                frame.node_type.n_gpus,
            )
            for loop in range(N_LOOPS)
        )
        self.smoothed = None if smoothing is None else self._smoothed(smoothing)
        self.waits_ms = self._waits_ms()
        self.plan = self._plan()
        profiles = [self._loop_profile(loop) for loop in range(N_LOOPS)]
        self.loops = [builder.index_of(profile) for profile in profiles]
        # Their lengths; one for all without smoothing
        self.loop_ms = np.array([profile.duration_ms for profile in profiles])
        # Profiles of rises and falls into each phase, with smoothing
        self.edges = {
            (phase, what): builder.index_of(self._edge_profile(phase, what))
            for phase in (TrainingPhase if self.smoothed is not None else ())
            if phase != TrainingPhase.REDO  # as TRAIN
            for what in (RISE, FALL)
        }

    def _smoothed(self, smoothing: PowerSmoothing) -> SmoothedPhases:
        """Return the smoothed phases of the entry's loops."""
        node = self.frame.node_type
        idle = max(node.idle_power_w - cpu_power_w(node), 0) / (
            node.n_gpus * node.gpu_tdp_w
        )
        step_s = PROFILE_STEP_MS / MS_PER_S
        loops = tuple(smooth_loop(own, step_s, smoothing)[0] for own in self.own_loops)
        rate = min(smoothing.up_per_s, smoothing.down_per_s)
        if rate < SLOWEST_PER_S or any(
            drawn.size >= MAX_STRETCH * own.size
            for drawn, own in zip(loops, self.own_loops, strict=True)
        ):
            raise WorkloadError(
                f"streams.{self.frame.name}.power_smoothing: '{self.label}' with "
                f"iterations of {self.period_s:.4g} s can't be shown with up_per_s "
                f"{smoothing.up_per_s:g} and down_per_s {smoothing.down_per_s:g}; "
                f"expected {SLOWEST_PER_S:g} at least, and a job that takes less than "
                f"{MAX_STRETCH} times as long; raise them"
            )
        return SmoothedPhases(smoothing, loops, self.spec.high, idle)

    def _waits_ms(self) -> tuple[int, int, int]:
        """Return the work delayed after a checkpoint, first start or load [ms].

        The delay comes from the limited rise of the GPUs' power.
        """
        spec, smoothed = self.spec, self.smoothed
        if smoothed is None:
            return 0, 0, 0
        load, write = (
            self.smoothed_level(TrainingPhase.LOAD),
            self.smoothed_level(TrainingPhase.CHECKPOINT),
        )
        return (
            _ms(smoothed.lost_s(smoothed.begin, write, spec.checkpoint_write_s)),
            _ms(smoothed.lost_s(smoothed.idle, load, spec.warm_up_s)),
            _ms(smoothed.lost_s(smoothed.idle, load, spec.load_s)),
        )

    def _plan(self) -> TrainingPlan:
        spec, slowdown = self.spec, 1.0
        # Time of its iterations over that without smoothing
        if self.smoothed is not None:
            n_own, n_drawn = (
                sum(map(len, of)) for of in (self.own_loops, self.smoothed.loops)
            )
            slowdown = n_drawn / n_own
        interval_s, waits_ms = spec.interval_s(self.n_nodes), self.waits_ms
        return TrainingPlan(
            work_ms=max(_ms(spec.work_s(self.n_gpus) * slowdown), 1),
            interval_ms=max(_ms(interval_s), 1)
            if math.isfinite(interval_s)
            else NEVER_MS,
            write_ms=_ms(spec.write_s()) + waits_ms[0],
            start_ms=_ms(spec.start_s),
            warm_up_ms=_ms(spec.warm_up_s) + waits_ms[1],
            # A phase of some length, to be counted
            reschedule_ms=max(_ms(spec.reschedule_s), 1),
            load_ms=_ms(spec.load_s) + waits_ms[2],
            spare_nodes=self.spares,
            repair_ms=_ms(spec.repair_s),
            exit_ms=max(
                _ms(spec.exit_s),
                0 if self.smoothed is None else _ms(self.smoothed.fall_s) or 1,
            ),
        )

    def ettr(self) -> float:
        """Return the expected fraction of time that is training progress."""
        spec, plan = self.spec, self.plan
        detection_s = spec.detection_median_s * math.exp(spec.detection_sigma**2 / 2)
        recovery_ms = _ms(detection_s) + plan.reschedule_ms + plan.load_ms
        rate = 1 / (spec.mttf_s(self.n_nodes) * MS_PER_S)
        interval_ms = min(plan.interval_ms, plan.work_ms)
        return expected_ettr(rate, recovery_ms, interval_ms, plan.write_ms)

    def phases(self, number: int) -> TrainingPhases:
        """Return the phases of the job with a given number."""
        spec, names = self.spec, ("synchronous", self.frame.name, number)
        if spec.phases is not None:
            into_ms = np.array([_ms(start_s) for start_s, _ in spec.phases])
            phase = np.array([TrainingPhase[name.upper()] for _, name in spec.phases])
            length_ms = np.diff(into_ms, append=into_ms[-1] + self.plan.exit_ms)
            went = TrainingPhases(phase, into_ms, length_ms)
            return went.take(length_ms > 0)

        def rng(purpose: str) -> np.random.Generator:
            return named_rng(self.frame.seed, *names, purpose)

        failures, planned = (
            poisson_gaps(
                rng(purpose), MS_PER_DAY * 1000 / max(rate * self.n_nodes, 1e-300)
            )
            for purpose, rate in (
                ("failures", spec.failures_per_1000_node_days),
                ("planned", spec.planned_per_1000_node_days),
            )
        )
        detections = rng("detection")

        def detection_ms() -> int:
            factor = math.exp(spec.detection_sigma * detections.standard_normal())
            return max(
                _ms(min(spec.detection_median_s * factor, MS_PER_DAY / MS_PER_S)), 1
            )

        return training_phases(
            self.plan, failures, planned, detection_ms, self._writes(rng("writes"))
        )

    def _writes(self, rng: np.random.Generator) -> Iterator[int] | None:
        """Yield the stalls of checkpoints [ms], or return None if all are equal."""
        spec, store = self.spec, self.spec.checkpoint_store
        if store is None:
            return None
        medians_ms = (spec.checkpoint_write_s * MS_PER_S, store.slow_s * MS_PER_S)
        drawn = store_writes(
            rng, medians_ms, (store.spread, store.slow_spread), store.change
        )
        return (write_ms + self.waits_ms[0] for write_ms in drawn)

    @property
    def period_ms(self) -> int:
        """Length of an iteration, rounded to whole steps of a profile [ms]."""
        return (
            max(round(self.period_s * MS_PER_S / PROFILE_STEP_MS), 1) * PROFILE_STEP_MS
        )

    def leads_ms(self, phase: Int16Array, length_ms: Int64Array) -> Int64Array:
        """Return the time at each phase's end with a GPU in the next phase [ms]."""
        lead_ms = _ms(self.spec.lead_s) if self.n_gpus <= MAX_LED else 0
        trains, writes = phase <= TrainingPhase.REDO, phase == TrainingPhase.CHECKPOINT
        leads = (trains[:-1] & writes[1:]) | (writes[:-1] & trains[1:])
        return np.where(np.append(leads, False), np.minimum(lead_ms, length_ms // 2), 0)

    def lags_ms(self, length_ms: Int64Array) -> Int64Array:
        """Return the time at each phase's start with nodes in the old phase [ms]."""
        lags_ms = np.minimum(
            _ms(self.spec.lag_s or 0) if self.n_nodes > 1 else 0, length_ms // 2
        )
        lags_ms[0] = 0
        return np.where(lags_ms >= LAG_STEPS, lags_ms, 0)

    @cached_property
    def mean_power_w(self) -> Float64Array:
        """Mean power of all nodes in each phase, also in training [W]."""
        train = float(np.mean([loop.mean() for loop in self.own_loops]))
        return np.array(
            [
                self.power_w(train, trains=True)
                if of <= TrainingPhase.REDO
                else self.phase_power_w(of)
                for of in TrainingPhase
            ]
        )

    def power_w(self, share: Any, trains: bool = False) -> Any:
        """Return the power of all nodes for a GPU power in fractions of TDP [W].

        The CPUs draw their part of the node's idle power, as in
        `diploee.profiles.gpu_power_smoothing`, or in training the power given for the
        job.
        """
        node, level = self.frame.node_type, self.spec.cpu_level
        cpus_w = cpu_power_w(node)
        if trains and level is not None:
            cpus_w = max(cpus_w, node.n_cpus * node.cpu_tdp_w * level)
        of_node_w = node.n_gpus * node.gpu_tdp_w * share + cpus_w
        return self.n_nodes * of_node_w + self.spares * node.idle_power_w

    def smoothed_level(self, phase: TrainingPhase) -> float:
        """Return the smoothed power of a GPU in a non-training phase."""
        assert self.smoothed is not None
        levels, spec = self.levels, self.smoothed.spec
        return max(levels[phase], spec.floor) if phase in levels else self.smoothed.idle

    def phase_power_w(self, phase: TrainingPhase) -> float:
        """Return the power of all nodes in a non-training phase [W]."""
        if phase in self.levels:
            return float(self.power_w(self.levels[phase]))
        return self.held_nodes * self.frame.node_type.idle_power_w

    def _loop_profile(self, loop: int) -> PowerProfile:
        """Return the profile of one loop, for all nodes of the entry."""
        notes = f"iterations of {self.period_s:.4g} s on {self.n_gpus:,} GPUs in phase"
        own = shares = self.own_loops[loop]
        if self.smoothed is not None:
            shares, spec = self.smoothed.loops[loop], self.smoothed.spec
            _, burnt = smooth_loop(own, PROFILE_STEP_MS / MS_PER_S, spec)
            notes += (
                "; "
                f"{smoothing_note(spec, burnt / own.sum(), shares.size / own.size - 1)}"
            )
            waits = [f"{wait_ms / MS_PER_S:g} s" for wait_ms in self.waits_ms]
            notes += (
                f", and {waits[0]} at each checkpoint, {waits[1]} at the start and "
                f"{waits[2]} after each failure; the floor holds while the job "
                "writes, loads and hangs"
            )
        name = f":{self.frame.name}:{self.label}:{loop + 1}"
        return self._profile(
            _phase_profile_id(TrainingPhase.TRAIN, name), shares, notes
        )

    def _edge_profile(self, phase: TrainingPhase, what: int) -> PowerProfile:
        """Return the profile of a rise or fall into a phase, for all nodes."""
        assert self.smoothed is not None
        name = f":{self.frame.name}:{self.label}:{'rise' if what == RISE else 'fall'}"
        notes = "ramp of GPU power smoothing"
        profile_id = _phase_profile_id(phase, name)
        return self._profile(
            profile_id, self.smoothed.edge(what), notes, periodic=False
        )

    def _profile(
        self, profile_id: str, shares: Float64Array, notes: str, periodic: bool = True
    ) -> PowerProfile:
        frame = self.frame
        # The levels are of the TDP: `busy_power_factor`, which weights hold, does not
        # apply.
        idle_w = self.power_w(0.0, trains=periodic)
        power_w = idle_w + shares * (self.power_w(1.0) - self.power_w(0.0))
        flat = flat_profile(profile_id, SOURCE)
        provenance = replace(
            flat.provenance,
            power_boundary=PowerBoundary.DEVICES,
            notes=notes,
            gpus_per_node=frame.node_type.n_gpus,
            gpu_tdp_w=frame.node_type.gpu_tdp_w,
        )
        return replace(
            flat,
            workload=self.label,
            n_nodes=self.held_nodes,
            power_w=(power_w / frame.node_type.busy_power_factor).astype(np.float32),
            provenance=provenance,
            periodic=periodic,
        )


class SynchronousJobs(JobSource):
    """Jobs of a stream with a `synchronous` block."""

    kind = "synchronous"

    def __init__(
        self, spec: JobStream, frame: StreamFrame, builder: LibraryBuilder
    ) -> None:
        assert spec.synchronous is not None
        super().__init__(spec, frame)
        self.spec = spec.synchronous
        self._kinds = [
            _Kind(job, frame, job.label(number), spec.power_smoothing, builder)
            for number, job in enumerate(self.spec.jobs, 1)
        ]
        for number, kind in enumerate(self._kinds):
            mttf_s = kind.spec.mttf_s(kind.n_nodes)
            if math.isfinite(mttf_s) and (ettr := kind.ettr()) < MIN_ETTR:
                raise WorkloadError(
                    f"streams.{frame.name}.synchronous.jobs[{number}]: with a failure "
                    f"every {mttf_s:,.3g} s the job would spend {ettr:.2g} of its "
                    "time on progress; lower the failure rate, or the times of "
                    "detection, reschedule_s, load_s and checkpoint_interval"
                )
        self._phase_ids = {
            phase: builder.index_of(flat_profile(_phase_profile_id(phase), SOURCE))
            for phase in TrainingPhase
            if phase not in (TrainingPhase.TRAIN, TrainingPhase.REDO)
            and (
                phase != TrainingPhase.END
                or any(kind.plan.exit_ms for kind in self._kinds)
            )
        }
        n_jobs = len(self._kinds)
        self.classes = tuple(
            StreamClass(
                frame.name,
                JobClass(
                    workload=kind.label,
                    n_nodes=kind.held_nodes,
                    probability=1 / n_jobs,
                    flexibility=spec.flexibility,
                ),
                (*kind.loops, *kind.edges.values()),
            )
            for kind in self._kinds
        )
        self.phases = lru_cache(maxsize=KEPT)(self._phases)
        rows = sorted(self._submissions(), key=lambda row: (row[1], row[0]))
        if not rows:
            raise WorkloadError(
                f"streams.{frame.name}.synchronous: no job is submitted within the "
                "run; change submit or submit_after, or lengthen the run"
            )
        self._submitted = np.array(rows, dtype=np.int64).reshape(-1, 3)

    @property
    def jobs_per_day(self) -> float:
        """Mean number of jobs per day."""
        return len(self._submitted) / self._frame.n_days

    @property
    def asked_nodes(self) -> float:
        """Mean number of nodes requested by the jobs."""
        end_ms = self._frame.clock.horizon_ms
        return sum(int(node_ms(jobs, end_ms).sum()) for jobs in self._draws(1)) / end_ms

    def _draws(self, n_spans: int) -> Iterator[JobTable]:
        n_nodes = np.array([kind.held_nodes for kind in self._kinds])
        loops = np.array([kind.loops[0] for kind in self._kinds])
        factor = self._frame.node_type.busy_power_factor
        for spans in self._frame.batches(n_spans):
            edges_ms = [spans.start * DRAW_MS, spans.stop * DRAW_MS]
            rows = slice(*np.searchsorted(self._submitted[:, 1], edges_ms).tolist())
            number, submit_ms, duration_ms = self._submitted[rows].T
            entry = (number - 1) % len(self._kinds)
            yield self._jobs(
                submit_ms,
                n_nodes=n_nodes[entry],
                duration_ms=duration_ms,
                class_id=entry,
                profile_id=loops[entry],
                power_factor=np.full(number.size, factor),
                synchronous_id=number,
            )

    def match(self) -> StreamMatch:
        """Return the number of jobs, including those of the warm-up."""
        return replace(super().match(), jobs_per_day=self.jobs_per_day)

    def pieces(self, number: int) -> ProfileSections:
        """Return the profile sections of a job by number, in the job's time.

        Jobs are numbered from 1.
        """
        kind, phases = self._kind(number), self.phases(number)
        trains = phases.phase <= TrainingPhase.REDO
        # Work that is done again and work anew adjoin: one stretch of iterations.
        first = np.flatnonzero(~trains | np.diff(trains, prepend=False))
        begin_ms = phases.into_ms[first]
        length_ms = np.diff(begin_ms, append=phases.duration_ms)
        phase, trains = phases.phase[first], trains[first]
        rng = named_rng(self._frame.seed, "synchronous", self.name, number, "loops")
        if kind.smoothed is not None:
            pieces = self._smoothed_pieces(kind, phase, begin_ms, length_ms, rng)
        else:
            pieces = self._plain_pieces(kind, phase, begin_ms, length_ms, rng)
        if kind.spec.run_spread:
            run = named_rng(self._frame.seed, "synchronous", self.name, number, "run")
            drawn = np.clip(run.standard_normal(), -MAX_SIGMAS, MAX_SIGMAS)
            pieces = replace(
                pieces, weight=pieces.weight * (1 + kind.spec.run_spread * drawn)
            )
        return pieces

    def _plain_pieces(
        self,
        kind: _Kind,
        phase: Int16Array,
        begin_ms: Int64Array,
        length_ms: Int64Array,
        rng: np.random.Generator,
    ) -> ProfileSections:
        """Return the profile sections of phases without power smoothing."""
        leads_ms = kind.leads_ms(phase, length_ms)
        of, leads = repeated(1 + (leads_ms > 0))
        rest_ms = length_ms - leads_ms
        power_w = kind.mean_power_w[phase]
        behind = np.divide(
            np.roll(power_w, -1), power_w, out=np.ones(phase.size), where=power_w > 0
        )
        factor = np.where(leads, 1 + (behind[of] - 1) / kind.n_gpus, 1.0)
        trains = phase[of] <= TrainingPhase.REDO
        row, into_ms, piece_ms = cut(
            np.where(leads, leads_ms[of], rest_ms[of]),
            np.where(trains, kind.loop_ms[0], FLAT_DURATION_MS),
        )
        loop, of_phase = rng.integers(len(kind.loops), size=row.size), phase[of][row]
        profile_id = np.array(kind.loops)[loop]
        weight = np.full(row.size, self._frame.node_type.busy_power_factor)
        for flat, flat_id in self._phase_ids.items():
            rows = of_phase == flat
            profile_id[rows] = flat_id
            weight[rows] = kind.phase_power_w(flat) / FLAT_POWER_W
        offset_ms = np.zeros(row.size, dtype=np.int64)
        # Else stretches of one length would repeat its beginning
        if kind.spec.noise is not None:
            room = (
                np.where(trains[row], kind.loop_ms[0] - piece_ms, 0) // kind.period_ms
            )
            offset_ms = rng.integers(room + 1) * kind.period_ms
        pieces = ProfileSections(
            job=np.zeros_like(row),
            into_ms=(begin_ms[of] + np.where(leads, rest_ms[of], 0))[row] + into_ms,
            length_ms=piece_ms,
            profile_id=profile_id,
            offset_ms=offset_ms,
            weight=weight * factor[row],
        )
        lags_ms = kind.lags_ms(length_ms)
        if not lags_ms.any():
            return pieces
        loop[~trains[row]] = -1
        return self._lagged(
            kind, pieces, loop, np.searchsorted(pieces.into_ms, begin_ms), lags_ms
        )

    def _lagged(
        self,
        kind: _Kind,
        pieces: ProfileSections,
        loop: Int64Array,
        first: Int64Array,
        lags_ms: Int64Array,
    ) -> ProfileSections:
        """Return sections in which nodes change phase evenly over a lag.

        `loop` is the loop of each section, or -1 for constant power. `first` is the
        first section of each phase.
        """
        first, lags_ms = first[lags_ms > 0], lags_ms[lags_ms > 0]
        loops = np.stack(kind.own_loops)

        def power_w(row: Int64Array, into_ms: Int64Array) -> Float64Array:
            """Return the power of sections at a time into each section [W]."""
            step = (pieces.offset_ms[row] + into_ms) // PROFILE_STEP_MS % loops.shape[1]
            trains_w = kind.power_w(loops[loop[row], step], trains=True)
            return np.where(loop[row] < 0, pieces.weight[row] * FLAT_POWER_W, trains_w)

        before_w = power_w(first - 1, pieces.length_ms[first - 1] - 1)
        change_w = power_w(first, lags_ms) - before_w
        of, nth = repeated(np.full(first.size, LAG_STEPS))
        into_ms = np.stack([nth, nth + 1]) * lags_ms[of] // LAG_STEPS
        steps = ProfileSections(
            job=np.zeros_like(of),
            into_ms=pieces.into_ms[first][of] + into_ms[0],
            length_ms=into_ms[1] - into_ms[0],
            # Flat
            profile_id=pieces.profile_id[np.where(loop[first] < 0, first, first - 1)][
                of
            ],
            offset_ms=np.zeros_like(of),
            weight=(before_w[of] + (nth + 0.5) / LAG_STEPS * change_w[of])
            / FLAT_POWER_W,
        )
        late_ms = np.zeros(len(pieces), dtype=np.int64)
        late_ms[first] = lags_ms
        rest = replace(
            pieces,
            into_ms=pieces.into_ms + late_ms,
            offset_ms=pieces.offset_ms + late_ms,
            length_ms=pieces.length_ms - late_ms,
        )
        both = concat([rest.take(rest.length_ms > 0), steps])
        return both.take(np.argsort(both.into_ms, kind="stable"))

    def _smoothed_pieces(
        self,
        kind: _Kind,
        phase: Int16Array,
        begin_ms: Int64Array,
        length_ms: Int64Array,
        rng: np.random.Generator,
    ) -> ProfileSections:
        """Return the profile sections of phases with power smoothing.

        All training phases are `Phase.TRAIN` or `Phase.REDO`.
        """
        smoothed, trains = kind.smoothed, phase <= TrainingPhase.REDO
        assert smoothed is not None
        # Work that waits for the rise is a part of the stall before: it begins so much
        # sooner.
        write_ms, warm_up_ms, load_ms = kind.waits_ms
        wait_ms = np.where(phase == TrainingPhase.CHECKPOINT, write_ms, load_ms)
        wait_ms[0] = warm_up_ms
        wait_ms = np.where(trains[1:], np.minimum(wait_ms, length_ms)[:-1], 0)
        begin_ms = begin_ms - np.append(0, wait_ms)
        length_ms = length_ms + np.append(0, wait_ms) - np.append(wait_ms, 0)
        level = np.array([kind.smoothed_level(of) for of in TrainingPhase])[phase]
        loop = np.where(trains, rng.integers(len(kind.loops), size=phase.size), -1)
        spans = smoothed.spans(begin_ms, length_ms, level, loop)
        edges = (spans.what == RISE) | (spans.what == FALL)
        of_phase, loop = phase[spans.phase], loop[spans.phase]
        plays_loop = (loop >= 0) & ~edges
        whole_ms = np.where(edges, spans.length_ms, FLAT_DURATION_MS)
        whole_ms[plays_loop] = kind.loop_ms[loop[plays_loop]]
        profile_id = np.array(kind.loops)[loop]
        weight = np.full(len(spans), self._frame.node_type.busy_power_factor)
        for each, flat_id in self._phase_ids.items():
            rows = (of_phase == each) & ~edges
            profile_id[rows] = flat_id
            weight[rows] = [
                kind.power_w(share) / FLAT_POWER_W for share in spans.level[rows]
            ]
        of_phase = np.where(loop < 0, of_phase, TrainingPhase.TRAIN)
        for (into, what), edge_id in kind.edges.items():
            profile_id[(of_phase == into) & (spans.what == what)] = edge_id
        row, into_ms, piece_ms = cut(spans.length_ms, whole_ms)
        return ProfileSections(
            job=np.zeros_like(row),
            into_ms=spans.into_ms[row] + into_ms,
            length_ms=piece_ms,
            profile_id=profile_id[row],
            weight=weight[row],
            offset_ms=smoothed.edge_offset_ms(spans)[row],
        )

    def _kind(self, number: int) -> _Kind:
        return self._kinds[(number - 1) % len(self._kinds)]

    def _phases(self, number: int) -> TrainingPhases:
        try:
            return self._kind(number).phases(number)
        except WorkloadError as error:
            entry = (number - 1) % len(self._kinds)
            raise WorkloadError(
                f"streams.{self.name}.synchronous.jobs[{entry}]: {error}"
            ) from error

    def _submissions(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, submission time and run time [ms] of each job in the run."""
        clock = self._frame.clock
        number, next_ms = 0, clock.begin_ms
        while number < len(self._kinds) or (
            self.spec.repeat and next_ms < clock.horizon_ms
        ):
            number += 1
            spec = self._kind(number).spec
            if spec.submit is not None:
                next_ms = clock.wall.time_ms(spec.submit)
            elif spec.submit_after is not None:
                next_ms = (
                    end_date(clock.start, spec.submit_after) - clock.start
                ) // timedelta(milliseconds=1)
            if next_ms >= clock.horizon_ms:
                continue
            if next_ms < clock.begin_ms:
                raise WorkloadError(
                    f"streams.{self.name}.synchronous.jobs[{number - 1}]: submit "
                    f"{spec.submit} lies before the simulation begins; submit it "
                    "later, or lengthen warm_up"
                )
            if number > MAX_JOBS:
                raise WorkloadError(
                    f"streams.{self.name}.synchronous: more than {MAX_JOBS:,} jobs; "
                    "give them more work, or shorten the run"
                )
            run_ms = self.phases(number).duration_ms
            yield number, next_ms, run_ms
            next_ms += run_ms


def _ms(seconds: float) -> int:
    return round(seconds * MS_PER_S)
