"""`diploee weather`: what files of weather hold, and which of them decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from diploee.base.tables import Float64Array
from diploee.cli.options import Json, print_result
from diploee.importers.weather_files import DESIGN_PERCENT, read_design, read_weather

BULBS = {"dry_bulb_c": "dry bulb", "wet_bulb_c": "wet bulb"}
PERCENTS = "0.4, 1 and 2 % of the hours"
NOT_SAID = (
    "it does not say how often a wet bulb comes back, which decides towers and free "
    "cooling, nor how long heat lasts"
)


def weather_command(
    files: Annotated[
        list[Path], typer.Argument(help="Files in EPW, TMY3 CSV or NSRDB CSV.")
    ],
    as_json: Json = False,
) -> None:
    """Show the extremes of weather files beside the design conditions of their heads.

    Of several files, such as years as they were, it says which are the hottest.
    """
    found = {str(path): _file(path) for path in files}
    lines = [line for path, of in found.items() for line in _lines(path, of)]
    for name, words in BULBS.items() if len(found) > 1 else ():
        hottest = max(found, key=lambda path: found[path][name]["max"])
        lines.append(
            f"highest {words}: {hottest}, {found[hottest][name]['max']:.1f} deg C"
        )
    print_result(found, lines, as_json=as_json)


def _file(path: Path) -> dict[str, Any]:
    """Return what a file holds.

    Temperatures [deg C], and global irradiance of a year [kWh/m2].
    """
    year = read_weather(path)
    sun = (
        year.sun
        if isinstance(year.sun, str)
        else float(year.sun.records[0].mean()) * 8.76
    )
    return {
        "source": year.source,
        "years": year.years,
        "dry_bulb_c": _extremes(year.dry_bulb_c),
        "wet_bulb_c": _extremes(year.wet_bulb_c),
        "irradiance": sun,
        "design": read_design(path),
    }


def _extremes(values: Float64Array) -> dict[str, Any]:
    above = {
        percent: np.quantile(values, 1 - percent / 100) for percent in DESIGN_PERCENT
    }
    return {"max": values.max(), "exceeded": above}


def _lines(path: str, found: Mapping[str, Any]) -> Iterator[str]:
    years, design, sun = found["years"], found["design"], found["irradiance"]
    of = (
        f"months of {len(years)} years, {years[0]} to {years[-1]}"
        if years[1:]
        else f"{years[0]}"
    )
    yield f"{path}: {of}"
    for name, words in BULBS.items():
        in_head = f"; in its head {_degrees(design[name].values())}" if design else ""
        yield (
            f"  {words} [deg C]: at most {found[name]['max']:.1f}; exceeded in "
            f"{PERCENTS}: {_degrees(found[name]['exceeded'].values())}{in_head}"
        )
    if design:
        back = design["dry_bulb_once_in_years_c"]
        yield (
            f"  head: {design['source']}; highest dry bulb of a year "
            f"{design['yearly_dry_bulb_c']:.1f} in the mean, once in "
            f"{', '.join(map(str, back))} years {_degrees(back.values())}; highest "
            f"wet bulb on record {design['highest_wet_bulb_c']:.1f}"
        )
        yield f"  {NOT_SAID}"
    yield (
        f"  irradiance: {sun}"
        if isinstance(sun, str)
        else f"  irradiance: {sun:,.0f} kWh/m2"
    )
    typical = (
        "its months are typical ones: for peaks and headroom bring years as they were"
    )
    actual = "if it is a year as it was, put actual_year: true beside its path"
    yield f"  next: {typical if years[1:] else actual}"


def _degrees(of: Iterable[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in of)
