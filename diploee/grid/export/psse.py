"""PSS/E: load records (RAW) and dynamic records of the same load, from one window.

Written from documents (see docs/exports.md), not tried in PSS/E.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import floor, inf, pi, sin
from typing import Any

import numpy as np
import scipy

from diploee.base.clock import moment_at
from diploee.base.errors import Brief, InputError
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S, S_PER_MIN, W_PER_MW
from diploee.grid.export.base import ExportRequest, Written
from diploee.metrics.bands import profile_support, recorded_readings
from diploee.runs.load_parts import LoadParts, by_kind
from diploee.scenario.ride_through import RideThrough, VoltageStage, shortest_dip_s

NOT_VERIFIED = (
    "written from documents and read back by a parser of its own: not verified in PSS/E"
)
WORST_MS = 15 * MS_PER_MIN
BASE_MVA = 100.0
NEVER_S = 99_999.0


@dataclass(frozen=True)
class _Window(Brief):
    """The exported window, and the moment of it that is studied."""

    request: ExportRequest
    starts_ms: Int64Array
    p_mw: Float64Array
    q_mvar: Float64Array | None
    # What each is, and its steps, by the load's id
    moments: dict[str, tuple[str, slice]]

    @property
    def load_id(self) -> str:
        """The record of the moment that is studied: that of --at, else the peak."""
        return "PK" if self.request.options.at is None else "AT"

    @property
    def studied(self) -> int:
        """Its step."""
        return int(self.moments[self.load_id][1].start)

    @property
    def when(self) -> str:
        zone = self.request.run.scenario.facility.zone
        return moment_at(int(self.starts_ms[self.studied]), zone).isoformat(
            timespec="seconds"
        )

    def parts_mw(self, of: LoadParts) -> dict[str, float]:
        """Return the power of each part of the load at the moment [MW]."""
        series = self.request.series
        first = series.spans[0][0] + self.studied * series.rows_per_step
        names = dict.fromkeys((*of.load, *of.pools))
        columns = series.source.read(
            list(names), (first, first + series.rows_per_step)
        ).columns
        means = {name: power_w.mean(keepdims=True) for name, power_w in columns.items()}
        return {
            name: float(power_w[0]) / W_PER_MW
            for name, power_w in of.powers(means).items()
        }


def write_psse(request: ExportRequest) -> Written:
    """Write the parts that are asked for into a folder."""
    blocks = list(request.series.blocks())
    starts_ms = np.concatenate([block.starts_ms for block in blocks])
    parts = zip(*(request.power_columns(block) for block in blocks), strict=True)
    p_mw, *q_mvar = (np.concatenate(column) for column in parts)
    moments = dict(_moments(request, starts_ms, p_mw))
    window = _Window(request, starts_ms, p_mw, q_mvar[0] if q_mvar else None, moments)
    files: dict[str, str] = {}
    notes = [NOT_VERIFIED]
    for part in dict.fromkeys(request.options.parts):
        found = _PARTS[part](window)
        files |= found.files
        notes += found.notes
    return Written(files, tuple(notes))


def _raw(window: _Window) -> Written:
    """Write load records of moments for planning studies, in the RAW format 32."""
    request, q_mvar = window.request, window.q_mvar
    if q_mvar is None:
        raise InputError(
            f"{request.run.folder}: a RAW load record needs reactive power; give "
            "--q-table, or simulate the site to its point of interconnection "
            "(facility.stages)"
        )
    zone, bus = request.run.scenario.facility.zone, request.options.bus_number
    # Fields: I, ID, STATUS, AREA, ZONE, PL, QL, IP, IQ, YP, YQ, OWNER, SCALE.
    lines = [
        (
            f"{bus},'{load_id}',{int(load_id == window.load_id)},1,1,"
            f"{window.p_mw[rows].mean():.6f},{q_mvar[rows].mean():.6f},0.0,0.0,0.0,"
            f"0.0,1,1 / {what}, from "
            f"{moment_at(int(window.starts_ms[rows.start]), zone).isoformat(timespec='seconds')}"  # noqa: E501
        )
        for load_id, (what, rows) in window.moments.items()
    ]
    if "linjbl" in request.options.parts:
        lines.append(
            f"{bus},'OS',1,1,1,0.0,0.0,0.0,0.0,0.0,0.0,1,1 / the wave of linjbl.dyr"
        )
    name = f"{request.options.name}.raw"
    (request.path / name).write_text("\n".join([*lines, ""]), encoding="ascii")
    return Written(
        {name: "load records of constant power, MW and Mvar"},
        (
            (
                f"only the record '{window.load_id}' is in service (STATUS 1): each is "
                "the whole facility at another moment, so put one of them into the "
                "case's load data"
            ),
        ),
    )


def _moments(
    request: ExportRequest, starts_ms: Int64Array, p_mw: Float64Array
) -> Iterator[tuple[str, tuple[str, slice]]]:
    """Yield the id of each moment, with what it is and its steps."""
    step_ms, length = request.series.step_ms, f"mean of {request.series.step_s:g} s"

    def one(name: str, what: str, first: int) -> tuple[str, tuple[str, slice]]:
        return name, (f"{what}, {length}", slice(first, first + 1))

    yield one("PK", "peak", int(p_mw.argmax()))
    # A run that begins empty has its least power before it has filled up, which no site
    # draws.
    began_ms = request.run.scenario.start_with_zone.timestamp() * MS_PER_S
    filled_ms = began_ms + request.run.transient_h * MS_PER_H
    filled = int(np.searchsorted(starts_ms, filled_ms))
    filled = filled if filled < p_mw.size else 0
    yield one("MN", "minimum", filled + int(p_mw[filled:].argmin()))
    n = WORST_MS // step_ms
    if n >= 1 and WORST_MS % step_ms == 0 and p_mw.size >= n:
        energy = np.concatenate([[0.0], np.cumsum(p_mw)])
        first = int((energy[n:] - energy[:-n]).argmax())
        yield "15", ("highest rolling mean of 15 min", slice(first, first + n))
    if (moment := request.options.at) is not None:
        zone = request.run.scenario.facility.zone
        at_ms = (
            moment if moment.tzinfo else moment.replace(tzinfo=zone)
        ).timestamp() * MS_PER_S
        first = int(np.searchsorted(starts_ms, at_ms, side="right")) - 1
        if first < 0 or at_ms >= starts_ms[first] + step_ms:
            ends_ms = (starts_ms[0], starts_ms[-1] + step_ms)
            begin, end = (datetime.fromtimestamp(ms / MS_PER_S, zone) for ms in ends_ms)
            raise InputError(
                f"--at: {moment} lies outside of what is exported, "
                f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
            )
        yield one("AT", f"{moment}", first)


CMLD_HEAD = "'CMLDBLU2' 12 1 2 133 27 146 48 0 0"
CMLD_ROWS = (6, 5, 7, 5, 3, 6, 5, *(6, 5, 5, 4) * 3, 4, 5, 5, 5, 5, 6, 6)
"""Numbers in each line of the record."""
CMLD: tuple[float, ...] = (
    -0.8, 0, 0.04, 0.04, 0.75, 0.08, 1, 1, 1, 0.9, 1.1, 0.00625, 1.025, 1.04, 30, 5, 0,
    0, 0, 0, 0, 0, 0, 1, 0.65, 0.6,
    1, 2, 1, 1, 0, 0, 2, 1, 1, 0, 0,
    3, 0.75, 0.04, 1.8, 0.12, 0.104, 0.095, 0.0021, 0.1, 0, 0.65, 0.5, 0.3, 1, 99999,
    0.5, 0.25, 0.6, 0.65, 0.1,
    3, 0.75, 0.03, 1.8, 0.19, 0.14, 0.2, 0.0026, 0.5, 2, 0, 0.02, 0, 0.65, 0.05, 0,
    0.025, 0, 0.6, 0.05,
    3, 0.75, 0.03, 1.8, 0.19, 0.14, 0.2, 0.0026, 0.1, 2, 0, 0.03, 0, 0.68, 0.05, 0,
    0.03, 0, 0.62, 0.1,
    0.03, 0.3, 0.025, 0.05, 1, 0.98, 0.45, 0.1, 0.1, 0, 0, 1, 6, 2, 12, 3.2, 11, 2.5,
    0.86, 0.2, 0.95, 1, -3.3, 0.5, 0.4, 0.6,
    0.5, 15, 0.7, 1.9, 0.1, 0.6, 0.2, 0, 9999, 0.8,
)  # fmt: skip
"""CMLDBLU2's CONs as pnnl/LL-risk-assessment ships them for a data center (RATLLE).

The shares of the load are 0 here, and the MVA base is 1.25 MVA per MW.
"""
FMA, FEL, VD1, VD2, FRCEL = 18, 22, 24, 25, 132


def _cmld(window: _Window) -> Written:
    """Write the composite load record, with shares from the run at the moment."""
    request, of = window.request, LoadParts.of(window.request.run)
    options, mw = request.options, window.parts_mw(of)
    electronic, motors, static = by_kind(mw, options.drives)
    whole = electronic + motors + static - mw["network"]
    if not whole > 0:
        raise InputError(
            f"{request.run.folder}: there is no load at {window.when}; give --at"
        )
    values = list(CMLD)
    values[FEL] = round(electronic / whole, 6)
    values[FMA] = round(motors / whole, 6)
    values[VD1], values[VD2], values[FRCEL] = options.vd1, options.vd2, options.frcel
    rows, at = [f"{options.bus_number} 'USRLOD' '{window.load_id}' {CMLD_HEAD}"], 0
    for n in CMLD_ROWS:
        rows.append("  ".join(f"{value:.10g}" for value in values[at : at + n]))
        at += n
    rows[-1] += "   /"
    (request.path / "cmld.dyr").write_text("\n".join([*rows, ""]), encoding="ascii")
    return Written(
        {
            "cmld.dyr": (
                f"CMLDBLU2 of load '{window.load_id}', shares of the load at "
                f"{window.when}"
            )
        },
        (
            (
                f"cmld: Fel {values[FEL]:g} is the nodes with PDUs and UPS "
                f"({mw['it']:.4g} MW), FmA {values[FMA]:g} the cooling without drives "
                f"({mw['motors']:.4g} MW); the rest is static; losses of transformers "
                "are the network's (Xxf), and not in the shares"
            ),
            (
                f"cmld: ASSUMPTION: {options.drives:g} of the cooling is on drives and "
                "counts as electronic (--drives); compressors, fans and pumps are not "
                "separated, so FmB and FmC are 0"
            ),
            (
                "cmld: ASSUMPTION: the MVA base of -0.8 is a loading factor, 1.25 MVA "
                "per MW; the published record has -1.25 beside a transformer of 1.25 "
                "MVA per MW"
            ),
            (
                "cmld: all else is pnnl/LL-risk-assessment's record for a data center; "
                "its P1e of 2 and P2e of 1 are kept, where its paper's table has 0"
            ),
            (
                "cmld: the electronic part trips at once between Vd1 and Vd2 and "
                "Frcel of it returns: it isn't the state machine of "
                "facility.ride_through"
            ),
            *_of_load(of),
        ),
    )


def _of_load(of: LoadParts) -> list[str]:
    names = ", ".join(of.taken)
    return [
        f"the load is taken before the site's own sources and stores: {names}"
    ] * bool(names)


PERC1: dict[str, float] = {
    "Lfm": 0.8,
    "QPratio": 0.66,
    "Dbfl": 0,
    "Dbfh": 0,
    "Kdroop": 0,
    "Kvp": 0,
    "Tvp": 0.1,
    "Kvq": 0,
    "Tvq": 0.1,
    "Tap": 0,
    "Tbp": 0,
    "Taq": 0,
    "Tbq": 0,
    "nP": 0,
    "nQ": 1,
    "Ipmax": 1,
    "Ipmin": 0,
    "Iqmax": 0.66,
    "Iqmin": -0.66,
    "Fcease": 1,
    "Vcease": 0.5,
    "Tcease": 0.01,
    "Tdelay": 0,
    "Vrecon": 0.6,
    "Trecon": 0.05,
    "Tramp": 1,
    "Frecon": 1,
    "Tt": 0.02,
    "Tv": 0.02,
    "Tf": 0.02,
}
"""PERC1's parameters in PowerWorld's order, with their defaults."""


def _perc1(window: _Window) -> Written:
    """Write PERC1 by name, and as a record where the user gives its head."""
    request, of = window.request, LoadParts.of(window.request.run)
    options, values = request.options, dict(PERC1)
    changed, notes = _perc1_of(
        request.run.scenario.facility.ride_through or {}, window, of
    )
    values |= changed
    nominal = {
        name: None
        if power is None
        else round(float(power[window.studied]) / BASE_MVA, 8)
        for name, power in (("Pnom", window.p_mw), ("Qnom", window.q_mvar))
    }
    notes.append(
        f"its output lags by Tt, {values['Tt']:g} s, so that it returns later by that; "
        "facility.ride_through has no lag"
    )
    text = json.dumps(values | nominal, indent=2)
    (request.path / "perc1.json").write_text(f"{text}\n", encoding="ascii")
    files = {
        "perc1.json": (
            f"PERC1 by name; Pnom, Qnom: pu of {BASE_MVA:g} MVA at {window.when}"
        )
    }
    if options.perc1_head is not None:
        numbers = [f"{value:.10g}" for value in values.values()]
        rows = (
            f"\n  {' '.join(numbers[k : k + 10])}" for k in range(0, len(numbers), 10)
        )
        record = f"{options.bus_number} {options.perc1_head}{''.join(rows)} /\n"
        (request.path / "perc1.dyr").write_text(record, encoding="ascii")
        files["perc1.dyr"] = (
            "PERC1 with the head given, its 30 parameters in PowerWorld's order"
        )
        notes.append(
            "perc1.dyr: no record of PERC1 was seen; its head is --perc1-head as given"
        )
    return Written(files, tuple(f"perc1: {note}" for note in notes))


def _perc1_of(
    settings: dict[str, RideThrough], window: _Window, of: LoadParts
) -> tuple[dict[str, float], list[str]]:
    """Return the parameters of the largest stage, and every setting lost."""
    first = {
        name: found
        for name, block in settings.items()
        if (found := _first_stage(block))
    }
    if not first:
        return {}, [
            (
                "defaults of PowerWorld, as facility.ride_through has no "
                "under-voltage stage"
            )
        ]
    mw = window.parts_mw(of)

    def load_mw(name: str) -> float:
        return settings[name].share * mw.get(settings[name].of or name, mw["it"])

    chosen = max(
        first, key=lambda name: (first[name][0] * load_mw(name), first[name][1], name)
    )
    block, stage = settings[chosen], first[chosen][2]

    def kind(name: str) -> tuple[Any, ...]:
        return first[name][2], *(getattr(settings[name], of) for of in _ALIKE)

    obey = [name for name in first if kind(name) == kind(chosen)]
    whole, load = (
        mw["it"] + mw["motors"] + mw["rest"],
        sum(load_mw(name) for name in obey),
    )
    back = block.recovery
    returns = back is not None and back.automatic
    ramp_s = NEVER_S if back is None else back.ramp_s
    if back is not None and ramp_s is None:
        ramp_s = (
            back.fraction
            * stage.fraction
            * load
            / (back.ramp_mw_per_min or inf)
            * S_PER_MIN
        )
    lost = [
        f"{name}: all, as its settings differ" for name in settings if name not in obey
    ]
    for name in obey:
        other = settings[name]
        lost += [
            (
                f"{name}: stage {s.side} {s.voltage_pu:g} pu, {s.time_s:g} s, "
                f"{s.fraction:g}"
            )
            for s in other.stages
            if s != stage
        ]
        lost += [f"{name}: counter"] * (other.counter is not None)
        lost += [f"{name}: manual reset"] * (other.manual_reset_s is not None)
        lost += [f"{name}: no automatic return, here after {NEVER_S:g} s"] * (
            not returns
        )
    values = {
        "Fcease": round(stage.fraction * load / whole, 6) if whole else 0.0,
        "Vcease": stage.voltage_pu,
        "Tcease": stage.time_s,
        "Tdelay": block.delay_s,
        "Vrecon": max(stage.voltage_pu, 0.6) if back is None else back.voltage_pu,
        "Trecon": back.time_s if back is not None and returns else NEVER_S,
        "Tramp": ramp_s or 0.0,
        "Frecon": 1.0 if back is None else back.fraction,
        "Tv": block.filter_s,
    }
    notes = [
        (
            f"from facility.ride_through of {', '.join(obey)}; Fcease is their share "
            "of the load"
        )
    ]
    notes += [
        f"{name}: {settings[name].source}" for name in obey if settings[name].source
    ]
    return values, [*notes, *(f"lost: {each}" for each in lost), *_of_load(of)]


_ALIKE = ("recovery", "delay_s", "filter_s")


def _first_stage(block: RideThrough) -> tuple[float, float, VoltageStage] | None:
    """Return the largest under-voltage stage that the shortest dip trips."""
    under = (
        (s.fraction, -shortest_dip_s(s.voltage_pu, s.time_s, 0.0, block.filter_s), s)
        for s in block.stages
        if s.side == "under"
    )
    return max(under, key=lambda found: found[:2], default=None)


MIN_HZ, MAX_HZ = 0.01, 15.0
"""ASSUMPTION: of a wave in PSS/E, which the published scripts step at 1/300 s. What is
slower is a course of the load, as a day's, which no study of seconds to minutes
repeats."""

STEPS_PER_CYCLE = 4
"""Steps of a cycle that is looked for: means over a quarter of one read its amplitude
10 % low, over half of one, which --hz may have, 36 % (a sinc)."""


def square_amp_mw(amplitude_mw: float, duty: float) -> float:
    """Return the height of a square whose fundamental has an amplitude."""
    return amplitude_mw * pi / (2 * sin(pi * duty))


def _linjbl(window: _Window) -> Written:
    """Write a wave at the window's strongest frequency, or at the one given."""
    request, options = window.request, window.request.options
    step_s = request.series.step_s
    for option, asked_hz in (("--hz", options.hz), ("--fast-hz", options.fast_hz)):
        if asked_hz is not None and not MIN_HZ <= asked_hz <= MAX_HZ:
            raise InputError(
                f"{option}: must be {MIN_HZ:g} to {MAX_HZ:g} for PSS/E, found "
                f"{asked_hz:g}"
            )
    hz, fast_hz = (
        options.hz or _strongest_hz(window.p_mw, step_s),
        options.fast_hz or 0.0,
    )
    needed_hz = max(hz or MIN_HZ, fast_hz)
    needed_s = 1 / ((2 if options.hz else STEPS_PER_CYCLE) * needed_hz)
    if hz is None or step_s > needed_s:
        line = f"no line of {MIN_HZ:g} Hz or faster"
        if step_s > needed_s:
            line = f"no wave of {needed_hz:.3g} Hz, which needs steps of "
            line += f"{needed_s:.3g} s or less"
        raise InputError(
            f"{request.run.folder}: {window.p_mw.size:,} steps of {step_s:g} s hold "
            f"{line}; give --hz, an --event-window, or run again at a finer resolution"
        )
    levels, shares = _levels(window.p_mw, 3 if fast_hz else 2)
    low, high = float(levels[0]), float(levels[-1])
    duty, fast_duty = float(1 - shares[0]), 0.5
    phase = np.exp(-2j * pi * hz * step_s * np.arange(window.p_mw.size))
    line_mw = 2 * abs(np.mean((window.p_mw - window.p_mw.mean()) * phase))
    amp, amp1 = high - low, 0.0
    if fast_hz:
        amp1, fast_duty = (
            float(levels[1]) - low,
            float(shares[2] / max(1 - shares[0], 1e-9)),
        )
    elif options.equal == "fundamental":
        amp = square_amp_mw(float(line_mw), duty)
    # Base and wave have the window's mean together, whatever the wave's height was
    # taken from.
    burst_mw = fast_duty * amp + (1 - fast_duty) * amp1 if fast_hz else amp
    base_mw = float(window.p_mw.mean()) - duty * burst_mw
    cycles = floor(window.p_mw.size * step_s * hz)
    numbers = (1.0, duty, fast_duty, hz, fast_hz or 1.0, cycles, amp, amp1)
    icons = f"0 0 {int(bool(fast_hz))} 0"  # constant power, square or biperiodic, on P
    record = (
        f"{options.bus_number} 'USRLOD', 'OS', 'LINJBL', 12 1 4 8 0 5 0\n      "
        f"{icons}\n      {' '.join(f'{value:.6g}' for value in numbers)} /\n"
    )
    (request.path / "linjbl.dyr").write_text(record, encoding="ascii")
    how = "its levels' times" if fast_hz else f"equal {options.equal.replace('_', ' ')}"
    return Written(
        {"linjbl.dyr": f"LINJBL at load 'OS': {hz:.4g} Hz, {amp:.4g} MW, {how}"},
        (
            (
                f"linjbl: it only adds: put the low level, {base_mw:.6g} MW, into the "
                "base case's load, else the mean is wrong; load 'OS' is a record of "
                "0 MW"
            ),
            (
                f"linjbl: the line at {hz:.4g} Hz has an amplitude of {line_mw:.4g} "
                "MW, half its peak to peak, in the window"
            ),
            (
                "linjbl: Amp1 is the second level of the fast wave, as in the model's "
                "figure and table; the text of its README calls it the fast peak to "
                "peak"
            ),
            "linjbl: PNNL's user model, which needs its DLL; constant power",
            *_untrusted(window, max(hz, fast_hz)),
        ),
    )


def _strongest_hz(p_mw: Float64Array, step_s: float) -> float | None:
    """Return the strongest line of at least three cycles, to a fraction of a bin."""
    bins, psd = scipy.signal.periodogram(p_mw, 1 / step_s, "hann", detrend="linear")
    min_hz = max(MIN_HZ, 3 / (p_mw.size * step_s))
    waves = bins >= min_hz
    if not waves.any() or np.ptp(p_mw) <= 1e-6 * np.abs(p_mw).max():
        return None
    near = float(bins[waves][psd[waves].argmax()])
    times, taper = step_s * np.arange(p_mw.size), np.hanning(p_mw.size)
    held = (p_mw - p_mw.mean()) * taper

    def weak(hz: float) -> float:
        return -abs(float(np.abs(held @ np.exp(-2j * pi * hz * times))))

    bounds = (max(near - bins[1], MIN_HZ), min(near + bins[1], MAX_HZ, 0.5 / step_s))
    return float(
        scipy.optimize.minimize_scalar(weak, bounds=bounds, method="bounded").x
    )


def _untrusted(window: _Window, hz: float) -> Iterator[str]:
    """Yield a warning where a line is above what the profiles are trusted for."""
    request = window.request
    support = profile_support(recorded_readings(request.run.manifest))
    status, why = support.at_resolution(request.series.step_ms).band(hz)
    if status != "supported":
        yield f"linjbl: WARNING: {hz:.4g} Hz is not trusted: {why}"


def _levels(p_mw: Float64Array, n: int) -> tuple[Float64Array, Float64Array]:
    """Return n levels of a power, rising, and the shares of the time near each."""
    levels = np.quantile(p_mw, np.linspace(0.02, 0.98, n))
    near = np.zeros(p_mw.size, dtype=int)
    for _ in range(50):
        near = np.abs(p_mw[:, None] - levels).argmin(axis=1)
        found = [
            p_mw[near == k].mean() if (near == k).any() else levels[k] for k in range(n)
        ]
        levels = np.array(found)
    return levels, np.bincount(near, minlength=n) / p_mw.size


_PARTS: dict[str, Any] = {
    "raw": _raw,
    "cmld": _cmld,
    "perc1": _perc1,
    "linjbl": _linjbl,
}
