"""Names that the core opens and never imports.

One table, each line read on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PLACES = {
    "part_tables": "diploee.simulation.layout_power",
    "picture": "diploee.reports.build",
    "read_event": "diploee.importers.site_tables",
    "read_reactive_table": "diploee.importers.site_tables",
    "report": "diploee.reports.build",
    "ride_through": "diploee.grid.dynamics.answer",
}
"""Module of each name."""


def annex(name: str) -> Any:
    """Return what an annex has under a name of `PLACES`."""
    return getattr(import_module(PLACES[name]), name)
