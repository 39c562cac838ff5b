"""`ReplicasLoad`: replicas of served models at chosen batch sizes, their columns and metrics.

The planned power of each stream is lowered to segments: a profile for each number of busy nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diploee.facility.base import Block, Values
from diploee.inputs import Inputs
from diploee.loads.services.banks import Bank, BankLoad
from diploee.loads.services.metrics import weighted_percentiles
from diploee.neighbours.openg2g.replicas.replay import (
    ReplayedModel,
    ReplicaPlan,
    plan_replicas,
    replica_labels,
)
from diploee.neighbours.replica_catalogue import OF_STREAM, SIGNAL_COLUMNS, replica_columns_of
from diploee.profiles import PowerProfile, ProfileLibrary, Provenance
from diploee.profiles.resample import round_keeping_energy
from diploee.scenario import Facility, Scenario
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_H, MS_PER_S, S_PER_H, W_PER_MW

SOURCE = "ML.ENERGY leaderboard: Llama-3.1-70B-Instruct on 4 x H100, lm-arena-chat"
LICENCE = "Apache-2.0 (leaderboard); this synthesis BSD-3-Clause"
NOTES = (
    "Synthesised by diploee about the published mean power at each batch size, not measured. "
    "ASSUMPTION: noise of 2 % of it that falls above 0.4 Hz. Summed over replicas."
)


class ReplicasLoad(BankLoad):
    """The replicas of all streams, replayed for the whole run when they are opened."""

    def __init__(self, scenario: Scenario, inputs: Inputs, library: ProfileLibrary) -> None:
        specs, facility = scenario.replica_streams, scenario.facility
        self.plans = plan_replicas(specs, facility, scenario.clock, scenario.seed, inputs.replicas)
        super().__init__(*_banks(self.plans, facility, library))
        self.columns = replica_columns_of(specs)

    def values(self, block: Block) -> Values:
        """Return replicas, batch sizes, latency and signals of each stream: means over steps.

        The latency is the mean over replicas and time.
        """
        edges_ms = block.t0_ms + np.arange(len(block) + 1, dtype=np.int64) * block.dt_ms
        found: dict[str, Float64Array] = {}
        for plan, labels in zip(self.plans, replica_labels(self.plans), strict=True):

            def means(values: Float64Array | Int64Array, plan: ReplicaPlan = plan) -> Float64Array:
                # Of the integral at each edge, the same in whatever run of intervals it is.
                steps = values * np.diff(plan.edges_ms)
                integral = np.concatenate(([0.0], np.cumsum(steps)))
                return np.diff(np.interp(edges_ms, plan.edges_ms, integral)) / block.dt_ms

            for model, label in zip(plan.models, labels, strict=True):
                replicas = means(model.n_replicas)
                with_any = model.n_replicas > 0
                weighted_s = means(np.where(with_any, model.itl_s * model.n_replicas, 0.0))
                found[f"n_replicas.{label}"] = replicas
                found[f"batch_size.{label}"] = means(model.batch_size)
                found[f"itl_s.{label}"] = np.divide(
                    weighted_s, replicas, np.zeros(len(block)), where=replicas > 0
                )
                found[f"tokens_per_s.{label}"] = means(model.throughput_tps)
            for column in SIGNAL_COLUMNS.get(plan.signal_kind, ()):
                values = np.where(np.isfinite(plan.signal), plan.signal, 0.0)
                found[f"{column.name}.{plan.stream}"] = means(values)
        return {name: values.astype(np.float32) for name, values in found.items()}

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the `replicas` block of one pool or of all; nothing without replica streams."""
        plans = [plan for plan in self.plans if pool in (None, plan.pool)]
        if not plans:
            return {}
        models = {
            label: _of_model(model, np.diff(plan.edges_ms) / MS_PER_S)
            for plan, labels in zip(plans, replica_labels(plans), strict=True)
            for model, label in zip(plan.models, labels, strict=True)
        }
        return {"replicas": {"models": models, "streams": {p.stream: _of_stream(p) for p in plans}}}


def _banks(
    plans: Sequence[ReplicaPlan], facility: Facility, library: ProfileLibrary
) -> tuple[list[Bank], ProfileLibrary]:
    """Return a bank for each stream, and the library with the profiles that they play.

    A bank plays the planned power of its stream, and `other_node_power_w` of each busy node.
    """
    profiles: list[PowerProfile] = []
    banks, first = list[Bank](), len(library)
    for plan in plans:
        starts = np.flatnonzero(np.diff(plan.n_nodes, prepend=-1))
        edges_ms = np.append(plan.edges_ms[starts], plan.edges_ms[-1])
        n_nodes, size = plan.n_nodes[starts], starts.size
        factor = facility.node_type_of(plan.pool).busy_power_factor
        weight = np.where(n_nodes > 0, factor, 0.0)
        provenance = _provenance(plan)
        profile_id = first + len(profiles) + np.cumsum(n_nodes > 0) - 1
        for k in np.flatnonzero(n_nodes).tolist():
            rows = slice(*(edges_ms[k : k + 2] // plan.spec.step_ms))
            power_w = plan.power_w[rows] + n_nodes[k] * plan.spec.other_node_power_w
            profiles.append(PowerProfile(
                f"~replicas-{plan.stream}-{k}",
                f"replicas-{plan.stream}",
                int(n_nodes[k]),
                plan.spec.step_ms,
                round_keeping_energy(power_w),
                provenance,
            ))  # fmt: skip
        none = np.zeros(size, dtype=np.int64)
        id_ = np.maximum(profile_id, 0).astype(np.int32)
        pool_id = list(facility.pools).index(plan.pool)
        banks.append(Bank(pool_id, edges_ms, n_nodes, weight, id_, none, plan))
    return banks, library.extended(profiles)


def _provenance(plan: ReplicaPlan) -> Provenance:
    """Return the provenance of a stream's power: that of its first model's templates."""
    data = plan.models[0].data
    of_template = data.measured.profile(data.setting.batch_size).provenance
    if data.shipped:
        return replace(of_template, kind="reference", source=SOURCE, licence=LICENCE, notes=NOTES)
    return replace(of_template, notes=f"{of_template.notes} Summed over replicas.")


def _of_model(model: ReplayedModel, step_s: Float64Array) -> dict[str, Any]:
    weight, runs = model.n_replicas * step_s, model.n_replicas > 0
    deadline_s = model.data.setting.itl_deadline_s
    found: dict[str, Any] = {
        "mean_replicas": float(weight.sum() / step_s.sum()),
        "mean_batch_size": None,
        "batch_changes_per_hour": float(
            np.count_nonzero(np.diff(model.batch_size)) / step_s.sum() * S_PER_H
        ),
        "tokens_per_s": float(model.throughput_tps @ step_s / step_s.sum()),
        "itl_s": {"mean": None, "p50": None, "p99": None},
        "itl_deadline_s": deadline_s,
        "hours_over_deadline": None,
    }
    if runs.any():
        itl_s, time_s = model.itl_s[runs], step_s[runs]
        median, most = weighted_percentiles(itl_s, time_s, (50, 99))
        mean = float(np.average(itl_s, weights=weight[runs]))
        found["mean_batch_size"] = float(np.average(model.batch_size, weights=weight))
        found["itl_s"] = {"mean": mean, "p50": median, "p99": most}
        if deadline_s is not None:
            found["hours_over_deadline"] = float(time_s[itl_s > deadline_s].sum() / S_PER_H)
    return found


def _of_stream(plan: ReplicaPlan) -> dict[str, Any]:
    step_h = np.diff(plan.edges_ms) / MS_PER_H
    hours, mean_mw = step_h.sum(), plan.mean_power_w @ step_h / step_h.sum() / W_PER_MW
    found = {"mean_mw": float(mean_mw), "energy_mwh": float(mean_mw * hours)}
    if not plan.signal_kind:
        return found | dict.fromkeys(m.key for m in OF_STREAM if m.key not in found)
    over = np.maximum(plan.excess, 0.0)
    last = slice(-max(over.size // 10, 1), None)
    return found | {
        "violation_h": float(step_h[over > 0].sum()),
        "violation_mean": float(over @ step_h / hours),
        "violation_max": float(over.max()),
        "violation_end": float(np.average(over[last], weights=step_h[last])),
    }
