"""Grid disturbances as voltage and frequency over time: recorded events, or a file.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

from dataclasses import dataclass

from diploee.base.errors import Brief
from diploee.base.model import Registry
from diploee.grid.dynamics.block_ride_through import Voltage

NORMAL_PU = (0.9, 1.1)
"""Range of voltages that no curve counts as a disturbance [pu]."""


@dataclass(frozen=True)
class Event(Brief):
    """Grid disturbance: dips from 1 pu to a residual voltage, or a voltage series."""

    name: str  # its name, or the file's name
    source: str  # publication or file
    dips: tuple[tuple[float, float], ...] = ()  # start and length of each [s]
    residuals: tuple[float, ...] = ()  # highest and lowest voltage of the dips [pu]
    series: Voltage | None = None  # voltage series in place of dips
    frequency: tuple[tuple[float, float], ...] = ()  # times [s] and values [Hz]
    facts: tuple[str, ...] = ()  # further reported facts

    def voltage(self, residual: float | None = None) -> Voltage:
        """Return the voltage series, with dips to a residual voltage [pu]."""
        if self.series is not None:
            return self.series
        low = self.residuals[0] if residual is None else residual
        edges = (
            edge for start, length in self.dips for edge in (start, start + length)
        )
        return Voltage((-1.0, *edges), (1.0, *(low, 1.0) * len(self.dips)))


EVENTS: Registry[Event] = Registry(
    "event",
    (
        Event(
            "nerc_2024_07_10",
            (
                "NERC, incident review of January 2025, as quoted by the Raptrix "
                "schema v0.13.1: 230 kV, Eastern Interconnection, 2024-07-10"
            ),
            (
                (0.0, 0.042),
                (0.532, 0.066),
                (15.860, 0.058),
                (21.279, 0.050),
                (76.249, 0.066),
                (81.665, 0.059),
            ),
            (0.40, 0.25),
            facts=(
                "residual of some 0.25 to 0.40 pu where load was lost",
                "some 1,260 MW were gone at the third dip, some 1,500 MW in all",
                "frequency rose to 60.047 Hz, voltage to 1.07 pu",
                "'three in one minute'; loads returned by hand, after hours",
            ),
        ),
    ),
    noun="name",
)
"""Recorded events that ship with diploee, by name."""
