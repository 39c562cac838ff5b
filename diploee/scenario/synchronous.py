"""Large synchronous training jobs, whose GPUs change power together."""

from __future__ import annotations

import itertools
import math
from functools import partial
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, model_validator

from diploee.base.model import (
    SCALES,
    InnerShare,
    Model,
    Name,
    Share,
    default,
    optional,
    uncertain,
    with_preset,
)
from diploee.base.units import MS_PER_DAY, MS_PER_S
from diploee.scenario.times import Duration, Moment
from diploee.scenario.yaml_lines import presets

S_PER_DAY = MS_PER_DAY / MS_PER_S
MAX_DAYS = 3_660
MIN_PERIOD_S, MAX_PERIOD_S = 0.2, 600.0
FLOP_PER_PARAMETER = 6
"""Floating-point operations per parameter and token, forward and backward."""

MAX_LED = 64
"""Maximum number of GPUs of a job with a leading GPU in its power. In a larger job, one
GPU is below 1.6 % of the power."""

PhaseName = Literal[
    "train",
    "redo",
    "checkpoint",
    "hung",
    "wait",
    "reschedule",
    "planned",
    "load",
    "end",
]
RANDOM_DURATION_KEYS = {
    "work_days",
    "tokens",
    "start_s",
    "warm_up_s",
    "checkpoint_interval",
    "checkpoint_write_s",
    "checkpoint_store",
    "failures_per_1000_node_days",
    "planned_per_1000_node_days",
    "detection_median_s",
    "detection_sigma",
    "reschedule_s",
    "load_s",
    "repair_s",
}
"""Keys of random durations of phases, which `phases` replaces."""

ALTERNATIVES: tuple[tuple[set[str], set[str]], ...] = (
    ({"n_gpus"}, {"n_nodes"}),
    ({"period_s"}, {"parameters", "tflops_per_gpu"}),
    ({"work_days"}, {"tokens"}),
    ({"phases"}, RANDOM_DURATION_KEYS),
)
"""Alternative keys: a specified key replaces the preset's other key of the pair."""


Seconds = Annotated[float, Field(ge=0, le=S_PER_DAY)]
Rate = Annotated[float, Field(ge=0, le=1e4)]
Amount = Annotated[float, Field(gt=0, le=1e18)]


class SecondDip(Model):
    """Second, shorter power dip in each iteration, such as a pipeline flush."""

    at: Share = uncertain(
        0.5, "Start of the dip, as a fraction of the iteration", (0.3, 0.7)
    )
    length: InnerShare = uncertain(
        0.05, "Length of the dip, as a fraction of the iteration", (0.02, 0.1)
    )
    level: Share = uncertain(0.6, "Power of a GPU in the dip, per TDP", (0.5, 0.75))


class MicroSteps(Model):
    """Micro-steps of an iteration, such as gradient accumulation steps.

    The high power level has a short dip at each micro-step.
    """

    count: Annotated[int, Field(ge=2, le=1_000)] = Field(
        description=(
            "Length of an iteration per length of a micro-step; none starts after the "
            "iteration's duty."
        )
    )
    low: Share = Field(
        description="Power of a GPU at the end of each micro-step, per TDP."
    )
    duty: InnerShare = uncertain(
        0.5, "Fraction of a micro-step at the high level, 0-1", (0.25, 0.75)
    )


class GpuNoise(Model):
    """White noise of training GPUs' power, as a fraction of TDP per root hertz.

    Source: 8 H100 (TDP 700 W) that trained a GPT had 143 to 360 W^2/Hz of noise common
    to all GPUs, and 33 to 55 W^2/Hz of independent noise (computed from
    grantwilkins/training_profile). The square roots are 0.017 to 0.027 and 0.008
    to 0.011 of the TDP per root hertz.
    """

    common: Share = uncertain(
        0.021,
        (
            "Root of the one-sided power spectral density common to all GPUs "
            "[TDP/√Hz]; the same for all nodes of a job (assumed)"
        ),
        (0.017, 0.027),
        "(those runs)",
        basis="",
        assumed=True,
    )
    own: Share = uncertain(
        0.0095,
        "Root of the one-sided power spectral density of each GPU, independent of the "
        "others [TDP/√Hz]",
        (0.008, 0.011),
        "(those runs)",
        basis="",
    )


class CheckpointStore(Model):
    """Checkpoint storage that is fast, or slow at times, as with a full cache."""

    slow_s: Seconds = uncertain(
        56.2,
        "Median stall in the slow state [s]; 17.1 s in the fast state",
        (30, 80),
        basis="from one store (grantwilkins/training_profile, computed)",
    )
    change: Share = uncertain(
        0.12,
        ("Probability of a change between fast and slow at each write, starting fast"),
        (0.03, 0.3),
        basis="assumed, from 2 changes in 28 fast writes",
    )
    spread: Share = default(
        0.035, "Standard deviation of the logarithm of a fast stall."
    )
    slow_spread: Share = uncertain(
        0.25, "Standard deviation of the logarithm of a slow stall", (0.0, 0.4)
    )


class SynchronousJob(Model):
    """Training job whose GPUs all compute, wait and fail together."""

    preset: str | None = optional(
        (
            "Name of a preset for keys that are not specified: 'llama3_405b_16k', "
            "'dense_70b_1k', 'dense_2t_100k', 'gpt_8xh100', 'lora_4xh100', "
            "'lora_4xh200', 'lora_4xl40s', 'lora_4xa100'. Assumed, except for the "
            "size, speed and failures of Llama 3 and the power levels of gpt_8xh100 "
            "and lora_*."
        ),
        assumed=True,
    )
    name: Name | None = optional(
        "Name of the job in results; if absent, that of the preset, or job and its "
        "number in the list."
    )
    n_gpus: Annotated[PositiveInt | None, SCALES] = optional(
        "Number of training GPUs, rounded up to whole nodes; or n_nodes."
    )
    n_nodes: Annotated[PositiveInt | None, SCALES] = optional(
        "Number of training nodes; or n_gpus."
    )
    work_days: Annotated[float, Field(gt=0, le=MAX_DAYS)] | None = optional(
        "Work, in days without checkpoints and failures; or tokens."
    )
    tokens: Amount | None = optional(
        "Work, in training tokens; requires tokens_per_step."
    )
    phases: Annotated[
        tuple[tuple[Seconds, PhaseName], ...] | None, Field(min_length=2)
    ] = optional(
        "Measured phases of a job instead of random ones: start of each phase since "
        "the start of the job [s], and its name, the last one end: [[0, load], [104.2, "
        "train], [127.6, checkpoint], [144.7, train], [168, end]]."
    )
    submit: Moment | None = optional(
        "Time of submission, local, such as 2026-03-01 08:00. If neither submit nor "
        "submit_after is specified, the expected end of the previous job in the list; "
        "for the first job, the start."
    )
    submit_after: Duration | None = optional(
        "Time from the start of the run to its submission."
    )

    period_s: Annotated[float, Field(ge=MIN_PERIOD_S, le=MAX_PERIOD_S)] | None = (
        optional(
            "Length of an iteration [s]; or parameters, tokens_per_step and "
            "tflops_per_gpu."
        )
    )
    parameters: Amount | None = optional(
        "Number of parameters of the model; an iteration takes 6 operations per "
        "parameter and token."
    )
    tokens_per_step: Amount | None = optional("Tokens per iteration, over all GPUs.")
    tflops_per_gpu: Annotated[float, Field(gt=0, le=1e6)] | None = optional(
        "Achieved operations of one GPU [TFLOP/s]."
    )
    duty: InnerShare = uncertain(
        0.8, "Fraction of an iteration at the high level, 0-1", (0.6, 0.9)
    )
    high: Share = uncertain(
        0.92,
        "High power level of a GPU, per TDP",
        (0.75, 0.98),
        "(NVIDIA/NeMo issue 9291)",
    )
    low: Share = uncertain(
        0.45,
        "Low power level of a GPU, during gradient exchange, per TDP",
        (0.25, 0.6),
    )
    edge_s: Annotated[float, Field(ge=0, le=10)] = uncertain(
        0.1, "Transition time between the levels [s]", (0.02, 0.3)
    )
    jitter: Annotated[float, Field(ge=0, le=0.2)] = uncertain(
        0.02,
        ("Relative standard deviation of an iteration's length, common to all GPUs"),
        (0.004, 0.044),
        "(measured on single nodes)",
    )
    lag_s: Annotated[float, Field(ge=0, le=60)] | None = uncertain(
        None,
        (
            "Time within which the nodes of a job change from one phase to the next "
            "[s]; if absent, all change at once, which gives the largest swings"
        ),
        (0, 1),
    )
    second_dip: SecondDip | None = optional(
        "A second dip in every iteration; none if absent."
    )
    micro_steps: MicroSteps | None = optional("Micro-steps, instead of a second dip.")
    in_turn: bool = default(
        False,
        (
            "Whether the model is split by layers, so that the GPUs of a node work one "
            "after another, with the others at load_level."
        ),
        exclude_if=not_,
    )
    noise: GpuNoise | None = optional("Noise while the job trains; none if absent.")
    run_spread: Annotated[float, Field(ge=0, le=0.1)] = default(
        0.0,
        (
            "Relative standard deviation of a job's power between its runs; 0.03 "
            "between runs of one job on different GPUs "
            "(Leo-hxu/training-power-trace-explorer, computed)."
        ),
        exclude_if=not_,
    )
    cpu_level: Share | None = optional(
        "Power of the CPUs while the job trains, per TDP; as on an idle node if absent."
    )

    start_s: Seconds = default(
        0.0,
        "Start-up time of the processes on idle GPUs, before warm_up_s [s].",
        exclude_if=not_,
    )
    warm_up_s: Seconds = uncertain(
        300.0, "Time for start and loading before the first iteration [s]", (100, 600)
    )
    checkpoint_interval: (
        Literal["young", "none"] | Annotated[float, Field(gt=0, le=1e8)]
    ) = default(
        "young",
        (
            "Training between two checkpoints [s], or none; young: the square root of "
            "twice checkpoint_write_s times the mean time to a failure."
        ),
    )
    checkpoint_write_s: Seconds = uncertain(
        20.0,
        "Time for which a checkpoint stalls the job [s]",
        (17, 56),
        "(measured on one node)",
    )
    checkpoint_level: Share = uncertain(
        0.25, "Power of a GPU meanwhile, per TDP", (0.16, 0.35)
    )
    checkpoint_store: CheckpointStore | None = optional(
        "Random stalls by a fast and a slow state of the storage; if absent, all "
        "stalls last checkpoint_write_s."
    )
    lead_s: Annotated[float, Field(ge=0, le=10)] = default(
        0.0,
        "Time by which the writing GPU precedes the others into and out of a stall "
        f"[s], for jobs of up to {MAX_LED} GPUs.",
        exclude_if=not_,
    )
    failures_per_1000_node_days: Rate = default(
        3.8,
        (
            "Failures that stop the job, per 1,000 days of training nodes: 3.79 for "
            "Llama 3 (419 in 54 days on 2,048 nodes with 8 GPUs), 6.50 and 2.34 for "
            "the clusters RSC-1 and RSC-2 (arXiv:2410.21680). Not confirmed for jobs "
            "with some 1,000 GPUs, which failed more often."
        ),
    )
    planned_per_1000_node_days: Rate = default(
        0.43,
        (
            "Planned interruptions per 1,000 days of training nodes, which write a "
            "checkpoint first and lose no work; 47 in the 54 days of Llama 3."
        ),
    )
    detection_median_s: Seconds = uncertain(
        180.0,
        (
            "Median time for which the job hangs before a failure is detected [s]; "
            "lognormal"
        ),
        (60, 600),
    )
    detection_sigma: Annotated[float, Field(ge=0, le=3)] = uncertain(
        0.5, "Standard deviation of the natural logarithm of that time", (0.3, 0.8)
    )
    hung_level: Share = default(
        0.143,
        (
            "Power of a GPU that hangs in a collective operation, per TDP: 100 W of "
            "700 W (NVIDIA/NeMo issue 9291)."
        ),
    )
    reschedule_s: Seconds = uncertain(
        300.0,
        "Time to diagnose a failure and reallocate nodes, at idle power [s]",
        (120, 900),
    )
    load_s: Seconds = uncertain(
        300.0, "Time to start the processes and to load a checkpoint [s]", (100, 900)
    )
    load_level: Share = uncertain(0.3, "Power of a GPU meanwhile, per TDP", (0.16, 0.4))
    exit_s: Seconds = default(
        0.0, "Time at load_level after the last iteration [s].", exclude_if=not_
    )
    repair_s: Annotated[float, Field(ge=0, le=30 * S_PER_DAY)] = uncertain(
        S_PER_DAY,
        (
            "Repair time of a failed node [s]. Every failure disables one node "
            "(assumed); the job takes a spare node or waits for a repair"
        ),
        (21_600, S_PER_DAY),
    )
    spare_nodes: Annotated[int, Field(ge=0, le=1_000_000)] | None = optional(
        (
            "Idle spare nodes allocated to the job; if absent, the mean number of "
            "nodes in repair plus three standard deviations (assumed)."
        ),
        assumed=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        keys = {key for key, value in values.items() if value is not None}
        aside = {
            key
            for pair in ALTERNATIVES
            for one, other in (pair, pair[::-1])
            if keys & one
            for key in other - keys
        }
        whole = with_preset(values, partial(presets, "synchronous"))
        return {key: whole[key] for key in whole if key in values or key not in aside}

    @model_validator(mode="after")
    def _parts_fit(self) -> SynchronousJob:
        self._need_one("n_gpus", "n_nodes")
        if self.phases is None:
            self._need_one("work_days", "tokens")
        if self.phases is not None:
            starts_ms = [round(start_s * MS_PER_S) for start_s, _ in self.phases]
            self._refuse("phases", *sorted(RANDOM_DURATION_KEYS))
            if (
                starts_ms[0]
                or starts_ms != sorted(set(starts_ms))
                or self.phases[-1][1] != "end"
            ):
                raise ValueError(
                    "phases begin at 0, each after the one before by 1 ms or more, "
                    "and end with end"
                )
        self._need_one("period_s", "parameters")
        self._need("parameters", "tokens_per_step", "tflops_per_gpu")
        self._need("tflops_per_gpu", "parameters")
        self._need("tokens", "tokens_per_step")
        self._need_one("submit", "submit_after", n_min=0)
        self._need_one("second_dip", "micro_steps", n_min=0)
        if not self.low <= self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        return self

    def unused_keys(self) -> set[str]:
        """Return the keys without effect because phases are specified."""
        return set() if self.phases is None else RANDOM_DURATION_KEYS

    def lower_end(self, gpus_per_node: int) -> SynchronousJob | None:
        """Return the job with the slowest lag and power edges within their ranges.

        The slowest lag and edges give the smallest power fluctuations. The result is
        None if the scenario sets both lag and edges. Edges are unchanged if iterations
        are too short for slower edges.
        """
        keys = {"lag_s", "edge_s"} - self.model_fields_set
        if not keys or self.nodes(gpus_per_node) < 2:
            return None
        fields: dict[str, Any] = {key: type(self).model_fields[key] for key in keys}
        values = {
            key: field.json_schema_extra["range"][1] for key, field in fields.items()
        }
        slow = self.model_copy(update=values)
        if slow.problem(gpus_per_node) is not None:
            slow = self.model_copy(update={**values, "edge_s": self.edge_s})
        return slow

    def corners(self) -> list[tuple[float, float]]:
        """Return the corners of an iteration and the level after each.

        Corners are fractions of the iteration.
        """
        levels = [(0.0, self.high), (self.duty, self.low)]
        if (dip := self.second_dip) is not None:
            levels[1:1] = [(dip.at, dip.level), (dip.at + dip.length, self.high)]
        if (micro := self.micro_steps) is not None:
            begins = [
                nth / micro.count for nth in range(math.ceil(self.duty * micro.count))
            ]
            corners = [
                corner
                for at in begins
                for corner in (
                    (at, self.high),
                    (at + micro.duty / micro.count, micro.low),
                )
            ]
            levels[:1] = [corner for corner in corners if corner[0] < self.duty]
        return levels

    def write_s(self) -> float:
        """Mean stall of a checkpoint [s].

        A checkpoint store is in its fast state half of the time.
        """
        fast_s, store = self.checkpoint_write_s, self.checkpoint_store
        if store is None:
            return fast_s
        medians_and_spreads = (
            (fast_s, store.spread),
            (store.slow_s, store.slow_spread),
        )
        return sum(s * math.exp(spread**2 / 2) for s, spread in medians_and_spreads) / 2

    def label(self, number: int) -> str:
        """Return the name of the n-th job of its list, from 1."""
        return self.name or self.preset or f"job{number}"

    def iteration_s(self, n_gpus: int) -> float:
        """Return an iteration's length [s], T = 6 P tokens / (n FLOP/s)."""
        if self.period_s is not None:
            return self.period_s
        assert self.parameters and self.tokens_per_step and self.tflops_per_gpu
        flop = FLOP_PER_PARAMETER * self.parameters * self.tokens_per_step
        return flop / (n_gpus * self.tflops_per_gpu * 1e12)

    def work_s(self, n_gpus: int) -> float:
        """Return the required training time on `n_gpus` GPUs [s]."""
        if self.phases is not None:
            pairs = itertools.pairwise(self.phases)
            return sum(
                end_s - begin_s for (begin_s, of), (end_s, _) in pairs if of == "train"
            )
        if self.tokens is None:
            assert self.work_days is not None
            return self.work_days * S_PER_DAY
        assert self.tokens_per_step is not None
        return self.tokens / self.tokens_per_step * self.iteration_s(n_gpus)

    def nodes(self, gpus_per_node: int) -> int:
        """Return the number of nodes that train."""
        return self.n_nodes or -(-(self.n_gpus or 0) // max(gpus_per_node, 1))

    def spares(self, n_nodes: int) -> int:
        """Return the number of spare nodes of a job on `n_nodes` nodes."""
        if self.spare_nodes is not None:
            return self.spare_nodes
        broken = self.repair_s / self.mttf_s(n_nodes)
        return math.ceil(broken + 3 * math.sqrt(broken))

    def mttf_s(self, n_nodes: int) -> float:
        """Return the mean time to failure of a job on `n_nodes` nodes [s].

        The time is infinite at a failure rate of 0.
        """
        per_day = n_nodes * self.failures_per_1000_node_days / 1000
        return S_PER_DAY / per_day if per_day and self.phases is None else math.inf

    def interval_s(self, n_nodes: int) -> float:
        """Return the training time between two checkpoints [s].

        The time is infinite without checkpoints.
        """
        if self.checkpoint_interval == "none":
            return math.inf
        if self.checkpoint_interval == "young":
            return math.sqrt(2 * self.write_s() * self.mttf_s(n_nodes)) or math.inf
        return float(self.checkpoint_interval)

    def problem(self, n_gpus_per_node: int) -> tuple[str, str] | None:
        """Return the key and the text of a setting that does not fit the nodes.

        The result is None if all settings fit.
        """
        n_nodes = self.nodes(n_gpus_per_node)
        n_gpus = n_nodes * n_gpus_per_node
        period_s, edges_s = self.iteration_s(n_gpus), 2 * self.edge_s
        if not MIN_PERIOD_S <= period_s <= MAX_PERIOD_S:
            return "parameters", (
                f"give iterations of {period_s:.4g} s, expected {MIN_PERIOD_S:g} "
                f"to {MAX_PERIOD_S:g}; check parameters, tokens_per_step and "
                "tflops_per_gpu"
            )
        dip = self.second_dip
        if dip is not None and dip.at + dip.length >= self.duty:
            return "second_dip", (
                f"ends at {dip.at + dip.length:.3g} of the iteration, where the low "
                f"level is from {self.duty:g} on (duty); let it begin sooner or be "
                "shorter"
            )
        at = [at for at, _ in self.corners()] + [1.0]
        plateaus = [end - begin for begin, end in itertools.pairwise(at)]
        if min(plateaus) * period_s < edges_s / 2:
            return "edge_s", (
                f"{self.edge_s:g} s is longer than a level lasts "
                f"({min(plateaus) * period_s:.3g} s of the iteration's {period_s:.4g} "
                "s); shorten it, or change duty or second_dip"
            )
        if self.work_s(n_gpus) > MAX_DAYS * S_PER_DAY:
            days = self.work_s(n_gpus) / S_PER_DAY
            return (
                "tokens",
                f"take {days:,.4g} days, at most {MAX_DAYS:,} can be simulated",
            )
        # An interval of the user's own may be shorter: jobs were seen that write after
        # every step.
        if self.checkpoint_interval == "young" and self.write_s() >= self.interval_s(
            n_nodes
        ):
            return "checkpoint_write_s", (
                f"{self.write_s():g} s is not shorter than young's interval of "
                f"{self.interval_s(n_nodes):.3g} s, a failure every "
                f"{self.mttf_s(n_nodes):.3g} s; lower the failure rate or the write "
                "time"
            )
        return None


class SynchronousTraining(Model):
    """Stream of large synchronous training jobs, submitted one after another."""

    jobs: tuple[SynchronousJob, ...] = Field(
        min_length=1, description="Jobs in order of submission."
    )
    repeat: bool = default(
        False,
        "Whether the list is repeated until the run ends, one job after the other.",
    )

    @model_validator(mode="after")
    def _names_and_times_differ(self) -> SynchronousTraining:
        labels = [job.label(number) for number, job in enumerate(self.jobs, 1)]
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(
                f"job '{twice[0]}' is given twice; give each a name of its own"
            )
        if self.repeat and any(job.submit or job.submit_after for job in self.jobs):
            raise ValueError(
                "repeat can't go with submit or submit_after; remove one of them"
            )
        return self
