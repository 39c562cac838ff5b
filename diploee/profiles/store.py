"""Storage of power profiles, one Parquet file each.

The columns are `t_ms` (int64, start of the step, from 0) and `power_w` (float32, or
int32 if every value is a whole watt below 2^31, which compresses four times better).
The metadata key ``diploee.profile`` contains the other fields of `PowerProfile` as
JSON.

See also: docs/models/formats.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from diploee.base.errors import ProfileError, shown
from diploee.base.files import whole_file
from diploee.base.model import MAX_NODES, Name
from diploee.base.tables import (
    BoolArray,
    Float32Array,
    Int64Array,
    Kind,
    arrow_numbers,
    as_numpy,
    open_parquet,
)
from diploee.base.units import MS_PER_DAY
from diploee.base.validation import SHA256, Record, parse_json, validate_record
from diploee.profiles.profile import PowerProfile, Provenance

NOT_WRITTEN: dict[str, Any] = {
    "power_factor": 1.0,
    "meter": None,
    "restored": False,
    "restored_hz": None,
    "repairs": [],
}
"""Values of keys that older files lack; they are not written."""
METADATA_KEY = b"diploee.profile"
SCHEMA_VERSION = 1
MAX_STEP_MS = MS_PER_DAY
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COLUMNS: dict[str, Kind] = {"t_ms": "number", "power_w": "number"}
_REMEDY = "import or build the profile again"


class _ProfileHead(Record):
    """Metadata that a profile's file must contain."""

    workload: Name
    n_nodes: Annotated[int, Field(ge=1, le=MAX_NODES)]
    profile_id: Name
    dt_ms: Annotated[int, Field(ge=1, le=MAX_STEP_MS)]
    sha256: Annotated[str, Field(pattern=SHA256)]
    provenance: Provenance


def write_profile(
    profile: PowerProfile,
    path: Path,
    force: bool = False,
    inputs: Iterable[Path] = (),
) -> None:
    """Write a profile atomically.

    The same profile and pyarrow version give the same bytes.

    Parameters
    ----------
    profile : PowerProfile
        The profile.
    path : pathlib.Path
        Path of the file.
    force : bool
        Replace an existing file.
    inputs : iterable of pathlib.Path
        Source files, which are never replaced.

    Raises
    ------
    InputError
        If id, node count, step or provenance could not be read back, or the file
        exists.
    OutputError
        If the file can't be written.
    """
    power_w = profile.power_w
    has_whole_watts = bool(np.all(_fits_int32(power_w)))
    head = {
        "schema_version": SCHEMA_VERSION,
        "profile_id": profile.profile_id,
        "workload": profile.workload,
        "n_nodes": profile.n_nodes,
        "dt_ms": profile.dt_ms,
        "sha256": profile.sha256,
        "provenance": {
            k: v
            for k, v in asdict(profile.provenance).items()
            if (k, v) not in NOT_WRITTEN.items()
        },
    }
    validate_record(head, _ProfileHead, f"profile '{profile.profile_id}'", ProfileError)
    table = pa.table(
        {
            "t_ms": arrow_numbers(
                np.arange(power_w.size, dtype=np.int64) * profile.dt_ms
            ),
            "power_w": arrow_numbers(
                power_w.astype(np.int32) if has_whole_watts else power_w
            ),
        }
    ).replace_schema_metadata({METADATA_KEY: json.dumps(head, sort_keys=True)})
    with whole_file(path, force, inputs=inputs, option="id") as partial:
        pq.write_table(
            table,
            partial,
            compression="zstd",
            compression_level=9,
            use_dictionary=False,
            column_encoding={
                "t_ms": "DELTA_BINARY_PACKED",
                "power_w": "DELTA_BINARY_PACKED"
                if has_whole_watts
                else "BYTE_STREAM_SPLIT",
            },
        )


def add_profile(
    profile: PowerProfile,
    folder: Path,
    force: bool = False,
    inputs: Iterable[Path] = (),
) -> Path:
    """Add a profile to the library in a folder.

    Parameters
    ----------
    profile, force, inputs
        As for `write_profile`.
    folder : pathlib.Path
        The library; created if it does not exist.

    Returns
    -------
    pathlib.Path
        The file, ``<profile id>.parquet``.

    Raises
    ------
    InputError
        If the id is no valid file name, or exists and `force` is not set.
    OutputError
        If the file can't be written.
    """
    check_file_name(profile.profile_id)
    path = folder / f"{profile.profile_id}.parquet"
    write_profile(profile, path, force, inputs)
    return path


def check_file_name(profile_id: str) -> None:
    """Raise an error if an id is no valid file name, such as ``../x``."""
    if not _FILE_NAME.fullmatch(profile_id):
        raise ProfileError(
            f"profile id '{profile_id}': use letters, digits, '.', '_' and '-' only"
        )


class StoredProfile:
    """A profile on disk; its power is read when first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The handle is closed here: a library may hold thousands of profiles.
        with open_parquet(path, {}, ProfileError, _REMEDY) as file:
            metadata = file.schema_arrow.metadata or {}
            self.n_samples: int = file.metadata.num_rows
        if METADATA_KEY not in metadata:
            raise ProfileError(
                f"{path}: no '{METADATA_KEY.decode()}' in the file's metadata, so it "
                "is not a power profile; bring measured data in with 'diploee "
                "profiles import'"
            )
        content = parse_json(metadata[METADATA_KEY], str(path), dict, ProfileError)
        if content.get("schema_version") != SCHEMA_VERSION:
            raise ProfileError(
                f"{path}: schema version {shown(content.get('schema_version'))}, "
                f"this version reads {SCHEMA_VERSION}; {_REMEDY}"
            )
        where = f"{path}: metadata '{METADATA_KEY.decode()}'"
        head = validate_record(content, _ProfileHead, where, ProfileError, _REMEDY)
        self.profile_id, self.workload = head.profile_id, head.workload
        self.n_nodes, self.dt_ms, self.sha256 = head.n_nodes, head.dt_ms, head.sha256
        self.provenance: Provenance = head.provenance
        if self.n_samples < 1:
            raise ProfileError(
                f"{path}: holds no sample, expected 1 or more; {_REMEDY}"
            )

    @property
    def duration_ms(self) -> int:
        """Length of the profile [ms]."""
        return self.n_samples * self.dt_ms

    @cached_property
    def profile(self) -> PowerProfile:
        """The profile with its power, checked for gaps, steps and values."""
        t_ms, power_w = self.columns()
        steps_ms = np.diff(t_ms)
        head = self.profile_id, self.workload, self.n_nodes, self.dt_ms
        try:
            if (bad_rows := np.flatnonzero(steps_ms != self.dt_ms)).size:
                raise ProfileError(
                    f"step after row {bad_rows[0]} is {steps_ms[bad_rows[0]]} ms, "
                    f"expected {self.dt_ms} ms without gaps ({bad_rows.size} such "
                    "rows); resample the data"
                )
            profile = PowerProfile(*head, power_w, self.provenance)
        except ProfileError as error:
            raise ProfileError(f"{self.path}: {error}") from error
        if profile.sha256 != self.sha256:
            raise ProfileError(
                f"{self.path}: the power does not have the SHA-256 "
                f"{self.sha256:.8}... of the file's metadata, so it was changed; "
                "import or build the profile again"
            )
        return profile

    def columns(self) -> tuple[Int64Array, Float32Array]:
        """Return the times [ms] and the power [W] in the file; null is -1 and NaN."""
        with open_parquet(self.path, _COLUMNS, ProfileError, _REMEDY) as file:
            table = file.read(columns=list(_COLUMNS))
            # Arrow casts without NumPy's warnings; callers report invalid values
            t_ms = as_numpy(table["t_ms"].cast(pa.int64(), safe=False), np.int64, -1)
            power_w = as_numpy(
                table["power_w"].cast(pa.float32(), safe=False), np.float32
            )
        return t_ms, power_w


def read_profile(path: Path | str) -> PowerProfile:
    """Read and check one profile file.

    Parameters
    ----------
    path : path-like
        Parquet file of a profile.

    Raises
    ------
    ProfileError
        If the file or its values are not usable; the text names the file, the row and
        the remedy.
    """
    return StoredProfile(Path(path)).profile


def _fits_int32(power_w: Float32Array) -> BoolArray:
    """Return True for each value that int32 represents exactly (not -0.0)."""
    fits: BoolArray = (
        (power_w == np.rint(power_w)) & (power_w < 2**31) & ~np.signbit(power_w)
    )
    return fits
