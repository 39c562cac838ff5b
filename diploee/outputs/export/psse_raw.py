"""PSS/E: load records of the moments that a planner studies, in the RAW format of version 32."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from diploee.clock import moment_at
from diploee.errors import InputError
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.tables import Float64Array
from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S

WORST_MS = 15 * MS_PER_MIN


@dataclass(frozen=True)
class _Snapshot:
    load_id: str
    text: str
    p_mw: float
    q_mvar: float


def _write(request: ExportRequest) -> Written:
    if not request.has_reactive:
        raise InputError(
            f"{request.run.folder}: a RAW load record needs reactive power; give --q-table, or "
            "simulate the site to its point of interconnection (facility.stages)"
        )
    blocks = list(request.series.blocks())
    starts_ms = np.concatenate([block.starts_ms for block in blocks])
    parts = [request.power_columns(block) for block in blocks]
    p_mw, q_mvar = (np.concatenate(column) for column in zip(*parts, strict=True))
    found = list(_snapshots(request, starts_ms.astype(np.float64), p_mw, q_mvar))
    options = request.options
    lines = [
        # Fields: I, ID, STATUS, AREA, ZONE, PL, QL, IP, IQ, YP, YQ, OWNER, SCALE.
        f"{options.bus_number},'{one.load_id}',{int(k == 0)},1,1,{one.p_mw:.6f},{one.q_mvar:.6f},"
        f"0.0,0.0,0.0,0.0,1,1 / {one.text}"
        for k, one in enumerate(found)
    ]
    request.path.write_text("\n".join([*lines, ""]), encoding="ascii")
    return Written(
        {request.path.name: "load records of constant power, MW and Mvar"},
        (
            "only the first record is in service (STATUS 1): each is the whole facility at another "
            "moment, so put one of them into the case's load data",
        ),
    )


def _snapshots(
    request: ExportRequest, starts_ms: Float64Array, p_mw: Float64Array, q_mvar: Float64Array
) -> list[_Snapshot]:
    step_ms = request.series.step_ms

    def at(load_id: str, what: str, first: int, n_steps: int = 1) -> _Snapshot:
        begin = moment_at(int(starts_ms[first]), request.run.scenario.facility.zone)
        text = f"{what}, from {begin.isoformat(timespec='seconds')}"
        rows = slice(first, first + n_steps)
        mean_p, mean_q = float(p_mw[rows].mean()), float(q_mvar[rows].mean())
        return _Snapshot(load_id, text, mean_p, mean_q)

    length = f"mean of {request.series.step_s:g} s"
    # A run that begins empty has its least power before it has filled up, which no site draws.
    filled = int(np.searchsorted(starts_ms, _filled_up_ms(request)))
    filled = filled if filled < p_mw.size else 0
    found = [
        at("PK", f"peak, {length}", int(p_mw.argmax())),
        at("MN", f"minimum, {length}", filled + int(p_mw[filled:].argmin())),
    ]
    n_worst = WORST_MS // step_ms
    if n_worst >= 1 and WORST_MS % step_ms == 0 and p_mw.size >= n_worst:
        energy = np.concatenate([[0.0], np.cumsum(p_mw)])
        found.append(at("15", "highest rolling mean of 15 min",
                        int((energy[n_worst:] - energy[:-n_worst]).argmax()), n_worst))  # fmt: skip
    if request.options.at is not None:
        moment = request.options.at
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=request.run.scenario.facility.zone)
        at_ms = moment.timestamp() * 1_000
        first = int(np.searchsorted(starts_ms, at_ms, side="right")) - 1
        if first < 0 or at_ms >= starts_ms[first] + step_ms:
            zone = request.run.scenario.facility.zone
            ends_ms = (starts_ms[0], starts_ms[-1] + step_ms)
            begin, end = (datetime.fromtimestamp(ms / 1_000, zone) for ms in ends_ms)
            raise InputError(
                f"--at: {request.options.at} lies outside of what is exported, "
                f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
            )
        found.append(at("AT", f"{request.options.at}, {length}", first))
    return found


def _filled_up_ms(request: ExportRequest) -> float:
    """Return when the run had filled up [ms since 1970]; its start where it began filled."""
    hours = (request.run.metrics.get("grid") or {}).get("transient_h") or 0.0
    return request.run.scenario.start_with_zone.timestamp() * MS_PER_S + hours * MS_PER_H


PSSE_RAW = Format(
    name="psse-raw",
    summary="PSS/E RAW load records: peak, minimum, highest rolling 15 min, --at a time; needs Q",
    write=_write,
    suffixes=(".raw",),
    options=frozenset({"q_table", "at", "bus_number"}),
)
