"""Values of `metrics.json`: declared once, beside the code that computes them.

A key is dotted as the values are nested; an entry of a list goes by what tells it from
the others, as in ``grid.ramps.intervals.10s.up.max_mw``. A declaration has ``<...>``
where it stands for many keys: ``grid.ramps.intervals.<interval>.up.max_mw``. Values of
one pool are in ``pools.<pool>.``.
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
"""A cell without a value."""

_MAX_DIGITS = 5
_POWER = re.compile(r"[kMG](Wh?|varh?|VA)\b")
_DECIMALS = re.compile(r"\.(\d)f")

_TOLD_BY = (
    (("name",), "{}"),
    (("interval_min",), "{:g}min"),
    (("interval_s",), "{:g}s"),
    (("window_s",), "{:g}s"),
    (("low_hz", "high_hz"), "{:g}-{:g}Hz"),
    (("month",), "{}"),
    (("from_mw", "to_mw"), "{:g}-{:g}MW"),
)
"""Field that distinguishes the entries of a list, and its form in a key."""


_OF_TIME, _BY_RANK = "percent_of_time", "lines"

View = Literal["main", "table", "detail"]


@dataclass(frozen=True)
class Metric(Brief):
    """A value of the metrics."""

    key: str  # where it stands in ``metrics.json``
    unit: str  # unit that it is shown in
    label: str  # its name in lower case
    format: str = "{:,.3f}"  # format of the shown number
    text: str = ""  # what the label leaves open
    # Main metrics head a report and stand for a run in a sweep; they and those of the
    # table stand in every table of a run; a detail has its place in a section of its
    # own
    view: View = "detail"
    factor: float = 1  # from the stored to the shown number
    # It depends on the interval of the means, which is shown beside it
    of_means: bool = False

    @property
    def title(self) -> str:
        """Label and unit, as in ``mean power [MW]``.

        The label alone of a plain number.
        """
        return f"{self.label} [{self.unit}]" if self.suffix else self.label

    @property
    def heading(self) -> str:
        """The title with a capital."""
        return self.title[0].upper() + self.title[1:]

    @property
    def name(self) -> str:
        """The label with a capital."""
        return self.heading.partition(" [")[0]

    @property
    def suffix(self) -> str:
        """The unit as it follows a number."""
        return "" if self.unit == "1" else self.unit

    @property
    def digits(self) -> int:
        """Decimals that are shown."""
        return len(self.format.format(0.0).partition(".")[2])

    @property
    def is_power(self) -> bool:
        """Whether it is a power or an energy, whose unit may suit the size of a site."""  # noqa: E501
        return bool(_POWER.match(self.unit))

    def show(self, value: object, none: str = NONE) -> str:
        """Return a stored value as text."""
        return number(value, self.format, self.factor, none)

    def sized(self, unit: PowerUnit) -> Metric:
        """Return the metric with powers and energies in another unit."""
        if not self.is_power or self.unit[0] != "M":
            return self
        factor = self.factor * W_PER_MW / unit.watts
        return replace(self, unit=f"{unit.power[0]}{self.unit[1:]}", factor=factor)


def number(value: object, pattern: str, factor: float = 1, none: str = NONE) -> str:
    """Return a number by a format, with at most five digits before and after its point.

    `none` stands for what is not a number.
    """
    if not is_plain_number(value) or isnan(value):
        return none
    if (result := _DECIMALS.search(pattern)) and abs(value * factor) >= 1:
        before = len(f"{abs(value * factor):.0f}")
        kept = min(int(result[1]), max(_MAX_DIGITS - before, 0))
        pattern = pattern.replace(result[0], f".{kept}f")
    return pattern.format(value * factor)


def short(value: float) -> str:
    """Return a number of four digits, a large one in full."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


_CONVERTED: dict[str, Any] = {"factor": float, "of_means": bool}


def read_metrics(path: Path) -> list[Metric]:
    """Return the metrics of a table, a row each; an empty cell is the default."""
    with path.open(encoding="utf-8") as file:
        return [
            Metric(**{k: _CONVERTED.get(k, str)(v) for k, v in row.items() if v})
            for row in csv.DictReader(file)
        ]


def catalogue(*groups: Iterable[Metric]) -> tuple[Metric, ...]:
    """Join metrics declared in several places."""
    result: dict[str, Metric] = {}
    for metric in (metric for group in groups for metric in group):
        if (first := result.setdefault(metric.key, metric)) is not metric:
            raise InputError(
                f"metric '{metric.key}' is declared twice: as {first.title} and as "
                f"{metric.title}; give one of them another key"
            )
    return tuple(result.values())


def is_plain_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number of Python; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_number(value: Any, least: float, most: float) -> bool:
    """Return whether a value is a real number, of Python or numpy, in a range."""
    return isinstance(value, Real) and bool(least <= value <= most)  # type: ignore[operator]


def check_declared(
    values: Iterable[tuple[str, Any]],
    metrics: Iterable[Metric],
    refuse: Callable[[str], Exception],
) -> None:
    """Refuse values by key that are undeclared, or neither finite nor None."""
    metrics = list(metrics)
    for key, value in values:
        if str(key).startswith("pools.") or not find_metric(str(key), metrics):
            declared = one_of([metric.key for metric in metrics])
            raise refuse(
                f" gives metric '{one_line(str(key))}', which it does not declare "
                f"(declared: {declared}); add it to its metrics"
            )
        if value is not None and not is_number(
            value, -sys.float_info.max, sys.float_info.max
        ):
            raise refuse(
                f" gives {one_line(shown(value))} for '{key}', expected a finite "
                "number or None"
            )


def flatten(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the single values of nested metrics by key.

    Points of a curve go by their share of the time, as
    ``load_duration_curve.1%.exceeded_mw``, lines of a spectrum by their rank, the
    strongest first. Other lists of plain numbers, and of entries that nothing tells
    apart, such as the parts of a cause, stay in ``metrics.json``.
    """
    percents = metrics.get(_OF_TIME)
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield f"{prefix}{name}", value
        elif isinstance(percents, list):
            if name != _OF_TIME:
                for percent, point in zip(percents, value, strict=False):
                    yield f"{prefix}{percent:g}%.{name}", point
        elif name == _BY_RANK:
            for rank, entry in enumerate(value, start=1):
                yield from flatten(entry, f"{prefix}{name}.{rank}.")
        elif name != "absent":
            for entry in value:
                told, part = _told_by(entry)
                rest = (
                    {key: entry[key] for key in entry if key not in told}
                    if told
                    else {}
                )
                yield from flatten(rest, f"{prefix}{name}.{part}.")


def _told_by(entry: object) -> tuple[tuple[str, ...], str]:
    """Return the keys that tell entries of a list apart, and their key part."""
    for told, form in _TOLD_BY:
        if isinstance(entry, Mapping) and all(key in entry for key in told):
            # No upper end
            ends = (inf if entry[key] is None else entry[key] for key in told)
            return told, form.format(*ends)
    return (), ""


def of_curve(key: str) -> bool:
    """Return whether a key is of one point of a curve, or one class of a count."""
    return "%." in key or "MW.swings" in key


def find_metric(key: str, metrics: Iterable[Metric]) -> Metric | None:
    """Return the metric that is declared for a key, its label filled in.

    None where none is.

    Parameters
    ----------
    key : str
        Dotted key of a value in ``metrics.json``.
    metrics : iterable of Metric
        Declared metrics.
    """
    for metric in metrics:
        if result := _pattern(metric.key).fullmatch(key):
            parts = {name: part for name, part in result.groupdict().items() if part}
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
    parts = re.split(r"<(\w+)>", key)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (
        f"(?P<{name}>{'[^.]+' if name in _WITHOUT_DOT else '.+'})"
        for name in parts[1::2]
    )
    return re.compile(rf"(?:pools\.(?P<pool>.+?)\.)?{''.join(parts)}")
