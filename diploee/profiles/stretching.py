"""Profiles played slower or faster."""

from __future__ import annotations

import numpy as np

from diploee.profiles.profile import PowerProfile
from diploee.tables import Float32Array


def stretched(profile: PowerProfile, time_factor: float) -> PowerProfile:
    """Return a profile played slower (factor above 1) or faster, at the same power.

    Its length is the nearest whole number of samples; each sample is the mean of the stretched
    course over its step, so that the mean power stays exact.
    """
    n_samples = max(1, round(profile.power_w.size * time_factor))
    edges = np.linspace(0.0, profile.power_w.size, n_samples + 1)
    energy = np.interp(edges, np.arange(profile.power_w.size + 1), profile.cumulative_energy_j)
    mean_w = np.diff(energy) / np.diff(edges) / (profile.dt_ms / 1000)
    power_w: Float32Array = np.maximum(mean_w, 0).astype(np.float32)
    return PowerProfile(
        profile_id=f"{profile.profile_id}~{time_factor:.10g}",
        workload=profile.workload,
        n_nodes=profile.n_nodes,
        dt_ms=profile.dt_ms,
        power_w=power_w,
        provenance=profile.provenance,
    )
