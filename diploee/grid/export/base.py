"""Base types of grid exports: `Format`, its `Options` and the `ExportRequest`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, InstanceOf, PositiveFloat

from diploee.base.clock import NamedSpan, named_zone
from diploee.base.errors import Brief, shown
from diploee.base.model import Choices, Share, default, document_fields, unset
from diploee.base.progress import Update
from diploee.base.units import MS_PER_S, W_PER_MW
from diploee.grid.export.series import ExportBlock, LeapDay, ReactiveTable
from diploee.runs.reader import RunFolder
from diploee.runs.series import Rows, RunSeries

FOR_ALL = frozenset({"column", "step"})
WINDOW = frozenset({"first", "until", "event_window"})


def _load_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", text):
        raise ValueError(
            "must start with a letter and hold only letters, digits, '-' and '_', "
            f"which every tool can read, found {shown(text)}"
        )
    return text


def _zone_name(text: str) -> str:
    return named_zone(text).key


ZoneName = Annotated[str, AfterValidator(_zone_name)]
Hertz = Annotated[float, Field(ge=0.01, le=15)]
"""ASSUMPTION: of a wave in PSS/E, which the published scripts step at 1/300 s. What is
slower is a course of the load, as a day's, which no study of seconds to minutes
repeats."""
LoadName = Annotated[str, AfterValidator(_load_name)]
_FLAGS = {"first": "--from", "until": "--to"}


@document_fields
class Options(Choices):
    """Options of an export, each refused by formats that cannot use it."""

    column: str = default(
        "",
        (
            "facility_power_w, it_power_w or it_power_w.<pool>; if none is given, the "
            "first, of openg2g and gpu-data the second."
        ),
    )
    step: str | None = unset("Coarser step such as '15 min'; 1 h for 8760 formats.")
    first: datetime | None = unset("Start, local time.")
    until: datetime | None = unset("End, local time.")
    event_window: str | None = unset(
        "One of the run's event windows at 0.1 s, as rise_1s, not the whole run."
    )
    year: int | None = unset("Calendar year of an 8760 format, if there are several.")
    leap_day: LeapDay | None = unset(
        "Day that a leap year loses in an 8760 format, which refuses one otherwise."
    )
    time_zone: ZoneName | None = unset(
        "Zone of csv stamps, as America/Denver; else the facility's."
    )
    q_table: InstanceOf[ReactiveTable] | None = unset(
        "Your CSV p_mw,q_mvar for reactive power, in place of what the run has; "
        "q_mvar above 0 is drawn by the facility."
    )
    name: LoadName = default("datacenter", "Name of the load.")
    bus: LoadName = default("datacenter", "Name of its bus (opendss, pypsa).")
    kv: PositiveFloat = default(12.47, "Rated voltage of the OpenDSS load, in kV.")
    actual: bool = default(False, "OpenDSS multipliers in kW, not of the peak.")
    mva: PositiveFloat = default(
        100.0, "Base of the per-unit values of andes and pscad [MVA]."
    )
    at: datetime | None = unset("Moment that psse studies, local time; else the peak.")
    zone: str = default("", "ZONENAME of pjm-lla and by-year.")
    area: str = default("", "AREANAME of pjm-lla and by-year.")
    peaks: InstanceOf[Sequence[NamedSpan]] | None = unset(
        "Peak hours of by-year's cases, a CSV as of datasheet --peaks: rows with the "
        "same name are one case; else the site's own by season."
    )
    excel: bool = default(False, "by-year: also a workbook; needs the extra 'excel'.")
    bus_number: Annotated[int, Field(ge=1, le=999_997)] = default(
        1, "Number of the load's bus (psse)."
    )
    parts: tuple[Literal["raw", "cmld", "perc1", "linjbl"], ...] = default(
        ("raw", "cmld"),
        (
            "Part of psse, raw and cmld by default: load records, a composite load, "
            "PERC1, a repeated wave; may be repeated."
        ),
    )
    drives: Share = default(
        0.0, "Share of the cooling that is on drives (psse cmld, assumed 0)."
    )
    vd1: Share = default(0.65, "Voltage at which cmld's electronic load drops.")
    vd2: Share = default(0.6, "Voltage at which all of it has dropped.")
    frcel: Share = default(0.8, "Part of it that comes back.")
    perc1_head: str | None = unset(
        "Head of PERC1's record from your manual, such as \"'USRLOD' '1' 'NAME' 12 1 "
        '0 NC 0 0"; without it PERC1 is written by name alone.'
    )
    hz: Hertz | None = unset("Frequency of linjbl's wave; else the window's strongest.")
    fast_hz: Hertz | None = unset("A second, faster one: the wave is biperiodic then.")
    equal: Literal["fundamental", "peak_to_peak"] = default(
        "fundamental", "Property that linjbl's square shares with the window."
    )
    signal: Literal["p_mw", "dp_pu"] = default(
        "p_mw", "pscad: power, or its change against the mean in pu of --mva."
    )

    def given(self) -> set[str]:
        """Return the names of the options that differ from their defaults."""
        return set(self.model_dump(exclude_defaults=True))


def flag(option: str) -> str:
    """Return an option's name on the command line."""
    return _FLAGS.get(option, f"--{option.replace('_', '-')}")


@dataclass
class ExportRequest(Brief):
    """Request to a format's writer: a power at a step, and the output path."""

    run: RunFolder  # the finished run
    options: Options  # what the user chose
    path: Path  # file, or folder, to write; it is put in its place afterwards
    source: RunSeries  # where the power is read from
    step_ms: int  # step of the export [ms], a multiple of the source's
    # Rows of the source to export; each a whole number of steps
    spans: tuple[Rows, ...]
    # Where reactive power comes from: a user's table, or a column of the source [var]
    reactive: ReactiveTable | str | None = None
    # Called with the fraction streamed after each block, and what that is
    progress: Update = field(default=lambda _fraction, _text: None)
    # Energy [J] and largest mean power over a step [W] of the last complete pass over
    # `blocks`
    energy_j: float = 0.0
    peak_w: float = -np.inf

    @property
    def has_reactive(self) -> bool:
        """Whether reactive power is available, from the run or from a table."""
        return self.reactive is not None

    @property
    def rows_per_step(self) -> int:
        """Number of source intervals in an export step."""
        return self.step_ms // self.source.step_ms

    @property
    def step_s(self) -> float:
        """Step of the export [s]."""
        return self.step_ms / MS_PER_S

    @property
    def start(self) -> datetime:
        """Start of the first step, local time."""
        return self.source.at(self.spans[0][0])

    @property
    def in_milliseconds(self) -> bool:
        """Whether steps start within a second, so that stamps need milliseconds."""
        return bool(self.step_ms % MS_PER_S or self.start.microsecond)

    @property
    def n_steps(self) -> int:
        """Number of exported steps."""
        return sum(b - a for a, b in self.spans) // self.rows_per_step

    def blocks(self) -> Iterator[ExportBlock]:
        """Yield the power block by block from its start, in bounded memory."""
        energy_j, peak_w, done, column = 0.0, -np.inf, 0, self.options.column
        columns = [column, *([self.reactive] if isinstance(self.reactive, str) else [])]
        for span in self.spans:
            for block in self.source.blocks(columns, self.step_ms, span):
                power_w = block.columns[column]
                energy_j += float(power_w.sum()) * self.step_s
                peak_w = max(peak_w, float(power_w.max()))
                q_mvar = None
                if isinstance(self.reactive, str):
                    q_mvar = block.columns[self.reactive] / W_PER_MW
                elif self.reactive is not None:
                    q_mvar = self.reactive.at(power_w)
                yield ExportBlock(done, self.step_ms, block.starts_ms, power_w, q_mvar)
                done += power_w.size
                self.progress(done / self.n_steps, f"{done:,} steps")
        self.energy_j, self.peak_w = energy_j, peak_w


@dataclass(frozen=True)
class WrittenFiles(Brief):
    """Description of the written files."""

    files: dict[str, str]  # what each file holds, with its unit, by name
    notes: tuple[str, ...] = ()  # what a reader of the files must know besides


@dataclass(frozen=True)
class Format(Brief):
    """Format to which a run can be exported."""

    name: str  # on the command line
    summary: str  # one line on what it is and which tool loads it
    write: Callable[[ExportRequest], WrittenFiles]  # writes the file or folder
    # Endings of the file's name, the default first; none where the format is a folder
    suffixes: tuple[str, ...] = (".csv",)
    # Those that it takes besides the column and the step
    options: frozenset[str] = frozenset()
    # Takes 8,760 hours of a calendar year at 60, 30 or 15 minutes
    whole_year: bool = False
    hourly: bool = False  # takes the whole run, by the hour if no step is asked for
    column: str = "facility_power_w"  # what it takes if none is asked for

    @property
    def is_folder(self) -> bool:
        """Whether the format is a folder of files."""
        return not self.suffixes

    def accepts(self) -> frozenset[str]:
        """Return the names of all options that the format accepts."""
        span = frozenset({"year", "leap_day"}) if self.whole_year else WINDOW
        return FOR_ALL | (frozenset() if self.hourly else span) | self.options
