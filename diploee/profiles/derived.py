"""Derived profiles: scaled to other GPUs, stretched, trimmed, or power-capped.

A cap reduces the power of the GPUs to a fraction p, and the rate of work to a fraction
s. A profile P on n nodes becomes ``P' = C + (P - C) p``, s times as fast, with

- P, P' power of the job [W], without and with the cap,
- C power of the CPUs [W]: their part of the nodes' idle power, as in
  `diploee.profiles.gpu_power_smoothing`,
- p, s power and speed in per unit of the uncapped values.

The GPUs' energy for the same work changes by the factor p / s.

p and s are means of measurements on A100 GPUs (400 W) for each kind of work:
``data/dvfs_sweep.csv`` of the demonstration in arXiv:2507.00909 (Apache-2.0). Between
measured caps they are interpolated linearly. ASSUMPTION: other GPUs have the same
values at the same fraction of their TDP. The provenance of capped profiles is therefore
``reference``, not measured.

See Also
--------
diploee.profiles.gpu_power_smoothing : floors and ramp limits of GPUs.

See also: docs/models/flexibility.md
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import ceil
from operator import attrgetter
from typing import Literal

import numpy as np

from diploee.base.errors import ProfileError, plural
from diploee.base.tables import Float32Array, Float64Array
from diploee.base.units import MS_PER_S
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.store import StoredProfile
from diploee.scenario.pools import NodeType


@dataclass(frozen=True, eq=False)
class DerivedProfile(ABC):
    """A profile with the metadata of a base profile and computed power."""

    # The base profile
    base: PowerProfile | StoredProfile | DerivedProfile

    @abstractmethod
    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return the derived power [W] from the base's."""

    @property
    def profile(self) -> PowerProfile:
        """The profile with its power, computed at each access (rarely needed)."""
        base = self.base if isinstance(self.base, PowerProfile) else self.base.profile
        return replace(
            base,
            profile_id=self.profile_id,
            power_w=self.power_w(base).astype(np.float32),
            provenance=self.provenance,
        )

    @property
    def sha256(self) -> str:
        """Content hash of the derived profile, as in `PowerProfile`."""
        return self.profile.sha256

    # Metadata of the base profile
    profile_id = property(attrgetter("base.profile_id"))
    workload = property(attrgetter("base.workload"))
    n_nodes = property(attrgetter("base.n_nodes"))
    dt_ms = property(attrgetter("base.dt_ms"))
    duration_ms = property(attrgetter("base.duration_ms"))
    provenance = property(attrgetter("base.provenance"))


TDP_W = {
    r"\bH[12]00\b.*\bSXM": 700.0,
    r"\bH100\b.*\bPCIE": 350.0,
    r"\bA100\b.*\bSXM": 400.0,
    r"\bV100\b.*\bSXM": 300.0,
    r"\bB200\b.*\bSXM": 1_000.0,
    r"\bL40S\b": 350.0,
}
"""Thermal design power of one GPU [W] by a pattern of its name (data sheets)."""


def gpu_tdp_w_by_model(model: str) -> float | None:
    """Return the thermal design power of a GPU model [W], or None if unknown."""
    return next(
        (w for name, w in TDP_W.items() if re.search(name, model.upper())), None
    )


def gpus_text(n_gpus: int | None, tdp_w: float | None) -> str:
    """Return a node's GPUs as text, such as ``4 GPUs of 700 W``."""
    count = "GPUs" if n_gpus is None else plural(n_gpus, "GPU")
    return count if tdp_w is None else f"{count} of {tdp_w:,g} W"


def origin_gpus(provenance: Provenance) -> str:
    """Return the GPUs of the nodes on which a profile was measured, as text."""
    return gpus_text(provenance.gpus_per_node, provenance.gpu_tdp_w)


def is_other_hardware(provenance: Provenance, node: NodeType) -> bool:
    """Return True if a profile is known to be from other GPUs than a node's."""
    pairs = (
        (provenance.gpus_per_node, node.n_gpus),
        (
            provenance.gpu_tdp_w,
            node.gpu_tdp_w,
        ),
    )
    return any(
        profile_value not in (None, node_value) for profile_value, node_value in pairs
    )


def scale_by_tdp(profile: PowerProfile, node: NodeType) -> PowerProfile:
    """Scale a profile's power to a node by the ratio of the nodes' total GPU TDP.

    ``P' = P (n' TDP') / (n TDP)``, with n GPUs per node of thermal design power TDP
    [W]; the run time is unchanged. ASSUMPTION: all of a node's power, including CPUs
    and idle power, is proportional to the TDP of its GPUs.
    """
    origin = profile.provenance
    n_gpus = node.n_gpus if origin.gpus_per_node is None else origin.gpus_per_node
    tdp_w = node.gpu_tdp_w if origin.gpu_tdp_w is None else origin.gpu_tdp_w
    target_tdp_w, profile_tdp_w = node.n_gpus * node.gpu_tdp_w, n_gpus * tdp_w
    if not (target_tdp_w > 0 and profile_tdp_w > 0):
        raise ProfileError(
            f"profile '{profile.profile_id}' of {origin_gpus(origin)} can't be scaled "
            f"by the TDP to {gpus_text(node.n_gpus, node.gpu_tdp_w)}; use profiles of "
            "these nodes (--profiles)"
        )
    factor = target_tdp_w / profile_tdp_w
    note = (
        f"power scaled by {factor:.4g}, the TDP of "
        f"{gpus_text(node.n_gpus, node.gpu_tdp_w)} over that of {origin_gpus(origin)}, "
        "run time as it was: not measured on these nodes"
    )
    return replace(
        profile,
        profile_id=f"{profile.profile_id}~tdp-{factor:.6g}",
        power_w=(profile.power_w * factor).astype(np.float32),
        provenance=replace(
            origin,
            kind="reference",
            notes="; ".join(filter(None, [origin.notes, note])),
            gpus_per_node=node.n_gpus,
            gpu_tdp_w=node.gpu_tdp_w,
            gpu_model=None,
            power_factor=factor,
        ),
    )


def stretch_profile(profile: PowerProfile, time_factor: float) -> PowerProfile:
    """Stretch a profile in time by a factor (slower if above 1), at the same power.

    The length is rounded to whole samples; each sample is the mean of the stretched
    series over its step, so that the mean power is exact.
    """
    n_samples = max(1, round(profile.power_w.size * time_factor))
    edges = np.linspace(0.0, profile.power_w.size, n_samples + 1)
    energy = np.interp(
        edges, np.arange(profile.power_w.size + 1), profile.cumulative_energy_j
    )
    mean_w = np.diff(energy) / np.diff(edges) / (profile.dt_ms / 1000)
    power_w: Float32Array = np.maximum(mean_w, 0).astype(np.float32)
    return replace(
        profile,
        profile_id=f"{profile.profile_id}~{time_factor:.10g}",
        power_w=power_w,
        periodic=False,
    )


def trim_profile(
    profile: PowerProfile,
    from_s: float | None = None,
    to_s: float | None = None,
    idle_w: float | None = None,
) -> PowerProfile:
    """Cut a profile to a time range, and remove idle samples at its ends."""
    if from_s is None and to_s is None and idle_w is None:
        return profile
    step_s, length_s = profile.dt_ms / MS_PER_S, profile.duration_ms / MS_PER_S
    start_s = 0.0 if from_s is None else from_s
    stop_s = length_s if to_s is None else to_s
    if not 0 <= start_s < stop_s <= length_s + step_s:
        raise ProfileError(
            f"profile '{profile.profile_id}': from_s is {start_s:g} and to_s is "
            f"{stop_s:g}, expected two times one after the other within its "
            f"{length_s:g} s"
        )
    # Rounding of the quotient must not add a sample
    start = int(np.floor(start_s / step_s + 1e-9))
    stop = min(int(np.ceil(stop_s / step_s - 1e-9)), profile.power_w.size)
    if idle_w is not None:
        node_w = profile.power_w[start:stop].astype(np.float64) / profile.n_nodes
        busy = np.flatnonzero(node_w > idle_w)
        if busy.size == 0:
            raise ProfileError(
                f"profile '{profile.profile_id}': no sample above {idle_w:g} W a node "
                f"(highest {node_w.max():g} W), so nothing would be left; give a "
                "lower idle_w"
            )
        start, stop = start + int(busy[0]), start + int(busy[-1]) + 1
    trimmed = replace(profile, power_w=profile.power_w[start:stop])
    note = (
        f"Trimmed to {start * step_s:g}-{stop * step_s:g} s (SHA-256 before "
        f"{profile.sha256[:12]}), without "
        f"{(profile.energy_j - trimmed.energy_j) / 3.6e6:.4g} kWh."
    )
    origin, cut_s, length_kept_s = (
        profile.provenance,
        start * step_s,
        (stop - start) * step_s,
    )
    phases = {
        name: [
            [float(np.clip(at_s - cut_s, 0, length_kept_s)) for at_s in span]
            for span in spans
            if span[0] < cut_s + length_kept_s and span[1] > cut_s
        ]
        for name, spans in origin.phases.items()
    }
    counts = origin.counts | {"trimmed_samples": profile.power_w.size - (stop - start)}
    notes = f"{origin.notes} {note}".strip()
    return replace(
        trimmed, provenance=replace(origin, notes=notes, counts=counts, phases=phases)
    )


WorkKind = Literal["pre_training", "fine_tuning", "inference"]

MEASURED_CAPS = (0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
"""Measured caps in per unit of the TDP: 100, 200, 250, 300, 350, 400 W of 400 W
(arXiv:2507.00909)."""

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
"""Throughput and GPU power at each measured cap, relative to no cap: means of 3, 2 and
1 workloads (arXiv:2507.00909)."""


@dataclass(frozen=True)
class CapLevels:
    """The power-cap levels at which jobs may run; level 0 is uncapped."""

    # Caps in per unit of the TDP by level, descending from 1. Below 0.5 a job takes
    # more energy than without a cap: 1.18 to 1.43 times at 0.25
    caps: tuple[float, ...] = (1.0, 0.875, 0.75, 0.625, 0.5)

    def __len__(self) -> int:
        return len(self.caps)

    def speed(self, kind: WorkKind, level: int) -> float:
        """Return the rate of work at a level, in per unit of the uncapped rate."""
        return float(np.interp(self.caps[level], MEASURED_CAPS, MEASURED[kind][0]))

    def power(self, kind: WorkKind, level: int) -> float:
        """Return the power of GPUs at a level, in per unit of the uncapped power."""
        return float(np.interp(self.caps[level], MEASURED_CAPS, MEASURED[kind][1]))


def cpu_power_w(node: NodeType) -> float:
    """Return the constant power of a node's CPUs [W].

    ``C = P_idle n_cpu TDP_cpu / P_rated``, with idle power P_idle and rated power
    P_rated of the node [W], and n_cpu CPUs of thermal design power TDP_cpu [W].
    """
    if not node.rated_power_w:
        return 0.0
    return node.idle_power_w * node.n_cpus * node.cpu_tdp_w / node.rated_power_w


def capped_power_w(power_w: Float64Array, cpu_w: float, power: float) -> Float64Array:
    """Return power of which only the part above the CPUs' power is scaled [W].

    ``P' = P + max(P - C, 0) (p - 1)``, with power P, CPU power C, and factor p.
    """
    capped_w: Float64Array = power_w + np.maximum(power_w - cpu_w, 0) * (power - 1)
    return capped_w


@dataclass(frozen=True, eq=False)
class CappedProfile(DerivedProfile):
    """A profile of the same work as a base profile, on power-capped GPUs."""

    node: NodeType  # nodes that the job runs on
    speed: float  # rate of work, in per unit of the uncapped rate
    power: float  # power of the GPUs, in per unit of the uncapped power

    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return the power of the capped job [W], from the base profile's."""
        slow_w = stretch_profile(
            base, self._n_samples / base.power_w.size
        ).power_w.astype(np.float64)
        return capped_power_w(slow_w, cpu_power_w(self.node) * base.n_nodes, self.power)

    @property
    def profile_id(self) -> str:
        """Id of the base profile with speed and power."""
        return f"{self.base.profile_id}~capped-{self.speed:.4g}-{self.power:.4g}"

    @property
    def duration_ms(self) -> int:
        """Length of the capped job [ms]."""
        return self._n_samples * self.base.dt_ms

    @property
    def _n_samples(self) -> int:
        """Number of samples, rounded up: a job never ends after its profile."""
        # Rounded up: a job ends before its profile does, never after it.
        return ceil(self.base.duration_ms // self.base.dt_ms / self.speed)

    @property
    def provenance(self) -> Provenance:
        """Provenance of the base, as ``reference``."""
        note = (
            "GPUs capped as measured on the A100 (Emerald, dvfs_sweep.csv), scaled by "
            "the TDP"
        )
        notes = "; ".join(filter(None, [self.base.provenance.notes, note]))
        return replace(self.base.provenance, kind="reference", notes=notes)
