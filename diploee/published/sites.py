"""Whole sites at their meters: PUE of their climate, and shapes of metered loads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from diploee.outputs import Run
from diploee.published.check import Check, Section

PUE_CORRIDOR = (1.080, 1.194)
"""Annual PUE of large sites with economizers, 5th to 95th percentile, climate zone 5B (Denver);
Lei and Masanet's UE.csv."""
ESIF_COOLING_ONLY = 1.036
"""Annual PUE of NREL's ESIF, warm-water cooling near Denver: its meters are lights, plugs, fans,
pumps, HVAC and IT, no UPS or transformer, so that it compares with the cooling-only figure."""
EPRI_COLOCATION = 0.88
"""Load factor of metered colocation, of its own peak; EPRI 2026, from a secondary source."""
EPRI_NAMEPLATE = 0.57
"""Mean over nameplate of the same sites."""
GOOGLE_STEP = 0.06
"""Largest 5-minute step over the mean, of five power domains; Google powerdata_2019 (CC BY 4.0)."""
SITES = ("colocation_10mw_poi", "colocation_10mw_poi_air", "inference_1mw_poi")


def power_usage(simulate: Callable[[str, tuple[str, ...]], Run]) -> Section:
    """Return the annual PUE of the shipped sites beside sites of their climate."""
    checks = []
    for name in SITES:
        poi = simulate(name, ("resolution=5 min",)).metrics["poi"]
        checks.append(Check(f"`{name}`: annual PUE", "", None, poi["pue"], PUE_CORRIDOR))
        if name == SITES[0]:
            lights = poi["energy"]["auxiliary_mwh"] / poi["energy"]["total_mwh"] * poi["pue"]
            cooling = poi["ppue_cooling"] + lights
            checks.append(
                Check.near(f"`{name}`: cooling, lights and IT over IT", "", ESIF_COOLING_ONLY,
                           cooling, absolute=0.015)
            )  # fmt: skip
    return Section(
        "Annual PUE at Denver",
        "Lei and Masanet, corridor of climate zone 5B; NREL's ESIF for liquid cooling",
        checks,
    )


def metered_shapes(simulate: Callable[[str, tuple[str, ...]], Run], seed: int = 0) -> Section:
    """Return the shape of the metered colocation campus beside EPRI's and Google's."""
    run = simulate("colocation_metered_150mw", ("resolution=5 min", f"seed={seed}"))
    power_mw = run.facility()["poi_power_w"].to_numpy().astype(np.float64) / 1e6
    mean_mw = power_mw.mean()
    step = float(np.abs(np.diff(power_mw)).max() / mean_mw)
    load_factor, nameplate = float(mean_mw / power_mw.max()), float(mean_mw / 150)
    return Section(
        "Shape of a metered campus (`colocation_metered_150mw`)",
        "EPRI 2026, metered load shapes, from a secondary source; Google powerdata_2019 (CC BY "
        "4.0), five power domains",
        [
            Check.near("load factor", "", EPRI_COLOCATION, load_factor, absolute=0.02),
            Check.near("mean over nameplate", "", EPRI_NAMEPLATE, nameplate, absolute=0.05),
            # A campus steps less than one of its domains, but not ten times less.
            Check("largest 5-minute step over the mean", "", None, step, (0.02, GOOGLE_STEP)),
            Check("standard deviation over the mean", "", 0.03, float(power_mw.std() / mean_mw)),
        ],
        "The campus is calibrated to the first two figures; its tenants, jobs and hours are "
        "assumed. Its standard deviation lies above that of Google's domains, whose load factor is "
        "higher, too.",
    )
