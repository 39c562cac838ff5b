"""The first figure of a run: its power over the whole period, stacked by pool, with its lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.columns import TAKEN_OFF
from diploee.drawing.charts import INK, MUTED, Axis, Band, Chart, Line, Panel, Stack, closed, colour
from diploee.metrics.demand import rated_of
from diploee.outputs.words import interval, listed
from diploee.reports.common import with_zero
from diploee.reports.data import POWER, RunData, parts_of, stack_columns, without_nothing
from diploee.reports.limit_charts import POWER_LEVEL, LimitLine
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, W_PER_MW, PowerUnit

FAR = 2
"""A line above this many times the peak and the rated power is named: it would flatten the rest."""

GIVEN = (
    " The line is below the top by what sources and stores give and what is held back of the load, "
    "above it by what stores take."
)

MEAN_MS = 10 * MS_PER_MIN
MAX_POINTS = 55_000
"""Means drawn at most, those of ten minutes of a year."""
FEW_PARTS = 1

_POOLS = "the pools, services in theirs"
_LOADS = "the devices of each stream and service, and idle ones"

LIMIT = "#A50026"
"""Colour of contracts and limits, which no pool has."""


def pools_chart(run: RunData, unit: PowerUnit) -> Chart | None:
    """Return means and extremes of each pool over the whole period; None of one pool alone."""
    x, _, parts_w, step_ms = _parts(run, _step_ms(run, by_pool=True))
    panels = tuple(
        _of_pool(part, parts_w[part.label], x, step_ms, unit)
        for part in run.parts
        if part.label in parts_w
    )
    words = f"Means of {interval(step_ms)} of each pool.{_SPREAD_WORDS}"
    return Chart("pools", "Each pool over the whole period", words, panels) if panels else None


def overview_chart(run: RunData, unit: PowerUnit, limits: Sequence[LimitLine] = ()) -> Chart:
    """Return the stack of a run's power, with lines at its peak, its ratings and its limits.

    The areas are the nodes (or devices) of each pool and, on them, all else that the facility
    takes: the top of the stack is `facility_power_w` and what sources, stores and held back load
    take off it. By load they are the devices of each stream and service, and the idle ones.
    """
    step_ms = _step_ms(run)
    x, total_w, parts_w, _ = _parts(run, step_ms)
    layers: list[Stack | Band | Line] = []
    gross, length = np.zeros(x.size), interval(step_ms)
    if parts_w:
        stack_x, _, parts_w, stack_ms = _parts(run, _step_ms(run, by_pool=True))
        parts = np.stack([closed(part_w) for part_w in parts_w.values()]) / unit.watts
        gross = parts.sum(axis=0)
        colours = tuple(colour(index) for index in range(len(parts)))
        total = "total"
        if stack_ms != step_ms:
            length = f"{interval(stack_ms)} (the line's: {length})"
            total = f"total, {interval(stack_ms)} mean"
        layers.append(Stack(stack_x, parts, tuple(parts_w), colours, unit.power, 3, total=total))
    spread = _spread(run, step_ms, x, unit, INK)
    layers += spread
    top = closed(total_w / unit.watts).astype(np.float32)
    layers.append(
        Line(x, top, "facility", INK, unit.power, 3, width=1.2, steps=True, means=bool(spread))
    )
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
        [*(watts / unit.watts for _, watts, _ in drawn), float(top.max()), float(gross.max())]
    )
    is_given = any(column.role in TAKEN_OFF for column in run.run.columns)
    axis = Axis(f"Facility power [{unit.power}]", range=with_zero(float(top.min()), highest))
    return Chart(
        "overview",
        "The whole period by stream and service"
        if run.by_load
        else "The whole period by pool"
        if run.run.scenario.facility.pools.keys() & parts_w.keys()
        else "The whole period",
        f"Means of {length}, stacked: {_LOADS if run.by_load else _POOLS}, then what "
        "else the facility takes. The peak is the highest "
        f"{interval(run.resolution_ms)} mean, above the means drawn."
        f"{_SPREAD_WORDS if spread else ''}"
        f"{GIVEN if is_given else ''}"
        f"{f' Above the figure: {listed(far)}.' if far else ''}",
        (Panel(Axis("Day", "date"), axis, tuple(layers), wide=True),),
    )


_SPREAD_WORDS = (
    " Band: from the lowest to the highest value of the run within. Of a long time the means of "
    "days are drawn; zoom in to see all."
)


def _spread(
    run: RunData, step_ms: int, x: np.ndarray, unit: PowerUnit, main: str
) -> tuple[Band, ...]:
    """Return the band of a run's least and greatest values within the steps drawn."""
    every = step_ms // run.step_ms
    if every < 2:
        return ()
    first = np.arange(0, run.power_w.size, every)
    low, high = (
        closed(most.reduceat(run.power_w, first) / unit.watts).astype(np.float32)
        for most in (np.minimum, np.maximum)
    )
    names = ("lowest", "highest")
    return (Band(x, low, high, "lowest to highest", main, 0.22, unit.power, 3, *names, steps=True),)


def _of_pool(
    part: RunData, mean_w: Float64Array, x: np.ndarray, step_ms: int, unit: PowerUnit
) -> Panel:
    """Return the panel of a pool: means, and the least and greatest values."""
    y = (closed(mean_w) / unit.watts).astype(np.float32)
    main = part.colour
    return Panel(
        Axis("Day", "date"),
        Axis(
            f"Power [{unit.power}]",
            range=with_zero(part.min_w / unit.watts, part.max_w / unit.watts),
        ),
        (
            *_spread(part, step_ms, x, unit, main),
            Line(x, y, "mean", main, unit.power, 3, width=1.2, steps=True, means=True),
        ),
        part.label,
        wide=True,
        small=True,
    )


def _step_ms(run: RunData, by_pool: bool = False) -> int:
    """Return the step of the means drawn [ms]: ten minutes of a year, an hour of many pools."""
    step_ms, span_ms = run.run.scenario.resolution_ms, run.run.scenario.horizon_ms
    mean_ms = MS_PER_H if by_pool and len(run.parts) > FEW_PARTS else MEAN_MS
    aim_ms = mean_ms * max(1, -(-span_ms // (MAX_POINTS * mean_ms)))
    return step_ms * max(1, (MS_PER_MIN if span_ms <= 2 * MS_PER_DAY else aim_ms) // step_ms)


def _parts(
    run: RunData, step_ms: int
) -> tuple[np.ndarray, Float64Array, dict[str, Float64Array], int]:
    """Return edges of the steps, power [W], its parts by name [W] and the step [ms]."""
    series = run.run.series()
    # A facility of one pool has that pool's columns without a name after a dot.
    columns = stack_columns(run) or {"devices": ("it_power_w",)}
    span_ms = series.n_rows * series.step_ms
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
    """Return what each stage is contracted for, and billed for at least [W]."""
    found = list[tuple[str, float]]()
    for stage in run.run.scenario.facility.stages:
        if contract := getattr(stage, "contract", None):
            found.append((contract[1], contract[0] * W_PER_MW))
        least_mw = getattr(getattr(stage, "billing", None), "contract_minimum_mw", None)
        if least_mw:
            found.append(("least demand billed", float(least_mw) * W_PER_MW))
    return found
