"""Worst windows of a run at 0.1 s, without computing the whole run at 0.1 s.

The candidates come from the exact 1 s means of the whole run: the highest one, and the largest rise
and drop between two adjacent means of 1 s, 10 s and 1 min, at every second. Only the windows around
them are then computed at the profiles' own step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diploee.power.blocks import PowerBlock, power_blocks
from diploee.power.segments import Segments
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.tables import Float64Array
from diploee.units import MS_PER_MIN, MS_PER_S, PROFILE_STEP_MS

SEARCH_STEP_MS = MS_PER_S
STEPS_S = (1, 10, 60)
"""Lengths of the two adjacent means whose difference is a step [s]."""
NAMES = ("peak", *(f"{kind}_{length}s" for length in STEPS_S for kind in ("rise", "drop")))
MARGIN_MS = 2 * MS_PER_MIN
BASIS = "exact 1 s means of the whole run; steps between adjacent means, at every second"


@dataclass(frozen=True)
class Zoom:
    """A window around an extreme of the run.

    Parameters
    ----------
    name : str
        ``peak``, or ``rise`` or ``drop`` with the length of the means, such as ``rise_10s``.
    at_ms : int
        Start of the highest second, or the instant between the two means [ms].
    value_w : float
        The highest 1 s mean, or the difference of the later mean and the earlier one [W].
    start_ms, end_ms : int
        The window [ms].
    """

    name: str
    at_ms: int
    value_w: float
    start_ms: int
    end_ms: int


def find_zooms(
    segments: Segments, scenario: Scenario, library: ProfileLibrary, margin_ms: int = MARGIN_MS
) -> list[Zoom]:
    """Find the worst windows of a run.

    Parameters
    ----------
    segments : Segments
        Loads of all pools.
    scenario : Scenario
        Pools, idle power and span; a last part of a second is not searched.
    library : ProfileLibrary
        Profiles that the segments refer to.
    margin_ms : int
        Time kept before and after each extreme [ms].

    Returns
    -------
    list of Zoom
        The peak first; a rise or drop that never happens is left out.
    """
    found: dict[str, tuple[float, int]] = {}
    longest = 2 * max(STEPS_S)
    carried = np.empty(0)
    whole_seconds_ms = (0, scenario.horizon_ms // SEARCH_STEP_MS * SEARCH_STEP_MS)
    for block in power_blocks(
        segments, scenario, library, step_ms=SEARCH_STEP_MS, span_ms=whole_seconds_ms
    ):
        power_w = np.concatenate([carried, block.facility_power_w])
        t0_ms = block.t0_ms - carried.size * SEARCH_STEP_MS
        for name, index, value_w in _extremes(power_w):
            if abs(value_w) > abs(found.get(name, (0.0, 0))[0]):
                found[name] = (value_w, t0_ms + index * SEARCH_STEP_MS)
        carried = power_w[-longest + 1 :]
    return [
        Zoom(
            name,
            at_ms,
            value_w,
            max(0, at_ms - margin_ms),
            min(scenario.horizon_ms, at_ms + margin_ms),
        )
        for name in NAMES
        if name in found
        for value_w, at_ms in [found[name]]
    ]


def zoom_blocks(
    zoom: Zoom, segments: Segments, scenario: Scenario, library: ProfileLibrary
) -> Iterator[PowerBlock]:
    """Compute the power of a window at 0.1 s; arguments as in `find_zooms`."""
    span_ms = (zoom.start_ms, zoom.end_ms)
    return power_blocks(segments, scenario, library, step_ms=PROFILE_STEP_MS, span_ms=span_ms)


def _extremes(power_w: Float64Array) -> Iterator[tuple[str, int, float]]:
    """Yield the name, place and value of each extreme of a row of 1 s means."""
    if power_w.size:
        peak = int(power_w.argmax())
        yield "peak", peak, float(power_w[peak])
    energy = np.concatenate([[0.0], np.cumsum(power_w)])
    for length in STEPS_S:
        means = (energy[length:] - energy[:-length]) / length
        steps = means[length:] - means[:-length]
        if steps.size:
            rise, drop = int(steps.argmax()), int(steps.argmin())
            if steps[rise] > 0:
                yield f"rise_{length}s", rise + length, float(steps[rise])
            if steps[drop] < 0:
                yield f"drop_{length}s", drop + length, float(steps[drop])
