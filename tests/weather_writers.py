"""Small synthetic weather files of the three formats, from functions of day and hour."""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import numpy as np

PRESSURE_PA = 83_500


@cache
def temperature_c(day: date, hour: float) -> float:
    """A temperature that tells month, day and hour: its instant is the hour's end."""
    return round(day.month * 2 + day.day / 10 + 5 * np.sin(hour * np.pi / 12), 1)


def days(year: int, *, leap_day: bool = False) -> Iterator[date]:
    day = date(year, 1, 1)
    while day.year == year:
        if leap_day or (day.month, day.day) != (2, 29):
            yield day
        day += timedelta(days=1)


def irradiance(day: date, hour: float) -> tuple[int, int, int]:
    """Global, direct and diffuse irradiance of an hour that ends, cloudy every fourth
    day."""
    high = max(np.sin((hour - 6.5) * np.pi / 12), 0.0) * (
        0.3 if day.day % 4 == 0 else 1.0
    )
    return round(900 * high), round(700 * high), round(200 * high)


def write_epw(
    path: Path,
    zone: float = -7.0,
    year: int = 1995,
    *,
    sun: bool = False,
    step_min: int = 60,
    hourly_minute: int = 0,
) -> Path:
    """Records by the end of their step: hour 1, minute 15 to 60 of the first hour by
    quarters."""
    head = [f"LOCATION,Somewhere,CO,USA,TMY3,1,39.8,-104.7,{zone},1650.0"]
    head += [f"LINE {i}" for i in range(2, 9)]
    ends = [
        (h, m, h - 1 + m / 60)
        for h in range(1, 25)
        for m in range(step_min, 61, step_min)
    ]
    rows = [
        f"{d.year},{d.month},{d.day},{h},{hourly_minute if step_min == 60 else m},?9,"
        f"{temperature_c(d, end)},1.0,50,{PRESSURE_PA},0,0,0,"
        + ",".join(map(str, irradiance(d, end) if sun else (0, 0, 0)))
        + ",0,0,0,0,0,2.5"
        + ",0" * 13
        for d in days(year)
        for h, m, end in ends
    ]
    path.write_text("\n".join(head + rows) + "\n")
    return path


def write_tmy3(path: Path, zone: float = -7.0, year: int = 1996) -> Path:
    head = [f'725650,"SOMEWHERE",CO,{zone},39.8,-104.7,1650']
    head += ["Date (MM/DD/YYYY),Time (HH:MM),Dry-bulb (C),RHum (%),Pressure (mbar)"]
    rows = [
        f"{d:%m/%d/%Y},{h:02}:00,{temperature_c(d, h)},50,{PRESSURE_PA / 100:g}"
        for d in days(year)
        for h in range(1, 25)
    ]
    path.write_text("\n".join(head + rows) + "\n")
    return path


def write_psm(
    path: Path,
    zone: int = -7,
    year: int = 2020,
    step_min: int = 30,
    *,
    sun: bool = False,
) -> Path:
    head = [
        "Source,Location ID,City,State,Country,Latitude,Longitude,Time Zone,Elevation,"
        "Local Time Zone",
        f"NSRDB,1,-,-,-,39.8,-104.7,{zone},1650,-7",
        "Year,Month,Day,Hour,Minute,Temperature,Relative Humidity,Pressure"
        + ",GHI,DNI,DHI,Wind Speed" * sun,
    ]
    rows = [
        f"{d.year},{d.month},{d.day},{m // 60},{m % 60},{temperature_c(d, m / 60)},50,"
        f"{PRESSURE_PA / 100:g}"
        + (",{},{},{},2.5".format(*irradiance(d, m / 60 + 0.5)) if sun else "")
        for d in days(year, leap_day=True)
        for m in range(0, 1440, step_min)
    ]
    path.write_text("\n".join(head + rows) + "\n")
    return path
