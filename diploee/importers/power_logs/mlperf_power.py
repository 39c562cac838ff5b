"""Import the power logs of MLPerf submissions: nodes of Training, the analyser of Inference.

Training has ``results/<system>/<benchmark>/power/<run>/node_K.txt``, MLLOG lines ``power_reading``
of each node, and the run's events in ``<benchmark>/<run>.txt``. A submission tells in its name
whether its readings are of the AC or the DC side of the supplies. Inference has
``results/<system>/<benchmark>/<scenario>/performance/run_1/spl.txt``, the log of PTDaemon beside
the one of the load generator. ``systems/<system>.json`` tells the hardware of both.

ASSUMPTION: the layout of ``spl.txt``, ``Time,<month-day-year time>,Watts,<W>,...``, is from
memory [M], as are its readings below 0, which the analyser failed at.

References
----------
.. [1] mlcommons/training_results_v4.0 (Apache-2.0): folders ``smc-ac-power``, ``smc-dc-power``
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from diploee.errors import LogFormatError, plural, shown
from diploee.importers.power_logs.increasing import longest_increasing
from diploee.json_files import Record, parse_json, read_json
from diploee.profiles.hardware import tdp_of
from diploee.profiles.profile import (
    NODE_AC_POWER,
    NODE_DC_POWER,
    UNKNOWN_BOUNDARY,
    PowerProfile,
    Provenance,
    check_argument,
)
from diploee.profiles.resample import (
    US_PER_MS,
    US_PER_S,
    EnergyCurve,
    joint_power_w,
    round_keeping_energy,
    unshared_s,
    usable_bandwidth_hz,
)
from diploee.scenario.bounds import MAX_DEVICES, MAX_NODES, MAX_POWER_W
from diploee.tables import Int64Array
from diploee.textio.text import Text, read_text
from diploee.units import S_PER_DAY

Side = Literal["ac", "dc"]
BOUNDARIES = {"ac": NODE_AC_POWER, "dc": NODE_DC_POWER, "": UNKNOWN_BOUNDARY}
ANALYSER_WINDOW_S = 1.0
"""PTDaemon asks the analyser for means over a second [s] [M]."""
MAX_GAP_S = 60.0
LONG_GAP = 1.5
"""A gap is counted if it is longer than this many usual intervals."""
PHASES = {"init": "init", "block": "training", "eval": "evaluation", "power": "test"}
"""Phases by the events that begin and end them, ``init_start`` and ``init_stop``."""
MEASURED = ("training", "test")
"""Phases that the readings of a whole run cover."""
STEP_GRID_MS = 100

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
    """What a submission says of its hardware; many a number is text."""

    number_of_nodes: int | str = ""
    accelerators_per_node: int | str = ""
    accelerator_model_name: str = ""


@dataclass(frozen=True)
class _Run:
    """One measured run: its logs, and what their place tells."""

    folder: Path
    logs: tuple[Path, ...]
    events: Path
    submission: Path
    system: str
    benchmark: str

    @cached_property
    def side(self) -> str:
        found = _SIDE.findall(self.submission.name.lower())
        return found[-1] if found else ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What the AC and the DC side of a run share."""
        return self.system, self.benchmark, self.folder.name


@dataclass(frozen=True, eq=False)
class PowerLog:
    """The readings of one log, repaired."""

    curve: EnergyCurve  # energy, from readings that are joined by straight lines
    interval_us: float  # median interval of the readings [us]
    sha256: str  # hash of the file
    counts: dict[str, int]  # readings, and those dropped or bridged, by cause


def import_mlperf_power(
    folder: Path | str,
    *,
    side: Literal["auto", "ac", "dc", "all"] = "auto",
    boundary: Side | None = None,
    n_nodes: int | None = None,
    gpu_tdp_w: float | None = None,
    source: str = "",
    licence: str = "unknown",
    max_gap_s: float = MAX_GAP_S,
) -> list[PowerProfile]:
    """Import all runs in a folder of MLPerf submissions.

    Readings are joined by straight lines. The step is the readings' own, and no bandwidth is
    claimed beyond what means over one step leave, as instantaneous readings may hold aliases.

    Parameters
    ----------
    folder : pathlib.Path or str
        A submission, several, or a part of one.
    side : {"auto", "ac", "dc", "all"}
        Side of the supplies; ``"auto"`` takes AC where a run has both.
    boundary : {"ac", "dc"}, optional
        Side of submissions whose name does not tell it.
    n_nodes : int, optional
        Nodes of each run; those of the system's description, else one per log, where not given.
    gpu_tdp_w : float, optional
        Thermal design power of a GPU [W]; that of its model, where it is known, where not given.
    source, licence : str
        For the provenance; the source is the run's place where not given.
    max_gap_s : float
        Longest time between two readings that is bridged [s].
    """
    check_argument("n_nodes", n_nodes, 1, MAX_NODES)
    check_argument("gpu_tdp_w", gpu_tdp_w, 1, MAX_POWER_W)
    check_argument("max_gap_s", max_gap_s, 0, S_PER_DAY)
    root = Path(folder).resolve()
    if not root.is_dir():
        raise LogFormatError(f"{folder}: no such folder; give that of a submission's results")
    runs = _runs(root)
    if not runs:
        raise LogFormatError(
            f"{folder}: no 'power/<run>/node_K.txt' and no 'spl.txt' in it, expected a folder of "
            "MLPerf results; give the folder above 'results'"
        )
    sides: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for run in runs:
        sides[run.key].add(run.side)
    chosen = [
        run
        for run in runs
        if side == "all"
        or (run.side or boundary or "") == side
        or (side == "auto" and (run.side != "dc" or "ac" not in sides[run.key]))
    ]
    if not chosen:
        found = ", ".join(sorted({run.side or "unknown" for run in runs}))
        raise LogFormatError(
            f"{folder}: no run of side '{side}' (found: {found}); give another side (--side), or "
            "the side of what is unknown (--boundary)"
        )
    systems = {path.stem: path for path in sorted(root.rglob("systems/*.json"))}
    profiles, numbers = [], Counter[str]()
    for run in chosen:
        known = run.side or boundary or ""
        own = run.submission / "systems" / f"{run.system}.json"
        described = own if own.is_file() else systems.get(run.system)
        system = read_json(described, _System, LogFormatError) if described else _System()
        nodes = n_nodes or _count(system.number_of_nodes, described, MAX_NODES) or len(run.logs)
        if len(run.logs) != nodes and run.logs[0].name != "spl.txt":
            raise LogFormatError(
                f"{run.folder}: {plural(len(run.logs), 'node log')} of {plural(nodes, 'node')}, "
                "expected one of each; complete the folder, or tell the nodes (--nodes)"
            )
        name = "-".join(filter(None, (run.benchmark, f"{nodes}n", known)))
        numbers[name] += 1
        gpus = _count(system.accelerators_per_node, described, MAX_DEVICES)
        model = system.accelerator_model_name
        profiles.append(
            _profile(
                run,
                f"{name}-{numbers[name]}",
                nodes,
                max_gap_s,
                source=source or str(run.folder.relative_to(run.submission.parent)),
                licence=licence,
                power_boundary=BOUNDARIES[known],
                gpu_model=model or None,
                gpus_per_node=gpus,
                gpu_tdp_w=gpu_tdp_w or tdp_of(model),
            )
        )
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
        runs.append(_Run(folder, tuple(logs), events, *_above(benchmark.parent), benchmark.name))
    for log in root.rglob("spl.txt"):
        if log.parent.parent.name == "performance" and log.parent.name != "ranging":
            of_scenario = log.parent.parent.parent
            above = _above(of_scenario.parent.parent)
            benchmark_name = f"{of_scenario.parent.name}_{of_scenario.name.lower()}"
            events = log.parent / "mlperf_log_detail.txt"
            runs.append(_Run(log.parent, (log,), events, *above, benchmark_name))
    return sorted(runs, key=lambda run: run.folder)


def _above(system: Path) -> tuple[Path, str]:
    """Return the submission that a system's results are of, and the system's name."""
    return system.parent.parent, system.name


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
    run: _Run, profile_id: str, n_nodes: int, max_gap_s: float, **told: Any
) -> PowerProfile:
    is_analyser = run.logs[0].name == "spl.txt"
    read = read_analyser_log if is_analyser else read_node_log
    logs = [read(path, max_gap_s) for path in run.logs]
    interval_us = max(log.interval_us for log in logs)
    step_ms = max(round(interval_us / US_PER_MS / STEP_GRID_MS), 1) * STEP_GRID_MS
    power_w = joint_power_w([log.curve for log in logs], step_ms * US_PER_MS)
    if power_w.size == 0:
        raise LogFormatError(
            f"{run.logs[0]}: the run's {plural(len(logs), 'log')} share less than a step of "
            f"{step_ms} ms; give complete logs of one run"
        )
    start_us = max(int(log.curve.t_us[0]) for log in logs)
    phases, n_lost_s = _phases(
        run.events, start_us, power_w.size * step_ms * US_PER_MS, is_analyser
    )
    interval_s = round(interval_us / US_PER_S, 6)
    window_s = ANALYSER_WINDOW_S if is_analyser else max(1.0, interval_s)
    counts = Counter[str]()
    for log in logs:
        counts.update(log.counts)
    series = Counter((log.curve.t_us.tobytes(), log.curve.energy_j.tobytes()) for log in logs)
    counts["seconds_that_not_all_nodes_cover"] = unshared_s([log.curve for log in logs])
    counts["seconds_of_the_run_without_readings"] = n_lost_s
    counts["nodes_that_share_a_meter"] = sum(n for n in series.values() if n > 1)
    notes = [
        "Readings joined by straight lines."
        if is_analyser
        else "Averaging of the readings unknown: faster swings may be folded into them, and no "
        "more is claimed than means over their interval leave. Readings joined by straight lines."
    ]
    if counts["nodes_that_share_a_meter"]:
        notes.append("Nodes that share a meter have its mean each.")
    if not phases:
        notes.append("No events of the same clock, so no phases.")
    sha256 = [log.sha256 for log in logs]
    return PowerProfile(
        profile_id,
        run.benchmark,
        n_nodes,
        step_ms,
        round_keeping_energy(power_w),
        Provenance(
            kind="measured",
            sampling_interval_s=interval_s,
            averaging_window_s=ANALYSER_WINDOW_S if is_analyser else None,
            bandwidth_hz=usable_bandwidth_hz(interval_s, window_s),
            source_sha256=hashlib.sha256("".join(sha256).encode()).hexdigest()
            if len(sha256) > 1
            else sha256[0],
            notes=" ".join(notes),
            counts=dict(counts),
            phases=phases,
            **told,
        ),
    )


def read_node_log(path: Path, max_gap_s: float = MAX_GAP_S) -> PowerLog:
    """Read the ``power_reading`` lines of a node."""
    text = read_text(path, "MLLOG lines of power", hashed=True)
    lines, t_us, power_w = [], [], []
    for line, row in text.rows():
        event = _event(text, line, row)
        if event.key == "power_reading":
            lines.append(line)
            t_us.append(event.time_ms * US_PER_MS)
            power_w.append(_watts(text, line, event.value))
    return _log(text, lines, t_us, power_w, max_gap_s)


def read_analyser_log(path: Path, max_gap_s: float = MAX_GAP_S) -> PowerLog:
    """Read a log of PTDaemon: names and values in turn, ``Time`` and ``Watts`` among them."""
    text = read_text(path, "a log of PTDaemon", hashed=True)
    lines, t_us, power_w = [], [], []
    for line, row in text.rows():
        words = [word.strip() for word in row.split(",")]
        fields = dict(zip(words[:6:2], words[1:6:2], strict=False))
        if "Time" not in fields or "Watts" not in fields:
            text.fail(
                line,
                f"{shown(row[:60])}, expected 'Time,<time>,Watts,<W>,...'; give a log of PTDaemon",
            )
        lines.append(line)
        t_us.append(_moment_us(text, line, fields["Time"]))
        try:
            value = float(fields["Watts"])
        except ValueError:
            value = np.nan
        power_w.append(-1.0 if value < 0 else _watts(text, line, value, fields["Watts"]))
    return _log(text, lines, t_us, power_w, max_gap_s)


def _event(text: Text, line: int, row: str) -> _Event:
    _, mark, content = row.partition(_MARK)
    if not mark:
        text.fail(
            line, f"{shown(row[:60])}, expected '{_MARK} {{...}}'; give the log as it was written"
        )
    return parse_json(content.strip(), f"{text.path}:{line}", _Event, LogFormatError)


def _watts(text: Text, line: int, value: Any, words: Any = None) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= MAX_POWER_W):
        text.fail(
            line,
            f"power is {shown(value if words is None else words)}, expected 0 to "
            f"{MAX_POWER_W:,.0f} W; correct or remove this line",
        )
    return float(value)


def _moment_us(text: Text, line: int, words: Any) -> int:
    try:
        moment = datetime.strptime(str(words), "%m-%d-%Y %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        text.fail(
            line,
            f"time is {shown(words)}, expected one such as '05-30-2024 08:50:19.056'; correct it",
        )
    return round(moment.timestamp() * US_PER_S)


def _log(
    text: Text, lines: list[int], stamps_us: list[int], values_w: list[float], max_gap_s: float
) -> PowerLog:
    """Repair the readings of a log: stamps that go back or repeat, readings that failed."""
    t_us = np.array(stamps_us, dtype=np.int64)
    power_w = np.array(values_w)
    good = np.flatnonzero(power_w >= 0)
    kept = good[longest_increasing(t_us[good])] if good.size else good
    if kept.size < 2:
        raise LogFormatError(
            f"{text.path}: {plural(kept.size, 'good reading')} of power, expected two or more; "
            "give a complete log"
        )
    gaps_us = np.diff(t_us[kept])
    interval_us = float(np.median(gaps_us))
    longest = int(np.argmax(gaps_us))
    if gaps_us[longest] > max_gap_s * US_PER_S:
        text.fail(
            lines[kept[longest + 1]],
            f"{gaps_us[longest] / US_PER_S:,.1f} s without a good reading before this line, "
            f"expected {max_gap_s:g} s at most; split the log here, or raise max_gap_s "
            "(--max-gap-s)",
        )
    counts = {
        "readings": int(t_us.size),
        "failed_readings": int(t_us.size - good.size),
        "readings_out_of_order": int(good.size - kept.size),
        "gaps_bridged": int(np.count_nonzero(gaps_us > LONG_GAP * interval_us)),
    }
    curve = EnergyCurve.from_readings(t_us[kept], power_w[kept])
    return PowerLog(curve, interval_us, text.sha256, counts)


def _phases(
    path: Path, start_us: int, length_us: int, is_analyser: bool
) -> tuple[dict[str, list[list[float]]], int]:
    """Return the spans of each phase [s from the profile's start], cut to the profile.

    Besides, the whole seconds of training or of the test that are cut off.
    """
    if not path.is_file():
        return {}, 0
    begun: dict[str, int] = {}
    lost_us = 0
    found: dict[str, list[list[float]]] = {}
    for name, is_start, t_us in _events(read_text(path, "events of a run"), is_analyser):
        if is_start:
            begun[name] = t_us
        elif name in begun:
            whole_us = np.array([begun.pop(name), t_us]) - start_us
            span_us = np.clip(whole_us, 0, length_us)
            if name in MEASURED:
                lost_us += max(int(np.diff(whole_us - span_us)[0]), 0)
            if span_us[1] > span_us[0]:
                found.setdefault(name, []).append(_seconds(span_us))
    # Events of another clock overlap nowhere and tell nothing.
    return found, lost_us // US_PER_S if found else 0


def _events(text: Text, is_analyser: bool) -> Iterator[tuple[str, bool, int]]:
    """Yield phase, whether it begins, and time [us] of each event.

    Of the load generator those events alone are of the analyser's clock that tell its time.
    """
    for line, row in text.rows():
        match = _EVENT.search(row) if _MARK in row else None
        if match is None or (match[1] == "power") != is_analyser:
            continue
        event = _event(text, line, row)
        t_us = _moment_us(text, line, event.value) if is_analyser else event.time_ms * US_PER_MS
        yield PHASES[match[1]], match[2] in ("start", "begin"), t_us


def _seconds(span_us: Int64Array) -> list[float]:
    return [round(float(us) / US_PER_S, 3) for us in span_us]
