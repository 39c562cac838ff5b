"""Declarations of the values in metrics.json: key, unit, label, format.

A key is the dotted path of a nested value, in which an identifying value such as
``10s`` selects the entry of a list: ``grid.ramps.intervals.10s.up.max_mw``. In a
declaration ``<...>`` is a placeholder: ``grid.ramps.intervals.<interval>.up.max_mw``.
The keys of a pool's values start with ``pools.<pool>.``.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isnan
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypeGuard

from diploee.base.errors import Brief, InputError, one_line, one_of, shown
from diploee.base.units import W_PER_MW, PowerUnit

NONE = "\N{EN DASH}"
"""Text of a cell without a value."""

_MAX_DIGITS = 5
_POWER = re.compile(r"[kMG](Wh?|varh?|VA)\b")
_DECIMALS = re.compile(r"\.(\d)f")

_IDENTIFIED_BY = (
    (("name",), "{}"),
    (("interval_min",), "{:g}min"),
    (("interval_s",), "{:g}s"),
    (("window_s",), "{:g}s"),
    (("low_hz", "high_hz"), "{:g}-{:g}Hz"),
    (("month",), "{}"),
    (("from_mw", "to_mw"), "{:g}-{:g}MW"),
)
"""Fields that identify the entries of a list, and their format in a key."""


_PERCENT_KEY, _RANKED_KEY = "percent_of_time", "lines"

View = Literal["main", "table", "detail"]


@dataclass(frozen=True)
class Metric(Brief):
    """The declaration of a value in metrics.json."""

    key: str  # dotted path in ``metrics.json``
    unit: str  # displayed unit
    label: str  # name in lower case
    format: str = "{:,.3f}"  # format of the displayed number
    text: str = ""  # explanation beyond the label
    # "main": at the top of a report, and in a sweep's table of runs; "main" and
    # "table": in every table of a run; "detail": only in a section of its own
    view: View = "detail"
    factor: float = 1  # from the stored to the displayed number
    # Depends on the averaging interval, which is displayed with it
    of_means: bool = False

    @property
    def title(self) -> str:
        """Label and unit, as in ``mean power [MW]``; no unit if dimensionless."""
        return f"{self.label} [{self.unit}]" if self.suffix else self.label

    @property
    def heading(self) -> str:
        """Label and unit, with a capital letter."""
        return self.title[0].upper() + self.title[1:]

    @property
    def name(self) -> str:
        """Label with a capital letter."""
        return self.heading.partition(" [")[0]

    @property
    def suffix(self) -> str:
        """Unit to append to a number; empty for a dimensionless number."""
        return "" if self.unit == "1" else self.unit

    @property
    def digits(self) -> int:
        """Number of displayed decimals, from the format."""
        return len(self.format.format(0.0).partition(".")[2])

    @property
    def is_power(self) -> bool:
        """True for a power or energy, whose unit is adapted to the site's size."""
        return bool(_POWER.match(self.unit))

    def show(self, value: object, none: str = NONE) -> str:
        """Format a stored value as text."""
        return format_number(value, self.format, self.factor, none)

    def sized(self, unit: PowerUnit) -> Metric:
        """Return the metric with its power or energy in another unit."""
        if not self.is_power or self.unit[0] != "M":
            return self
        factor = self.factor * W_PER_MW / unit.watts
        return replace(self, unit=f"{unit.power[0]}{self.unit[1:]}", factor=factor)


def format_number(
    value: object, pattern: str, factor: float = 1, none: str = NONE
) -> str:
    """Format a number with at most five digits before and after its decimal point.

    `none` is the text for anything that is not a number.
    """
    if not is_plain_number(value) or isnan(value):
        return none
    if (decimals := _DECIMALS.search(pattern)) and abs(value * factor) >= 1:
        n_digits = len(f"{abs(value * factor):.0f}")
        n_decimals = min(int(decimals[1]), max(_MAX_DIGITS - n_digits, 0))
        pattern = pattern.replace(decimals[0], f".{n_decimals}f")
    return pattern.format(value * factor)


def format_short(value: float) -> str:
    """Format a number with four significant digits, a large number in full."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


_CONVERTED: dict[str, Any] = {"factor": float, "of_means": bool}


def read_metrics(path: Path) -> list[Metric]:
    """Read metric declarations from a CSV table; empty cells are defaults."""
    with path.open(encoding="utf-8") as file:
        return [
            Metric(**{k: _CONVERTED.get(k, str)(v) for k, v in row.items() if v})
            for row in csv.DictReader(file)
        ]


def catalogue(*groups: Iterable[Metric]) -> tuple[Metric, ...]:
    """Join groups of metric declarations, and refuse a key declared twice."""
    result: dict[str, Metric] = {}
    for metric in (metric for group in groups for metric in group):
        if (first := result.setdefault(metric.key, metric)) is not metric:
            raise InputError(
                f"metric '{metric.key}' is declared twice: as {first.title} and as "
                f"{metric.title}; give one of them another key"
            )
    return tuple(result.values())


def is_plain_number(value: object) -> TypeGuard[int | float]:
    """Return True if a value is an int or float, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_number_within(value: Any, low: float, high: float) -> bool:
    """Return True if a value is a real number of Python or numpy within a range."""
    return isinstance(value, Real) and bool(low <= value <= high)  # type: ignore[operator]


def check_declared(
    values: Iterable[tuple[str, Any]],
    metrics: Iterable[Metric],
    make_error: Callable[[str], Exception],
) -> None:
    """Raise an error if values are undeclared, or neither finite nor None."""
    metrics = list(metrics)
    for key, value in values:
        if str(key).startswith("pools.") or not find_metric(str(key), metrics):
            declared = one_of([metric.key for metric in metrics])
            raise make_error(
                f" gives metric '{one_line(str(key))}', which it does not declare "
                f"(declared: {declared}); add it to its metrics"
            )
        if value is not None and not is_number_within(
            value, -sys.float_info.max, sys.float_info.max
        ):
            raise make_error(
                f" gives {one_line(shown(value))} for '{key}', expected a finite "
                "number or None"
            )


def flatten(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield key and value of the single values in nested metrics.

    The key of a point of a curve contains its fraction of time, as in
    ``load_duration_curve.1%.exceeded_mw``; the key of a spectral line contains its
    rank, strongest first. Other lists of plain numbers, and lists whose entries have no
    identifying field, are omitted.
    """
    percents = metrics.get(_PERCENT_KEY)
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield f"{prefix}{name}", value
        elif isinstance(percents, list):
            if name != _PERCENT_KEY:
                for percent, point in zip(percents, value, strict=False):
                    yield f"{prefix}{percent:g}%.{name}", point
        elif name == _RANKED_KEY:
            for rank, entry in enumerate(value, start=1):
                yield from flatten(entry, f"{prefix}{name}.{rank}.")
        elif name != "absent":
            for entry in value:
                fields, part = _identifying_fields(entry)
                rest = (
                    {key: entry[key] for key in entry if key not in fields}
                    if fields
                    else {}
                )
                yield from flatten(rest, f"{prefix}{name}.{part}.")


def _identifying_fields(entry: object) -> tuple[tuple[str, ...], str]:
    """Return the fields that identify an entry of a list, and their text in a key."""
    for fields, form in _IDENTIFIED_BY:
        if isinstance(entry, Mapping) and all(key in entry for key in fields):
            # No upper end
            ends = (inf if entry[key] is None else entry[key] for key in fields)
            return fields, form.format(*ends)
    return (), ""


def is_curve_point(key: str) -> bool:
    """Return True if a key is a point of a curve or a class of a count."""
    return "%." in key or "MW.swings" in key


def find_metric(key: str, metrics: Iterable[Metric]) -> Metric | None:
    """Return the declaration of a key with its label filled in, or None.

    Parameters
    ----------
    key : str
        Dotted key of a value in ``metrics.json``.
    metrics : iterable of Metric
        Declared metrics.
    """
    for metric in metrics:
        if match := _pattern(metric.key).fullmatch(key):
            parts = {name: part for name, part in match.groupdict().items() if part}
            label = metric.label
            for name, part in parts.items():
                label = label.replace(f"<{name}>", _LENGTH.sub(r"\1 \2", part))
            owners = [
                f", {name} {parts[name]}"
                for name in ("service", "pool")
                if name in parts
            ]
            return replace(metric, key=key, label="".join([label, *owners]))
    return None


_LENGTH = re.compile(r"^([\d.-]+|[\d.]+-inf)(s|min|Hz|MW)$")
_WITHOUT_DOT = ("interval", "window", "month", "rank")


@cache
def _pattern(key: str) -> re.Pattern[str]:
    """Return the regular expression that matches a declared key with placeholders."""
    parts = re.split(r"<(\w+)>", key)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (
        f"(?P<{name}>{'[^.]+' if name in _WITHOUT_DOT else '.+'})"
        for name in parts[1::2]
    )
    return re.compile(rf"(?:pools\.(?P<pool>.+?)\.)?{''.join(parts)}")
