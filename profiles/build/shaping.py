"""From a staircase of levels to power readings.

The driver's average, noise, whole watts. Random numbers come from
`numpy.random.Generator.random` alone and are transformed here, so that the profiles are
equal in whole watts under every supported numpy version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.profiles.profile import PUBLISHED_NODE, PowerProfile
from profiles.build import facts

STEP_S = PROFILE_STEP_MS / MS_PER_S
MILLIWATTS_PER_W = 1_000
_WINDOW_MS = round(facts.AVERAGING_WINDOW_S * MS_PER_S)
_STEPS_PER_WINDOW = _WINDOW_MS // PROFILE_STEP_MS

# ASSUMPTION: noise per node, incoherent between nodes (it grows with the root of their
# number).
LOAD_NOISE_W = 15.0
"""Standard deviation of the load's own noise at full power [W], after the driver's
average."""
READING_NOISE_W = 4.0
"""Standard deviation of the reading [W], at any power."""
_FULL_W = facts.LLAMA2_HIGH_W

NOTES = (
    "Synthesised by diploee from published facts (levels, times, means, counts), not "
    "measured. The readings are a 1 s moving average: trust what lies below 0.25 Hz, "
    "take 0.25-0.44 Hz with caution, nothing above; a step over less than 2 s is a "
    "lower bound."
)


@dataclass(frozen=True, eq=False)
class Staircase:
    """Power that is constant between edges and zero outside them."""

    edges_s: Float64Array  # times of the edges [s], increasing
    levels_w: Float64Array  # power between them [W]

    @classmethod
    def of_lengths(
        cls, lengths_s: Float64Array, levels_w: Float64Array, start_s: float = 0.0
    ) -> Staircase:
        """Join pieces of given lengths [s] and levels [W] from a start time [s] on."""
        kept = lengths_s > 0
        edges_s = start_s + np.concatenate([[0.0], np.cumsum(lengths_s[kept])])
        return cls(edges_s, levels_w[kept])

    @classmethod
    def of_pulses(
        cls, starts_s: Float64Array, lengths_s: Float64Array, levels_w: Float64Array
    ) -> Staircase:
        """Set separate pulses at increasing start times [s], zero between them."""
        edges_s = np.stack([starts_s, starts_s + lengths_s], axis=1).ravel()
        levels_w = np.stack([levels_w, np.zeros_like(levels_w)], axis=1).ravel()
        return cls(edges_s, levels_w[:-1])

    def readings_w(self, n_samples: int) -> Float64Array:
        """Return what the driver reports.

        The mean over the second before each sample's middle.
        """
        if self.levels_w.size == 0:
            return np.zeros(n_samples)
        # Whole milliseconds and milliwatts: the sums are exact on every machine.
        edges_ms = np.rint(self.edges_s * MS_PER_S).astype(np.int64)
        levels_mw = np.rint(self.levels_w * MILLIWATTS_PER_W).astype(np.int64)
        middles_ms = (
            np.arange(n_samples, dtype=np.int64) * PROFILE_STEP_MS
            + PROFILE_STEP_MS // 2
        )
        window_uj = _energy_uj(edges_ms, levels_mw, middles_ms)
        window_uj -= _energy_uj(edges_ms, levels_mw, middles_ms - _WINDOW_MS)
        window_w: Float64Array = window_uj / (_WINDOW_MS * MILLIWATTS_PER_W)
        return window_w


def _energy_uj(
    edges_ms: Int64Array, levels_mw: Int64Array, time_ms: Int64Array
) -> Int64Array:
    """Return the energy of a staircase up to given times [uJ]."""
    energy_uj = np.concatenate([[0], np.cumsum(levels_mw * np.diff(edges_ms))])
    piece = np.searchsorted(edges_ms, time_ms, side="right") - 1
    piece = np.clip(piece, 0, levels_mw.size - 1)
    inside_ms = np.clip(time_ms, edges_ms[0], edges_ms[-1]) - edges_ms[piece]
    return energy_uj[piece] + levels_mw[piece] * inside_ms


def uniform(
    rng: np.random.Generator, low: float, high: float, size: int
) -> Float64Array:
    """Draw `size` numbers between `low` and `high`."""
    return low + (high - low) * rng.random(size)


def normal(rng: np.random.Generator, size: int) -> Float64Array:
    """Draw `size` standard normal numbers, cut at 3.7 standard deviations."""
    drawn: Float64Array = scipy.special.ndtri(np.clip(rng.random(size), 1e-4, 1 - 1e-4))
    return drawn


def job_power_w(
    node_power_w: Float64Array, n_nodes: int, rng: np.random.Generator
) -> Float64Array:
    """Sum the nodes of a job that run in phase and add their noise.

    Parameters
    ----------
    node_power_w : numpy.ndarray, shape (n,), float64
        Readings of one node without noise [W].
    n_nodes : int
        Nodes of the job.
    rng : numpy.random.Generator
        Source of the noise.
    """
    n = node_power_w.size
    load = np.cumsum(normal(rng, n + _STEPS_PER_WINDOW))
    load = (load[_STEPS_PER_WINDOW:] - load[:-_STEPS_PER_WINDOW]) / np.sqrt(
        _STEPS_PER_WINDOW
    )
    activity = (node_power_w - facts.IDLE_W) / (_FULL_W - facts.IDLE_W)
    noise_w = LOAD_NOISE_W * activity * load + READING_NOISE_W * normal(rng, n)
    power_w: Float64Array = n_nodes * node_power_w + np.sqrt(n_nodes) * noise_w
    return power_w


def n_samples_of(duration_s: float) -> int:
    """Return the samples of a run of a duration [s]."""
    return round(duration_s / STEP_S)


def reference_profile(
    workload: str, n_nodes: int, run: int, power_w: Float64Array, notes: str
) -> PowerProfile:
    """Round the power of a run to whole watts and say where it comes from."""
    return PowerProfile(
        profile_id=profile_id(workload, n_nodes, run),
        workload=workload,
        n_nodes=n_nodes,
        dt_ms=PROFILE_STEP_MS,
        power_w=np.rint(power_w).astype(np.float32),
        provenance=replace(PUBLISHED_NODE, notes=f"{NOTES} {notes}"),
    )


def profile_id(workload: str, n_nodes: int, run: int) -> str:
    """Return the id of a run, such as ``"llama2_70b_lora-16n-1"``."""
    return f"{workload}-{n_nodes}n-{run}"
