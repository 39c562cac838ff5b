"""One way to draw: `charts` describe figures, `vega` specifies them for page and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.reports.drawing.pictures import Picture as Picture
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
