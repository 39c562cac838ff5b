"""Import of measured power in any format as profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diploee.base.errors import ProfileError, plural
from diploee.base.files import check_is_file
from diploee.importers.power_logs.generic_csv import import_plain
from diploee.importers.power_logs.mlperf_power import import_mlperf_power
from diploee.importers.power_logs.nlr_genai import import_nlr_genai
from diploee.importers.power_logs.nvidia_smi import import_nvidia_smi
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.profiles.profile import PowerProfile
from diploee.profiles.store import add_profile


def _one(files: Sequence[Path], what: str) -> Path:
    if len(files) != 1:
        raise ProfileError(
            f"import_profile: expected one {what}, found {plural(len(files), what)}"
        )
    return files[0]


_READERS: Mapping[str, Callable[..., list[PowerProfile]]] = {
    "wattameter": lambda files, **fields: [import_wattameter(files, **fields)],
    "plain": lambda files, **fields: [import_plain(_one(files, "file"), **fields)],
    "nvidia-smi": lambda files, **fields: [import_nvidia_smi(files, **fields)],
    "mlperf-power": lambda files, **fields: import_mlperf_power(
        _one(files, "folder"), **fields
    ),
    "nlr-genai": lambda files, **fields: import_nlr_genai(
        _one(files, "folder"), **fields
    ),
}
FORMATS = tuple(_READERS)


def read_profiles(
    files: Sequence[Path], source_format: str, **fields: Any
) -> list[PowerProfile]:
    """Read measured power in one of the known formats as profiles.

    Parameters
    ----------
    files : sequence of pathlib.Path
        Logs of one job; a folder of runs for ``"mlperf-power"`` and ``"nlr-genai"``.
    source_format : str
        One of `FORMATS`.
    **fields
        Options of the format's importer; None means the default.
    """
    for file in files:
        if not file.is_dir():
            check_is_file(file)
    fields = {name: value for name, value in fields.items() if value is not None}
    return _READERS[source_format](files, **fields)


def add_profiles(
    profiles: Sequence[PowerProfile], out: Path, force: bool, inputs: Sequence[Path]
) -> list[Path]:
    """Add profiles to the library in a folder, and return the written files."""
    return [add_profile(profile, out, force, inputs) for profile in profiles]
