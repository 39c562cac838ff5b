"""Reading a run folder back: metrics, manifest, and the series as pandas frames."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import InputError
from diploee.outputs.facility_file import FACILITY_FILE
from diploee.outputs.folder import MANIFEST
from diploee.outputs.jobs_file import JOBS_FILE
from diploee.outputs.manifest import METRICS_FILE, SCHEMA_VERSION
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
