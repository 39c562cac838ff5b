"""Import the power logs of MLPerf submissions: nodes of Training, the analyser of Inference.

Training has ``results/<system>/<benchmark>/power/<run>/node_K.txt``, MLLOG lines ``power_reading``
of each node, and the run's events in ``<benchmark>/<run>.txt``. A submission tells in its name
whether its readings are of the AC or the DC side of the supplies. Inference has
``results/<system>/<benchmark>/<scenario>/performance/run_1/spl.txt``, the log of PTDaemon beside
the one of the load generator. ``systems/<system>.json`` tells the hardware of both.

ASSUMPTION: the layout of ``spl.txt``, ``Time,<month-day-year time>,Watts,<W>,...``, is from
memory [M]. A reading that is no power, such as one below 0, failed: it is counted and bridged.
A log that lacks the ends of its run is held there, up to a share. A run that can't be read is
skipped and named.

References
----------
.. [1] mlcommons/training_results_v4.0 (Apache-2.0): folders ``smc-ac-power``, ``smc-dc-power``
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from diploee.errors import LogFormatError, plural, shown
from diploee.importers.power_logs.curves import (
    Device,
    ProfilesOfRuns,
    device_of,
    longest_increasing,
    measured,
    sum_w,
)
from diploee.importers.power_logs.options import MLPerfOptions
from diploee.model import MAX_DEVICES, MAX_NODES, MAX_POWER_W
from diploee.plain_data import Record, parse_json, read_json
from diploee.profiles.derived import tdp_of
from diploee.profiles.profile import (
    NODE_AC_POWER,
    NODE_DC_POWER,
    UNKNOWN_BOUNDARY,
    PowerProfile,
)
from diploee.profiles.resample import US_PER_MS, US_PER_S, unshared_s, usable_bandwidth_hz
from diploee.textio.text import Text, read_text

BOUNDARIES = {"ac": NODE_AC_POWER, "dc": NODE_DC_POWER, "": UNKNOWN_BOUNDARY}
ANALYSER_WINDOW_S = 1.0
"""PTDaemon asks the analyser for means over a second [s] [M]."""
LONG_GAP = 1.5
"""A gap is counted if it is longer than this many usual intervals."""
PHASES = {"init": "init", "block": "training", "eval": "evaluation", "power": "test"}
"""Phases by the events that begin and end them, ``init_start`` and ``init_stop``."""
MEASURED = ("training", "test")
"""Phases that the readings of a whole run cover."""
STEP_GRID_MS = 100

_Spans = dict[str, list[list[int]]]
_MARK = ":::MLLOG"
_EVENT = re.compile(rf'"({"|".join(PHASES)})_(start|begin|stop|end)"')
_SIDE = re.compile(r"(?<![a-z])(ac|dc)(?![a-z])")
_LATEST_MS = 4_102_444_800_000  # of the year 2100


class _Event(Record):
    """One line of an MLLOG."""

    key: str
    time_ms: Annotated[int, Field(ge=0, le=_LATEST_MS)]
    value: Any = None


class _System(Record):
    """A submission's description of its hardware; many a number is text."""

    number_of_nodes: int | str = ""
    accelerators_per_node: int | str = ""
    accelerator_model_name: str = ""


@dataclass(frozen=True)
class _Run:
    """One measured run: its logs, and what their place tells."""

    folder: Path
    logs: tuple[Path, ...]
    events: Path
    system: Path  # results of a system
    benchmark: str

    @property
    def submission(self) -> Path:
        return self.system.parent.parent

    @property
    def side(self) -> str:
        found: list[str] = _SIDE.findall(self.submission.name.lower())
        return found[-1] if found else ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Key that the AC and the DC side of a run share."""
        return self.system.name, self.benchmark, self.folder.name


def import_mlperf_power(folder: Path | str, **given: Any) -> ProfilesOfRuns:
    """Import all runs in a folder of MLPerf submissions; those that can't be read are skipped.

    Readings are joined by straight lines. The step is the readings' own, and no bandwidth is
    claimed beyond what means over one step leave, as instantaneous readings may hold aliases.

    Parameters
    ----------
    folder : pathlib.Path or str
        A submission, several, or a part of one.
    **given
        Fields of `diploee.importers.MLPerfOptions`.

    Returns
    -------
    list of PowerProfile
        The profiles; its attribute ``skipped`` has the place and the problem of each run that
        can't be read.

    Raises
    ------
    LogFormatError
        If no run can be read.
    """
    options = MLPerfOptions(**given)
    root = Path(folder).resolve()
    if not root.is_dir():
        raise LogFormatError(f"{folder}: no such folder; give that of a submission's results")
    runs = _runs(root)
    if not runs:
        raise LogFormatError(
            f"{folder}: no 'power/<run>/node_K.txt' and no 'spl.txt' in it, expected a folder of "
            "MLPerf results; give the folder above 'results'"
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
        found = ", ".join(sorted({run.side or "unknown" for run in runs}))
        raise LogFormatError(
            f"{folder}: no run of side '{options.side}' (found: {found}); give another side "
            "(--side), or the side of what is unknown (--boundary)"
        )
    systems = {path.stem: path for path in sorted(root.rglob("systems/*.json"))}
    profiles, numbers = ProfilesOfRuns(), Counter[str]()
    for run in chosen:
        own = run.submission / "systems" / f"{run.system.name}.json"
        described = own if own.is_file() else systems.get(run.system.name)
        profiles.take(str(run.folder), partial(_profile, run, described, numbers, options))
    if not profiles:
        raise LogFormatError(run.problem for run in profiles.skipped)
    return profiles


def _runs(root: Path) -> list[_Run]:
    of_folder: dict[Path, list[Path]] = defaultdict(list)
    for log in sorted(root.rglob("node_*.txt"), key=lambda path: (len(path.name), path)):
        if log.parent.parent.name == "power":
            of_folder[log.parent].append(log)
    runs = []
    for folder, logs in of_folder.items():
        benchmark = folder.parent.parent
        events = benchmark / f"{folder.name}.txt"
        runs.append(_Run(folder, tuple(logs), events, benchmark.parent, benchmark.name))
    for log in root.rglob("spl.txt"):
        if log.parent.parent.name == "performance" and log.parent.name != "ranging":
            scenario = log.parent.parent.parent
            benchmark, name = scenario.parent, f"{scenario.parent.name}_{scenario.name.lower()}"
            events = log.parent / "mlperf_log_detail.txt"
            runs.append(_Run(log.parent, (log,), events, benchmark.parent, name))
    return sorted(runs, key=lambda run: run.folder)


def _count(value: int | str, path: Path | None, most: int) -> int | None:
    """Return a number of a system's description, None where it is left empty."""
    if value == "":
        return None
    if not re.fullmatch(r"\d{1,9}", str(value)) or not 1 <= int(value) <= most:
        raise LogFormatError(
            f"{path}: {shown(value)} nodes or accelerators, expected a whole number from 1 to "
            f"{most:,}; correct the description of the system"
        )
    return int(value)


def _profile(
    run: _Run, described: Path | None, numbers: Counter[str], options: MLPerfOptions
) -> PowerProfile:
    system = read_json(described, _System, LogFormatError) if described else _System()
    stated = options.n_nodes or _count(system.number_of_nodes, described, MAX_NODES)
    nodes = stated or len(run.logs)
    is_analyser = run.logs[0].name == "spl.txt"
    if len(run.logs) != nodes and not is_analyser:
        raise LogFormatError(
            f"{run.folder}: {plural(len(run.logs), 'node log')} of {plural(nodes, 'node')}, "
            "expected one of each; complete the folder, or tell the nodes (--nodes)"
        )
    side = run.side or options.boundary or ""
    name = "-".join(filter(None, (run.benchmark, f"{nodes}n", side)))
    numbers[name] += 1
    read = read_analyser_log if is_analyser else read_node_log
    logs = [read(path, options.max_gap_s) for path in run.logs]
    curves = [log.curve for log in logs]
    interval_us = max(log.interval_us for log in logs)
    step_ms = max(round(interval_us / US_PER_MS / STEP_GRID_MS), 1) * STEP_GRID_MS
    # The run lasts from the first reading to the last one, and as long as it trains.
    phases = _phases(run.events, is_analyser)
    moments_us = [int(t_us) for curve in curves for t_us in curve.t_us[[0, -1]]]
    of_run_us = [t_us for name in MEASURED for span in phases.get(name, ()) for t_us in span]
    start_us, end_us = min(moments_us + of_run_us), max(moments_us + of_run_us)
    power_w = sum_w([log.held(start_us, end_us) for log in logs], step_ms)
    lost_us = min(moments_us) - start_us + end_us - max(moments_us)
    series = Counter((curve.t_us.tobytes(), curve.energy_j.tobytes()) for curve in curves)
    counts = {cause: sum(log.counts[cause] for log in logs) for cause in logs[0].counts}
    counts |= {
        "seconds_that_not_all_nodes_cover": unshared_s(curves),
        "seconds_of_the_run_without_readings": lost_us // US_PER_S,
        "nodes_that_share_a_meter": sum(n for n in series.values() if n > 1),
    }
    in_profile = _cut(phases, start_us, power_w.size * step_ms * US_PER_MS)
    interval_s = round(interval_us / US_PER_S, 6)
    window_s = ANALYSER_WINDOW_S if is_analyser else None
    return measured(
        f"{name}-{numbers[name]}",
        run.benchmark,
        nodes,
        step_ms,
        power_w,
        options,
        source=str(run.folder.relative_to(run.submission.parent)),
        hashes=[log.sha256 for log in logs],
        interval_s=interval_s,
        window_s=window_s,
        bandwidth_hz=usable_bandwidth_hz(interval_s, window_s or max(1.0, interval_s)),
        counts=counts,
        notes=_notes(is_analyser, counts, bool(in_profile)),
        phases=in_profile,
        power_boundary=BOUNDARIES[side],
        gpu_model=system.accelerator_model_name or None,
        gpus_per_node=_count(system.accelerators_per_node, described, MAX_DEVICES),
        gpu_tdp_w=options.gpu_tdp_w or tdp_of(system.accelerator_model_name),
    )


def _notes(is_analyser: bool, counts: dict[str, int], has_phases: bool) -> str:
    said = {
        "Averaging of the readings unknown: faster swings may be folded into them, and no more is "
        "claimed than means over their interval leave.": not is_analyser,
        "Readings joined by straight lines.": True,
        "Nodes that share a meter have its mean each.": counts["nodes_that_share_a_meter"],
        "No events of the same clock, so no phases.": not has_phases,
    }
    return " ".join(note for note, holds in said.items() if holds)


def read_node_log(path: Path, max_gap_s: float = 60.0) -> Device:
    """Read the ``power_reading`` lines of a node."""
    text = read_text(path, "MLLOG lines of power", hashed=True)
    rows = list(text.rows())
    readings = [
        (line, event.time_ms * US_PER_MS, _watts(event.value))
        for (line, _), event in zip(rows, _events(text, rows), strict=True)
        if event.key == "power_reading"
    ]
    return _log(text, readings, max_gap_s)


def read_analyser_log(path: Path, max_gap_s: float = 60.0) -> Device:
    """Read a log of PTDaemon: names and values in turn, ``Time`` and ``Watts`` among them."""
    text = read_text(path, "a log of PTDaemon", hashed=True)
    readings = []
    for line, row in text.rows():
        words = [word.strip() for word in row.split(",")]
        fields = dict(zip(words[:6:2], words[1:6:2], strict=False))
        if "Time" not in fields or "Watts" not in fields:
            text.fail(
                line,
                f"{shown(row[:60])}, expected 'Time,<time>,Watts,<W>,...'; give a log of PTDaemon",
            )
        try:
            power_w = _watts(float(fields["Watts"]))
        except ValueError:
            power_w = np.nan
        readings.append((line, _moment_us(text, line, fields["Time"]), power_w))
    return _log(text, readings, max_gap_s)


def _events(text: Text, rows: Sequence[tuple[int, str]]) -> list[_Event]:
    """Return the events of MLLOG lines: read all at once, else one by one, to name a wrong line."""
    contents = [row.partition(_MARK)[2] for _, row in rows]
    try:
        found = parse_json(f"[{','.join(contents)}]", "", list[_Event], LogFormatError)
        if len(found) == len(rows):
            return found
    except LogFormatError:
        pass
    found = []
    for (line, row), content in zip(rows, contents, strict=True):
        if _MARK not in row:
            problem = f"expected '{_MARK} {{...}}'; give the log as it was written"
            text.fail(line, f"{shown(row[:60])}, {problem}")
        found.append(parse_json(content.strip(), f"{text.path}:{line}", _Event, LogFormatError))
    return found


def _watts(value: Any) -> float:
    """Return a reading [W], NaN for one that is no power of a node."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MAX_POWER_W else np.nan


def _moment_us(text: Text, line: int, words: Any) -> int:
    try:
        moment = datetime.strptime(str(words), "%m-%d-%Y %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        text.fail(
            line,
            f"time is {shown(words)}, expected one such as '05-30-2024 08:50:19.056'; correct it",
        )
    return round(moment.timestamp() * US_PER_S)


def _log(text: Text, readings: list[tuple[int, int, float]], max_gap_s: float) -> Device:
    """Repair the readings of a log, each with its line, its stamp [us] and its power [W]."""
    lines, stamps_us, powers_w = zip(*readings, strict=True) if readings else ((), (), ())
    all_us = np.array(stamps_us, dtype=np.int64)
    kept = longest_increasing(all_us)
    t_us, power_w = all_us[kept], np.array(powers_w, dtype=np.float64)[kept]
    device = device_of(
        text.path, t_us, power_w, max_gap_s, lambda row: f"{text.path}:{lines[kept[row]]}"
    )
    good = ~np.isnan(power_w)
    counts = {
        "readings": len(readings),
        "failed_readings": int(np.count_nonzero(~good)),
        "readings_out_of_order": len(readings) - kept.size,
        "gaps_bridged": int(np.count_nonzero(np.diff(t_us[good]) > LONG_GAP * device.interval_us)),
    }
    return replace(device, sha256=text.sha256, counts=counts)


def _phases(path: Path, is_analyser: bool) -> _Spans:
    """Return start and end of each phase [us], by its name.

    Of the load generator those events alone are of the analyser's clock that tell its time.
    """
    begun: dict[str, int] = {}
    found: _Spans = {}
    if not path.is_file():
        return found
    text = read_text(path, "events of a run")
    marked = ((line, row, _EVENT.search(row)) for line, row in text.rows() if _MARK in row)
    edges = [
        (line, row, edge)
        for line, row, edge in marked
        if edge and (edge[1] == "power") == is_analyser
    ]
    events = _events(text, [(line, row) for line, row, _ in edges])
    for (line, _, edge), event in zip(edges, events, strict=True):
        name, t_us = PHASES[edge[1]], event.time_ms * US_PER_MS
        if is_analyser:
            t_us = _moment_us(text, line, event.value)
        if edge[2] in ("start", "begin"):
            begun[name] = t_us
        elif name in begun:
            found.setdefault(name, []).append([begun.pop(name), t_us])
    return found


def _cut(phases: _Spans, start_us: int, length_us: int) -> dict[str, list[list[float]]]:
    """Return the phases [s from the profile's start], cut to the profile."""
    found: dict[str, list[list[float]]] = {}
    for name, spans in phases.items():
        for span in np.clip(np.array(spans) - start_us, 0, length_us):
            if span[1] > span[0]:
                found.setdefault(name, []).append([round(float(us) / US_PER_S, 3) for us in span])
    return found
