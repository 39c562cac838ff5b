"""Reads a run folder into the arrays that the figures need, in batches; names runs in legends."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.drawing.charts import colour
from diploee.errors import InputError
from diploee.metrics.attribution import IDLE, LOAD
from diploee.outputs import METRICS_FILE, Run, RunSeries, SeriesBlock, open_run
from diploee.outputs.parquet_files import JOBS_FILE
from diploee.outputs.series import CHANGED, averaged
from diploee.outputs.words import short_boundary
from diploee.tables import Float32Array, Float64Array, Int64Array, Kind, numbers, open_parquet
from diploee.units import MS_PER_MIN

MAX_INTERVALS = 3_000_000
"""A run of more intervals is read as means of a minute; its extremes stay those of the run."""

POWER = "facility_power_w"
NEEDED_COLUMNS = (POWER, "utilization")

MOST_POOLS = 6
"""Of more pools the smallest are drawn as one."""

REST = "cooling, losses and all else"
"""Power of a facility beside its pools."""

_ROUNDING = 1e-6
"""The file keeps float32: what is left of sums within this part of the power is nothing."""

_WAIT_COLUMNS: dict[str, Kind] = {"submit_time": "time", "queue_time_s": "number"}


@dataclass(frozen=True)
class Waits:
    """Queue times of the started jobs: submission (local time) [ms] and time waited [s]."""

    submit_ms: Int64Array
    wait_s: Float64Array
    n_jobs: int


@dataclass(frozen=True)
class RunData:
    """A run, ready to draw.

    Parameters
    ----------
    run : Run
        The folder, its metrics and its manifest.
    label : str
        How legends name it.
    local_ms : numpy.ndarray, shape (n,), int64
        Starts of the intervals, local time since 1970-01-01 [ms].
    step_ms : int
        Interval of the arrays here [ms].
    resolution_ms : int
        Interval of the run [ms]; shorter than `step_ms` where it was averaged on reading.
    power_w : numpy.ndarray, shape (n,), float32
        Facility power [W].
    max_w, min_w : float
        Extremes over the run's own intervals [W].
    utilization : numpy.ndarray, shape (n,), float32
        Node occupancy, 0-1.
    services : dict
        By service: its columns by name (`incoming_rps`, ...), each of shape (n,).
    waits : Waits or None
        Queue times, if the run has jobs.
    parts : tuple of RunData
        Of a facility of several pools, on its own page: the same of each pool, and of all else
        that the facility takes; `power_w`, `max_w` and `min_w` are theirs; their `power_w` add up
        to the run's.
    is_part : bool
        It is one of these.
    by_load : bool
        Stacks show each stream and service.
    colour : str
        Colour in all figures; by default that of its place among the runs.
    """

    run: Run
    label: str
    local_ms: Int64Array
    step_ms: int
    resolution_ms: int
    power_w: Float32Array
    max_w: float
    min_w: float
    utilization: Float32Array
    services: dict[str, dict[str, Float32Array]] = field(default_factory=dict)
    waits: Waits | None = None
    parts: tuple[RunData, ...] = ()
    is_part: bool = False
    by_load: bool = False
    colour: str = ""

    @property
    def metrics(self) -> dict[str, Any]:
        """The run's metrics."""
        return self.run.metrics

    @property
    def manifest(self) -> dict[str, Any]:
        """The run's manifest."""
        return self.run.manifest


def read_run(
    folder: Path | str, label: str = "", by_pool: bool = False, by_load: bool = False
) -> RunData:
    """Read a run folder; on request also the parts of a facility of several pools.

    Stacks are split further `by_load`.

    Raises
    ------
    InputError
        If it is none, a file is damaged, or a column or a metric is missing.
    """
    run = open_run(folder)
    series = run.series()
    if by_load and IDLE not in series.check():
        raise InputError(
            f"{folder}: --by-load: the run keeps no power by stream and service; run it again "
            "with 'diploee run --by-load'"
        )
    found, parts = _read_series(
        series, run.metrics["power"]["resolution_s"], pool_columns(run) if by_pool else {}
    )
    whole = RunData(
        run=run,
        label=label or run.folder.absolute().name,
        by_load=by_load,
        resolution_ms=series.step_ms,
        waits=_read_waits(run, series),
        **found,
    )
    part = replace(whole, waits=None, is_part=True)
    return replace(whole, parts=tuple(replace(part, **of_part) for of_part in parts))


def pool_columns(run: Run) -> dict[str, tuple[str, ...]]:
    """Return the power columns of each pool, the nodes' where there are such, else the devices'.

    Nothing of a facility of one pool.
    """
    pools = run.scenario.facility.pools
    if len(pools) < 2:
        return {}
    column = _pool_power(run)
    found: dict[str, tuple[str, ...]] = {pool: (f"{column}.{pool}",) for pool in pools}
    if len(pools) > MOST_POOLS:
        largest = sorted(pools, key=run.scenario.facility.pool_rated_power_w, reverse=True)
        others = largest[MOST_POOLS - 1 :]
        joined = tuple(name for pool in others for name in found.pop(pool))
        found[f"{len(others)} smaller pools"] = joined
    return found


def stack_columns(run: RunData) -> Mapping[str, tuple[str, ...]]:
    """Return the columns of what stacks show: pools, or on request streams and services."""
    if not run.by_load:
        return pool_columns(run.run)
    stored = run.run.series().check()
    names = [*(name for name in stored if name.startswith(f"{LOAD}.")), IDLE]
    return {name.partition(".")[2] or "idle nodes": (name,) for name in names}


def _pool_power(run: Run) -> str:
    """Return the column of power that each pool has."""
    names = {column.name for column in run.columns if column.per == "pool"}
    return next(name for name in ("it_ac_power_w", "it_power_w") if name in names)


def boundary_of(runs: Sequence[RunData], by_pool: bool = False) -> str:
    """Return in short where the power of runs is taken, and that of their pools where drawn."""
    of_runs = dict.fromkeys(short_boundary(run.run.boundary()) for run in runs)
    drawn = [run.run for run in runs if run.parts and by_pool]
    pools = [short_boundary(run.boundary(_pool_power(run))) for run in drawn]
    of_pools = [f"of a pool: {text}" for text in dict.fromkeys(pools) if text not in of_runs]
    return "; ".join([*of_runs, *of_pools])


def parts_of(columns: Mapping[str, Any], pools: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the power of each pool, and the rest of the facility's, which may be next to none."""
    parts = {pool: sum(columns[name] for name in names) for pool, names in pools.items()}
    return parts | {REST: columns[POWER] - sum(parts.values())} if parts else {}


def without_nothing(parts: Mapping[str, Any], highest_w: float) -> dict[str, Any]:
    """Return the parts without a rest that is none."""
    none = REST in parts and np.abs(parts[REST]).max() <= _ROUNDING * abs(highest_w)
    return {name: values for name, values in parts.items() if name != REST or not none}


def _read_series(
    series: RunSeries, resolution_s: float, pools: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the fields of `RunData` that come from the power series, and those of its parts."""
    if resolution_s != series.step_s:
        raise InputError(
            f"{series.run.folder / METRICS_FILE}: power.resolution_s is {resolution_s:g}, the "
            f"scenario's resolution is {series.step_s:g} s; {CHANGED}"
        )
    names = series.check(NEEDED_COLUMNS)
    kinds = {column.name for column in series.run.columns if column.per == "service"} - {LOAD}
    of_services = [name for name in names if "." in name and name.partition(".")[0] in kinds]
    of_pools = [name for names in pools.values() for name in names]
    extremes: dict[str, tuple[float, float]] = {}

    def watched() -> Iterator[SeriesBlock]:
        for block in series.blocks([*NEEDED_COLUMNS, *of_services, *of_pools]):
            parts = parts_of(block.columns, pools)
            for name, power_w in {POWER: block.columns[POWER], **parts}.items():
                low, high = extremes.get(name, (np.inf, -np.inf))
                extremes[name] = min(low, float(power_w.min())), max(high, float(power_w.max()))
            kept = {name: block.columns[name] for name in (*NEEDED_COLUMNS, *of_services)}
            yield SeriesBlock(block.starts_ms, kept | parts)

    few = series.n_rows <= MAX_INTERVALS
    n_rows = 1 if few else -(-MS_PER_MIN // series.step_ms)
    starts_ms, read = [], []
    for block in averaged(watched(), n_rows):
        starts_ms.append(block.starts_ms)
        read.append({name: values.astype(np.float32) for name, values in block.columns.items()})
    columns = {name: np.concatenate([part[name] for part in read]) for name in read[0]}

    def power_of(name: str) -> dict[str, Any]:
        low, high = extremes[name]
        return {"power_w": columns[name], "max_w": high, "min_w": low}

    parts = without_nothing(
        {name: columns[name] for name in extremes if name != POWER}, extremes[POWER][1]
    )
    return {
        "local_ms": series.local_ms(np.concatenate(starts_ms)),
        "step_ms": n_rows * series.step_ms,
        "utilization": columns["utilization"],
        "services": _by_service({name: columns[name] for name in of_services}),
        **power_of(POWER),
    }, [{"label": name, "colour": colour(k), **power_of(name)} for k, name in enumerate(parts)]


def _by_service(columns: dict[str, Float32Array]) -> dict[str, dict[str, Float32Array]]:
    services: dict[str, dict[str, Float32Array]] = {}
    for name, values in columns.items():
        kind, _, service = name.partition(".")
        services.setdefault(service, {})[kind] = values
    return services


def _read_waits(run: Run, series: RunSeries) -> Waits | None:
    """Return the queue times; None for a run without jobs."""
    path = run.folder / JOBS_FILE
    if not os.path.lexists(path):
        return None
    with open_parquet(path, _WAIT_COLUMNS, remedy=CHANGED) as file:
        table = file.read(columns=list(_WAIT_COLUMNS))
        waited = table.filter(pc.is_valid(table["queue_time_s"]))
        submit_ms = waited["submit_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    if waited.num_rows == 0:
        return None
    submit, wait = (
        numbers(values, f"{path}: column '{name}'")
        for name, values in zip(_WAIT_COLUMNS, (submit_ms, waited["queue_time_s"]), strict=True)
    )
    if wait.min() < 0:
        raise InputError(f"{path}: column 'queue_time_s' is {wait.min():g} s in a row; {CHANGED}")
    return Waits(series.local_ms(submit.astype(np.int64)), wait, table.num_rows)


MAX_DIFFERENCES = 2


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Return one label for each run, all different.

    A single run is named by its scenario. Several runs of one scenario are named by what differs
    between their resolved scenarios if that is one or two keys, else by their folders.
    """
    names = [str(run.manifest.get("scenario_name", run.folder.name)) for run in runs]
    if _unique(names):
        return names
    by_difference = _by_difference(differing_settings(runs))
    if by_difference and _unique(by_difference):
        return by_difference
    folders = [run.folder.absolute().name for run in runs]
    if _unique(folders):
        return folders
    counts: Counter[str] = Counter()
    labels = []
    for folder in folders:
        counts[folder] += 1
        labels.append(f"{folder} ({counts[folder]})" if counts[folder] > 1 else folder)
    return labels


def _unique(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _settings(run: Run) -> dict[str, Any]:
    return {
        **dict(_leaves(run.manifest.get("scenario", {}))),
        "engine": run.manifest.get("engine"),
        "version": run.manifest.get("diploee_version"),
    }


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, repr(tree) if isinstance(tree, list) else tree


def differing_settings(runs: Sequence[Run]) -> dict[str, tuple[Any, ...]]:
    """Return the keys in which the runs' scenarios differ, with the value of each run."""
    settings = [_settings(run) for run in runs]
    values = {
        key: tuple(one.get(key) for one in settings)
        for key in sorted({key for one in settings for key in one})
    }
    return {key: of_runs for key, of_runs in values.items() if len(set(map(repr, of_runs))) > 1}


def _by_difference(differing: Mapping[str, tuple[Any, ...]]) -> list[str]:
    short = [key.rsplit(".", 1)[-1].replace("_", " ") for key in differing]
    if not 0 < len(differing) <= MAX_DIFFERENCES or not _unique(short):
        return []
    values = list(zip(*differing.values(), strict=True))
    if any(len(str(value)) > 20 for row in values for value in row):
        return []
    return [
        ", ".join(f"{name} {value}" for name, value in zip(short, row, strict=True))
        for row in values
    ]
