"""The first figure of a run: its power over the whole period, stacked by pool, with its lines."""

from __future__ import annotations

import numpy as np

from diploee.drawing.charts import INK, Axis, Band, Chart, Line, Panel, closed, colour
from diploee.report.data import POWER, RunData, parts_of, pool_columns, without_nothing
from diploee.report.words import interval
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, W_PER_MW, PowerUnit


def overview_chart(run: RunData, unit: PowerUnit) -> Chart:
    """Return the stack of a run's power, and its peak, rated and contract power as lines.

    The areas are the nodes (or devices) of each pool and, on them, all else that the facility
    takes: the top of the stack is `facility_power_w`. Services share the devices of their pool and
    have no power of their own in the series.
    """
    x, total_w, parts_w, step_ms = _parts(run)
    layers: list[Band | Line] = []
    low = np.zeros(total_w.size)
    for index, (name, part_w) in enumerate(parts_w.items()):
        high = low + part_w / unit.watts
        below, above = (closed(edge).astype(np.float32) for edge in (low, high))
        layers.append(Band(x, below, above, name, colour(index), 0.55, steps=True))
        low = high
    top = closed(total_w / unit.watts).astype(np.float32)
    layers.append(Line(x, top, "facility", INK, unit.power, 3, width=1.2, steps=True))
    levels = {name: watts / unit.watts for name, watts in _levels_w(run).items()}
    for (name, level), dashed in zip(levels.items(), ("dot", "dash", "dash"), strict=False):
        ends = np.full(2, level, np.float32)
        layers.append(Line(x[[0, -1]], ends, name, colour(len(layers)), unit.power, 3, dashed, 1.4))
    highest = max([*levels.values(), float(top.max())])
    axis = Axis(f"Facility power [{unit.power}]", range=(0, highest * 1.05 or 1))
    return Chart(
        "overview",
        "The whole period by pool"
        if run.run.scenario.facility.pools.keys() & parts_w.keys()
        else "The whole period",
        f"Means of {interval(step_ms)}, stacked: the pools, then what else the "
        "facility takes; services are in their pool. The peak is the highest "
        f"{interval(run.resolution_ms)} mean, above the means drawn. "
        f"Power boundary: {run.run.boundary()}.",
        (Panel(Axis("Day", "date"), axis, tuple(layers), wide=True),),
    )


def _parts(run: RunData) -> tuple[np.ndarray, Float64Array, dict[str, Float64Array], int]:
    """Return edges of the steps, power [W], its parts by name [W] and the step [ms]."""
    series = run.run.series()
    # A facility of one pool has that pool's columns without a name after a dot.
    columns = pool_columns(run.run) or {"devices": ("it_power_w",)}
    span_ms = series.n_rows * series.step_ms
    day, week = MS_PER_DAY, 7 * MS_PER_DAY
    aim_ms = day if span_ms > 8 * week else MS_PER_H if span_ms > 2 * day else MS_PER_MIN
    step_ms = series.step_ms * max(1, aim_ms // series.step_ms)
    names = [name for of_pool in columns.values() for name in of_pool]
    blocks = list(run.run.blocks([POWER, *names], step_ms))
    joined = {n: np.concatenate([b.columns[n] for b in blocks]) for n in blocks[0].columns}
    starts_ms = series.local_ms(np.concatenate([block.starts_ms for block in blocks]))
    end_ms = starts_ms[0] + span_ms
    x = np.append(starts_ms, end_ms).astype("datetime64[ms]")
    parts = without_nothing(parts_of(joined, columns), joined[POWER].max())
    return x, joined[POWER], parts, step_ms


def _levels_w(run: RunData) -> dict[str, float]:
    """Return peak, rated and contract power [W] by name."""
    facility = run.run.scenario.facility
    contracts = (getattr(stage, "contract_mva", None) for stage in facility.stages)
    contract = next(filter(None, contracts), None)
    levels = {"peak": run.max_w, "rated power of the devices": float(facility.rated_power_w)}
    if contract:
        levels["contract at unity power factor"] = float(contract) * W_PER_MW
    return levels
