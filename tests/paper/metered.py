"""Metered nodes, runs and sites beside the program's."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from checks import Check, Section, Simulate

from diploee.base.errors import plural
from diploee.base.units import MS_PER_S
from diploee.facility.node_power import AC_POWER, DlcSpec
from diploee.profiles import ProfileLibrary
from diploee.profiles.compare_libraries import profile_statistics
from diploee.profiles.library import EIGHT_GPUS
from profiles.build.eight_gpus import EIGHT_GPU_CLASSES, SUPPLY_EFFICIENCY
from profiles.build.eight_gpus import SOURCE as EIGHT_GPU_SOURCE
from profiles.build.llama2 import WORKLOAD as LLAMA2

SWINGS = "swings from 0.02 to 0.25 Hz, rms"
METERED_SWINGS_KW = {1: 0.4078, 8: 5.445}
"""Of metered runs of Llama-2 70B LoRA at the AC input, by nodes with 8 x H100: means
over ten runs of `profile_statistics` of what `diploee profiles import mlperf-power`
gives [kW].
"""

PUE_CORRIDOR = (1.080, 1.194)
"""Annual PUE of large sites with economizers, 5th to 95th percentile, climate zone 5B
(Denver); Lei and Masanet's UE.csv."""
ESIF_COOLING_ONLY = 1.036
"""Annual PUE of NREL's ESIF, warm-water cooling near Denver: its meters are lights,
plugs, fans, pumps, HVAC and IT, no UPS or transformer, so that it compares with the
cooling-only figure."""
EPRI_COLOCATION = 0.88
"""Load factor of metered colocation, of its own peak; EPRI 2026, from a secondary
source."""
EPRI_NAMEPLATE = 0.57
"""Mean over nameplate of the same sites."""
GOOGLE_STEP = 0.06
"""Largest 5-minute step over the mean, of five power domains; Google powerdata_2019 (CC
BY 4.0)."""
GOOGLE_STD = 0.03
"""Standard deviation over the mean of the same domains."""
FURTHER = {
    **dict.fromkeys(
        (
            ("orv3", 2380.0),
            ("orv3", 2940.0),
            ("titanium_typ", 2380.0),
            ("titanium_typ", 2940.0),
        ),
        "at idle the presets are 1 to 3 points better than the measured supplies",
    ),
    (
        "titanium_typ",
        7280.0,
    ): "in training the preset is 1.6 points below the measured supplies",
}
"""Why the efficiency of a supply at an AC power [W] is outside its range."""
SITES = ("colocation_10mw_poi", "colocation_10mw_poi_air", "inference_1mw_poi")
IMMERSED_RATED_W, IMMERSED_IDLE_W = 8 * 700 + 2 * 300, 760.0
"""Rating and idle power of its devices [W]; the idle power is assumed."""


def node_power() -> Section:
    """Return AC power of air-cooled nodes beside what was metered."""
    acme = _ac_w("air_hgx", np.array([670.0, 694, 3521]), 8 * 400 + 2 * 240, 480 + 190)
    bnl = _ac_w("air_hgx", np.array([5500.0, 6300]), 6300, 780)
    loads = ("idle", "a light load", "training")
    checks = [
        Check.near(
            f"Acme, 8 x A100, {load}: AC power",
            "W",
            published,
            found,
            relative=0.10,
            fitted=True,
        )
        for load, published, found in zip(loads, (1421, 1512, 4851), acme, strict=True)
    ]
    checks += [
        Check.near(
            f"Brookhaven, 8 x H100, {load}: AC power",
            "W",
            published,
            found,
            relative=0.10,
        )
        for load, published, found in zip(
            ("intensive training", "highest"), (7750, 8400), bnl, strict=True
        )
    ]
    return Section(
        "AC power of air-cooled nodes (`air_hgx`)",
        (
            "Acme traces (GPU, CPU and server power); Brookhaven's 8 x H100 node, "
            "quoted figures"
        ),
        checks,
        (
            "Device power of Brookhaven's node is assumed; fan and fixed shares are "
            "fitted to Acme."
        ),
    )


def supply_efficiency() -> Section:
    """Return the efficiency of the supplies beside an immersed node's."""
    shelf = AC_POWER.read({"kind": "dlc", "network_w": 0.0})
    installed_w = -shelf.reactive_power_var(IMMERSED_RATED_W, IMMERSED_IDLE_W) / 0.026
    dc_w = np.array(
        [ac_w * efficiency for ac_w, efficiency in SUPPLY_EFFICIENCY.items()]
    )
    load = dc_w / installed_w
    own = dict(zip(load.tolist(), SUPPLY_EFFICIENCY.values(), strict=True))
    checks = []
    for name, supply in (
        ("orv3", "orv3"),
        ("titanium_typ", "titanium_typ"),
        ("its own points", {"kind": "points", "efficiency": own}),
    ):
        node = AC_POWER.read({"kind": "dlc", "network_w": 0.0, "supply": supply})
        loss = cast("DlcSpec", node).supply.curve(load)
        for ac_w, measured, found in zip(
            SUPPLY_EFFICIENCY,
            SUPPLY_EFFICIENCY.values(),
            (load / (load + loss)).tolist(),
            strict=True,
        ):
            published, given = 100 * measured, 100 * found
            what = f"supply `{name}` at {ac_w / 1e3:g} kW AC"
            checks.append(
                Check.near(
                    what,
                    "%",
                    published,
                    given,
                    absolute=0.5,
                    fitted=isinstance(supply, dict),
                    why=FURTHER.get((name, ac_w), ""),
                )
            )
    return Section(
        "Efficiency of power supplies",
        (
            "MLPerf Training v4.0, nodes with 8 x H100, immersed, AC and DC side "
            "(Apache-2.0)"
        ),
        checks,
        "Give the points of the own supplies where idle nodes matter.",
    )


def _ac_w(kind: str, device_w: Any, rated_w: float, idle_w: float) -> list[float]:
    node = AC_POWER.read({"kind": kind, "network_w": 0.0})
    return [float(w) for w in node.ac_power_w(device_w, rated_w, idle_w)]


def eight_gpu_runs() -> Section:
    """Return duration and mean power of the profiles of 8 x H100 beside the metered
    runs."""
    library, checks = ProfileLibrary.open(EIGHT_GPUS), []
    for of_class in EIGHT_GPU_CLASSES:
        where = f"{LLAMA2} on {plural(of_class.n_nodes, 'node')} of 8 x H100"
        found = [library[index] for index in library.select(LLAMA2, of_class.n_nodes)]
        duration_s = (
            float(np.mean([profile.duration_ms for profile in found])) / MS_PER_S
        )
        mean_w = (
            float(np.mean([profile.mean_power_w for profile in found]))
            / of_class.n_nodes
        )
        metered_s = float(np.mean(of_class.durations_s))
        metered_w = float(np.mean(of_class.means_w))
        courses = ((metered_s, metered_w), (duration_s, mean_w))
        energies_mj = [of_class.n_nodes * w * s / 1e6 for s, w in courses]
        swings_w = [profile_statistics(profile).swing_rms_w for profile in found]
        checks += [
            Check.near(
                f"{where}: run time",
                "s",
                metered_s,
                duration_s,
                absolute=2.0,
                fitted=True,
            ),
            Check.near(
                f"{where}: node AC power",
                "W",
                metered_w,
                mean_w,
                relative=5e-3,
                fitted=True,
            ),
            Check.near(
                f"{where}: energy", "MJ", *energies_mj, relative=1e-2, fitted=True
            ),
            Check.near(
                f"{where}: {SWINGS}",
                "kW",
                METERED_SWINGS_KW[of_class.n_nodes],
                float(np.mean(swings_w)) / 1e3,
                relative=0.15,
            ),
        ]
    return Section(
        "Metered runs on nodes with 8 x H100",
        EIGHT_GPU_SOURCE,
        checks,
        (
            "Duration and mean bind in the synthesis; the course between them is that "
            "of the class's medians, read every 2 s. `diploee profiles compare` "
            "compares imported runs with them, class by class."
        ),
    )


def power_usage(simulate: Simulate) -> Section:
    """Return the annual PUE of the shipped sites beside sites of their climate."""
    checks = []
    for name in SITES:
        poi = simulate(name, ("resolution=5 min",)).metrics["poi"]
        checks.append(
            Check(f"`{name}`: annual PUE", "", None, poi["pue"], PUE_CORRIDOR)
        )
        if name == SITES[0]:
            lights = (
                poi["energy"]["auxiliary_mwh"] / poi["energy"]["total_mwh"] * poi["pue"]
            )
            cooling = poi["ppue_cooling"] + lights
            checks.append(
                Check.near(
                    f"`{name}`: cooling, lights and IT over IT",
                    "",
                    ESIF_COOLING_ONLY,
                    cooling,
                    absolute=0.015,
                )
            )
    return Section(
        "Annual PUE at Denver",
        "Lei and Masanet, corridor of climate zone 5B; NREL's ESIF for liquid cooling",
        checks,
    )


def metered_shapes(simulate: Simulate, seed: int = 0) -> Section:
    """Return the shape of the metered colocation campus beside EPRI's and Google's."""
    run = simulate("colocation_metered_150mw", ("resolution=5 min", f"seed={seed}"))
    power_mw = run.facility()["poi_power_w"].to_numpy().astype(np.float64) / 1e6
    mean_mw = power_mw.mean()
    step = float(np.abs(np.diff(power_mw)).max() / mean_mw)
    load_factor, nameplate = float(mean_mw / power_mw.max()), float(mean_mw / 150)
    return Section(
        "Shape of a metered campus (`colocation_metered_150mw`)",
        (
            "EPRI 2026, metered load shapes, from a secondary source; Google "
            "powerdata_2019 (CC BY 4.0), five power domains"
        ),
        [
            Check.near(
                "load factor",
                "",
                EPRI_COLOCATION,
                load_factor,
                absolute=0.02,
                fitted=True,
            ),
            Check.near(
                "mean over nameplate",
                "",
                EPRI_NAMEPLATE,
                nameplate,
                absolute=0.05,
                fitted=True,
            ),
            # A campus steps less than one of its domains, but not ten times less.
            Check(
                "largest 5-minute step over the mean",
                "",
                None,
                step,
                (0.02, GOOGLE_STEP),
            ),
            Check.near(
                "standard deviation over the mean",
                "",
                GOOGLE_STD,
                float(power_mw.std() / mean_mw),
                relative=0.1,
                why=(
                    "Google's domains, which it is of, have a higher load factor as "
                    "well, 0.93 to 0.94"
                ),
            ),
        ],
        (
            "The campus is calibrated to the first two figures; its tenants, jobs and "
            "hours are assumed."
        ),
    )
