"""Stable Diffusion v2 training.

Flat training phases and evaluation phases of fast bursts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.profiles.profile import PowerProfile
from profiles.build import facts
from profiles.build.facts import DiffusionClass
from profiles.build.shaping import (
    Staircase,
    job_power_w,
    n_samples_of,
    profile_id,
    reference_profile,
    uniform,
)

WORKLOAD = "stable_diffusion"
NOTES = (
    "Binding: mean power of the run, duration scaled to the class mean of Table 2, "
    "evaluation count. The high share of the evaluation bursts follows from the mean."
)
NOTES_ONE_NODE = (
    "Assumed: no power is published for one node; six runs, 2.66 kW, training level "
    "as on 2 nodes."
)

# ASSUMPTION: "several a minute" is 3.3 on average, one every 13-23 s.
_BURST_PERIOD_S = 18.0
_BURST_SPREAD = 0.3
_BURST_HIGH_SPREAD_W = 10.0
# ASSUMPTION: below this high share a phase would no longer look like bursts; a run
# whose mean asks for less trains at a lower level instead (at most 5 % lower).
_SMALLEST_HIGH_SHARE = 0.2
# ASSUMPTION: depth and number of the rare one-second dips of the training phases.
_DIP_INTERVAL_S = 300.0
_DIP_LENGTH_S = 1.0
_DIP_DEPTH_RANGE = (0.2, 0.4)
# ASSUMPTION: the ramp is straight and at the start only; idle for a moment at the end.
_RAMP_STEP_S = 1.0
_IDLE_END_S = 3.0


@dataclass(frozen=True)
class _Layout:
    """Phase lengths [s] and levels [W] of one run, and the generator of its details."""

    rng: np.random.Generator
    duration_s: float
    ramp_s: float
    training_s: float
    evaluation_s: float
    training_w: float
    high_share: float

    @property
    def n_samples(self) -> int:
        return n_samples_of(self.duration_s)


def diffusion_class(workload_class: DiffusionClass) -> list[PowerProfile]:
    """Return the profiles of one node count, in order of their runs."""
    return [_profile(workload_class, run) for run in range(len(workload_class.means_w))]


def _profile(workload_class: DiffusionClass, run: int) -> PowerProfile:
    """Build one run; `run` counts from 0."""
    n_nodes = workload_class.n_nodes
    layout = _layout(workload_class, run)
    power_w = job_power_w(_node_power_w(workload_class, layout), n_nodes, layout.rng)
    # The bursts' edges, the dips and the noise leave a few watts, met by a shift after
    # the ramp.
    after_ramp = Staircase(
        np.array([layout.ramp_s, layout.duration_s - _IDLE_END_S]), np.ones(1)
    ).readings_w(layout.n_samples)
    shift_w = (workload_class.means_w[run] - power_w.mean()) / after_ramp.mean()
    notes = f"{NOTES} {NOTES_ONE_NODE}" if n_nodes == 1 else NOTES
    return reference_profile(
        WORKLOAD, n_nodes, run + 1, power_w + shift_w * after_ramp, notes
    )


def _layout(workload_class: DiffusionClass, run: int) -> _Layout:
    """Place the phases of a run and find what its mean asks of the evaluations."""
    name = profile_id(WORKLOAD, workload_class.n_nodes, run + 1)
    duration_s = workload_class.durations_s[run]
    n_phases = workload_class.n_evaluations
    pair_s = workload_class.training_s + workload_class.evaluation_s
    shrink = (duration_s - _IDLE_END_S) / (n_phases * pair_s)
    training_s = workload_class.training_s * shrink
    evaluation_s = workload_class.evaluation_s * shrink
    ramp_s = _ramp_s(workload_class, run)

    burst_low_w = sum(facts.BURST_LOW_RANGE_W) / 2
    wanted_j = workload_class.means_w[run] / workload_class.n_nodes * duration_s
    wanted_j -= (
        _IDLE_END_S + ramp_s / 2
    ) * facts.IDLE_W + n_phases * evaluation_s * burst_low_w
    flat_s = n_phases * training_s - ramp_s / 2
    burst_j = n_phases * evaluation_s * (facts.BURST_HIGH_W - burst_low_w)
    high_share = (wanted_j - flat_s * workload_class.training_w) / burst_j
    training_w = workload_class.training_w
    if high_share < _SMALLEST_HIGH_SHARE:
        high_share = _SMALLEST_HIGH_SHARE
        training_w = (wanted_j - high_share * burst_j) / flat_s
    return _Layout(
        rng=named_rng(0, "profiles", "reference", name),
        duration_s=duration_s,
        ramp_s=ramp_s,
        training_s=training_s,
        evaluation_s=evaluation_s,
        training_w=training_w,
        high_share=high_share,
    )


def _ramp_s(workload_class: DiffusionClass, run: int) -> float:
    """Return the ramp of a run [s].

    ASSUMPTION: of a class, the run with the lowest mean has the longest ramp.
    """
    shortest_s, longest_s = facts.RAMP_RANGE_S
    means_w = workload_class.means_w
    spread_w = max(means_w) - min(means_w)
    share = (max(means_w) - means_w[run]) / spread_w if spread_w else 0.5
    return float(round(shortest_s + share * (longest_s - shortest_s)))


def _node_power_w(workload_class: DiffusionClass, layout: _Layout) -> Float64Array:
    """Return the readings of one node [W], without noise."""
    ramp_steps = np.arange(round(layout.ramp_s / _RAMP_STEP_S)) + 0.5
    ramp_w = (
        facts.IDLE_W + (layout.training_w - facts.IDLE_W) * ramp_steps / ramp_steps.size
    )
    # The first second is what the driver's average sees before the run starts.
    lengths_s = [np.ones(1), np.full(ramp_steps.size, _RAMP_STEP_S)]
    levels_w = [np.array([facts.IDLE_W]), ramp_w]
    for phase in range(workload_class.n_evaluations):
        burst_lengths_s, burst_levels_w = _bursts(layout)
        flat_s = layout.training_s - (layout.ramp_s if phase == 0 else 0.0)
        lengths_s += [np.array([flat_s]), burst_lengths_s]
        levels_w += [np.array([layout.training_w]), burst_levels_w]
    lengths_s.append(np.array([_IDLE_END_S]))
    levels_w.append(np.array([facts.IDLE_W]))
    base = Staircase.of_lengths(
        np.concatenate(lengths_s), np.concatenate(levels_w), start_s=-1.0
    )
    dips = _dips(workload_class, layout)
    return base.readings_w(layout.n_samples) + dips.readings_w(layout.n_samples)


def _bursts(layout: _Layout) -> tuple[Float64Array, Float64Array]:
    """Return lengths [s] and levels [W] of one evaluation phase.

    Low, high, low, high, ...
    """
    rng = layout.rng
    n_bursts = max(1, round(layout.evaluation_s / _BURST_PERIOD_S))
    low_s = uniform(rng, 1 - _BURST_SPREAD, 1 + _BURST_SPREAD, n_bursts)
    high_s = uniform(rng, 1 - _BURST_SPREAD, 1 + _BURST_SPREAD, n_bursts)
    low_s *= (1 - layout.high_share) * layout.evaluation_s / low_s.sum()
    high_s *= layout.high_share * layout.evaluation_s / high_s.sum()
    low_w = uniform(rng, *facts.BURST_LOW_RANGE_W, n_bursts)
    high_w = facts.BURST_HIGH_W + uniform(
        rng, -_BURST_HIGH_SPREAD_W, _BURST_HIGH_SPREAD_W, n_bursts
    )
    return (
        np.stack([low_s, high_s], axis=1).ravel(),
        np.stack([low_w, high_w], axis=1).ravel(),
    )


def _dips(workload_class: DiffusionClass, layout: _Layout) -> Staircase:
    """Put rare one-second dips into the flat training, one in five minutes."""
    starts_s = []
    for phase in range(workload_class.n_evaluations):
        from_s = phase * (layout.training_s + layout.evaluation_s)
        flat_s = layout.training_s
        if phase == 0:
            from_s, flat_s = from_s + layout.ramp_s, flat_s - layout.ramp_s
        n_dips = round(flat_s / _DIP_INTERVAL_S)
        at = (np.arange(n_dips) + uniform(layout.rng, 0.1, 0.9, n_dips)) / max(
            n_dips, 1
        )
        starts_s.append(from_s + flat_s * at)
    start_s = np.concatenate(starts_s)
    depth_w = layout.training_w * uniform(layout.rng, *_DIP_DEPTH_RANGE, start_s.size)
    return Staircase.of_pulses(start_s, np.full(start_s.size, _DIP_LENGTH_S), -depth_w)
