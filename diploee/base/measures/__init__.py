"""Measures: what is summed, ranked and counted of a series, whatever its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.measures.series import QUANTA_PER_MW as QUANTA_PER_MW
    from diploee.base.measures.series import Measure as Measure
    from diploee.base.measures.series import Stretch as Stretch
    from diploee.base.measures.series import to_mw as to_mw
    from diploee.base.measures.series import to_quanta as to_quanta
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
