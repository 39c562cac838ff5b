"""Import ``nvidia-smi --query-gpu=timestamp,power.draw,... --format=csv -lms 100``: GPU power.

A file is the log of one machine; several are summed over the time that they share. Such logs know
nothing of the CPUs: the boundary says so, unless a constant is added for them.

References
----------
.. [1] NVML API reference, nvmlDeviceGetPowerUsage: "On Ampere (except GA100) or newer GPUs, the API
   returns power averaged over 1 sec interval". ``power.draw`` and ``power.draw.average`` show it;
   ``power.draw.instant`` does not average.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from diploee.errors import LogFormatError
from diploee.importers.power_logs.nvidia_smi_log import MachineLog, read_machine_log
from diploee.profiles.profile import GPU_POWER, PowerProfile, Provenance, check_argument
from diploee.profiles.resample import (
    US_PER_MS,
    joint_power_w,
    round_keeping_energy,
    unshared_s,
    usable_bandwidth_hz,
)
from diploee.scenario.bounds import MAX_NODES, MAX_POWER_W
from diploee.units import MS_PER_DAY, MS_PER_S, PROFILE_STEP_MS

WINDOWS_S = {"power.draw.instant": 0.0, "power.draw": 1.0, "power.draw.average": 1.0}
"""Window that the driver averages a column over [s]."""
MAX_READING_W = 2_500.0
MAX_GAP_S = 3_600.0


def import_nvidia_smi(
    paths: Sequence[Path | str],
    *,
    workload: str,
    profile_id: str | None = None,
    n_nodes: int | None = None,
    n_gpus: int | None = None,
    add_w: float = 0.0,
    step_ms: int = PROFILE_STEP_MS,
    source: str = "",
    licence: str = "unknown",
    averaging_window_s: float | None = None,
    max_reading_w: float = MAX_READING_W,
    max_gap_s: float = MAX_GAP_S,
) -> PowerProfile:
    """Import ``nvidia-smi`` logs of one job as one whole-job profile.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        Logs, one per machine; of a folder all ``*.csv``, ``*.log`` and ``*.txt`` in it, packed
        or not.
    workload : str
        Workload, as scenarios name it.
    profile_id : str, optional
        Id of the profile, ``<workload>-<nodes>n`` by default.
    n_nodes : int, optional
        Nodes of the job; one per file where not given.
    n_gpus : int, optional
        GPUs of a file without a column that tells them apart; inferred from the ticks where not
        given.
    add_w : float
        Constant that stands for the CPUs of a node, which such logs don't have [W].
    step_ms : int
        Step of the profile [ms].
    source, licence : str
        For the provenance; the source is the file names where not given.
    averaging_window_s : float, optional
        Window over which the driver averages [s]; where not given, 0 for ``power.draw.instant``
        and 1 s for the others, as on Ampere (but GA100) and newer.
    max_reading_w : float
        Readings of one GPU above this are bridged like failed ones [W].
    max_gap_s : float
        Longest gap that is bridged [s]; longer ones are refused.
    """
    _check_arguments(n_nodes, n_gpus, add_w, averaging_window_s, step_ms)
    if not paths:
        raise LogFormatError("no nvidia-smi log given; give one per machine")
    machines = [
        read_machine_log(path, n_gpus, max_reading_w, max_gap_s)
        for given in paths
        for path in _logs(Path(given))
    ]
    nodes = len(machines) if n_nodes is None else n_nodes
    curves = [curve for machine in machines for curve in machine.curves]
    power_w = joint_power_w(curves, step_ms * US_PER_MS)
    if power_w.size == 0:
        raise LogFormatError(
            f"{machines[0].path}: its GPUs and those of the other {len(machines) - 1} files share "
            f"less than a step of {step_ms} ms; give the logs of one job"
        )
    interval_s = max(machine.interval_s for machine in machines)
    columns = sorted({machine.column for machine in machines})
    window_s = averaging_window_s
    if window_s is None:
        window_s = max(WINDOWS_S[column] for column in columns)
    counts: Counter[str] = Counter()
    for machine in machines:
        counts.update(machine.counts)
    counts["seconds_that_not_all_gpus_cover"] = unshared_s(curves)
    provenance = Provenance(
        kind="measured",
        source=source or ", ".join(machine.path.name for machine in machines),
        licence=licence,
        sampling_interval_s=interval_s,
        averaging_window_s=window_s,
        bandwidth_hz=usable_bandwidth_hz(interval_s, window_s),
        source_sha256=hashlib.sha256("".join(m.sha256 for m in machines).encode()).hexdigest()
        if len(machines) > 1
        else machines[0].sha256,
        power_boundary=_boundary(add_w),
        notes=_notes(machines, columns, len(curves), window_s, averaging_window_s is None),
        counts=dict(counts),
        gpus_per_node=len(curves) // nodes if len(curves) % nodes == 0 else None,
    )
    return PowerProfile(
        profile_id or f"{workload}-{nodes}n",
        workload,
        nodes,
        step_ms,
        round_keeping_energy(power_w + add_w * nodes),
        provenance,
    )


def _logs(path: Path) -> list[Path]:
    """Return the logs of a folder, or the one that was given."""
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.iterdir() if {".csv", ".log", ".txt"} & set(p.suffixes[-2:]))
    if not found:
        raise LogFormatError(f"{path}: no log in this folder, expected '*.csv', '*.log' or '*.txt'")
    return found


def _check_arguments(
    n_nodes: int | None,
    n_gpus: int | None,
    add_w: float,
    averaging_window_s: float | None,
    step_ms: int,
) -> None:
    check_argument("n_nodes", n_nodes, 1, MAX_NODES)
    check_argument("n_gpus", n_gpus, 1, MAX_NODES)
    check_argument("step_ms", step_ms, 1, MS_PER_DAY)
    check_argument("add_w", add_w, 0, MAX_POWER_W)
    check_argument("averaging_window_s", averaging_window_s, 0, MS_PER_DAY / MS_PER_S)


def _boundary(add_w: float) -> str:
    if add_w == 0:
        return GPU_POWER
    return (
        f"GPU power as measured, plus a constant {add_w:g} W per node for its CPUs, which is "
        "assumed; no memory, network, fans or power supply"
    )


def _notes(
    machines: list[MachineLog], columns: list[str], n_gpus: int, window_s: float, assumed: bool
) -> str:
    longest = max(machine.longest_gap_s for machine in machines)
    how = (
        "the driver does not average it"
        if window_s == 0
        else f"the driver averages it over {window_s:g} s"
    )
    return (
        f"'{', '.join(columns)}' of {n_gpus} GPUs, naive local time; {how}"
        f"{' (as on Ampere, but GA100, and newer)' if assumed and window_s else ''}; readings "
        f"joined by straight lines; longest time between good readings of a GPU {longest:g} s"
    )
