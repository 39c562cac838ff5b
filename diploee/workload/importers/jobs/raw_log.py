"""`RawLog`: what an importer makes of a file, before the rules that all formats share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from diploee.tables import Float64Array, Int16Array, Int32Array, Int64Array, Table, column


@dataclass(frozen=True, eq=False)
class RawJobs(Table):
    """Rows of a log as it says them, in the order of the file.

    Times are `MISSING_MS`, counts and energies NaN where the log has none; a run time may be zero
    or negative. The columns are those of `JobRecords`, `run_ms` is the logged run time.
    """

    submit_ms: Int64Array = column("int64")
    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    run_ms: Int64Array = column("int64")
    n_nodes: Float64Array = column("float64")
    n_gpus: Float64Array = column("float64")
    state_id: Int16Array = column("int16")
    type_id: Int32Array = column("int32")
    energy_j: Float64Array = column("float64")


@dataclass(frozen=True, eq=False)
class RawLog:
    """What an importer makes of a file.

    Parameters
    ----------
    rows : RawJobs
        One row for each row of the file that may be a job.
    types : tuple of str
        Names by `type_id`.
    job_ids : pyarrow.Array of string, or None
        Names of the jobs, null where missing; None where the format has none.
    utc_offset_min : int or None
        Offset of local time [min]; None where the origin of the times is not known.
    dropped, repaired, noted : mapping of str to int
        What the importer already did, by cause; rows dropped here are not among `rows`.
    node_rule : str
        What the importer took as a node, where it made node counts of processors.
    runs_share_id : bool
        A job id may come back with another start, as a requeued job's does in Slurm.
    dates_are_shifted : bool
        See `JobLog`.
    """

    rows: RawJobs
    types: tuple[str, ...]
    job_ids: pa.Array | None
    utc_offset_min: int | None
    dropped: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    noted: Mapping[str, int] = field(default_factory=dict)
    node_rule: str = ""
    runs_share_id: bool = False
    dates_are_shifted: bool = False
