"""`RunMetrics`: the sink that gives `metrics.json`, for the whole facility and for each pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from diploee.clock import RunClock
from diploee.facility import Block, Stage, StageMeters
from diploee.facility.base import POWER
from diploee.metrics.catalogue import own_blocks
from diploee.metrics.causes import Causes, add_causes
from diploee.metrics.facility import FacilityMetrics
from diploee.metrics.grid import GridMetrics
from diploee.metrics.poi import poi_metrics
from diploee.profiles import Provenance
from diploee.scenario import Facility
from diploee.schedule import Transient

if TYPE_CHECKING:
    from diploee.loads.base import Load


class RunMetrics:
    """Accumulates the metrics of a run over its blocks.

    The facility's power is `facility_power_w`, behind its stages, and `rated_w` the rated power
    there [W]; the power of a pool is its devices'. `readings` are the provenances of the profiles
    that the run may use, which decide what is reported; the grid's extremes leave out `transient`.
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
        self._poi = poi_metrics(facility.stages, clock.wall)

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
            self._causes.see(self._grid.extremes())

    def blocks(self, loads: Sequence[Load]) -> dict[str, Any]:
        """Return the metrics, with those of the loads."""
        found = self._whole.blocks() | _of_loads(loads)
        found["grid"] = self._grid.block(self._whole.power_w)
        found |= self._grid.added()
        if self._causes is not None:
            add_causes(found["grid"], self._causes.entries())
        if self._pools:
            found["pools"] = {
                name: of_pool.blocks() | _of_loads(loads, name)
                for name, of_pool in self._pools.items()
            }
        if self._poi is not None:
            found |= self._poi.blocks()
        return found | self._stages.blocks()


def _of_loads(loads: Sequence[Load], pool: str | None = None) -> dict[str, Any]:
    """Return the blocks of all loads, of one pool or of all."""
    return {key: block for load in loads for key, block in load.metrics(pool).items()}
