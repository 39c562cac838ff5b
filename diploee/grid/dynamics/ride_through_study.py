"""Ride-through study: response of a run's site to a grid disturbance.

The event is simulated for the load at several times of the run, and each response is
checked against the named curves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from math import ceil, inf, isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.metric import format_number
from diploee.base.progress import report, stage
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_H, MS_PER_MIN, S_PER_H, S_PER_MIN, W_PER_MW
from diploee.grid.dynamics.block_ride_through import (
    Response,
    Voltage,
    simulate_response,
)
from diploee.grid.dynamics.curves import (
    CURVES,
    SOURCE,
    VERDICTS,
    SitePower,
    Verdict,
    check_compliance,
    format_seconds,
    inside_trips,
    worst_verdict,
)
from diploee.grid.dynamics.events import EVENTS, NORMAL_PU, Event
from diploee.runs.formatting import number_format
from diploee.runs.load_parts import LoadParts, sum_columns
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic
from diploee.scenario.ride_through import RideThrough

SHIPPED = "nerc_2024_07_10"
"""Name of the default event."""

LEVELS = (5, 50, 95)
AFTER_S = 10 * S_PER_MIN
"""Time [s] after the event for which the run's power is read; then it is constant."""
MIN_MW = 5e-4
_SCHEMA = pa.schema(
    {
        "case": "string",
        "residual_pu": "double",
        "at": "string",
        "block": "string",
        "t_s": "double",
        "power_mw": "double",
        "without_event_mw": "double",
    }
)


@dataclass(frozen=True)
class LoadBlock(Brief):
    """Load block with its settings, its undisturbed power and its response."""

    name: str
    component: str  # component of the load, such as "it"
    settings: RideThrough | None  # None for load that always stays connected
    # Undisturbed power in each step of the run since the event's start, shape (n,)
    mw: Float64Array
    response: Response


@dataclass(frozen=True)
class ResponseCase(Brief):
    """Response at one time of the run to one residual voltage of the dips."""

    label: str  # load level, such as P50
    at: datetime
    residual_pu: float | None
    voltage: Voltage
    blocks: tuple[LoadBlock, ...]
    step_s: float  # step of the blocks' power

    @cached_property
    def site_power(self) -> SitePower:
        """Power of each block over time, with and without the event [MW]."""
        times = {t for b in self.blocks for t, _ in b.response.points if isfinite(t)}
        first, last = self.voltage.time_s[0], max({*self.voltage.time_s, *times}) + 5.0
        n = min(ceil(max(last, 0) / self.step_s), self.blocks[0].mw.size)
        rows = np.arange(1, n) * self.step_s
        edges = np.unique([first, last, *times, *rows])
        a, b = edges[:-1], edges[1:]
        row = (
            np.clip(a // self.step_s, 0, self.blocks[0].mw.size - 1)
            .astype(int)
            .repeat(2)
        )
        without_mw = np.array([block.mw[row] for block in self.blocks])
        # Two points within each interval, as the fraction jumps at its ends
        near, far = (
            np.array([_connected_fractions(b.response, times_s) for b in self.blocks])
            for times_s in (a + (b - a) / 4, b - (b - a) / 4)
        )
        on = np.dstack([1.5 * near - 0.5 * far, 1.5 * far - 0.5 * near]).reshape(
            len(near), -1
        )
        return SitePower(np.column_stack([a, b]).ravel(), on * without_mw, without_mw)

    def settings_and_responses(self) -> dict[str, tuple[RideThrough, Response]]:
        """Return settings and response of the blocks that have settings, by name."""
        return {
            b.name: (b.settings, b.response)
            for b in self.blocks
            if b.settings is not None
        }

    @property
    def name(self) -> str:
        """Label with load level and residual voltage, such as `P50, 0.40 pu`."""
        depth = "" if self.residual_pu is None else f", {self.residual_pu:.2f} pu"
        return f"{self.label}{depth}"

    @property
    def load_mw(self) -> float:
        """Load at the event's start [MW]."""
        return float(sum(block.mw[0] for block in self.blocks))

    def energy_mwh(self) -> dict[str, float]:
        """Return the energy that each block avoids drawing from the grid [MWh]."""
        power = self.site_power
        energy = (
            np.asarray(np.trapezoid(power.without_mw - power.power_mw, power.time_s))
            / S_PER_H
        )
        return {b.name: float(e) for b, e in zip(self.blocks, energy, strict=True)}

    def load_changes(self) -> Iterator[dict[str, Any]]:
        """Yield each transfer and return of load: number of its dip, and size [MW]."""
        low, high = NORMAL_PU
        spans = [*self.voltage.excursions(low), *self.voltage.excursions(high, "over")]
        starts = sorted(span.start for span in spans)
        for block in self.blocks:
            for change in block.response.changes:
                row = min(max(int(change.time_s // self.step_s), 0), block.mw.size - 1)
                yield {
                    "block": block.name,
                    "dip": int(np.searchsorted(starts, change.start_s, "right")),
                    "what": change.kind,
                    "mw": abs(change.after - change.before) * float(block.mw[row]),
                    "t_s": change.time_s,
                    "start_s": change.start_s,
                    "cause": change.cause,
                }

    def longest_away_s(self) -> float:
        """Return the longest uninterrupted disconnection of a block [s]."""
        power = self.site_power
        away = power.power_mw < power.without_mw - MIN_MW
        either = away.reshape(len(self.blocks), -1, 2).any(axis=2)
        starts_s, ends_s = power.time_s.reshape(-1, 2).T
        since_s = np.maximum.accumulate(np.where(either, starts_s[0], ends_s), axis=1)
        return float((ends_s - since_s).max())

    def totals(self) -> dict[str, float]:
        """Return totals over all blocks, by name.

        They are the load that was transferred or returned [MW], and the energy supplied
        from batteries [MWh], which excludes motors and blocks without settings.
        """
        moved_mw = dict.fromkeys(("transfer", "return"), 0.0)
        for move in self.load_changes():
            moved_mw[move["what"]] += move["mw"]
        energy = self.energy_mwh()
        away_mw = (self.site_power.without_mw - self.site_power.power_mw).sum(axis=0)
        battery_mwh = (
            energy[b.name] for b in self.blocks if b.component not in ("motors", "rest")
        )
        return {
            "load_mw": self.load_mw,
            "most_away_mw": float(away_mw.max()),
            "transferred_mw": moved_mw["transfer"],
            "returned_mw": moved_mw["return"],
            "latched_mw": float(away_mw[-1]),
            "battery_mwh": sum(battery_mwh),
        }


def _connected_fractions(response: Response, times: Float64Array) -> Float64Array:
    """Return the connected fraction at given times [s]."""
    t, on = np.array([p for p in response.points if isfinite(p[0])] or [(0.0, 1.0)]).T
    return np.asarray(np.interp(times, t, on, left=1.0))


@dataclass(frozen=True)
class RideThroughResult(Brief):
    """Responses of a site to a grid disturbance, by time and residual voltage."""

    event: Event  # the disturbance
    cases: tuple[ResponseCase, ...]  # one for each time and depth
    notes: tuple[str, ...]  # sources, assumptions and warnings

    @cached_property
    def verdicts(self) -> dict[str, list[Verdict]]:
        """Compliance results of all cases, by curve."""
        result: dict[str, list[Verdict]] = {}
        for k, (name, curve) in enumerate(CURVES.items()):
            report(0.5 + 0.5 * k / len(CURVES), name)
            result[name] = [
                check_compliance(
                    curve,
                    self.event,
                    c.voltage,
                    c.site_power,
                    c.settings_and_responses(),
                )
                for c in self.cases
            ]
        return result

    def table(self) -> pa.Table:
        """Return a table of every block's power over time, linear between rows."""
        parts = []
        for case in self.cases:
            power = case.site_power
            for block, *block_mw in zip(
                case.blocks, power.power_mw, power.without_mw, strict=True
            ):
                labels = (case.label, case.residual_pu, case.at.isoformat(), block.name)
                columns = [[value] * power.time_s.size for value in labels]
                parts.append(
                    pa.table([*columns, power.time_s, *block_mw], schema=_SCHEMA)
                )
        return pa.concat_tables(parts)

    def write(self, path: Path) -> None:
        """Write `table` to a Parquet file, with the notes in its metadata."""
        notes = {b"diploee.notes": "\n".join(self.notes).encode()}
        pq.write_table(
            self.table().replace_schema_metadata(notes), path, compression="zstd"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the responses in plain types, for JSON."""
        event = self.event
        return {
            "event": {"name": event.name, "source": event.source, "facts": event.facts},
            "blocks": {
                b.name: {
                    "of": b.component,
                    "settings": b.settings.model_dump(exclude_none=True),
                }
                for b in self.cases[0].blocks
                if b.settings is not None
            },
            "cases": [
                {
                    "case": case.label,
                    "at": case.at.isoformat(),
                    "residual_pu": case.residual_pu,
                    **case.totals(),
                    "not_drawn_mwh": case.energy_mwh(),
                    "latched_s": {
                        name: response.latched_s
                        for name, (_, response) in (
                            case.settings_and_responses().items()
                        )
                        if response.latched_s is not None
                    },
                    "moves": [*case.load_changes()],
                    "verdicts": {
                        name: asdict(results[k])
                        for name, results in self.verdicts.items()
                    },
                }
                for k, case in enumerate(self.cases)
            ],
            "curves": {
                n: {"status": c.status, "note": c.note} for n, c in CURVES.items()
            },
            "notes": self.notes,
        }

    def section(self) -> Section:
        """Return the responses as a section of a page, data sheet or terminal."""
        cases = sorted(self.cases, key=lambda case: -case.totals()["most_away_mw"])
        dips = f"By block and dip ({cases[0].name})"
        alone = "Settings alone, whatever the event"
        tables = (
            SectionTable(
                "By load and depth", tuple(_total_cells(cases)), first="Load, depth"
            ),
            SectionTable(dips, tuple(_dip_cells(cases[0])), first="Block, cause"),
            self.verdict_table(),
            SectionTable(alone, tuple(_settings_cells(cases[0])), first="Curve"),
        )
        filled_tables = tuple(table for table in tables if table.figures)
        title = f"Ride-through: {self.event.name}"
        figures = tuple(_key_figures(cases[0], self._worst_verdicts()))
        return Section(
            "ride-through", title, figures, filled_tables, ("ride-through",), self.notes
        )

    def verdict_table(self) -> SectionTable:
        """Return the table of compliance with the curves, the worst first."""
        figures = tuple(_verdict_cells(self._worst_verdicts(), self.verdicts))
        return SectionTable("Ride-through curves", figures, first="Curve")

    def _worst_verdicts(self) -> dict[str, Verdict]:
        """Return the worst compliance over all cases by curve, the worst first."""
        worst_by_curve = {
            name: worst_verdict(result) for name, result in self.verdicts.items()
        }
        return {
            name: worst_by_curve[name]
            for name in sorted(worst_by_curve, key=lambda n: worst_by_curve[n].rank)
        }


MAX_DIPS = 20
"""Maximum number of dips in tables."""
DIGITS = 3
"""Significant digits of powers and times in text: inputs have no more."""


def _key_figures(
    case: ResponseCase, worst_by_curve: Mapping[str, Verdict]
) -> Iterator[Statistic]:
    """Yield the main statistics of a case, and counts of curves by compliance."""
    totals = case.totals()
    load_mw, away_mw, latched_mw = (
        totals[key] for key in ("load_mw", "most_away_mw", "latched_mw")
    )
    form = number_format([load_mw], DIGITS)
    part = (
        f"{100 * away_mw / load_mw:.0f} % of {format_number(load_mw, form)} MW"
        if load_mw
        else ""
    )
    note = f"{part} ({case.name})" if part else ""
    yield Statistic("Leaves, at most at a time", away_mw, "MW", note, pattern=form)
    if away_mw > MIN_MW:
        longest_s = case.longest_away_s()
        stays = latched_mw > MIN_MW
        yield Statistic(
            "Away without a break",
            longest_s,
            "s",
            "or longer" if stays else "",
            pattern=number_format([longest_s], DIGITS),
        )
        note = "no automatic return in the settings" if stays else ""
        yield Statistic("Still away at the end", latched_mw, "MW", note, pattern=form)
    for word in VERDICTS:
        if names := [
            name for name, result in worst_by_curve.items() if result.verdict == word
        ]:
            yield Statistic(
                f"Curves {word}",
                len(names),
                f"of {len(worst_by_curve)}",
                ", ".join(names),
                pattern="{:.0f}",
            )


def _total_cells(cases: Iterable[ResponseCase]) -> Iterator[Statistic]:
    """Yield the cells of the table of totals by case."""
    heads = {
        "load_mw": "Load",
        "most_away_mw": "Away at a time",
        "transferred_mw": "Left, all dips",
        "returned_mw": "Returned",
        "latched_mw": "Still away",
        "battery_mwh": "On battery",
    }
    for case in cases:
        form = number_format([case.load_mw], DIGITS)
        for key, value in case.totals().items():
            unit, pattern = (
                ("MWh", number_format([value], 2))
                if key.endswith("mwh")
                else ("MW", form)
            )
            yield Statistic(
                case.name, value, unit, quantity=heads[key], pattern=pattern
            )


def _dip_cells(case: ResponseCase) -> Iterator[Statistic]:
    """Yield the cells of the table of load changes by dip."""
    sums: dict[tuple[int, str], float] = {}
    form = number_format([case.load_mw], DIGITS)
    for move in case.load_changes():
        what = move["cause"] if move["what"] == "transfer" else "returns"
        key = (move["dip"], f"{move['block']}: {what}")
        sums[key] = sums.get(key, 0.0) + move["mw"]
    for (dip, item), mw in sorted(sums.items(), key=lambda entry: entry[0][0]):
        if dip > MAX_DIPS:  # --out and --json have all
            break
        yield Statistic(
            item, mw, "MW", quantity=f"Dip {dip}" if dip else "Before", pattern=form
        )


def _verdict_cells(
    worst_by_curve: Mapping[str, Verdict], verdicts: Mapping[str, Iterable[Verdict]]
) -> Iterator[Statistic]:
    """Yield the cells of the table of compliance by curve."""
    for name, result in worst_by_curve.items():
        times = [t for each in verdicts[name] for t in each.recovered_s]
        gone = any(inf in each.recovered_s[-1:] for each in verdicts[name])
        slowest = (
            "never"
            if gone
            else format_seconds(max((t for t in times if t < inf), default=nan))
        )
        inside = {True: "yes", False: "no", None: "not known"}[result.ceased_inside]
        cells = {
            "Verdict": result.verdict,
            "Why": result.why,
            "Slowest recovery": slowest,
            "Ceased inside": inside if result.verdict != "not required" else "",
        }
        for head, text in cells.items():
            yield Statistic(name, text, quantity=head)


def _settings_cells(case: ResponseCase) -> Iterator[Statistic]:
    """Yield the cells of the table of settings that trip inside a curve."""
    for name, curve in CURVES.items():
        blocks = case.settings_and_responses().items() if curve.zones else ()
        for block, (settings, _) in blocks:
            result = sorted(
                inside_trips(curve, settings),
                key=lambda trip: (
                    isfinite(trip.ridden_s),
                    trip.shortest_s / trip.ridden_s,
                ),
            )
            texts = [str(trip) for trip in result[:1]]
            if settings.counter is not None:
                banned = "" if curve.counters else ", which is prohibited"
                texts.append(
                    f"counts {settings.counter.n} dips in "
                    f"{settings.counter.window_s:g} s{banned}"
                )
            yield Statistic(name, "; ".join(texts) or "stays on", quantity=block)


@stage("ride-through")
def ride_through(
    run: RunFolder,
    event: Event | str = SHIPPED,
    at: datetime | None = None,
    settings: Mapping[str, RideThrough] | None = None,
) -> RideThroughResult:
    """Simulate the ride-through of a run's site during a grid disturbance.

    Parameters
    ----------
    run : RunFolder
        A finished run; its load is the load before the event.
    event : Event or str, optional
        The event, or its name in `EVENTS`; `diploee.Run.answer` reads one from a file.
    at : datetime.datetime, optional
        Local time at which the event begins. By default it begins at three times, which
        have the 5th, 50th and 95th percentile of the load (means over at least a
        minute).
    settings : mapping of str to RideThrough, optional
        Settings by block in place of the scenario's ``facility.ride_through``.

    Returns
    -------
    RideThroughResult
        Response of each block, and compliance with each curve, by time and residual
        voltage.

    Raises
    ------
    InputError
        If the run lacks settings, the event is unknown, or the time is outside the run.
    """
    event = EVENTS.named("ride_through", event) if isinstance(event, str) else event
    settings = run.scenario.facility.blocks(settings)
    if not settings:
        raise InputError(
            f"{run.folder}: the site has no facility.ride_through, and nothing is "
            "assumed of it; add it to the scenario, or study a preset with --set "
            "facility.ride_through.it.preset=perc1"
        )
    load = _BlockLoads(run)
    cases = []
    times = list(load.studied_times(at))
    for k, (label, row) in enumerate(times):
        report(0.5 * k / len(times), label)
        when = load.series.at(row)
        for residual in event.residuals or (None,):
            voltage = event.voltage(residual)
            blocks = tuple(load.blocks(row, settings, voltage))
            step_s = load.series.step_s
            cases.append(ResponseCase(label, when, residual, voltage, blocks, step_s))
    assumed = [name for name, block in settings.items() if block.preset is not None]
    carried_s = run.scenario.site.ups_ride_through_s
    longest_s = max(case.longest_away_s() for case in cases)
    notes = [
        (
            "a screening at positive sequence: no phase jump, unbalance, harmonics or "
            "control of UPS"
        ),
        f"event: {event.source}",
        *(
            f"{name}: {block.source}"
            for name, block in settings.items()
            if block.source
        ),
        *(
            [f"study_assumption, not the site's own settings: {', '.join(assumed)}"]
            * bool(assumed)
        ),
        *load.notes(),
        (
            "on battery: energy until the end of the answer, without recharging after "
            "the return"
        ),
        f"curves: {SOURCE}; the operator's own text decides",
        *(
            f"{name}: {'; '.join(filter(None, (curve.status, curve.note)))}"
            for name, curve in CURVES.items()
        ),
    ]
    if carried_s is not None and longest_s > carried_s:
        notes.insert(
            0,
            f"away for {format_seconds(longest_s)} or longer; "
            f"the UPS carries {carried_s:g} s",
        )
    result = RideThroughResult(event, tuple(cases), tuple(notes))
    _ = result.verdicts  # while its bar is shown
    return result


class _BlockLoads:
    """Load of a run, split into blocks."""

    def __init__(self, run: RunFolder) -> None:
        self.run, self.series, self.parts = run, run.series(), LoadParts.from_run(run)

    def studied_times(self, at: datetime | None) -> Iterator[tuple[str, int]]:
        """Yield the label and the row in the run's series of each studied time."""
        step_ms = self.series.step_ms
        if at is not None:
            row = WallClock(self.series.start).time_ms(at) // step_ms
            if not 0 <= row < self.series.n_rows:
                raise InputError(
                    f"--at: {at.isoformat()} lies outside the run, "
                    f"{self.series.period_text}"
                )
            yield f"{self.series.at(row):%Y-%m-%d %H:%M}", row
            return
        n = max(MS_PER_MIN // step_ms, 1)
        blocks = self.series.blocks(self.parts.load, n * step_ms)
        load = np.concatenate([sum_columns(b.columns, self.parts.load) for b in blocks])
        first = min(
            ceil(self.run.transient_h * MS_PER_H / (n * step_ms)), load.size - 1
        )
        for level in LEVELS:
            level_w = np.percentile(load[first:], level)
            yield (
                f"P{level}",
                (first + int(np.abs(load[first:] - level_w).argmin())) * n,
            )

    def blocks(
        self, row: int, settings: Mapping[str, RideThrough], voltage: Voltage
    ) -> Iterator[LoadBlock]:
        """Yield the load blocks at a row; the last is all load without settings."""
        parts, rows = (
            self.parts,
            ceil((voltage.time_s[-1] + AFTER_S) / self.series.step_s),
        )
        end = min(row + rows, self.series.n_rows)
        columns = self.series.read([*parts.load, *parts.pools], (row, end)).columns
        rest_w, groups = sum_columns(columns, parts.load), parts.powers(columns)
        for name, block in settings.items():
            component = block.of or name
            power_w = groups.get(component, groups["it"]) * block.share
            rest_w, mw = rest_w - power_w, power_w / W_PER_MW
            response = simulate_response(block, voltage, float(mw[0]))
            yield LoadBlock(name, component, block, mw, response)
        rest_mw = np.maximum(rest_w, 0.0) / W_PER_MW
        yield LoadBlock("without settings", "rest", None, rest_mw, Response())

    def notes(self) -> Iterator[str]:
        """Yield notes on the load, such as its assumptions, for the results."""
        yield "what has no settings stays on the grid"
        yield (
            f"the run's own power until {AFTER_S // S_PER_MIN} min after the event, "
            "then held"
        )
        if not self.parts.motors:
            yield "the run models no cooling: its load is that of the nodes"
        if self.parts.taken:
            yield (
                "load before the site's own sources and stores "
                f"({', '.join(self.parts.taken)})"
            )
