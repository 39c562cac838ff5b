"""Reading a run folder back: metrics, manifest, and the series as pandas frames."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import InputError, did_you_mean, one_of
from diploee.outputs.facility_file import FACILITY_FILE
from diploee.outputs.folder import MANIFEST
from diploee.outputs.jobs_file import JOBS_FILE
from diploee.outputs.manifest import METRICS_FILE, SCHEMA_VERSION
from diploee.outputs.zooms_file import ZOOMS_FOLDER
from diploee.scenario import Scenario, scenario_from_dict

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """A finished run.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    """

    folder: Path

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The metrics, as in ``metrics.json``."""
        return self._json(METRICS_FILE)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Scenario, profiles, versions, warnings and timing, as in ``manifest.json``."""
        return self._json(MANIFEST)

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario as it was resolved for the run."""
        return scenario_from_dict(self.manifest["scenario"])

    def facility(self, columns: list[str] | None = None) -> pd.DataFrame:
        """Return the power series, indexed by `timestamp` (zone-aware, start of the interval)."""
        wanted = None if columns is None else ["timestamp", *columns]
        frame: pd.DataFrame = self._table(FACILITY_FILE, wanted).to_pandas()
        return frame.set_index("timestamp")

    def jobs(self, columns: list[str] | None = None) -> pd.DataFrame:
        """Return the jobs in the order of submission; a run without jobs has no such file."""
        frame: pd.DataFrame = self._table(JOBS_FILE, columns).to_pandas()
        return frame

    @property
    def zooms(self) -> dict[str, dict[str, Any]]:
        """The worst windows kept at 0.1 s, by name, as in the metrics; empty without any.

        Raises
        ------
        InputError
            If the metrics hold them in another form.
        """
        try:
            windows = (self.metrics.get("zooms") or {}).get("windows") or []
            return {str(entry["name"]): entry for entry in windows}
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError(
                f"{self.folder / METRICS_FILE}: block 'zooms' is damaged ({error!r}); run again"
            ) from error

    def zoom(self, name: str, columns: list[str] | None = None) -> pd.DataFrame:
        """Return the power series of a zoom, indexed by `timestamp` as in `facility`.

        Raises
        ------
        InputError
            If the run keeps no such zoom, or its file can't be read.
        """
        wanted = None if columns is None else ["timestamp", *columns]
        file = self.zoom_file(name).relative_to(self.folder)
        frame: pd.DataFrame = self._table(str(file), wanted).to_pandas()
        return frame.set_index("timestamp")

    def zoom_entry(self, name: str) -> dict[str, Any]:
        """Return what the metrics say of a zoom.

        Raises
        ------
        InputError
            If the run keeps none of that name.
        """
        have = self.zooms
        if not have:
            raise InputError(
                f"{self.folder}: the run keeps no zooms; run again with --zooms to have its worst "
                "windows at 0.1 s"
            )
        if name not in have:
            raise InputError(
                f"{self.folder}: no zoom '{name}' (have: {one_of(have)}){did_you_mean(name, have)}"
            )
        return have[name]

    def zoom_file(self, name: str) -> Path:
        """Return where a zoom of the run stands.

        Raises
        ------
        InputError
            If the run keeps none of that name, or its file is gone.
        """
        self.zoom_entry(name)
        path = self.folder / ZOOMS_FOLDER / f"{name}.parquet"
        if not path.is_file():
            raise InputError(f"{path}: no such file in this run folder")
        return path

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.folder / name).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / name}: can't be read ({error})") from error
        if not isinstance(content, dict):
            raise InputError(f"{self.folder / name}: must hold a JSON object, found another value")
        return content

    def _table(self, name: str, columns: list[str] | None) -> pa.Table:
        path = self.folder / name
        if not path.is_file():
            raise InputError(f"{path}: no such file in this run folder")
        try:
            return pq.read_table(path, columns=columns, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: can't be read ({str(error).splitlines()[0]})") from error


def open_run(folder: Path | str) -> Run:
    """Open a run folder.

    Raises
    ------
    InputError
        If it is none, or was written by a newer version.
    """
    run = Run(Path(folder))
    if not (run.folder / MANIFEST).is_file():
        raise InputError(f"{folder}: not a run folder (no {MANIFEST}); 'diploee run' makes one")
    found = run.manifest.get("schema_version")
    if found != SCHEMA_VERSION:
        raise InputError(
            f"{folder}: schema version {found}, this version of diploee reads {SCHEMA_VERSION}"
        )
    return run
