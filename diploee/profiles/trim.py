"""Cut the head and the tail of a profile: the idle time before and after a job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diploee.errors import ProfileError
from diploee.profiles.profile import PowerProfile
from diploee.scenario.bounds import MAX_POWER_W
from diploee.units import MS_PER_S


def trim_profile(
    profile: PowerProfile,
    *,
    from_s: float | None = None,
    to_s: float | None = None,
    idle_w: float | None = None,
    profile_id: str | None = None,
) -> PowerProfile:
    """Return the part of a profile between two times, without idle samples at its ends."""
    if from_s is None and to_s is None and idle_w is None:
        raise ProfileError("nothing to trim: give one of from_s, to_s and idle_w, or several")
    length_s = profile.duration_ms / MS_PER_S
    start_s = 0.0 if from_s is None else from_s
    stop_s = length_s if to_s is None else to_s
    if not 0 <= start_s < stop_s <= length_s + profile.dt_ms / MS_PER_S:
        raise ProfileError(
            f"profile '{profile.profile_id}': from_s is {start_s:g} and to_s is {stop_s:g}, "
            f"expected two times one after the other within its {length_s:g} s"
        )
    steps = profile.dt_ms / MS_PER_S
    # A rounding of the quotient must not take a further sample.
    start = int(np.floor(start_s / steps + 1e-9))
    stop = min(int(np.ceil(stop_s / steps - 1e-9)), profile.power_w.size)
    if idle_w is not None:
        start, stop = _busy(profile, start, stop, idle_w)
    left_out = profile.power_w.size - (stop - start)
    left_out_j = float(np.sum(profile.power_w, dtype=np.float64) * steps) - float(
        np.sum(profile.power_w[start:stop], dtype=np.float64) * steps
    )
    origin = profile.provenance
    note = (
        f"Trimmed to {start * steps:g}-{stop * steps:g} s of '{profile.profile_id}' "
        f"(SHA-256 {profile.sha256[:12]}), without {left_out_j / 3.6e6:.4g} kWh."
    )
    return PowerProfile(
        profile_id or profile.profile_id,
        profile.workload,
        profile.n_nodes,
        profile.dt_ms,
        profile.power_w[start:stop],
        replace(
            origin,
            notes=f"{origin.notes} {note}".strip(),
            counts={
                **origin.counts,
                "trimmed_samples": origin.counts.get("trimmed_samples", 0) + left_out,
            },
        ),
    )


def _busy(profile: PowerProfile, start: int, stop: int, idle_w: float) -> tuple[int, int]:
    busy = np.flatnonzero(
        profile.power_w[start:stop] > np.float64(min(idle_w, MAX_POWER_W)) * profile.n_nodes
    )
    if busy.size == 0:
        highest_w = float(profile.power_w[start:stop].max()) / profile.n_nodes
        raise ProfileError(
            f"profile '{profile.profile_id}': no sample above {idle_w:g} W a node (highest "
            f"{highest_w:g} W), so nothing would be left; give a lower idle_w"
        )
    return start + int(busy[0]), start + int(busy[-1]) + 1
