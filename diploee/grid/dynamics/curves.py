"""Named ride-through curves, and compliance checks of settings and responses.

The texts were read in `Yuz2023/awesome-compute-power-coordination` (2026-10-07), not in
the operators' own papers. Rules that a curve doesn't give aren't judged, and the
verdict says so.

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
"""Window of a rate of change of frequency: EirGrid's. ASSUMPTION: IESO's, too; linear
between."""
MAX_PU = 1.2
"""ASSUMPTION: worst over-voltage of a zone without an upper edge."""


@dataclass(frozen=True)
class VoltageZone(Brief):
    """Voltage range that a load must ride through for a time."""

    edge: float  # nearest to nominal [pu]
    worst: float  # farthest from it [pu]
    time_s: float
    side: Side = "under"

    def __str__(self) -> str:
        low, high = sorted((self.edge, self.worst))
        return f"{low:.2f}-{high:.2f} pu" if isfinite(high) else f"above {low:.2f} pu"


@dataclass(frozen=True)
class Curve(Brief):
    """Ride-through rule: voltage zones, and the time allowed for recovery."""

    status: str
    zones: tuple[VoltageZone, ...] = ()
    # Low, high [Hz], most beyond [s]
    frequency: tuple[tuple[float, float, float], ...] = ()
    level: float | None = None  # of the power without the event
    within_s: float = 0.0  # of the voltage being back above 0.9 pu
    counters: bool = True  # whether counting dips is allowed
    rocof: float | None = None  # fastest change of the frequency to ride through [Hz/s]
    most_mw_per_min: float | None = None  # also on the restoration
    note: str = ""


def _under(*of: tuple[float, float, float]) -> tuple[VoltageZone, ...]:
    return tuple(VoltageZone(*zone) for zone in of)


NERC_HZ = ((58.8, 61.2, 299.0), (57.0, 61.8, 0.0))
CURVES: Mapping[str, Curve] = {
    "ercot_nogrr282": Curve(
        "approved 2026-07, in effect 2026-08-01 by secondary sources",
        (
            *_under(
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
            *_under(
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
        _under((0.9, 0.5, 0.15)),
        ((58.8, 61.2, 0.0),),
        note="0.15 s by another secondary source; constant current, not constant power",
    ),
}
"""The curves by name; PJM, MISO, NYISO, GB, China and Singapore: no number found."""


@dataclass(frozen=True)
class Inside(Brief):
    """Points at which settings trip inside a ride-through curve.

    The shortest dip that trips, and the one to ride.
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


def static_check(curve: Curve, settings: RideThrough) -> list[Inside]:
    """Return the points at which settings trip inside a curve, without a series."""
    low, high = NORMAL_PU
    result = [
        Inside(f"{low:.2f}-{high:.2f} pu", stage.voltage_pu, stage.time_s, inf)
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
            result.append(Inside(str(zone), at_pu, shortest_s, zone.time_s))
    return result


def outside(curve: Curve, event: Event, voltage: Voltage) -> str:
    """Return the parts of a disturbance that lie outside the ride-through zones.

    Empty where nowhere.
    """
    beyond = [
        (voltage, zone.edge, zone.side, zone.time_s, "pu") for zone in curve.zones
    ]
    sides: tuple[tuple[Side, Any], ...] = (("under", min), ("over", max))
    for side, farthest in sides:
        worst = [zone.worst for zone in curve.zones if zone.side == side]
        beyond += [(voltage, farthest(worst), side, 0.0, "pu")] if worst else []
    if event.frequency:
        times, hz = zip(*event.frequency, strict=True)
        for low, high, most_s in curve.frequency:
            beyond.append((Voltage(times, hz), low, "under", most_s, "Hz"))
            beyond.append((Voltage(times, hz), high, "over", most_s, "Hz"))
    for of, level, side, most_s, unit in beyond:
        longest_s = max(
            (span.end - span.start for span in of.beyond(level, side)), default=0.0
        )
        if longest_s > most_s + TIE_S:
            beyond_it = {"under": "below", "over": "above"}[side]
            asked = f"up to {most_s:g} s" if most_s else "nothing there"
            return (
                f"{seconds(longest_s)} {beyond_it} {level:g} {unit}; it asks for "
                f"{asked}"
            )
    if event.frequency and curve.rocof is not None:
        times, hz = np.array(event.frequency).T
        ends = np.array([*times, *times + ROCOF_S])
        now, before = (np.interp(at, times, hz) for at in (ends, ends - ROCOF_S))
        fastest = float(np.abs(now - before).max()) / ROCOF_S
        if fastest > curve.rocof + TIE_S:
            return (
                f"{fastest:.3g} Hz/s over {ROCOF_S:g} s; it asks for up to "
                f"{curve.rocof:g}"
            )
    return ""


def rounded(value: float) -> str:
    """Return a number rounded to three digits, the precision of settings and load."""
    return f"{float(f'{value:.3g}'):,g}"


def seconds(time_s: float) -> str:
    """Return a time as text, or an empty text for nan."""
    return f"{rounded(time_s)} s" if time_s == time_s else ""


@dataclass(frozen=True)
class Course(Brief):
    """Power of a site over intervals in which every block is linear.

    Both ends of each.
    """

    time_s: Float64Array  # shape (2 n,)
    power_mw: Float64Array  # shape (blocks, 2 n)
    # Without the event, constant within a piece, shape (blocks, 2 n)
    without_mw: Float64Array

    def last_below(self, level: float, first_s: float, end_s: float) -> float:
        """Return the last time before `end_s` with power below a level."""
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
        at = (
            b
            if high[k] < level
            else a + (level - low[k]) / (high[k] - low[k]) * (b - a)
        )
        return float(min(max(at, first_s), end_s))

    @cached_property
    def fraction(self) -> Float64Array:
        """Fraction of the power drawn at both ends of each interval, shape (2, n)."""
        without_mw = np.maximum(self.without_mw.sum(axis=0), 1e-12)
        both: Float64Array = (self.power_mw.sum(axis=0) / without_mw).reshape(-1, 2).T
        return both


Kind = Literal["not met", "inconclusive", "met", "not required"]
VERDICT_WORDS: tuple[Kind, ...] = get_args(Kind)
"""Verdicts, the worst first."""


@dataclass(frozen=True)
class Verdict(Brief):
    """Compliance of a site's response to a disturbance with a curve."""

    verdict: Kind
    why: str
    # After each dip; infinite where another comes before
    recovered_s: tuple[float, ...] = ()
    ceased_inside: bool | None = None  # None where the curve gives no voltages
    # Where settings transfer inside, by block, without any series
    settings: Mapping[str, list[Inside]] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Position of the result among `VERDICT_WORDS`."""
        return VERDICT_WORDS.index(self.verdict)


def verdict(
    curve: Curve,
    event: Event,
    voltage: Voltage,
    course: Course,
    blocks: Mapping[str, tuple[RideThrough, Response]],
) -> Verdict:
    """Return the compliance of a site's response with a curve."""
    settings = {
        name: inside
        for name, (of, _) in blocks.items()
        if (inside := static_check(curve, of))
    }
    result: list[tuple[Kind, str]] = [
        ("not met", f"{name} counts dips, which is prohibited")
        for name, (of, _) in blocks.items()
        if of.counter is not None and not curve.counters
    ]
    ceased = any(c.what == "transfer" for _, of in blocks.values() for c in of.changes)
    why = outside(curve, event, voltage)
    if why:
        kind, text = result[0] if result else ("not required", why)
        return Verdict(kind, text, settings=settings)
    times: tuple[float, ...] = ()
    if curve.level is not None:
        times = tuple(_recoveries(curve.level, voltage, course))
    low, high = NORMAL_PU
    if ceased and curve.zones and low <= min(voltage.pu) and max(voltage.pu) <= high:
        result.append(("not met", f"load leaves between {low:g} and {high:g} pu"))
    elif ceased and times:
        result += _judged(curve, times, voltage)
    elif ceased and not result:
        result.append(
            ("inconclusive", "load leaves, and no time for its return is given")
        )
    if curve.most_mw_per_min is not None:
        result += _restoration(curve.most_mw_per_min, course)
    result = result or [("met", "no load leaves")]
    kind = min((kind for kind, _ in result), key=VERDICT_WORDS.index)
    words = "; ".join(text for of, text in result if of == kind)
    if not curve.zones:
        return Verdict(kind, f"{words} (recovery alone)", times)
    return Verdict(kind, words, times, ceased, settings)


def _dips(voltage: Voltage) -> list[tuple[float, float]]:
    """Return the end of each dip and the start of the next."""
    spans = (*voltage.beyond(NORMAL_PU[0]), Excursion(inf, inf))
    return [(a.end, b.start) for a, b in pairwise(spans)]


def _recoveries(level: float, voltage: Voltage, course: Course) -> Iterator[float]:
    for back_s, after_s in _dips(voltage):
        end_s = min(after_s, float(course.time_s[-1]))
        last_s = course.last_below(level, back_s, end_s) if back_s < inf else inf
        yield inf if last_s >= end_s else last_s - back_s


def _judged(
    curve: Curve, times: Sequence[float], voltage: Voltage
) -> Iterator[tuple[Kind, str]]:
    percent, within_s = f"{100 * (curve.level or 0):g} %", curve.within_s
    n = plural(len(times), "dip")
    dips = zip(times, _dips(voltage), strict=True)
    slow = [
        (took_s, after_s - back_s)
        for took_s, (back_s, after_s) in dips
        if took_s > within_s + TIE_S
    ]
    late = [took_s for took_s, apart_s in slow if apart_s > within_s]
    if late:
        seen = [took_s for took_s in late if isfinite(took_s)]
        at = f"in {seconds(max(seen))}" if seen else "by the next dip, or never"
        back = f"{'back' if seen else 'not back'} to {percent} {at}"
        yield "not met", f"{back}, {within_s:g} s allowed, after {len(late)} of {n}"
    if unseen := len(slow) - len(late):
        yield (
            "inconclusive",
            f"the next dip comes within {within_s:g} s, after {unseen} of {n}",
        )
    if not slow:
        yield "met", f"back to {percent} within {within_s:g} s"


def _restoration(most: float, course: Course) -> Iterator[tuple[Kind, str]]:
    rise_mw, length_s = (
        np.diff(of)[::2] for of in (course.power_mw.sum(axis=0), course.time_s)
    )
    steepest = float((rise_mw / length_s).max(initial=0.0)) * 60
    if steepest > 0:
        kind: Kind = "met" if steepest <= most * (1 + 1e-9) else "not met"
        yield kind, f"restores {rounded(steepest)} MW/min, {most:g} allowed"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several compliance results of one curve."""
    return min(verdicts, key=lambda of: of.rank)
