"""Named ride-through curves, and compliance of settings and responses with them.

The requirements were read in the repository
`Yuz2023/awesome-compute-power-coordination` (2026-10-07), not in the operators'
documents. Rules without published values are not checked; the result names them.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite
from typing import Any, Literal, get_args

import numpy as np

from diploee.base.errors import Brief, plural
from diploee.base.tables import Float64Array
from diploee.grid.dynamics.block_ride_through import TIE_S, Excursion, Response, Voltage
from diploee.grid.dynamics.events import NORMAL_PU, Event
from diploee.scenario.ride_through import RideThrough, Side, shortest_dip_s

SOURCE = "secondary source (awesome-compute-power-coordination, 2026-10-07)"
ROCOF_S = 0.5
"""Window [s] of a rate of change of frequency, from EirGrid.

ASSUMPTION: the same for IESO; frequency is linear between its samples.
"""
MAX_PU = 1.2
"""Highest voltage [pu] of a zone without an upper edge (ASSUMPTION)."""


@dataclass(frozen=True)
class VoltageZone(Brief):
    """Voltage range [pu] in which a load must stay connected for a time [s]."""

    edge: float  # edge nearest to nominal [pu]
    worst: float  # edge farthest from nominal [pu]
    time_s: float
    side: Side = "under"

    def __str__(self) -> str:
        low, high = sorted((self.edge, self.worst))
        return f"{low:.2f}-{high:.2f} pu" if isfinite(high) else f"above {low:.2f} pu"


@dataclass(frozen=True)
class Curve(Brief):
    """Ride-through requirement: voltage and frequency zones, and recovery of load."""

    status: str
    zones: tuple[VoltageZone, ...] = ()
    # Low and high frequency [Hz], maximum time beyond them [s]
    frequency: tuple[tuple[float, float, float], ...] = ()
    level: float | None = None  # required fraction of the power without the event
    within_s: float = 0.0  # time allowed for it after the voltage returns to 0.9 pu
    counters: bool = True  # counters of dips are allowed
    rocof: float | None = None  # fastest change of the frequency to ride through [Hz/s]
    most_mw_per_min: float | None = None  # also limits the restoration
    note: str = ""


def _undervoltage_zones(*zones: tuple[float, float, float]) -> tuple[VoltageZone, ...]:
    return tuple(VoltageZone(*zone) for zone in zones)


NERC_HZ = ((58.8, 61.2, 299.0), (57.0, 61.8, 0.0))
CURVES: Mapping[str, Curve] = {
    "ercot_nogrr282": Curve(
        "approved 2026-07, in effect 2026-08-01 by secondary sources",
        (
            *_undervoltage_zones(
                (0.9, 0.8, 2.0), (0.8, 0.5, 0.5), (0.5, 0.2, 0.25), (0.2, 0.0, 0.15)
            ),
            VoltageZone(1.1, 1.2, 2.0, "over"),
        ),
        NERC_HZ,
        0.9,
        2.0,
        counters=False,
        note=(
            "from 75 MW with at least 50 % computational load; a draft of 2025 had 1 s"
        ),
    ),
    "caiso_straw_2026_06": Curve(
        "proposed",
        (
            *_undervoltage_zones(
                (0.9, 0.7, 6.0), (0.7, 0.5, 3.0), (0.5, 0.25, 1.2), (0.25, 0.0, 0.15)
            ),
            VoltageZone(1.1, inf, 2.0, "over"),
        ),
        NERC_HZ,
        0.9,
        3.0,
        most_mw_per_min=20.0,
        note=(
            "its 20 MW/min names restoration, too: small loads alone can meet both "
            "rules"
        ),
    ),
    "ieso_3_0": Curve(
        "version 3.0",
        level=1.0,
        within_s=1.0,
        rocof=5.0,
        note="no automatic return from backup without approval; RoCoF up to 5.0 Hz/s",
    ),
    "eirgrid_mpid345": Curve(
        "approved 2026-09-22 by a secondary source",
        level=0.9,
        within_s=0.5,
        rocof=1.0,
        note="RoCoF up to 1 Hz/s over rolling 500 ms; a ramp to be agreed",
    ),
    "aemc_draft_2026_03": Curve(
        "draft, minimum access; from 30 MW", level=0.9, within_s=1.0, note="90 to 110 %"
    ),
    "aemc_draft_2026_03_automatic": Curve(
        "draft, automatic access; from 30 MW",
        level=0.9,
        within_s=0.5,
        note="90 to 110 %",
    ),
    "spp_hill": Curve(
        "above 50 MW",
        _undervoltage_zones((0.9, 0.5, 0.15)),
        ((58.8, 61.2, 0.0),),
        note="0.15 s by another secondary source; constant current, not constant power",
    ),
}
"""Ride-through curves by name.

No values were found for PJM, MISO, NYISO, GB, China and Singapore.
"""


@dataclass(frozen=True)
class InsideTrip(Brief):
    """Voltage at which settings disconnect load that a curve requires to stay.

    `shortest_s` is the length of the shortest dip that disconnects load, `ridden_s`
    that of the longest dip in which load must stay connected [s].
    """

    zone: str
    at_pu: float
    shortest_s: float
    ridden_s: float

    def __str__(self) -> str:
        if self.ridden_s == inf:
            return f"leaves at {self.at_pu:g} pu, where it must stay for good"
        return (
            f"leaves on {1e3 * self.shortest_s:,.0f} ms at {self.at_pu:g} pu, "
            f"must ride {1e3 * self.ridden_s:,.0f} ms"
        )


def inside_trips(curve: Curve, settings: RideThrough) -> list[InsideTrip]:
    """Return the voltages at which load trips though a curve requires it to stay.

    The trip settings are compared with the curve; nothing is simulated.
    """
    low, high = NORMAL_PU
    result = [
        InsideTrip(f"{low:.2f}-{high:.2f} pu", stage.voltage_pu, stage.time_s, inf)
        for stage in (settings.stages if curve.zones else ())
        if (
            stage.voltage_pu > low if stage.side == "under" else stage.voltage_pu < high
        )
    ]
    for zone in curve.zones:
        at_pu = min(zone.worst, MAX_PU)
        trips = (
            shortest_dip_s(stage.voltage_pu, stage.time_s, at_pu, settings.filter_s)
            for stage in settings.stages
            if stage.side == zone.side
        )
        if (shortest_s := min(trips, default=inf)) <= zone.time_s:
            result.append(InsideTrip(str(zone), at_pu, shortest_s, zone.time_s))
    return result


def uncovered_text(curve: Curve, event: Event, voltage: Voltage) -> str:
    """Return text on the part of a disturbance that a curve does not cover.

    The text is empty if the curve requires ride-through of the whole disturbance.
    """
    zones = [(voltage, zone.edge, zone.side, zone.time_s, "pu") for zone in curve.zones]
    sides: tuple[tuple[Side, Any], ...] = (("under", min), ("over", max))
    for side, farthest in sides:
        worst_pu = [zone.worst for zone in curve.zones if zone.side == side]
        zones += [(voltage, farthest(worst_pu), side, 0.0, "pu")] if worst_pu else []
    if event.frequency:
        times, hz = zip(*event.frequency, strict=True)
        for low, high, max_s in curve.frequency:
            zones.append((Voltage(times, hz), low, "under", max_s, "Hz"))
            zones.append((Voltage(times, hz), high, "over", max_s, "Hz"))
    for series, level, side, max_s, unit in zones:
        longest_s = max(
            (span.end - span.start for span in series.excursions(level, side)),
            default=0.0,
        )
        if longest_s > max_s + TIE_S:
            relation = {"under": "below", "over": "above"}[side]
            required = f"up to {max_s:g} s" if max_s else "nothing there"
            return (
                f"{format_seconds(longest_s)} {relation} {level:g} {unit}; it asks for "
                f"{required}"
            )
    if event.frequency and curve.rocof is not None:
        times, hz = np.array(event.frequency).T
        ends = np.array([*times, *times + ROCOF_S])
        end_hz, start_hz = (
            np.interp(at_s, times, hz) for at_s in (ends, ends - ROCOF_S)
        )
        fastest = float(np.abs(end_hz - start_hz).max()) / ROCOF_S
        if fastest > curve.rocof + TIE_S:
            return (
                f"{fastest:.3g} Hz/s over {ROCOF_S:g} s; it asks for up to "
                f"{curve.rocof:g}"
            )
    return ""


def format_rounded(value: float) -> str:
    """Return a number as text with three digits, the precision of load and settings."""
    return f"{float(f'{value:.3g}'):,g}"


def format_seconds(time_s: float) -> str:
    """Return a time as text, such as `2.5 s`; empty for nan."""
    return f"{format_rounded(time_s)} s" if time_s == time_s else ""


@dataclass(frozen=True)
class SitePower(Brief):
    """Power of a site over intervals in which each block's power is linear in time.

    Arrays hold the start and the end of each of n intervals.
    """

    time_s: Float64Array  # shape (2 n,)
    power_mw: Float64Array  # shape (blocks, 2 n)
    # Power without the event, constant in each interval, shape (blocks, 2 n)
    without_mw: Float64Array

    def last_time_below_s(self, level: float, first_s: float, end_s: float) -> float:
        """Return the last time [s] at which power is below a fraction of undisturbed.

        Times from `first_s` to `end_s` are searched.
        """
        low, high = self.fraction
        starts_s, ends_s = self.time_s.reshape(-1, 2).T
        level -= 1e-9
        first = int(np.searchsorted(ends_s, first_s, "right"))
        stop = int(np.searchsorted(starts_s, end_s, "left"))
        result = np.flatnonzero(np.minimum(low[first:stop], high[first:stop]) < level)
        if not result.size:
            return first_s
        k = first + int(result[-1])
        a, b = starts_s[k], ends_s[k]
        last_s = (
            b
            if high[k] < level
            else a + (level - low[k]) / (high[k] - low[k]) * (b - a)
        )
        return float(min(max(last_s, first_s), end_s))

    @cached_property
    def fraction(self) -> Float64Array:
        """Power with the event over power without it, shape (2, n)."""
        without_mw = np.maximum(self.without_mw.sum(axis=0), 1e-12)
        both: Float64Array = (self.power_mw.sum(axis=0) / without_mw).reshape(-1, 2).T
        return both


VerdictName = Literal["not met", "inconclusive", "met", "not required"]
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
"""Compliance results, the worst first."""


@dataclass(frozen=True)
class Verdict(Brief):
    """Compliance of a site's response to a disturbance with a curve."""

    verdict: VerdictName
    why: str
    # Recovery after each dip; infinite if the next dip comes first
    recovered_s: tuple[float, ...] = ()
    ceased_inside: bool | None = None  # None if the curve has no voltage zones
    # Voltages at which settings alone trip inside the curve, by block
    settings: Mapping[str, list[InsideTrip]] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Index of the result in `VERDICTS`; 0 is the worst."""
        return VERDICTS.index(self.verdict)


def check_compliance(
    curve: Curve,
    event: Event,
    voltage: Voltage,
    site_power: SitePower,
    blocks: Mapping[str, tuple[RideThrough, Response]],
) -> Verdict:
    """Check the compliance of a site's response with a curve."""
    settings = {
        name: trips
        for name, (block_settings, _) in blocks.items()
        if (trips := inside_trips(curve, block_settings))
    }
    result: list[tuple[VerdictName, str]] = [
        ("not met", f"{name} counts dips, which is prohibited")
        for name, (block_settings, _) in blocks.items()
        if block_settings.counter is not None and not curve.counters
    ]
    ceased = any(
        change.kind == "transfer"
        for _, response in blocks.values()
        for change in response.changes
    )
    uncovered = uncovered_text(curve, event, voltage)
    if uncovered:
        kind, text = result[0] if result else ("not required", uncovered)
        return Verdict(kind, text, settings=settings)
    times: tuple[float, ...] = ()
    if curve.level is not None:
        times = tuple(_recovery_times_s(curve.level, voltage, site_power))
    low, high = NORMAL_PU
    if ceased and curve.zones and low <= min(voltage.pu) and max(voltage.pu) <= high:
        result.append(("not met", f"load leaves between {low:g} and {high:g} pu"))
    elif ceased and times:
        result += _recovery_results(curve, times, voltage)
    elif ceased and not result:
        result.append(
            ("inconclusive", "load leaves, and no time for its return is given")
        )
    if curve.most_mw_per_min is not None:
        result += _restoration_result(curve.most_mw_per_min, site_power)
    result = result or [("met", "no load leaves")]
    kind = min((kind for kind, _ in result), key=VERDICTS.index)
    reasons = "; ".join(text for result_kind, text in result if result_kind == kind)
    if not curve.zones:
        return Verdict(kind, f"{reasons} (recovery alone)", times)
    return Verdict(kind, reasons, times, ceased, settings)


def _dip_gaps(voltage: Voltage) -> list[tuple[float, float]]:
    """Return pairs of a dip's end and the next dip's start [s]."""
    spans = (*voltage.excursions(NORMAL_PU[0]), Excursion(inf, inf))
    return [(a.end, b.start) for a, b in pairwise(spans)]


def _recovery_times_s(
    level: float, voltage: Voltage, site_power: SitePower
) -> Iterator[float]:
    """Yield the recovery time after each dip [s]; infinite without recovery."""
    for back_s, after_s in _dip_gaps(voltage):
        end_s = min(after_s, float(site_power.time_s[-1]))
        last_s = (
            site_power.last_time_below_s(level, back_s, end_s) if back_s < inf else inf
        )
        yield inf if last_s >= end_s else last_s - back_s


def _recovery_results(
    curve: Curve, times: Sequence[float], voltage: Voltage
) -> Iterator[tuple[VerdictName, str]]:
    """Yield a result and its reason for each rule of the curve on recovery times."""
    percent, within_s = f"{100 * (curve.level or 0):g} %", curve.within_s
    n = plural(len(times), "dip")
    dips = zip(times, _dip_gaps(voltage), strict=True)
    slow = [
        (took_s, after_s - back_s)
        for took_s, (back_s, after_s) in dips
        if took_s > within_s + TIE_S
    ]
    late = [took_s for took_s, apart_s in slow if apart_s > within_s]
    if late:
        finite_s = [took_s for took_s in late if isfinite(took_s)]
        delay = (
            f"in {format_seconds(max(finite_s))}"
            if finite_s
            else "by the next dip, or never"
        )
        back = f"{'back' if finite_s else 'not back'} to {percent} {delay}"
        yield "not met", f"{back}, {within_s:g} s allowed, after {len(late)} of {n}"
    if n_undecided := len(slow) - len(late):
        yield (
            "inconclusive",
            f"the next dip comes within {within_s:g} s, after {n_undecided} of {n}",
        )
    if not slow:
        yield "met", f"back to {percent} within {within_s:g} s"


def _restoration_result(
    max_mw_per_min: float, site_power: SitePower
) -> Iterator[tuple[VerdictName, str]]:
    """Yield the result on the steepest return of load, if its ramp is limited."""
    rise_mw, length_s = (
        np.diff(values)[::2]
        for values in (site_power.power_mw.sum(axis=0), site_power.time_s)
    )
    steepest = float((rise_mw / length_s).max(initial=0.0)) * 60
    if steepest > 0:
        kind: VerdictName = (
            "met" if steepest <= max_mw_per_min * (1 + 1e-9) else "not met"
        )
        yield (
            kind,
            f"restores {format_rounded(steepest)} MW/min, {max_mw_per_min:g} allowed",
        )


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several compliance results of one curve."""
    return min(verdicts, key=lambda each: each.rank)
