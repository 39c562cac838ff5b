"""Charts of the grid metrics: demand by month, ramps, swings, and the spectrum with its bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from diploee.drawing.charts import (
    INK,
    PALETTE,
    PEAK,
    Array,
    Axis,
    Bars,
    Chart,
    Line,
    Marks,
    Panel,
    colour,
    dash,
)
from diploee.errors import plural
from diploee.measures.spectrum import window_spectra
from diploee.metric import number
from diploee.metrics.cause_words import cause_words
from diploee.metrics.changes import SIZES
from diploee.reports.common import month_axis
from diploee.reports.demand_tables import demand_months
from diploee.reports.grid_data import Entry, GridView, power_from, values_in
from diploee.reports.grid_tables import band_name, seconds
from diploee.reports.words import listed, pattern_for
from diploee.units import MS_PER_S, W_PER_MW


def months_chart(view: GridView) -> Chart | None:
    """Return maximum demand and load factor by month; None for a run within one month.

    Both are the meter's, which bills the facility: pools have none, and are not drawn.
    """
    found, unit = demand_months(view), view.unit.power
    if found is None or not found.demands:
        return None
    label, (x,) = month_axis([found.months])
    lines = [_by_month(view, x, found.peak_mw, f"{view.resolution} peak", PEAK, len(found.demands))]
    factors = []
    for k, (minutes, largest_mw, values) in enumerate(found.demands):
        name = f"{minutes} min"
        lines.append(_by_month(view, x, largest_mw, name, colour(k), k))
        factors.append(
            Line(x, _floats(values), name, colour(k), digits=3, dash=dash(7 * k), markers=True)
        )
    lengths = listed([str(minutes) for minutes, _, _ in found.demands])
    return Chart(
        "demand",
        "Maximum demand and load factor by month",
        f"Maximum demand: highest mean over a whole clock interval of {lengths} minutes, by local "
        f"time, and the highest {view.resolution} mean. Load factor: mean power of the month over "
        f"its maximum demand. All of {view.resolution} means.",
        (
            Panel(label, Axis(f"Demand [{unit}]", from_zero=True), tuple(lines), "Maximum demand"),
            Panel(label, Axis("Load factor", range=(0, 1)), tuple(factors), "Load factor"),
        ),
    )


def _by_month(
    view: GridView, x: Array, values_mw: Sequence[object], name: str, main: str, k: int
) -> Line:
    y = _floats(view.in_unit(values_mw))
    return Line(x, y, name, main, view.unit.power, 3, dash=dash(7 * k), markers=True)


def ramps_chart(view: GridView) -> Chart | None:
    """Return the ramps up and down by their length; None for fewer than two lengths."""
    entries = view.block["ramps"]["intervals"]
    if len(entries) < 2:
        return None
    unit = view.unit.power
    x = np.array([_bounded(entry, "interval_s") for entry in entries])
    top = max(entry[side]["max_mw"] for entry in entries for side in ("up", "down"))
    panels, words = [], dict[str, None]()
    lengths_s = [entry["interval_s"] for entry in entries]
    levels = {
        side: _limits(view, ("ramps", f"ramps {side}"), x, lengths_s, top)
        for side in ("up", "down")
    }
    drawn = [float(np.nanmax(line.y)) for lines, _ in levels.values() for line in lines]
    y_axis = Axis(f"Ramp [{unit}]", range=(0, max(top * view.per_mw, *drawn, 0) * 1.05 or 1))
    for side in ("up", "down"):
        layers = [
            Line(
                x, _floats(view.in_unit([entry[side][f"{key}_mw"] for entry in entries])), name,
                colour(k), unit, significant=True, dash=dash(7 * k), markers=True,
            )
            for k, (key, name) in enumerate(SIZES.items())
        ]  # fmt: skip
        lines, told = levels[side]
        words[told] = None
        causes = tuple(
            f"{seconds(entry['interval_s'])}: {cause_words(cause, view.unit, brief=True)}."
            for entry in entries
            if (cause := entry[side].get("cause"))
        )
        title = f"Ramps {side}{', and why the largest' if causes else ''}"
        panels.append(Panel(RAMP_AXIS, y_axis, (*layers, *lines), title, notes=causes))
    by_pool = [_pools_ramps(view, side, y_axis) for side in ("up", "down") if view.parts]
    return Chart(
        "ramps",
        "Ramps by their length",
        "Difference of the means of two adjacent intervals of the length given, at every start of "
        f"an interval of the run; of {view.resolution} means."
        f"{_bound_note(entries)}{''.join(words)}{POOLS_APART if by_pool else ''}",
        (*panels, *by_pool),
    )


RAMP_AXIS = Axis("Length of the ramp", "category")

POOLS_APART = " By pool: each on its own, so that they do not add up."


def _pools_ramps(view: GridView, side: str, y_axis: Axis) -> Panel:
    """Return the largest ramps of the facility and of its parts."""
    entries = [(part, part.block["ramps"]["intervals"]) for part in view.parts]
    lines = tuple(
        Line(
            np.array([_bounded(entry, "interval_s") for entry in of_part]),
            _floats(view.in_unit([entry[side]["max_mw"] for entry in of_part])),
            part.run.label, part.run.colour, view.unit.power, significant=True, markers=True,
        )
        for part, of_part in entries
    )  # fmt: skip
    top = max(float(line.y.max()) for line in lines)
    axis = Axis(y_axis.label, range=(0, max(top * 1.05, y_axis.range[1] if y_axis.range else 1)))
    return Panel(RAMP_AXIS, axis, lines, f"Largest ramps {side}, by pool")


def swings_chart(view: GridView) -> Chart | None:
    """Return the rolling ranges by window and the counted swings by size; None without both."""
    windows = view.block["rolling_range"]["windows"]
    panels, words = [], ""
    if windows:
        x = np.array([_bounded(entry, "window_s") for entry in windows])
        layers = [
            Bars(
                x, _floats(view.in_unit([entry[f"{key}_mw"] for entry in windows])), name,
                colour(k), view.unit.power, 4,
            )
            for k, (key, name) in enumerate(SIZES.items())
        ]  # fmt: skip
        lengths_s = [entry["window_s"] for entry in windows]
        top = max(entry["max_mw"] for entry in windows)
        lines, words = _limits(view, ("swings",), x, lengths_s, top)
        panels.append(
            Panel(
                *_rolling_axes(view),
                (*layers, *lines),
                "Largest less smallest value within a window",
            )
        )
    if view.block["rainflow"]["swings"]:
        panels.append(_rainflow_panel(view))
    if not panels:
        return None
    words = f"{_swings_words(view, bool(windows))}{words}"
    if view.parts:
        panels += _pools_swings(view)
        words += POOLS_APART
    return Chart("swings", "Swings", words, tuple(panels))


def _pools_swings(view: GridView) -> list[Panel]:
    """Return the largest rolling ranges and the counted swings of the facility and its parts."""
    panels = []
    if view.block["rolling_range"]["windows"]:
        ranges = tuple(
            Bars(
                np.array([_bounded(entry, "window_s") for entry in windows]),
                _floats(view.in_unit([entry["max_mw"] for entry in windows])),
                part.run.label, part.run.colour, view.unit.power, 4,
            )
            for part in view.parts
            for windows in [part.block["rolling_range"]["windows"]]
        )  # fmt: skip
        panels.append(Panel(*_rolling_axes(view), ranges, "Largest within a window, by pool"))
    swings = tuple(
        _swings_bars(part, part.run.label, part.run.colour)
        for part in view.parts
        if part.block["rainflow"]["swings"]
    )
    if swings:
        most = max(float(np.nanmax(bars.y)) for bars in swings)
        panels.append(Panel(*_rainflow_axes(view, most), swings, "Rainflow-counted, by pool"))
    return panels


def _rolling_axes(view: GridView) -> tuple[Axis, Axis]:
    y = Axis(f"Rolling range [{view.unit.power}]", from_zero=True)
    return Axis("Length of the window", "category"), y


def _limits(
    view: GridView, kinds: Sequence[str], x: Array, lengths_s: Sequence[float], top_mw: float
) -> tuple[list[Line], str]:
    """Return lines at what limits allow, up to their own time, and which are not drawn."""
    lines: list[Line] = []
    left: list[str] = []
    for level in (level for level in view.levels if level.kind in kinds):
        within = np.array(lengths_s) * MS_PER_S <= level.length_ms
        if level.size_mw > FAR * top_mw or not within.any():
            left.append(level.name)
            continue
        y = np.where(within, level.size_mw * view.per_mw, np.nan).astype(np.float32)
        pattern = dash(7 * len(lines))
        lines.append(
            Line(
                x,
                y,
                f"limit: {level.name}",
                INK,
                view.unit.power,
                3,
                dash=pattern,
                markers=True,
                level=True,
            )
        )
    words = " Lines up to their own time: limits." if lines else ""
    return lines, words + (f" Limits beyond what is drawn: {listed(left)}." if left else "")


FAR = 3
"""A limit above this many times the largest value is named, as its line would flatten the rest."""


def _rainflow_panel(view: GridView) -> Panel:
    bars = _swings_bars(view, "closed swings", PALETTE[2])
    texts = tuple("" if np.isnan(n) else f"{n:,.0f}" for n in bars.y)
    axes = _rainflow_axes(view, float(np.nanmax(bars.y)))
    return Panel(*axes, (replace(bars, texts=texts),), "Rainflow-counted swings")


def _swings_bars(view: GridView, name: str, main: str) -> Bars:
    """Return the closed swings by size; NaN where there is none."""
    classes = view.block["rainflow"]["classes"]
    x = np.array([_class_name(view, entry) for entry in classes])
    counts = np.array([entry["swings"] or np.nan for entry in classes], dtype=np.float32)
    return Bars(x, counts, name, main, "", 0)


def _rainflow_axes(view: GridView, most: float) -> tuple[Axis, Axis]:
    y = Axis("Closed swings in the run", "log", (0.5, most * 4.0))
    return Axis(f"Size of the swing [{view.unit.power}]", "category"), y


def _class_name(view: GridView, entry: Entry) -> str:
    low, high = view.in_unit([entry["from_mw"], entry["to_mw"]])
    return f"{low:.3g}\N{EN DASH}{high:.3g}" if high is not None else f"from {low:.3g}"


def _swings_words(view: GridView, rolling: bool) -> str:
    may_lack = dict.fromkeys(("max_mw", "p99_mw", "max_from", "max_to"))
    flow, unit = may_lack | view.block["rainflow"], view.unit.power
    means = f"Of {view.resolution} means."
    left = "rolling range, at every start of an interval of the run"
    if not flow["swings"]:
        return f"{left[0].upper()}{left[1:]}. {no_swings(view)} {means}"
    (threshold,) = view.in_unit([flow["threshold_mw"]])
    largest, p99 = view.cells([flow["max_mw"], flow["p99_mw"]])
    a_day = number(flow["swings_per_day"], pattern_for([flow["swings_per_day"]], 3))
    words = (
        "swings that rise and fall back (or fall and rise back), closed by the four-point rainflow "
        f"rule; those of less than {threshold:.3g} {unit} and half-cycles are no events. "
        f"{plural(flow['swings'], 'swing')} ({a_day} a day), P99 {p99} {unit}, the largest "
        f"{largest} {unit} from {view.when(flow['max_from'])} to {view.when(flow['max_to'])}. "
        f"{means}"
    )
    return (
        f"Within a window: {left}. Rainflow-counted: {words}"
        if rolling
        else f"{words[0].upper()}{words[1:]}"
    )


def no_swings(view: GridView) -> str:
    """Return that no swing was counted, and from which size on it would have been."""
    (threshold,) = view.in_unit([view.block["rainflow"]["threshold_mw"]])
    return f"No swing of {threshold:.3g} {view.unit.power} or more closed (rainflow count)."


def _bounded(entry: Entry, key: str) -> str:
    return f"{seconds(entry[key])}{' (at least)' if entry['lower_bound'] else ''}"


def _bound_note(entries: Sequence[Entry]) -> str:
    if not any(entry["lower_bound"] for entry in entries):
        return ""
    return " At least: a lower bound, as the profiles are averages over a longer time."


def _floats(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float32)


CLOSE = 1.8
"""Lines with a lower ratio of their frequencies have their texts at different heights."""


def spectrum_chart(view: GridView) -> Chart | None:
    """Return the mean spectrum and each band in its worst window; None without a spectrum."""
    block = view.block["spectrum"]
    density = _density(view)
    if not block["bands"] or not (density > 0).any():
        return None
    frequency_hz = np.arange(1, density.size + 1) * block["frequency_resolution_hz"]
    worst = [
        layer for k, band in enumerate(block["bands"]) for layer in _worst_window(view, band, k)
    ]
    top = max(float(y.max()) for y in (density, *(layer.y for layer in worst)))
    pools = tuple(
        Line(
            frequency_hz, _density(part).astype(np.float32), part.run.label, part.run.colour,
            _unit(view), significant=True, width=1.5,
        )
        for part in view.parts
        if (_density(part) > 0).any()
    )  # fmt: skip
    low = float(density[density > 0].min()) / 10
    mean = Line(
        frequency_hz, density.astype(np.float32), "mean of all windows", PEAK, _unit(view),
        significant=True, width=2.4,
    )  # fmt: skip
    lines = _pins(view, frequency_hz, density, top * 2)
    axis = Axis("Frequency [Hz]", "log", (frequency_hz[0] * 0.9, frequency_hz[-1] * 1.1))
    y_axis = Axis(f"Power spectral density [{_unit(view)}]", "log", (low, top * 80))
    return Chart(
        "spectrum",
        "Spectrum of the load",
        f"Power spectral density of 10-minute windows of {view.resolution} means. Grey: mean over "
        f"all {plural(block['windows'], 'window')}{_pin_words(bool(lines))}. Coloured: each band "
        "in the window where that band was worst (the table says when); a ring marks its strongest "
        "bin. A single window scatters about its level by much more than the mean. Both scales are "
        f"logarithmic.{' By pool: means; phases differ, so they do not add up.' if pools else ''}",
        (
            Panel(axis, y_axis, (*worst, mean, *lines), wide=True),
            *([Panel(axis, _pools_density_axis(y_axis, pools), pools, BY_POOL)] if pools else []),
        ),
    )


BY_POOL = "Means, by pool"

DECADES = 8
"""A part of a pool's spectrum that lies further below the largest is not drawn."""


def _pools_density_axis(y_axis: Axis, pools: Sequence[Line]) -> Axis:
    seen = np.concatenate([line.y for line in pools])
    low, high = float(seen[seen > 0].min()), float(seen.max())
    return Axis(y_axis.label, "log", (max(low, high / 10**DECADES) / 2, high * 4))


def _density(view: GridView) -> Array:
    """Return the mean density by frequency in the page's unit, squared, over Hz."""
    psd = view.block["spectrum"].get("mean_psd_mw2_per_hz") or ()
    return np.array(psd, dtype=np.float64) * view.per_mw**2


def _unit(view: GridView) -> str:
    return f"{view.unit.power}²/Hz"


def _worst_window(view: GridView, band: Entry, k: int) -> list[Line | Marks]:
    """Return a band's part of the spectrum of its worst window, computed from the series."""
    frequency_hz, psd = worst_window_psd(view, band)
    if not psd.size:
        return []
    y = psd * view.per_mw**2
    top = slice(int(np.argmax(y)), int(np.argmax(y)) + 1)
    flagged = " (flagged)" if band["flagged"] else ""
    return [
        Line(
            frequency_hz, y.astype(np.float32), f"worst of {band_name(band)}{flagged}", colour(k),
            _unit(view), significant=True, width=1.3,
        ),
        Marks(
            frequency_hz[top], y[top], ("",), "strongest bin", colour(k), _unit(view),
            hollow=True, legend=False,
        ),
    ]  # fmt: skip


def worst_window_psd(view: GridView, band: Entry) -> tuple[Array, Array]:
    """Return the bins [Hz] of a band and the density there [MW²/Hz] in the band's worst window.

    Nothing is returned where the series does not hold the window.
    """
    run, block = view.run, view.block["spectrum"]
    n_values = values_in(block["window_s"], run)
    power_mw = power_from(run, band["worst_window"], n_values) / W_PER_MW
    if power_mw.size < n_values:
        return np.empty(0), np.empty(0)
    frequency_hz, psd = window_spectra((power_mw - power_mw[0])[None], run.resolution_ms)
    slack = block["frequency_resolution_hz"] * 1e-6
    low, high = np.searchsorted(frequency_hz, [band["low_hz"] - slack, band["high_hz"] - slack])
    return frequency_hz[low:high], psd[0, low:high]


def _pins(view: GridView, frequency_hz: Array, density: Array, height: float) -> list[Line | Marks]:
    """Return the lines of the mean as pins with their periods, those close at two heights."""
    lines = sorted(view.block["spectrum"]["lines"], key=lambda line: line["frequency_hz"])
    if not lines:
        return []
    x = np.array([line["frequency_hz"] for line in lines])
    y = np.full(x.size, height)
    for k in range(1, x.size):
        if x[k] < CLOSE * x[k - 1] and y[k - 1] == height:
            y[k] = height * 6
    at = np.clip(np.rint(x / frequency_hz[0]).astype(int) - 1, 0, density.size - 1)
    nothing = np.full(x.size, np.nan)
    stems_x, stems_y = (
        np.stack(corners, axis=1).ravel().astype(np.float32)
        for corners in ((x, x, nothing), (density[at], y, nothing))
    )
    texts = tuple(f"{line['period_s']:.3g} s" for line in lines)
    return [
        Line(stems_x, stems_y, "", INK, _unit(view), dash="dot", width=1.0, legend=False,
             significant=True),
        Marks(x, y, texts, "lines of the mean", INK, _unit(view)),
    ]  # fmt: skip


def _pin_words(drawn: bool) -> str:
    return ", pins: its strongest lines with their periods" if drawn else ""
