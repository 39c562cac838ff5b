"""Chart of a site's ride-through: voltage, and power with and without the event."""

from __future__ import annotations

import numpy as np

from diploee.grid.dynamics.curves import format_seconds
from diploee.grid.dynamics.ride_through_study import AFTER_S, RideThroughResult
from diploee.reports.drawing.charts import MUTED, Axis, Chart, Line, Panel, colour, dash


def ride_through_chart(result: RideThroughResult) -> Chart:
    """Return the chart of the ride-through at the median load."""
    labels = list(dict.fromkeys(case.label for case in result.cases))
    label = labels[len(labels) // 2]
    cases = [case for case in result.cases if case.label == label]
    ends_s = max(case.site_power.time_s[-1] for case in cases)
    shown_s = min(ends_s, cases[0].voltage.time_s[-1] + AFTER_S)
    later = (
        f" What goes on until {format_seconds(ends_s)} isn't shown."
        if ends_s > shown_s
        else ""
    )
    volts, power = list[Line](), list[Line]()
    for k, case in enumerate(cases):
        name = "" if case.residual_pu is None else f"{case.residual_pu:.2f} pu"
        ends = (*case.voltage.time_s[1:], min(case.site_power.time_s[-1], shown_s))
        times = np.column_stack([case.voltage.time_s, ends]).ravel()
        pu, dashed = np.repeat(case.voltage.pu, 2), dash(7 * k)
        volts.append(Line(times, pu, name or "voltage", colour(k), "pu", dash=dashed))
        site_power = case.site_power
        is_shown = site_power.time_s <= shown_s
        times = site_power.time_s[is_shown]
        load, without = (
            mw.sum(axis=0)[is_shown]
            for mw in (site_power.power_mw, site_power.without_mw)
        )
        if not k:
            power.append(
                Line(times, without, "without the event", MUTED, "MW", dash="dash")
            )
        power.append(Line(times, load, name or "load", colour(k), "MW", dash=dashed))
    time = Axis("Time since the event's start [s]")
    return Chart(
        "ride-through",
        f"Load through {result.event.name}, {cases[0].at:%Y-%m-%d %H:%M}"
        + f", {label} of the load" * (label[:1] == "P"),
        f"Above the voltage, below the load with and without the event.{later}",
        (
            Panel(
                time,
                Axis("Voltage [pu]", from_zero=True),
                tuple(volts),
                "Voltage",
                wide=True,
            ),
            Panel(
                time, Axis("Load [MW]", from_zero=True), tuple(power), "Load", wide=True
            ),
        ),
    )
