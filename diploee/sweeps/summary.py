"""`summary.parquet` and `sweep.json`: what a sweep was asked for and what came out."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from diploee import __version__
from diploee.errors import InputError
from diploee.metric import flatten
from diploee.plain_data import parse_json
from diploee.sweeps.expand import PlannedRun, axis_columns
from diploee.sweeps.loading import Sweep
from diploee.sweeps.record import read_metrics, read_record
from diploee.sweeps.spec import Keep
from diploee.sweeps.store import RUNS, Store

SUMMARY_FILE = "summary.parquet"
SWEEP_FILE = "sweep.json"
SCHEMA_VERSION = 1
READERS = 16
"""Threads that read the small files of finished runs; a URL answers slowly, but many at once."""


@dataclass(frozen=True)
class Result:
    """Results of a finished run: its metrics by dotted key, and its warnings."""

    metrics: dict[str, Any]
    warnings: tuple[str, ...]


def read_results(store: Store, runs: Iterable[str], keep: Keep) -> dict[str, Result]:
    """Return the results of those runs that are complete."""

    def read(run: str) -> tuple[str, Result | None]:
        try:
            record = read_record(store, run, keep)
            if record is None:
                return run, None
            metrics = dict(flatten(read_metrics(store, run)))
        except (OSError, ValueError):  # damaged or half gone: it is done again
            return run, None
        return run, Result(metrics, tuple(record.warnings))

    wanted = sorted(store.complete_runs() & set(runs))
    with ThreadPoolExecutor(READERS) as pool:
        return {run: result for run, result in pool.map(read, wanted) if result is not None}


def check_own(store: Store) -> None:
    """Raise `InputError` where files stand that a sweep would replace and no sweep wrote."""
    for name in (SWEEP_FILE, SUMMARY_FILE):
        try:
            content = store.read(name)
        except OSError:
            continue
        try:
            keys = parse_json(content, name, dict[str, Any]).keys() if name == SWEEP_FILE else ()
        except InputError:
            keys = ()
        if {"schema_version", "diploee_version", "runs"} <= set(keys):
            return
        raise InputError(
            f"{store.target}: holds a {name} that no sweep of diploee wrote, or that was damaged; "
            "remove it or choose another --out"
        )


def status_of(run: str, results: Mapping[str, Result], failed: Mapping[str, str]) -> str:
    """Return ``finished``, ``failed`` or ``pending``."""
    return "finished" if run in results else "failed" if run in failed else "pending"


def summary_table(
    sweep: Sweep,
    runs: Sequence[PlannedRun],
    results: Mapping[str, Result],
    failed: Mapping[str, str],
) -> pa.Table:
    """Return one row per run: name, point, axes, draws, seed, status, folder, metrics."""
    columns: dict[str, pa.Array] = {
        "run": pa.array([run.run for run in runs], pa.string()),
        "point": pa.array([run.point for run in runs], pa.int32()),
    }
    for name in axis_columns(sweep.spec.axes):
        columns[name] = _array([run.settings[name] for run in runs])
    for name in dict.fromkeys(name for run in runs for name in run.drawn):
        columns[name] = pa.array([run.drawn.get(name) for run in runs], pa.float64())
    columns["seed"] = pa.array([run.seed for run in runs], pa.int64())
    columns["status"] = pa.array([status_of(run.run, results, failed) for run in runs])
    columns["folder"] = pa.array(
        [f"{RUNS}/{run.run}" if run.run in results else None for run in runs], pa.string()
    )
    columns["error"] = pa.array([failed.get(run.run) for run in runs], pa.string())
    columns["n_warnings"] = pa.array(
        [len(results[run.run].warnings) if run.run in results else None for run in runs], pa.int32()
    )
    names = dict.fromkeys(name for result in results.values() for name in result.metrics)
    for name in names:
        values = [results[r.run].metrics.get(name) if r.run in results else None for r in runs]
        columns[name] = _array(values)
    return pa.table(columns).replace_schema_metadata(
        {"diploee.summary": json.dumps({"schema_version": SCHEMA_VERSION, "sweep": sweep.name})}
    )


def _array(values: list[Any]) -> pa.Array:
    """Return values as numbers where they all are, as text or JSON otherwise."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pa.array(values, pa.bool_())
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        whole = all(isinstance(value, int) for value in known)
        return pa.array(values, pa.int64() if whole and known else pa.float64())
    return pa.array([v if isinstance(v, str) or v is None else _json(v) for v in values])


def _json(value: Any) -> str:
    return json.dumps(value, default=str)


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as the content of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return JSON with a line per key, as the content of a file."""
    text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
    return (text + "\n").encode()


def sweep_content(
    sweep: Sweep,
    runs: Sequence[PlannedRun],
    results: Mapping[str, Result],
    failed: Mapping[str, str],
    **options: Any,
) -> dict[str, Any]:
    """Return the content of ``sweep.json``: the sweep as resolved and the list of its runs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "diploee_version": __version__,
        "name": sweep.name,
        "description": sweep.spec.description,
        **options,
        "spec": sweep.spec.model_dump(mode="json", exclude={"description"}, exclude_none=True),
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
                "status": status_of(run.run, results, failed),
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
