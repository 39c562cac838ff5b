"""The power of a run as one pandas frame, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from diploee.power.blocks import power_blocks
from diploee.power.segments import Segments
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd


def power_series(segments: Segments, scenario: Scenario, library: ProfileLibrary) -> pd.DataFrame:
    """Sum segments and idle nodes into the facility's power.

    Parameters
    ----------
    segments : Segments
        Loads of all pools, such as `job_segments` gives.
    scenario : Scenario
        Pools, idle power, span and resolution.
    library : ProfileLibrary
        Profiles that the segments refer to.

    Returns
    -------
    pandas.DataFrame
        Indexed by `timestamp` (zone-aware, start of the interval): `it_power_w` and
        `facility_power_w` (mean over the interval [W]), `busy_nodes` (at the interval's start) and
        `utilization` (mean over the interval, 0-1).
    """
    import pandas as pd

    blocks = list(power_blocks(segments, scenario, library))
    index = pd.date_range(
        scenario.start_with_zone,
        periods=scenario.n_intervals,
        freq=pd.Timedelta(milliseconds=scenario.resolution_ms),
        name="timestamp",
    )
    n_nodes = scenario.facility.n_nodes
    return pd.DataFrame(
        {
            "it_power_w": np.concatenate([b.it_power_w.sum(axis=0) for b in blocks]),
            "facility_power_w": np.concatenate([b.facility_power_w for b in blocks]),
            "busy_nodes": np.concatenate([b.busy_nodes.sum(axis=0) for b in blocks]),
            "utilization": np.concatenate([b.mean_busy_nodes.sum(axis=0) for b in blocks])
            / n_nodes,
        },
        index=index,
    )
