"""One profile, one Parquet file: `t_ms` and `power_w`, provenance in the file's metadata.

The columns are `t_ms` (int64, start of the step, from 0) and `power_w` (float32, or int32 where
every value is a whole watt below 2^31, which packs four times smaller). The key ``diploee.profile``
of the file's metadata holds the rest of `PowerProfile` as JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import ProfileError, one_line, one_of
from diploee.files import whole_file
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.tables import BoolArray, Float32Array

METADATA_KEY = b"diploee.profile"
SCHEMA_VERSION = 1
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def write_profile(profile: PowerProfile, path: Path) -> None:
    """Write a profile, whole or not at all; the same profile and pyarrow give the same bytes.

    Raises
    ------
    OutputError
        If the file can't be written.
    """
    power_w = profile.power_w
    whole_watts = bool(np.all(_fits_int32(power_w)))
    head = {
        "schema_version": SCHEMA_VERSION,
        "profile_id": profile.profile_id,
        "workload": profile.workload,
        "n_nodes": profile.n_nodes,
        "dt_ms": profile.dt_ms,
        "sha256": profile.sha256,
        "provenance": asdict(profile.provenance),
    }
    table = pa.table(
        {
            "t_ms": np.arange(power_w.size, dtype=np.int64) * profile.dt_ms,
            "power_w": power_w.astype(np.int32) if whole_watts else power_w,
        }
    ).replace_schema_metadata({METADATA_KEY: json.dumps(head, sort_keys=True)})
    with whole_file(path) as partial:
        pq.write_table(
            table,
            partial,
            compression="zstd",
            compression_level=9,
            use_dictionary=False,
            column_encoding={
                "t_ms": "DELTA_BINARY_PACKED",
                "power_w": "DELTA_BINARY_PACKED" if whole_watts else "BYTE_STREAM_SPLIT",
            },
        )


def add_profile(profile: PowerProfile, folder: Path, force: bool = False) -> Path:
    """Add a profile to the library in a folder.

    Returns
    -------
    pathlib.Path
        Its file, ``<profile id>.parquet``.

    Raises
    ------
    ProfileError
        If its id can't be a file name, or is taken and `force` is not set.
    OutputError
        If the file can't be written.
    """
    path = place_of(profile.profile_id, folder, force)
    write_profile(profile, path)
    return path


def place_of(profile_id: str, folder: Path, force: bool = False) -> Path:
    """Return the file that a profile of an id gets in the library of a folder.

    Raises
    ------
    ProfileError
        If the id can't be a file name, or is taken and `force` is not set.
    """
    if not _FILE_NAME.fullmatch(profile_id):
        raise ProfileError(
            f"profile id '{one_line(profile_id)}': use letters, digits, '.', '_' and '-' only"
        )
    path = folder / f"{profile_id}.parquet"
    if path.exists() and not force:
        raise ProfileError(f"{path}: exists already; choose another id, or --force to replace it")
    return path


class StoredProfile:
    """A profile on disk: its head is read at once, its power when it is first asked for.

    Raises
    ------
    ProfileError
        If the file is not a readable Parquet file of a profile.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # The handle is closed here: a library may hold thousands of profiles.
            with pq.ParquetFile(path) as file:
                metadata = file.schema_arrow.metadata or {}
                self.n_samples: int = file.metadata.num_rows
        except (OSError, pa.ArrowException) as error:
            raise ProfileError(
                f"{path}: not a readable Parquet file ({_first_line(error)}); "
                "is it complete? Import or build it again"
            ) from error
        if METADATA_KEY not in metadata:
            raise ProfileError(
                f"{path}: no '{METADATA_KEY.decode()}' in the file's metadata, so it is not a "
                "power profile; bring measured data in with 'diploee profiles import'"
            )
        try:
            head: dict[str, Any] = json.loads(metadata[METADATA_KEY])
            if head["schema_version"] != SCHEMA_VERSION:
                raise ProfileError(
                    f"{path}: schema version {head['schema_version']}, "
                    f"this version reads {SCHEMA_VERSION}; import or build the profile again"
                )
            self.profile_id = str(head["profile_id"])
            self.workload = str(head["workload"])
            self.n_nodes = int(head["n_nodes"])
            self.dt_ms = int(head["dt_ms"])
            self.sha256 = str(head["sha256"])
            self.provenance = Provenance(**head["provenance"])
            if min(self.n_nodes, self.dt_ms, self.n_samples) < 1:
                raise ProfileError(
                    f"{path}: {self.n_nodes} nodes, step of {self.dt_ms} ms, {self.n_samples} "
                    "samples; each must be 1 or more; import or build the profile again"
                )
        except (KeyError, TypeError, ValueError) as error:
            raise ProfileError(
                f"{path}: metadata '{METADATA_KEY.decode()}' is not complete ({error!r}); "
                "import or build the profile again"
            ) from error

    @property
    def duration_ms(self) -> int:
        """Length of the profile [ms]."""
        return self.n_samples * self.dt_ms

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the head alone; the power is read again from the file."""
        return {name: value for name, value in self.__dict__.items() if name != "profile"}

    @cached_property
    def profile(self) -> PowerProfile:
        """The profile with its power, checked for gaps, steps and values."""
        try:
            table = pq.read_table(self.path, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise ProfileError(
                f"{self.path}: the data can't be read ({_first_line(error)}); "
                "import or build the profile again"
            ) from error
        t_ms = self._values(table, "t_ms", pa.int64())
        power_w = self._values(table, "power_w", pa.float32())
        steps_ms = np.diff(t_ms)
        wrong = np.flatnonzero(steps_ms != self.dt_ms)
        if wrong.size:
            raise ProfileError(
                f"{self.path}: step after row {wrong[0]} is {steps_ms[wrong[0]]} ms, expected "
                f"{self.dt_ms} ms without gaps ({wrong.size} such rows); resample the data"
            )
        try:
            profile = PowerProfile(
                self.profile_id, self.workload, self.n_nodes, self.dt_ms, power_w, self.provenance
            )
        except ProfileError as error:
            raise ProfileError(f"{self.path}: {error}") from error
        if profile.sha256 != self.sha256:
            raise ProfileError(
                f"{self.path}: the power does not have the SHA-256 {self.sha256:.8}... of the "
                "file's metadata, so it was changed; import or build the profile again"
            )
        return profile

    def _values(self, table: pa.Table, name: str, kind: pa.DataType) -> np.ndarray[Any, Any]:
        if name not in table.column_names:
            raise ProfileError(
                f"{self.path}: column '{name}' is missing (found: {one_of(table.column_names)})"
            )
        try:
            values: np.ndarray[Any, Any] = table[name].cast(kind, safe=False).to_numpy()
        except pa.ArrowException as error:
            raise ProfileError(
                f"{self.path}: column '{name}' is of type {table[name].type}, expected numbers"
            ) from error
        return values


def read_profile(path: Path) -> PowerProfile:
    """Read and check one profile file.

    Raises
    ------
    ProfileError
        If the file or its values are not usable; the text names the file, the row and the remedy.
    """
    return StoredProfile(path).profile


def _fits_int32(power_w: Float32Array) -> BoolArray:
    """Return which values come back from int32 bit by bit: -0.0 and large ones do not."""
    fits: BoolArray = (power_w == np.rint(power_w)) & (power_w < 2**31) & ~np.signbit(power_w)
    return fits


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0]
