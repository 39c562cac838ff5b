"""`RunMetrics`: the sink that gives `metrics.json`, for the whole facility and for each pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from diploee.clock import RunClock
from diploee.facility import Block, Stage, StageMeters
from diploee.facility.base import POWER
from diploee.inference import ServicePlan
from diploee.metrics.catalogue import own_blocks
from diploee.metrics.causes import Causes, add_causes
from diploee.metrics.facility import FacilityMetrics
from diploee.metrics.grid import GridMetrics
from diploee.metrics.grid.clock import Clock
from diploee.metrics.poi import poi_metrics
from diploee.metrics.queue import QueueMetrics
from diploee.metrics.replicas import replica_metrics
from diploee.metrics.service import request_metrics
from diploee.profiles import Provenance
from diploee.replicas import ReplicaPlan
from diploee.scenario import Facility
from diploee.schedule import Transient


class RunMetrics:
    """Accumulates the metrics of a run over its blocks.

    The facility's power is `facility_power_w`, behind its stages; that of a pool is its devices'.

    Parameters
    ----------
    facility : Facility
        Pools and ratings.
    clock : RunClock
        Start and interval of the run.
    rated_w : float
        Rated power where the facility's power is taken [W].
    readings : iterable of Provenance
        Provenance of the profiles that the run may use; it decides what is reported.
    stages : iterable of Stage
        What the facility's power passed.
    causes : Causes, optional
        Finds why the worst events came about.
    transient : Transient, optional
        The time in which the facility fills up: the grid's extremes are those of what follows.
    """

    def __init__(
        self,
        facility: Facility,
        clock: RunClock,
        rated_w: float,
        readings: Iterable[Provenance],
        stages: Iterable[Stage] = (),
        causes: Causes | None = None,
        transient: Transient | None = None,
    ) -> None:
        self._causes, self._transient = causes, transient
        self._stages = StageMeters(stages, own_blocks())
        self._whole = FacilityMetrics(rated_w, clock.step_ms)
        self._pools: dict[str, FacilityMetrics] = {}
        if len(facility.pools) > 1:
            self._pools = {
                name: FacilityMetrics(facility.pool_rated_power_w(name), clock.step_ms)
                for name in facility.pools
            }
        self._only_pool = next(iter(facility.pools)) if len(facility.pools) == 1 else None
        self._grid = GridMetrics(
            clock.step_ms,
            clock.start_with_zone,
            rated_power_w=facility.rated_power_w,
            readings=readings,
            headroom_to_w=rated_w,
        )
        self._poi = poi_metrics(facility.stages, Clock(clock.start_with_zone, clock.step_ms))

    def add(self, block: Block) -> None:
        """Take in a block."""
        columns = block.columns
        self._stages.add(block)
        self._whole.add(columns[POWER], columns["utilization"])
        pools_w = {self._only_pool: columns["it_power_w"]} if self._only_pool else {}
        for name, of_pool in self._pools.items():
            pools_w[name] = columns[f"it_power_w.{name}"]
            of_pool.add(pools_w[name], columns[f"utilization.{name}"])
        transient_ms = self._transient.end_ms if self._transient else 0
        self._grid.add(block.t0_ms, columns[POWER], pools_w, transient_ms)
        if self._poi is not None:
            self._poi.add(block, transient_ms)
        if self._causes is not None:
            self._causes.add(block)
            self._causes.see(self._grid.events())

    def blocks(
        self,
        queues: Mapping[str, QueueMetrics],
        queue: QueueMetrics,
        plans: Sequence[ServicePlan],
        replicas: Sequence[ReplicaPlan] = (),
    ) -> dict[str, Any]:
        """Return the metrics.

        Parameters
        ----------
        queues : mapping of str to QueueMetrics
            What became of the jobs of each pool.
        queue : QueueMetrics
            The same of all jobs.
        plans : sequence of ServicePlan
            Plans of the request streams.
        replicas : sequence of ReplicaPlan
            Plans of the replica streams.
        """
        found = self._whole.blocks() | _work(queue, plans) | replica_metrics(replicas)
        found["grid"] = self._grid.block(self._whole.power_w)
        if self._causes is not None:
            add_causes(found["grid"], self._causes.entries())
        if self._pools:
            found["pools"] = {
                name: of_pool.blocks()
                | _work(queues[name], [plan for plan in plans if plan.pool == name])
                | replica_metrics([plan for plan in replicas if plan.pool == name])
                for name, of_pool in self._pools.items()
            }
        if self._poi is not None:
            found |= self._poi.blocks()
        return found | self._stages.blocks()


def _work(queue: QueueMetrics, plans: Sequence[ServicePlan]) -> dict[str, Any]:
    """Return the `jobs` and `requests` blocks, where there are any."""
    jobs = {"jobs": queue.block()} if queue.has_streams else {}
    return jobs | ({"requests": request_metrics(plans)} if plans else {})
