"""Inference request streams: services, capacity and overload.

Each service has its power model, its latency limit and its flexibility.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    model_validator,
)

from diploee.base.errors import one_of
from diploee.base.model import (
    MAX_NODES,
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
from diploee.scenario.log_replay import RequestReplay
from diploee.scenario.overloads import OVERLOADS, OverloadSpec
from diploee.scenario.times import Calendar

LatencyMetric = Literal[
    "mean_e2e", "p50_e2e", "p90_e2e", "mean_ttft", "p90_ttft", "mean_itl", "p90_itl"
]
"""End-to-end latency, time to first token or inter-token latency; mean or percentile."""  # noqa: E501
BETWEEN_TOKENS: tuple[LatencyMetric, ...] = ("mean_itl", "p90_itl")
"""Latencies that a queue doesn't lengthen: it delays the first token only."""

MAX_RATE_RPS = 1_000_000_000
MAX_S = 366 * 86_400

Positive = PositiveFloat
RequestRate = Annotated[float, Field(gt=0, le=MAX_RATE_RPS)]
ScalingTime = Annotated[float, Field(ge=0, le=MAX_S)]
Nodes = Annotated[int, Field(ge=0, le=MAX_NODES)]
Coefficient = Annotated[float, Field(ge=-1e9, le=1e9)]
BatchSize = Annotated[int, Field(ge=1, le=1_000_000)]
Power = Annotated[float, Field(ge=0, le=1e9)]

LOGISTIC_METRICS: tuple[LatencyMetric, ...] = ("mean_itl", "mean_e2e")
"""Latencies of a logistic model: between tokens, and in the batch (no queue)."""

MIN_SAMPLES = 2
"""Minimum number of measured rates of a power curve from samples."""

_RATES = ("request_rate_rps", "requests_per_day", "target_utilization")


# Cold standby was named idle up to 0.3.0.
_COLD = BeforeValidator(lambda value: "cold" if value == "idle" else value)


class LogisticCurve(Model):
    """Logistic fit ``y = b0 + L / (1 + exp(-k (log2(batch) - x0)))`` (OpenG2G)."""

    L: Coefficient = Field(description="Upper minus lower asymptote [unit of y].")
    k: Annotated[float, Field(gt=0, le=1e3)] = Field(description="Steepness [1].")
    x0: Coefficient = Field(description="log2 of the batch size at half of L.")
    b0: Coefficient = Field(description="Asymptote at small batches [unit of y].")


class LogisticService(Model):
    """Power, latency and throughput of one replica as functions of batch size."""

    power_w: LogisticCurve = Field(description="Mean power of the replica's GPUs [W].")
    itl_ms: LogisticCurve = Field(description="Inter-token latency [ms].")
    throughput_tps: LogisticCurve = Field(description="Output tokens per second [1/s].")
    smallest_batch: BatchSize = Field(description="Smallest measured batch size.")
    largest_batch: BatchSize = Field(
        description="Largest measured (or feasible) batch size."
    )
    replicas_per_instance: Annotated[int, Field(ge=1, le=10_000)] = default(
        1, "Replicas that share the requests of an instance evenly."
    )
    idle_power_w: Power | None = unset(
        "Power of a replica's GPUs without requests [W]; that at the smallest batch "
        "size if absent."
    )
    other_node_power_w: Power = default(
        0.0,
        (
            "Power of each node except for these GPUs [W], which is not in benchmarks: "
            "CPU packages, GPUs without a replica."
        ),
    )
    source: str = default("", "Source of the coefficients.")

    @model_validator(mode="after")
    def _range_is_one(self) -> LogisticService:
        if self.smallest_batch > self.largest_batch:
            raise ValueError(
                f"smallest_batch {self.smallest_batch} is above largest_batch "
                f"{self.largest_batch}"
            )
        return self


class BatchPowerModel(Model):
    """GPU power of a served model from size, precision, type and open requests.

    `diploee.loads.services.batch_power_model` has the equation; docs/serving.md its
    residuals.
    """

    parameters_b: Annotated[float, Field(gt=0, le=1e5)] = Field(
        description="Parameters [1e9]."
    )
    active_parameters_b: Annotated[float, Field(gt=0, le=1e5)] | None = optional(
        "Active parameters per token of a mixture of experts [1e9]; a dense model if "
        "absent."
    )
    precision: Literal["fp16", "bf16", "fp8"] = Field(
        description="Format of the weights."
    )
    gpu: Literal["H100", "H200", "A100", "L40S"] = Field(description="Kind of GPU.")
    gpus_per_replica: Annotated[int, Field(ge=1, le=10_000)] = default(
        1, "GPUs that share the weights of one replica."
    )
    replicas_per_instance: Annotated[int, Field(ge=1, le=10_000)] = default(
        1, "Replicas that share the requests of an instance evenly."
    )
    other_node_power_w: Power = Field(
        description="Power of each node except for these GPUs [W]: CPU packages, "
        "GPUs without a replica."
    )
    input_tokens: Annotated[PositiveInt, Field(le=1_000_000_000)] | None = optional(
        "Mean prompt length [tokens], if no trace specifies it; requires "
        "prefill_tokens_per_s and time_per_token_s."
    )
    prefill_tokens_per_s: Positive | None = optional(
        "Prefill speed: prompt tokens per second and replica at the usual load [1/s]."
    )
    time_per_token_s: Positive | None = optional(
        "Time between two output tokens at the usual load [s]. Without "
        "prefill_tokens_per_s and this key, the number of concurrent sequences follows "
        "from the service's latency_curve."
    )

    @model_validator(mode="after")
    def _stay_is_known(self) -> BatchPowerModel:
        self._need("prefill_tokens_per_s", "time_per_token_s")
        self._need("time_per_token_s", "prefill_tokens_per_s")
        if (self.active_parameters_b or 0) > self.parameters_b:
            raise ValueError(
                f"active_parameters_b {self.active_parameters_b:g} is above "
                f"parameters_b {self.parameters_b:g}"
            )
        return self

    @property
    def has_speeds(self) -> bool:
        """True if a request's duration follows from speeds, not a latency curve."""
        return self.time_per_token_s is not None


class LatencyCap(Model):
    """Latency limit of a service.

    The measured curve converts it to a request rate (Eq. 5).
    """

    metric: LatencyMetric = default(
        "mean_e2e",
        (
            "Limited latency: end to end (e2e), time to first token (ttft) or between "
            "tokens (itl), each as mean or percentile."
        ),
    )
    limit_s: Positive = Field(description="Maximum latency [s].")


class ServiceFlexibility(Model):
    """Response of a service to the events of `flexibility.events`."""

    power_limit: Annotated[float, Field(ge=0.5, lt=1)] = Field(
        description=(
            "Power cap of the service's GPUs per TDP, at least 0.5, from the start of "
            "an event's ramp to its end. A capped instance is slower, as measured for "
            "inference on A100 (assumed for other GPUs, by TDP): more instances run if "
            "nodes are free, and the remaining excess is treated by overload. It "
            "applies in events only, not to caps or prices."
        ),
        json_schema_extra={"assumed": True},
    )


class Service(Model):
    """Service: one kind of request, served by instances on reserved nodes."""

    probability: Share | None = unset(
        "Fraction of the stream's requests; from its replay, if it has one."
    )
    replay: RequestReplay | None = optional(
        "Requests of a trace for this service; all services of a stream have one, or "
        "none."
    )
    max_request_rate_rps: Annotated[float, Field(ge=1e-6, le=MAX_RATE_RPS)] | None = (
        unset("Maximum request rate per instance [1/s]; or latency_cap.")
    )
    latency_cap: LatencyCap | None = unset(
        "Latency limit, from which the maximum request rate per instance follows (Eq. "
        "5); or max_request_rate_rps."
    )
    output_tokens: (
        Annotated[PositiveInt, Field(le=1_000_000_000)] | Literal["trace"]
    ) = default(
        512,
        (
            "Mean output length of a request [tokens], which selects the rows of the "
            "latency curve and the load of a logistic model. trace: the length in the "
            "curve that is nearest to the mean of the replayed trace."
        ),
    )
    nodes_per_instance: Annotated[PositiveInt, Field(le=MAX_NODES)] = default(
        1, "Nodes that one model instance occupies."
    )
    reserved_nodes: Annotated[Nodes | None, SCALES] = unset(
        "Nodes reserved for the service; if absent, divided among services by Eq. 7, "
        "as are the nodes that later phases add (placed instances do not move)."
    )
    power_curve: str | None = unset(
        "Node power by request rate: a built-in name such as llama3_70b_coding_power, "
        "or a CSV file relative to the scenario file; or logistic."
    )
    power_samples: dict[Positive, str] | None = optional(
        (
            "Measured power of one instance over time, by request rate [1/s]: CSV or "
            "Parquet files with t_s and power_w (sum of all nodes of the instance), 10 "
            "s to one day long, relative to the scenario file. They replace the "
            "synthetic samples and are scaled to the mean of power_curve or logistic, "
            "if specified; otherwise two or more samples define the power curve."
        ),
        min_length=1,
    )
    power_samples_boundary: Literal["devices", "node_ac"] | None = optional(
        "Measuring point of power_samples: devices (GPUs and CPU packages; the "
        "default) or node_ac (the nodes' AC input; such samples define the power "
        "curve)."
    )
    logistic: LogisticService | None = optional(
        "Power, latency and throughput as logistic curves of the batch size; or "
        "power_curve."
    )
    batch_power_model: BatchPowerModel | None = optional(
        "Power from model size, precision, GPU type and number of concurrent "
        "sequences, without measurements (experimental); or power_curve."
    )
    latency_curve: str | None = unset(
        "Latency and throughput by offered rate: a built-in name such as "
        "llama3_70b_coding_latency, or a CSV file relative to the scenario file."
    )
    startup_s: ScalingTime = default(
        0,
        (
            "Time from the start of an instance to its first request [s]; meanwhile "
            "its nodes are busy at the node type's warm_power_w, if specified. Cold "
            "instances load weights for 10 to 100 s, depending on storage (assumed); "
            "the paper has 0."
        ),
        assumed=True,
    )
    cooldown_s: ScalingTime = default(
        0,
        "Scale-down delay: time for which an instance stays up after it is no "
        "longer needed [s].",
    )
    scaling_interval_s: ScalingTime = default(
        0,
        (
            "Time between scaling decisions [s], each by the mean rate since the "
            "previous one, at a random phase per service; with 0, instances start and "
            "stop as soon as the rate crosses a multiple of the maximum rate per "
            "instance."
        ),
    )
    min_instances: Annotated[Nodes, SCALES] = default(
        0, "Instances that are always up, whatever the request rate."
    )
    instance_utilization: PositiveShare = default(
        1,
        (
            "Target rate per maximum rate of an instance, 0-1, above which Eq. 4 "
            "starts another instance. The paper has 1; autoscalers usually have 0.5 to "
            "0.8 (assumed)."
        ),
        exclude_if=lambda value: value == 1,
        assumed=True,
    )
    standby: Annotated[Literal["cold", "warm"], _COLD] = default(
        "cold",
        (
            "State of reserved nodes without an active instance: cold nodes have no "
            "model loaded and draw idle power (as in the paper), warm nodes have a "
            "model loaded and draw the node type's warm_power_w. Neither counts as "
            "busy."
        ),
    )
    flexibility: ServiceFlexibility | None = optional(
        "Response of the service to demand-response events; none if absent."
    )

    @model_validator(mode="after")
    def _capacity_is_given_once(self) -> Service:
        means = ("power_curve", "logistic", "batch_power_model")
        self._need_one(*means, n_min=self.power_samples is None)
        has_mean = bool(self._keys_set(*means))
        if not has_mean and len(self.power_samples or ()) < MIN_SAMPLES:
            raise ValueError(
                f"power_samples has one rate, expected {MIN_SAMPLES} or more, or a "
                "power_curve beside it that tells the mean power at other rates"
            )
        self._need("power_samples_boundary", "power_samples")
        if self.power_samples_boundary == "node_ac" and has_mean:
            raise ValueError(
                "power_samples_boundary: node_ac can't go with a power_curve or "
                "logistic, which are of the devices; remove one"
            )
        self._refuse("batch_power_model", "power_samples")
        if (law := self.batch_power_model) is not None:
            law._need("time_per_token_s", "input_tokens")
            if not law.has_speeds:
                self._need("batch_power_model", "latency_curve")
        self._refuse("logistic", "latency_curve")
        self._need_one(
            "max_request_rate_rps", "latency_cap", n_min=self.logistic is None
        )
        if self.logistic is None:
            self._need("latency_cap", "latency_curve")
        elif (cap := self.latency_cap) and cap.metric not in LOGISTIC_METRICS:
            raise ValueError(
                f"logistic gives the latencies {one_of(LOGISTIC_METRICS)}, found "
                f"latency_cap of '{cap.metric}'"
            )
        return self


class Fluctuation(Model):
    """Random fluctuation of the request rate around its calendar.

    The fluctuation is a stationary positive factor of mean 1. At a request rate R, its
    component from independent users has the relative variance ``(1 - common_share)
    relative_std**2 reference_rate_rps / R``. The relative variance of the common
    component, ``common_share relative_std**2``, does not depend on R. Poisson noise of
    the requests is added.
    """

    relative_std: Annotated[float, Field(ge=0, le=10)] = Field(
        description="Relative standard deviation of the stream's one-minute means at "
        "the reference rate, without Poisson noise."
    )
    correlation_time_s: Annotated[float, Field(ge=5, le=MAX_S)] = uncertain(
        600,
        (
            "Correlation time, to 1/e [s]. Table 4 of the paper is reproduced without "
            "correlation and with 10 and 30 minutes"
        ),
        (60, 1800),
    )
    common_share: Share = uncertain(
        0.5,
        (
            "Fraction of the variance at the reference rate that is common to all "
            "services and does not fall with size, 0-1"
        ),
        (0.25, 0.75),
    )
    reference_rate_rps: Positive | None = unset(
        "Request rate at which relative_std was measured [1/s]; the stream's mean rate "
        "if absent."
    )


class RequestStream(Model):
    """Stream of inference requests to the services of one pool."""

    pool: str = Field(
        description="Name of an entry of facility.pools, for this stream only."
    )
    services: dict[Name, Service] = Field(
        min_length=1, description="Services by name; their probabilities sum to 1."
    )
    request_rate_rps: Annotated[RequestRate | None, SCALES] = unset(
        "Mean request rate of all services, over the time in which the calendar has "
        "mean 1 [1/s]."
    )
    requests_per_day: Annotated[
        float | None, Field(gt=0, le=MAX_RATE_RPS * 86_400), SCALES
    ] = unset("Mean requests per day of all services; or request_rate_rps.")
    target_utilization: PositiveShare | None = unset(
        "Requested mean node occupancy of the pool, 0-1 (Eqs. 1-2); or "
        "request_rate_rps."
    )
    replay: RequestReplay | None = optional(
        "Requests of a trace instead of the calendar; a specified rate scales the "
        "trace."
    )
    calendar: Calendar = default(
        Calendar(),
        "Request rates over time; continuous, with the mean of each hour.",
    )
    fluctuation: Fluctuation | None = optional(
        "Random fluctuation of the rate around its calendar; none if absent."
    )
    minute_jitter_relative_std: Annotated[float, Field(ge=0, le=10)] = default(
        0,
        (
            "Former name of fluctuation.relative_std. It was one fixed factor per "
            "minute of the week; now it is read as a fluctuation that differs in every "
            "week."
        ),
    )
    overload: Annotated[SerializeAsAny[OverloadSpec], OVERLOADS] = default(
        "reject",
        (
            "Treatment of requests above capacity: reject leaves them unserved (as in "
            "the paper), degrade serves all at the latency of the measured curve, "
            "queue lets them wait."
        ),
        validate_default=True,
    )
    capacity: Literal["offered", "sustained"] = default(
        "offered",
        (
            "Maximum rate per instance: offered uses the specified rate (as in the "
            "paper), sustained limits it to the measured sustained throughput."
        ),
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> RequestStream:
        replays = self.replay is not None or self.has_own_replays
        self._need_one(*_RATES, n_min=not replays)
        self._need_one("fluctuation", "minute_jitter_relative_std", n_min=0)
        of_trace = ("calendar", "fluctuation", "minute_jitter_relative_std")
        if replays and (result := self._keys_set(*of_trace)):
            raise ValueError(f"'replay' can't go with {one_of(result)}; remove one")
        self._check_shares()
        needs = {"capacity: sustained": self.capacity == "sustained"}
        needs[f"overload: {self.overload.kind}"] = self.overload.needs_throughput
        for name, service in self.services.items():
            if service.output_tokens == "trace" and self.replay_of(name) is None:
                raise ValueError(
                    f"output_tokens: trace of service '{name}' needs a replay; give a "
                    "number"
                )
            for key, active in needs.items():
                if (
                    active
                    and service.latency_curve is None
                    and service.logistic is None
                ):
                    raise ValueError(
                        f"{key} needs the measured throughput of service '{name}'; "
                        "give it a latency_curve"
                    )
        return self

    def _check_shares(self) -> None:
        own = [name for name, of in self.services.items() if of.replay is not None]
        if own and (self.replay is not None or len(own) < len(self.services)):
            raise ValueError(
                f"service '{own[0]}' has a replay; give all services their own, or the "
                "stream one"
            )
        for name, service in self.services.items():
            if (service.probability is None) != bool(own):
                raise ValueError(
                    f"service '{name}' must have {'no' if own else 'a'} probability; "
                    "shares are those of the services' replays where they have any"
                )
        if not own:
            shares = (service.probability or 0.0 for service in self.services.values())
            check_probabilities(shares, "services")

    @property
    def has_own_replays(self) -> bool:
        """True if each service replays its own trace."""
        return any(service.replay is not None for service in self.services.values())

    def replay_of(self, service: str) -> RequestReplay | None:
        """Return the replay of a service: its own trace, or the stream's."""
        return self.services[service].replay or self.replay

    def replays(self, stream: str) -> dict[str, RequestReplay]:
        """Return the replays by key: ``<stream>`` or ``<stream>.<service>``."""
        own = {
            f"{stream}.{name}": of.replay
            for name, of in self.services.items()
            if of.replay
        }
        return own | ({} if self.replay is None else {stream: self.replay})

    @property
    def active_fluctuation(self) -> Fluctuation | None:
        """Fluctuation of the request rate, from either of its two keys."""
        if self.minute_jitter_relative_std > 0:
            return Fluctuation(relative_std=self.minute_jitter_relative_std)
        return self.fluctuation
