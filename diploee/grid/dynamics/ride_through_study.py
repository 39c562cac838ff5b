"""Ride-through study of a run's site under a grid disturbance.

MW that leave and return, and the verdicts of curves.
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
    VERDICT_WORDS,
    Course,
    Verdict,
    seconds,
    static_check,
    verdict,
    worst,
)
from diploee.grid.dynamics.events import EVENTS, NORMAL_PU, Event
from diploee.runs.formatting import number_format
from diploee.runs.load_parts import LoadParts, sum_columns
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic
from diploee.scenario.ride_through import RideThrough

SHIPPED = "nerc_2024_07_10"
"""Event that the report of a run is about."""

LEVELS = (5, 50, 95)
AFTER_S = 10 * S_PER_MIN
"""Time behind the event for which the run's own power is read; it is held then."""
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
    of: str
    settings: RideThrough | None  # None for what stays on whatever happens
    # Over each interval of the run from the event's start on, shape (n,)
    mw: Float64Array
    response: Response


@dataclass(frozen=True)
class ResponseCase(Brief):
    """Response at one time of the run to one depth of the dips."""

    label: str  # such as P50
    at: datetime
    residual_pu: float | None
    voltage: Voltage
    blocks: tuple[LoadBlock, ...]
    step_s: float  # of the blocks' power

    @cached_property
    def course(self) -> Course:
        """The power of each block over time."""
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
        # Within each piece, as the fraction jumps at its ends
        near, far = (
            np.array([_fractions(b.response, of) for b in self.blocks])
            for of in (a + (b - a) / 4, b - (b - a) / 4)
        )
        on = np.dstack([1.5 * near - 0.5 * far, 1.5 * far - 0.5 * near]).reshape(
            len(near), -1
        )
        return Course(np.column_stack([a, b]).ravel(), on * without_mw, without_mw)

    def answering(self) -> dict[str, tuple[RideThrough, Response]]:
        """Return the blocks that have ride-through settings, with their responses."""
        return {
            b.name: (b.settings, b.response)
            for b in self.blocks
            if b.settings is not None
        }

    @property
    def name(self) -> str:
        """Label of the load and the depth of the dips."""
        depth = "" if self.residual_pu is None else f", {self.residual_pu:.2f} pu"
        return f"{self.label}{depth}"

    @property
    def load_mw(self) -> float:
        """Load at the event's start [MW]."""
        return float(sum(block.mw[0] for block in self.blocks))

    def energy_mwh(self) -> dict[str, float]:
        """Return the energy that each block fails to draw [MWh], until the end."""
        of = self.course
        energy = (
            np.asarray(np.trapezoid(of.without_mw - of.power_mw, of.time_s)) / S_PER_H
        )
        return {b.name: float(e) for b, e in zip(self.blocks, energy, strict=True)}

    def moves(self) -> Iterator[dict[str, Any]]:
        """Yield each transfer and return with its dip (from 1) and size [MW]."""
        low, high = NORMAL_PU
        spans = [*self.voltage.beyond(low), *self.voltage.beyond(high, "over")]
        starts = sorted(span.start for span in spans)
        for block in self.blocks:
            for change in block.response.changes:
                row = min(max(int(change.time_s // self.step_s), 0), block.mw.size - 1)
                yield {
                    "block": block.name,
                    "dip": int(np.searchsorted(starts, change.start_s, "right")),
                    "what": change.what,
                    "mw": abs(change.after - change.before) * float(block.mw[row]),
                    "t_s": change.time_s,
                    "start_s": change.start_s,
                    "cause": change.cause,
                }

    def longest_away_s(self) -> float:
        """Return the longest uninterrupted disconnection of a block [s]."""
        of = self.course
        away = of.power_mw < of.without_mw - MIN_MW
        either = away.reshape(len(self.blocks), -1, 2).any(axis=2)
        starts_s, ends_s = of.time_s.reshape(-1, 2).T
        since_s = np.maximum.accumulate(np.where(either, starts_s[0], ends_s), axis=1)
        return float((ends_s - since_s).max())

    def sums(self) -> dict[str, float]:
        """Return what moved, over all blocks [MW], and the energy on battery [MWh]."""
        moved = dict.fromkeys(("transfer", "return"), 0.0)
        for move in self.moves():
            moved[move["what"]] += move["mw"]
        energy = self.energy_mwh()
        away_mw = (self.course.without_mw - self.course.power_mw).sum(axis=0)
        carried = (
            energy[b.name] for b in self.blocks if b.of not in ("motors", "rest")
        )
        return {
            "load_mw": self.load_mw,
            "most_away_mw": float(away_mw.max()),
            "transferred_mw": moved["transfer"],
            "returned_mw": moved["return"],
            "latched_mw": float(away_mw[-1]),
            "battery_mwh": sum(carried),
        }


def _fractions(response: Response, times: Float64Array) -> Float64Array:
    t, on = np.array([p for p in response.points if isfinite(p[0])] or [(0.0, 1.0)]).T
    return np.asarray(np.interp(times, t, on, left=1.0))


@dataclass(frozen=True)
class RideThroughResult(Brief):
    """Responses of a site to a grid disturbance."""

    event: Event  # what it met
    cases: tuple[ResponseCase, ...]  # one for each instant and depth
    notes: tuple[str, ...]  # what a reader must know, with sources and assumptions

    @cached_property
    def verdicts(self) -> dict[str, list[Verdict]]:
        """Compliance results of every case, by curve."""
        result: dict[str, list[Verdict]] = {}
        for k, (name, of) in enumerate(CURVES.items()):
            report(0.5 + 0.5 * k / len(CURVES), name)
            result[name] = [
                verdict(of, self.event, c.voltage, c.course, c.answering())
                for c in self.cases
            ]
        return result

    def table(self) -> pa.Table:
        """Return each block's power over time, linear between rows, for every case."""
        parts = []
        for case in self.cases:
            of = case.course
            for block, *of_block in zip(
                case.blocks, of.power_mw, of.without_mw, strict=True
            ):
                named = (case.label, case.residual_pu, case.at.isoformat(), block.name)
                columns = [[value] * of.time_s.size for value in named]
                parts.append(pa.table([*columns, of.time_s, *of_block], schema=_SCHEMA))
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
                    "of": b.of,
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
                    **case.sums(),
                    "not_drawn_mwh": case.energy_mwh(),
                    "latched_s": {
                        name: of.latched_s
                        for name, (_, of) in case.answering().items()
                        if of.latched_s is not None
                    },
                    "moves": [*case.moves()],
                    "verdicts": {n: asdict(of[k]) for n, of in self.verdicts.items()},
                }
                for k, case in enumerate(self.cases)
            ],
            "curves": {
                n: {"status": c.status, "note": c.note} for n, c in CURVES.items()
            },
            "notes": self.notes,
        }

    def section(self) -> Section:
        """Return the responses as a section, for page, data sheet and terminal."""
        cases = sorted(self.cases, key=lambda case: -case.sums()["most_away_mw"])
        dips = f"By block and dip ({cases[0].name})"
        alone = "Settings alone, whatever the event"
        tables = (
            SectionTable("By load and depth", tuple(_sums(cases)), first="Load, depth"),
            SectionTable(dips, tuple(_by_dip(cases[0])), first="Block, cause"),
            self.verdict_table(),
            SectionTable(alone, tuple(_alone(cases[0])), first="Curve"),
        )
        kept = tuple(table for table in tables if table.figures)
        title = f"Ride-through: {self.event.name}"
        figures = tuple(_answer(cases[0], self._judged()))
        return Section(
            "ride-through", title, figures, kept, ("ride-through",), self.notes
        )

    def verdict_table(self) -> SectionTable:
        """Return the compliance results of the curves, the worst first."""
        figures = tuple(_judged(self._judged(), self.verdicts))
        return SectionTable("Ride-through curves", figures, first="Curve")

    def _judged(self) -> dict[str, Verdict]:
        worst_of = {name: worst(result) for name, result in self.verdicts.items()}
        return {
            name: worst_of[name]
            for name in sorted(worst_of, key=lambda n: worst_of[n].rank)
        }


MAX_DIPS = 20
"""Dips that tables show one by one."""
DIGITS = 3
"""Of powers and times in words: settings and the load are not known better."""


def _answer(case: ResponseCase, judged: Mapping[str, Verdict]) -> Iterator[Statistic]:
    sums = case.sums()
    load_mw, away_mw, latched_mw = (
        sums[key] for key in ("load_mw", "most_away_mw", "latched_mw")
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
    for word in VERDICT_WORDS:
        if names := [name for name, of in judged.items() if of.verdict == word]:
            yield Statistic(
                f"Curves {word}",
                len(names),
                f"of {len(judged)}",
                ", ".join(names),
                pattern="{:.0f}",
            )


def _sums(cases: Iterable[ResponseCase]) -> Iterator[Statistic]:
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
        for key, value in case.sums().items():
            unit, of = (
                ("MWh", number_format([value], 2))
                if key.endswith("mwh")
                else ("MW", form)
            )
            yield Statistic(case.name, value, unit, quantity=heads[key], pattern=of)


def _by_dip(case: ResponseCase) -> Iterator[Statistic]:
    sums: dict[tuple[int, str], float] = {}
    form = number_format([case.load_mw], DIGITS)
    for move in case.moves():
        what = move["cause"] if move["what"] == "transfer" else "returns"
        key = (move["dip"], f"{move['block']}: {what}")
        sums[key] = sums.get(key, 0.0) + move["mw"]
    for (dip, item), mw in sorted(sums.items(), key=lambda of: of[0][0]):
        if dip > MAX_DIPS:  # --out and --json have all
            break
        yield Statistic(
            item, mw, "MW", quantity=f"Dip {dip}" if dip else "Before", pattern=form
        )


def _judged(
    judged: Mapping[str, Verdict], verdicts: Mapping[str, Iterable[Verdict]]
) -> Iterator[Statistic]:
    for name, of in judged.items():
        times = [t for each in verdicts[name] for t in each.recovered_s]
        gone = any(inf in each.recovered_s[-1:] for each in verdicts[name])
        slowest = (
            "never"
            if gone
            else seconds(max((t for t in times if t < inf), default=nan))
        )
        inside = {True: "yes", False: "no", None: "not known"}[of.ceased_inside]
        cells = {
            "Verdict": of.verdict,
            "Why": of.why,
            "Slowest recovery": slowest,
            "Ceased inside": inside if of.verdict != "not required" else "",
        }
        for head, text in cells.items():
            yield Statistic(name, text, quantity=head)


def _alone(case: ResponseCase) -> Iterator[Statistic]:
    for name, curve in CURVES.items():
        for block, (of, _) in case.answering().items() if curve.zones else ():
            result = sorted(
                static_check(curve, of),
                key=lambda at: (isfinite(at.ridden_s), at.shortest_s / at.ridden_s),
            )
            texts = [str(at) for at in result[:1]]
            if of.counter is not None:
                banned = "" if curve.counters else ", which is prohibited"
                texts.append(
                    f"counts {of.counter.n} dips in {of.counter.window_s:g} s{banned}"
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
        A finished run; its load at the instant is what meets the event.
    event : Event or str, optional
        The event, or its name in `EVENTS`; `diploee.Run.answer` reads one from a file.
    at : datetime.datetime, optional
        When the event begins, local time; by default at the 5th, 50th and 95th
        percentile of the load, as means of a minute or longer.
    settings : mapping of str to RideThrough, optional
        Settings by block in place of the scenario's ``facility.ride_through``.

    Raises
    ------
    InputError
        If the run has no settings, or the event or instant can't be had.
    """
    event = EVENTS.named("ride_through", event) if isinstance(event, str) else event
    settings = run.scenario.facility.blocks(settings)
    if not settings:
        raise InputError(
            f"{run.folder}: the site has no facility.ride_through, and nothing is "
            "assumed of it; add it to the scenario, or study a preset with --set "
            "facility.ride_through.it.preset=perc1"
        )
    load = _Load(run)
    cases = []
    instants = list(load.instants(at))
    for k, (label, row) in enumerate(instants):
        report(0.5 * k / len(instants), label)
        when = load.series.at(row)
        for residual in event.residuals or (None,):
            voltage = event.voltage(residual)
            blocks = tuple(load.blocks(row, settings, voltage))
            step_s = load.series.step_s
            cases.append(ResponseCase(label, when, residual, voltage, blocks, step_s))
    assumed = [name for name, of in settings.items() if of.preset is not None]
    carried_s = run.scenario.site.ups_ride_through_s
    longest_s = max(case.longest_away_s() for case in cases)
    notes = [
        (
            "a screening at positive sequence: no phase jump, unbalance, harmonics or "
            "control of UPS"
        ),
        f"event: {event.source}",
        *(f"{name}: {of.source}" for name, of in settings.items() if of.source),
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
            f"{name}: {'; '.join(filter(None, (of.status, of.note)))}"
            for name, of in CURVES.items()
        ),
    ]
    if carried_s is not None and longest_s > carried_s:
        notes.insert(
            0,
            f"away for {seconds(longest_s)} or longer; the UPS carries {carried_s:g} s",
        )
    answer = RideThroughResult(event, tuple(cases), tuple(notes))
    _ = answer.verdicts  # while its bar is shown
    return answer


class _Load:
    """Load of a run, split into blocks."""

    def __init__(self, run: RunFolder) -> None:
        self.run, self.series, self.of = run, run.series(), LoadParts.from_run(run)

    def instants(self, at: datetime | None) -> Iterator[tuple[str, int]]:
        """Yield the name and the row of each studied time."""
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
        blocks = self.series.blocks(self.of.load, n * step_ms)
        load = np.concatenate([sum_columns(b.columns, self.of.load) for b in blocks])
        first = min(
            ceil(self.run.transient_h * MS_PER_H / (n * step_ms)), load.size - 1
        )
        for level in LEVELS:
            wanted = np.percentile(load[first:], level)
            yield f"P{level}", (first + int(np.abs(load[first:] - wanted).argmin())) * n

    def blocks(
        self, row: int, settings: Mapping[str, RideThrough], voltage: Voltage
    ) -> Iterator[LoadBlock]:
        """Yield the blocks from a row on, ending with the load without settings."""
        of, rows = self.of, ceil((voltage.time_s[-1] + AFTER_S) / self.series.step_s)
        end = min(row + rows, self.series.n_rows)
        columns = self.series.read([*of.load, *of.pools], (row, end)).columns
        left, groups = sum_columns(columns, of.load), of.powers(columns)
        for name, block in settings.items():
            part = block.of or name
            power_w = groups.get(part, groups["it"]) * block.share
            left, mw = left - power_w, power_w / W_PER_MW
            response = simulate_response(block, voltage, float(mw[0]))
            yield LoadBlock(name, part, block, mw, response)
        rest_mw = np.maximum(left, 0.0) / W_PER_MW
        yield LoadBlock("without settings", "rest", None, rest_mw, Response())

    def notes(self) -> Iterator[str]:
        """Yield notes on the load for a reader of the results."""
        yield "what has no settings stays on the grid"
        yield (
            f"the run's own power until {AFTER_S // S_PER_MIN} min after the event, "
            "then held"
        )
        if not self.of.motors:
            yield "the run models no cooling: its load is that of the nodes"
        if self.of.taken:
            yield (
                "load before the site's own sources and stores "
                f"({', '.join(self.of.taken)})"
            )
