"""The first figure of a run: its power over the whole period, stacked by pool, with its lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.columns import TAKEN_OFF
from diploee.drawing.charts import INK, MUTED, Axis, Band, Chart, Line, Panel, closed, colour
from diploee.metrics.demand import rated_of
from diploee.reports.common import with_zero
from diploee.reports.data import POWER, RunData, parts_of, pool_columns, without_nothing
from diploee.reports.grid_data import POWER_LEVEL, LimitLine
from diploee.reports.words import interval, listed
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, W_PER_MW, PowerUnit

FAR = 2
"""A line above this many times the peak and the rated power is named: it would flatten the rest."""

GIVEN = (
    " The line is below the top by what sources and stores give and what is held back of the load, "
    "above it by what stores take."
)

LIMIT = "#A50026"
"""Colour of contracts and limits, which no pool has."""


def overview_chart(run: RunData, unit: PowerUnit, limits: Sequence[LimitLine] = ()) -> Chart:
    """Return the stack of a run's power, with lines at its peak, its ratings and its limits.

    The areas are the nodes (or devices) of each pool and, on them, all else that the facility
    takes: the top of the stack is `facility_power_w` and what sources, stores and held back load
    take off it. Services share the devices of their pool and have no power of their own in the
    series.
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
    rated_mw, rated = rated_of(run.metrics, run.run.scenario.facility)
    rated_w = rated_mw * W_PER_MW
    far_w = FAR * max(run.max_w, rated_w)
    levels = [("peak", run.max_w, MUTED), *([(rated, rated_w, INK)] if rated_w else [])]
    levels += [(name, watts, LIMIT) for name, watts in _contracts_w(run)]
    levels += [
        (f"limit: {level.name}", level.size_mw * W_PER_MW, LIMIT)
        for level in limits
        if level.kind == POWER_LEVEL
    ]
    drawn = [level for level in levels if level[1] <= far_w]
    for k, (name, watts, main) in enumerate(drawn):
        ends = np.full(2, watts / unit.watts, np.float32)
        dashed = "dash" if k % 2 else "dot"
        layers.append(Line(x[[0, -1]], ends, name, main, unit.power, 3, dashed, 1.4))
    far = [f"{name} ({watts / unit.watts:,.4g} {unit.power})" for name, watts, _ in levels
           if watts > far_w]  # fmt: skip
    highest = max(
        [*(watts / unit.watts for _, watts, _ in drawn), float(top.max()), float(low.max())]
    )
    is_given = any(column.role in TAKEN_OFF for column in run.run.columns)
    axis = Axis(f"Facility power [{unit.power}]", range=with_zero(float(top.min()), highest))
    return Chart(
        "overview",
        "The whole period by pool"
        if run.run.scenario.facility.pools.keys() & parts_w.keys()
        else "The whole period",
        f"Means of {interval(step_ms)}, stacked: the pools, then what else the "
        "facility takes; services are in their pool. The peak is the highest "
        f"{interval(run.resolution_ms)} mean, above the means drawn."
        f"{GIVEN if is_given else ''}"
        f"{f' Above the figure: {listed(far)}.' if far else ''}",
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
    names += (taken_off := [c.name for c in run.run.columns if c.role in TAKEN_OFF])
    blocks = list(run.run.blocks([POWER, *names], step_ms))
    joined = {n: np.concatenate([b.columns[n] for b in blocks]) for n in blocks[0].columns}
    starts_ms = series.local_ms(np.concatenate([block.starts_ms for block in blocks]))
    end_ms = starts_ms[0] + span_ms
    x = np.append(starts_ms, end_ms).astype("datetime64[ms]")
    gross_w = joined[POWER] + sum(joined[name] for name in taken_off)
    parts = without_nothing(parts_of(joined | {POWER: gross_w}, columns), gross_w.max())
    return x, joined[POWER], parts, step_ms


def _contracts_w(run: RunData) -> list[tuple[str, float]]:
    """Return what each stage is contracted for, at unity power factor, and billed for [W]."""
    found, stages = list[tuple[str, float]](), run.run.scenario.facility.stages
    several = sum(bool(getattr(stage, "contract_mva", None)) for stage in stages) > 1
    for stage in stages:
        if contract_mva := getattr(stage, "contract_mva", None):
            kind = str(getattr(stage, "kind", type(stage).__name__)).replace("_", " ")
            of = f" of {kind}" if several else ""
            name = f"contract{of}, {contract_mva:g} MVA at unity power factor"
            found.append((name, float(contract_mva) * W_PER_MW))
        least_mw = getattr(getattr(stage, "billing", None), "contract_minimum_mw", None)
        if least_mw:
            found.append(("least demand billed", float(least_mw) * W_PER_MW))
    return found
