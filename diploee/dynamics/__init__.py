"""Answers of a site to the grid's voltage: ride-through, named curves, voltage changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.dynamics.answer import Answer as Answer
    from diploee.dynamics.answer import ride_through as ride_through
    from diploee.dynamics.curves import CURVES as CURVES
    from diploee.dynamics.events import EVENTS as EVENTS
    from diploee.dynamics.events import Event as Event
    from diploee.dynamics.machine import Voltage as Voltage
    from diploee.dynamics.machine import respond as respond
    from diploee.dynamics.site import Site as Site
    from diploee.dynamics.site import SiteState as SiteState
else:
    from diploee.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
