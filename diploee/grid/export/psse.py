"""PSS/E export: load records (RAW) and dynamic models of the same load.

The records follow published documents (docs/exports.md) and were not loaded in PSS/E.

See also: docs/models/formats.md
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
class _StudiedWindow(Brief):
    """Power in the file [MW, Mvar], and the times that the load records describe."""

    request: ExportRequest
    p_mw: Float64Array
    q_mvar: Float64Array | None
    # Description and steps of each studied time, by record id
    times: dict[str, tuple[str, slice]]

    @property
    def load_id(self) -> str:
        """Record id of the studied time: AT for --at, else PK for the peak."""
        return "PK" if self.request.options.at is None else "AT"

    @property
    def studied_step(self) -> int:
        """Index of the studied step."""
        return int(self.times[self.load_id][1].start)

    def start_text(self, step: int) -> str:
        """Return the start of a step as text, local time."""
        request = self.request
        row = request.spans[0][0] + step * request.rows_per_step
        return request.source.at(row).isoformat(timespec="seconds")

    def components_mw(self, parts: LoadParts) -> dict[str, float]:
        """Return the power of each load component at the studied time [MW]."""
        request = self.request
        first = request.spans[0][0] + self.studied_step * request.rows_per_step
        rows = first, first + request.rows_per_step
        columns = request.source.read([*parts.load, *parts.pools], rows).columns
        return {
            name: float(power_w.mean()) / W_PER_MW
            for name, power_w in parts.powers(columns).items()
        }


def write_psse(request: ExportRequest) -> WrittenFiles:
    """Write the requested PSS/E records into a folder."""
    parts = zip(*(block.columns for block in request.blocks()), strict=True)
    p_mw, *q_mvar = (np.concatenate(column) for column in parts)
    times = _studied_times(request, p_mw)
    window = _StudiedWindow(request, p_mw, q_mvar[0] if q_mvar else None, times)
    result = [_PARTS[part](window) for part in dict.fromkeys(request.options.parts)]
    files = {name: what for part in result for name, what in part.files.items()}
    return WrittenFiles(
        files, (NOT_VERIFIED, *(n for part in result for n in part.notes))
    )


def _write_raw(window: _StudiedWindow) -> WrittenFiles:
    """Write RAW 32 load records of peak, minimum, worst 15 min and --at."""
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
            f"0.0,1,1 / {what}, from {window.start_text(rows.start)}"
        )
        for load_id, (what, rows) in window.times.items()
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


def _studied_times(
    request: ExportRequest, p_mw: Float64Array
) -> dict[str, tuple[str, slice]]:
    """Return description and steps of each studied time, by record id."""
    scenario, at = request.run.scenario, request.options.at
    step_ms, clock = request.step_ms, WallClock(request.start)
    # The warm-up of a run that starts empty has less power than any real site
    filled_ms = clock.time_ms(scenario.start_with_zone) + round(
        request.run.transient_h * MS_PER_H
    )
    warm_up_steps = max(-(-filled_ms // step_ms), 0)
    warm_up_steps = warm_up_steps if warm_up_steps < p_mw.size else 0
    min_step = warm_up_steps + int(p_mw[warm_up_steps:].argmin())
    rows = {"PK": ("peak", int(p_mw.argmax()), 1), "MN": ("minimum", min_step, 1)}
    n, rest_ms = divmod(WORST_MS, step_ms)
    if n and not rest_ms and p_mw.size >= n:
        energy = np.concatenate([[0.0], np.cumsum(p_mw)])
        first = int((energy[n:] - energy[:-n]).argmax())
        rows["15"] = "highest rolling mean of 15 min", first, n
    if at is not None:
        first = clock.time_ms(at) // step_ms
        if not 0 <= first < p_mw.size:
            begin, end = (request.source.at(row) for row in request.spans[0])
            raise InputError(
                f"--at: {at} lies outside of what is exported, "
                f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
            )
        rows["AT"] = f"{at}", first, 1
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
"""CONs of CMLDBLU2 for a data center in pnnl/LL-risk-assessment (RATLLE).

The MVA base is 1.25 MVA per MW.
"""


def _write_cmld(window: _StudiedWindow) -> WrittenFiles:
    """Write the composite load model (CMLD) with the run's load fractions."""
    request, parts = window.request, LoadParts.from_run(window.request.run)
    options, mw = request.options, window.components_mw(parts)
    if options.vd2 >= options.vd1:
        raise InputError(
            f"--vd2: must be below --vd1 {options.vd1:g}, found {options.vd2:g}"
        )
    electronic, motors, static = split_by_kind(mw, options.drives)
    total_mw = electronic + motors + static - mw["network"]
    when = window.start_text(window.studied_step)
    if not total_mw > 0:
        raise InputError(f"{request.run.folder}: there is no load at {when}; give --at")
    fel, fma = (round(power / total_mw, 6) for power in (electronic, motors))
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
            *_load_notes(parts),
        ),
    )


def _load_notes(parts: LoadParts) -> list[str]:
    """Return a list with a note on stages left out of the load, or an empty list."""
    names = ", ".join(parts.taken)
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
"""Parameters of PERC1 with their defaults, in PowerWorld's order."""


def _write_perc1(window: _StudiedWindow) -> WrittenFiles:
    """Write the parameters of PERC1 as JSON, and as a DYR record if possible.

    The record needs the user's `perc1_head`, its first fields.
    """
    request, parts = window.request, LoadParts.from_run(window.request.run)
    options, values = request.options, dict(PERC1)
    changed, notes = _perc1_parameters(
        request.run.scenario.facility.ride_through or {}, window, parts
    )
    values |= changed
    nominal = {
        name: None
        if power is None
        else round(float(power[window.studied_step]) / BASE_MVA, 8)
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
            f"{window.start_text(window.studied_step)}"
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
    settings: dict[str, RideThrough], window: _StudiedWindow, parts: LoadParts
) -> tuple[dict[str, float], list[str]]:
    """Return PERC1's parameters, and notes on settings that PERC1 cannot represent.

    PERC1 has a single trip stage; it gets the under-voltage stage that trips the most
    load.
    """
    first = {
        name: result
        for name, block in settings.items()
        if (result := _largest_under_voltage_stage(block))
    }
    if not first:
        return {}, [
            (
                "defaults of PowerWorld, as facility.ride_through has no "
                "under-voltage stage"
            )
        ]
    mw, shared_settings = (
        window.components_mw(parts),
        attrgetter("recovery", "delay_s", "filter_s"),
    )
    load_mw = {
        name: settings[name].share * mw.get(settings[name].of or name, mw["it"])
        for name in first
    }
    chosen = max(
        first, key=lambda name: (first[name][0] * load_mw[name], first[name][1], name)
    )
    block, stage = settings[chosen], first[chosen][2]
    covered_blocks = [
        name
        for name, (*_, block_settings) in first.items()
        if block_settings == stage
        and shared_settings(settings[name]) == shared_settings(block)
    ]
    recovery, covered_mw = block.recovery, sum(load_mw[name] for name in covered_blocks)
    total_mw = mw["it"] + mw["motors"] + mw["rest"]
    values = {
        "Fcease": round(stage.fraction * covered_mw / total_mw, 6) if total_mw else 0.0,
        "Vcease": stage.voltage_pu,
        "Tcease": stage.time_s,
        "Tdelay": block.delay_s,
        "Vrecon": max(stage.voltage_pu, 0.6),
        "Trecon": NEVER_S,
        "Tramp": NEVER_S,
        "Frecon": 1.0,
        "Tv": block.filter_s,
    }
    if recovery is not None:
        moved_mw = recovery.fraction * stage.fraction * covered_mw
        per_s = (recovery.ramp_mw_per_min or inf) / S_PER_MIN
        values["Vrecon"], values["Frecon"] = recovery.voltage_pu, recovery.fraction
        values["Trecon"] = recovery.time_s if recovery.automatic else NEVER_S
        values["Tramp"] = (
            moved_mw / per_s if recovery.ramp_s is None else recovery.ramp_s
        )
    lost = [
        f"{name}: all, as its settings differ"
        for name in settings
        if name not in covered_blocks
    ]
    for name in covered_blocks:
        block_settings = settings[name]
        lost_settings = {
            f"stage {s.side} {s.voltage_pu:g} pu, {s.time_s:g} s, {s.fraction:g}": (
                s != stage
            )
            for s in block_settings.stages
        }
        lost_settings["counter"] = block_settings.counter is not None
        lost_settings["manual reset"] = block_settings.manual_reset_s is not None
        has_no_return = recovery is None or not recovery.automatic
        lost_settings[f"no automatic return, here after {NEVER_S:g} s"] = has_no_return
        lost += [
            f"{name}: {what}" for what, is_lost in lost_settings.items() if is_lost
        ]
    notes = [
        (
            f"from facility.ride_through of {', '.join(covered_blocks)}; Fcease is "
            "their share of the load"
        )
    ]
    notes += [
        f"{name}: {settings[name].source}"
        for name in covered_blocks
        if settings[name].source
    ]
    return values, [*notes, *(f"lost: {each}" for each in lost), *_load_notes(parts)]


def _largest_under_voltage_stage(
    block: RideThrough,
) -> tuple[float, float, VoltageStage] | None:
    """Return a block's under-voltage stage that trips the most load; None without any.

    It comes with its fraction of the load and the length of its shortest tripping dip
    [s]. Of equal stages, the one with the shortest dip is returned.
    """
    under = (
        (s.fraction, -shortest_dip_s(s.voltage_pu, s.time_s, 0.0, block.filter_s), s)
        for s in block.stages
        if s.side == "under"
    )
    return max(under, key=lambda entry: entry[:2], default=None)


MIN_HZ, MAX_HZ = 0.01, 15.0
"""Range of the searched wave's frequency [Hz], the same as of the option `hz`."""

STEPS_PER_CYCLE = 4
"""Minimum number of steps per cycle of the searched wave.

Means over a quarter of a cycle reduce the amplitude by 10 %, means over half a cycle,
which --hz may have, by 36 % (sinc).
"""


def square_wave_height_mw(amplitude_mw: float, duty: float) -> float:
    """Return the height of a square wave [MW] with a given fundamental [MW].

    ``height = amplitude pi / (2 sin(pi duty))``, from the Fourier series of a square
    wave.
    """
    return amplitude_mw * pi / (2 * sin(pi * duty))


def _write_linjbl(window: _StudiedWindow) -> WrittenFiles:
    """Write a periodic square wave, at the window's strongest or a chosen frequency."""
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
    levels, shares = _power_levels(window.p_mw, 3 if fast_hz else 2)
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
        amp = square_wave_height_mw(float(line_mw), duty)
    # Base and wave together have the window's mean for any height of the wave
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
    """Return the strongest frequency with at least three cycles [Hz], or None."""
    bins, psd = scipy.signal.periodogram(p_mw, 1 / step_s, "hann", detrend="linear")
    min_hz = max(MIN_HZ, 3 / (p_mw.size * step_s))
    waves = bins >= min_hz
    if not waves.any() or np.ptp(p_mw) <= 1e-6 * np.abs(p_mw).max():
        return None
    strongest_hz = float(bins[waves][psd[waves].argmax()])
    times, taper = step_s * np.arange(p_mw.size), np.hanning(p_mw.size)
    tapered = (p_mw - p_mw.mean()) * taper

    def negative_amplitude(hz: float) -> float:
        return -abs(float(np.abs(tapered @ np.exp(-2j * pi * hz * times))))

    bounds = (
        max(strongest_hz - bins[1], MIN_HZ),
        min(strongest_hz + bins[1], MAX_HZ, 0.5 / step_s),
    )
    return float(
        scipy.optimize.minimize_scalar(
            negative_amplitude, bounds=bounds, method="bounded"
        ).x
    )


def _bandwidth_warnings(window: _StudiedWindow, hz: float) -> Iterator[str]:
    """Yield a warning if a frequency is above the profiles' trusted bandwidth."""
    request = window.request
    support = profile_support(recorded_readings(request.run.manifest))
    status, why = support.at_resolution(request.step_ms).band(hz)
    if status != "supported":
        yield f"linjbl: WARNING: {hz:.4g} Hz is not trusted: {why}"


def _power_levels(p_mw: Float64Array, n: int) -> tuple[Float64Array, Float64Array]:
    """Return n increasing power levels [MW], and the fraction of time near each."""
    begins = np.quantile(p_mw, np.linspace(0.02, 0.98, n))
    with catch_warnings(action="ignore"):  # a level without samples keeps its value
        levels, near = kmeans2(p_mw, begins, iter=50, minit="matrix")
    return levels, np.bincount(near, minlength=n) / p_mw.size


_PARTS: dict[str, Any] = {
    "raw": _write_raw,
    "cmld": _write_cmld,
    "perc1": _write_perc1,
    "linjbl": _write_linjbl,
}
