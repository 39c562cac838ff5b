"""Answers of a site to the grid's voltage: ride-through, named curves, voltage changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.grid.dynamics.answer import Answer as Answer
    from diploee.grid.dynamics.answer import ride_through as ride_through
    from diploee.grid.dynamics.curves import CURVES as CURVES
    from diploee.grid.dynamics.events import EVENTS as EVENTS
    from diploee.grid.dynamics.events import Event as Event
    from diploee.grid.dynamics.machine import Voltage as Voltage
    from diploee.grid.dynamics.machine import respond as respond
    from diploee.grid.dynamics.site import Site as Site
    from diploee.grid.dynamics.site import SiteState as SiteState
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
