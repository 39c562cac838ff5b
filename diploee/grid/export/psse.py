"""PSS/E export: load records (RAW) and dynamic records of the same load.

Written from documents (see docs/exports.md), not tried in PSS/E.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, inf, pi, sin
from operator import attrgetter
from typing import Any
from warnings import catch_warnings

import numpy as np
import scipy
from scipy.cluster.vq import kmeans2

from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_H, MS_PER_MIN, S_PER_MIN, W_PER_MW
from diploee.grid.export.base import ExportRequest, WrittenFiles
from diploee.metrics.spectral_bands import profile_support, recorded_readings
from diploee.runs.load_parts import LoadParts, split_by_kind
from diploee.scenario.ride_through import RideThrough, VoltageStage, shortest_dip_s

NOT_VERIFIED = (
    "written from documents and read back by a parser of its own: not verified in PSS/E"
)
WORST_MS = 15 * MS_PER_MIN
BASE_MVA = 100.0
NEVER_S = 99_999.0


@dataclass(frozen=True)
class _Window(Brief):
    """Exported window, and the studied time in the window."""

    request: ExportRequest
    p_mw: Float64Array
    q_mvar: Float64Array | None
    # What each is, and its steps, by the load's id
    moments: dict[str, tuple[str, slice]]

    @property
    def load_id(self) -> str:
        """Record id of the studied time: the time of --at, else the peak."""
        return "PK" if self.request.options.at is None else "AT"

    @property
    def studied(self) -> int:
        """Step of the studied time."""
        return int(self.moments[self.load_id][1].start)

    def when(self, step: int) -> str:
        """Return the start of a step, local time."""
        of = self.request
        row = of.spans[0][0] + step * of.rows_per_step
        return of.source.at(row).isoformat(timespec="seconds")

    def parts_mw(self, of: LoadParts) -> dict[str, float]:
        """Return the power of each load component at the studied time [MW]."""
        request = self.request
        first = request.spans[0][0] + self.studied * request.rows_per_step
        rows = first, first + request.rows_per_step
        result = of.powers(request.source.read([*of.load, *of.pools], rows).columns)
        return {
            name: float(of_part.mean()) / W_PER_MW for name, of_part in result.items()
        }


def write_psse(request: ExportRequest) -> WrittenFiles:
    """Write the requested records into a folder."""
    parts = zip(*(block.columns for block in request.blocks()), strict=True)
    p_mw, *q_mvar = (np.concatenate(column) for column in parts)
    moments = _moments(request, p_mw)
    window = _Window(request, p_mw, q_mvar[0] if q_mvar else None, moments)
    result = [_PARTS[part](window) for part in dict.fromkeys(request.options.parts)]
    files = {name: what for part in result for name, what in part.files.items()}
    return WrittenFiles(
        files, (NOT_VERIFIED, *(n for part in result for n in part.notes))
    )


def _raw(window: _Window) -> WrittenFiles:
    """Write load records of several times for planning studies, in RAW format 32."""
    request, q_mvar = window.request, window.q_mvar
    if q_mvar is None:
        raise InputError(
            f"{request.run.folder}: a RAW load record needs reactive power; give "
            "--q-table, or simulate the site to its point of interconnection "
            "(facility.stages)"
        )
    bus = request.options.bus_number
    # Fields: I, ID, STATUS, AREA, ZONE, PL, QL, IP, IQ, YP, YQ, OWNER, SCALE.
    lines = [
        (
            f"{bus},'{load_id}',{int(load_id == window.load_id)},1,1,"
            f"{window.p_mw[rows].mean():.6f},{q_mvar[rows].mean():.6f},0.0,0.0,0.0,"
            f"0.0,1,1 / {what}, from {window.when(rows.start)}"
        )
        for load_id, (what, rows) in window.moments.items()
    ]
    if "linjbl" in request.options.parts:
        lines.append(
            f"{bus},'OS',1,1,1,0.0,0.0,0.0,0.0,0.0,0.0,1,1 / the wave of linjbl.dyr"
        )
    name = f"{request.options.name}.raw"
    (request.path / name).write_text("\n".join([*lines, ""]), encoding="ascii")
    return WrittenFiles(
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
    request: ExportRequest, p_mw: Float64Array
) -> dict[str, tuple[str, slice]]:
    """Return the meaning and the steps of each studied time, by its id."""
    scenario, moment = request.run.scenario, request.options.at
    step_ms, clock = request.step_ms, WallClock(request.start)
    # A run that begins empty has its least power before it has filled up, which no site
    # draws.
    filled_ms = clock.time_ms(scenario.start_with_zone) + round(
        request.run.transient_h * MS_PER_H
    )
    filled = max(-(-filled_ms // step_ms), 0)
    filled = filled if filled < p_mw.size else 0
    least = filled + int(p_mw[filled:].argmin())
    rows = {"PK": ("peak", int(p_mw.argmax()), 1), "MN": ("minimum", least, 1)}
    n, rest_ms = divmod(WORST_MS, step_ms)
    if n and not rest_ms and p_mw.size >= n:
        energy = np.concatenate([[0.0], np.cumsum(p_mw)])
        first = int((energy[n:] - energy[:-n]).argmax())
        rows["15"] = "highest rolling mean of 15 min", first, n
    if moment is not None:
        first = clock.time_ms(moment) // step_ms
        if not 0 <= first < p_mw.size:
            begin, end = (request.source.at(row) for row in request.spans[0])
            raise InputError(
                f"--at: {moment} lies outside of what is exported, "
                f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
            )
        rows["AT"] = f"{moment}", first, 1
    length = f", mean of {request.step_s:g} s"
    return {
        name: (what + length * (name != "15"), slice(first, first + n))
        for name, (what, first, n) in rows.items()
    }


CMLD_HEAD = "'CMLDBLU2' 12 1 2 133 27 146 48 0 0"
CMLD = """\
-0.8  0  0.04  0.04  0.75  0.08
1  1  1  0.9  1.1
0.00625  1.025  1.04  30  5  0  0
{fma:.10g}  0  0  0  {fel:.10g}
1  {vd1:.10g}  {vd2:.10g}
1  2  1  1  0  0
2  1  1  0  0
3  0.75  0.04  1.8  0.12  0.104
0.095  0.0021  0.1  0  0.65
0.5  0.3  1  99999  0.5
0.25  0.6  0.65  0.1
3  0.75  0.03  1.8  0.19  0.14
0.2  0.0026  0.5  2  0
0.02  0  0.65  0.05  0
0.025  0  0.6  0.05
3  0.75  0.03  1.8  0.19  0.14
0.2  0.0026  0.1  2  0
0.03  0  0.68  0.05  0
0.03  0  0.62  0.1
0.03  0.3  0.025  0.05
1  0.98  0.45  0.1  0.1
0  0  1  6  2
12  3.2  11  2.5  0.86
0.2  0.95  1  -3.3  0.5
0.4  0.6  0.5  15  0.7  1.9
0.1  0.6  0.2  0  9999  {frcel:.10g}   /
"""
"""CMLDBLU2's CONs as pnnl/LL-risk-assessment ships them for a data center (RATLLE).

The MVA base is 1.25 MVA per MW.
"""


def _cmld(window: _Window) -> WrittenFiles:
    """Write the composite load record, with the run's fractions at the studied time."""
    request, of = window.request, LoadParts.from_run(window.request.run)
    options, mw = request.options, window.parts_mw(of)
    electronic, motors, static = split_by_kind(mw, options.drives)
    whole = electronic + motors + static - mw["network"]
    when = window.when(window.studied)
    if not whole > 0:
        raise InputError(f"{request.run.folder}: there is no load at {when}; give --at")
    fel, fma = (round(power / whole, 6) for power in (electronic, motors))
    voltages = options.model_dump(include={"vd1", "vd2", "frcel"})
    head = f"{options.bus_number} 'USRLOD' '{window.load_id}' {CMLD_HEAD}"
    record = f"{head}\n{CMLD.format(fel=fel, fma=fma, **voltages)}"
    (request.path / "cmld.dyr").write_text(record, encoding="ascii")
    return WrittenFiles(
        {
            "cmld.dyr": (
                f"CMLDBLU2 of load '{window.load_id}', shares of the load at {when}"
            )
        },
        (
            (
                f"cmld: Fel {fel:g} is the nodes with PDUs and UPS "
                f"({mw['it']:.4g} MW), FmA {fma:g} the cooling without drives "
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


def _perc1(window: _Window) -> WrittenFiles:
    """Write PERC1 by name, and as a record if the user gives its head."""
    request, of = window.request, LoadParts.from_run(window.request.run)
    options, values = request.options, dict(PERC1)
    changed, notes = _perc1_parameters(
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
            f"PERC1 by name; Pnom, Qnom: pu of {BASE_MVA:g} MVA at "
            f"{window.when(window.studied)}"
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
    return WrittenFiles(files, tuple(f"perc1: {note}" for note in notes))


def _perc1_parameters(
    settings: dict[str, RideThrough], window: _Window, of: LoadParts
) -> tuple[dict[str, float], list[str]]:
    """Return the PERC1 parameters of the largest stage, and the settings lost."""
    first = {
        name: result
        for name, block in settings.items()
        if (result := _first_stage(block))
    }
    if not first:
        return {}, [
            (
                "defaults of PowerWorld, as facility.ride_through has no "
                "under-voltage stage"
            )
        ]
    mw, alike = window.parts_mw(of), attrgetter("recovery", "delay_s", "filter_s")
    load_mw = {
        name: settings[name].share * mw.get(settings[name].of or name, mw["it"])
        for name in first
    }
    chosen = max(first, key=lambda of: (first[of][0] * load_mw[of], first[of][1], of))
    block, stage = settings[chosen], first[chosen][2]
    obey = [
        name
        for name, (*_, own) in first.items()
        if own == stage and alike(settings[name]) == alike(block)
    ]
    back, load = block.recovery, sum(load_mw[name] for name in obey)
    whole = mw["it"] + mw["motors"] + mw["rest"]
    values = {
        "Fcease": round(stage.fraction * load / whole, 6) if whole else 0.0,
        "Vcease": stage.voltage_pu,
        "Tcease": stage.time_s,
        "Tdelay": block.delay_s,
        "Vrecon": max(stage.voltage_pu, 0.6),
        "Trecon": NEVER_S,
        "Tramp": NEVER_S,
        "Frecon": 1.0,
        "Tv": block.filter_s,
    }
    if back is not None:
        moved_mw = back.fraction * stage.fraction * load
        per_s = (back.ramp_mw_per_min or inf) / S_PER_MIN
        values["Vrecon"], values["Frecon"] = back.voltage_pu, back.fraction
        values["Trecon"] = back.time_s if back.automatic else NEVER_S
        values["Tramp"] = moved_mw / per_s if back.ramp_s is None else back.ramp_s
    lost = [
        f"{name}: all, as its settings differ" for name in settings if name not in obey
    ]
    for name in obey:
        own = settings[name]
        says = {
            f"stage {s.side} {s.voltage_pu:g} pu, {s.time_s:g} s, {s.fraction:g}": (
                s != stage
            )
            for s in own.stages
        }
        says["counter"] = own.counter is not None
        says["manual reset"] = own.manual_reset_s is not None
        stays = back is None or not back.automatic
        says[f"no automatic return, here after {NEVER_S:g} s"] = stays
        lost += [f"{name}: {what}" for what, is_lost in says.items() if is_lost]
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


def _first_stage(block: RideThrough) -> tuple[float, float, VoltageStage] | None:
    """Return the largest under-voltage stage that trips on the shortest dip."""
    under = (
        (s.fraction, -shortest_dip_s(s.voltage_pu, s.time_s, 0.0, block.filter_s), s)
        for s in block.stages
        if s.side == "under"
    )
    return max(under, key=lambda found: found[:2], default=None)


MIN_HZ, MAX_HZ = 0.01, 15.0
"""Of a wave that is looked for: those that `hz` of the options takes."""

STEPS_PER_CYCLE = 4
"""Steps of a cycle that is looked for: means over a quarter of one read its amplitude
10 % low, over half of one, which --hz may have, 36 % (a sinc)."""


def square_amp_mw(amplitude_mw: float, duty: float) -> float:
    """Return the height of a square wave from the amplitude of its fundamental."""
    return amplitude_mw * pi / (2 * sin(pi * duty))


def _linjbl(window: _Window) -> WrittenFiles:
    """Write a wave at the window's strongest frequency, or at a given frequency."""
    request, options = window.request, window.request.options
    step_s = request.step_s
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
    return WrittenFiles(
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
            *_bandwidth_warnings(window, max(hz, fast_hz)),
        ),
    )


def _strongest_hz(p_mw: Float64Array, step_s: float) -> float | None:
    """Return the frequency of the strongest line of at least three cycles [Hz]."""
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


def _bandwidth_warnings(window: _Window, hz: float) -> Iterator[str]:
    """Yield a warning if a line is above the trusted bandwidth of the profiles."""
    request = window.request
    support = profile_support(recorded_readings(request.run.manifest))
    status, why = support.at_resolution(request.step_ms).band(hz)
    if status != "supported":
        yield f"linjbl: WARNING: {hz:.4g} Hz is not trusted: {why}"


def _levels(p_mw: Float64Array, n: int) -> tuple[Float64Array, Float64Array]:
    """Return n increasing power levels, and the fraction of time near each level."""
    begins = np.quantile(p_mw, np.linspace(0.02, 0.98, n))
    with catch_warnings(action="ignore"):  # a level that nothing is near stays
        levels, near = kmeans2(p_mw, begins, iter=50, minit="matrix")
    return levels, np.bincount(near, minlength=n) / p_mw.size


_PARTS: dict[str, Any] = {
    "raw": _raw,
    "cmld": _cmld,
    "perc1": _perc1,
    "linjbl": _linjbl,
}
