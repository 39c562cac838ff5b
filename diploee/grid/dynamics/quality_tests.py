"""Model-quality tests of a site: flat start, steps, and named ride-through curves.

A planner runs these tests on a dynamic model before using it in a study. The load is
constant, with the value of one interval of the run, so that any change of power is the
model's response.

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
    inside_trips,
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
"""Voltage [pu] and change of frequency [Hz] in each step. ASSUMPTION: the sizes of the
frequency steps."""
BEFORE_S, HELD_S, AFTER_S, STEP_S = 1.0, 5.0, 10.0, 0.01
"""Time before the first change, length of a step, time after the last change, and time
step of the simulation [s]."""
REST_S = 3600.0
"""ASSUMPTION: time after which a battery or ramp limit is at rest [s]."""
FLAT, BACK_S = 0.001, 2.0
"""ASSUMPTION: largest change of P or Q that counts as flat, as a fraction of the
apparent power at the start; and the longest time to return to it after a step [s]."""
INSIDE_PU = 0.01
"""ASSUMPTION: distance of the test voltage from the edge of a zone [pu], except in the
first zone. At the edge itself the timer of the previous zone would still run."""
TIE = 1e-6
"""Fractions that differ by less than this are equal."""

Outcome = Literal["fail", "pass", "not covered"]
Steps = list[tuple[float, float, float]]


@dataclass(frozen=True, eq=False)
class Recording(Brief):
    """Inputs and outputs of the site during a test, each of shape (n,)."""

    time_s: Float64Array  # end of each step
    # Voltage and frequency over it; P and Q at its end
    pu: Float64Array
    hz: Float64Array
    p_mw: Float64Array
    q_mvar: Float64Array
    connected: Float64Array  # fraction of the load that is connected

    def relative_change(self) -> Float64Array:
        """Return the larger change of P or Q since the start, over apparent power."""
        p, q = (np.abs(values - values[0]) for values in (self.p_mw, self.q_mvar))
        base = max(float(np.hypot(self.p_mw[0], self.q_mvar[0])), TIE)
        return np.asarray(np.maximum(p, q) / base)


@dataclass(frozen=True, eq=False)
class QualityTest(Brief):
    """A test with its criterion, outcome and results."""

    group: str  # tests of one group share a chart
    name: str  # of the step or curve
    criterion: str  # condition for a pass
    outcome: Outcome = "not covered"  # pass or fail by the criterion
    why: str = ""  # reason for the outcome
    recording: Recording | None = None  # None if the test was not run
    all_stays: bool = True  # whether all load stays connected
    # Heading, value and unit; the value of a time that is never reached is None
    figures: tuple[tuple[str, float | None, str], ...] = ()


@dataclass(frozen=True, eq=False)
class ModelQuality(Brief):
    """Outcomes of the model-quality tests of a site."""

    name: str  # of the scenario
    at: datetime  # time of the load that all tests use
    tests: tuple[QualityTest, ...]  # in the order of the runs
    notes: tuple[str, ...]  # sources and assumptions

    def sections(self) -> list[Section]:
        """Return the outcomes as a section, with a chart of each group."""
        counts, n = (
            Counter(test.outcome for test in self.tests),
            f"of {len(self.tests)}",
        )
        figures = tuple(
            Statistic(word.capitalize(), counts[word], n, pattern="{:.0f}")
            for word in get_args(Outcome)
        )
        cells = list[Statistic]()
        for test in self.tests:
            texts = {
                "Verdict": test.outcome,
                "Found": test.why,
                "Criterion": test.criterion,
            }
            cells += [Statistic(test.name, texts[k], quantity=k) for k in texts]
            cells += [
                Statistic(test.name, v, u, quantity=k) for k, v, u in test.figures
            ]
        tables = (SectionTable("Tests", tuple(cells), first="Test"),)
        charts = tuple(
            dict.fromkeys(test.group for test in self.tests if test.recording)
        )
        return [Section("answer", "Model quality", figures, tables, charts, self.notes)]

    def _repr_html_(self) -> str:
        return as_html(f"{self.name}, {self.at:%Y-%m-%d %H:%M}", self.sections())


def peak_time(run: RunFolder) -> datetime:
    """Return the time of the run's highest power."""
    return datetime.fromisoformat(run.metrics["grid"]["peak"]["time"])


@stage("model-quality")
def model_quality(run: RunFolder, site: Site, at: datetime) -> ModelQuality:
    """Test a site as a dynamic model.

    Parameters
    ----------
    run : RunFolder
        The run.
    site : Site
        The run's site, opened with `hold`; each test steps a copy.
    at : datetime.datetime
        Time of the load at which the site is held.

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
        *(
            f"{name}: {machine.s.source}"
            for name, machine in machines.items()
            if machine.s.source
        ),
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
    yield _run_steps(site, test, [normal], 0.0)
    criterion = f"all stays on; settles, and is back, within {flat} in {BACK_S:g} s"
    for name, (pu, by_hz) in CHANGES.items():
        steps = [normal, (BEFORE_S, pu, hz + by_hz), (end_s, 1.0, hz)]
        test = QualityTest(f"{name.partition(' ')[0]} steps", name, criterion)
        yield _run_steps(site, test, steps, BACK_S)
    for name in CURVES:
        yield _run_curve(site, name, "low voltage", "under")
    for name in CURVES:
        if CURVES[name].zones:
            yield _run_curve(site, name, "high voltage", "over")


def play(site: Site, steps: Steps) -> Recording:
    """Simulate a copy of a site through steps of voltage and frequency.

    A step is its start [s], voltage [pu] and frequency [Hz]. It lasts until the start
    of the next step, the last one for `AFTER_S`.
    """
    site, (stamps, pu, hz) = deepcopy(site), np.array(steps).T
    times = np.round(np.arange(0, stamps[-1] + AFTER_S + TIE, STEP_S), 6)
    step_index = np.maximum(np.searchsorted(stamps, times - TIE) - 1, 0)
    inputs, since_s = (
        np.array([times, pu[step_index], hz[step_index]]),
        site.state.time_s,
    )
    outputs = [
        (*site.step(since_s + time_s, *values), site.connected)
        for time_s, *values in inputs.T.tolist()
    ]
    return Recording(*inputs, *np.array(outputs).T)


def _run_steps(
    site: Site,
    test: QualityTest,
    steps: Steps,
    within_s: float,
    level: float | None = None,
) -> QualityTest:
    """Run a test, and return it with its outcome.

    With a `level`, a fraction of the initial P, the test passes if P is back at this
    level `within_s` after the last change. Without a level, it passes if by then P and
    Q are back at their initial values, both were constant at the end of the step, and
    all load stays connected.
    """
    record, last_s, failed = play(site, steps), steps[-1][0], list[str]()
    p_mw, low = record.p_mw, float(record.connected.min())
    change = record.relative_change()
    is_back = change <= FLAT if level is None else p_mw >= (level - TIE) * p_mw[0]
    late_s = record.time_s[~is_back & (record.time_s > last_s)]
    back_s = float(late_s.max(initial=last_s)) - last_s if is_back[-1] else inf
    if level is None and low < 1 - TIE:
        failed.append(f"{100 * (1 - low):.2g} % of the load leaves")
    in_step = change[(record.time_s > BEFORE_S + BACK_S) & (record.time_s <= last_s)]
    if level is None and in_step.size and np.ptp(in_step) > FLAT:
        failed.append(f"moves by {100 * np.ptp(in_step):.2g} % within the step")
    back = (
        f"back in {format_seconds(back_s)}"
        if is_back[-1]
        else f"not back in {AFTER_S:g} s"
    )
    if last_s == 0:
        back = f"moves by {100 * change.max():.2g} %"
    if back_s > within_s:
        failed.append(back)
    last_mw = float(p_mw[np.searchsorted(record.time_s, last_s)])
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
        recording=record,
        all_stays=low > 1 - TIE,
        figures=figures,
    )


def envelope(curve: Curve, side: Side, hz: float = 60.0) -> Steps:
    """Return steps of the worst voltages at which a curve requires connected load."""
    steps, inside_pu, start_s = [(0.0, 1.0, hz)], 0.0, BEFORE_S
    for zone in sorted(curve.zones, key=lambda zone: zone.time_s):
        if zone.side == side:
            steps.append((start_s, min(zone.worst, MAX_PU) + inside_pu, hz))
            start_s = BEFORE_S + zone.time_s
            inside_pu = INSIDE_PU if side == "under" else -INSIDE_PU
    return [*steps, (start_s, 1.0, hz)]


def _run_curve(site: Site, name: str, group: str, side: Side) -> QualityTest:
    """Run the test of a curve; return its outcome, or why it is not covered."""
    curve, within_s = CURVES[name], BACK_S
    steps = envelope(curve, side, site.state.nominal_hz)
    requirements = [
        f"{pu:g} pu until {end_s - BEFORE_S:g} s"
        for (_, pu, _), (end_s, *_) in pairwise(steps[1:])
    ]
    if curve.level is not None:
        within_s = curve.within_s
        requirements.append(
            f"P at {100 * curve.level:g} % within {within_s:g} s of its end"
        )
    test = QualityTest(group, f"{name}, {group}", "; ".join(requirements))
    blocks = [machine.s for machine in site.state.machines.values()]
    if len(steps) < 3:
        return replace(test, why=f"its text, as read here, gives no {group}")
    if not any(stage.side == side for block in blocks for stage in block.stages):
        return replace(test, why=f"facility.ride_through has no stage of {group}")
    test = _run_steps(site, test, steps, within_s, curve.level)
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
        trips = [str(trip) for block in blocks for trip in inside_trips(curve, block)]
        leaves = "; ".join(trips) or "load leaves"
        why = (
            f"as its settings say, {leaves}; no time for a return is given; {test.why}"
        )
        return replace(test, outcome="not covered", why=why)
    return test
