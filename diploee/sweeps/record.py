"""Results of a sweep: each run's record and load shape, a summary, ``sweep.json``.

A run's record has the sizes of its files, so truncated or missing files are detected.
The load shape has a few hundred numbers and is kept for every run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.base.errors import InputError
from diploee.base.measures.distribution import Distribution
from diploee.base.metric import flatten, is_plain_number
from diploee.base.tables import (
    Float64Array,
    Kind,
    arrow_numbers,
    arrow_texts,
    numbers,
    open_parquet,
)
from diploee.base.units import HOURS_PER_WEEK, MS_PER_H
from diploee.base.validation import Record, parse_json
from diploee.base.version import full_version
from diploee.loads.jobs.rates import EPOCH_HOUR_OF_WEEK
from diploee.runs.folder import METRICS_FILE, write_json
from diploee.runs.reader import RunFolder
from diploee.sweeps.expand import PlannedRun, axis_columns
from diploee.sweeps.folder import MANIFEST, RUNS, read_file
from diploee.sweeps.loading import Sweep
from diploee.sweeps.spec import KEPT_FILES, Keep

RECORD_FILE = "record.json"
SUMMARY_FILE = "summary.parquet"
SWEEP_FILE = "sweep.json"
SCHEMA_VERSION = 1
SHAPE_FILE = "load_shape.parquet"
KINDS = ("hour_of_week_mean", "hour_of_week_max", "duration_curve")
EXCEEDED = np.concatenate([np.arange(0, 10) / 10_000, np.arange(1, 1001) / 1_000])
"""Fractions of time of the duration curve; finer at the peak."""


class RunRecord(Record):
    """Record of a finished run: hash, kept outputs, and sizes of files [bytes]."""

    run: str
    keep: Keep
    sizes: dict[str, int]


class _RecordedRun(Record):
    """Keys of a run in ``sweep.json`` that a further sweep reads."""

    run: str
    status: str


class RecordedSweep(Record):
    """Keys of ``sweep.json`` that a further sweep into its folder reads."""

    schema_version: int
    diploee_version: str
    spec: dict[str, Any]
    base_scenario: dict[str, Any]
    runs: list[_RecordedRun]

    def is_other(self, sweep: Sweep, runs: Sequence[PlannedRun]) -> bool:
        """Return True if the finished runs are of another sweep, by this version.

        None of them is a run of `sweep`.

        A sweep with other profiles, or with other extension code, is the same sweep.
        """
        now = sweep_content(sweep, runs, {}, {})
        finished = {run.run for run in self.runs if run.status == "finished"}
        return (
            self.diploee_version == now["diploee_version"]
            and (self.spec, self.base_scenario) != (now["spec"], now["base_scenario"])
            and bool(finished)
            and finished.isdisjoint(run.run for run in runs)
        )


class _Manifest(Record):
    """Keys of a run's manifest that a sweep reads."""

    warnings: list[str]


def write_record(folder: Path, run: str, keep: Keep) -> None:
    """Write the record of the finished run in a folder."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    sizes.pop(MANIFEST)  # which has its times
    record = RunRecord(run=run, keep=keep, sizes=sizes)
    write_json(folder / RECORD_FILE, record.model_dump(mode="json"))


def read_warnings(run: Path, keep: Keep) -> list[str] | None:
    """Return a run's warnings, or None if a file of `keep` is truncated or missing."""
    try:
        sizes = {p.name: p.stat().st_size for p in run.iterdir() if p.is_file()}
        content = read_file(run / RECORD_FILE)
        record = parse_json(content, RECORD_FILE, RunRecord)
        manifest = parse_json(read_file(run / MANIFEST), MANIFEST, _Manifest)
    except (OSError, InputError):
        return None
    required, recorded = set(KEPT_FILES[keep]), set(KEPT_FILES[record.keep])
    needed = {
        name: size
        for name, size in record.sizes.items()
        if name not in recorded - required
    }
    whole = required <= recorded and needed.items() <= sizes.items()
    return manifest.warnings if whole else None


_SHAPE_COLUMNS: dict[str, Kind] = {"kind": "text", "at": "number", "power_w": "number"}


def read_load_shape(run: Path) -> Any:
    """Return a complete run's load shape from its folder, as an Arrow table."""
    path = run / SHAPE_FILE
    with open_parquet(path, _SHAPE_COLUMNS) as file:
        shape = file.read()
    numbers(shape["power_w"], f"{path}: 'power_w'")
    return shape


def load_shape(run: RunFolder) -> pa.Table:
    """Return the mean load by hour of the week and the load duration curve."""
    total, count = np.zeros(HOURS_PER_WEEK), np.zeros(HOURS_PER_WEEK)
    largest = np.zeros(HOURS_PER_WEEK)
    distribution = Distribution()
    series = run.series()
    for block in series.blocks(["facility_power_w"]):
        power_w = block.columns["facility_power_w"]
        local_h = series.local_ms(block.starts_ms) // MS_PER_H
        hours = (local_h + EPOCH_HOUR_OF_WEEK) % HOURS_PER_WEEK
        total += np.bincount(hours, power_w, minlength=HOURS_PER_WEEK)
        count += np.bincount(hours, minlength=HOURS_PER_WEEK)
        np.maximum.at(largest, hours, power_w)
        distribution.add(power_w)
    seen = np.flatnonzero(count)
    levels = np.array(distribution.percentiles(*(100 * (1 - EXCEEDED)).tolist()))
    return pa.concat_tables(
        [
            _rows(KINDS[0], seen, total[seen] / count[seen]),
            _rows(KINDS[1], seen, largest[seen]),
            _rows(KINDS[2], EXCEEDED, levels),
        ]
    )


def _rows(kind: str, at: np.ndarray, power_w: Float64Array) -> pa.Table:
    return pa.table(
        {
            "kind": arrow_texts([kind] * len(at)),
            "at": arrow_numbers(at.astype(np.float64)),
            "power_w": arrow_numbers(power_w),
        }
    )


@dataclass(frozen=True)
class Result:
    """Results of a finished run: its metrics by dotted key, and its warnings."""

    metrics: dict[str, Any]
    warnings: tuple[str, ...]


def read_result(run: Path, keep: Keep) -> Result | None:
    """Return the result of a complete run; None if a file is damaged or missing."""
    try:
        if (warnings := read_warnings(run, keep)) is None:
            return None
        read_load_shape(run)
        metrics = dict(flatten(json.loads(read_file(run / METRICS_FILE))))
    except (OSError, ValueError, InputError):  # damaged or half gone: it is done again
        return None
    return Result(metrics, tuple(warnings))


def read_results(folder: Path, runs: Iterable[str], keep: Keep) -> dict[str, Result]:
    """Return the results of the complete runs, by run."""
    results = {run: read_result(folder / RUNS / run, keep) for run in sorted(set(runs))}
    return {run: result for run, result in results.items() if result is not None}


def recorded_sweep(folder: Path) -> RecordedSweep | None:
    """Return the ``sweep.json`` of a folder, or None if the folder has no sweep.

    Raises `InputError` if it contains files that
    a sweep would replace but that were not written by a sweep.
    """
    for name in (SWEEP_FILE, SUMMARY_FILE):
        try:
            content = read_file(folder / name)
        except OSError:
            continue
        if name == SWEEP_FILE:
            with suppress(InputError):
                return parse_json(content, name, RecordedSweep)
        raise InputError(
            f"{folder}: holds a {name} that no sweep of diploee wrote, or that "
            "was damaged; remove it or choose another --out"
        )
    return None


def _status(run: str, results: Mapping[str, Result], failed: Mapping[str, str]) -> str:
    """Return the status ``finished``, ``failed`` or ``pending``."""
    return "finished" if run in results else "failed" if run in failed else "pending"


def summary_table(
    sweep: Sweep,
    runs: Sequence[PlannedRun],
    results: Mapping[str, Result],
    failed: Mapping[str, str],
) -> pa.Table:
    """Return the summary table of a sweep, one row per run.

    The columns are name, point, axes, draws, seed, status, folder and metrics.
    """
    columns: dict[str, pa.Array] = {
        "run": pa.array([run.run for run in runs], pa.string()),
        "point": pa.array([run.point for run in runs], pa.int32()),
    }
    for name in axis_columns(sweep.spec.axes):
        columns[name] = _array([run.settings[name] for run in runs])
    for name in dict.fromkeys(name for run in runs for name in run.drawn):
        columns[name] = pa.array([run.drawn.get(name) for run in runs], pa.float64())
    columns["seed"] = pa.array([run.seed for run in runs], pa.int64())
    columns["status"] = pa.array([_status(run.run, results, failed) for run in runs])
    columns["folder"] = pa.array(
        [f"{RUNS}/{run.run}" if run.run in results else None for run in runs],
        pa.string(),
    )
    columns["error"] = pa.array([failed.get(run.run) for run in runs], pa.string())
    columns["n_warnings"] = pa.array(
        [
            len(results[run.run].warnings) if run.run in results else None
            for run in runs
        ],
        pa.int32(),
    )
    names = dict.fromkeys(
        name for result in results.values() for name in result.metrics
    )
    for name in names:
        values = [
            results[r.run].metrics.get(name) if r.run in results else None for r in runs
        ]
        columns[name] = _array(values)
    return pa.table(columns).replace_schema_metadata(
        {
            "diploee.summary": json.dumps(
                {"schema_version": SCHEMA_VERSION, "sweep": sweep.name}
            )
        }
    )


def _array(values: list[Any]) -> pa.Array:
    """Return values as a column of numbers, or else of text or JSON."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool) for value in present):
        return pa.array(values, pa.bool_())
    if all(is_plain_number(value) for value in present):
        whole = all(isinstance(value, int) for value in present)
        return pa.array(values, pa.int64() if whole and present else pa.float64())
    return pa.array(
        [v if isinstance(v, str) or v is None else _json(v) for v in values]
    )


def _json(value: Any) -> str:
    return json.dumps(value, default=str)


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return JSON with a line per key, as the bytes of a file."""
    text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
    return (text + "\n").encode()


def sweep_content(
    sweep: Sweep,
    runs: Sequence[PlannedRun],
    results: Mapping[str, Result],
    failed: Mapping[str, str],
    **options: Any,
) -> dict[str, Any]:
    """Return the content of ``sweep.json``: the resolved sweep, and its runs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "diploee_version": full_version(),
        "name": sweep.name,
        "description": sweep.spec.description,
        **options,
        "spec": sweep.spec.model_dump(
            mode="json", exclude={"description"}, exclude_none=True
        ),
        "base_scenario": sweep.base.model_dump(mode="json"),
        "axes": axis_columns(sweep.spec.axes),
        "draws": list(dict.fromkeys(name for run in runs for name in run.drawn)),
        "seeds": list(sweep.spec.seed_list(sweep.base.seed)),
        "runs": [
            {
                "run": run.run,
                "point": run.point,
                "settings": run.settings,
                "seed": run.seed,
                "scenario_sha256": run.scenario.sha256(),
                "status": _status(run.run, results, failed),
                **({"error": failed[run.run]} if run.run in failed else {}),
                **(
                    {"warnings": list(results[run.run].warnings)}
                    if run.run in results and results[run.run].warnings
                    else {}
                ),
            }
            for run in runs
        ],
    }
