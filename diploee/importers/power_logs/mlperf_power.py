"""Importer of the node power logs of MLPerf Training submissions.

A run has ``results/<system>/<benchmark>/power/<run>/node_K.txt``, with the MLLOG lines
``power_reading`` of each node, and its events in ``<benchmark>/<run>.txt``. The name of
a submission tells whether power was measured on the AC or the DC side of the power
supplies; ``systems/<system>.json`` describes the hardware.

Invalid readings, such as negative ones, are counted and bridged. If a log starts later
or ends earlier than its run, its first or last power is extended to the run's start or
end. The run is refused if this affects more than the allowed fraction of its time.
Unreadable runs are skipped and reported.

References
----------
.. [1] mlcommons/training_results_v4.0 (Apache-2.0): folders ``smc-ac-power``,
   ``smc-dc-power``
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from diploee.base.errors import LogFormatError, plural, shown
from diploee.base.metric import is_plain_number
from diploee.base.model import MAX_DEVICES, MAX_NODES, MAX_POWER_W
from diploee.base.validation import Record, parse_json, read_json
from diploee.importers.power_logs.options import MLPerfOptions
from diploee.importers.power_logs.readings_to_profile import (
    DeviceReadings,
    ProfilesOfRuns,
    joint_hash,
    measured_profile,
    repaired_device,
    sum_w,
)
from diploee.importers.power_logs.repairs import PowerLog, RepairCount
from diploee.importers.text.text_lines import TextLines, read_text
from diploee.profiles.derived import gpu_tdp_w_by_model
from diploee.profiles.meter_response import known_meter
from diploee.profiles.profile import PowerBoundary, PowerProfile
from diploee.profiles.resample import US_PER_MS, US_PER_S, uncovered_s

BOUNDARIES = {
    "ac": PowerBoundary.NODE_AC,
    "dc": PowerBoundary.NODE_DC,
    "": PowerBoundary.UNKNOWN,
}
MAX_STALLED = 0.2
"""Maximum fraction of a run's time with a stalled logger (published logs: 0.12)."""
PHASES = {"init": "init", "block": "training", "eval": "evaluation"}
"""Phase names by event prefix, such as ``init`` of ``init_start`` and ``init_stop``."""
STEP_GRID_MS = 100

_Spans = dict[str, list[list[int]]]
_MARK = ":::MLLOG"
_EVENT = re.compile(rf'"({"|".join(PHASES)})_(start|stop)"')
_SIDE = re.compile(r"(?<![a-z])(ac|dc)(?![a-z])")
_LATEST_MS = 4_102_444_800_000  # of the year 2100


class _Event(Record):
    """One event of an MLLOG file: key, time [ms since 1970] and value."""

    key: str
    time_ms: Annotated[int, Field(ge=0, le=_LATEST_MS)]
    value: Any = None


class _System(Record):
    """A submission's description of its hardware; numbers may be written as text."""

    number_of_nodes: int | str = ""
    accelerators_per_node: int | str = ""
    accelerator_model_name: str = ""


@dataclass(frozen=True)
class _MeasuredRun:
    """One measured run of a submission: node logs, events, system and benchmark."""

    folder: Path
    logs: tuple[Path, ...]
    events: Path
    system: Path  # results folder of a system
    benchmark: str

    @property
    def submission(self) -> Path:
        return self.system.parent.parent

    @property
    def side(self) -> str:
        result: list[str] = _SIDE.findall(self.submission.name.lower())
        return result[-1] if result else ""

    @property
    def key(self) -> tuple[str, str, str]:
        """System, benchmark and run name, equal for the AC and DC sides of a run."""
        return self.system.name, self.benchmark, self.folder.name


def import_mlperf_power(folder: Path | str, **fields: Any) -> ProfilesOfRuns:
    """Import all runs in a folder of MLPerf submissions as profiles.

    Unreadable runs are skipped. Power is linear between readings. The step is the
    readings' interval, and the bandwidth is that of mean values over one step, as
    instantaneous readings may contain aliases.

    Parameters
    ----------
    folder : pathlib.Path or str
        Folder of one submission, of several, or a subfolder of a submission.
    **fields
        Fields of `diploee.importers.MLPerfOptions`.

    Returns
    -------
    list of PowerProfile
        Profiles of the runs; the list's attribute ``skipped`` has the path and the
        problem of each unreadable run.

    Raises
    ------
    LogFormatError
        If no run can be read.
    """
    options = MLPerfOptions(**fields)
    root = Path(folder).resolve()
    runs = _runs(root)
    if not runs:
        raise LogFormatError(
            f"{folder}: no 'power/<run>/node_K.txt' in it, expected a folder of MLPerf "
            "results; give the folder above 'results'"
        )
    with_ac = {run.key for run in runs if run.side == "ac"}
    chosen = [
        run
        for run in runs
        if options.side == "all"
        or (run.side or options.boundary) == options.side
        or (options.side == "auto" and (run.side != "dc" or run.key not in with_ac))
    ]
    if not chosen:
        result = ", ".join(sorted({run.side or "unknown" for run in runs}))
        raise LogFormatError(
            f"{folder}: no run of side '{options.side}' (found: {result}); give "
            "another side (--side), or the side of what is unknown (--boundary)"
        )
    systems = {path.stem: path for path in sorted(root.rglob("systems/*.json"))}
    profiles, numbers = ProfilesOfRuns(), Counter[str]()
    for run in chosen:
        submission_file = run.submission / "systems" / f"{run.system.name}.json"
        described = (
            submission_file
            if submission_file.is_file()
            else systems.get(run.system.name)
        )
        profiles.add_run(
            str(run.folder), partial(_profile, run, described, numbers, options)
        )
    if not profiles:
        raise LogFormatError(run.problem for run in profiles.skipped)
    return profiles


def _runs(root: Path) -> list[_MeasuredRun]:
    folder_logs: dict[Path, list[Path]] = defaultdict(list)
    for log in sorted(
        root.rglob("node_*.txt"), key=lambda path: (len(path.name), path)
    ):
        if log.parent.parent.name == "power":
            folder_logs[log.parent].append(log)
    runs = []
    for folder, logs in folder_logs.items():
        benchmark = folder.parent.parent
        events = benchmark / f"{folder.name}.txt"
        runs.append(
            _MeasuredRun(folder, tuple(logs), events, benchmark.parent, benchmark.name)
        )
    return sorted(runs, key=lambda run: run.folder)


def _count(value: int | str, path: Path | None, max_count: int) -> int | None:
    """Return a count from a system's description; None if it is empty.

    A count above `max_count` is an error.
    """
    if value == "":
        return None
    if not re.fullmatch(r"\d{1,9}", str(value)) or not 1 <= int(value) <= max_count:
        raise LogFormatError(
            f"{path}: {shown(value)} nodes or accelerators, expected a whole number "
            f"from 1 to {max_count:,}; correct the description of the system"
        )
    return int(value)


def _profile(
    run: _MeasuredRun,
    described: Path | None,
    numbers: Counter[str],
    options: MLPerfOptions,
) -> PowerProfile:
    system = read_json(described, _System, LogFormatError) if described else _System()
    stated = options.n_nodes or _count(system.number_of_nodes, described, MAX_NODES)
    nodes = stated or len(run.logs)
    if len(run.logs) != nodes:
        raise LogFormatError(
            f"{run.folder}: {plural(len(run.logs), 'node log')} of "
            f"{plural(nodes, 'node')}, expected one of each; complete the folder, or "
            "specify the nodes (--nodes)"
        )
    side = run.side or options.boundary or ""
    name = "-".join(filter(None, (run.benchmark, f"{nodes}n", side)))
    numbers[name] += 1
    logs = [
        read_node_log(path, options.max_gap_s, options.max_lost) for path in run.logs
    ]
    curves = [log.curve for log in logs]
    interval_us = max(log.interval_us for log in logs)
    step_ms = max(round(interval_us / US_PER_MS / STEP_GRID_MS), 1) * STEP_GRID_MS
    # The run lasts from the first reading to the last one, and as long as it trains.
    phases = _phases(run.events)
    moments_us = [int(t_us) for curve in curves for t_us in curve.t_us[[0, -1]]]
    phase_us = [t_us for span in phases.get("training", ()) for t_us in span]
    start_us, end_us = min(moments_us + phase_us), max(moments_us + phase_us)
    whole = [log.extended_to(start_us, end_us, options.max_lost) for log in logs]
    power_w, repairs = sum_w(whole, step_ms, options.max_lost)
    lost_us = min(moments_us) - start_us + end_us - max(moments_us)
    series = Counter(
        (curve.t_us.tobytes(), curve.energy_j.tobytes()) for curve in curves
    )
    counts = {
        "readings": sum(log.n_readings for log in logs),
        "seconds_that_not_all_nodes_cover": uncovered_s(curves),
        "seconds_of_the_run_without_readings": lost_us // US_PER_S,
        "nodes_that_share_a_meter": sum(n for n in series.values() if n > 1),
    }
    in_profile = _clip_phases(phases, start_us, power_w.size * step_ms * US_PER_MS)
    gpu = options.gpu or system.accelerator_model_name or None
    return measured_profile(
        (f"{name}-{numbers[name]}", run.benchmark, nodes),
        step_ms,
        power_w,
        options,
        source=str(run.folder.relative_to(run.submission.parent)),
        source_sha256=joint_hash([log.sha256 for log in logs]),
        meter=known_meter("other", gpu, round(interval_us / US_PER_S, 6)),
        repairs=repairs,
        counts=counts,
        notes=_notes(counts, bool(in_profile)),
        phases=in_profile,
        power_boundary=BOUNDARIES[side],
        gpus_per_node=_count(system.accelerators_per_node, described, MAX_DEVICES),
        gpu_tdp_w=options.gpu_tdp_w or gpu_tdp_w_by_model(gpu or ""),
    )


def _notes(counts: dict[str, int], has_phases: bool) -> str:
    notes = {
        (
            "Averaging of the readings unknown: faster swings may be folded into them, "
            "and no more is claimed than means over their interval leave."
        ): True,
        "Readings joined by straight lines.": True,
        "Nodes that share a meter have its mean each.": counts[
            "nodes_that_share_a_meter"
        ],
        "No events of the same clock, so no phases.": not has_phases,
    }
    return " ".join(note for note, applies in notes.items() if applies)


def read_node_log(
    path: Path, max_gap_s: float = 60.0, max_lost: float | None = None
) -> DeviceReadings:
    """Read and repair the ``power_reading`` events in the log of a node."""
    text = read_text(path, "MLLOG lines of power")
    rows = list(text.rows())
    readings = [
        (line, event.time_ms * US_PER_MS, _watts(event.value))
        for (line, _), event in zip(rows, _events(text, rows), strict=True)
        if event.key == "power_reading"
    ]
    lines, stamps_us, powers_w = (
        zip(*readings, strict=True) if readings else ((), (), ())
    )
    t_us, power_w = (
        np.array(stamps_us, dtype=np.int64),
        np.array(powers_w, dtype=np.float64),
    )
    log = PowerLog(path, max_gap_s, max_lost, max_bridged=MAX_STALLED)
    account = RepairCount(log, "", lambda row: f"{path}:{lines[row]}")
    device = repaired_device(account, np.arange(t_us.size), t_us, power_w)
    return replace(device, sha256=text.sha256, n_readings=len(readings))


def _events(text: TextLines, rows: Iterable[tuple[int, str]]) -> list[_Event]:
    """Return the events in numbered MLLOG lines; fail at an invalid line."""
    result = []
    for line, row in rows:
        content = row.partition(_MARK)[2].strip()
        if not content:
            text.fail(line, f"{shown(row[:60])}, expected '{_MARK} {{...}}'")
        try:
            event = _Event.model_validate_json(content)
        except ValueError:  # parse again, for the package's error message
            where = f"{text.path}:{line}"
            event = parse_json(content, where, _Event, LogFormatError)
        result.append(event)
    return result


def _watts(value: Any) -> float:
    """Return a reading as power [W]; NaN for values that can't be a node's power."""
    return (
        float(value) if is_plain_number(value) and 0 <= value <= MAX_POWER_W else np.nan
    )


def _phases(path: Path) -> _Spans:
    """Return start and end times of phases [us], by phase name, from an event file."""
    begun: dict[str, int] = {}
    result: _Spans = {}
    if not path.is_file():
        return result
    text = read_text(path, "events of a run")
    rows = [(line, row) for line, row in text.rows() if _MARK in row]
    edges = [(line, row) for line, row in rows if _EVENT.search(row)]
    for event in _events(text, edges):
        name, _, edge = event.key.rpartition("_")
        name, t_us = PHASES.get(name, name), event.time_ms * US_PER_MS
        if edge == "start":
            begun[name] = t_us
        elif name in begun:
            result.setdefault(name, []).append([begun.pop(name), t_us])
    return result


def _clip_phases(
    phases: _Spans, start_us: int, length_us: int
) -> dict[str, list[list[float]]]:
    """Return the phases clipped to the profile [s from the profile's start]."""
    result: dict[str, list[list[float]]] = {}
    for name, spans in phases.items():
        for span in np.clip(np.array(spans) - start_us, 0, length_us):
            if span[1] > span[0]:
                result.setdefault(name, []).append(
                    [round(float(us) / US_PER_S, 3) for us in span]
                )
    return result
