"""Measured samples of an instance's power at known request rates, read from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from diploee.errors import InputError, one_line
from diploee.importers.power_logs.plain import import_plain
from diploee.loads.services.curves import PowerCurve, PowerSample, ServingFile
from diploee.profiles import PowerProfile
from diploee.profiles.profile import DEVICE_POWER
from diploee.profiles.resample import EnergyCurve, joint_power_w
from diploee.streams import stream
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_S, PROFILE_STEP_MS

SHORTEST_MS, LONGEST_MS = 10 * MS_PER_S, MS_PER_DAY
PLAYED_MS = 180 * MS_PER_S
"""A shorter sample is played to this length, each time from another place at random (ASSUMPTION:
nothing in it repeats with its own length)."""
_US_PER_MS = 1_000


def read_power_samples(
    name: str, files: Mapping[float, str], n_nodes: int, folder: Path, boundary: str = DEVICE_POWER
) -> tuple[tuple[PowerSample, ...], tuple[ServingFile, ...]]:
    """Read the measured samples of a service, as the importer of plain profiles does."""
    samples, read = [], []
    for rate_rps, file in sorted(files.items()):
        try:
            profile = _profile(name, folder / file, n_nodes, boundary)
        except InputError as error:
            raise InputError(f"power_samples.{rate_rps:g}: {error}") from error
        sha256 = profile.provenance.source_sha256
        samples.append(_sample(name, rate_rps, profile))
        read.append(ServingFile(file, folder / file, sha256))
    return tuple(samples), tuple(read)


def curve_through(name: str, samples: tuple[PowerSample, ...]) -> PowerCurve:
    """Return the power curve that samples make by their own means and peaks."""
    return PowerCurve(
        name,
        np.array([sample.rate_rps for sample in samples]),
        np.array([sample.power_w.mean() for sample in samples]),
        np.array([sample.power_w.max() for sample in samples]),
        samples=samples,
    )


def _profile(name: str, path: Path, n_nodes: int, boundary: str) -> PowerProfile:
    profile = import_plain(
        path, workload=name, profile_id=name, n_nodes=n_nodes, power_boundary=boundary
    )
    if not SHORTEST_MS <= profile.duration_ms <= LONGEST_MS:
        raise InputError(
            f"{one_line(str(path))}: lasts {profile.duration_ms / MS_PER_S:g} s, expected "
            f"{SHORTEST_MS // MS_PER_S} to {LONGEST_MS // MS_PER_S} s at one request rate; "
            "measure longer, or trim it"
        )
    if not profile.power_w.any():
        raise InputError(f"{one_line(str(path))}: power is 0 throughout, expected that of a load")
    return profile


def _sample(name: str, rate_rps: float, profile: PowerProfile) -> PowerSample:
    power_w = profile.power_w.astype(np.float64) / profile.n_nodes
    dt_ms = profile.dt_ms
    if dt_ms % PROFILE_STEP_MS:  # an odd step would make every table as fine as the common divisor
        edges_us = np.arange(power_w.size + 1, dtype=np.int64) * (dt_ms * _US_PER_MS)
        energy_j = np.concatenate(([0.0], np.cumsum(power_w * (dt_ms / MS_PER_S))))
        power_w = joint_power_w([EnergyCurve(edges_us, energy_j)], PROFILE_STEP_MS * _US_PER_MS)
        dt_ms = PROFILE_STEP_MS
    copies = -(-PLAYED_MS // (power_w.size * dt_ms))
    rng = stream(0, "profiles", "serving", name, f"{rate_rps:g}", "places")
    return PowerSample(rate_rps, dt_ms, _shuffled(power_w, copies, rng), profile.provenance)


def _shuffled(power_w: Float64Array, copies: int, rng: np.random.Generator) -> Float64Array:
    """Play a short sample several times, each from another place, so that its length won't show."""
    if copies == 1:
        return power_w
    places = rng.integers(0, power_w.size, copies)
    return np.concatenate([np.roll(power_w, -place) for place in places.tolist()])
