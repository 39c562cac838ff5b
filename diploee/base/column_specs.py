"""Columns of a power series: declared once, beside the code that computes them.

The writer, the file's metadata and every reader take name, unit and boundary from here.
A column of one pool or service carries its owner's name after a dot, as in
``it_power_w.h100``.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from diploee.base.errors import Brief, InputError, did_you_mean, one_of, shown

Role = Literal[
    "device", "overhead", "loss", "cooling", "load", "source", "store", "hold"
]
"""Role of a power between the devices and the meter."""

ADDED: tuple[Role, ...] = ("loss", "cooling", "load")
"""Roles that a stage adds to the power which passes it."""

TAKEN_OFF: tuple[Role, ...] = ("source", "store", "hold")
"""Roles that a stage takes off it."""

ValueKind = Literal["mean", "instant", "end", "total"]

VALUE_KINDS: dict[ValueKind, str] = {
    "mean": "mean over the interval",
    "instant": "at the interval's start",
    "end": "at the interval's end",
    "total": "total over the interval",
}


def coarser(values: npt.NDArray[Any], n: int, kind: ValueKind) -> npt.NDArray[Any]:
    """Return each n values in turn as one, as their kind says.

    Their number is a multiple of n.
    """
    steps = values.reshape(-1, n)
    if kind in ("instant", "end"):
        return steps[:, 0 if kind == "instant" else -1].copy()
    result: npt.NDArray[Any] = (
        steps.sum(axis=1) if kind == "total" else steps.mean(axis=1)
    )
    return result


@dataclass(frozen=True)
class Column(Brief):
    """A column of the series."""

    name: str  # its name, without an owner
    unit: str  # unit of its values
    # Whose values it holds; one per pool also exists for the whole facility
    per: Literal["facility", "pool", "service"]
    kind: ValueKind  # what a value is of its interval
    boundary: str | None  # of a power: where it is taken and so what it includes
    text: str  # what it is, in a few words
    # Of a power, what it does to the power that passes its stage. Added to it: a
    # `loss`, `cooling`, a `load`. Taken off it: the output of a `source`; the net
    # discharge of a `store`, before its losses, which are a `loss`; what is held back
    # of the load (`hold`). `device` and `overhead` are the nodes', the second with the
    # first in it. None for any other column.
    role: Role | None = None
    # Name of the part of the energy that it counts to, as in ``poi.energy.<part>_mwh``;
    # `other` if absent
    part: str | None = None

    @property
    def sign(self) -> int:
        """Sign with which its power counts to that at the meter."""
        return -1 if self.role in TAKEN_OFF else 1

    @property
    def label(self) -> str:
        """Its name in words, without the unit, such as ``UPS loss``."""
        return in_words(self.name.removesuffix("_w").removesuffix("_power"))

    def line(self) -> str:
        """Return the column in one line, unit first."""
        boundary = f" ({self.boundary})" if self.boundary else ""
        return f"{self.unit}, {self.text}{boundary}, {VALUE_KINDS[self.kind]}"


def in_words(name: str) -> str:
    """Return a name of words joined by _ as words."""
    return " ".join(w.upper() if w in ("pdu", "ups") else w for w in name.split("_"))


Columns = tuple[Column, ...]
"""A catalogue: the columns that a run may hold."""


def read_columns(path: Path) -> dict[str, Columns]:
    """Return the columns of a table by whose they are; an empty cell is none."""
    result = defaultdict[str, Columns](tuple)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            given: dict[str, Any] = {k: v or None for k, v in row.items()}
            result[given.pop("stage")] += (Column(**given),)
    return dict(result)


def catalogue(*groups: Iterable[Column]) -> Columns:
    """Join columns declared in several places."""
    result: dict[str, Column] = {}
    for column in (column for group in groups for column in group):
        if (first := result.setdefault(column.name, column)) is not column:
            raise InputError(
                f"column '{column.name}' is declared twice: as {first.text} "
                f"[{first.unit}] and as {column.text} [{column.unit}]; give one of "
                "them another name"
            )
    return tuple(result.values())


def with_boundary(columns: Columns, name: str, boundary: str) -> Columns:
    """Return the catalogue with another boundary of one column."""
    find_column(name, columns)
    return tuple(
        replace(c, boundary=boundary) if c.name == name else c for c in columns
    )


def find_column(written: str, columns: Columns) -> tuple[Column, str]:
    """Return the column of a name as written in a file, and its owner."""
    name, _, owner = written.partition(".")
    have = {
        c.name: c
        for c in columns
        if (c.per != "facility" if owner else c.per != "service")
    }
    if name not in have:
        of = "of pools and services" if owner else "of the facility"
        raise InputError(
            f"column {shown(written)} is not declared (have, {of}: {one_of(have)})"
            f"{did_you_mean(name, have)}"
        )
    return have[name], owner


def as_entries(columns: Columns) -> list[dict[str, Any]]:
    """Return a catalogue in plain types, for metadata and manifest."""
    return [asdict(column) for column in columns]
