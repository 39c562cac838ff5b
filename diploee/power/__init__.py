"""Power: loads lower to segments, segments sum to power blocks with exact energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.power.blocks import PowerBlock as PowerBlock
    from diploee.power.event_windows import EventWindow as EventWindow
    from diploee.power.segments import Segments as Segments
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
