"""Cut the head and the tail of a profile: the idle time before and after a job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diploee.errors import ProfileError
from diploee.profiles.profile import PowerProfile
from diploee.units import MS_PER_S


def trim_profile(
    profile: PowerProfile,
    from_s: float | None = None,
    to_s: float | None = None,
    idle_w: float | None = None,
) -> PowerProfile:
    """Return the part of a profile between two times, without idle samples at its ends."""
    if from_s is None and to_s is None and idle_w is None:
        return profile
    step_s, length_s = profile.dt_ms / MS_PER_S, profile.duration_ms / MS_PER_S
    start_s = 0.0 if from_s is None else from_s
    stop_s = length_s if to_s is None else to_s
    if not 0 <= start_s < stop_s <= length_s + step_s:
        raise ProfileError(
            f"profile '{profile.profile_id}': from_s is {start_s:g} and to_s is {stop_s:g}, "
            f"expected two times one after the other within its {length_s:g} s"
        )
    # A rounding of the quotient must not take a further sample.
    start = int(np.floor(start_s / step_s + 1e-9))
    stop = min(int(np.ceil(stop_s / step_s - 1e-9)), profile.power_w.size)
    if idle_w is not None:
        node_w = profile.power_w[start:stop].astype(np.float64) / profile.n_nodes
        busy = np.flatnonzero(node_w > idle_w)
        if busy.size == 0:
            raise ProfileError(
                f"profile '{profile.profile_id}': no sample above {idle_w:g} W a node (highest "
                f"{node_w.max():g} W), so nothing would be left; give a lower idle_w"
            )
        start, stop = start + int(busy[0]), start + int(busy[-1]) + 1
    cut = replace(profile, power_w=profile.power_w[start:stop])
    note = (
        f"Trimmed to {start * step_s:g}-{stop * step_s:g} s (SHA-256 before {profile.sha256[:12]}),"
        f" without {(profile.energy_j - cut.energy_j) / 3.6e6:.4g} kWh."
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
    return replace(cut, provenance=replace(origin, notes=notes, counts=counts, phases=phases))
