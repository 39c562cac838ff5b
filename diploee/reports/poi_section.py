"""The section "At the point of interconnection": energy by part, demand, and what is billed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diploee.columns import in_words
from diploee.drawing.charts import Chart
from diploee.metric import Metric, number
from diploee.reports.content import PageTable, Section
from diploee.reports.data import RunData
from diploee.reports.grid_data import Entry, cells
from diploee.reports.poi_charts import poi_charts
from diploee.reports.words import interval, listed, moment
from diploee.units import PowerUnit

_RATIOS = {"pue": "PUE", "ppue_cooling": "Cooling-only PUE", "tue_device": "Over device energy"}


def poi_section(run: RunData, unit: PowerUnit) -> Section | None:
    """Return the section; None for a run without a point of interconnection."""
    poi, billing = run.metrics.get("poi"), run.metrics.get("billing")
    if not poi or not billing:
        return None
    months: list[Entry] = billing["months"]
    tables = [_energy_table(poi, unit), months_table(months, unit)]
    for minutes in dict.fromkeys(d["interval_min"] for m in months for d in m["demand"]):
        tables.append(demand_table(months, minutes, unit))
    tables += [_billed_table(months, unit)] if any("billed" in month for month in months) else []
    content: tuple[Chart | PageTable, ...] = (*poi_charts(run, unit), *tables)
    return Section("poi", "At the point of interconnection", content, _notes(run, months))


def _notes(run: RunData, months: Sequence[Entry]) -> tuple[str, ...]:
    partial = [month["month"] for month in months if not month["complete"]]
    part = f" Only what the run covers: {listed(partial)}." if partial else ""
    return (
        f"Sums and maxima are of the run's {interval(run.resolution_ms)} means, by local month; "
        f"times are the start of an interval.{part} Reactive power above 0 is drawn. There are no "
        "prices.",
    )


def _energy_table(poi: Entry, unit: PowerUnit) -> PageTable:
    """Return the energy by part and its ratios, by month and of the whole run."""
    rows = {**poi["monthly"], "Whole run": poi}
    parts = [key.removesuffix("_mwh") for key in poi["energy"]]
    columns = [
        _sized(in_words(part), "MWh", unit,
               (of["energy"].get(f"{part}_mwh") for of in rows.values()))
        for part in parts
    ]  # fmt: skip
    for key, others in (("gross", poi["energy"]["total_mwh"]), ("exported", 0.0)):
        if poi.get(f"{key}_mwh", others) != others:
            of_rows = (of[f"{key}_mwh"] for of in rows.values())
            columns.append(_sized(f"{key} energy", "MWh", unit, of_rows))
    columns += [
        (name, [number(of.get(key), "{:.4f}") for of in rows.values()])
        for key, name in _RATIOS.items()
    ]
    note = (
        "Gross energy: that at the point of interconnection, the output of sources, the net "
        "discharge of stores and what is held back of the load. PUE: gross energy over the nodes' "
        "AC energy, which holds their fans and power supplies. Cooling-only PUE: 1 plus the "
        "cooling's energy over the same. Over device energy: gross energy over that of GPUs and "
        "CPU packages."
    )
    return _table("Energy by part", list(rows), columns, note)


def months_table(months: Sequence[Entry], unit: PowerUnit) -> PageTable:
    """Return active and reactive energy and the average power factor of each month."""
    columns = [
        _sized(*head, unit, (month[key] for month in months))
        for key, head in (
            ("energy_mwh", ("energy", "MWh")),
            ("drawn_mvarh", ("drawn", "Mvarh")),
            ("supplied_mvarh", ("supplied", "Mvarh")),
        )
    ]
    columns += [
        (
            f"{side} power factor",
            [number(m[f"{side.lower()}_power_factor"], "{:.5f}") for m in months],
        )
        for side in ("Lagging", "Leading")
    ]
    columns += [
        ("Hours", [number(month["hours"], "{:,.1f}") for month in months]),
    ]
    note = (
        "Reactive energy drawn and supplied is not netted. Power factors: energy over the root of "
        "its square and that of the drawn (lagging) or supplied (leading) reactive energy."
    )
    return _table("Energy by month", [month["month"] for month in months], columns, note)


def demand_table(months: Sequence[Entry], minutes: int, unit: PowerUnit) -> PageTable:
    """Return the largest demands of each month over clock intervals of one length."""
    found = {
        month["month"]: demand
        for month in months
        for demand in month["demand"]
        if demand["interval_min"] == minutes
    }
    demands = list(found.values())
    columns = [
        _sized(*head, unit, (demand[key] for demand in demands))
        for key, head in (
            ("max_mw", ("active", "MW")),
            ("max_mva", ("apparent", "MVA")),
            ("max_mvar", ("most reactive", "Mvar")),
            ("min_mvar", ("least reactive", "Mvar")),
        )
    ]
    columns += [
        (name, [number(demand[key], pattern) for demand in demands])
        for key, name, pattern in (
            ("power_factor", "Power factor at it", "{:.5f}"),
            ("load_factor", "Load factor", "{:.4f}"),
        )
    ]
    times = {"time": "Active, when", "max_mva_time": "Apparent, when"}
    columns += [(name, [moment(d[key]) for d in demands]) for key, name in times.items()]
    note = (
        "Largest means over whole clock intervals; apparent power is formed of an interval's mean "
        "active and reactive power. Load factor: the month's mean power over its active demand."
    )
    return _table(f"Demand over {minutes} min", list(found), columns, note, len(times))


def _billed_table(months: Sequence[Entry], unit: PowerUnit) -> PageTable:
    """Return what the rules make of each month's demand."""
    found = {month["month"]: month["billed"] for month in months if "billed" in month}
    billed = list(found.values())
    heads = {
        "for_power_factor_mw": ("for power factor", "MW"),
        "ratchet_mw": ("ratchet", "MW"),
        "max_mw": ("billed", "MW"),
        "reactive_mvar": ("reactive beyond its free share", "Mvar"),
    }
    columns = [
        _sized(*head, unit, (of[key] for of in billed))
        for key, head in heads.items()
        if any(key in of for of in billed)
    ]
    bound = [month for month, of in found.items() if of.get("lower_bound")]
    note = f"Rules of the scenario on the demand over {billed[0]['interval_min']} min." + (
        f" Lower bounds, as the ratchet knows fewer than 11 whole months: {listed(bound)}."
        if bound
        else ""
    )
    return _table("Billed demand", list(found), columns, note)


def _sized(name: str, unit: str, page: PowerUnit, values: Iterable[Any]) -> tuple[str, list[str]]:
    """Return head and cells of a column in the page's unit, with like decimals."""
    sized = Metric("", unit, name).sized(page)
    return sized.heading, cells([None if v is None else v * sized.factor for v in values])


def _table(
    title: str, names: Sequence[str], columns: Sequence[tuple[str, list[str]]], note: str,
    n_texts: int = 0,
) -> PageTable:  # fmt: skip
    header = ("Month", *(head for head, _ in columns))
    rows = tuple(zip(names, *(texts for _, texts in columns), strict=True))
    return PageTable(title, header, rows, note, n_texts=n_texts)
