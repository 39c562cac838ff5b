"""What a format is, what the user may choose, and what a format's writer is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Literal

from diploee.errors import InputError, one_of
from diploee.outputs.export.reactive import ReactiveTable
from diploee.outputs.export.series import Series
from diploee.outputs.reader import Run
from diploee.units import MS_PER_H, MS_PER_MIN

LeapDay = Literal["drop-feb29", "drop-last-day"]

LEAP_DAYS: tuple[LeapDay, ...] = ("drop-feb29", "drop-last-day")
YEAR_STEPS_MS = (MS_PER_H, 30 * MS_PER_MIN, 15 * MS_PER_MIN)
FOR_ALL = frozenset({"column", "step"})
WINDOW = frozenset({"first", "until", "zoom"})

_FLAGS = {"first": "--from", "until": "--to", "kv": "--kv"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Options:
    """What the user chose; a format refuses those that it has no use for.

    Parameters
    ----------
    column : str
        Power column of ``facility.parquet`` [W]: `facility_power_w`, `it_power_w`, or
        `it_power_w.<pool>` where there are several pools.
    step : str, optional
        Interval such as ``"15 min"``; the run's own (8760 formats: 1 h) if absent.
    first, until : datetime, optional
        Part of the run to export; local time of the facility unless they have a zone.
    zoom : str, optional
        One of the run's zooms, such as ``rise_1s``, to export at 0.1 s instead of the whole run.
    year : int, optional
        Calendar year for the 8760 formats, where the run holds several.
    leap_day : {"drop-feb29", "drop-last-day"}, optional
        What a leap year loses in the 8760 formats; they refuse a leap year without it.
    time_zone : str, optional
        Zone of the stamps, such as ``America/Denver``; the facility's fixed offset if absent.
    q_table : path, optional
        The user's Q(P) table; no reactive power is written without one.
    name, bus : str
        Names of the load and of its bus.
    kv : float
        Rated voltage of the OpenDSS load [kV].
    actual : bool
        OpenDSS multipliers in kW and kvar instead of normalised to the peak.
    """

    column: str = "facility_power_w"
    step: str | None = None
    first: datetime | None = None
    until: datetime | None = None
    zoom: str | None = None
    year: int | None = None
    leap_day: LeapDay | None = None
    time_zone: str | None = None
    q_table: Path | None = None
    name: str = "datacenter"
    bus: str = "datacenter"
    kv: float = 12.47
    actual: bool = False

    def __post_init__(self) -> None:
        """Check the values that are the same for every format.

        Raises
        ------
        InputError
            If one is not usable.
        """
        for key in ("name", "bus"):
            text = getattr(self, key)
            if not _NAME.fullmatch(text):
                raise InputError(
                    f"{flag(key)}: '{text}' must start with a letter and hold only letters, "
                    "digits, '-' and '_', which every tool can read"
                )
        if self.leap_day is not None and self.leap_day not in LEAP_DAYS:
            raise InputError(f"--leap-day: '{self.leap_day}' is not one of {one_of(LEAP_DAYS)}")
        if not 0 < self.kv < float("inf"):
            raise InputError(f"--kv: must be a voltage above 0 kV, found {self.kv:g}")

    def given(self) -> tuple[str, ...]:
        """Return the names of the options that differ from their defaults."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) != f.default)


def flag(option: str) -> str:
    """Return an option's name on the command line."""
    return _FLAGS.get(option, f"--{option.replace('_', '-')}")


@dataclass(frozen=True)
class Job:
    """What a format's writer is given.

    Parameters
    ----------
    run : Run
        The finished run.
    series : Series
        The power at the export's step, to be streamed.
    options : Options
        What the user chose.
    reactive : ReactiveTable or None
        The user's Q(P) table.
    place : pathlib.Path
        File, or folder, to write; it is put in its place afterwards.
    """

    run: Run
    series: Series
    options: Options
    reactive: ReactiveTable | None
    place: Path


@dataclass(frozen=True)
class Written:
    """What a writer tells of its files.

    Parameters
    ----------
    files : dict of str to str
        What each file holds, with its unit, by name.
    notes : tuple of str
        What a reader of the files must know besides.
    """

    files: dict[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A format that a run can be exported to.

    Parameters
    ----------
    name : str
        Name on the command line.
    summary : str
        One line on what it is and which tool loads it.
    write : callable
        Writes the file or folder.
    suffixes : tuple of str
        Endings of the file's name, the default first; none where the format is a folder.
    options : frozenset of str
        Options that it takes besides the column and the step.
    whole_year : bool
        It takes 8,760 hours of one calendar year at 60, 30 or 15 minutes.
    """

    name: str
    summary: str
    write: Callable[[Job], Written]
    suffixes: tuple[str, ...] = (".csv",)
    options: frozenset[str] = field(default_factory=frozenset)
    whole_year: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether the format is a folder of files."""
        return not self.suffixes

    def accepts(self) -> frozenset[str]:
        """Return the names of all options that it takes."""
        span = frozenset({"year", "leap_day"}) if self.whole_year else WINDOW
        return FOR_ALL | span | self.options
