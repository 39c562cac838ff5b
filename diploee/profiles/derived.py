"""Profiles made of others: on other GPUs, slower or faster, cut, or with capped GPUs.

A cap on GPUs takes their power to a share p and the work to a share s of its rate, so
that a profile P on n nodes becomes ``P' = C + (P - C) p``, s times as fast, with C what
the CPUs draw of it, their part of the nodes' idle power as in
`diploee.profiles.gpu_power_smoothing`. The energy of the GPUs for the same work is
p / s of what it was.

The shares are means of measurements on A100 GPUs (400 W), by kind of work, relative to
no cap: ``data/dvfs_sweep.csv`` of the demonstration in arXiv:2507.00909 (Apache-2.0)
[S], means [C]. Between the measured caps they are interpolated linearly. ASSUMPTION:
other GPUs follow the same table by their TDP [J]; no open table of H100 or later was
found, so that capped profiles are ``reference``.

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
    """A profile with the head of another one and power of its own."""

    # The profile that it is computed from
    of: PowerProfile | StoredProfile | DerivedProfile

    @abstractmethod
    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return its power [W], shape as of the base's."""

    @property
    def profile(self) -> PowerProfile:
        """The profile itself, computed anew each time.

        It is looked at once or twice in a run.
        """
        base = self.of if isinstance(self.of, PowerProfile) else self.of.profile
        return replace(
            base,
            profile_id=self.profile_id,
            power_w=self.power_w(base).astype(np.float32),
            provenance=self.provenance,
        )

    @property
    def sha256(self) -> str:
        """Content hash, as in `PowerProfile`."""
        return self.profile.sha256

    # Its head is that of the base.
    profile_id = property(attrgetter("of.profile_id"))
    workload = property(attrgetter("of.workload"))
    n_nodes = property(attrgetter("of.n_nodes"))
    dt_ms = property(attrgetter("of.dt_ms"))
    duration_ms = property(attrgetter("of.duration_ms"))
    provenance = property(attrgetter("of.provenance"))


TDP_W = {
    r"\bH[12]00\b.*\bSXM": 700.0,
    r"\bH100\b.*\bPCIE": 350.0,
    r"\bA100\b.*\bSXM": 400.0,
    r"\bV100\b.*\bSXM": 300.0,
    r"\bB200\b.*\bSXM": 1_000.0,
    r"\bL40S\b": 350.0,
}
"""Thermal design power of one GPU [W] by a pattern of its name, of the makers' data
sheets [M]."""


def tdp_of(model: str) -> float | None:
    """Return the thermal design power of a GPU [W].

    None where its model is not known.
    """
    return next(
        (w for name, w in TDP_W.items() if re.search(name, model.upper())), None
    )


def gpus_shown(n_gpus: int | None, tdp_w: float | None) -> str:
    """Return a node's GPUs in words, such as ``4 GPUs of 700 W``, if known."""
    count = "GPUs" if n_gpus is None else plural(n_gpus, "GPU")
    return count if tdp_w is None else f"{count} of {tdp_w:,g} W"


def gpus_of(provenance: Provenance) -> str:
    """Return the GPUs of the nodes that a profile was measured on, in words."""
    return gpus_shown(provenance.gpus_per_node, provenance.gpu_tdp_w)


def is_other_hardware(provenance: Provenance, node: NodeType) -> bool:
    """Return whether a profile is of other GPUs than a node's, if known."""
    known = (
        (provenance.gpus_per_node, node.n_gpus),
        (
            provenance.gpu_tdp_w,
            node.gpu_tdp_w,
        ),
    )
    return any(of not in (None, own) for of, own in known)


def scaled_by_tdp(profile: PowerProfile, node: NodeType) -> PowerProfile:
    """Return a profile in proportion to the TDP of a node's GPUs, as long as it is.

    ASSUMPTION [J]: all of a node's power, CPUs and idle power too, goes with the TDP of
    its GPUs.
    """
    origin = profile.provenance
    n_gpus = node.n_gpus if origin.gpus_per_node is None else origin.gpus_per_node
    tdp_w = node.gpu_tdp_w if origin.gpu_tdp_w is None else origin.gpu_tdp_w
    of_node_w, measured_w = node.n_gpus * node.gpu_tdp_w, n_gpus * tdp_w
    if not (of_node_w > 0 and measured_w > 0):
        raise ProfileError(
            f"profile '{profile.profile_id}' of {gpus_of(origin)} can't be scaled by "
            f"the TDP to {gpus_shown(node.n_gpus, node.gpu_tdp_w)}; use profiles of "
            "these nodes (--profiles)"
        )
    factor = of_node_w / measured_w
    note = (
        f"power scaled by {factor:.4g}, the TDP of "
        f"{gpus_shown(node.n_gpus, node.gpu_tdp_w)} over that of {gpus_of(origin)}, "
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


def stretched(profile: PowerProfile, time_factor: float) -> PowerProfile:
    """Return a profile played slower (factor above 1) or faster, at the same power.

    Its length is the nearest whole number of samples; each sample is the mean of the
    stretched course over its step, so that the mean power stays exact.
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
    """Return a profile between two times, without idle samples at its ends."""
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
    # A rounding of the quotient must not take a further sample.
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
    cut = replace(profile, power_w=profile.power_w[start:stop])
    note = (
        f"Trimmed to {start * step_s:g}-{stop * step_s:g} s (SHA-256 before "
        f"{profile.sha256[:12]}), without "
        f"{(profile.energy_j - cut.energy_j) / 3.6e6:.4g} kWh."
    )
    origin, cut_s, kept_s = profile.provenance, start * step_s, (stop - start) * step_s
    phases = {
        name: [
            [float(np.clip(at_s - cut_s, 0, kept_s)) for at_s in span]
            for span in spans
            if span[0] < cut_s + kept_s and span[1] > cut_s
        ]
        for name, spans in origin.phases.items()
    }
    counts = origin.counts | {"trimmed_samples": profile.power_w.size - (stop - start)}
    notes = f"{origin.notes} {note}".strip()
    return replace(
        cut, provenance=replace(origin, notes=notes, counts=counts, phases=phases)
    )


WorkKind = Literal["pre_training", "fine_tuning", "inference"]

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
"""Throughput and GPU power at each measured cap, relative to no cap: 3, 2 and 1
workloads [C]."""


@dataclass(frozen=True)
class CapLevels:
    """The caps that jobs may be run at; level 0 is none."""

    # Caps over the TDP, falling from 1, by level. Below half of it a job takes more
    # energy than without a cap: 1.18 to 1.43 times at 0.25
    caps: tuple[float, ...] = (1.0, 0.875, 0.75, 0.625, 0.5)

    def __len__(self) -> int:
        return len(self.caps)

    def speed(self, kind: WorkKind, level: int) -> float:
        """Return the rate of work at a level over that without a cap."""
        return float(np.interp(self.caps[level], MEASURED_CAPS, MEASURED[kind][0]))

    def power(self, kind: WorkKind, level: int) -> float:
        """Return the power of GPUs at a level over that without a cap."""
        return float(np.interp(self.caps[level], MEASURED_CAPS, MEASURED[kind][1]))


def cpu_power_w(node: NodeType) -> float:
    """Return what the CPUs of a node draw all the time [W].

    Their part of its idle power.
    """
    if not node.rated_power_w:
        return 0.0
    return node.idle_power_w * node.n_cpus * node.cpu_tdp_w / node.rated_power_w


def capped_power_w(power_w: Float64Array, cpu_w: float, power: float) -> Float64Array:
    """Return power whose part above that of the CPUs is scaled [W]."""
    capped_w: Float64Array = power_w + np.maximum(power_w - cpu_w, 0) * (power - 1)
    return capped_w


@dataclass(frozen=True, eq=False)
class CappedProfile(DerivedProfile):
    """A profile as capped GPUs play it."""

    node: NodeType  # nodes that it runs on
    speed: float  # rate of work, over that without a cap
    power: float  # power of the GPUs, over that without a cap

    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return its power [W]."""
        slow_w = stretched(base, self._n_samples / base.power_w.size).power_w.astype(
            np.float64
        )
        return capped_power_w(slow_w, cpu_power_w(self.node) * base.n_nodes, self.power)

    @property
    def profile_id(self) -> str:
        """Its id."""
        return f"{self.of.profile_id}~capped-{self.speed:.4g}-{self.power:.4g}"

    @property
    def duration_ms(self) -> int:
        """Length [ms]."""
        return self._n_samples * self.of.dt_ms

    @property
    def _n_samples(self) -> int:
        # Rounded up: a job ends before its profile does, never after it.
        return ceil(self.of.duration_ms // self.of.dt_ms / self.speed)

    @property
    def provenance(self) -> Provenance:
        """That of the base, as ``reference``."""
        note = (
            "GPUs capped as measured on the A100 (Emerald, dvfs_sweep.csv), scaled by "
            "the TDP"
        )
        notes = "; ".join(filter(None, [self.of.provenance.notes, note]))
        return replace(self.of.provenance, kind="reference", notes=notes)
