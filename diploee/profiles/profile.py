"""`PowerProfile`: the power of one whole job over time, and its provenance."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from diploee.base.errors import Brief, ProfileError, shown
from diploee.base.model import MAX_DEVICES
from diploee.base.tables import MAX_SIZE, Float32Array, Float64Array
from diploee.base.units import MS_PER_S
from diploee.profiles.meter_response import MeterModel


class PowerBoundary(StrEnum):
    """Devices included in a profile's power, as written in its file."""

    DEVICES = (
        "device power: GPUs and CPU packages, no memory, network, fans or power supply"
    )
    GPUS = "GPU power only: no CPU packages, memory, network, fans or power supply"
    CPUS = "CPU package power only: no GPUs, memory, network, fans or power supply"
    NODE_AC = "node AC power, power supplies and fans included"
    NODE_DC = "node DC power, what its power supplies give out"
    UNKNOWN = "unknown: what the power includes was not given on import"


PLUS_CONSTANT = "plus a constant"

Boundary = Literal["devices", "gpus", "cpus", "node_ac", "node_dc"]
"""Names of boundaries on import."""


def check_argument(name: str, value: float | None, low: float, high: float) -> None:
    """Raise `ProfileError` if a number is out of range; None is allowed."""
    if value is not None and not low <= value <= high:
        raise ProfileError(f"{name} is {shown(value)}, expected {low:,} to {high:,}")


_Positive = Annotated[float, Field(gt=0, le=MAX_SIZE, strict=True)]
_Span = Annotated[
    list[Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)]],
    Field(min_length=2, max_length=2),
]


_Count = Annotated[int, Field(ge=0, strict=True)]
_Amount = Annotated[float, Field(ge=0, le=MAX_SIZE)]


@dataclass(frozen=True)
class Repair(Brief):
    """Readings of a device that were dropped, moved or filled in, for one cause."""

    device: str
    cause: str  # as in `Provenance.counts`
    n_rows: _Count
    energy_j: _Amount  # energy of the readings [J]
    energy_fraction: _Amount  # fraction of the device's energy
    time_s: _Amount  # time covered by the readings [s]


@dataclass(frozen=True)
class Provenance(Brief):
    """The origin of a profile, and the limits of its data.

    The annotations validate files.
    """

    # `reference` is synthesised from published facts
    kind: Literal["measured", "reference"]
    source: str  # publication, data set or file names
    licence: str  # licence of the source; "unknown" if not stated
    sampling_interval_s: _Positive  # interval of the original readings [s]
    # Averaging window of the readings [s]; None if unknown
    averaging_window_s: Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)] | None
    # Maximum frequency that the readings resolve [Hz]; 0 if all may be aliased, None if
    # nothing was read (synthetic)
    bandwidth_hz: Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)] | None
    source_sha256: str = ""  # hash of the source files, joined in order of names
    power_boundary: str = PowerBoundary.DEVICES  # devices that the power includes
    notes: str = ""  # assumptions and remarks
    # Readings dropped or repaired on import, by cause
    counts: dict[str, _Count] = field(default_factory=dict)
    # Energy and time of these readings, per device
    repairs: list[Repair] = field(default_factory=list)
    # GPUs per node; None if unknown, as for the next two
    gpus_per_node: Annotated[int, Field(ge=0, le=MAX_DEVICES, strict=True)] | None = (
        None
    )
    gpu_tdp_w: _Positive | None = None  # thermal design power of one GPU [W]
    gpu_model: str | None = None  # name of the GPU
    # Factor on the measured power, to scale it to other GPUs
    power_factor: _Positive = 1.0
    # Starts and ends [s since the profile's start] of the run's phases by name, such as
    # `training`, from logged events
    phases: dict[str, list[_Span]] = field(default_factory=dict)
    # Meter of the readings; None if not recorded
    meter: MeterModel | None = None
    # True if the meter's gain was divided out, and the maximum frequency of that [Hz]
    restored: bool = False
    restored_hz: _Positive | None = None

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore", allow_inf_nan=False
    )


PUBLISHED_NODE = Provenance(
    kind="reference",
    source=(
        "arXiv:2604.07345 (CC BY 4.0) and its data set doi:10.7799/3025227 (CC BY 4.0 "
        "as a mirror states; the origin has a notice of its own, by DOE, NLR and the "
        "Alliance)"
    ),
    licence="CC BY 4.0 (facts); this synthesis BSD-3-Clause",
    sampling_interval_s=0.2,  # of the raw training logs; the paper's text says 0.1 s
    averaging_window_s=1.0,
    # A 1 s moving average has gain 0.71 here; 0.90 (trusted) at 0.25 Hz, 0 at 1 Hz
    bandwidth_hz=0.44,
    gpus_per_node=4,
    gpu_tdp_w=700.0,
    gpu_model="NVIDIA H100 SXM",
)
"""Provenance of power synthesised from published facts about the paper's nodes."""


@dataclass(frozen=True, eq=False)
class PowerProfile(Brief):
    """Power of one job over its whole run, summed over all its nodes.

    Parameters
    ----------
    profile_id : str
        Unique name within a library, such as ``"llama2_70b_lora-16n-1"``.
    workload : str
        Kind of work, such as ``"llama2_70b_lora"``.
    n_nodes : int
        Number of nodes of the measured job.
    dt_ms : int
        Sampling step [ms].
    power_w : numpy.ndarray, shape (n,), float32
        Mean power over each step [W].
    provenance : Provenance
        Origin, licence and limits of the data.
    periodic : bool
        True if the whole profile is one period, which longer jobs repeat.

    Raises
    ------
    ProfileError
        If it is empty, not finite, negative, or its node count or step is not positive.
    """

    profile_id: str
    workload: str
    n_nodes: int
    dt_ms: int
    power_w: Float32Array
    provenance: Provenance
    periodic: bool = False

    def __post_init__(self) -> None:
        power_w = np.ascontiguousarray(self.power_w, dtype=np.float32)
        power_w.setflags(write=False)
        object.__setattr__(self, "power_w", power_w)
        if self.n_nodes < 1 or self.dt_ms < 1:
            raise ProfileError(
                f"n_nodes and step must be 1 or more, found {self.n_nodes} nodes and "
                f"{self.dt_ms} ms"
            )
        if power_w.ndim != 1 or power_w.size == 0:
            raise ProfileError("no power values; a profile needs at least one sample")
        bad = np.flatnonzero(~((power_w >= 0) & (power_w < np.inf)))
        if bad.size:
            raise ProfileError(
                f"power_w[{bad[0]}] is {power_w[bad[0]]:g} W ({bad.size} such values); "
                "power must be finite and not negative"
            )

    @property
    def duration_ms(self) -> int:
        """Length of the profile [ms]."""
        return self.power_w.size * self.dt_ms

    @cached_property
    def energy_j(self) -> float:
        """Energy of the whole job [J]."""
        return float(self.compute_cumulative_j()[-1])

    @property
    def mean_power_w(self) -> float:
        """Mean power of the whole job [W]."""
        return self.energy_j / (self.duration_ms / MS_PER_S)

    def compute_cumulative_j(self) -> Float64Array:
        """Return the energy since the start at each sample edge [J], shape (n + 1,)."""
        energy_j = np.zeros(self.power_w.size + 1)
        np.cumsum(self.power_w, dtype=np.float64, out=energy_j[1:])
        energy_j *= self.dt_ms / MS_PER_S
        return energy_j

    @cached_property
    def cumulative_energy_j(self) -> Float64Array:
        """Energy from the start to each sample edge, cached [J]."""
        return self.compute_cumulative_j()

    @cached_property
    def sha256(self) -> str:
        """Content hash over node count, step and values, hexadecimal."""
        digest = hashlib.sha256(f"{self.n_nodes} {self.dt_ms}\n".encode())
        digest.update(self.power_w.astype("<f4").tobytes())
        return digest.hexdigest()
