"""Reader of a run folder: metrics, manifest, and series as pandas DataFrames."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import pyarrow as pa
from pydantic import InstanceOf

from diploee.base.arguments import allowed, as_list, checked_arguments
from diploee.base.column_specs import Columns, find_column
from diploee.base.errors import (
    Brief,
    InputError,
    ScenarioError,
    did_you_mean,
    one_line,
    one_of,
    shown,
)
from diploee.base.metric import Metric, find_metric, flatten
from diploee.base.tables import Kind, open_parquet, to_pandas_frame
from diploee.base.units import MS_PER_S
from diploee.base.validation import KeyPath, read_json, validate_record, with_groups
from diploee.metrics.catalogue import declared_metrics
from diploee.runs.ensemble_percentiles import Bands, read_bands
from diploee.runs.folder import LIMITS_FILE, MANIFEST, METRICS_FILE, SCHEMA_VERSION
from diploee.runs.manifest import Manifest
from diploee.runs.parquet_files import (
    FACILITY_FILE,
    JOBS_FILE,
    ZOOMS_FOLDER,
    stored_columns,
)
from diploee.runs.series import CHANGED, RunSeries, SeriesBlock
from diploee.scenario.loading import scenario_from_dict
from diploee.scenario.models import Scenario

if TYPE_CHECKING:
    import pandas as pd


ColumnNames: TypeAlias = Annotated[
    str | Sequence[str], allowed("the name of a column, or a list of names")
]


@dataclass(frozen=True)
class MetricValue(Brief):
    """A value of a run's metrics with its unit and label."""

    key: str  # dotted key, such as ``grid.ramps.intervals.60s.up.max_mw``
    value: Any  # as in ``metrics.json``
    unit: str = ""  # unit in ``metrics.json``; empty if none is declared
    label: str = ""  # name in lower case

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class RunFolder(Brief):
    """A reader of the folder of a finished run."""

    folder: Path  # the run folder
    bands: Bands | None = None  # P5 and P95 of the metrics over an ensemble, if given

    @classmethod
    def open(cls, folder: Self | Path | str) -> Self:
        """Open a run folder; a folder that is already open is returned unchanged.

        Raises
        ------
        InputError
            If the folder is not a run folder, or was written by a newer version.
        """
        if isinstance(folder, RunFolder):
            return folder
        run = cls(Path(folder))
        if not (run.folder / MANIFEST).is_file():
            remedy = "create one with 'diploee run'"
            if (runs := run.folder / "runs").is_dir():  # of a sweep
                remedy = f"its runs are the folders in {runs}"
            elif run.folder.is_file():
                remedy = "give the folder of a run; diploee.run simulates a scenario"
            raise InputError(f"{folder}: not a run folder (no {MANIFEST}); {remedy}")
        version = read_json(run.folder / MANIFEST, dict).get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{run.folder / MANIFEST}: schema version {shown(version)}, this "
                f"version of diploee reads {SCHEMA_VERSION}"
            )
        _ = run.scenario  # validated here, as all readers rely on it
        return run

    def with_bands(self, ensemble: Path | str) -> Self:
        """Return the run with the P5 and P95 of its metrics over an ensemble.

        Raises
        ------
        InputError
            If the folder is not an ensemble of the run's scenario, or has fewer than 20
            runs.
        """
        return replace(
            self, bands=read_bands(ensemble, self.manifest["scenario"], self.folder)
        )

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Metrics as in ``metrics.json``; reading a missing key raises `InputError`."""
        return self._read_result(METRICS_FILE)

    @property
    def transient_h(self) -> float:
        """Warm-up time until the facility was filled [h]; 0 if it began full."""
        return (self.metrics.get("grid") or {}).get("transient_h") or 0.0

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Scenario, profiles, versions, warnings, timing, as in ``manifest.json``."""
        path = self.folder / MANIFEST
        content: dict[str, Any] = read_json(path, dict)
        validate_record(content, Manifest, one_line(str(path)), remedy=CHANGED)
        return self._with_groups(path, content, CHANGED)

    @cached_property
    def scenario(self) -> Scenario:
        """Scenario of the run, with all defaults and files resolved."""

        def where(key_path: KeyPath) -> str:
            return (
                f"{self.folder / MANIFEST}: "
                f"{'.'.join(('scenario', *map(str, key_path)))}"
            )

        try:
            return scenario_from_dict(self.manifest["scenario"], where)
        except ScenarioError as error:
            problem = error.problems[0]
            hint = "if it is your own, read the run where its module is imported; else "
            hint *= bool(self.manifest.get("own_parts"))
            raise InputError(f"{problem}; {hint}{CHANGED}") from error

    @cached_property
    def columns(self) -> Columns:
        """Column declarations of the power series."""
        return stored_columns(self.folder / FACILITY_FILE)

    @cached_property
    def stage_metrics(self) -> tuple[Metric, ...]:
        """Metrics declared by the run's stages."""
        keys = [field.name for field in fields(Metric)]
        entries = self.manifest.get("metrics", ())
        return tuple(Metric(**{key: entry[key] for key in keys}) for entry in entries)

    @cached_property
    def values(self) -> dict[str, Any]:
        """Single values of the metrics by dotted key; list entries by their names."""
        return dict(flatten(self.metrics))

    @checked_arguments
    def metric(self, key: str) -> MetricValue:
        """Return a metric by dotted key, as ``grid.ramps.intervals.60s.up.max_mw``.

        Raises
        ------
        InputError
            If the run has no such metric; the text suggests the closest key.
        """
        if key not in self.values:
            groups = dict.fromkeys(name.partition(".")[0] for name in self.values)
            raise InputError(
                f"{self.folder}: no metric '{key}' (groups: {one_of(groups)}; "
                f"Run.values has all){did_you_mean(key, [*self.values, *groups])}"
            )
        declared = find_metric(key, (*self.stage_metrics, *declared_metrics()))
        if declared is None:
            return MetricValue(key, self.values[key])
        unit = declared.unit if declared.factor == 1 else ""
        return MetricValue(key, self.values[key], unit, declared.label)

    @cached_property
    def checked_limits(self) -> list[dict[str, Any]]:
        """Limits checked during the run, each with its report (``limits.json``)."""
        if not (self.folder / LIMITS_FILE).exists():
            return []
        result: list[dict[str, Any]] = self._read_result(LIMITS_FILE)["checked"]
        return result

    def boundary(self, column: str = "facility_power_w") -> str:
        """Return the boundary of a power column as text."""
        return find_column(column, self.columns)[0].boundary or "unknown"

    def series(self, event_window: str | None = None) -> RunSeries:
        """Return the power series of the whole run, or of an event window.

        Raises
        ------
        InputError
            If the run has no such event window, or the manifest, the metrics or the
            window's file is damaged.
        """
        if event_window is not None:
            return self._event_window_series(event_window)
        scenario, path = self.scenario, self.folder / FACILITY_FILE
        start, step_ms = scenario.start_with_zone, scenario.resolution_ms
        return RunSeries(self.folder, path, start, step_ms, scenario.n_intervals)

    def blocks(
        self,
        columns: Sequence[str],
        step_ms: int | None = None,
        span: tuple[datetime | None, datetime | None] = (None, None),
    ) -> Iterator[SeriesBlock]:
        """Stream columns of the power series; the memory does not grow with the run.

        Parameters
        ----------
        columns : sequence of str
            Columns of ``facility.parquet``, such as ``["facility_power_w"]``.
        step_ms : int, optional
            Step [ms], a multiple of the run's resolution (the default). Values are
            means over each step, or totals, first or last values according to their
            column's kind. The last step may be shorter.
        span : (datetime.datetime or None, datetime.datetime or None), optional
            Start and end, each the start of an interval; naive datetimes are local time
            of the facility. By default the start and the end of the run.

        Yields
        ------
        SeriesBlock
            ``starts_ms``, the start of each step [ms since 1970 in UTC], and
            ``columns``, arrays of the same shape (n,), float64, by name.

        Raises
        ------
        InputError
            If the file is missing or damaged: a column is missing, duplicated or not
            numeric, a value is missing or not finite, or a timestamp is wrong; if
            `step_ms` is not a multiple of the resolution; if the span lies outside the
            run or off its intervals.
        """
        series = self.series()
        first, end = span
        rows = (
            0 if first is None else series.row_at(first, "span"),
            series.n_rows if end is None else series.row_at(end, "span", is_end=True),
        )
        if rows[0] >= rows[1]:
            raise InputError(
                f"{self.folder}: the span must begin before it ends, found {span}"
            )
        return series.blocks(columns, step_ms, rows)

    @checked_arguments
    def facility(self, columns: ColumnNames | None = None) -> pd.DataFrame:
        """Return the power series, indexed by zone-aware `timestamp` (interval start).

        Floats are float64, though the file stores float32.
        """
        return self.series().frame(None if columns is None else as_list(columns))

    @checked_arguments
    def jobs(self, columns: ColumnNames | None = None) -> pd.DataFrame:
        """Return the jobs in the order of submission.

        Raises an error for a run without jobs, as it has no such file.
        """
        names = None if columns is None else as_list(columns)
        kinds: dict[str, Kind] = dict.fromkeys(names or (), "any")
        with open_parquet(self.folder / JOBS_FILE, kinds, remedy=CHANGED) as file:
            return to_pandas_frame(file.read(columns=names))

    @property
    def event_windows(self) -> dict[str, dict[str, Any]]:
        """The worst windows, recorded at 0.1 s, by name, as in the metrics.

        Empty if the run recorded none.

        Raises
        ------
        InputError
            If the metrics are damaged.
        """
        windows = (self.metrics.get("zooms") or {}).get("windows") or []
        return {str(entry["name"]): entry for entry in windows}

    def event_window(self, name: str, columns: list[str] | None = None) -> pd.DataFrame:
        """Return an event window's power series, indexed as in `facility`.

        Raises
        ------
        InputError
            If the run has no such event window, or its file can't be read.
        """
        return self.series(name).frame(columns)

    def event_window_entry(self, name: str) -> dict[str, Any]:
        """Return the metrics of an event window, or raise an error if there is none."""
        windows = self.event_windows
        if not windows:
            raise InputError(
                f"{self.folder}: the run keeps no event windows; run again with "
                "--event-windows to have its worst moments at 0.1 s"
            )
        if name not in windows:
            raise InputError(
                f"{self.folder}: no event window '{name}' (have: {one_of(windows)})"
                f"{did_you_mean(name, windows)}"
            )
        return windows[name]

    def _event_window_series(self, name: str) -> RunSeries:
        """Return the series of an event window."""
        entry, path = (
            self.event_window_entry(name),
            self.folder / ZOOMS_FOLDER / f"{name}.parquet",
        )
        step_ms = round(self.metrics["zooms"]["resolution_s"] * MS_PER_S)
        n_rows = round(entry["window_s"] * MS_PER_S / max(step_ms, 1))
        with open_parquet(path, {"timestamp": "time"}, remedy=CHANGED) as file:
            first = next(file.iter_batches(1, columns=["timestamp"]), None)
            timestamp = (
                first.column(0)[0]
                if first
                else pa.scalar(None, pa.timestamp("ms", "UTC"))
            )
            start_ms = (
                timestamp.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).as_py()
            )
        event_time = datetime.fromisoformat(entry["at"])
        start = (
            event_time
            if start_ms is None
            else event_time
            + timedelta(
                milliseconds=start_ms - round(event_time.timestamp() * MS_PER_S)
            )
        )
        return RunSeries(self.folder, path, start, step_ms, n_rows, name)

    def _read_result(self, name: str) -> dict[str, Any]:
        """Read a file of results, and check that it is unchanged since the run."""
        path = self.folder / name
        content: dict[str, Any] = read_json(path, dict)
        # Older runs have no hashes
        recorded_hash = self.manifest.get("results_sha256", {}).get(name)
        if recorded_hash not in (None, hashlib.sha256(path.read_bytes()).hexdigest()):
            raise InputError(
                f"{one_line(str(path))}: is not what the run wrote; {CHANGED}"
            )
        return self._with_groups(path, content)

    def _with_groups(
        self, path: Path, content: dict[str, Any], remedy: str = ""
    ) -> dict[str, Any]:
        """Return a file's content, with one-line errors for missing keys."""
        result: dict[str, Any] = with_groups(
            content, f"{one_line(str(path))}: ", remedy
        )
        return result


AnyRun: TypeAlias = Annotated[
    InstanceOf[RunFolder] | Path | str, allowed("a run or its folder")
]
