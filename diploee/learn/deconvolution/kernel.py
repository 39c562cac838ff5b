"""Mean effect of a job of a mix on the load in the hours after its submission.

A job that starts at once occupies its nodes for its duration; submitted at any moment of an hour,
it adds to the means of this hour and of those that follow. With I1(t) the node time (or the energy
above idle) that the mean job has used t after its start, and I2 the integral of I1, the mean load
in hour k after the hour of submission is (I2((k+1)h) - 2 I2(kh) + I2((k-1)h)) / h**2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.loads.jobs.rates import joint
from diploee.loads.jobs.source import StreamClass
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.playing import played_mean_power_w
from diploee.scenario import DurationModel, NodeType
from diploee.tables import Float64Array
from diploee.units import MS_PER_S, S_PER_H

Observed = Literal["utilization", "power"]

STEP_S = 10.0
"""Step of the numerical integration; an hour holds 360."""

N_PARTS = 12
"""Parts of an hour by whose means a line of rates is taken; an even number, as it bends midway."""

N_QUANTILES = 64
"""Quantiles that stand for a distribution of start-up times, or of durations and their power."""

_LEVELS = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES

ACCEPTED_REST = 1e-3
"""Share of the mean job's node time (or energy) that may lie beyond the kernel."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """Mean load of a job in the hours after its submission."""

    # Busy nodes, or power above idle [W], averaged over the hour of submission and those after
    hourly: Float64Array
    middle: Float64Array  # the same of an hour whose rate goes from 0 to twice its mean and back
    # What a rate of 1 at an hour's edge adds to the hour before it and those after, as the middles
    # of both hours make up for it
    edge: Float64Array
    rest: float  # share of the job's node time, or energy above idle, that lies beyond

    def load_of(self, rate: Float64Array) -> Float64Array:
        """Return the expected load of every hour where rates go as a scenario lays them."""
        before, after = edge_shares(rate)
        at_edges = before * np.append(rate[0], rate) + after * np.append(rate, rate[-1])
        load = np.convolve(rate, self.middle)[: rate.size]
        return np.asarray(load + np.convolve(at_edges, self.edge)[1 : rate.size + 1])


def edge_shares(rate: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return what the rates at the edges of hours have of the hours before and after them."""
    rises = rate[1:] > rate[:-1]
    is_twice = joint(rate[1:], rate[:-1]) < (rate[1:] + rate[:-1]) / 2  # the smaller
    before, after = (np.where(is_twice, 2.0 * low, 0.5) for low in (rises, ~rises))
    return np.concatenate([[0], before, [1]]), np.concatenate([[1], after, [0]])


def mix_kernel(
    classes: tuple[StreamClass, ...],
    library: ProfileLibrary,
    node_type: NodeType,
    startup: DurationModel | None = None,
    observed: Observed = "utilization",
    longest_h: int = 24 * 28,
) -> Kernel:
    """Return the mean load of a job of a stream's mix.

    Notes
    -----
    ASSUMPTION: the power of a job whose duration is drawn is its mean power throughout.
    """
    weight = np.array([c.job_class.probability for c in classes])
    weight = weight / weight.sum()
    n_hours = 24
    while True:
        n_hours = min(n_hours, longest_h)
        at_s = np.arange(0.0, n_hours * S_PER_H + STEP_S / 2, STEP_S)
        # A last point far beyond tells the whole.
        used = np.zeros(at_s.size + 1)
        for share, c in zip(weight, classes, strict=True):
            # I1 of the mix is the mean of its classes, each by its probability.
            used += share * _used(c, library, node_type, startup, observed, np.append(at_s, np.inf))
        rest = float(1 - used[-2] / used[-1]) if used[-1] > 0 else 0.0
        if rest <= ACCEPTED_REST or n_hours == longest_h:
            break
        n_hours *= 2
    # I2 by the trapezoid rule; its second difference over hours is the mean over the hour of
    # submission and over the hour that is observed.
    twice = np.concatenate([[0.0], np.cumsum((used[1:-1] + used[:-2]) / 2) * STEP_S])

    def of_each(length_s: float) -> Float64Array:
        at_edges = twice[:: round(length_s / STEP_S)]
        return np.asarray(np.diff(np.concatenate([[0.0], at_edges]), 2) / length_s**2)

    parts = of_each(S_PER_H / N_PARTS)

    def of_line(begin: float, middle: float, end: float) -> Float64Array:
        line = np.interp(np.linspace(0, 1, N_PARTS + 1), [0, 0.5, 1], [begin, middle, end])
        load = np.convolve((line[1:] + line[:-1]) / 2 / N_PARTS, parts)[: parts.size]
        return np.asarray(load.reshape(-1, N_PARTS).mean(axis=1))

    edge = np.append(of_line(0, -0.5, 1), 0.0) + np.append(0.0, of_line(1, -0.5, 0))
    return Kernel(of_each(S_PER_H), of_line(0, 2, 0), edge, rest)


def _used(
    c: StreamClass,
    library: ProfileLibrary,
    node_type: NodeType,
    startup: DurationModel | None,
    observed: Observed,
    at_s: Float64Array,
) -> Float64Array:
    """Return node time [node s], or energy above idle [J], that a job has used by each time."""
    job, n_nodes = c.job_class, float(c.job_class.n_nodes)
    if job.n_gpus is not None:
        n_nodes *= job.n_gpus / node_type.n_gpus
    profiles = [library[index] for index in c.profile_ids]
    ran_s = _run_time(job.duration, profiles, at_s)
    of_run = n_nodes * ran_s
    if observed == "power":
        scale = n_nodes / job.profile_n_nodes * node_type.busy_power_factor
        if job.duration is None:
            busy_j = np.stack([_energy_j(p, at_s) for p in profiles]).mean(axis=0)
        else:
            busy_j = _mean_power(job.duration, profiles, at_s) * ran_s
        of_run = scale * busy_j - node_type.idle_power_w * n_nodes * ran_s
    if startup is None:
        return of_run
    late = np.zeros(at_s.size)
    for delay_s in startup.quantile(_LEVELS):
        since_s = np.maximum(at_s - delay_s, 0.0)
        late += np.interp(since_s, at_s[:-1], of_run[:-1])
        late[-1] += of_run[-1] - of_run[-2]
        if observed == "utilization":
            late += n_nodes * np.minimum(at_s, delay_s)
    return late / N_QUANTILES


def _run_time(
    model: DurationModel | None, profiles: list[PowerProfile], since_s: Float64Array
) -> Float64Array:
    """Return the mean time that a job has run by each time since its start [s]."""
    if model is None:
        own_s = np.array([p.duration_ms / MS_PER_S for p in profiles])
        return np.asarray(np.minimum(since_s[:, None], own_s).mean(axis=1))
    # The mean of min(duration, t) is the integral of the share that still runs.
    still = 1 - model.cdf(since_s[:-1])
    ran = np.concatenate([[0.0], np.cumsum((still[1:] + still[:-1]) / 2 * np.diff(since_s[:-1]))])
    return np.append(ran, model.mean_s())


def _mean_power(
    model: DurationModel, profiles: list[PowerProfile], since_s: Float64Array
) -> Float64Array:
    """Return the mean power up to each time of the run times of a model's quantiles [W]."""
    durations_s = model.quantile(_LEVELS)
    powers_w = np.mean([played_mean_power_w(p, durations_s) for p in profiles], axis=0)
    ran_s, used_j = np.zeros(since_s.size), np.zeros(since_s.size)
    for duration_s, power_w in zip(durations_s, powers_w, strict=True):
        run_s = np.minimum(since_s, duration_s)
        ran_s += run_s
        used_j += power_w * run_s
    return np.divide(used_j, ran_s, out=np.zeros_like(ran_s), where=ran_s > 0)


def _energy_j(profile: PowerProfile, since_s: Float64Array) -> Float64Array:
    sample = np.minimum(since_s * MS_PER_S / profile.dt_ms, profile.power_w.size)
    energy_j = profile.cumulative_energy_j
    return np.interp(sample, np.arange(energy_j.size), energy_j)
