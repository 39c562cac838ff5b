"""Points of measured cooling power, from a table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from diploee.facility.cooling_table import LIMITS, Point
from diploee.textio.tables import read_columns, read_header
from diploee.textio.text import read_text
from diploee.textio.values import Number, numbers


def read_cooling_points(path: Path) -> tuple[Point, ...]:
    """Read points of temperature, load and cooling power over IT power."""
    text = read_text(path, "a table of measured cooling").without_comments("#")
    layout = read_header(text)
    layout.require(path, LIMITS, "a table of measured cooling")
    table = read_columns(text, layout, {name: name for name in LIMITS})
    columns = (
        numbers(table, name, Number(**asdict(limit), may_miss=False)).tolist()
        for name, limit in LIMITS.items()
    )
    return tuple(zip(*columns, strict=True))
