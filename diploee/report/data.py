"""Reads a run folder into the arrays that the figures need, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diploee.errors import InputError, one_of
from diploee.outputs import Run, open_run
from diploee.outputs.facility_file import FACILITY_FILE
from diploee.outputs.jobs_file import JOBS_FILE
from diploee.tables import Float32Array, Float64Array, Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S

MAX_INTERVALS = 3_000_000
"""A run of more intervals is read as one-minute means; its extremes stay those of the run."""

BATCH_ROWS = 1 << 18
"""Rows read at a time; it bounds the memory and does not change the values."""

SERVICE_COLUMNS = ("incoming_rps", "served_rps", "unserved_rps", "n_instances")
NEEDED_COLUMNS = ("timestamp", "facility_power_w", "utilization")
NEEDED_METRICS = {"power": ("mean_mw", "max_mw", "energy_mwh", "resolution_s"), "utilization": ()}


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

    @property
    def metrics(self) -> dict[str, Any]:
        """The run's metrics."""
        return self.run.metrics

    @property
    def manifest(self) -> dict[str, Any]:
        """The run's manifest."""
        return self.run.manifest


def read_run(folder: Path | str, label: str = "") -> RunData:
    """Read a run folder.

    Raises
    ------
    InputError
        If it is none, a file is damaged, or a column or a metric is missing.
    """
    run = open_run(folder)
    _check_metrics(run)
    resolution_ms = round(float(run.metrics["power"]["resolution_s"]) * MS_PER_S)
    path = run.folder / FACILITY_FILE
    try:
        series = _read_series(path, resolution_ms)
        waits = _read_waits(run.folder / JOBS_FILE)
    except (OSError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{run.folder}: a Parquet file can't be read ({reason})") from error
    return RunData(
        run=run,
        label=label or run.folder.absolute().name,
        resolution_ms=resolution_ms,
        waits=waits,
        **series,
    )


def _check_metrics(run: Run) -> None:
    for block, keys in NEEDED_METRICS.items():
        found = run.metrics.get(block)
        if not isinstance(found, dict):
            raise InputError(f"{run.folder / 'metrics.json'}: no block '{block}'")
        missing = [key for key in keys if key not in found]
        if missing:
            raise InputError(f"{run.folder / 'metrics.json'}: {block} has no {one_of(missing)}")


def _open(path: Path, needed: tuple[str, ...]) -> pq.ParquetFile:
    if not path.is_file():
        raise InputError(f"{path}: no such file in this run folder")
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: can't be read ({str(error).splitlines()[0]})") from error
    missing = [name for name in needed if name not in file.schema_arrow.names]
    if missing:
        have = one_of(file.schema_arrow.names)
        raise InputError(f"{path}: column {one_of(missing)} is missing (have: {have})")
    return file


def _read_series(path: Path, resolution_ms: int) -> dict[str, Any]:
    """Return the fields of `RunData` that come from the power series."""
    with _open(path, NEEDED_COLUMNS) as file:
        n_rows = file.metadata.num_rows
        if n_rows == 0:
            raise InputError(f"{path}: holds no interval")
        of_services = [
            name for name in file.schema_arrow.names if name.split(".")[0] in SERVICE_COLUMNS
        ]
        columns = [*NEEDED_COLUMNS[1:], *of_services]
        step_ms = resolution_ms if n_rows <= MAX_INTERVALS else max(resolution_ms, MS_PER_MIN)
        means = _Means(step_ms)
        low, high = np.inf, -np.inf
        for local_ms, values in _batches(file, columns):
            means.add(local_ms, values)
            low = min(low, float(values["facility_power_w"].min()))
            high = max(high, float(values["facility_power_w"].max()))
    if not np.isfinite([low, high]).all():
        raise InputError(f"{path}: column 'facility_power_w' holds values that are not finite")
    local_ms, result = means.result()
    return {
        "local_ms": local_ms,
        "step_ms": step_ms,
        "power_w": result["facility_power_w"],
        "utilization": result["utilization"],
        "max_w": high,
        "min_w": low,
        "services": _by_service(result),
    }


def _batches(
    file: pq.ParquetFile, columns: list[str]
) -> Iterator[tuple[Int64Array, dict[str, Float64Array]]]:
    wanted = ["timestamp", *columns]
    # Group by group: over all of them pyarrow keeps what it has read of the file.
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=wanted):
            if batch.num_rows:
                values = {name: _floats(batch[name]) for name in columns}
                yield local_times_ms(batch["timestamp"]), values


def local_times_ms(times: pa.Array) -> Int64Array:
    """Return time stamps as local wall-clock time [ms]; a year in one fixed offset is monotonic."""
    if pa.types.is_timestamp(times.type) and times.type.tz is not None:
        times = pc.local_timestamp(times)
    result: Int64Array = times.cast(pa.timestamp("ms")).to_numpy(zero_copy_only=False)
    return result.astype(np.int64)


def _floats(values: pa.Array) -> Float64Array:
    result: Float64Array = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return result


class _Means:
    """Averages batches over steps of the run's span; where a step is one interval, it keeps it."""

    def __init__(self, step_ms: int) -> None:
        self._step_ms = step_ms
        self._first_ms: int | None = None
        self._steps: list[Int64Array] = []
        self._counts: list[Int64Array] = []
        self._sums: list[dict[str, Float64Array]] = []

    def add(self, local_ms: Int64Array, values: dict[str, Float64Array]) -> None:
        """Add intervals in the order of time."""
        if self._first_ms is None:
            self._first_ms = int(local_ms[0])
        step = (local_ms - self._first_ms) // self._step_ms
        first = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
        self._steps.append(step[first])
        self._counts.append(np.diff(np.append(first, step.size)))
        self._sums.append({name: np.add.reduceat(v, first) for name, v in values.items()})

    def result(self) -> tuple[Int64Array, dict[str, Float32Array]]:
        """Return the starts of the steps [ms] and the means by column."""
        step = np.concatenate(self._steps)
        first = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
        count = np.add.reduceat(np.concatenate(self._counts), first)
        means = {
            name: (np.add.reduceat(np.concatenate([s[name] for s in self._sums]), first) / count)
            for name in self._sums[0]
        }
        starts = step[first] * self._step_ms + (self._first_ms or 0)
        return starts, {name: values.astype(np.float32) for name, values in means.items()}


def _by_service(columns: dict[str, Float32Array]) -> dict[str, dict[str, Float32Array]]:
    services: dict[str, dict[str, Float32Array]] = {}
    for name, values in columns.items():
        kind, _, service = name.partition(".")
        if service and kind in SERVICE_COLUMNS:
            services.setdefault(service, {})[kind] = values
    return services


def _read_waits(path: Path) -> Waits | None:
    """Return the queue times; None for a run without jobs."""
    if not path.is_file():
        return None
    with _open(path, ("submit_time", "queue_time_s")) as file:
        table = file.read(columns=["submit_time", "queue_time_s"])
    started = pc.is_valid(table["queue_time_s"])
    waited = table.filter(started).combine_chunks()
    if waited.num_rows == 0:
        return None
    submit = waited["submit_time"].combine_chunks()
    wait = waited["queue_time_s"].combine_chunks()
    return Waits(local_times_ms(submit), _floats(wait), table.num_rows)
