"""Import WattAMeter logs: the measured GPU and CPU power of all nodes of one job.

A node is one NVML log (GPUs) with one RAPL log (CPU packages), or one CodeCarbon log of
WattAMeter 0.5 that holds both. The job's power is their sum over the nodes, over the time that all
logs share. Readings of power are joined by straight lines, as in the published data set; CPU power
comes from counter differences. The resampling is exact in energy: each step of the profile is
the difference of the cumulative energy at its edges. How readings are repaired stands in
`diploee.importers.power_logs.wattameter_power`.

References
----------
.. [1] WattAMeter, https://github.com/NatLabRockies/WattAMeter
.. [2] Data set of arXiv:2604.07345, doi:10.7799/3025227
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NoReturn

import numpy as np

from diploee.errors import LogFormatError, one_of
from diploee.importers.power_logs.curves import Device, measured, sum_w
from diploee.importers.power_logs.wattameter_log import WattAMeterLog, parse_log
from diploee.importers.power_logs.wattameter_power import (
    AMD_COUNTER_RANGE_J,
    ReadingLimits,
    log_power,
)
from diploee.profiles.profile import PowerProfile, check_argument
from diploee.profiles.resample import US_PER_S
from diploee.scenario.loading import MAX_POWER_W
from diploee.textio.source import read_bytes
from diploee.units import MS_PER_DAY, PROFILE_STEP_MS, S_PER_DAY

MAX_READING_W = 800.0
MAX_GAP_S = 3_600.0
NODE_DEVICES = frozenset({"gpu", "cpu"})

_KIND_PREFIX = re.compile(r"^(nvml|rapl)(_\d+)*_", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_HOST = re.compile(r"node_([^_]+?)(?:\.log)?$")


@dataclass(frozen=True, order=True)
class _Name:
    """Facts in a file's name: the Slurm job, the node, and the path."""

    slurm_id: str
    node: str
    path: Path

    @classmethod
    def of(cls, path: Path) -> _Name:
        slurm_id = _SLURM_ID.search(path.name)
        host = _HOST.search(path.name)
        node = host[1] if host else _KIND_PREFIX.sub("", path.name)
        return cls(slurm_id[1] if slurm_id else "", node, path)


def import_wattameter(
    paths: Sequence[Path | str],
    *,
    workload: str,
    profile_id: str | None = None,
    n_nodes: int | None = None,
    slurm_id: str | None = None,
    step_ms: int = PROFILE_STEP_MS,
    source: str = "",
    licence: str = "unknown",
    averaging_window_s: float = 1.0,
    max_reading_w: float = MAX_READING_W,
    counter_range_j: float = AMD_COUNTER_RANGE_J,
    max_gap_s: float = MAX_GAP_S,
) -> PowerProfile:
    """Import the WattAMeter logs of one job as one whole-job profile.

    Logs are paired by the ``node_<host>`` part of their names, else by the name after ``nvml_`` or
    ``rapl_``; a single pair needs no such name. In a folder, the ``*.log`` files with ``nvml`` or
    ``rapl`` in their name are taken, or all where there is none.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, or folders of logs.
    workload : str
        Workload, as scenarios name it.
    profile_id : str, optional
        Id of the profile, ``<workload>-<nodes>n`` by default.
    n_nodes : int, optional
        Expected node count; the logs must have as many nodes.
    slurm_id : str, optional
        Take only the logs of this Slurm job.
    step_ms : int
        Step of the profile [ms].
    source, licence : str
        For the provenance; the source is the file names where not given.
    averaging_window_s : float
        Window over which the driver averages its readings [s]: 1 s on H100.
    max_reading_w : float
        Power readings of one device above this are dropped and back-filled [W].
    counter_range_j : float
        Energy at which the CPU counters wrap [J].
    max_gap_s : float
        Longest gap that is bridged [s]; longer ones are refused.
    """
    check_argument("step_ms", step_ms, 1, MS_PER_DAY)
    check_argument("averaging_window_s", averaging_window_s, 0, S_PER_DAY)
    check_argument("max_reading_w", max_reading_w, 1, MAX_POWER_W)
    check_argument("counter_range_j", counter_range_j, 1, MAX_POWER_W * S_PER_DAY)
    check_argument("max_gap_s", max_gap_s, 0, 366 * S_PER_DAY)
    limits = ReadingLimits(max_reading_w, counter_range_j, max_gap_s)
    names = _one_job(_find(paths), slurm_id)
    digest = hashlib.sha256()
    logs = {}
    for name in sorted(names, key=lambda name: (name.path.name, name.path)):
        data = read_bytes(name.path)
        digest.update(data)
        logs[name] = parse_log(name.path, data)
    n_found = _count_nodes(logs)
    if n_nodes is not None and n_nodes != n_found:
        raise LogFormatError(
            f"{names[0].path.parent}: logs of {n_found} nodes, expected {n_nodes}; "
            "give the logs of all nodes of one job, or correct the node count"
        )
    counts: Counter[str] = Counter()
    devices = [device for log in logs.values() for device in log_power(log, limits, counts)]
    power_w = sum_w(devices, step_ms, counts, "seconds_that_not_all_logs_cover")
    interval_us = float(np.median([log.interval_us for log in logs.values()]))
    return measured(
        profile_id or f"{workload}-{n_found}n",
        workload,
        n_found,
        step_ms,
        power_w,
        hashes=[digest.hexdigest()],
        interval_s=round(interval_us / US_PER_S, 6),
        window_s=averaging_window_s,
        counts=counts,
        source=source or ", ".join(path.name for path in sorted(log.path for log in logs.values())),
        licence=licence,
        notes=_notes(devices),
    )


def _find(paths: Sequence[Path | str]) -> list[_Name]:
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            logs = sorted(path.glob("*.log"))
            if not logs:
                raise LogFormatError(f"{path}: no *.log in this folder; give a folder of logs")
            known = [log for log in logs if re.search("nvml|rapl", log.name, re.IGNORECASE)]
            found.update(dict.fromkeys(known or logs))
        else:
            found[path] = None
    if not found:
        raise LogFormatError("no WattAMeter log given; give NVML and RAPL logs or their folder")
    return sorted(map(_Name.of, found))


def _one_job(names: list[_Name], slurm_id: str | None) -> list[_Name]:
    ids = sorted({name.slurm_id for name in names if name.slurm_id})
    folder = names[0].path.parent
    if slurm_id is not None:
        if slurm_id not in ids:
            raise LogFormatError(
                f"{folder}: no log of Slurm job {slurm_id} (have: {one_of(ids)}); choose one"
            )
        return [name for name in names if name.slurm_id == slurm_id]
    if len(ids) > 1:
        raise LogFormatError(
            f"{folder}: logs of {len(ids)} Slurm jobs ({one_of(ids)}), expected one; "
            "choose one with 'slurm_id'"
        )
    return names


def _count_nodes(logs: dict[_Name, WattAMeterLog]) -> int:
    """Return the number of nodes once each has its GPUs and its CPUs."""
    if len(logs) == 2:
        # Just one pair, whatever the names: they name two nodes only where both hold a host.
        first, second = logs.values()
        hosts = {match[1] for log in (first, second) if (match := _HOST.search(log.path.name))}
        if len(hosts) < 2 and {first.device_types, second.device_types} == {
            frozenset({"gpu"}),
            frozenset({"cpu"}),
        }:
            return 1
    by_node = groupby(sorted(logs), key=lambda name: (name.slurm_id, name.node))
    n_nodes = 0
    for _, group in by_node:
        _check_node([logs[name] for name in group])
        n_nodes += 1
    return n_nodes


def _check_node(logs: list[WattAMeterLog]) -> None:
    for device in ("gpu", "cpu"):
        having = [log for log in logs if device in log.device_types]
        if len(having) > 1:
            raise LogFormatError(
                f"{having[1].path}: a second log of {device.upper()} power of one node, after "
                f"{having[0].path.name}, expected one; leave one out"
            )
    present = frozenset[str]().union(*(log.device_types for log in logs))
    if present != NODE_DEVICES:
        _fail_unpaired(logs[0], *(NODE_DEVICES - present))


def _fail_unpaired(log: WattAMeterLog, missing: str) -> NoReturn:
    kind = {"gpu": "an NVML log (GPUs)", "cpu": "a RAPL log (CPU packages)"}[missing]
    raise LogFormatError(
        f"{log.path}: no partner, expected {kind} of the same node; "
        "add it, with the same 'node_<host>' in its name"
    )


def _notes(devices: list[Device]) -> str:
    start = max(device.curve.t_us[0] for device in devices).astype("datetime64[us]")
    end = min(device.curve.t_us[-1] for device in devices).astype("datetime64[us]")
    longest = max(devices, key=lambda device: device.longest_gap_s)
    return (
        f"{start} to {end} naive local time; "
        "power readings joined by straight lines, CPU power from energy counters; "
        "a remainder of less than a step at the end is left out; longest time between good "
        f"readings {longest.longest_gap_s:g} s ({Path(longest.name).name})"
    )
