"""`PowerProfile`: the measured power of one whole job, and its source."""

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
    """Devices whose power a profile holds, as its file says it."""

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
"""Boundaries by the names that users give on import."""


def check_argument(name: str, value: float | None, least: float, most: float) -> None:
    """Raise `ProfileError` unless a given number lies from `least` to `most`."""
    if value is not None and not least <= value <= most:
        raise ProfileError(f"{name} is {shown(value)}, expected {least:,} to {most:,}")


_Positive = Annotated[float, Field(gt=0, le=MAX_SIZE, strict=True)]
_Span = Annotated[
    list[Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)]],
    Field(min_length=2, max_length=2),
]


_Count = Annotated[int, Field(ge=0, strict=True)]
_Amount = Annotated[float, Field(ge=0, le=MAX_SIZE)]


@dataclass(frozen=True)
class Repair(Brief):
    """Readings of a device left out, moved or filled in, for one cause."""

    device: str
    cause: str  # as in `Provenance.counts`
    n_rows: _Count
    energy_j: _Amount  # their energy [J]
    energy_fraction: _Amount  # of the device's energy
    time_s: _Amount  # time that they stand for [s]


@dataclass(frozen=True)
class Provenance(Brief):
    """Where a profile comes from and what it can support.

    Files are checked as it is annotated.
    """

    # `reference` is synthesised from published facts
    kind: Literal["measured", "reference"]
    source: str  # publication, data set or file names
    licence: str  # licence of the source; "unknown" where it is not stated
    sampling_interval_s: _Positive  # interval of the original readings [s]
    # Window over which the driver averages each reading [s]; None where it is unknown
    averaging_window_s: Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)] | None
    # Highest frequency that the readings support, above which nothing is claimed; 0
    # where all they show may be folded, None where nothing was read: synthetic, no
    # meter
    bandwidth_hz: Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)] | None
    source_sha256: str = ""  # of the source files, joined in order of their names
    power_boundary: str = PowerBoundary.DEVICES  # what the power includes
    notes: str = ""  # assumptions and remarks
    # Readings dropped or repaired on import, by cause
    counts: dict[str, _Count] = field(default_factory=dict)
    # Their energy and time, per device
    repairs: list[Repair] = field(default_factory=list)
    # GPUs of each node; None where it is unknown, as for the next two
    gpus_per_node: Annotated[int, Field(ge=0, le=MAX_DEVICES, strict=True)] | None = (
        None
    )
    gpu_tdp_w: _Positive | None = None  # thermal design power of one GPU [W]
    gpu_model: str | None = None  # name of the GPU
    # Factor on the power as measured, to play it on other GPUs
    power_factor: _Positive = 1.0
    # Start and end [s from the start of the profile] of each part of the run that its
    # events say, by its name, such as `training`
    phases: dict[str, list[_Span]] = field(default_factory=dict)
    # How the readings came about; None where no meter was recorded
    meter: MeterModel | None = None
    # Whether the meter's gain was divided out, and up to which frequency [Hz]
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
    # Where a 1 s moving average has gain 0.71; gain 0.90 and trusted at 0.25 Hz, none
    # at 1 Hz
    bandwidth_hz=0.44,
    gpus_per_node=4,
    gpu_tdp_w=700.0,
    gpu_model="NVIDIA H100 SXM",
)
"""Origin of power that is synthesised from published facts about the paper's nodes."""


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
        Nodes that the measured job ran on.
    dt_ms : int
        Sampling step [ms].
    power_w : numpy.ndarray, shape (n,), float32
        Mean power over each step [W].
    provenance : Provenance
        Origin, licence and limits of the data.
    periodic : bool
        Whether all of it is one period, of which a longer job plays another and
        another.

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
        return float(self.cumulated_j()[-1])

    @property
    def mean_power_w(self) -> float:
        """Mean power of the whole job [W]."""
        return self.energy_j / (self.duration_ms / MS_PER_S)

    def cumulated_j(self) -> Float64Array:
        """Return the energy since the start at each sample edge [J], shape (n + 1,)."""
        energy_j = np.zeros(self.power_w.size + 1)
        np.cumsum(self.power_w, dtype=np.float64, out=energy_j[1:])
        energy_j *= self.dt_ms / MS_PER_S
        return energy_j

    @cached_property
    def cumulative_energy_j(self) -> Float64Array:
        """Energy from the start to each sample edge, kept for frequent use [J]."""
        return self.cumulated_j()

    @cached_property
    def sha256(self) -> str:
        """Content hash over node count, step and values, hexadecimal."""
        digest = hashlib.sha256(f"{self.n_nodes} {self.dt_ms}\n".encode())
        digest.update(self.power_w.astype("<f4").tobytes())
        return digest.hexdigest()
