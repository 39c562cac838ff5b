"""Large synchronous training jobs: submissions, run times and power.

The phases of a job are drawn when needed, from a random generator that is seeded by the
run's seed, the job stream and the job number. The power of training is a sequence of
loops. A loop is about ten minutes of iterations. A few loops are drawn once for each
entry of the job list, and are replayed in random order. All other phases have constant
power. With power smoothing, a period of training repeats one loop, so that power has no
step between loops.

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
from diploee.loads.jobs.lowering import ProfileSections, split_lengths
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

# Number of different loops of iterations of each job entry
N_LOOPS = 3
# Maximum number of synchronous jobs of a stream
MAX_JOBS = 100_000
MIN_ETTR = 0.01
"""Minimum expected fraction of time that is training progress; other jobs are
refused."""

LAG_STEPS = 10
"""Number of steps in which the nodes of a job change to the next phase."""

MAX_STORED = 4
"""Number of jobs whose phases are stored at a time, some 10 MB each."""

PHASE_PREFIX = "~synchronous-"
"""Start of the profile ids of synchronous jobs, before the phase's name."""

# Provenance text of the profiles of synchronous jobs
SOURCE = (
    "synthetic iterations of synchronous training by the scenario's keys, not measured"
)


def _phase_profile_id(phase: TrainingPhase, suffix: str = "") -> str:
    """Return the id of a phase's profile.

    Training profiles are particular to a job, and need a suffix for it.
    """
    return f"{PHASE_PREFIX}{phase.name.lower()}{suffix}"


class _JobEntry:
    """Entry of the list of synchronous jobs, with its nodes and profiles."""

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
        self.iteration_s = spec.iteration_s(self.n_gpus)
        # GPU power in each stall with a process on the GPU, as a fraction of TDP
        self.levels = {
            TrainingPhase.CHECKPOINT: spec.checkpoint_level,
            TrainingPhase.HUNG: spec.hung_level,
            TrainingPhase.LOAD: spec.load_level,
        } | ({TrainingPhase.END: spec.load_level} if smoothing is None else {})
        # GPU power in each loop without smoothing, as a fraction of TDP
        self.own_loops = tuple(
            loop_of_iterations(
                spec,
                self.iteration_s,
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
        # Lengths of the loops [ms], equal without smoothing
        self.loop_ms = np.array([profile.duration_ms for profile in profiles])
        # Profiles of rises and falls into each phase, if smoothed
        self.edges = {
            (phase, kind): builder.index_of(self._edge_profile(phase, kind))
            for phase in (TrainingPhase if self.smoothed is not None else ())
            if phase != TrainingPhase.REDO  # uses those of TRAIN
            for kind in (RISE, FALL)
        }

    def _smoothed(self, smoothing: PowerSmoothing) -> SmoothedPhases:
        """Return the smoothed power of the entry's phases."""
        node = self.frame.node_type
        idle = max(node.idle_power_w - cpu_power_w(node), 0) / (
            node.n_gpus * node.gpu_tdp_w
        )
        step_s = PROFILE_STEP_MS / MS_PER_S
        loops = tuple(
            smooth_loop(unsmoothed, step_s, smoothing)[0]
            for unsmoothed in self.own_loops
        )
        rate = min(smoothing.up_per_s, smoothing.down_per_s)
        if rate < SLOWEST_PER_S or any(
            smoothed.size >= MAX_STRETCH * unsmoothed.size
            for smoothed, unsmoothed in zip(loops, self.own_loops, strict=True)
        ):
            raise WorkloadError(
                f"streams.{self.frame.name}.power_smoothing: '{self.label}' with "
                f"iterations of {self.iteration_s:.4g} s can't be shown with up_per_s "
                f"{smoothing.up_per_s:g} and down_per_s {smoothing.down_per_s:g}; "
                f"expected {SLOWEST_PER_S:g} at least, and a job that takes less than "
                f"{MAX_STRETCH} times as long; raise them"
            )
        return SmoothedPhases(smoothing, loops, self.spec.high, idle)

    def _waits_ms(self) -> tuple[int, int, int]:
        """Return the work delayed after a checkpoint, first start and load [ms].

        The cause is the limited rise of the GPUs' power.
        """
        spec, smoothed = self.spec, self.smoothed
        if smoothed is None:
            return 0, 0, 0
        load, write = (
            self.smoothed_level(TrainingPhase.LOAD),
            self.smoothed_level(TrainingPhase.CHECKPOINT),
        )
        return (
            _whole_ms(smoothed.lost_s(smoothed.begin, write, spec.checkpoint_write_s)),
            _whole_ms(smoothed.lost_s(smoothed.idle, load, spec.warm_up_s)),
            _whole_ms(smoothed.lost_s(smoothed.idle, load, spec.load_s)),
        )

    def _plan(self) -> TrainingPlan:
        """Return the plan of the entry's training, with its phases' durations."""
        spec, slowdown = self.spec, 1.0
        # Duration of its iterations relative to that without smoothing
        if self.smoothed is not None:
            n_unsmoothed, n_smoothed = (
                sum(map(len, loops)) for loops in (self.own_loops, self.smoothed.loops)
            )
            slowdown = n_smoothed / n_unsmoothed
        interval_s, waits_ms = spec.interval_s(self.n_nodes), self.waits_ms
        return TrainingPlan(
            work_ms=max(_whole_ms(spec.work_s(self.n_gpus) * slowdown), 1),
            interval_ms=max(_whole_ms(interval_s), 1)
            if math.isfinite(interval_s)
            else NEVER_MS,
            write_ms=_whole_ms(spec.write_s()) + waits_ms[0],
            start_ms=_whole_ms(spec.start_s),
            warm_up_ms=_whole_ms(spec.warm_up_s) + waits_ms[1],
            # At least 1 ms, as only phases of positive length are counted
            reschedule_ms=max(_whole_ms(spec.reschedule_s), 1),
            load_ms=_whole_ms(spec.load_s) + waits_ms[2],
            spare_nodes=self.spares,
            repair_ms=_whole_ms(spec.repair_s),
            exit_ms=max(
                _whole_ms(spec.exit_s),
                0 if self.smoothed is None else _whole_ms(self.smoothed.fall_s) or 1,
            ),
        )

    def ettr(self) -> float:
        """Return the expected fraction of time that is training progress."""
        spec, plan = self.spec, self.plan
        detection_s = spec.detection_median_s * math.exp(spec.detection_sigma**2 / 2)
        recovery_ms = _whole_ms(detection_s) + plan.reschedule_ms + plan.load_ms
        rate = 1 / (spec.mttf_s(self.n_nodes) * MS_PER_S)
        interval_ms = min(plan.interval_ms, plan.work_ms)
        return expected_ettr(rate, recovery_ms, interval_ms, plan.write_ms)

    def phases(self, number: int) -> TrainingPhases:
        """Return the phases of the job with a given number."""
        spec, names = self.spec, ("synchronous", self.frame.name, number)
        if spec.phases is not None:
            into_ms = np.array([_whole_ms(start_s) for start_s, _ in spec.phases])
            phase = np.array([TrainingPhase[name.upper()] for _, name in spec.phases])
            length_ms = np.diff(into_ms, append=into_ms[-1] + self.plan.exit_ms)
            went = TrainingPhases(phase, into_ms, length_ms)
            return went.take(length_ms > 0)

        def rng(purpose: str) -> np.random.Generator:
            """Return the random generator for a purpose."""
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
            """Draw the time to detect a failure [ms]."""
            factor = math.exp(spec.detection_sigma * detections.standard_normal())
            return max(
                _whole_ms(min(spec.detection_median_s * factor, MS_PER_DAY / MS_PER_S)),
                1,
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
        writes_ms = store_writes(
            rng, medians_ms, (store.spread, store.slow_spread), store.change
        )
        return (write_ms + self.waits_ms[0] for write_ms in writes_ms)

    @property
    def period_ms(self) -> int:
        """Length of an iteration, rounded to whole steps of a profile [ms]."""
        return (
            max(round(self.iteration_s * MS_PER_S / PROFILE_STEP_MS), 1)
            * PROFILE_STEP_MS
        )

    def leads_ms(self, phase: Int16Array, length_ms: Int64Array) -> Int64Array:
        """Return the time before each phase's end with a GPU in the next phase [ms]."""
        lead_ms = _whole_ms(self.spec.lead_s) if self.n_gpus <= MAX_LED else 0
        is_training, is_checkpoint = (
            phase <= TrainingPhase.REDO,
            phase == TrainingPhase.CHECKPOINT,
        )
        has_lead = (is_training[:-1] & is_checkpoint[1:]) | (
            is_checkpoint[:-1] & is_training[1:]
        )
        return np.where(
            np.append(has_lead, False), np.minimum(lead_ms, length_ms // 2), 0
        )

    def lags_ms(self, length_ms: Int64Array) -> Int64Array:
        """Return the time after each phase's start in which nodes change to it [ms]."""
        lags_ms = np.minimum(
            _whole_ms(self.spec.lag_s or 0) if self.n_nodes > 1 else 0, length_ms // 2
        )
        lags_ms[0] = 0
        return np.where(lags_ms >= LAG_STEPS, lags_ms, 0)

    @cached_property
    def mean_power_w(self) -> Float64Array:
        """Mean power of all nodes in each phase, training included [W]."""
        training_level = float(np.mean([loop.mean() for loop in self.own_loops]))
        return np.array(
            [
                self.power_w(training_level, is_training=True)
                if phase <= TrainingPhase.REDO
                else self.phase_power_w(phase)
                for phase in TrainingPhase
            ]
        )

    def power_w(self, share: Any, is_training: bool = False) -> Any:
        """Return the power of all nodes for a GPU power as a fraction of TDP [W].

        The CPUs draw their part of the node's idle power, as in
        `diploee.profiles.gpu_power_smoothing`, or in training the power specified for
        the job.
        """
        node, level = self.frame.node_type, self.spec.cpu_level
        cpus_w = cpu_power_w(node)
        if is_training and level is not None:
            cpus_w = max(cpus_w, node.n_cpus * node.cpu_tdp_w * level)
        node_w = node.n_gpus * node.gpu_tdp_w * share + cpus_w
        return self.n_nodes * node_w + self.spares * node.idle_power_w

    def smoothed_level(self, phase: TrainingPhase) -> float:
        """Return the smoothed GPU power in a phase without training, per TDP."""
        assert self.smoothed is not None
        levels, spec = self.levels, self.smoothed.spec
        return max(levels[phase], spec.floor) if phase in levels else self.smoothed.idle

    def phase_power_w(self, phase: TrainingPhase) -> float:
        """Return the power of all nodes in a phase without training [W]."""
        if phase in self.levels:
            return float(self.power_w(self.levels[phase]))
        return self.held_nodes * self.frame.node_type.idle_power_w

    def _loop_profile(self, loop: int) -> PowerProfile:
        """Return the profile of one loop, for all nodes of the entry."""
        notes = (
            f"iterations of {self.iteration_s:.4g} s on {self.n_gpus:,} GPUs in phase"
        )
        unsmoothed = levels = self.own_loops[loop]
        if self.smoothed is not None:
            levels, spec = self.smoothed.loops[loop], self.smoothed.spec
            _, wasted = smooth_loop(unsmoothed, PROFILE_STEP_MS / MS_PER_S, spec)
            longer = levels.size / unsmoothed.size - 1
            notes += f"; {smoothing_note(spec, wasted / unsmoothed.sum(), longer)}"
            waits = [f"{wait_ms / MS_PER_S:g} s" for wait_ms in self.waits_ms]
            notes += (
                f", and {waits[0]} at each checkpoint, {waits[1]} at the start and "
                f"{waits[2]} after each failure; the floor holds while the job "
                "writes, loads and hangs"
            )
        name = f":{self.frame.name}:{self.label}:{loop + 1}"
        return self._profile(
            _phase_profile_id(TrainingPhase.TRAIN, name), levels, notes
        )

    def _edge_profile(self, phase: TrainingPhase, kind: int) -> PowerProfile:
        """Return the profile of a rise or fall into a phase, for all nodes."""
        assert self.smoothed is not None
        name = f":{self.frame.name}:{self.label}:{'rise' if kind == RISE else 'fall'}"
        notes = "ramp of GPU power smoothing"
        profile_id = _phase_profile_id(phase, name)
        return self._profile(
            profile_id, self.smoothed.edge(kind), notes, periodic=False
        )

    def _profile(
        self, profile_id: str, levels: Float64Array, notes: str, periodic: bool = True
    ) -> PowerProfile:
        """Return a profile from GPU power as a fraction of TDP."""
        frame = self.frame
        # The levels are fractions of TDP, so `busy_power_factor`, which is part of the
        # weights, is divided out.
        idle_w = self.power_w(0.0, is_training=periodic)
        power_w = idle_w + levels * (self.power_w(1.0) - self.power_w(0.0))
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
        self._entries = [
            _JobEntry(job, frame, job.label(number), spec.power_smoothing, builder)
            for number, job in enumerate(self.spec.jobs, 1)
        ]
        for number, entry in enumerate(self._entries):
            mttf_s = entry.spec.mttf_s(entry.n_nodes)
            if math.isfinite(mttf_s) and (ettr := entry.ettr()) < MIN_ETTR:
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
                or any(entry.plan.exit_ms for entry in self._entries)
            )
        }
        n_jobs = len(self._entries)
        self.classes = tuple(
            StreamClass(
                frame.name,
                JobClass(
                    workload=entry.label,
                    n_nodes=entry.held_nodes,
                    probability=1 / n_jobs,
                    flexibility=spec.flexibility,
                ),
                (*entry.loops, *entry.edges.values()),
            )
            for entry in self._entries
        )
        self.phases = lru_cache(maxsize=MAX_STORED)(self._phases)
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
        """Yield the submitted jobs of every `n_spans` draw spans."""
        n_nodes = np.array([job_entry.held_nodes for job_entry in self._entries])
        loops = np.array([job_entry.loops[0] for job_entry in self._entries])
        factor = self._frame.node_type.busy_power_factor
        for spans in self._frame.batches(n_spans):
            edges_ms = [spans.start * DRAW_MS, spans.stop * DRAW_MS]
            rows = slice(*np.searchsorted(self._submitted[:, 1], edges_ms).tolist())
            number, submit_ms, duration_ms = self._submitted[rows].T
            entry = (number - 1) % len(self._entries)
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
        """Return the number of jobs per day, including those of the warm-up."""
        return replace(super().match(), jobs_per_day=self.jobs_per_day)

    def sections(self, number: int) -> ProfileSections:
        """Return the profile sections of a job by number, in the job's time.

        Jobs are numbered from 1.
        """
        entry, phases = self._entry_of_job(number), self.phases(number)
        is_training = phases.phase <= TrainingPhase.REDO
        # Repeated and new work that are adjacent are one period of iterations.
        first_rows = np.flatnonzero(~is_training | np.diff(is_training, prepend=False))
        begin_ms = phases.into_ms[first_rows]
        length_ms = np.diff(begin_ms, append=phases.duration_ms)
        phase, is_training = phases.phase[first_rows], is_training[first_rows]
        rng = named_rng(self._frame.seed, "synchronous", self.name, number, "loops")
        if entry.smoothed is not None:
            sections = self._smoothed_sections(entry, phase, begin_ms, length_ms, rng)
        else:
            sections = self._plain_sections(entry, phase, begin_ms, length_ms, rng)
        if entry.spec.run_spread:
            rng_of_run = named_rng(
                self._frame.seed, "synchronous", self.name, number, "run"
            )
            normal = np.clip(rng_of_run.standard_normal(), -MAX_SIGMAS, MAX_SIGMAS)
            sections = replace(
                sections, weight=sections.weight * (1 + entry.spec.run_spread * normal)
            )
        return sections

    def _plain_sections(
        self,
        entry: _JobEntry,
        phase: Int16Array,
        begin_ms: Int64Array,
        length_ms: Int64Array,
        rng: np.random.Generator,
    ) -> ProfileSections:
        """Return the profile sections of phases without power smoothing."""
        leads_ms = entry.leads_ms(phase, length_ms)
        phase_row, is_lead = repeated(1 + (leads_ms > 0))
        main_ms = length_ms - leads_ms
        power_w = entry.mean_power_w[phase]
        next_ratio = np.divide(
            np.roll(power_w, -1), power_w, out=np.ones(phase.size), where=power_w > 0
        )
        factor = np.where(is_lead, 1 + (next_ratio[phase_row] - 1) / entry.n_gpus, 1.0)
        is_training = phase[phase_row] <= TrainingPhase.REDO
        row, into_ms, section_ms = split_lengths(
            np.where(is_lead, leads_ms[phase_row], main_ms[phase_row]),
            np.where(is_training, entry.loop_ms[0], FLAT_DURATION_MS),
        )
        loop, section_phase = (
            rng.integers(len(entry.loops), size=row.size),
            phase[phase_row][row],
        )
        profile_id = np.array(entry.loops)[loop]
        weight = np.full(row.size, self._frame.node_type.busy_power_factor)
        for flat_phase, flat_id in self._phase_ids.items():
            rows = section_phase == flat_phase
            profile_id[rows] = flat_id
            weight[rows] = entry.phase_power_w(flat_phase) / FLAT_POWER_W
        offset_ms = np.zeros(row.size, dtype=np.int64)
        # Random offsets, as periods of equal length would repeat the loop's start
        if entry.spec.noise is not None:
            n_spare_iterations = (
                np.where(is_training[row], entry.loop_ms[0] - section_ms, 0)
                // entry.period_ms
            )
            offset_ms = rng.integers(n_spare_iterations + 1) * entry.period_ms
        sections = ProfileSections(
            job=np.zeros_like(row),
            into_ms=(begin_ms[phase_row] + np.where(is_lead, main_ms[phase_row], 0))[
                row
            ]
            + into_ms,
            length_ms=section_ms,
            profile_id=profile_id,
            offset_ms=offset_ms,
            weight=weight * factor[row],
        )
        lags_ms = entry.lags_ms(length_ms)
        if not lags_ms.any():
            return sections
        loop[~is_training[row]] = -1
        return self._with_lags(
            entry, sections, loop, np.searchsorted(sections.into_ms, begin_ms), lags_ms
        )

    def _with_lags(
        self,
        entry: _JobEntry,
        sections: ProfileSections,
        loop: Int64Array,
        first: Int64Array,
        lags_ms: Int64Array,
    ) -> ProfileSections:
        """Return sections in which nodes change phase evenly over a lag.

        `loop` is the loop of each section, or -1 for constant power. `first` is the
        first section of each phase.
        """
        first, lags_ms = first[lags_ms > 0], lags_ms[lags_ms > 0]
        loops = np.stack(entry.own_loops)

        def power_w(row: Int64Array, into_ms: Int64Array) -> Float64Array:
            """Return the power of sections at a time into each section [W]."""
            step = (
                (sections.offset_ms[row] + into_ms) // PROFILE_STEP_MS % loops.shape[1]
            )
            training_w = entry.power_w(loops[loop[row], step], is_training=True)
            return np.where(
                loop[row] < 0, sections.weight[row] * FLAT_POWER_W, training_w
            )

        before_w = power_w(first - 1, sections.length_ms[first - 1] - 1)
        change_w = power_w(first, lags_ms) - before_w
        lag_row, step_index = repeated(np.full(first.size, LAG_STEPS))
        into_ms = np.stack([step_index, step_index + 1]) * lags_ms[lag_row] // LAG_STEPS
        steps = ProfileSections(
            job=np.zeros_like(lag_row),
            into_ms=sections.into_ms[first][lag_row] + into_ms[0],
            length_ms=into_ms[1] - into_ms[0],
            # Profile of constant power
            profile_id=sections.profile_id[np.where(loop[first] < 0, first, first - 1)][
                lag_row
            ],
            offset_ms=np.zeros_like(lag_row),
            weight=(
                before_w[lag_row] + (step_index + 0.5) / LAG_STEPS * change_w[lag_row]
            )
            / FLAT_POWER_W,
        )
        shift_ms = np.zeros(len(sections), dtype=np.int64)
        shift_ms[first] = lags_ms
        rest = replace(
            sections,
            into_ms=sections.into_ms + shift_ms,
            offset_ms=sections.offset_ms + shift_ms,
            length_ms=sections.length_ms - shift_ms,
        )
        result = concat([rest.take(rest.length_ms > 0), steps])
        return result.take(np.argsort(result.into_ms, kind="stable"))

    def _smoothed_sections(
        self,
        entry: _JobEntry,
        phase: Int16Array,
        begin_ms: Int64Array,
        length_ms: Int64Array,
        rng: np.random.Generator,
    ) -> ProfileSections:
        """Return the profile sections of phases with power smoothing.

        Adjacent training phases have been merged.
        """
        smoothed, is_training = entry.smoothed, phase <= TrainingPhase.REDO
        assert smoothed is not None
        # The delay of work by the rise is part of the stall before: training, with its
        # rise, begins earlier by this time.
        write_ms, warm_up_ms, load_ms = entry.waits_ms
        wait_ms = np.where(phase == TrainingPhase.CHECKPOINT, write_ms, load_ms)
        wait_ms[0] = warm_up_ms
        wait_ms = np.where(is_training[1:], np.minimum(wait_ms, length_ms)[:-1], 0)
        begin_ms = begin_ms - np.append(0, wait_ms)
        length_ms = length_ms + np.append(0, wait_ms) - np.append(wait_ms, 0)
        level = np.array(
            [entry.smoothed_level(any_phase) for any_phase in TrainingPhase]
        )[phase]
        loop = np.where(
            is_training, rng.integers(len(entry.loops), size=phase.size), -1
        )
        spans = smoothed.spans(begin_ms, length_ms, level, loop)
        is_edge = (spans.kind == RISE) | (spans.kind == FALL)
        span_phase, loop = phase[spans.phase], loop[spans.phase]
        is_loop = (loop >= 0) & ~is_edge
        max_section_ms = np.where(is_edge, spans.length_ms, FLAT_DURATION_MS)
        max_section_ms[is_loop] = entry.loop_ms[loop[is_loop]]
        profile_id = np.array(entry.loops)[loop]
        weight = np.full(len(spans), self._frame.node_type.busy_power_factor)
        for flat_phase, flat_id in self._phase_ids.items():
            rows = (span_phase == flat_phase) & ~is_edge
            profile_id[rows] = flat_id
            weight[rows] = [
                entry.power_w(share) / FLAT_POWER_W for share in spans.level[rows]
            ]
        span_phase = np.where(loop < 0, span_phase, TrainingPhase.TRAIN)
        for (target_phase, kind), edge_id in entry.edges.items():
            profile_id[(span_phase == target_phase) & (spans.kind == kind)] = edge_id
        row, into_ms, section_ms = split_lengths(spans.length_ms, max_section_ms)
        return ProfileSections(
            job=np.zeros_like(row),
            into_ms=spans.into_ms[row] + into_ms,
            length_ms=section_ms,
            profile_id=profile_id[row],
            weight=weight[row],
            offset_ms=smoothed.edge_offset_ms(spans)[row],
        )

    def _entry_of_job(self, number: int) -> _JobEntry:
        """Return the entry of a job number from 1 in the repeated job list."""
        return self._entries[(number - 1) % len(self._entries)]

    def _phases(self, number: int) -> TrainingPhases:
        """Return the phases of a job by its number, with errors that name its entry."""
        try:
            return self._entry_of_job(number).phases(number)
        except WorkloadError as error:
            entry = (number - 1) % len(self._entries)
            raise WorkloadError(
                f"streams.{self.name}.synchronous.jobs[{entry}]: {error}"
            ) from error

    def _submissions(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, submission time and run time [ms] of each job in the run."""
        clock = self._frame.clock
        number, next_ms = 0, clock.begin_ms
        while number < len(self._entries) or (
            self.spec.repeat and next_ms < clock.horizon_ms
        ):
            number += 1
            spec = self._entry_of_job(number).spec
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


def _whole_ms(seconds: float) -> int:
    """Return seconds as whole milliseconds."""
    return round(seconds * MS_PER_S)
