"""Model-quality tests of a site: flat start, steps, and named ride-through curves.

A planner runs these tests on a dynamic model before it is used in a study. The load is
held at one moment of the run, so that what moves is the model's response.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import Literal, get_args

import numpy as np

from diploee.base.errors import Brief
from diploee.base.progress import stage
from diploee.base.tables import Float64Array
from diploee.base.units import S_PER_MIN
from diploee.grid.dynamics.curves import (
    CURVES,
    MAX_PU,
    SOURCE,
    Curve,
    format_rounded,
    format_seconds,
    static_check,
)
from diploee.grid.dynamics.site import Site
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic, as_html
from diploee.scenario.ride_through import Side

CHANGES = {
    "voltage -5 %": (0.95, 0.0),
    "voltage +5 %": (1.05, 0.0),
    "voltage -10 %": (0.9, 0.0),
    "voltage +10 %": (1.1, 0.0),
    "frequency -0.5 Hz": (1.0, -0.5),
    "frequency +0.5 Hz": (1.0, 0.5),
}
"""Voltage [pu] and change of frequency [Hz] of each step. ASSUMPTION: those of
frequency."""
BEFORE_S, HELD_S, AFTER_S, STEP_S = 1.0, 5.0, 10.0, 0.01
"""Times before a change, within a step, after the last change, and of a step of the
site [s]."""
REST_S = 3600.0
"""ASSUMPTION: time in which a battery or ramp limit comes to rest [s]."""
FLAT, BACK_S = 0.001, 2.0
"""ASSUMPTION: what moves by less is flat, of the apparent power before; the time until
it is that again after a step [s]."""
INSIDE_PU = 0.01
"""ASSUMPTION: how far inside a zone the voltage is, but in the first: its edge is that
of the zone before, whose timer still runs there."""
TIE = 1e-6
"""Shares nearer than this are one."""

Outcome = Literal["fail", "pass", "not covered"]
Steps = list[tuple[float, float, float]]


@dataclass(frozen=True, eq=False)
class Recording(Brief):
    """Inputs and outputs of the site in a test, all of one shape (n,)."""

    time_s: Float64Array  # end of each step
    # Voltage and frequency over it; P and Q at its end
    pu: Float64Array
    hz: Float64Array
    p_mw: Float64Array
    q_mvar: Float64Array
    connected: Float64Array  # share of the load on the grid

    def moved(self) -> Float64Array:
        """Return the larger change of P or Q from the start, per apparent power."""
        p, q = (np.abs(of - of[0]) for of in (self.p_mw, self.q_mvar))
        base = max(float(np.hypot(self.p_mw[0], self.q_mvar[0])), TIE)
        return np.asarray(np.maximum(p, q) / base)


@dataclass(frozen=True, eq=False)
class QualityTest(Brief):
    """A test with its outcome, its criterion, and what was found."""

    group: str  # tests of one group share a chart
    name: str  # of the step or curve
    criterion: str  # when it passes
    outcome: Outcome = "not covered"  # a test that was not made has no recording
    why: str = ""  # what was found, or why it was not made
    recording: Recording | None = None  # None where there was nothing to test
    all_stays: bool = True  # whether no load left
    # Heading, value and unit; a time that never comes is None
    figures: tuple[tuple[str, float | None, str], ...] = ()


@dataclass(frozen=True, eq=False)
class ModelQuality(Brief):
    """Outcomes of the model-quality tests of a site."""

    name: str  # of the scenario
    at: datetime  # moment whose load is held
    tests: tuple[QualityTest, ...]  # in the order in which they were made
    notes: tuple[str, ...]  # sources and assumptions

    def sections(self) -> list[Section]:
        """Return the outcomes as a section, with a chart of each group."""
        counts, n = Counter(of.outcome for of in self.tests), f"of {len(self.tests)}"
        figures = tuple(
            Statistic(word.capitalize(), counts[word], n, pattern="{:.0f}")
            for word in get_args(Outcome)
        )
        cells = list[Statistic]()
        for of in self.tests:
            texts = {"Verdict": of.outcome, "Found": of.why, "Criterion": of.criterion}
            cells += [Statistic(of.name, texts[k], quantity=k) for k in texts]
            cells += [Statistic(of.name, v, u, quantity=k) for k, v, u in of.figures]
        tables = (SectionTable("Tests", tuple(cells), first="Test"),)
        charts = tuple(dict.fromkeys(of.group for of in self.tests if of.recording))
        return [Section("answer", "Model quality", figures, tables, charts, self.notes)]

    def _repr_html_(self) -> str:
        return as_html(f"{self.name}, {self.at:%Y-%m-%d %H:%M}", self.sections())


def peak_time(run: RunFolder) -> datetime:
    """Return when the run's power is highest."""
    return datetime.fromisoformat(run.metrics["grid"]["peak"]["time"])


@stage("model-quality")
def model_quality(run: RunFolder, site: Site, at: datetime) -> ModelQuality:
    """Test a site as a dynamic model.

    Parameters
    ----------
    run : RunFolder
        The run.
    site : Site
        Its site, opened with `hold`; each test begins with a copy.
    at : datetime.datetime
        When it was opened.

    Returns
    -------
    ModelQuality
        Outcome, criterion, figures and recording of each test.
    """
    machines = site.state.machines
    if site.state.stages:
        site.step(REST_S, 1.0, site.state.nominal_hz)
    notes = (
        f"the load is held as it is on {at:%Y-%m-%d at %H:%M:%S}; what moves is over "
        "the apparent power before the test",
        *["its battery or ramp limit had an hour at that load to come to rest"]
        * bool(site.state.stages),
        "tests: as in ERCOT's DWG Procedure Manual (revision 24 of 2025-06-05, section "
        "3.1.5), seen in a secondary source (docs.gridmo.io) without its criteria",
        "assumed: the criteria of flat start and steps, and the sizes of frequency "
        "steps",
        f"facility.ride_through: {', '.join(machines) or 'none'}; what has none stays "
        "on the grid, and none leaves because of the frequency",
        *(f"{name}: {of.s.source}" for name, of in machines.items() if of.s.source),
        f"curves: {SOURCE}; the operator's own text decides; diploee ride-through has "
        "their rules on counters and on the ramp of a return",
        *site.notes,
    )
    return ModelQuality(run.scenario.name, at, tuple(_tests(site)), notes)


def _tests(site: Site) -> Iterator[QualityTest]:
    hz, flat = site.state.nominal_hz, f"{100 * FLAT:g} %"
    normal, end_s = (0.0, 1.0, hz), BEFORE_S + HELD_S
    criterion = f"P and Q within {flat} for {AFTER_S:g} s"
    test = QualityTest("flat start", "flat start", criterion)
    yield _played(site, test, [normal], 0.0)
    criterion = f"all stays on; settles, and is back, within {flat} in {BACK_S:g} s"
    for name, (pu, by_hz) in CHANGES.items():
        steps = [normal, (BEFORE_S, pu, hz + by_hz), (end_s, 1.0, hz)]
        test = QualityTest(f"{name.partition(' ')[0]} steps", name, criterion)
        yield _played(site, test, steps, BACK_S)
    for name in CURVES:
        yield _ride(site, name, "low voltage", "under")
    for name in CURVES:
        if CURVES[name].zones:
            yield _ride(site, name, "high voltage", "over")


def play(site: Site, steps: Steps) -> Recording:
    """Step a copy of a site through times [s], voltages [pu] and frequencies [Hz].

    Each value is held until the next time, and the last one for `AFTER_S`.
    """
    site, (stamps, pu, hz) = deepcopy(site), np.array(steps).T
    times = np.round(np.arange(0, stamps[-1] + AFTER_S + TIE, STEP_S), 6)
    held = np.maximum(np.searchsorted(stamps, times - TIE) - 1, 0)
    given, since_s = np.array([times, pu[held], hz[held]]), site.state.time_s
    found = [
        (*site.step(since_s + time_s, *of), site.connected)
        for time_s, *of in given.T.tolist()
    ]
    return Recording(*given, *np.array(found).T)


def _played(
    site: Site,
    test: QualityTest,
    steps: Steps,
    within_s: float,
    level: float | None = None,
) -> QualityTest:
    """Return a test with its outcome: P and Q, or a level of P, are back in time.

    Without a level all load must stay on, too, and P and Q settle.
    """
    of, last_s, failed = play(site, steps), steps[-1][0], list[str]()
    p_mw, moved, low = of.p_mw, of.moved(), float(of.connected.min())
    is_back = moved <= FLAT if level is None else p_mw >= (level - TIE) * p_mw[0]
    late_s = of.time_s[~is_back & (of.time_s > last_s)]
    back_s = float(late_s.max(initial=last_s)) - last_s if is_back[-1] else inf
    if level is None and low < 1 - TIE:
        failed.append(f"{100 * (1 - low):.2g} % of the load leaves")
    held = moved[(of.time_s > BEFORE_S + BACK_S) & (of.time_s <= last_s)]
    if level is None and held.size and np.ptp(held) > FLAT:
        failed.append(f"moves by {100 * np.ptp(held):.2g} % within the step")
    back = (
        f"back in {format_seconds(back_s)}"
        if is_back[-1]
        else f"not back in {AFTER_S:g} s"
    )
    if last_s == 0:
        back = f"moves by {100 * moved.max():.2g} %"
    if back_s > within_s:
        failed.append(back)
    last_mw = float(p_mw[np.searchsorted(of.time_s, last_s)])
    figures = (
        ("P before", float(p_mw[0]), "MW"),
        ("P as the disturbance ends", last_mw, "MW"),
        ("Connected, least", 100 * low, "%"),
        ("Back in", back_s if is_back[-1] else None, "s"),
    )
    return replace(
        test,
        outcome="fail" if failed else "pass",
        why="; ".join(failed) or back,
        recording=of,
        all_stays=low > 1 - TIE,
        figures=figures,
    )


def envelope(curve: Curve, side: Side, hz: float = 60.0) -> Steps:
    """Return the worst voltage that a curve asks to ride through, zone after zone."""
    steps, inside_pu, start_s = [(0.0, 1.0, hz)], 0.0, BEFORE_S
    for zone in sorted(curve.zones, key=lambda zone: zone.time_s):
        if zone.side == side:
            steps.append((start_s, min(zone.worst, MAX_PU) + inside_pu, hz))
            start_s = BEFORE_S + zone.time_s
            inside_pu = INSIDE_PU if side == "under" else -INSIDE_PU
    return [*steps, (start_s, 1.0, hz)]


def _ride(site: Site, name: str, group: str, side: Side) -> QualityTest:
    """Return the test of a curve, or the reason why it is not covered."""
    curve, within_s = CURVES[name], BACK_S
    steps = envelope(curve, side, site.state.nominal_hz)
    asked = [
        f"{pu:g} pu until {end_s - BEFORE_S:g} s"
        for (_, pu, _), (end_s, *_) in pairwise(steps[1:])
    ]
    if curve.level is not None:
        within_s = curve.within_s
        asked.append(f"P at {100 * curve.level:g} % within {within_s:g} s of its end")
    test = QualityTest(group, f"{name}, {group}", "; ".join(asked))
    blocks = [machine.s for machine in site.state.machines.values()]
    if len(steps) < 3:
        return replace(test, why=f"its text, as read here, gives no {group}")
    if not any(stage.side == side for of in blocks for stage in of.stages):
        return replace(test, why=f"facility.ride_through has no stage of {group}")
    test = _played(site, test, steps, within_s, curve.level)
    failed = ["counts dips, which is prohibited"] * (
        not curve.counters and any(block.counter for block in blocks)
    )
    if (of := test.recording) and (most := curve.most_mw_per_min) is not None:
        rise_mw = float(np.diff(of.connected).max() * of.p_mw[0])
        if (rate := rise_mw / STEP_S * S_PER_MIN) > most:
            failed.append(f"restores {format_rounded(rate)} MW/min, {most:g} allowed")
    if failed:
        why = "; ".join((test.why, *failed))
        return replace(test, outcome="fail", why=why)
    if curve.level is None and not test.all_stays:
        trips = [str(trip) for block in blocks for trip in static_check(curve, block)]
        leaves = "; ".join(trips) or "load leaves"
        why = (
            f"as its settings say, {leaves}; no time for a return is given; {test.why}"
        )
        return replace(test, outcome="not covered", why=why)
    return test
