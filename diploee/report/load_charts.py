"""Charts for planning: duration curve, distribution, energy and peaks by month."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.report.aggregate import by_month, duration_curve, round_edges
from diploee.report.charts import Axis, Bars, Chart, Line, Panel
from diploee.report.common import histogram_layers, interval_of, power_axis
from diploee.report.data import RunData
from diploee.report.labels import PowerUnit
from diploee.report.style import colour, dash
from diploee.report.words import interval, listed
from diploee.tables import Float64Array
from diploee.units import W_PER_MW

N_BINS = 80

TOP_PERCENT = 1.0
"""Part of the time that the duration curve shows on its own [%]."""

TIME_SHARE = Axis("Share of the time [%]", range=(0, 100))


def duration_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the load duration curves."""
    layers, steps_ms, top = [], set(), []
    for index, run in enumerate(runs):
        share, values, step_ms = _duration(run)
        y = (values / unit.watts).astype(np.float32)
        x = (share * 100).astype(np.float32)
        steps_ms.add(step_ms)
        top += y[x <= TOP_PERCENT].tolist()
        layers.append(
            Line(
                x, y, run.label, colour(index), unit.power, 3, dash=dash(index),
                legend=len(runs) > 1,
            )
        )  # fmt: skip
    margin = (max(top) - min(top)) * 0.05 or max(top) * 0.05 or 1.0
    means = listed([interval(step_ms) for step_ms in sorted(steps_ms)])
    return Chart(
        "duration",
        "Load duration curve",
        f"Power that is reached or exceeded for a share of the time, from {means} means. Right: "
        f"the highest {TOP_PERCENT:g} % of the time; its power axis does not start at zero. Drawn "
        "through quantiles, denser there; both ends are the exact maximum and minimum.",
        (
            Panel(TIME_SHARE, power_axis(runs, unit), tuple(layers), "The whole time"),
            Panel(
                Axis("Share of the time [%]", range=(0, TOP_PERCENT)),
                Axis(
                    f"Facility power [{unit.power}]", range=(min(top) - margin, max(top) + margin)
                ),
                tuple(layers),
                f"The highest {TOP_PERCENT:g} %",
            ),
        ),
    )


def _duration(run: RunData) -> tuple[Float64Array, Float64Array, int]:
    """Return shares (0-1), values reached [W] and the interval of the means behind them [ms].

    A run that was averaged on reading has its curve in the metrics, of its own intervals.
    """
    curve = (run.metrics.get("grid") or {}).get("load_duration_curve")
    if run.step_ms != run.resolution_ms and curve:
        share = np.array(curve["percent_of_time"]) / 100
        return share, np.array(curve["exceeded_mw"]) * W_PER_MW, run.resolution_ms
    share, values = duration_curve(run.power_w)
    values[0], values[-1] = run.max_w, run.min_w
    return share, values, run.step_ms


def distribution_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the distribution of power."""
    low, high = min(r.min_w for r in runs), max(r.max_w for r in runs)
    edges = round_edges(low / unit.watts, high / unit.watts, N_BINS)
    layers = histogram_layers(
        [(i, r.label, r.power_w / unit.watts) for i, r in enumerate(runs)], edges, "% of time"
    )
    width = f"{edges[1] - edges[0]:.4g} {unit.power}"
    return Chart(
        "distribution",
        "Distribution of power",
        f"Share of the time that the {interval_of(runs)} means spend in each bin of {width}.",
        (
            Panel(
                Axis(f"Facility power [{unit.power}]", range=(edges[0], edges[-1])),
                Axis("Share of the time [%]", from_zero=True),
                layers,
            ),
        ),
    )


def months_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart | None:
    """Return energy and peak by month; None where no run reaches into a second one."""
    energy, peaks = [], []
    partial = False
    of_runs = [by_month(run.local_ms, run.power_w, run.step_ms) for run in runs]
    if all(months.month.size < 2 for months in of_runs):
        return None
    years = sorted({f"{month.item():%Y}" for months in of_runs for month in months.month})
    one_year = len(years) == 1
    label = f"Month of {years[0]}" if one_year else "Month"
    for index, (run, months) in enumerate(zip(runs, of_runs, strict=True)):
        partial = partial or not months.complete.all()
        x = np.array([f"{m.item():%b}" if one_year else f"{m.item():%b %Y}" for m in months.month])
        joules = (months.energy_j / unit.joules).astype(np.float32)
        peak = (months.max_w / unit.watts).astype(np.float32)
        mean = (months.mean_w / unit.watts).astype(np.float32)
        main = colour(index)
        energy.append(Bars(x, joules, run.label, main, unit.energy, 0))
        many = len(runs) > 1
        peak_name, mean_name = (run.label, f"{run.label}, mean") if many else ("peak", "mean")
        peaks.append(Line(x, peak, peak_name, main, unit.power, markers=True))
        peaks.append(
            Line(x, mean, mean_name, main, unit.power, dash="dot", markers=True,
                 legend=not many)
        )  # fmt: skip
    cut = " Months that the run covers in part are shown as they are." if partial else ""
    return Chart(
        "months",
        "Energy and peaks by month",
        "Left: energy of each calendar month. Right: its highest "
        f"{interval_of(runs)} mean (solid) and its mean power (dotted).{cut}",
        (
            Panel(
                Axis(label, "category"),
                Axis(f"Energy [{unit.energy}]", from_zero=True),
                tuple(energy),
                "Energy",
            ),
            Panel(Axis(label, "category"), power_axis(runs, unit), tuple(peaks), "Peak and mean"),
        ),
    )
