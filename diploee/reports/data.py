"""Run data for charts: arrays of runs and of their pools or loads; labels of runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.column_specs import TAKEN_OFF
from diploee.base.errors import InputError
from diploee.base.tables import (
    Float32Array,
    Int64Array,
    Kind,
    numbers,
    open_parquet,
    to_pandas_frame,
)
from diploee.base.units import MS_PER_DAY, MS_PER_MIN, W_PER_MW
from diploee.grid.dynamics.ride_through_study import RideThroughResult, ride_through
from diploee.metrics.attribution import IDLE, LOAD
from diploee.reports.drawing.charts import PALETTE, colour
from diploee.runs.formatting import short_boundary
from diploee.runs.parquet_files import JOBS_FILE
from diploee.runs.reader import RunFolder
from diploee.runs.series import CHANGED, RunSeries, average_steps

if TYPE_CHECKING:
    import pandas as pd

MAX_INTERVALS = 3_000_000
"""Maximum number of intervals read in full; longer runs are read as 1 min means, with
the extremes of the run."""

POWER = "facility_power_w"
NEEDED_COLUMNS = (POWER, "utilization")

MAX_PARTS = len(PALETTE) - 1
"""Maximum number of pools or loads with their own colour; the smallest ones are
summed."""

REST = "cooling, losses and all else"
"""Label of a facility's power outside its pools or loads."""

_ROUNDING = 1e-6
"""Relative rounding error of float32 sums; smaller remainders count as zero."""

_Groups = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class RunData:
    """A run, or a pool or load of a run, with the arrays for its charts."""

    run: RunFolder  # run folder, with metrics and manifest
    label: str  # name in legends
    local_ms: Int64Array  # start of each step, local time since 1970-01-01 [ms]
    step_ms: int  # step of the arrays [ms]
    resolution_ms: int  # step of the run [ms]; shorter if averaged on reading
    power_w: Float32Array  # power of the facility or the part [W]
    utilization: Float32Array  # node occupancy, 0-1
    # Power of sources, stores and curtailment, subtracted from the load [W]
    taken_off_w: Float32Array
    # Columns (`incoming_rps`, ...) of each service
    services: dict[str, dict[str, Float32Array]] = field(default_factory=dict)
    # Queue times of the started jobs [s] by submission, local time [ms]
    waits: pd.Series[float] | None = None
    groups: _Groups = field(
        default_factory=dict
    )  # columns of each part except the rest
    # For a run on its own page: its pools or loads, and the rest of the facility, which
    # add up to `power_w`
    layers: tuple[RunData, ...] = ()
    is_part: bool = False  # a pool or load of a run
    colour: str = ""  # colour in charts; by default from the run's position

    @property
    def parts(self) -> tuple[RunData, ...]:
        """Pools or loads of the run; empty if there is only one."""
        return self.layers if self.groups != _ONE_POOL else ()

    @property
    def max_w(self) -> float:
        """Highest power of the run's original steps [W]."""
        most_w = 0.0 if self.is_part else self.metrics["power"]["max_mw"] * W_PER_MW
        return max(most_w, float(self.power_w.max()))

    @property
    def min_w(self) -> float:
        """Lowest power of the run's original steps [W]."""
        least_w = float(self.power_w.min())
        if not self.is_part:
            least_w = min(float(self.metrics["power"]["min_mw"]) * W_PER_MW, least_w)
        return least_w

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics of the run."""
        return self.run.metrics

    @property
    def manifest(self) -> dict[str, Any]:
        """Manifest of the run."""
        return self.run.manifest

    @cached_property
    def ride_through_result(self) -> RideThroughResult | None:
        """Ride-through of the default event; None without ride-through settings."""
        return (
            ride_through(self.run) if self.run.scenario.facility.ride_through else None
        )

    @property
    def by_load(self) -> bool:
        """True if `parts` are streams and services, False if they are pools."""
        return any(
            name.startswith((LOAD, IDLE)) for of in self.groups.values() for name in of
        )

    @property
    def parts_text(self) -> str:
        """Text for chart titles: "by load" or "by pool"."""
        return "by load" if self.by_load else "by pool"


_ONE_POOL: _Groups = {"devices": ("it_power_w",)}
"""Columns of a facility with one pool, whose names have no suffix."""


def read_run(
    folder: Path | str, label: str = "", in_parts: bool = False, by_load: bool = False
) -> RunData:
    """Read a run folder, and on request the power of its pools or its loads.

    Raises
    ------
    InputError
        If the folder is no run folder, a file is damaged, or a column or metric is
        missing.
    """
    run = RunFolder.open(folder)
    series = run.series()
    groups = _part_columns(run, by_load) if in_parts or by_load else {}
    columns, starts_ms, step_ms = _read_series(series, groups)
    services: dict[str, dict[str, Float32Array]] = {}
    for name in _service_columns(series):
        kind, _, service = name.partition(".")
        services.setdefault(service, {})[kind] = columns[name]
    run_data = RunData(
        run,
        label or run.folder.absolute().name,
        series.local_ms(starts_ms),
        step_ms,
        series.step_ms,
        columns[POWER],
        columns["utilization"],
        columns[TAKEN],
        services,
        _read_waits(run, series),
        groups,
    )
    part = replace(run_data, waits=None, is_part=True, services={})
    parts = [name for name in (*groups, REST) if name in columns]
    if parts and np.abs(columns[REST]).max() <= _ROUNDING * abs(run_data.max_w):
        parts.remove(REST)
    layers = (
        replace(part, label=name, power_w=columns[name], colour=colour(k))
        for k, name in enumerate(parts)
    )
    return replace(run_data, layers=tuple(layers))


TAKEN = "taken off"


def _part_columns(run: RunFolder, by_load: bool) -> _Groups:
    """Return the columns of each pool or load; the smallest ones share a group."""
    series, group_noun = run.series(), "pools"
    stored = series.check()
    pools = list(run.scenario.facility.pools)
    if by_load:
        if IDLE not in stored:
            raise InputError(
                f"{run.folder}: --by-load: the run keeps no power by stream and "
                "service; run it again with 'diploee run --by-load'"
            )
        group_noun, names = "loads", [n for n in stored if n.startswith(f"{LOAD}.")]
        columns = {name.partition(".")[2]: name for name in names} | {
            "idle nodes": IDLE
        }
    elif len(pools) < 2:
        return _ONE_POOL
    else:
        columns = {pool: f"{_pool_power_column(run)}.{pool}" for pool in pools}
    result: dict[str, tuple[str, ...]] = {
        part: (name,) for part, name in columns.items()
    }
    if len(result) > MAX_PARTS:
        days = list(run.blocks([*columns.values()], MS_PER_DAY))
        sizes = {
            k: sum(float(day.columns[n].sum()) for day in days)
            for k, n in columns.items()
        }
        smallest = sorted(result, key=lambda name: sizes[name])[
            : len(result) - MAX_PARTS + 1
        ]
        joined = tuple(columns[name] for name in result if name in smallest)
        result = {name: of for name, of in result.items() if name not in smallest}
        result[f"{len(smallest)} smaller {group_noun}"] = joined
    return result


def _pool_power_column(run: RunFolder) -> str:
    """Return the name of the pools' power column; AC power is preferred."""
    names = {column.name for column in run.columns if column.per == "pool"}
    return next(name for name in ("it_ac_power_w", "it_power_w") if name in names)


def boundary_text(runs: Sequence[RunData], in_parts: bool = False) -> str:
    """Return the boundaries of the power of runs and of their pools or loads."""
    boundaries = dict.fromkeys(short_boundary(run.run.boundary()) for run in runs)
    split_runs = [run for run in runs if run.parts and in_parts]
    part_texts = {}
    for run in split_runs:
        text = short_boundary(
            run.run.boundary(
                "it_power_w" if run.by_load else _pool_power_column(run.run)
            )
        )
        part_texts[f"of a {'load' if run.by_load else 'pool'}: {text}"] = text
    return "; ".join(
        [
            *boundaries,
            *(words for words, text in part_texts.items() if text not in boundaries),
        ]
    )


def split_power(columns: Mapping[str, Any], groups: _Groups) -> dict[str, Any]:
    """Return the power of each pool or load, and of the rest of the facility [W]."""
    parts = {
        part: sum(columns[name] for name in names) for part, names in groups.items()
    }
    return parts | {REST: columns[POWER] - sum(parts.values())} if parts else {}


def _service_columns(series: RunSeries) -> list[str]:
    """Return the names of the stored columns of services."""
    kinds = {column.name for column in series.columns if column.per == "service"} - {
        LOAD
    }
    return [n for n in series.check() if "." in n and n.partition(".")[0] in kinds]


def _read_series(
    series: RunSeries, groups: _Groups
) -> tuple[dict[str, Float32Array], Int64Array, int]:
    """Return columns with the power of groups, the steps' starts, and the step [ms]."""
    series.check(NEEDED_COLUMNS)
    base_columns = [*NEEDED_COLUMNS, *_service_columns(series)]
    part_columns = [name for names in groups.values() for name in names]
    taken_columns = [
        column.name for column in series.columns if column.role in TAKEN_OFF
    ]
    n_rows = 1 if series.n_rows <= MAX_INTERVALS else -(-MS_PER_MIN // series.step_ms)
    starts_ms, read = [], []
    for block in average_steps(
        series.blocks([*base_columns, *part_columns, *taken_columns]), n_rows
    ):
        off = sum(
            (block.columns[name] for name in taken_columns),
            np.zeros(len(block.starts_ms)),
        )
        result = {name: block.columns[name] for name in base_columns}
        result |= split_power(block.columns, groups) | {TAKEN: off}
        starts_ms.append(block.starts_ms)
        read.append({name: of.astype(np.float32) for name, of in result.items()})
    columns = {name: np.concatenate([part[name] for part in read]) for name in read[0]}
    return columns, np.concatenate(starts_ms), n_rows * series.step_ms


_WAIT_COLUMNS: dict[str, Kind] = {"submit_time": "time", "queue_time_s": "number"}


def _read_waits(run: RunFolder, series: RunSeries) -> pd.Series[float] | None:
    """Return queue times [s] by submission, local time [ms]; None without jobs."""
    import pandas as pd

    path = run.folder / JOBS_FILE
    if not os.path.lexists(path):
        return None
    with open_parquet(path, _WAIT_COLUMNS, remedy=CHANGED) as file:
        table = file.read(columns=list(_WAIT_COLUMNS))
        numbers(table["queue_time_s"], f"{path}: 'queue_time_s'", has_gaps=True)
        jobs = to_pandas_frame(table).dropna()
    submit_ms = jobs["submit_time"].to_numpy("datetime64[ms]").astype(np.int64)
    waits = pd.Series(jobs["queue_time_s"].to_numpy(float), series.local_ms(submit_ms))
    return waits if len(waits) else None


MAX_DIFFERENCES = 2


def run_labels(runs: Sequence[RunFolder]) -> list[str]:
    """Return a unique label for each run.

    A single run has the name of its scenario. Several runs of one scenario are labelled
    by one or two keys whose values differ, else by their folders.
    """
    names = [str(run.manifest.get("scenario_name", run.folder.name)) for run in runs]
    folders = [run.folder.absolute().name for run in runs]
    for labels in (names, _labels_by_difference(differing_settings(runs)), folders):
        if labels and len(set(labels)) == len(labels):
            return labels
    counts = [folders[: k + 1].count(folder) for k, folder in enumerate(folders)]
    return [
        f"{folder} ({n})" if n > 1 else folder
        for folder, n in zip(folders, counts, strict=True)
    ]


def _run_settings(run: RunFolder) -> dict[tuple[bool, str], Any]:
    """Return the settings of a run by key.

    The first item of a key is False for custom Python code, which thus sorts first.
    """
    run_settings = {
        "engine": run.manifest.get("engine"),
        "version": run.manifest.get("diploee_version"),
    }
    custom: dict[tuple[bool, str], str] = {}
    for part in run.manifest.get("own_parts", ()):
        key = False, f"own {part['kind']}"
        text = f"{part['name']} ({part['sha256'][:8]})"
        custom[key] = f"{custom[key]}, {text}" if key in custom else text
    scenario = run.manifest.get("scenario", {})
    facility = {**scenario.get("facility", {}), "stages": [*stage_keys(run).values()]}
    plain = _leaves({**scenario, "facility": facility, "description": None})
    return custom | {
        (True, key): value for key, value in (dict(plain) | run_settings).items()
    }


def stage_keys(run: RunFolder) -> dict[str, Mapping[str, Any]]:
    """Return the keys of each stage of a run's scenario, by stage name."""
    stages = run.manifest.get("scenario", {}).get("facility", {}).get("stages", ())
    return index_by_name({"kind": of} if isinstance(of, str) else of for of in stages)


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key of each value in nested data.

    Items of lists are named by their entry `name`.
    """
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif (
        isinstance(tree, list) and tree and all(isinstance(of, Mapping) for of in tree)
    ):
        named = index_by_name(tree)
        yield path, ", ".join(named)
        yield from _leaves(named, path)
    else:
        yield path, repr(tree) if isinstance(tree, list) else tree


def index_by_name(entries: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a list by name; equal names get numbers."""
    result: dict[str, Mapping[str, Any]] = {}
    n_of = Counter[str]()
    for number, entry in enumerate(entries, start=1):
        name = str(entry.get("name") or entry.get("kind") or number)
        n_of[name] += 1
        result[f"{name} {n_of[name]}" if n_of[name] > 1 else name] = entry
    return result


def differing_settings(runs: Sequence[RunFolder]) -> dict[str, tuple[Any, ...]]:
    """Return the keys with different values, with each run's value."""
    settings = [_run_settings(run) for run in runs]
    keys = sorted({key for one in settings for key in one})
    values = {key[1]: tuple(one.get(key) for one in settings) for key in keys}
    return {
        key: run_values
        for key, run_values in values.items()
        if len(set(map(repr, run_values))) > 1
    }


def _labels_by_difference(differing: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """Return labels made of one or two differing keys; empty if they are too long."""
    short = [key.rsplit(".", 1)[-1].replace("_", " ") for key in differing]
    values = list(zip(*differing.values(), strict=True))
    if len(set(short)) < len(short) or len(short) > MAX_DIFFERENCES:
        return []
    if any(len(str(value)) > 20 for row in values for value in row):
        return []
    return [
        ", ".join(f"{n} {v}" for n, v in zip(short, row, strict=True)) for row in values
    ]
