"""`ModelData`: power traces and latency mixtures of one served model, and how they are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, field_validator

from diploee.errors import InputError, one_of
from diploee.model import Model
from diploee.neighbours.openg2g.itl_mixture import (
    MAX_SAMPLES,
    MIN_SAMPLES,
    ITLMixtureModel,
    Location,
)
from diploee.neighbours.openg2g.runs import REPLICA_POWER
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.profiles import PowerProfile, Provenance
from diploee.profiles.resample import round_keeping_energy, usable_bandwidth_hz
from diploee.tables import Float64Array
from diploee.units import whole_ms


class InferenceDataParams(Model):
    """How traces and mixtures are compiled."""

    dt_s: Annotated[float, Field(gt=0)] = Field(default=0.1, description="Step of the traces [s].")
    itl_location: Location = Field(
        default="likelihood",
        description="Location of the latency mixtures: of the highest likelihood, or 1 us below "
        "the smallest sample (OpenG2G).",
    )
    max_itl_samples: Annotated[int, Field(ge=MIN_SAMPLES)] = Field(
        default=MAX_SAMPLES, description="Latency samples of a fit; more are thinned at random."
    )
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="Seed of the thinning.")

    @field_validator("dt_s")
    @classmethod
    def _whole_ms(cls, dt_s: float) -> float:
        whole_ms(dt_s)
        return dt_s


@dataclass(frozen=True, eq=False)
class ModelData:
    """Traces and mixtures of one served model."""

    spec: InferenceModelSpec  # which one
    dt_s: float  # step of the traces [s]
    # By batch size: power of one replica, the sum over its GPUs, in the steady state [W]
    power_w: Mapping[int, Float64Array]
    itl: Mapping[int, ITLMixtureModel]  # inter-token latency by batch size
    # Source, licence, interval of the readings, runs per batch size, counts of what was dropped
    details: Mapping[str, Any] = field(default_factory=dict)

    def profile(self, batch_size: int, n_nodes: int = 1) -> PowerProfile:
        """Return the trace of a batch size as the measured power of one replica."""
        if batch_size not in self.power_w:
            raise InputError(
                f"'{self.spec.model_label}' has no trace of batch size {batch_size} "
                f"(have: {one_of(self.power_w)})"
            )
        interval_s = float(self.details.get("sampling_interval_s", self.dt_s))
        n_runs = self.details.get("runs", {}).get(str(batch_size), 1)
        provenance = Provenance(
            kind="measured",
            source=str(self.details.get("source", "")),
            licence=str(self.details.get("licence", "unknown")),
            source_sha256=str(self.details.get("source_sha256", "")),
            sampling_interval_s=interval_s,
            averaging_window_s=self.dt_s,
            bandwidth_hz=usable_bandwidth_hz(interval_s, self.dt_s),
            power_boundary=REPLICA_POWER,
            notes=f"Steady state at batch size {batch_size}, resampled; "
            + (f"median over {n_runs} runs at each step." if n_runs > 1 else "one run."),
            counts=dict(self.details.get("counts", {})),
        )
        label = "".join(c if c.isalnum() or c in "._-" else "_" for c in self.spec.model_label)
        return PowerProfile(
            profile_id=f"serving-{label}-batch{batch_size}",
            workload=f"serving-{label}",
            n_nodes=n_nodes,
            dt_ms=whole_ms(self.dt_s),
            power_w=round_keeping_energy(self.power_w[batch_size]),
            provenance=provenance,
        )
