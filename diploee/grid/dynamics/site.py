"""Run's site inside a grid simulator: voltage and frequency in, P and Q out.

The load is the run's own, before its first battery or ramp limit. Ride-through takes
blocks of it off the grid and back; what is on the grid answers the voltage by what it
is: electronic load draws constant power within its current, motors on line follow their
slip, the rest is an impedance. The run's stages from that battery on then act on what
is left, in the simulator's steps.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any, cast

import numpy as np

from diploee.base.column_specs import TAKEN_OFF, Role
from diploee.base.errors import Brief, InputError
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S, W_PER_MW
from diploee.facility.base import POWER, REACTIVE, Block, Stage, Stages
from diploee.facility.before_stores import BEFORE_STORES, first_storage_index
from diploee.facility.weather import Weather
from diploee.grid.dynamics.block_ride_through import TIE_S, Machine
from diploee.grid.dynamics.motor import Motor
from diploee.grid.export.psse import PERC1
from diploee.power.blocks import AC_COLUMNS, POWER_COLUMNS
from diploee.runs.load_parts import LoadParts, split_by_kind
from diploee.runs.reader import RunFolder
from diploee.scenario.ride_through import RideThrough
from diploee.simulation.prepared import open_stages

CURRENT_PU = PERC1["Ipmax"] / PERC1["Lfm"]
"""ASSUMPTION: most current of electronic load, over that at 1 pu: PERC1's defaults."""

ROWS = 4096
"""Rows of the run that are read at a time."""

MIN_S = 1e-3
"""Step in which stages are asked where no time goes on."""


@dataclass
class SiteState(Brief):
    """State of a site and its opening arguments.

    To be pickled or copied.
    """

    first: int  # row of the series at time 0
    event_window: str | None  # whose series it is, of the whole run if None
    drives: float  # share of the cooling on drives, 0-1
    nominal_hz: float  # frequency of the grid [Hz]
    machines: dict[str, Machine]  # ride-through by block
    stages: tuple[Any, ...]  # states of the stages from the first store on
    speed_pu: float  # of the motors on line
    time_s: float = 0.0  # end of the last step [s]
    is_held: bool = False  # whether its load stays that of its first row


class Site:
    """Site stepped by a simulator, made by `diploee.Run.site` or `Site.open`.

    Parameters
    ----------
    run : RunFolder
        The run.
    state : SiteState
        Where it goes on from; it is changed in place.
    stages : sequence of Stage
        Those of the run from its first battery or ramp limit on.
    """

    def __init__(
        self, run: RunFolder, state: SiteState, stages: Sequence[Stage]
    ) -> None:
        self._state, self._motor = state, Motor(state.nominal_hz)
        self._series, self._reopened_stages = run.series(state.event_window), stages
        behind = {
            column.name for stage in self._reopened_stages for column in stage.columns
        }
        self._parts, names = (
            LoadParts.from_run(run).excluding(behind),
            self._series.check()[1:],
        )
        per = {column.name: column.per for column in run.columns}
        self._names = [
            name
            for name in names
            if name not in behind
            and per.get(name.partition(".")[0], "service") != "service"
        ]
        before = [column.name for column in BEFORE_STORES]
        self._before = [
            n
            for n in (before if self._reopened_stages else (POWER, REACTIVE))
            if n in names
        ]
        self._read = (0, Block(0, 1, {POWER: np.empty(0)}))
        self.connected = 1.0
        """Share of the load on the grid at the end of the last step, 0-1."""

    @classmethod
    def open(
        cls,
        run: RunFolder,
        at: datetime | None = None,
        *,
        event_window: str | None = None,
        settings: Mapping[str, RideThrough] | None = None,
        drives: float = 0.0,
        nominal_hz: float = 60.0,
        hold: bool = False,
        state: SiteState | None = None,
        weather: Weather | None = None,
    ) -> Site:
        """Open the site of a finished run, or continue from a state.

        Parameters
        ----------
        run : RunFolder
            The run. With a battery or ramp limit it was run with ``--before-stores``.
        at : datetime.datetime, optional
            Start of an interval of the run, local time, at which the time is 0; by
            default its first.
        event_window : str, optional
            One of the run's event windows at 0.1 s in place of the whole run.
        settings : mapping of str to RideThrough, optional
            Settings by block in place of the scenario's ``facility.ride_through``.
        drives : float
            Share of the cooling on drives, 0-1; the rest is motors on line.
        nominal_hz : float
            Frequency of the grid [Hz].
        hold : bool
            Keep the load of the first interval, as tests of the model ask; the site has
            no end then.
        state : SiteState, optional
            `Site.state` of a site of the same run, which goes on from there; it has the
            other arguments.
        weather : Weather, optional
            The run's, where its scenario names any and it has a battery or ramp limit.

        Raises
        ------
        InputError
            If the run lacks the load before its stores, the instant is outside of it,
            or an argument isn't possible or there.
        """
        behind = _reopened_stages(run, weather)
        if state is not None:
            return cls(run, deepcopy(state), behind)
        if not (0 <= drives <= 1 and 0 < nominal_hz < inf):
            raise InputError(
                "drives and nominal_hz: must be from 0 to 1 and above 0, found "
                f"{drives:g} and {nominal_hz:g} Hz"
            )
        series = run.series(event_window)
        if behind and event_window is not None:
            raise InputError(
                f"{run.folder}: the state of its battery or ramp limit at the start "
                "of an event window isn't kept; open the whole run, in steps of 0.1 "
                "s (--set resolution='0.1 s' --before-stores)"
            )
        first = 0 if at is None else series.row_at(at, "at")
        blocks = run.scenario.facility.blocks(settings)
        machines = {name: Machine(block) for name, block in blocks.items()}
        speed_pu, started = Motor(nominal_hz).nominal_pu, Stages(behind).start()
        site = cls(
            run,
            SiteState(
                first,
                event_window,
                drives,
                nominal_hz,
                machines,
                started,
                speed_pu,
                is_held=hold,
            ),
            behind,
        )
        if behind:
            for rows in series.blocks(site._names, rows=(0, first)):
                at_ms = int(rows.starts_ms[0]) - series.start_ms
                columns = {**rows.columns, **site._upstream_power(rows.columns)}
                passed = Block(at_ms, series.step_ms, columns)
                _, site._state.stages = Stages(behind).apply(passed, site._state.stages)
        return site

    @property
    def state(self) -> SiteState:
        """Copy of the site's state."""
        return deepcopy(self._state)

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions of the response, as text."""
        reactive = (
            "reactive power goes with the parts of the load: the run has it as one sum"
        )
        if len(self._before) < 2:
            reactive = (
                "the run models no reactive power, so that it is 0; nodes need ac_power"
            )
        kept = ", ".join(self._parts.taken)
        return (
            "1 pu is the voltage at which the load is the run's own",
            (
                f"electronic load draws {CURRENT_PU:g} times its current at most "
                "(PERC1's defaults)"
            ),
            (
                f"{self._state.drives:g} of the cooling is on drives; motors are "
                "motor A of pnnl/LL-risk-assessment's record, without what is faster "
                "than their slip"
            ),
            reactive,
            *([f"as in the run, whatever the voltage: {kept}"] * bool(kept)),
        )

    def step(
        self, time: float, voltage_pu: float, frequency_hz: float
    ) -> tuple[float, float]:
        """Advance to a time and return the power that the site draws then.

        Parameters
        ----------
        time : float
            From when the site was opened [s], never back. Where it doesn't go on, the
            power is that at once.
        voltage_pu, frequency_hz : float
            Positive-sequence voltage and frequency [Hz] since the step before.

        Returns
        -------
        p_mw, q_mvar : float
            Active and reactive power at the end of the step, drawn positive.

        Raises
        ------
        InputError
            If time goes back or beyond the run, or a value isn't possible.
        """
        of, step_s = self._state, self._series.step_s
        frequency, end_s = (
            frequency_hz / of.nominal_hz,
            inf if of.is_held else (self._series.n_rows - of.first) * step_s,
        )
        if not of.time_s - TIE_S <= time <= end_s + TIE_S:
            raise InputError(
                f"time: must be from {of.time_s:g} s, where the last step ended, to "
                f"{end_s:g} s, where the run does, found {time:g} s"
            )
        if not (0 <= voltage_pu < inf and 0 < frequency < inf):
            raise InputError(
                "voltage_pu must be 0 or more and frequency_hz above 0, found "
                f"{voltage_pu:g} pu and {frequency_hz:g} Hz"
            )
        power = None
        while time - of.time_s > TIE_S:
            edge_s = (int((of.time_s + TIE_S) / step_s) + 1) * step_s
            power = self._go(
                edge_s if time > edge_s - TIE_S else time, voltage_pu, frequency
            )
        return power or self._go(of.time_s, voltage_pu, frequency)

    def _go(self, end_s: float, pu: float, frequency: float) -> tuple[float, float]:
        """Advance to a time within a row and return P and Q [MW, Mvar] until then."""
        of, length_s = self._state, end_s - self._state.time_s
        columns = self._row()
        parts = {name: float(w[0]) for name, w in self._parts.powers(columns).items()}
        on = self._on(parts, end_s, pu)
        if length_s:
            of.speed_pu = self._motor.turned(of.speed_pu, length_s, pu, frequency)
        # They return as their settings say, not from where they stopped
        if on["motors"] <= 0:
            of.speed_pu = self._motor.nominal_pu
        motor, nominal = (
            self._motor.drawn(of.speed_pu, pu, frequency),
            self._motor.nominal,
        )
        electronic = min(1.0, CURRENT_PU * pu)
        of_p = (electronic, motor.real / nominal.real, pu**2)
        of_q = (electronic, motor.imag / nominal.imag, pu**2)

        def drawn(load: Mapping[str, float], factors: tuple[float, ...]) -> float:
            power = split_by_kind(
                {name: on[name] * load[name] for name in on}, of.drives
            )
            return sum(w * factor for w, factor in zip(power, factors, strict=True))

        load_w = sum(parts[name] for name in on)
        on_w = sum(on[name] * parts[name] for name in on)
        self.connected = on_w / load_w if load_w > 0 else 1.0
        arrives = self._upstream_power(columns)
        arrives[POWER] = arrives[POWER] + (drawn(parts, of_p) - load_w)
        if REACTIVE in arrives and load_w > 0:
            arrives[REACTIVE] = arrives[REACTIVE] * (drawn(parts, of_q) / load_w)
        at_ms = round((of.first * self._series.step_s + of.time_s) * MS_PER_S)
        # A stage takes any length
        length_ms = cast(int, (length_s or MIN_S) * MS_PER_S)
        block, after = Block(at_ms, length_ms, {**columns, **arrives}), []
        for stage, state in zip(self._reopened_stages, of.stages, strict=True):
            block, (state,) = Stages([stage]).apply(block, (state,))
            after.append(state)
            roles = {column.role: column.name for column in stage.columns}
            if roles.keys().isdisjoint(TAKEN_OFF):
                late = {
                    name: float(block.columns[roles[role]][0]) if role in roles else 0.0
                    for name, role in _LATE.items()
                }
                power_w = block.columns[POWER] + (
                    drawn(late, of_p) - sum(late.values())
                )
                block = Block(at_ms, length_ms, {**block.columns, POWER: power_w})
        if length_s:
            of.stages, of.time_s = tuple(after), end_s
        p_w, q_var = (
            float(block.columns[name][0]) if name in block.columns else 0.0
            for name in (POWER, REACTIVE)
        )
        return p_w / W_PER_MW, q_var / W_PER_MW

    def _on(
        self, parts: Mapping[str, float], end_s: float, pu: float
    ) -> dict[str, float]:
        """Take ride-through to a time; return the fraction of each part on the grid."""
        on = {"it": 1.0, "motors": 1.0, "rest": 1.0}
        for name, machine in self._state.machines.items():
            part = machine.s.of or name
            power_w = parts.get(part, parts["it"])
            machine.pool_mw = power_w * machine.s.share / W_PER_MW
            machine.hold(end_s, pu)
            of = part if part in on else "it"
            share = power_w / parts[of] if parts[of] > 0 else 1.0
            on[of] -= machine.s.share * share * (1 - machine.fraction)
        return {name: max(fraction, 0.0) for name, fraction in on.items()}

    def _row(self) -> dict[str, Float64Array]:
        """Return the columns of the row that contains the time."""
        of, series = self._state, self._series
        row = of.first
        if not of.is_held:
            row += int((of.time_s + TIE_S) / series.step_s)
        row, (first, read) = min(row, series.n_rows - 1), self._read
        if not first <= row < first + len(read):
            columns = series.read(
                self._names, (row, min(row + ROWS, series.n_rows))
            ).columns
            first, read = self._read = row, Block(0, 1, {POWER: np.empty(0), **columns})
        return {
            name: values[row - first : row - first + 1]
            for name, values in read.columns.items()
        }

    def _upstream_power(
        self, columns: Mapping[str, Float64Array]
    ) -> dict[str, Float64Array]:
        """Return P and Q upstream of the reopened stages."""
        return dict(
            zip((POWER, REACTIVE), (columns[n] for n in self._before), strict=False)
        )


_LATE: dict[str, Role | None] = {"it": "device", "motors": "cooling", "rest": "load"}
"""Roles of load behind a store, by the part that it is of."""


def has_stores(run: RunFolder) -> bool:
    """Return True if a run has a battery or a ramp limit."""
    names = run.series().check()
    return any(c.role in ("store", "hold") and c.name in names for c in run.columns)


def _reopened_stages(run: RunFolder, weather: Weather | None) -> list[Any]:
    """Reopen a run's stages from its first battery or ramp limit on."""
    scenario, names = run.scenario, run.series().check()
    if not has_stores(run):
        return []
    step_s = scenario.step_ms / MS_PER_S
    coarse = scenario.step_ms < scenario.resolution_ms
    if coarse or BEFORE_STORES[0].name not in names:
        steps = f" --set resolution='{step_s:g} s'" if coarse else ""
        raise InputError(
            f"{run.folder}: lacks the load before its battery or ramp "
            f"limit{f' in its steps of {step_s:g} s' * coarse}; run it again with "
            f"--before-stores{steps}"
        )
    if scenario.facility.weather and weather is None:
        raise InputError(
            f"{run.folder}: needs its weather; diploee.Run.site opens it with that"
        )
    stages, _ = open_stages(scenario, weather=weather)
    have = {c.name for stage in stages for c in stage.columns}
    nodes = {c.name for c in (*POWER_COLUMNS, *AC_COLUMNS)}
    if own := [c.name for c in run.columns if c.role and c.name not in have | nodes]:
        raise InputError(
            f"{run.folder}: was run with stages of your own ('{own[0]}'), which its "
            "scenario doesn't name, and can't be opened again; register them as kinds"
        )
    return list(stages)[first_storage_index(list(stages)) :]
