"""A profile of constant power, for loads known only by their mean power."""

from __future__ import annotations

import numpy as np

from diploee.base.units import MS_PER_H, MS_PER_S, PROFILE_STEP_MS
from diploee.profiles.profile import PowerProfile, Provenance

FLAT_ID = "~flat-1kw"
FLAT_WORKLOAD = "flat"
FLAT_POWER_W = 1000.0
"""Power of the flat profile on one node [W], scaled by a job's `power_factor`."""

FLAT_DURATION_MS = MS_PER_H
"""Length of the flat profile [ms]; longer loads repeat it."""


def flat_profile(
    profile_id: str = FLAT_ID,
    source: str = "constant power: idle nodes",
    averaging_window_s: float = 0.0,
) -> PowerProfile:
    """Return one hour of 1 kW on one node.

    Parameters
    ----------
    profile_id, source : str
        Id and origin of the load.
    averaging_window_s : float
        Averaging time of the load's power [s]: no faster fluctuation is represented. 0
        if the power is known at all times.
    """
    return PowerProfile(
        profile_id=profile_id,
        workload=FLAT_WORKLOAD,
        n_nodes=1,
        dt_ms=PROFILE_STEP_MS,
        power_w=np.full(
            FLAT_DURATION_MS // PROFILE_STEP_MS, FLAT_POWER_W, dtype=np.float32
        ),
        provenance=Provenance(
            kind="reference",
            source=source,
            licence="none",
            sampling_interval_s=averaging_window_s or PROFILE_STEP_MS / MS_PER_S,
            averaging_window_s=averaging_window_s,
            bandwidth_hz=0.5 / averaging_window_s if averaging_window_s else None,
        ),
    )
