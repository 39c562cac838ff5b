"""What an export reads: the power series of a whole run, or of one of its zooms."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import InputError
from diploee.outputs.facility_file import FACILITY_FILE
from diploee.outputs.manifest import METRICS_FILE
from diploee.outputs.reader import Run
from diploee.tables import Int64Array
from diploee.units import MS_PER_H, MS_PER_S


@dataclass(frozen=True)
class Source:
    """A power series that a run folder holds.

    Parameters
    ----------
    run : Run
        The run.
    path : pathlib.Path
        Its file, with the columns of ``facility.parquet``.
    start : datetime.datetime
        Start of the first interval, in the facility's fixed UTC offset.
    step_ms : int
        Interval of the series [ms].
    n_rows : int
        Number of intervals.
    zoom : str
        Name of the zoom; empty for the whole run.
    """

    run: Run
    path: Path
    start: datetime
    step_ms: int
    n_rows: int
    zoom: str = ""

    @property
    def name(self) -> str:
        """The kind of the series in a word."""
        return "zoom" if self.zoom else "run"

    @property
    def step_s(self) -> float:
        """Interval of the series [s]."""
        return self.step_ms / MS_PER_S

    @property
    def end(self) -> datetime:
        """End of the last interval."""
        return self.start + timedelta(milliseconds=self.n_rows * self.step_ms)

    @property
    def covered(self) -> str:
        """The span as text."""
        hours = self.n_rows * self.step_ms / MS_PER_H
        return f"{self.start.isoformat()} to {self.end.isoformat()} ({hours:,.5g} h)"


def source_of(run: Run, zoom: str | None = None) -> Source:
    """Return the series of a run, or of one of its zooms.

    Raises
    ------
    InputError
        If the run keeps no such zoom, or its file can't be read.
    """
    if zoom is not None:
        return _zoom_source(run, zoom)
    scenario = run.scenario
    return Source(
        run,
        run.folder / FACILITY_FILE,
        scenario.start_with_zone,
        scenario.resolution_ms,
        scenario.n_intervals,
    )


def _zoom_source(run: Run, zoom: str) -> Source:
    entry, path = run.zoom_entry(zoom), run.zoom_file(zoom)
    try:
        step_ms = round(float(run.metrics["zooms"]["resolution_s"]) * MS_PER_S)
        n_rows = round(float(entry["window_s"]) * MS_PER_S / step_ms)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"{run.folder / METRICS_FILE}: block 'zooms' is damaged ({error!r}); run again"
        ) from error
    times_ms = _stamps_ms(path)
    if not times_ms.size or (np.diff(times_ms) != step_ms).any():
        raise InputError(
            f"{path}: its stamps are not {step_ms / MS_PER_S:g} s apart; the run folder was "
            "changed, run it again"
        )
    start = datetime.fromtimestamp(times_ms[0] / MS_PER_S, tz=run.scenario.facility.zone)
    return Source(run, path, start, step_ms, n_rows, zoom)


def _stamps_ms(path: Path) -> Int64Array:
    """Return the stamps of a zoom [ms since 1970 in UTC]."""
    try:
        table = pq.read_table(path, columns=["timestamp"], partitioning=None)
        times = table.column("timestamp").cast(pa.timestamp("ms", "UTC"))
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"{path}: can't be read ({reason})") from error
    result: Int64Array = times.cast(pa.int64()).to_numpy()
    return result
