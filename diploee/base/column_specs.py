"""Declarations of the columns of a power series: name, unit, role, boundary.

Each component declares its columns once, for the writer, the metadata of files, and all
readers. The name of a column that belongs to one pool or service ends with a dot and
the name of that owner, as in ``it_power_w.h100``.
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
"""Role of a power column in the power balance between devices and meter."""

ADDED: tuple[Role, ...] = ("loss", "cooling", "load")
"""Roles of powers that a stage adds to the power that passes it."""

TAKEN_OFF: tuple[Role, ...] = ("source", "store", "hold")
"""Roles of powers that a stage subtracts from the power that passes it."""

ValueKind = Literal["mean", "instant", "end", "total"]

VALUE_KINDS: dict[ValueKind, str] = {
    "mean": "mean over the interval",
    "instant": "at the interval's start",
    "end": "at the interval's end",
    "total": "total over the interval",
}


def coarsen(values: npt.NDArray[Any], n: int, kind: ValueKind) -> npt.NDArray[Any]:
    """Aggregate every n values to one: their mean, total, first or last value.

    The number of values must be a multiple of n.
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
    """The declaration of a column of the series."""

    name: str  # name without the owner
    unit: str  # unit of the values
    # Owner of the values; a column per pool also exists for the whole facility
    per: Literal["facility", "pool", "service"]
    kind: ValueKind  # mean, total, first or last value of the interval
    boundary: str | None  # of a power: the point of measurement, so what it includes
    text: str  # short description
    # Role of a power in the balance of its stage. Added to the power that passes: a
    # `loss`, `cooling`, a `load`. Subtracted: the output of a `source`; the net
    # discharge of a `store` before its losses, which are a `loss`; curtailed load
    # (`hold`). `device` and `overhead` belong to the nodes; `overhead` includes the
    # device power. None for any other column.
    role: Role | None = None
    # Category of energy that the column adds to, as in ``poi.energy.<part>_mwh``;
    # `other` if absent
    part: str | None = None

    @property
    def sign(self) -> int:
        """Sign with which the column adds to the power at the meter."""
        return -1 if self.role in TAKEN_OFF else 1

    @property
    def label(self) -> str:
        """Name in plain words without the unit, such as ``UPS loss``."""
        return spell_out(self.name.removesuffix("_w").removesuffix("_power"))

    def line(self) -> str:
        """Return a one-line description of the column, unit first."""
        boundary = f" ({self.boundary})" if self.boundary else ""
        return f"{self.unit}, {self.text}{boundary}, {VALUE_KINDS[self.kind]}"


def spell_out(name: str) -> str:
    """Return a name such as ``ups_loss`` in plain words, such as ``UPS loss``."""
    return " ".join(
        word.upper() if word in ("pdu", "ups") else word for word in name.split("_")
    )


Columns = tuple[Column, ...]
"""A catalogue: declarations of all columns that a run may have."""


def read_columns(path: Path) -> dict[str, Columns]:
    """Read a table of column declarations, grouped by the stage that they belong to.

    An empty cell is None.
    """
    result = defaultdict[str, Columns](tuple)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            fields: dict[str, Any] = {k: v or None for k, v in row.items()}
            result[fields.pop("stage")] += (Column(**fields),)
    return dict(result)


def catalogue(*groups: Iterable[Column]) -> Columns:
    """Join groups of column declarations, and refuse a name declared twice."""
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
    """Return the catalogue with another boundary for one column."""
    find_column(name, columns)
    return tuple(
        replace(c, boundary=boundary) if c.name == name else c for c in columns
    )


def find_column(name_in_file: str, columns: Columns) -> tuple[Column, str]:
    """Return the declaration of a column named as in a file, and its owner."""
    name, _, owner = name_in_file.partition(".")
    declared = {
        c.name: c
        for c in columns
        if (c.per != "facility" if owner else c.per != "service")
    }
    if name not in declared:
        scope = "of pools and services" if owner else "of the facility"
        raise InputError(
            f"column {shown(name_in_file)} is not declared (have, {scope}: "
            f"{one_of(declared)}){did_you_mean(name, declared)}"
        )
    return declared[name], owner


def column_dicts(columns: Columns) -> list[dict[str, Any]]:
    """Return a catalogue as plain dictionaries, for metadata and manifest."""
    return [asdict(column) for column in columns]
