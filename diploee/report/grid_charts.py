"""Charts of the grid metrics: demand by month, ramps and swings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.report.aggregate import by_month
from diploee.report.charts import Array, Axis, Bars, Chart, Line, Panel
from diploee.report.demand_tables import monthly_load_factors
from diploee.report.grid_data import Block, GridView
from diploee.report.grid_tables import seconds
from diploee.report.style import PALETTE, PEAK, colour, dash
from diploee.report.words import listed, number, pattern_for, plural
from diploee.units import W_PER_MW

SIZES = (("max_mw", "largest"), ("p999_mw", "P99.9"), ("p99_mw", "P99"))


def months_chart(view: GridView) -> Chart | None:
    """Return maximum demand and load factor by month; None for a run within one month."""
    run, demands = view.run, view.block["maximum_demand"]["intervals"]
    peaks = view.block["monthly_peaks"]
    if len(peaks) < 2 or not demands:
        return None
    months = by_month(run.local_ms, run.power_w, run.step_ms)
    names = [str(month) for month in months.month]
    one_year = len({name[:4] for name in names}) == 1
    pattern = "%b" if one_year else "%b %Y"
    x = np.array([f"{month.item():{pattern}}" for month in months.month])
    means_mw = [float(mean_w) / W_PER_MW for mean_w in months.mean_w]
    peak = [(peaks.get(name) or {}).get("max_mw") for name in names]
    lines = [_by_month(view, x, peak, f"{view.resolution} peak", PEAK, len(demands))]
    factors = []
    for k, demand in enumerate(demands):
        name = f"{demand['interval_min']} min"
        largest = [(demand["monthly"].get(month) or {}).get("max_mw") for month in names]
        lines.append(_by_month(view, x, largest, name, colour(k), k))
        values = _floats(monthly_load_factors(means_mw, largest))
        factors.append(Line(x, values, name, colour(k), digits=3, dash=dash(7 * k), markers=True))
    label = Axis(f"Month of {names[0][:4]}" if one_year else "Month", "category")
    unit = view.unit.power
    lengths = listed([str(demand["interval_min"]) for demand in demands])
    return Chart(
        "demand",
        "Maximum demand and load factor by month",
        f"Left: highest mean over a whole clock interval of {lengths} minutes, by local time, "
        f"and the highest {view.resolution} mean. Right: mean power of the month over its maximum "
        f"demand. All of {view.resolution} means; the axes do not start at zero.",
        (
            Panel(label, Axis(f"Demand [{unit}]"), tuple(lines), "Maximum demand"),
            Panel(label, Axis("Load factor [1]"), tuple(factors), "Load factor"),
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
    y_axis = Axis(f"Ramp [{unit}]", range=(0, top * view.per_mw * 1.05 or 1))
    panels = []
    for side in ("up", "down"):
        layers = [
            Line(
                x, _floats(view.in_unit([entry[side][key] for entry in entries])), name,
                colour(k), unit, significant=True, dash=dash(7 * k), markers=True,
            )
            for k, (key, name) in enumerate(SIZES)
        ]  # fmt: skip
        axis = Axis("Length of the ramp", "category")
        panels.append(Panel(axis, y_axis, tuple(layers), f"Ramps {side}"))
    return Chart(
        "ramps",
        "Ramps by their length",
        "Difference of the means of two adjacent intervals of the length given, at every start of "
        f"an interval of the run; of {view.resolution} means.{_bound_note(entries)}",
        tuple(panels),
    )


def swings_chart(view: GridView) -> Chart | None:
    """Return the rolling ranges by window and the counted swings by size; None without both."""
    windows = view.block["rolling_range"]["windows"]
    panels = []
    if windows:
        x = np.array([_bounded(entry, "window_s") for entry in windows])
        layers = [
            Bars(
                x, _floats(view.in_unit([entry[key] for entry in windows])), name, colour(k),
                view.unit.power, 4,
            )
            for k, (key, name) in enumerate(SIZES)
        ]  # fmt: skip
        panels.append(
            Panel(
                Axis("Length of the window", "category"),
                Axis(f"Rolling range [{view.unit.power}]", from_zero=True),
                tuple(layers),
                "Largest less smallest value within a window",
            )
        )
    if view.block["rainflow"]["swings"]:
        panels.append(_rainflow_panel(view))
    if not panels:
        return None
    return Chart("swings", "Swings", _swings_words(view, bool(windows)), tuple(panels))


def _rainflow_panel(view: GridView) -> Panel:
    classes = view.block["rainflow"]["classes"]
    x = np.array([_class_name(view, entry) for entry in classes])
    counts = [entry["swings"] for entry in classes]
    bars = Bars(
        x, np.array([n or np.nan for n in counts], dtype=np.float32), "closed swings",
        PALETTE[2], "", 0, texts=tuple(f"{n:,}" if n else "" for n in counts),
    )  # fmt: skip
    return Panel(
        Axis(f"Size of the swing [{view.unit.power}]", "category"),
        Axis("Closed swings in the run [1]", "log", (0.5, max(*counts, 1) * 4.0)),
        (bars,),
        "Rainflow-counted swings",
    )


def _class_name(view: GridView, entry: Block) -> str:
    low, high = view.in_unit([entry["from_mw"], entry["to_mw"]])
    return f"{low:.3g}\N{EN DASH}{high:.3g}" if high is not None else f"from {low:.3g}"


def _swings_words(view: GridView, rolling: bool) -> str:
    flow, unit = view.block["rainflow"], view.unit.power
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
    return f"Left: {left}. Right: {words}" if rolling else f"{words[0].upper()}{words[1:]}"


def no_swings(view: GridView) -> str:
    """Return that no swing was counted, and from which size on it would have been."""
    (threshold,) = view.in_unit([view.block["rainflow"]["threshold_mw"]])
    return f"No swing of {threshold:.3g} {view.unit.power} or more closed (rainflow count)."


def _bounded(entry: Block, key: str) -> str:
    return f"{seconds(entry[key])}{' (at least)' if entry['lower_bound'] else ''}"


def _bound_note(entries: Sequence[Block]) -> str:
    if not any(entry["lower_bound"] for entry in entries):
        return ""
    return " At least: a lower bound, as the profiles are averages over a longer time."


def _floats(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float32)
