"""Profiles of jobs whose GPUs are capped: less power, and longer.

A cap on GPUs takes their power to a share p and the work to a share s of its rate, so that a
profile P on n nodes becomes ``P' = C + (P - C) p``, s times as fast, with C what the CPUs draw of
it, their part of the nodes' idle power as in `diploee.profiles.smoothing`. The energy of the GPUs
for the same work is p / s of what it was.

The shares are means of measurements on A100 GPUs (400 W), by kind of work, relative to no cap:
sheet "Flexibility", B4, from Emerald's ``dvfs_sweep.csv`` (Apache-2.0) [S], means [C]. Between the
measured caps they are interpolated linearly. ASSUMPTION: other GPUs follow the same table by their
TDP [J]; no open table of H100 or later was found, so that capped profiles are ``reference``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, get_args

import numpy as np

from diploee.errors import InputError, one_of, shown
from diploee.profiles.derived import DerivedProfile
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.stretching import stretched
from diploee.scenario import NodeType
from diploee.tables import Float64Array

WorkKind = Literal["pre_training", "fine_tuning", "inference"]
WORK_KINDS: tuple[WorkKind, ...] = get_args(WorkKind)

MEASURED_CAPS = (0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
"""Measured caps over the TDP: 100, 200, 250, 300, 350 and 400 W of 400 W [S]."""

MEASURED: dict[WorkKind, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "pre_training": (
        (0.186, 0.629, 0.784, 0.867, 0.923, 1.0),
        (0.266, 0.515, 0.642, 0.762, 0.882, 1.0),
    ),
    "fine_tuning": (
        (0.234, 0.796, 0.891, 0.944, 0.974, 1.0),
        (0.290, 0.568, 0.702, 0.833, 0.926, 1.0),
    ),
    "inference": (
        (0.225, 0.781, 0.871, 0.931, 0.976, 1.0),
        (0.266, 0.529, 0.656, 0.784, 0.904, 1.0),
    ),
}
"""Throughput and GPU power at each measured cap, relative to no cap: 3, 2 and 1 workloads [C]."""

LOWEST_CAP = 0.5
"""Below half of the TDP a job takes more energy than without a cap: 1.18 to 1.43 times at 0.25."""


@dataclass(frozen=True)
class CapLevels:
    """The caps that jobs may be run at; level 0 is none."""

    # Caps over the TDP, falling from 1, by level
    caps: tuple[float, ...] = (1.0, 0.875, 0.75, 0.625, 0.5)

    def __post_init__(self) -> None:
        falling = all(low < high for high, low in zip(self.caps, self.caps[1:], strict=False))
        if not self.caps or self.caps[0] != 1 or self.caps[-1] < LOWEST_CAP or not falling:
            raise InputError(
                f"cap levels: found {shown(self.caps)}, expected shares of the TDP that fall from "
                f"1 to {LOWEST_CAP:g} at least, below which a job takes more energy than uncapped"
            )

    def __len__(self) -> int:
        return len(self.caps)

    def speed(self, kind: WorkKind, level: int) -> float:
        """Return the rate of work at a level over that without a cap."""
        return float(np.interp(self.caps[level], MEASURED_CAPS, _measured(kind)[0]))

    def power(self, kind: WorkKind, level: int) -> float:
        """Return the power of GPUs at a level over that without a cap."""
        return float(np.interp(self.caps[level], MEASURED_CAPS, _measured(kind)[1]))


def _measured(kind: WorkKind) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if kind not in MEASURED:
        raise InputError(f"kind of work: found {shown(kind)}, expected {one_of(WORK_KINDS)}")
    return MEASURED[kind]


def cpu_power_w(node: NodeType) -> float:
    """Return what the CPUs of a node draw all the time [W]: their part of its idle power."""
    if not node.rated_power_w:
        return 0.0
    return node.idle_power_w * node.n_cpus * node.cpu_tdp_w / node.rated_power_w


def capped_power_w(power_w: Float64Array, cpu_w: float, power: float) -> Float64Array:
    """Return power whose part above that of the CPUs is scaled [W]."""
    capped_w: Float64Array = power_w + np.maximum(power_w - cpu_w, 0) * (power - 1)
    return capped_w


@dataclass(frozen=True, eq=False)
class CappedProfile(DerivedProfile):
    """A profile as capped GPUs play it.

    Parameters
    ----------
    of : PowerProfile, StoredProfile or DerivedProfile
        The profile without a cap.
    node : NodeType
        Nodes that it runs on.
    speed, power : float
        Rate of work and power of the GPUs, over those without a cap.
    """

    node: NodeType
    speed: float
    power: float

    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return its power [W]."""
        slow_w = stretched(base, self._n_samples / base.power_w.size).power_w.astype(np.float64)
        return capped_power_w(slow_w, cpu_power_w(self.node) * base.n_nodes, self.power)

    @property
    def profile_id(self) -> str:
        """Its id."""
        return f"{self.of.profile_id}~capped-{self.speed:.4g}-{self.power:.4g}"

    @property
    def profile(self) -> PowerProfile:
        """The profile itself."""
        return replace(super().profile, profile_id=self.profile_id, provenance=self.provenance)

    @property
    def duration_ms(self) -> int:
        """Length [ms]."""
        return self._n_samples * self.dt_ms

    @property
    def _n_samples(self) -> int:
        # Rounded up: a job ends before its profile does, never after it.
        return ceil(self.of.duration_ms // self.dt_ms / self.speed)

    @property
    def provenance(self) -> Provenance:
        """That of the base, as ``reference``."""
        note = "GPUs capped as measured on the A100 (Emerald, dvfs_sweep.csv), scaled by the TDP"
        notes = "; ".join(filter(None, [self.of.provenance.notes, note]))
        return replace(self.of.provenance, kind="reference", notes=notes)
