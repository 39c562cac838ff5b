"""Runs of a given power, as far as a check of limits reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from builders import tiny_scenario

from diploee import Run
from diploee.grid.limits import Limits, check_limits
from diploee.power.blocks import AC_COLUMNS
from diploee.runs import RunSeries
from diploee.runs.parquet_files import timestamps
from diploee.scenario import Scenario

PUBLISHED = {"averaging_window_s": 1.0, "bandwidth_hz": 0.44}


@dataclass
class FakeRun:
    """A run folder that holds only what a check reads."""

    folder: Path
    scenario: Scenario
    manifest: dict[str, Any] = field(
        default_factory=lambda: {"profiles": {"p": {"provenance": PUBLISHED}}}
    )
    metrics: dict[str, Any] = field(default_factory=dict)
    columns: tuple[Any, ...] = ()

    transient_h = Run.transient_h

    def boundary(self):
        return "the meter"

    def series(self):
        start, step_ms = self.scenario.start_with_zone, self.scenario.resolution_ms
        path, n_rows = self.folder / "facility.parquet", self.scenario.n_intervals
        return RunSeries(self.folder, path, start, step_ms, n_rows)

    def blocks(self, columns):
        return self.series().blocks(columns)


def fake_run(
    folder,
    power_mw,
    step_s,
    column="facility_power_w",
    reactive_mvar=None,
    peak=None,
    **changes,
):
    """Return a run of a power; `changes` by dotted key of its scenario."""
    span = f"{len(power_mw) * step_s:.10g} s"
    scenario = tiny_scenario({"duration": span, "resolution": f"{step_s} s"} | changes)
    columns = {column: power_mw}
    if reactive_mvar is not None:
        columns["facility_reactive_var"] = reactive_mvar
    at = np.arange(len(power_mw)) * scenario.resolution_ms
    _write(folder / "facility.parquet", at, scenario, **columns)
    run = FakeRun(folder, scenario)
    run.columns = tuple(c for c in AC_COLUMNS if c.name in columns)
    if peak is not None:
        events = {"ramps": {"intervals": []}, "rolling_range": {"windows": []}}
        run.metrics["grid"] = {
            "resolution_s": step_s,
            "peak": {"max_mw": peak, "time": None},
        } | events
    return run


def _write(path, at_ms, scenario, **columns):
    values = {
        k: np.asarray(v, dtype=np.float32) * np.float32(1e6) for k, v in columns.items()
    }
    pq.write_table(pa.table({"timestamp": timestamps(at_ms, scenario), **values}), path)


def check(run, **limits):
    return check_limits(run, Limits.model_validate(limits))


def only(report):
    (result,) = report.results
    return result
