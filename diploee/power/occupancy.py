"""Node occupancy of all pools from segments, at instants and as means over intervals."""

from __future__ import annotations

import numpy as np

from diploee.jit import njit
from diploee.power.segments import Segments
from diploee.scenario import Facility, Scenario
from diploee.tables import Float64Array, Int16Array, Int32Array, Int64Array


def slots_of(facility: Facility) -> Int64Array:
    """Return the slots of a node of each pool: `Facility.slots_per_node`."""
    return np.array(list(facility.slots.values()))


def node_occupancy(
    segments: Segments, n_pools: int, t0_ms: int, step_ms: int, n_steps: int
) -> tuple[Int64Array, Float64Array]:
    """Return the busy nodes over a row of intervals."""
    # Changes of the level: as seen at interval starts, and in node ms within the interval itself.
    at_start = np.zeros((n_pools, n_steps + 1), dtype=np.int64)
    level = np.zeros((n_pools, n_steps + 1), dtype=np.int64)
    own_ms = np.zeros((n_pools, n_steps + 1), dtype=np.int64)
    for times_ms, sign in ((segments.start_ms, 1), (segments.end_ms, -1)):
        _add_changes(
            times_ms, segments.pool_id, segments.n_nodes, sign, t0_ms, step_ms,
            at_start, level, own_ms,
        )  # fmt: skip
    # Node time of interval k: what changed before it counts over the whole interval, what changed
    # within it over the rest of it.
    before = np.cumsum(level, axis=1) - level
    node_ms = before[:, :-1] * step_ms + own_ms[:, :-1]
    return np.cumsum(at_start, axis=1)[:, :-1], node_ms / step_ms


@njit()
def _add_changes(
    times_ms: Int64Array,
    pool_id: Int16Array,
    n_nodes: Int32Array,
    sign: int,
    t0_ms: int,
    step_ms: int,
    at_start: Int64Array,
    level: Int64Array,
    own_ms: Int64Array,
) -> None:
    """Add the change of `sign` times `n_nodes` at each time; earlier ones count from `t0_ms`."""
    end_ms = (at_start.shape[1] - 1) * step_ms
    for row in range(times_ms.size):
        into_ms = min(max(times_ms[row] - t0_ms, 0), end_ms)
        change = sign * n_nodes[row]
        interval = into_ms // step_ms
        pool = pool_id[row]
        at_start[pool, -(-into_ms // step_ms)] += change
        level[pool, interval] += change
        own_ms[pool, interval] += change * ((interval + 1) * step_ms - into_ms)


def absent_nodes(scenario: Scenario) -> Segments | None:
    """Return the nodes that do not stand yet, from when to when; None where there are no phases.

    The rows are no load: they tell which nodes of a pool neither run jobs nor idle.
    """
    if not scenario.facility.has_phases:
        return None
    pools, horizon_ms = scenario.facility.pools.values(), scenario.horizon_ms
    rows = [
        (time_ms, pool_id, n_nodes)
        for pool_id, (pool, stand) in enumerate(
            zip(pools, scenario.standing_nodes().values(), strict=True)
        )
        for time_ms, n_nodes in (*stand.added, (horizon_ms, pool.n_nodes - stand.most))
    ]
    end_ms, pool_id, n_nodes = np.array(rows, dtype=np.int64).T
    none = np.zeros(end_ms.size, dtype=np.int64)
    begin_ms = none + scenario.clock.begin_ms
    return Segments(begin_ms, end_ms, pool_id, n_nodes, none, none, none.astype(float))
