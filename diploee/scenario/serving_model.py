"""A served model by its logistic curves against batch size, instead of measured rate curves."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from diploee.model import Model

Coefficient = Annotated[float, Field(ge=-1e9, le=1e9)]
BatchSize = Annotated[int, Field(ge=1, le=1_000_000)]
Power = Annotated[float, Field(ge=0, le=1e9)]


class LogisticCurve(Model):
    """Coefficients of ``y = b0 + L / (1 + exp(-k (log2(batch) - x0)))`` (OpenG2G)."""

    L: Coefficient = Field(description="Upper less lower asymptote [unit of y].")
    k: Annotated[float, Field(gt=0, le=1e3)] = Field(description="Steepness [1].")
    x0: Coefficient = Field(description="log2 of the batch size at half of L.")
    b0: Coefficient = Field(description="Asymptote at small batches [unit of y].")


class LogisticService(Model):
    """Power, latency and throughput of one replica against its batch size."""

    power_w: LogisticCurve = Field(description="Mean power of the replica's GPUs [W].")
    itl_ms: LogisticCurve = Field(description="Inter-token latency [ms].")
    throughput_tps: LogisticCurve = Field(description="Output tokens per second [1/s].")
    smallest_batch: BatchSize = Field(description="Smallest measured batch size.")
    largest_batch: BatchSize = Field(description="Largest measured (or feasible) batch size.")
    replicas_per_instance: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1, description="Replicas that share the requests of an instance evenly."
    )
    idle_power_w: Power | None = Field(
        default=None,
        description="Power of a replica's GPUs without requests [W]; that of the smallest batch "
        "size if absent.",
    )
    other_node_power_w: Power = Field(
        default=0.0,
        description="Power of each node besides these GPUs [W], which benchmarks leave out: CPU "
        "packages, GPUs without a replica.",
    )
    source: str = Field(default="", description="Where the coefficients come from.")

    @model_validator(mode="after")
    def _range_is_one(self) -> LogisticService:
        if self.smallest_batch > self.largest_batch:
            raise ValueError(
                f"smallest_batch {self.smallest_batch} is above largest_batch {self.largest_batch}"
            )
        return self
