"""Base types of grid exports: `Format`, its `Options`, and the `ExportRequest`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, InstanceOf

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
"""Frequency of a wave in PSS/E [Hz].

ASSUMPTION: the range. Published scripts use steps of 1/300 s, and studies of seconds to
minutes repeat no slower wave.
"""
LoadName = Annotated[str, AfterValidator(_load_name)]
_FLAGS = {"first": "--from", "until": "--to"}


@document_fields
class Options(Choices):
    """Options of an export; a format refuses those that it cannot use."""

    column: str = default(
        "",
        (
            "facility_power_w, it_power_w or it_power_w.<pool>; by default the first, "
            "for openg2g and gpu-data the second."
        ),
    )
    step: str | None = unset("Longer step such as '15 min'; 1 h for 8760 formats.")
    first: datetime | None = unset("Start, local time.")
    until: datetime | None = unset("End, local time.")
    event_window: str | None = unset(
        "One of the run's event windows at 0.1 s, such as rise_1s, instead of the "
        "whole run."
    )
    year: int | None = unset("Calendar year of an 8760 format, if there are several.")
    leap_day: LeapDay | None = unset(
        "Day that is removed from a leap year in an 8760 format; required for leap "
        "years."
    )
    time_zone: ZoneName | None = unset(
        "Time zone of csv timestamps, such as America/Denver; by default the "
        "facility's."
    )
    q_table: InstanceOf[ReactiveTable] | None = unset(
        "CSV file with p_mw,q_mvar for reactive power, instead of the run's; q_mvar is "
        "positive if drawn by the facility."
    )
    name: LoadName = default("datacenter", "Name of the load.")
    bus: LoadName = default("datacenter", "Name of the load's bus (opendss, pypsa).")
    kv: Annotated[float, Field(ge=1e-3, le=1e4)] = default(
        12.47, "Rated voltage of the OpenDSS load, in kV."
    )
    actual: bool = default(False, "OpenDSS multipliers in kW instead of per peak.")
    mva: Annotated[float, Field(ge=1e-3, le=1e6)] = default(
        100.0, "Base of the per-unit values of andes and pscad [MVA]."
    )
    at: datetime | None = unset("Time of the psse study, local; by default the peak.")
    zone: str = default("", "ZONENAME of pjm-lla and by-year.")
    area: str = default("", "AREANAME of pjm-lla and by-year.")
    peaks: InstanceOf[Sequence[NamedSpan]] | None = unset(
        "Peak hours of by-year's cases, a CSV file as for datasheet --peaks: rows with "
        "the same name are one case; by default the site's own hours by season."
    )
    excel: bool = default(False, "by-year: also a workbook; needs the extra 'excel'.")
    bus_number: Annotated[int, Field(ge=1, le=999_997)] = default(
        1, "Number of the load's bus (psse)."
    )
    parts: tuple[Literal["raw", "cmld", "perc1", "linjbl"], ...] = default(
        ("raw", "cmld"),
        (
            "Records of psse: load records (raw), composite load (cmld), PERC1, a "
            "repeated wave; raw and cmld by default; may be repeated."
        ),
    )
    drives: Share = default(
        0.0,
        "Fraction of the cooling behind variable-speed drives, 0-1 (psse cmld, "
        "assumed 0).",
    )
    vd1: Share = default(
        0.65, "Voltage at which cmld's electronic load starts to disconnect."
    )
    vd2: Share = default(
        0.6, "Voltage at which cmld's electronic load is entirely disconnected."
    )
    frcel: Share = default(
        0.8, "Fraction of cmld's electronic load that reconnects, 0-1."
    )
    perc1_head: str | None = unset(
        "Head of PERC1's record from your manual, such as \"'USRLOD' '1' 'NAME' 12 1 0 "
        'NC 0 0"; without it, PERC1 is written by name only.'
    )
    hz: Hertz | None = unset(
        "Frequency of linjbl's wave; by default the window's strongest."
    )
    fast_hz: Hertz | None = unset(
        "Frequency of a second, faster wave, which makes the wave biperiodic."
    )
    equal: Literal["fundamental", "peak_to_peak"] = default(
        "fundamental", "Property of the window that linjbl's square wave preserves."
    )
    signal: Literal["p_mw", "dp_pu"] = default(
        "p_mw", "pscad: power, or its deviation from the mean, in pu of --mva."
    )

    def changed_names(self) -> set[str]:
        """Return the names of the options that differ from their defaults."""
        return set(self.model_dump(exclude_defaults=True))


def option_flag(option: str) -> str:
    """Return an option's name on the command line, such as `--bus-number`."""
    return _FLAGS.get(option, f"--{option.replace('_', '-')}")


@dataclass
class ExportRequest(Brief):
    """Request to a format's writer: power of a run at a step, and the output path."""

    run: RunFolder  # the finished run
    options: Options  # options of the user
    path: Path  # temporary file or folder to write; it is renamed afterwards
    source: RunSeries  # series with the power
    step_ms: int  # step of the export [ms], a multiple of the source's
    # Rows of the source to export; each a whole number of steps
    spans: tuple[Rows, ...]
    # Source of reactive power: a user's table, or a column of the source [var]
    reactive: ReactiveTable | str | None = None
    # Called after each block with the fraction done, and a text
    progress: Update = field(default=lambda _fraction, _text: None)
    # Energy [J] and largest mean power over a step [W] of the last complete pass over
    # `blocks`
    energy_j: float = 0.0
    peak_w: float = -np.inf

    @property
    def has_reactive(self) -> bool:
        """True if reactive power is available, from the run or a table."""
        return self.reactive is not None

    @property
    def rows_per_step(self) -> int:
        """Number of source rows in a step of the export."""
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
    def needs_milliseconds(self) -> bool:
        """True if steps start within a second: timestamps then need milliseconds."""
        return bool(self.step_ms % MS_PER_S or self.start.microsecond)

    @property
    def n_steps(self) -> int:
        """Number of written steps."""
        return sum(b - a for a, b in self.spans) // self.rows_per_step

    def blocks(self) -> Iterator[ExportBlock]:
        """Yield the power in blocks of consecutive steps.

        After the last block, `energy_j` and `peak_w` are those of the whole export.
        """
        energy_j, peak_w, n_done, column = 0.0, -np.inf, 0, self.options.column
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
                yield ExportBlock(
                    n_done, self.step_ms, block.starts_ms, power_w, q_mvar
                )
                n_done += power_w.size
                self.progress(n_done / self.n_steps, f"{n_done:,} steps")
        self.energy_j, self.peak_w = energy_j, peak_w


@dataclass(frozen=True)
class WrittenFiles(Brief):
    """Description of the files that an export wrote."""

    files: dict[str, str]  # content of each file, with its unit, by file name
    notes: tuple[str, ...] = ()  # further notes for a reader of the files


@dataclass(frozen=True)
class Format(Brief):
    """Format of an export: its writer, and the options that it accepts."""

    name: str  # name on the command line
    summary: str  # one line on the format and the tool that loads it
    write: Callable[[ExportRequest], WrittenFiles]  # writes the file or folder
    # Endings of the file's name, the default first; none for a folder
    suffixes: tuple[str, ...] = (".csv",)
    # Names of accepted options besides column and step
    options: frozenset[str] = frozenset()
    # Exports 8,760 hours of a calendar year at 60, 30 or 15 minutes
    whole_year: bool = False
    hourly: bool = False  # exports the whole run, hourly if no step is specified
    column: str = "facility_power_w"  # default column

    @property
    def is_folder(self) -> bool:
        """True if the format is a folder of files."""
        return not self.suffixes

    def accepted_options(self) -> frozenset[str]:
        """Return the names of all options that the format accepts."""
        span = frozenset({"year", "leap_day"}) if self.whole_year else WINDOW
        return FOR_ALL | (frozenset() if self.hourly else span) | self.options
