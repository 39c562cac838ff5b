"""Measures: what is summed, ranked and counted of a series, whatever its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.measures.series import QUANTA_PER_MW as QUANTA_PER_MW
    from diploee.measures.series import Measure as Measure
    from diploee.measures.series import Stretch as Stretch
    from diploee.measures.series import to_mw as to_mw
    from diploee.measures.series import to_quanta as to_quanta
else:
    from diploee.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
