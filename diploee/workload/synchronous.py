"""Large synchronous training jobs: when they are submitted, how long they take, what they play.

What a job goes through is drawn from a stream named by seed, stream and the job's number, whenever
it is asked for, and never held. Its iterations are loops of some ten minutes, drawn once for each
entry of the list and played one after the other in a drawn order; all else is of constant power.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, lru_cache

import numpy as np

from diploee.errors import WorkloadError
from diploee.profiles import PowerProfile, Provenance
from diploee.profiles.flat import FLAT_DURATION_MS, FLAT_POWER_W, flat_profile
from diploee.profiles.iterations import loop_of_iterations
from diploee.profiles.profile import DEVICE_POWER
from diploee.scenario import JobClass, JobStream
from diploee.scenario.spans import end_of
from diploee.scenario.synchronous import SynchronousJob
from diploee.streams import stream
from diploee.tables import Float64Array, Int32Array, Int64Array, Table, column
from diploee.units import MS_PER_DAY, MS_PER_S, PROFILE_STEP_MS
from diploee.workload.jobs import JobTable, StreamClass
from diploee.workload.library_builder import LibraryBuilder
from diploee.workload.match import StreamMatch, Utilization, node_ms
from diploee.workload.source import DRAW_MS, StreamFrame
from diploee.workload.training_phases import (
    NEVER_MS,
    Phase,
    TrainingPhases,
    TrainingPlan,
    expected_ettr,
    poisson_gaps,
    training_phases,
)

N_LOOPS = 3
MEASURED_HZ = 0.25
"""Up to here the profiles of measured jobs are trusted; iterations above are told."""

MOST_JOBS = 100_000
LEAST_ETTR = 0.01
"""A job that is expected to spend less of its time on progress never gets anywhere."""

KEPT = 4
"""Courses that are kept, some 10 MB each."""

_PREFIX = "~synchronous-"

SOURCE = "synthetic iterations of synchronous training by the scenario's keys, not measured"


@dataclass(frozen=True, eq=False)
class CourseRows(Table):
    """What one job plays in its own time; rows adjoin.

    Parameters
    ----------
    into_ms, length_ms : numpy.ndarray, int64
        Start of the row since the start of the job, and its length [ms].
    profile_id : numpy.ndarray, int32
        Profile that is played.
    weight : numpy.ndarray, float64
        Factor on the profile's power; each row plays it from its beginning.
    """

    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")
    profile_id: Int32Array = column("int32")
    weight: Float64Array = column("float64")


def phase_profile_id(phase: Phase, of: str = "") -> str:
    """Return the id of what jobs play in a phase; that of training is each job's own."""
    return f"{_PREFIX}{phase.name.lower()}{of}"


def phase_of_profile(profile_id: str) -> int:
    """Return the phase in which synchronous jobs play a profile; -1 if none does."""
    if not profile_id.startswith(_PREFIX):
        return -1
    return Phase[profile_id.removeprefix(_PREFIX).partition(":")[0].upper()]


@dataclass(frozen=True)
class _Kind:
    """An entry of the list on the pool's nodes.

    Parameters
    ----------
    spec : SynchronousJob
        Its keys.
    frame : StreamFrame
        Its stream in the run.
    label : str
        Its name.
    loops : tuple of int
        Profiles of its iterations; all have one length.
    loop_ms : int
        That length [ms].
    """

    spec: SynchronousJob
    frame: StreamFrame
    label: str
    loops: tuple[int, ...] = ()
    loop_ms: int = 0

    @cached_property
    def n_nodes(self) -> int:
        return self.spec.nodes(self.frame.node_type.n_gpus)

    @cached_property
    def n_gpus(self) -> int:
        return self.n_nodes * self.frame.node_type.n_gpus

    @cached_property
    def spares(self) -> int:
        return self.spec.spares(self.n_nodes)

    @cached_property
    def period_s(self) -> float:
        return self.spec.iteration_s(self.n_gpus)

    @cached_property
    def plan(self) -> TrainingPlan:
        spec = self.spec
        interval_s = spec.interval_s(self.n_nodes)
        return TrainingPlan(
            work_ms=max(_ms(spec.work_s(self.n_gpus)), 1),
            interval_ms=max(_ms(interval_s), 1) if math.isfinite(interval_s) else NEVER_MS,
            write_ms=_ms(spec.checkpoint_write_s),
            warm_up_ms=_ms(spec.warm_up_s),
            reschedule_ms=max(_ms(spec.reschedule_s), 1),  # a phase of some length, to be counted
            load_ms=_ms(spec.load_s),
            spare_nodes=self.spares,
            repair_ms=_ms(spec.repair_s),
        )

    @cached_property
    def ettr(self) -> float:
        """Share of its time that is to be expected to be progress."""
        spec, plan = self.spec, self.plan
        detection_s = spec.detection_median_s * math.exp(spec.detection_sigma**2 / 2)
        recovery_ms = _ms(detection_s) + plan.reschedule_ms + plan.load_ms
        rate = 1 / (spec.mttf_s(self.n_nodes) * MS_PER_S)
        interval_ms = min(plan.interval_ms, plan.work_ms)
        return expected_ettr(rate, recovery_ms, interval_ms, plan.write_ms)

    def phases(self, number: int) -> TrainingPhases:
        """Go through the job of a number."""
        spec, names = self.spec, ("synchronous", self.frame.name, number)

        def rng(purpose: str) -> np.random.Generator:
            return stream(self.frame.seed, *names, purpose)

        failures, planned = (
            poisson_gaps(rng(purpose), MS_PER_DAY * 1000 / max(rate * self.n_nodes, 1e-300))
            for purpose, rate in (
                ("failures", spec.failures_per_1000_node_days),
                ("planned", spec.planned_per_1000_node_days),
            )
        )
        detections = rng("detection")

        def detection_ms() -> int:
            factor = math.exp(spec.detection_sigma * detections.standard_normal())
            return max(_ms(min(spec.detection_median_s * factor, MS_PER_DAY / MS_PER_S)), 1)

        return training_phases(self.plan, failures, planned, detection_ms)

    def power_w(self, share: float) -> float:
        """Return the power of all nodes where each GPU that trains draws a part of its TDP [W].

        The CPUs draw their part of the node's idle power, as in `diploee.profiles.smoothing`.
        """
        node = self.frame.node_type
        cpus_w = node.idle_power_w * node.n_cpus * node.cpu_tdp_w / node.rated_power_w
        of_node_w = node.n_gpus * node.gpu_tdp_w * share + cpus_w
        return self.n_nodes * of_node_w + self.spares * node.idle_power_w

    def phase_power_w(self, phase: Phase) -> float:
        """Return the power of all nodes in a phase that is no training [W]."""
        levels = {
            Phase.CHECKPOINT: self.spec.checkpoint_level,
            Phase.HUNG: self.spec.hung_level,
            Phase.LOAD: self.spec.load_level,
        }
        if phase in levels:
            return self.power_w(levels[phase])
        return (self.n_nodes + self.spares) * self.frame.node_type.idle_power_w

    def profile(self, loop: int) -> PowerProfile:
        """Return one of its loops, for all its nodes."""
        frame = self.frame
        rng = stream(frame.seed, "synchronous", frame.name, self.label, "loop", loop)
        shares = loop_of_iterations(self.spec, self.period_s, rng)
        # The levels are of the TDP: `busy_power_factor`, which weights hold, does not apply.
        idle_w = self.power_w(0.0)
        power_w = idle_w + shares * (self.power_w(1.0) - idle_w)
        notes = f"iterations of {self.period_s:.4g} s on {self.n_gpus:,} GPUs in phase"
        if self.period_s < 1 / MEASURED_HZ:
            notes += f"; {FAST} {MEASURED_HZ:g} Hz that measured profiles support"
        dt_s = PROFILE_STEP_MS / MS_PER_S
        return PowerProfile(
            profile_id=phase_profile_id(Phase.TRAIN, f":{frame.name}:{self.label}:{loop + 1}"),
            workload=self.label,
            n_nodes=self.n_nodes + self.spares,
            dt_ms=PROFILE_STEP_MS,
            power_w=(power_w / frame.node_type.busy_power_factor).astype(np.float32),
            provenance=Provenance(
                kind="reference",
                source=SOURCE,
                licence="none",
                sampling_interval_s=dt_s,
                averaging_window_s=dt_s,
                bandwidth_hz=0.44 / dt_s,
                power_boundary=DEVICE_POWER,
                notes=notes,
                gpus_per_node=frame.node_type.n_gpus,
                gpu_tdp_w=frame.node_type.gpu_tdp_w,
            ),
            periodic=True,
        )


FAST = "their line lies above the"
"""In the notes of loops whose iterations are faster than what was ever measured here."""


class SynchronousJobs:
    """The jobs of a stream with a `synchronous` block.

    Parameters
    ----------
    spec : JobStream
        The stream.
    frame : StreamFrame
        Its run.
    builder : LibraryBuilder
        Loops of iterations and flat profiles are added.

    Raises
    ------
    WorkloadError
        If a job would hardly get on, or there are too many.
    """

    def __init__(self, spec: JobStream, frame: StreamFrame, builder: LibraryBuilder) -> None:
        assert spec.synchronous is not None
        self.spec, self._frame, self.name = spec.synchronous, frame, frame.name
        self._kinds = [
            _with_loops(_Kind(job, frame, job.label(number)), builder)
            for number, job in enumerate(self.spec.jobs, 1)
        ]
        for number, kind in enumerate(self._kinds):
            if kind.ettr < LEAST_ETTR:
                raise WorkloadError(
                    f"streams.{frame.name}.synchronous.jobs[{number}]: with a failure every "
                    f"{kind.spec.mttf_s(kind.n_nodes):,.3g} s the job would spend "
                    f"{kind.ettr:.2g} of its time on progress; lower the failure rate, or the "
                    "times of detection, reschedule_s, load_s and checkpoint_interval"
                )
        self._phase_ids = {
            phase: builder.index_of(flat_profile(phase_profile_id(phase), SOURCE))
            for phase in Phase
            if phase not in (Phase.TRAIN, Phase.REDO)
        }
        n_jobs = len(self._kinds)
        self.classes = tuple(
            StreamClass(
                frame.name,
                JobClass(
                    workload=kind.label,
                    n_nodes=kind.n_nodes + kind.spares,
                    probability=1 / n_jobs,
                    flexibility=spec.flexibility,
                ),
                kind.loops,
            )
            for kind in self._kinds
        )
        self.phases = lru_cache(maxsize=KEPT)(self._phases)
        rows = sorted(self._submissions(), key=lambda row: (row[1], row[0]))
        if not rows:
            raise WorkloadError(
                f"streams.{frame.name}.synchronous: no job is submitted within the run; change "
                "submit or submit_after, or lengthen the run"
            )
        self._submitted = np.array(rows, dtype=np.int64).reshape(-1, 3)
        self._listed_ms = 0

    @property
    def jobs_per_day(self) -> float:
        """Jobs a day."""
        return len(self._submitted) / self._frame.n_days

    @property
    def asked_nodes(self) -> float:
        """Nodes that its jobs ask for on average."""
        end_ms = self._frame.clock.horizon_ms
        asked = sum(
            self._nodes(number) * max(min(submit_ms + run_ms, end_ms) - max(submit_ms, 0), 0)
            for number, submit_ms, run_ms in self._submitted.tolist()
        )
        return asked / end_ms

    def settle(self, simulated: Utilization | None) -> None:
        """There is nothing to find."""

    def draws(self) -> Iterator[JobTable]:
        """Yield the jobs of each span."""
        self._listed_ms = 0
        for span in self._frame.spans:
            edges_ms = [span * DRAW_MS, (span + 1) * DRAW_MS]
            rows = slice(*np.searchsorted(self._submitted[:, 1], edges_ms).tolist())
            number, submit_ms, duration_ms = self._submitted[rows].T
            entry = (number - 1) % len(self._kinds)
            of_class = [c.job_class.n_nodes for c in self.classes]
            loops = [kind.loops[0] for kind in self._kinds]
            factor = self._frame.node_type.busy_power_factor
            jobs = JobTable(
                job_id=np.zeros(number.size, dtype=np.int64),
                submit_ms=submit_ms,
                n_nodes=np.array(of_class)[entry],
                duration_ms=duration_ms,
                pool_id=np.full(number.size, self._frame.pool_id),
                class_id=entry,
                profile_id=np.array(loops)[entry],
                power_factor=np.full(number.size, factor),
                course_id=number,
            )
            self._listed_ms += int(node_ms(jobs, self._frame.clock.horizon_ms).sum())
            yield jobs

    def match(self) -> StreamMatch:
        """Return how many jobs there were."""
        listed = self._listed_ms / self._frame.capacity_ms
        return StreamMatch(self.name, self.jobs_per_day, "synchronous", None, listed, None, 0)

    def course(self, number: int) -> CourseRows:
        """Return what the job of a number, from 1, plays in its own time."""
        kind, phases = self._kind(number), self.phases(number)
        trains = phases.phase <= Phase.REDO
        # Work that is done again and work anew adjoin: one stretch of iterations.
        first = np.flatnonzero(~trains | np.diff(trains, prepend=False))
        begin_ms = phases.into_ms[first]
        length_ms = np.diff(begin_ms, append=phases.duration_ms)
        phase, trains = phases.phase[first], trains[first]
        piece_ms = np.where(trains, kind.loop_ms, FLAT_DURATION_MS)
        count = -(-length_ms // piece_ms)
        row = np.repeat(np.arange(first.size), count)
        nth = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
        rng = stream(self._frame.seed, "synchronous", self.name, number, "loops")
        profile_id = np.array(kind.loops)[rng.integers(len(kind.loops), size=row.size)]
        weight = np.full(row.size, self._frame.node_type.busy_power_factor)
        for of_phase, flat_id in self._phase_ids.items():
            rows = phase[row] == of_phase
            profile_id[rows] = flat_id
            weight[rows] = kind.phase_power_w(of_phase) / FLAT_POWER_W
        into_piece_ms = nth * piece_ms[row]
        return CourseRows(
            into_ms=begin_ms[row] + into_piece_ms,
            length_ms=np.minimum(length_ms[row] - into_piece_ms, piece_ms[row]),
            profile_id=profile_id,
            weight=weight,
        )

    def _kind(self, number: int) -> _Kind:
        return self._kinds[(number - 1) % len(self._kinds)]

    def _nodes(self, number: int) -> int:
        kind = self._kind(number)
        return kind.n_nodes + kind.spares

    def _phases(self, number: int) -> TrainingPhases:
        try:
            return self._kind(number).phases(number)
        except WorkloadError as error:
            entry = (number - 1) % len(self._kinds)
            raise WorkloadError(
                f"streams.{self.name}.synchronous.jobs[{entry}]: {error}"
            ) from error

    def _submissions(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, submission and run time [ms] of each job, those within the run."""
        clock = self._frame.clock
        number, next_ms = 0, clock.begin_ms
        while number < len(self._kinds) or (self.spec.repeat and next_ms < clock.horizon_ms):
            number += 1
            spec = self._kind(number).spec
            if spec.submit is not None:
                next_ms = clock.wall.time_ms(spec.submit)
            elif spec.submit_after is not None:
                next_ms = (end_of(clock.start, spec.submit_after) - clock.start) // timedelta(
                    milliseconds=1
                )
            if next_ms >= clock.horizon_ms:
                continue
            if next_ms < clock.begin_ms:
                raise WorkloadError(
                    f"streams.{self.name}.synchronous.jobs[{number - 1}]: submit {spec.submit} "
                    "lies before the simulation begins; submit it later, or lengthen warm_up"
                )
            if number > MOST_JOBS:
                raise WorkloadError(
                    f"streams.{self.name}.synchronous: more than {MOST_JOBS:,} jobs; give them "
                    "more work, or shorten the run"
                )
            run_ms = self.phases(number).duration_ms
            yield number, next_ms, run_ms
            next_ms += run_ms


def _with_loops(kind: _Kind, builder: LibraryBuilder) -> _Kind:
    profiles = [kind.profile(loop) for loop in range(N_LOOPS)]
    loops = tuple(builder.index_of(profile) for profile in profiles)
    return _Kind(kind.spec, kind.frame, kind.label, loops, profiles[0].duration_ms)


def _ms(seconds: float) -> int:
    return round(seconds * MS_PER_S)
