"""Minimum, mean and maximum of power, nodes, occupancy and queue length.

They are calculated for the facility and each job class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S, W_PER_MW
from diploee.facility.base import Block
from diploee.loads.jobs import StreamClass
from diploee.loads.jobs.load import JobWindow
from diploee.loads.jobs.queue import QueueLength
from diploee.power.blocks import PowerModel
from diploee.power.direct import add_directly
from diploee.power.segments import ActiveSegments, node_occupancy, owner_class

# Quantities of the block, and the unit suffix of their metrics
_QUANTITIES = {"power": "_mw", "busy_nodes": "", "utilization": "", "queued_jobs": ""}


class Aggregates:
    """Sink of minimum, mean and maximum, for blocks and windows of jobs.

    Windows of jobs are needed only with `classes`. Power and occupancy of the pool's
    nodes are means over intervals. Busy nodes and queued jobs are counted at interval
    starts. A job that is requeued does not count as queued here.
    """

    def __init__(
        self, model: PowerModel, classes: Sequence[StreamClass], pools: Sequence[str]
    ) -> None:
        names = [stream_class.job_class.name for stream_class in classes]
        self._names = ["all"] + [
            name if names.count(name) == 1 else f"{stream_class.stream}.{name}"
            for name, stream_class in zip(names, classes, strict=True)
        ]
        facility = model.facility
        self._slots = np.array([[facility.slots[pool]] for pool in pools]).reshape(
            -1, 1
        )
        self._n_nodes = np.array(
            [[facility.pools[pool].n_nodes] for pool in pools]
        ).reshape(-1, 1)
        self._pools = pools if len(facility.pools) > 1 else [""] * len(pools)
        self._model, self._active = model, ActiveSegments()
        self._queues = [QueueLength() for _ in classes]
        shape = len(_QUANTITIES), len(self._names)
        self._low, self._high = np.full(shape, np.inf), np.full(shape, -np.inf)
        self._sum, self._weight = np.zeros(shape), np.zeros(shape)

    def add_jobs(self, window: JobWindow) -> None:
        """Add the jobs of a window."""
        if not self._queues:
            return
        self._active.add(window.segments)
        jobs, started = window.submitted, window.started
        started_class, start_ms = (
            started.jobs.class_id[started.first],
            started.start_ms[started.first],
        )
        for k, queue in enumerate(self._queues):
            queue.add(jobs.submit_ms[jobs.class_id == k], start_ms[started_class == k])

    def add(self, block: Block) -> None:
        """Add the IT power, busy nodes, utilization and queued jobs of a block."""
        names = ("it_power_w", "busy_nodes", "utilization", "queued_jobs")
        values = np.array([[block.columns[name]] for name in names], dtype=np.float64)
        if self._queues:
            values = np.concatenate([values, self._class_values(block)], axis=1)
        self._low = np.minimum(self._low, values.min(axis=2))
        self._high = np.maximum(self._high, values.max(axis=2))
        weight = np.ones_like(values)
        if "standing_nodes" in block.columns:  # occupancy is per installed node
            weight[2] = [block.columns["standing_nodes"], *self._installed_nodes(block)]
        self._sum += (values * weight).sum(axis=2)
        self._weight += weight.sum(axis=2)

    def _installed_nodes(self, block: Block) -> Float64Array:
        """Return installed nodes of each class's pool, shape (classes, B or 1)."""
        if "standing_nodes" not in block.columns:
            return self._n_nodes
        names = (f"standing_nodes.{pool}".removesuffix(".") for pool in self._pools)
        return np.array([block.columns[name] for name in names])

    def _class_values(self, block: Block) -> Float64Array:
        """Return the quantities per class, shape (quantities, classes, B)."""
        rows, size = self._active.within(block.t0_ms, block.end_ms), len(self._queues)
        rows = replace(rows, pool_id=owner_class(rows.owner).astype(np.int16))
        energy_j = np.zeros((size, len(block)))
        add_directly(rows, self._model.tables, block.t0_ms, energy_j)
        at_start, mean = node_occupancy(
            rows, size, block.t0_ms, block.dt_ms, len(block)
        )
        queued = np.array([queue.at(block.starts_ms) for queue in self._queues])
        self._active.drop_before(block.end_ms)
        power_w = energy_j * (MS_PER_S / block.dt_ms)
        n_slots = self._slots * np.maximum(
            self._installed_nodes(block), np.finfo(float).tiny
        )
        return np.array([power_w, at_start / self._slots, mean / n_slots, queued])

    def block(self) -> dict[str, Any]:
        """Return the `aggregates` block of the metrics."""
        means = self._sum / np.maximum(self._weight, np.finfo(float).tiny)
        result: dict[str, Any] = {name: {} for name in self._names}
        for q, (quantity, suffix) in enumerate(_QUANTITIES.items()):
            divisor = W_PER_MW if suffix else 1.0
            for k, name in enumerate(self._names):
                values = (self._low[q, k], means[q, k], self._high[q, k])
                result[name][quantity] = {
                    f"{kind}{suffix}": float(value) / divisor
                    for kind, value in zip(("min", "mean", "max"), values, strict=True)
                }
        return result
