"""Weather over a run, and its sources: shipped typical days, or a weather file.

Weather is stored as one year of records by month, day and hour in local standard time
of the station, and applied to a run by the calendar: each year of the run has the same
weather on the same date.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from diploee.base.clock import RunClock, fixed_zone, offsets_ms
from diploee.base.errors import Brief, one_of
from diploee.base.files.paths import shipped_folder
from diploee.base.model import (
    READERS,
    Kind,
    Kinds,
    UtcOffset,
    default,
    entry_point_objects,
    optional,
)
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import HOURS_PER_DAY, MONTHS_PER_YEAR, MS_PER_DAY, MS_PER_H
from diploee.facility.psychrometrics import relative_humidity, wet_bulb_c

LEAP_DAYS = 366
DAYS_BEFORE_MONTH = np.cumsum([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
"""Number of days of a leap year before each month."""
LEAP_DAY = 59
"""Index of 29 February in a leap year, from 0."""

STATIONS = {"denver": "-07:00", "greensboro": "-05:00"}
"""UTC offsets of the stations with shipped typical days (standard time)."""


@dataclass(frozen=True, eq=False)
class Sun(Brief):
    """Irradiance and wind over a run, as means of records, and the station."""

    # Global horizontal, direct normal and diffuse horizontal irradiance [W/m2], wind
    # [m/s] and air [deg C], shape (5, n)
    records: Float64Array
    # Middle of each record [ms since the start of the run], in equal steps
    middle_ms: Int64Array
    utc_ms: int  # offset from `middle_ms` to Unix time, for the sun's position [ms]
    station: tuple[float, ...]  # latitude and longitude [deg], altitude [m]

    @property
    def step_ms(self) -> int:
        """Length of an irradiance record [ms]."""
        return int(self.middle_ms[1] - self.middle_ms[0])


@dataclass(frozen=True, eq=False)
class Weather(Brief):
    """Weather at some times, linear in between."""

    # Times [ms since the start of the run], ascending; they enclose the run
    time_ms: Int64Array
    # Temperatures [deg C] and air pressure [Pa] at these times, shape (n,)
    dry_bulb_c: Float64Array
    wet_bulb_c: Float64Array
    pressure_pa: Float64Array
    source: str  # short description of the source
    typical: bool  # True for a typical day or year, which has no extremes
    sun: Sun | str = "this weather has none"  # irradiance, or the reason for none
    utc_offset_ms: int | None = None  # UTC offset of the weather's hours [ms]


@dataclass(frozen=True, eq=False)
class SunYear(Brief):
    """Irradiance of a leap year, one value per weather record."""

    records: Float64Array  # as in `Sun`, without air temperature, shape (4, n)
    middle_ms: int  # middle of a record's averaging interval, from its timestamp [ms]
    station: tuple[float, ...]  # latitude and longitude [deg], altitude [m]


@dataclass(frozen=True, eq=False)
class WeatherYear:
    """Weather of a leap year in equal steps, in standard time of the station."""

    # Temperatures [deg C]
    dry_bulb_c: Float64Array
    wet_bulb_c: Float64Array
    pressure_pa: Float64Array  # air pressure [Pa]
    # Time of the first record since the year's start [ms]: one hour if records have the
    # end of their hour as timestamp
    first_ms: int
    zone: tzinfo  # standard time of the station, a fixed offset
    source: str  # short description of the source
    sun: SunYear | str = "this weather has none"  # irradiance, or the reason for none

    def warmer(self, offset_k: float) -> WeatherYear:
        """Return warmer weather with the same relative humidity and pressure.

        ASSUMPTION: the relative humidity is constant, so that the wet-bulb temperature
        rises less than the dry-bulb temperature. With a constant dew point it would
        rise by about a third.
        """
        if offset_k == 0:
            return self
        humidity = relative_humidity(self.dry_bulb_c, self.wet_bulb_c, self.pressure_pa)
        dry_c = self.dry_bulb_c + offset_k
        return WeatherYear(
            dry_c,
            wet_bulb_c(dry_c, humidity, self.pressure_pa),
            self.pressure_pa,
            self.first_ms,
            self.zone,
            f"{self.source}, {offset_k:+g} K",
            self.sun,
        )

    def for_run(self, clock: RunClock, zone: tzinfo, typical: bool) -> Weather:
        """Return the weather over a run and its warm-up."""
        origin_ms = clock.wall.origin_ms
        shift_ms = origin_ms + int(offsets_ms(np.array([origin_ms]), zone)[0])
        begin_ms, end_ms = clock.begin_ms + shift_ms, clock.horizon_ms + shift_ms
        # One day more at both ends, so that records enclose the run
        edges = np.array(
            [begin_ms - MS_PER_DAY, end_ms + MS_PER_DAY], dtype="datetime64[ms]"
        )
        first, last = edges.astype("datetime64[Y]").astype(int) + 1970
        step_ms = LEAP_DAYS * MS_PER_DAY // self.dry_bulb_c.size
        rows = np.arange(self.dry_bulb_c.size)
        common_rows = rows[rows * step_ms // MS_PER_DAY != LEAP_DAY]
        times, year_rows = [], []
        for year in range(first, last + 1):
            year_starts = np.array(
                [f"{year:04}-01-01", f"{year + 1:04}-01-01"], dtype="datetime64[ms]"
            )
            year_ms, next_ms = year_starts.astype(np.int64)
            year_rows.append(
                rows if next_ms - year_ms == LEAP_DAYS * MS_PER_DAY else common_rows
            )
            times.append(
                year_ms + self.first_ms + np.arange(year_rows[-1].size) * step_ms
            )
        time_ms, row = np.concatenate(times), np.concatenate(year_rows)
        run_rows = slice(
            int(np.searchsorted(time_ms, begin_ms, side="right")) - 1,
            int(np.searchsorted(time_ms, end_ms)) + 1,
        )
        sun: Sun | str
        if isinstance(self.sun, str):
            sun = self.sun
        # One record more at both ends, so that none of the run's is the outermost
        else:
            sun_rows = slice(run_rows.start - 1, run_rows.stop + 1)
            middle_ms = time_ms[sun_rows] + self.sun.middle_ms
            air_c = np.interp(middle_ms, time_ms, self.dry_bulb_c[row])
            utc_ms = shift_ms - int(offsets_ms(np.array([origin_ms]), self.zone)[0])
            sun = Sun(
                np.vstack([self.sun.records[:, row[sun_rows]], air_c]),
                middle_ms - shift_ms,
                utc_ms,
                self.sun.station,
            )
        row = row[run_rows]
        return Weather(
            time_ms[run_rows] - shift_ms,
            self.dry_bulb_c[row],
            self.wet_bulb_c[row],
            self.pressure_pa[row],
            self.source,
            typical,
            sun,
            shift_ms - origin_ms,
        )


Read = Callable[..., WeatherYear]
"""Function that calls a reader with a file and options, and caches its result."""


class WeatherSpec(Kind):
    """Scenario settings of the weather, common to all sources."""

    offset_k: float = default(
        0.0,
        (
            "Increase of the dry-bulb temperature, as a stress test [K]; relative "
            "humidity and pressure are kept, and the wet-bulb temperature is computed "
            "from them."
        ),
        ge=-20,
        le=20,
    )
    utc_offset: UtcOffset | None = optional(
        "Offset from UTC of the weather's hours, such as '-07:00', for a station in "
        "another time zone than the site; the station's standard time if absent."
    )

    @property
    def files(self) -> tuple[str, ...]:
        """Input files of the weather, named as in the scenario."""
        return ()

    @property
    def typical(self) -> bool:
        """True for typical weather, without extremes."""
        return True

    @abstractmethod
    def year(self, folder: Path, read: Read) -> WeatherYear:
        """Return the year of weather; `read` is the function that reads files."""

    def open(self, clock: RunClock, folder: Path, read: Read) -> Weather:
        """Return the weather over a run.

        `folder` is the base of file names, and `read` is as in `year`.
        """
        year = self.year(folder, read).warmer(self.offset_k)
        zone = year.zone if self.utc_offset is None else fixed_zone(self.utc_offset)
        return year.for_run(clock, zone, self.typical)


class TypicalDaySpec(WeatherSpec):
    """Typical weather: a mean day of each month at a station, smoothly varying."""

    kind: Literal["typical_day"] = default(
        "typical_day",
        (
            "A mean day of each month at a station that is included (TMY3), so that no "
            "file is needed. Mean days have no heat waves: peaks and hours above a set "
            "point are underestimated."
        ),
    )
    station: Literal["denver", "greensboro"] = Field(
        description=f"One of {one_of(STATIONS)}."
    )

    def year(self, folder: Path, read: Read) -> WeatherYear:  # noqa: ARG002
        """Return the station's mean days as a year of weather."""
        path = shipped_folder("profiles") / "weather" / "typical_days.csv"
        return read(read_typical_days, path, station=self.station)


class WeatherFileSpec(WeatherSpec):
    """A weather file with the records of a year."""

    kind: Literal["file"] = default(
        "file",
        (
            "A file with the records of one year: EPW, TMY3 CSV, or CSV of the "
            "National Solar Radiation Database (PSM); needs the extra 'weather'. "
            "Records are assigned to the run by month, day and hour, in the standard "
            "time of the file; 29 February repeats the 28th if the file has none."
        ),
    )
    path: str = Field(
        min_length=1, description="The file, relative to the scenario file."
    )
    actual_year: bool = default(
        False,
        "True if the file has the weather of an actual year, not of a typical one, so "
        "that its peaks are meaningful.",
    )

    @property
    def files(self) -> tuple[str, ...]:
        """Weather file, as named in the scenario."""
        return (self.path,)

    @property
    def typical(self) -> bool:
        """True unless the file has the records of an actual year."""
        return not self.actual_year

    def year(self, folder: Path, read: Read) -> WeatherYear:
        """Return the year of weather in the file."""
        return read(entry_point_objects(READERS)["weather"], folder / self.path)


WEATHER: Kinds[WeatherSpec] = Kinds("weather", WeatherSpec, "diploee.facility.weather")  # type: ignore[type-abstract]
"""Registry of weather sources: those of this module, and registered ones."""


def read_typical_days(path: Path, station: str) -> WeatherYear:
    """Return the shipped mean days of a station as a year.

    The temperature at an hour of the day changes linearly from the middle of a month to
    that of the next. Values at the middles are chosen so that each month has the mean
    of the station.
    """
    with path.open(encoding="utf-8") as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        rows = [row for row in lines if row["station"] == station]
    # Weights of the middles of the adjacent months for each day; the year is periodic
    months = np.repeat(np.arange(MONTHS_PER_YEAR), np.diff(DAYS_BEFORE_MONTH))
    middles = (DAYS_BEFORE_MONTH[:-1] + DAYS_BEFORE_MONTH[1:]) / 2
    days = np.arange(LEAP_DAYS) + 0.5
    weights = np.column_stack(
        [
            np.interp(days, middles, unit, period=LEAP_DAYS)
            for unit in np.eye(MONTHS_PER_YEAR)
        ]
    )
    means = np.array(
        [weights[months == month].mean(axis=0) for month in range(MONTHS_PER_YEAR)]
    )

    def column(name: str) -> Float64Array:
        table = np.array([float(row[name]) for row in rows])
        at_middles = np.linalg.solve(
            means, table.reshape(MONTHS_PER_YEAR, HOURS_PER_DAY)
        )
        return np.asarray(weights @ at_middles).ravel()

    # A record's timestamp is the end of its hour, as in TMY3
    return WeatherYear(
        column("t_db_c"),
        column("t_wb_c"),
        column("p_pa"),
        MS_PER_H,
        fixed_zone(STATIONS[station]),
        f"typical days of {station.title()} (NREL TMY3)",
    )
