"""Measured power of every format as profiles, for the commands and for Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diploee.errors import ProfileError, plural
from diploee.files import writing
from diploee.importers.power_logs.mlperf_power import import_mlperf_power
from diploee.importers.power_logs.nvidia_smi import import_nvidia_smi
from diploee.importers.power_logs.plain import import_plain
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.profiles.profile import PowerProfile
from diploee.profiles.store import add_profile
from diploee.profiles.trim import trim_profile


def _plain(files: Sequence[Path], **settings: Any) -> list[PowerProfile]:
    n_nodes = settings.get("n_nodes")
    if len(files) != 1 or n_nodes is None:
        raise ProfileError(
            f"profiles import plain: expected one file and n_nodes, found "
            f"{plural(len(files), 'file')} and {'no ' if n_nodes is None else ''}n_nodes"
        )
    settings["profile_id"] = settings.get("profile_id") or f"{settings['workload']}-{n_nodes}n"
    return [import_plain(files[0], **settings)]


def _mlperf_power(files: Sequence[Path], **settings: Any) -> list[PowerProfile]:
    if len(files) != 1:
        raise ProfileError(
            f"profiles import mlperf-power: expected one folder, found {plural(len(files), 'file')}"
        )
    return import_mlperf_power(files[0], **settings)


_READERS: Mapping[str, Callable[..., list[PowerProfile]]] = {
    "wattameter": lambda files, **settings: [import_wattameter(files, **settings)],
    "plain": _plain,
    "nvidia-smi": lambda files, **settings: [import_nvidia_smi(files, **settings)],
    "mlperf-power": _mlperf_power,
}

DATA_SET = "nlr-genai"
"""The one format that is a whole library, see `import_nlr_genai`."""

FORMATS = (*_READERS, DATA_SET)


def read_profiles(files: Sequence[Path], source_format: str, **settings: Any) -> list[PowerProfile]:
    """Read measured power as profiles.

    Parameters
    ----------
    files : sequence of pathlib.Path
        Logs of one job; of ``"mlperf-power"`` a folder of runs.
    source_format : str
        One of `FORMATS`, but for the data set.
    **settings : object
        Further arguments of the format's importer, None for its own default; `from_s`, `to_s` and
        `idle_w` trim what it reads (`diploee.profiles.trim`).
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    if source_format != "mlperf-power" and not settings.get("workload"):
        raise ProfileError(f"import_profile: '{source_format}' needs a workload, found none")
    ends = {name: settings.pop(name, None) for name in ("from_s", "to_s", "idle_w")}
    profiles = _READERS[source_format](files, **settings)
    profiles[:] = [trim_profile(profile, **ends) for profile in profiles]  # skipped runs stay named
    return profiles


def add_profiles(
    profiles: Sequence[PowerProfile], out: Path, force: bool, inputs: Sequence[Path]
) -> list[Path]:
    """Add profiles to the library in a folder, all or none, and return their files."""
    with writing(force, inputs) as files:
        return [add_profile(profile, out, force, files, inputs) for profile in profiles]
