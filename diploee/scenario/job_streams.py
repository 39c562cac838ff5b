"""Job streams: synthetic, replayed, recurring with energy knobs, synchronous."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, model_validator

from diploee.base.model import (
    SCALES,
    Model,
    Name,
    PositiveShare,
    Share,
    check_probabilities,
    default,
    optional,
    uncertain,
    unset,
)
from diploee.base.units import SLOTS_PER_GPU
from diploee.scenario.durations import DurationModel
from diploee.scenario.flexibility import JobFlexibilitySpec
from diploee.scenario.log_replay import JobReplay
from diploee.scenario.recurring import RecurringTraining
from diploee.scenario.synchronous import SynchronousTraining
from diploee.scenario.times import Calendar

MAX_DISPERSION = 1_000
"""Maximum relative variance of the hourly rates; at this value 6 of 1,000 hours have
nearly all jobs."""

MAX_VARIANTS = 16
MAX_JOBS_PER_DAY = 1_000_000_000 // 366

MAX_FLOOR = 0.9
COARSEST_MS = 10_000
"""Maximum interval with power smoothing [ms], which acts within seconds."""

Utilization = PositiveShare


def _sum_to_one(of_what: str) -> AfterValidator:
    def check(shares: dict[Any, float]) -> dict[Any, float]:
        check_probabilities(shares.values(), of_what)
        return shares

    return AfterValidator(check)


class ProfileVariants(Model):
    """Slower and faster copies of each profile, to avoid lockstep fluctuations."""

    n_variants: Annotated[int, Field(ge=2, le=MAX_VARIANTS)] = default(
        5, "Copies of each profile, evenly spaced over the spread."
    )
    spread: Annotated[float, Field(ge=1e-4, le=0.2)] = default(
        0.02,
        (
            "Maximum relative change of a copy's time scale; with 0.02, a cycle of 10 "
            "s lasts 9.8 to 10.2 s, at the same power."
        ),
    )

    def time_factors(self) -> tuple[float, ...]:
        """Return the durations of the copies relative to the profile's."""
        step = 2 * self.spread / (self.n_variants - 1)
        return tuple(1 - self.spread + step * k for k in range(self.n_variants))


class PowerSmoothing(Model):
    """Power smoothing of each GPU with a running job: floor, ramps, hysteresis."""

    floor: Annotated[float, Field(ge=0, le=MAX_FLOOR)] = uncertain(
        0.65,
        "Minimum power of a GPU while its job runs, per TDP, at most 0.9",
        (0.5, 0.9),
    )
    up_per_s: PositiveShare = uncertain(
        0.1,
        (
            "Maximum rise of a GPU's power per second, per TDP; delayed work makes the "
            "job longer"
        ),
        (0.05, 0.2),
    )
    down_per_s: PositiveShare = uncertain(
        0.1, "Maximum fall of a GPU's power per second, per TDP", (0.05, 0.2)
    )
    hysteresis_s: Annotated[float, Field(ge=0, le=60)] = uncertain(
        2.0, "Time for which power is maintained before it falls [s]", (1, 4)
    )


class BatchInference(Model):
    """Offline inference of a fixed number of tokens in batches (paper, section 3.4)."""

    tokens: Annotated[float, Field(ge=1)] = Field(
        description=(
            "Tokens that one job generates over all its nodes; the last batch is "
            "always full. ASSUMPTION: every response has the full output length."
        )
    )
    batch_size: PositiveInt = Field(
        description=(
            "Prompts in a batch on one node; time and power are linear between "
            "measured sizes."
        )
    )
    output_tokens: PositiveInt = Field(
        description="Output length of a prompt [tokens]; must be one of the curve's."
    )
    curve: str = Field(
        description="Time and node power of a batch by batch size: a built-in name "
        "such as llama3_70b_offline, or a CSV file relative to the "
        "scenario file."
    )

    def n_batches(self, n_nodes: int) -> int:
        """Return the number of batches per node for `n_nodes` nodes."""
        return math.ceil(self.tokens / (n_nodes * self.batch_size * self.output_tokens))


class JobArrays(Model):
    """Job arrays: jobs of a class submitted together, as by loops of scripts."""

    job_share: PositiveShare = Field(
        description=(
            "Fraction of the class's jobs that belong to arrays; the others are "
            "submitted one by one."
        )
    )
    sizes: Annotated[
        dict[Annotated[int, Field(ge=2, le=100_000)], Share],
        _sum_to_one("sizes of arrays"),
    ] = Field(
        min_length=1,
        description="Fraction of the arrays by number of jobs; the fractions sum to 1.",
    )
    duration: DurationModel | None = optional(
        "Run time of jobs in arrays; that of the class if absent."
    )
    run_time_correlation: Share = default(
        1.0,
        (
            "Correlation of the run times within an array (of their normal scores); at "
            "1, all jobs of an array have the same run time."
        ),
    )

    @property
    def mean_size(self) -> float:
        """Mean number of jobs per array."""
        total = sum(self.sizes.values())
        return sum(size * share for size, share in self.sizes.items()) / total


class JobClass(Model):
    """Class of jobs: workload, node count, and relative frequency."""

    workload: Name = Field(
        description=(
            "Workload of the profiles, such as llama2_70b_lora; with batch_inference, "
            "any name."
        )
    )
    n_nodes: PositiveInt = Field(description="Nodes that the job occupies.")
    n_gpus: PositiveFloat | None = optional(
        "GPUs of a job that shares a node (n_nodes: 1, pool with allocate: gpus): a "
        "whole number, or hundredths of one GPU; all GPUs of its nodes if absent. The "
        "job draws the same fraction of the node's profile."
    )
    probability: Share = Field(description="Fraction of the stream's jobs.")
    scale_from_n_nodes: PositiveInt | None = unset(
        "Node count of measured profiles that are scaled linearly to n_nodes. All "
        "nodes then fluctuate together: an upper bound of the swings, not a forecast."
    )
    duration: DurationModel | None = optional(
        "Run time of the jobs; that of their profile if absent. For other run times, "
        "the steady part of the profile is repeated between its start and its end."
    )
    arrays: JobArrays | None = optional(
        "Groups of jobs that are submitted together; none if absent."
    )
    priority: float | None = optional(
        "Priority of the jobs, 0-1, for a scheduler of kind priority; 0 if absent.",
        ge=0,
        le=1,
    )
    batch_inference: BatchInference | None = optional(
        "Offline inference of a number of tokens, one model instance per node, instead "
        "of a workload's profiles; a measured curve gives run time and power, and "
        "profile_variants does not apply. ASSUMPTION: the power of a batch starts at "
        "its peak and falls to its end by a power law with the measured mean; each "
        "node has a random phase."
    )
    flexibility: JobFlexibilitySpec | None = optional(
        "Tolerance of the jobs to caps, pauses and fewer nodes; that of the stream if "
        "absent."
    )

    @model_validator(mode="after")
    def _least_nodes_fit(self) -> JobClass:
        least = self.flexibility.min_nodes if self.flexibility else None
        if least is not None and least > self.n_nodes:
            raise ValueError(
                f"min_nodes {least} is above the {self.n_nodes} nodes of the class"
            )
        return self

    @model_validator(mode="after")
    def _gpus_are_of_a_node(self) -> JobClass:
        if self.n_gpus is not None and not _is_whole(
            self.n_gpus * (1 if self.n_gpus > 1 else 100)
        ):
            raise ValueError(
                "n_gpus must be a whole number, or hundredths of one GPU, found "
                f"{self.n_gpus:g}"
            )
        if self.n_gpus is not None and self.n_nodes != 1:
            raise ValueError(
                f"n_gpus needs n_nodes: 1, found {self.n_nodes}; leave n_gpus out"
            )
        self._refuse("batch_inference", "n_gpus", "scale_from_n_nodes", "duration")
        return self

    @model_validator(mode="after")
    def _batches_give_time_and_power(self) -> JobClass:
        if (
            self.duration is None
            and self.arrays is not None
            and self.arrays.duration is not None
        ):
            raise ValueError(
                "arrays.duration needs duration, that of the jobs outside of arrays"
            )
        return self

    def slots(self, per_node: int) -> int:
        """Return the number of slots of a job on nodes with `per_node` slots."""
        if self.n_gpus is None:
            return self.n_nodes * per_node
        return round(self.n_gpus * SLOTS_PER_GPU)

    @property
    def submissions_per_job(self) -> float:
        """Submissions per job: an array counts as one submission."""
        if self.arrays is None:
            return 1.0
        return 1 - self.arrays.job_share + self.arrays.job_share / self.arrays.mean_size

    @property
    def profile_n_nodes(self) -> int:
        """Number of nodes of the profiles that jobs of the class replay."""
        return self.scale_from_n_nodes or self.n_nodes

    @property
    def name(self) -> str:
        """Name of the class in results, such as ``llama2_70b_lora/16``."""
        if self.n_gpus is not None:
            return f"{self.workload}/{self.n_gpus:g}gpu"
        return f"{self.workload}/{self.n_nodes}"


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < 1e-6 and round(number) > 0


class JobMix(Model):
    """Job classes as the product of two independent distributions.

    The distributions are those of the workload and of the number of nodes.
    """

    workload: Annotated[dict[Name, Share], _sum_to_one("workloads")] = Field(
        min_length=1, description="Probability of each workload; they sum to 1."
    )
    n_nodes: Annotated[dict[PositiveInt, Share], _sum_to_one("node counts")] = Field(
        min_length=1, description="Probability of each node count; they sum to 1."
    )


class JobStream(Model):
    """Stream of jobs for one pool: synthetic, replayed, recurring, or synchronous."""

    pool: str = Field(description="Name of an entry of facility.pools.")
    mix: JobMix | None = unset(
        "Classes as the product of two distributions, workload and node count; or "
        "classes."
    )
    classes: tuple[JobClass, ...] = default((), "List of classes; or mix.")
    replay: JobReplay | None = optional("Jobs of a log, instead of mix or classes.")
    zeus: RecurringTraining | None = optional(
        "Recurring training jobs with energy knobs, instead of mix or classes."
    )
    synchronous: SynchronousTraining | None = optional(
        "Large synchronous training jobs with checkpoints and failures, instead of "
        "mix or classes."
    )
    calendar: Calendar = default(
        Calendar(), "Rates of submission over time; uniform if absent."
    )
    dispersion: Annotated[float, Field(gt=0, le=MAX_DISPERSION)] | None = optional(
        "Variance of a random factor on each hour's rate (gamma, mean 1), as found in "
        "logs: the number of jobs in an hour has variance mean + dispersion * mean^2. "
        "Poisson if absent."
    )
    day_dispersion: Annotated[float, Field(gt=0, le=MAX_DISPERSION)] | None = optional(
        "Variance of a random factor on each day's rate (gamma, mean 1), in addition "
        "to dispersion; for weeks see calendar.week_to_week. No factor if absent."
    )
    target_utilization: Utilization | None = unset(
        "Requested mean node occupancy, 0-1 (Eq. 1), over the time in which the "
        "calendar has mean 1; or jobs_per_day."
    )
    jobs_per_day: Annotated[float | None, Field(gt=0, le=MAX_JOBS_PER_DAY), SCALES] = (
        unset(
            "Mean number of jobs per day, over the time in which the calendar has mean "
            "1; or target_utilization."
        )
    )
    match: Literal["list", "simulated"] = default(
        "list",
        (
            "Occupancy that is matched to the target: that estimated from the list of "
            "jobs (as in the paper), or that of the simulated schedule."
        ),
    )
    startup: DurationModel | None = optional(
        "Time from a job's start to its first power above idle [s], at most a day; "
        "none if absent. Meanwhile its nodes are busy at idle power. In a replayed job "
        "it is part of the run time."
    )
    profile_variants: ProfileVariants | None = optional(
        "Random choice of each job's profile among slower and faster copies of the "
        "measured ones."
    )
    power_smoothing: PowerSmoothing | None = optional(
        "Power smoothing of the jobs' GPUs: floor, ramp limits and hysteresis. The "
        "energy that it dissipates and the longer run times are in the notes of the "
        "profiles. A replayed job keeps its logged run time. A synchronous job stays "
        "at or above the floor while it trains, writes, loads or hangs, but not while "
        "it is rescheduled or waits for nodes."
    )
    flexibility: JobFlexibilitySpec | None = optional(
        "Tolerance of the jobs to caps, pauses and fewer nodes; none if absent."
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> JobStream:
        self._need_one("mix", "classes", "replay", "zeus", "synchronous")
        if self.replay is not None:
            return self._checked_replay()
        if self.zeus is not None:
            return self._checked_zeus(self.zeus)
        if self.synchronous is not None:
            return self._checked_synchronous()
        self._need_one("target_utilization", "jobs_per_day")
        if self.match == "simulated":
            self._need("match", "target_utilization")
        classes = self.job_classes()
        check_probabilities((job_class.probability for job_class in classes), "classes")
        names = [job_class.name for job_class in classes]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(
                f"class '{twice[0]}' is given twice; add up its probabilities"
            )
        least = self.flexibility.min_nodes if self.flexibility else None
        if least is not None and least > (fewest := min(c.n_nodes for c in classes)):
            raise ValueError(
                f"flexibility.min_nodes {least} is above the {fewest} nodes of the "
                "smallest class; give it by class"
            )
        return self

    def _checked_zeus(self, zeus: RecurringTraining) -> JobStream:
        self._refuse("zeus", "flexibility", "target_utilization", "match")
        self._refuse("zeus", "profile_variants", "power_smoothing")
        if zeus.groups is None:
            self._need("zeus", "jobs_per_day")
        else:
            self._refuse("zeus", "calendar", "dispersion", "day_dispersion")
            self._refuse("zeus", "jobs_per_day")
        return self

    def _checked_synchronous(self) -> JobStream:
        kept = {"pool", "synchronous", "flexibility", "power_smoothing"}
        self._refuse("synchronous", *sorted(type(self).model_fields.keys() - kept))
        self._refuse("power_smoothing", "flexibility")
        jobs = self.synchronous.jobs if self.synchronous is not None else ()
        if self.power_smoothing is not None and any(
            job.lead_s or job.exit_s or job.lag_s for job in jobs
        ):
            raise ValueError(
                "power_smoothing can't go with lead_s, lag_s and exit_s of a "
                "synchronous job, which are steps of its own; set them to 0"
            )
        if self.flexibility is not None and self.flexibility.min_nodes is not None:
            raise ValueError(
                "flexibility.min_nodes can't go with synchronous, whose jobs need all "
                "of their nodes; remove it"
            )
        return self

    def _checked_replay(self) -> JobStream:
        if self.flexibility is not None and self.flexibility.min_nodes is not None:
            raise ValueError(
                "flexibility.min_nodes can't go with replay, whose jobs have any "
                "width; remove it"
            )
        self._refuse("replay", "calendar", "dispersion", "day_dispersion")
        self._refuse("replay", "target_utilization", "jobs_per_day", "match")
        return self

    def job_classes(self) -> tuple[JobClass, ...]:
        """Return the job classes, for a mix in the order of its keys.

        Streams of other kinds have none.
        """
        if self.mix is None:
            if self.flexibility is None:
                return self.classes
            return tuple(
                c
                if c.flexibility
                else c.model_copy(update={"flexibility": self.flexibility})
                for c in self.classes
            )
        return tuple(
            JobClass(
                workload=workload,
                n_nodes=n_nodes,
                probability=of_workload * of_count,
                flexibility=self.flexibility,
            )
            for workload, of_workload in self.mix.workload.items()
            for n_nodes, of_count in self.mix.n_nodes.items()
        )
