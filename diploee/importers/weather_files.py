"""Readers of weather files through pvlib: EPW, TMY3 CSV, and NSRDB CSV."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from diploee.base.errors import LogFormatError, one_line
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import HOURS_PER_DAY, MS_PER_MIN, S_PER_MIN
from diploee.facility.psychrometrics import saturation_pressure_pa, wet_bulb_c
from diploee.facility.weather import (
    DAYS_BEFORE_MONTH,
    LEAP_DAY,
    LEAP_DAYS,
    SunYear,
    WeatherYear,
)
from diploee.importers.text.file_bytes import decompress, read_bytes
from diploee.importers.text.text_lines import TextLines, decode_text

if TYPE_CHECKING:
    import pandas as pd

MIN_PER_DAY = HOURS_PER_DAY * S_PER_MIN
MAX_REASON_LENGTH = 200
"""Maximum length of a quoted message of another package [characters]."""

_LIMITS = {
    "dry-bulb temperature [deg C]": (-70.0, 70.0),
    "dew point [deg C]": (-100.0, 70.0),
    "relative humidity [%]": (0.0, 110.0),
    "pressure [Pa]": (31_000.0, 120_000.0),
}
"""Lowest and highest valid values by quantity, from EPW [M].

The codes of missing values (99.9, 999, 999999, -9900) are outside of these limits."""

MAX_IRRADIANCE_W_M2, MAX_WIND_M_S = 2_000.0, 100.0
"""Maximum valid irradiance [W/m2] and wind speed [m/s].

They are above any cloud-edge or storm value, and below the codes of missing values."""


class _Format(NamedTuple):
    """A weather file format: pvlib's reader, and the columns of the reader's table."""

    name: str
    reader: str  # function in `pvlib.iotools`
    n_head: int  # number of header lines
    zone: str  # header key of the time zone
    pressure: tuple[str, float]  # column, and its unit [Pa]
    time: tuple[str, ...]  # columns of month, day, hour and minute, or date and time
    # Middle of a record's irradiance interval, from its timestamp [records]
    middle: float


_FORMATS = {
    "epw": _Format(
        *("EPW", "read_epw", 8, "TZ", ("atmospheric_pressure", 1.0)),
        *(("month", "day", "hour", "minute"), -0.5),
    ),
    "tmy3": _Format(
        *("TMY3", "read_tmy3", 2, "TZ", ("pressure", 100.0)),
        *(("Date (MM/DD/YYYY)", "Time (HH:MM)"), -0.5),
    ),
    "psm": _Format(
        *("NSRDB", "read_nsrdb_psm4", 3, "Time Zone", ("pressure", 100.0)),
        *(("Month", "Day", "Hour", "Minute"), 0.0),
    ),
}


def _minutes(form: _Format, data: pd.DataFrame) -> Int64Array:
    """Return the records' times since the start of a leap year [min].

    A record with an invalid month gets a time outside of the year. EPW numbers hours by
    their ends, from 1 to 24. Minutes are used only in files with several records per
    hour, as hourly files have 0, 60 or any other value there.
    """
    fields = data[list(form.time)]
    if len(form.time) == 2:
        stamps = data[form.time[0]] + ":" + data[form.time[1]]
        fields = stamps.str.split("[/:]", regex=True, expand=True)[[0, 1, 3, 4]]
    month, day, hour, minute = fields.to_numpy().astype(np.int64).T
    if form.name == "EPW":
        n_hours = len(fields.iloc[:, :3].drop_duplicates())
        is_hourly = len(data) < 2 * n_hours
        hour, minute = (hour, 0 * minute) if is_hourly else (hour - hour.min(), minute)
    past_days = np.append(DAYS_BEFORE_MONTH, -LEAP_DAYS)[np.clip(month, 0, 13) - 1]
    return np.asarray(
        (past_days + day - 1) * MIN_PER_DAY + hour * S_PER_MIN + minute, dtype=np.int64
    )


def read_weather(path: Path) -> WeatherYear:
    """Read a year of weather from a file in EPW, TMY3 or NSRDB format.

    Parameters
    ----------
    path : pathlib.Path
        File in EPW, TMY3 or the CSV format of the National Solar Radiation Database
        (NSRDB); the first lines show the format.

    Notes
    -----
    Records of EPW and TMY3 are values at the end of their interval ("at the time
    indicated" [NREL/TP-581-43156]), which is an hour or an even part of an hour. Their
    irradiance is the mean over this interval. Records of NSRDB are values at their
    timestamp, and their irradiance is the mean over the interval around it.
    """
    data = decompress(path, read_bytes(path))
    try:
        data.decode()
    except UnicodeDecodeError:  # place names in older files
        data = data.decode("latin-1").encode()
    text = decode_text(path, data, "a year of weather")
    form = _FORMATS[_format_of(text)]
    with _errors_with_file_name(text, form):
        reader = getattr(_pvlib(path), form.reader)
        frame, head = reader(io.StringIO(text.data.decode()))
        minutes = _minutes(form, frame)
        zone = timezone(timedelta(hours=float(head[form.zone])))
    lines = text.filled_line_numbers(0)[form.n_head :]
    if not len(frame) or len(frame) > lines.size:
        raise LogFormatError(
            f"{path}: not a whole {form.name} file: it has no rows of records"
        )
    first_min, days = _checked_times(text, minutes, lines)

    def column(what: str, name: str, factor: float = 1.0) -> Float64Array:
        with _errors_with_file_name(text, form):
            return _values(text, frame, lines, what, name, factor)

    dry_c = column("dry-bulb temperature [deg C]", "temp_air")
    pressure_pa = column("pressure [Pa]", *form.pressure)
    if "relative_humidity" in frame:
        humidity = column("relative humidity [%]", "relative_humidity") / 100
    elif "temp_dew" in frame:
        dew_c = column("dew point [deg C]", "temp_dew")
        humidity = saturation_pressure_pa(dew_c) / saturation_pressure_pa(dry_c)
    else:
        raise LogFormatError(
            f"{path}:{lines[0] - 1}: neither a relative humidity nor a dew point "
            "among the columns; export the file with one of them"
        )
    wet_c = wet_bulb_c(dry_c, np.minimum(humidity, 1.0), pressure_pa)
    if days.size == LEAP_DAYS - 1:  # 29 February repeats the 28th
        days = np.insert(days, LEAP_DAY, LEAP_DAY - 1)
    per_day = len(frame) // (int(days.max()) + 1)

    def of_days(values: Float64Array) -> Float64Array:
        return values.reshape(-1, per_day)[days].ravel()

    sun = _sun_records(frame, head, lines)
    if not isinstance(sun, str):
        records = np.array([of_days(values) for values in sun.records])
        middle_ms = round(form.middle * MIN_PER_DAY * MS_PER_MIN / per_day)
        sun = replace(sun, records=records, middle_ms=middle_ms)
    return WeatherYear(
        of_days(dry_c),
        of_days(wet_c),
        of_days(pressure_pa),
        first_min * MS_PER_MIN,
        zone,
        f"{form.name} file {path.name}",
        sun,
    )


def read_design_conditions(path: Path) -> dict[str, float] | None:
    """Return the design temperatures in the header of an EPW file [deg C].

    They are the dry bulb and wet bulb that are exceeded in 0.4 % of all hours, the dry
    bulb with a return period of 20 years, and the highest wet bulb on record. Return
    None if the header has none. The order of the fields is that of ASHRAE's handbooks.
    The editions of 2009 and 2013 have the highest wet bulb among the extremes, those of
    2017 and 2021 have it after the cooling conditions [S: files of Denver and Munich].
    """
    first, second = [*read_bytes(path)[:4096].decode("latin-1").split("\n"), "", ""][:2]
    parts = [part.strip() for part in second.split(",")]
    if not (first.startswith("LOCATION,") and {"Cooling", "Extremes"} <= set(parts)):
        return None
    start, end = parts.index("Cooling") + 1, parts.index("Extremes")
    try:
        cooling, extremes = (
            list(map(float, fields)) for fields in (parts[start:end], parts[end + 1 :])
        )
    except ValueError:
        return None
    if len(cooling) != 32 or len(extremes) not in (15, 16):
        return None
    highest_wet_c = extremes.pop(3) if len(extremes) == 16 else cooling[31]
    return {
        "dry_bulb_c": cooling[2],
        "wet_bulb_c": cooling[8],
        "dry_bulb_once_in_20_years_c": extremes[12],
        "highest_wet_bulb_c": highest_wet_c,
    }


def _sun_records(
    frame: pd.DataFrame, head: dict[str, Any], lines: Int64Array
) -> SunYear | str:
    """Return irradiance and wind of the records, or the reason why they are missing."""
    import pandas as pd

    names = ("ghi", "dni", "dhi", "wind_speed")
    if missing := [name for name in names if name not in frame]:
        return f"the file has no column '{missing[0]}' (as pvlib names it)"
    records = np.array(
        [pd.to_numeric(frame[name], errors="coerce") for name in names], np.float64
    )
    maximum = np.array([[MAX_IRRADIANCE_W_M2]] * 3 + [[MAX_WIND_M_S]])
    for name, bad in zip(names, ~((records >= 0) & (records <= maximum)), strict=True):
        if bad.any():
            return (
                f"'{name}' is missing or out of range in its line "
                f"{lines[int(bad.argmax())]}"
            )
    if not records[0].any():
        return "its irradiance is 0 all year"
    try:
        station = tuple(
            float(head[name]) for name in ("latitude", "longitude", "altitude")
        )
    except (ValueError, LookupError):
        return "its head has no latitude, longitude and altitude"
    return SunYear(records, 0, station)


def _format_of(text: TextLines) -> str:
    first, second = [*text.head.split("\n", 2), ""][:2]
    if first.startswith("LOCATION,"):
        return "epw"
    if second.startswith("Date (MM/DD/YYYY),Time (HH:MM)"):
        return "tmy3"
    if first.startswith("Source,Location ID"):
        return "psm"
    text.fail(
        text.start_line,
        (
            "neither an EPW file ('LOCATION,...'), a TMY3 CSV (second line 'Date "
            "(MM/DD/YYYY),...') nor a CSV of the National Solar Radiation Database "
            "('Source,Location ID,...'); give one"
        ),
    )


def _pvlib(path: Path) -> ModuleType:
    try:
        return import_module("pvlib.iotools")
    except ImportError:
        raise LogFormatError(
            f"{path}: weather files need the package pvlib; pip install "
            "'diploee[weather]', or use kind: typical_day"
        ) from None


@contextmanager
def _errors_with_file_name(text: TextLines, form: _Format) -> Iterator[None]:
    """Convert errors of pvlib and pandas to `LogFormatError` with the file's name."""
    try:
        with warnings.catch_warnings():
            # Warnings of odd values, which are refused below with their line
            warnings.simplefilter("ignore")
            yield
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        csv.Error,
    ) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise LogFormatError(
            f"{one_line(str(text.path))}: not a whole {form.name} file "
            f"({one_line(why)[:MAX_REASON_LENGTH]}); get it again from its source"
        ) from error


def _checked_times(
    text: TextLines, found_min: Int64Array, lines: Int64Array
) -> tuple[int, Int64Array]:
    """Return the first record's minute and the numbers of the days; fail at a gap."""
    n = found_min.size
    step = int(found_min[1] - found_min[0]) if n > 1 else 0
    if not (
        0 < step <= S_PER_MIN and S_PER_MIN % step == 0 and 0 <= found_min[0] <= step
    ):
        text.fail(
            int(lines[0]),
            "a year of records is expected, of one hour or an even part of "
            "it, from the first of 1 January on",
        )
    per_day = MIN_PER_DAY // step
    has_leap_day = n > LEAP_DAY * per_day and found_min[LEAP_DAY * per_day] < (
        (LEAP_DAY + 1) * MIN_PER_DAY
    )
    days = np.arange(LEAP_DAYS if has_leap_day else LEAP_DAYS - 1)
    in_leap_year = days if has_leap_day else days + (days >= LEAP_DAY)
    expected = (
        found_min[0] + in_leap_year[:, None] * MIN_PER_DAY + np.arange(per_day) * step
    )
    expected = expected.ravel()
    both = min(n, expected.size)
    wrong = np.flatnonzero(found_min[:both] != expected[:both])
    row = int(wrong[0]) if wrong.size else both
    if row < expected.size:
        where = int(lines[row]) if row < n else int(lines[n - 1])
        has = f"found {_date(int(found_min[row]))}" if row < n else "the file ends"
        text.fail(
            where,
            (
                f"a gap: expected the record of {_date(int(expected[row]))}, {has}; "
                "weather needs every record of a year once, in order"
            ),
        )
    if n > expected.size:
        text.fail(int(lines[row]), "a second year begins; give a file with one year")
    return int(found_min[0]), days


def _date(minute: int) -> str:
    if not 0 <= minute <= LEAP_DAYS * MIN_PER_DAY:
        return "no date"
    if minute == LEAP_DAYS * MIN_PER_DAY:  # the end of the last hour
        return "month 12, day 31, 24:00"
    time = datetime(2000, 1, 1) + timedelta(minutes=minute)
    return f"month {time.month}, day {time.day}, {time:%H:%M}"


def _values(
    text: TextLines,
    frame: pd.DataFrame,
    lines: Int64Array,
    what: str,
    name: str,
    factor: float,
) -> Float64Array:
    import pandas as pd

    if name not in frame:
        text.fail(
            int(lines[0]) - 1,
            f"no column of {what} ('{name}' to pvlib); export it as well",
        )
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64) * factor
    low, high = _LIMITS[what]
    bad = np.flatnonzero(~((values >= low) & (values <= high)))
    if bad.size:
        others = f" ({bad.size:,} such lines)" if bad.size > 1 else ""
        result = "none" if np.isnan(values[bad[0]]) else f"{values[bad[0]]:g}"
        text.fail(
            int(lines[bad[0]]),
            (
                f"{what} is missing or out of range: found {result}{others}, expected "
                f"{low:g} to {high:g}; fill it in, or take another file"
            ),
        )
    return values
