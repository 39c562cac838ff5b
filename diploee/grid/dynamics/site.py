"""Site of a run inside a grid simulator: voltage and frequency in, P and Q out.

The input is the run's load upstream of its first battery or ramp limit. Ride-through
disconnects and reconnects blocks of this load. Connected load responds by kind:
electronic load draws constant power up to a maximum current, direct-on-line motors
follow their slip, and the rest is a constant impedance. The stages from that battery or
ramp limit on are then simulated again on the result, with the grid simulator's time
steps.

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
from diploee.grid.dynamics.block_ride_through import TIE_S, BlockRideThrough
from diploee.grid.dynamics.motor import Motor
from diploee.grid.export.psse import PERC1
from diploee.power.blocks import AC_COLUMNS, POWER_COLUMNS
from diploee.runs.load_parts import LoadParts, split_by_kind
from diploee.runs.reader import RunFolder
from diploee.runs.series import CHANGED
from diploee.scenario.ride_through import RideThrough
from diploee.simulation.prepared import open_stages

CURRENT_PU = PERC1["Ipmax"] / PERC1["Lfm"]
"""Maximum current of electronic load over its current at 1 pu [1].

ASSUMPTION: the defaults of PERC1.
"""

ROWS = 4096
"""Number of rows of the run that are read at a time."""

MIN_S = 1e-3
"""Step [s] of the stages if no time passes."""


@dataclass
class SiteState(Brief):
    """State of a site, with the arguments of `Site.open`.

    It can be copied and pickled.
    """

    first: int  # row of the series at time 0
    event_window: str | None  # event window of the series; None for the whole run
    drives: float  # fraction of the cooling load on drives, 0-1
    nominal_hz: float  # frequency of the grid [Hz]
    machines: dict[str, BlockRideThrough]  # ride-through state by block
    stages: tuple[Any, ...]  # states of the stages from the first store on
    speed_pu: float  # speed of directly connected motors
    time_s: float = 0.0  # end of the last step [s]
    is_held: bool = False  # whether its load stays that of its first row


class Site:
    """Site that a grid simulator steps, made by `diploee.Run.site` or `Site.open`.

    Parameters
    ----------
    run : RunFolder
        The run.
    state : SiteState
        State from which the site continues; it is changed in place.
    stages : sequence of Stage
        Stages of the run from its first battery or ramp limit on.
    """

    def __init__(
        self, run: RunFolder, state: SiteState, stages: Sequence[Stage]
    ) -> None:
        self._state, self._motor = state, Motor(state.nominal_hz)
        self._series, self._reopened_stages = run.series(state.event_window), stages
        downstream = {
            column.name for stage in self._reopened_stages for column in stage.columns
        }
        self._parts, names = (
            LoadParts.from_run(run).excluding(downstream),
            self._series.check()[1:],
        )
        if POWER not in names:
            raise InputError(f"{run.folder}: column '{POWER}' is missing; {CHANGED}")
        per = {column.name: column.per for column in run.columns}
        self._names = [
            name
            for name in names
            if name not in downstream
            and per.get(name.partition(".")[0], "service") != "service"
        ]
        before_stores = [column.name for column in BEFORE_STORES]
        self._upstream_names = [
            n
            for n in (before_stores if self._reopened_stages else (POWER, REACTIVE))
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
            The run; with a battery or ramp limit, a run made with ``--before-stores``.
        at : datetime.datetime, optional
            Local time at which the site's time is 0, the start of a step of the run; by
            default the start of the run.
        event_window : str, optional
            One of the run's event windows at 0.1 s in place of the whole run.
        settings : mapping of str to RideThrough, optional
            Settings by block in place of the scenario's ``facility.ride_through``.
        drives : float
            Fraction of the cooling load on variable-speed drives, 0-1. The rest are
            direct-on-line motors.
        nominal_hz : float
            Nominal frequency of the grid [Hz].
        hold : bool
            Keep the load of the first interval constant, as model-quality tests
            require. The site's time is then unlimited.
        state : SiteState, optional
            `Site.state` of another site of the same run. The new site continues from
            the state, and ignores the other arguments, as the state contains them.
        weather : Weather, optional
            Weather of the run, needed if its scenario names weather and it has a
            battery or ramp limit.

        Returns
        -------
        Site
            The site, at the start or at the state's time.

        Raises
        ------
        InputError
            If the run lacks the load upstream of its battery or ramp limit, the time is
            outside the run, or an argument is out of range or unknown.
        """
        stages = _reopened_stages(run, weather)
        if state is not None:
            return cls(run, deepcopy(state), stages)
        if not (0 <= drives <= 1 and 0 < nominal_hz < inf):
            raise InputError(
                "drives and nominal_hz: must be from 0 to 1 and above 0, found "
                f"{drives:g} and {nominal_hz:g} Hz"
            )
        series = run.series(event_window)
        if stages and event_window is not None:
            raise InputError(
                f"{run.folder}: the state of its battery or ramp limit at the start "
                "of an event window isn't kept; open the whole run, in steps of 0.1 "
                "s (--set resolution='0.1 s' --before-stores)"
            )
        first = 0 if at is None else series.row_at(at, "at")
        blocks = run.scenario.facility.blocks(settings)
        machines = {name: BlockRideThrough(block) for name, block in blocks.items()}
        speed_pu, started = Motor(nominal_hz).nominal_pu, Stages(stages).start()
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
            stages,
        )
        if stages:
            for rows in series.blocks(site._names, rows=(0, first)):
                at_ms = int(rows.starts_ms[0]) - series.start_ms
                columns = {**rows.columns, **site._upstream_power(rows.columns)}
                passed = Block(at_ms, series.step_ms, columns)
                _, site._state.stages = Stages(stages).apply(passed, site._state.stages)
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
        if len(self._upstream_names) < 2:
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
        """Advance the site to a time, and return the power that it draws at this time.

        Parameters
        ----------
        time : float
            Time since the site was opened [s], at or after the last step. If it is the
            time of the last step, the power changes without delay.
        voltage_pu, frequency_hz : float
            Positive-sequence voltage [pu] and frequency [Hz] since the last step.

        Returns
        -------
        p_mw, q_mvar : float
            Active and reactive power at the end of the step, positive if drawn.

        Raises
        ------
        InputError
            If time goes back or beyond the run, or a value is out of range.
        """
        state, step_s = self._state, self._series.step_s
        frequency, end_s = (
            frequency_hz / state.nominal_hz,
            inf if state.is_held else (self._series.n_rows - state.first) * step_s,
        )
        if not state.time_s - TIE_S <= time <= end_s + TIE_S:
            raise InputError(
                f"time: must be from {state.time_s:g} s, where the last step ended, to "
                f"{end_s:g} s, where the run does, found {time:g} s"
            )
        if not (0 <= voltage_pu < inf and 0 < frequency < inf):
            raise InputError(
                "voltage_pu must be 0 or more and frequency_hz above 0, found "
                f"{voltage_pu:g} pu and {frequency_hz:g} Hz"
            )
        power = None
        while time - state.time_s > TIE_S:
            edge_s = (int((state.time_s + TIE_S) / step_s) + 1) * step_s
            power = self._advance(
                edge_s if time > edge_s - TIE_S else time, voltage_pu, frequency
            )
        return power or self._advance(state.time_s, voltage_pu, frequency)

    def _advance(
        self, end_s: float, pu: float, frequency: float
    ) -> tuple[float, float]:
        """Advance to a time in the same step of the run; return P and Q [MW, Mvar]."""
        state, length_s = self._state, end_s - self._state.time_s
        columns = self._current_columns()
        parts = {name: float(w[0]) for name, w in self._parts.powers(columns).items()}
        on = self._connected_fractions(parts, end_s, pu)
        if length_s:
            state.speed_pu = self._motor.advance_speed(
                state.speed_pu, length_s, pu, frequency
            )
        # Motors return at nominal speed after a disconnection
        if on["motors"] <= 0:
            state.speed_pu = self._motor.nominal_pu
        motor, nominal = (
            self._motor.power(state.speed_pu, pu, frequency),
            self._motor.nominal,
        )
        electronic = min(1.0, CURRENT_PU * pu)
        p_factors = (electronic, motor.real / nominal.real, pu**2)
        q_factors = (electronic, motor.imag / nominal.imag, pu**2)

        def scaled_w(load: Mapping[str, float], factors: tuple[float, ...]) -> float:
            power = split_by_kind(
                {name: on[name] * load[name] for name in on}, state.drives
            )
            return sum(w * factor for w, factor in zip(power, factors, strict=True))

        load_w = sum(parts[name] for name in on)
        on_w = sum(on[name] * parts[name] for name in on)
        self.connected = on_w / load_w if load_w > 0 else 1.0
        upstream = self._upstream_power(columns)
        upstream[POWER] = upstream[POWER] + (scaled_w(parts, p_factors) - load_w)
        if REACTIVE in upstream and load_w > 0:
            upstream[REACTIVE] = upstream[REACTIVE] * (
                scaled_w(parts, q_factors) / load_w
            )
        at_ms = round((state.first * self._series.step_s + state.time_s) * MS_PER_S)
        # A stage accepts any length
        length_ms = cast(int, (length_s or MIN_S) * MS_PER_S)
        block, stage_states = Block(at_ms, length_ms, {**columns, **upstream}), []
        for stage, previous in zip(self._reopened_stages, state.stages, strict=True):
            block, (stage_state,) = Stages([stage]).apply(block, (previous,))
            stage_states.append(stage_state)
            roles = {column.role: column.name for column in stage.columns}
            if roles.keys().isdisjoint(TAKEN_OFF):
                downstream_w = {
                    name: float(block.columns[roles[role]][0]) if role in roles else 0.0
                    for name, role in _DOWNSTREAM_ROLES.items()
                }
                power_w = block.columns[POWER] + (
                    scaled_w(downstream_w, p_factors) - sum(downstream_w.values())
                )
                block = Block(at_ms, length_ms, {**block.columns, POWER: power_w})
        if length_s:
            state.stages, state.time_s = tuple(stage_states), end_s
        p_w, q_var = (
            float(block.columns[name][0]) if name in block.columns else 0.0
            for name in (POWER, REACTIVE)
        )
        return p_w / W_PER_MW, q_var / W_PER_MW

    def _connected_fractions(
        self, parts: Mapping[str, float], end_s: float, pu: float
    ) -> dict[str, float]:
        """Advance ride-through to a time; return connected fractions by component."""
        fractions = {"it": 1.0, "motors": 1.0, "rest": 1.0}
        for name, machine in self._state.machines.items():
            component = machine.s.of or name
            power_w = parts.get(component, parts["it"])
            machine.pool_mw = power_w * machine.s.share / W_PER_MW
            machine.advance(end_s, pu)
            group = component if component in fractions else "it"
            share = power_w / parts[group] if parts[group] > 0 else 1.0
            fractions[group] -= machine.s.share * share * (1 - machine.fraction)
        return {name: max(fraction, 0.0) for name, fraction in fractions.items()}

    def _current_columns(self) -> dict[str, Float64Array]:
        """Return the columns of the run's step that contains the site's time."""
        state, series = self._state, self._series
        row = state.first
        if not state.is_held:
            row += int((state.time_s + TIE_S) / series.step_s)
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
        """Return P and Q upstream of the stages that are simulated again [W, var]."""
        return dict(
            zip(
                (POWER, REACTIVE),
                (columns[n] for n in self._upstream_names),
                strict=False,
            )
        )


_DOWNSTREAM_ROLES: dict[str, Role | None] = {
    "it": "device",
    "motors": "cooling",
    "rest": "load",
}
"""Roles of the load downstream of a store, by load component."""


def has_stores(run: RunFolder) -> bool:
    """Return True if a run has a battery or a ramp limit."""
    names = run.series().check()
    return any(c.role in ("store", "hold") and c.name in names for c in run.columns)


def _reopened_stages(run: RunFolder, weather: Weather | None) -> list[Any]:
    """Return a run's stages from its first battery or ramp limit on, as new objects."""
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
    stage_columns = {c.name for stage in stages for c in stage.columns}
    nodes = {c.name for c in (*POWER_COLUMNS, *AC_COLUMNS)}
    if custom := [
        c.name for c in run.columns if c.role and c.name not in stage_columns | nodes
    ]:
        raise InputError(
            f"{run.folder}: was run with stages of your own ('{custom[0]}'), which its "
            "scenario doesn't name, and can't be opened again; register them as kinds"
        )
    return list(stages)[first_storage_index(list(stages)) :]
