"""Lowering service plans to segments: one or two rows per service and planning step.

The power of K instances that each run at rate r is read between the measured rates r0 <= r <= r1 as
a weighted sum of two profiles; each profile is the sum of the rate's sample over K instances, every
instance with its own fixed phase. Only the pairs of rate and K that occur are built. They grow with
the logarithm of the instances: beyond 256 instances neighbouring K share a profile, scaled so that
its mean is exact (ASSUMPTION: the swings of 256 and 257 instances are alike).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diploee.inference import Curves, PowerCurve, ServicePlan
from diploee.inference.samples import N_SAMPLES, PROVENANCE, SAMPLE_MS, power_samples_w
from diploee.power.segments import Segments
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.scenario import Scenario
from diploee.streams import stream
from diploee.tables import Float64Array, Int32Array, Int64Array, concat
from diploee.units import PROFILE_STEP_MS

EXACT_INSTANCES = 256
"""Up to so many instances every number of them has its own sums of samples."""


@dataclass(frozen=True, eq=False)
class ServingLoad:
    """The power of all request streams.

    Parameters
    ----------
    segments : Segments
        One or two rows per service and planning step, in the order of time within each service.
    library : ProfileLibrary
        The profiles that they refer to, behind those of the jobs.
    """

    segments: Segments
    library: ProfileLibrary


def serving_segments(
    plans: Sequence[ServicePlan],
    curves: Curves,
    scenario: Scenario,
    library: ProfileLibrary | None = None,
) -> ServingLoad:
    """Lower the plans of all request streams to segments.

    Instances that serve draw the measured power at the rate that each completes. ASSUMPTION: below
    the lowest measured rate an instance draws that rate's power, and so do instances that start
    up and nodes in warm standby; above the highest, the highest rate's.

    Parameters
    ----------
    plans : sequence of ServicePlan
        From `plan_services`.
    curves : Curves
        Curves of the services, from `load_curves`.
    scenario : Scenario
        Its seed sets the phases of the instances.
    library : ProfileLibrary, optional
        Profiles of the jobs, which keep their indices.

    Returns
    -------
    ServingLoad
        Segments, to be concatenated with those of the jobs, and the library for both.
    """
    library = library if library is not None else ProfileLibrary.in_order([])
    builder = _Builder(scenario, len(library))
    for plan in plans:
        for row, service in enumerate(plan.services):
            builder.add_service(plan, row, curves[plan.stream, service].power)
    segments = concat(builder.segments) if builder.segments else Segments.empty()
    return ServingLoad(segments, library.extended(builder.profiles))


def shared_counts(n_instances: Int64Array) -> Int64Array:
    """Return the number of instances whose sums of samples stand for each number.

    Every number up to `EXACT_INSTANCES` stands for itself; above, one in `EXACT_INSTANCES` per
    doubling.
    """
    step = np.ones_like(n_instances)
    while (large := n_instances // step > EXACT_INSTANCES).any():
        step[large] *= 2
    nearest: Int64Array = (n_instances + step // 2) // step * step
    return nearest


def bank_sums_w(
    sample_w: Float64Array, phases: Int64Array, counts: Sequence[int]
) -> list[Float64Array]:
    """Sum a repeating sample over the first K instances of a bank, for several K.

    Parameters
    ----------
    sample_w : numpy.ndarray, shape (1800,), float64
        Power of one node [W].
    phases : numpy.ndarray, shape (n,), int64
        Place in the sample at which each instance begins.
    counts : sequence of int
        Increasing numbers of instances K, at most `n`.

    Returns
    -------
    list of numpy.ndarray, shape (1800,), float64
        The sum over the first K instances [W], for each K.
    """
    total_w, done, found = np.zeros(N_SAMPLES), 0, []
    places = np.arange(N_SAMPLES)
    for count in counts:
        added = phases[done:count]
        if added.size:
            total_w = total_w + sample_w[(places + added[:, None]) % N_SAMPLES].sum(axis=0)
        done = count
        found.append(total_w)
    return found


class _Builder:
    """Collects segments and the profiles that they need."""

    def __init__(self, scenario: Scenario, first_profile_id: int) -> None:
        self.scenario = scenario
        self.first_profile_id = first_profile_id
        self.profiles: list[PowerProfile] = []
        self.segments: list[Segments] = []

    def add_service(self, plan: ServicePlan, row: int, curve: PowerCurve) -> None:
        """Add one service: its serving instances, then those that start up or stand by."""
        serving = plan.n_serving[row]
        nodes = int(plan.nodes_per_instance[row])
        bank = _Bank(plan, row, nodes, curve, "serving", serving * nodes)
        self._add(bank, serving, plan.instance_rate_rps[row])
        starting = (plan.n_instances[row] - serving) * nodes
        standby = plan.n_standby_nodes[row]
        waiting = starting + standby
        if waiting.any():
            bank = _Bank(plan, row, 1, curve, "waiting", starting)
            self._add(bank, waiting, np.zeros(waiting.size))
        if standby.any():
            self._take_off_idle(plan, standby)

    def _take_off_idle(self, plan: ServicePlan, standby: Int64Array) -> None:
        """Take off the idle power of nodes in standby, which are not busy but draw their own."""
        node_type = self.scenario.facility.node_type_of(plan.pool)
        idle_w = node_type.idle_power_w / node_type.busy_power_factor  # all segments are scaled
        name = f"serving-{plan.pool}-idle"
        flat_w = np.full(N_SAMPLES, idle_w, dtype=np.float32)
        self.profiles.append(PowerProfile(name, name, 1, PROFILE_STEP_MS, flat_w, PROVENANCE))
        steps = np.flatnonzero(standby)
        self.segments.append(
            Segments(
                start_ms=plan.edges_ms[:-1][steps],
                end_ms=plan.edges_ms[1:][steps],
                pool_id=np.full(steps.size, plan.pool_id),
                n_nodes=np.zeros(steps.size, dtype=np.int64),
                profile_id=np.full(steps.size, self.first_profile_id + len(self.profiles) - 1),
                offset_ms=np.zeros(steps.size, dtype=np.int64),
                weight=-standby[steps].astype(np.float64),
            )
        )

    def _add(self, bank: _Bank, count: Int64Array, rate_rps: Float64Array) -> None:
        """Add a bank of `count` instances that each run at `rate_rps`."""
        curve_rps = bank.curve.rate_rps
        rate_rps = np.clip(rate_rps, curve_rps[0], curve_rps[-1])
        low = np.searchsorted(curve_rps, rate_rps, side="right") - 1
        high = np.minimum(low + 1, curve_rps.size - 1)
        gap_rps = np.where(high > low, curve_rps[high] - curve_rps[low], 1.0)
        upper = (rate_rps - curve_rps[low]) / gap_rps
        shared = shared_counts(count)
        weight = bank.nodes * count / np.maximum(shared, 1)

        edges_ms = bank.plan.edges_ms
        at_low, at_high = count > 0, (count > 0) & (upper > 0)
        steps = np.concatenate([np.flatnonzero(at_low), np.flatnonzero(at_high)])
        rate = np.concatenate([low[at_low], high[at_high]])
        parts = np.concatenate([(weight * (1 - upper))[at_low], (weight * upper)[at_high]])
        # The nodes stand on the lower rate's row alone, so that they count once.
        busy = np.concatenate([bank.busy_nodes[at_low], np.zeros(at_high.sum(), dtype=np.int64)])
        start_ms = edges_ms[:-1][steps]
        self.segments.append(
            Segments(
                start_ms=start_ms,
                end_ms=edges_ms[1:][steps],
                pool_id=np.full(steps.size, bank.plan.pool_id),
                n_nodes=busy,
                profile_id=self._profile_ids(bank, rate, shared[steps]),
                offset_ms=start_ms % SAMPLE_MS,
                weight=parts,
            )
        )

    def _profile_ids(self, bank: _Bank, rate: Int64Array, count: Int64Array) -> Int32Array:
        """Build the pairs of rate and count that occur; return the profile of each row."""
        if not rate.size:
            return np.empty(0, dtype=np.int32)
        width = int(count.max()) + 1
        pairs, profile = np.unique(rate * width + count, return_inverse=True)
        samples_w = power_samples_w(bank.curve)
        phases = bank.phases(self.scenario.seed, int(count.max()))
        first = self.first_profile_id + len(self.profiles)
        pair_rate, pair_count = np.divmod(pairs, width)
        for index in np.unique(pair_rate).tolist():
            counts = pair_count[pair_rate == index].tolist()
            for n, sum_w in zip(counts, bank_sums_w(samples_w[index], phases, counts), strict=True):
                self.profiles.append(bank.profile(index, n, sum_w))
        ids: Int32Array = (first + profile).astype(np.int32)
        return ids


@dataclass(frozen=True, eq=False)
class _Bank:
    """Nodes or instances of one service that share a curve, each with its own phase."""

    plan: ServicePlan
    row: int
    nodes: int
    curve: PowerCurve
    kind: str
    busy_nodes: Int64Array

    def phases(self, seed: int, n_instances: int) -> Int64Array:
        """Draw the phase of each instance; the first ones do not depend on how many follow."""
        service = self.plan.services[self.row]
        rng = stream(seed, "power", "serving", self.plan.stream, service, self.kind)
        return rng.integers(0, N_SAMPLES, n_instances)

    def profile(self, rate_index: int, n_instances: int, sum_w: Float64Array) -> PowerProfile:
        """Return the profile of `n_instances` at a measured rate."""
        name = f"{self.plan.stream}.{self.plan.services[self.row]}"
        rate_rps = self.curve.rate_rps[rate_index]
        return PowerProfile(
            profile_id=f"serving-{name}-{self.kind}-{rate_rps:g}rps-{n_instances}",
            workload=f"serving-{self.curve.name}",
            n_nodes=max(1, n_instances),
            dt_ms=PROFILE_STEP_MS,
            power_w=sum_w.astype(np.float32),
            provenance=self.curve.provenance or PROVENANCE,
        )
