"""The power of a source, streamed and resampled by exact means, with its reactive power."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from diploee.errors import InputError, did_you_mean, one_of
from diploee.facility.base import POWER, REACTIVE
from diploee.outputs.series import Rows, RunSeries
from diploee.tables import Float64Array, Int64Array
from diploee.units import J_PER_MWH, MS_PER_S, W_PER_MW

REACTIVE_OF = {POWER: REACTIVE, "poi_power_w": "poi_reactive_var"}
"""Column of the reactive power at the same place as that of a power; other powers have none."""

HEADER = ("p_mw", "q_mvar")
CONVENTION = (
    "load convention: q_mvar above 0 is reactive power that the facility draws (inductive), "
    "below 0 that it supplies (capacitive)"
)


@dataclass(frozen=True, eq=False)
class ReactiveTable:
    """Reactive against active power, linear between the rows, undefined beyond them.

    The sign follows the load convention: above 0 the facility draws reactive power.
    """

    path: Path  # where it was read from
    # Its rows; `p_mw` rises
    p_mw: Float64Array
    q_mvar: Float64Array

    def at(self, power_w: Float64Array) -> Float64Array:
        """Return the reactive power [Mvar] at active powers [W]."""
        p_mw = power_w / W_PER_MW
        low, high = float(p_mw.min()), float(p_mw.max())
        # A mean of stored float32 values may pass the table's end by their last digit.
        slack = 1e-6 * max(abs(self.p_mw[0]), abs(self.p_mw[-1]))
        if low < self.p_mw[0] - slack or high > self.p_mw[-1] + slack:
            worst = low if low < self.p_mw[0] - slack else high
            raise InputError(
                f"{self.path}: the run reaches {worst:.6g} MW, the table goes from "
                f"{self.p_mw[0]:g} to {self.p_mw[-1]:g} MW; add rows, nothing is extrapolated"
            )
        return np.interp(p_mw, self.p_mw, self.q_mvar)


@dataclass(frozen=True, eq=False)
class ExportBlock:
    """Consecutive steps of the exported series."""

    first: int  # position of the first step in the exported series
    step_ms: int
    starts_ms: Int64Array  # start of each step [ms since 1970 in UTC]
    power_w: Float64Array  # mean power over each step [W]
    # Reactive power over each step [Mvar], drawn positive, where the export has it
    q_mvar: Float64Array | None = None

    @property
    def positions(self) -> Int64Array:
        """Position of each step in the exported series."""
        return self.first + np.arange(self.power_w.size, dtype=np.int64)

    @property
    def time_s(self) -> Float64Array:
        """Start of each step since the start of the export [s]."""
        return np.round(self.positions * self.step_ms / MS_PER_S, 3)


@dataclass
class Totals:
    """Energy and peak of what was streamed."""

    energy_j: float = 0.0
    peak_w: float = -np.inf

    @property
    def energy_mwh(self) -> float:
        """Energy [MWh]."""
        return self.energy_j / J_PER_MWH

    @property
    def peak_mw(self) -> float:
        """Largest mean power over a step [MW]."""
        return self.peak_w / W_PER_MW


@dataclass
class Series:
    """One power column of a source at a coarser or the same step."""

    source: RunSeries  # where the series is read from
    column: str  # its column [W]
    step_ms: int  # step of the export [ms], a multiple of the source's
    spans: tuple[Rows, ...]  # rows of the source to export; each a whole number of steps
    # Where reactive power comes from: a user's table, or a column of the source [var]
    reactive: ReactiveTable | str | None = None
    # Called with the fraction streamed after each block
    progress: Callable[[float], None] = field(default=lambda _fraction: None)
    totals: Totals = field(default_factory=Totals)  # of what was streamed
    """Of the last complete pass over `blocks`."""

    @property
    def rows_per_step(self) -> int:
        """Intervals of the source in a step."""
        return self.step_ms // self.source.step_ms

    @property
    def step_s(self) -> float:
        """Step of the export [s]."""
        return self.step_ms / MS_PER_S

    @property
    def in_milliseconds(self) -> bool:
        """Whether steps start within a second, so that stamps need milliseconds."""
        return bool(self.step_ms % MS_PER_S or self.edge(self.spans[0][0]).microsecond)

    @property
    def n_steps(self) -> int:
        """Number of exported steps."""
        return sum(b - a for a, b in self.spans) // self.rows_per_step

    def edge(self, row: int) -> datetime:
        """Return when a row of the source starts, local time."""
        return self.source.at(row)

    def blocks(self) -> Iterator[ExportBlock]:
        """Stream the series from its start; memory is bounded by the block."""
        totals, done = Totals(), 0
        self.progress(0.0)
        columns = [self.column, *([self.reactive] if isinstance(self.reactive, str) else [])]
        for span in self.spans:
            for block in self.source.blocks(columns, self.step_ms, span):
                power_w = block.columns[self.column]
                totals.energy_j += float(power_w.sum()) * self.step_s
                totals.peak_w = max(totals.peak_w, float(power_w.max()))
                q_mvar = None
                if isinstance(self.reactive, str):
                    q_mvar = block.columns[self.reactive] / W_PER_MW
                elif self.reactive is not None:
                    q_mvar = self.reactive.at(power_w)
                yield ExportBlock(done, self.step_ms, block.starts_ms, power_w, q_mvar)
                done += power_w.size
                self.progress(done / self.n_steps)
        self.totals = totals


def check_power_column(source: RunSeries, column: str) -> None:
    """Refuse a column that is no power of the source, after a look at its file's head."""
    powers = {c.name for c in source.run.columns if c.unit == "W"}
    names = [name for name in source.check() if name.partition(".")[0] in powers]
    if column not in names:
        raise InputError(
            f"{source.path}: no power column '{column}' (have: {one_of(names)})"
            f"{did_you_mean(column, names)}"
        )
