"""`Load`: what draws power on a site's nodes, lowered to segments window after window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from diploee.columns import Columns
from diploee.facility.base import Block, Values
from diploee.loads.services.banks import Bank
from diploee.power import Segments
from diploee.profiles import PowerProfile, ProfileLibrary


class Load(Protocol):
    """A part of a site's load.

    Loads are opened one after the other, each with the library of the one before, behind whose
    profiles it puts its own: indices stay what they are.
    """

    @property
    def columns(self) -> Columns:
        """Columns that it adds to the series."""
        ...

    @property
    def library(self) -> ProfileLibrary:
        """Profiles of the loads before it and its own."""
        ...

    @property
    def profile_ids(self) -> set[int]:
        """Indices of the profiles that its segments refer to."""
        ...

    @property
    def ac_profiles(self) -> Mapping[int, PowerProfile]:
        """Those of them that are sums over nodes, at the nodes' AC input where that is modelled."""
        ...

    @property
    def banks(self) -> Sequence[Bank]:
        """Its nodes that play the same profiles piece by piece, planned for the whole run."""
        ...

    @property
    def replicas(self) -> Sequence[Any]:
        """What the bank of each stream of replicas does; empty for other loads."""
        ...

    def between(self, begin_ms: int, end_ms: int) -> Segments:
        """Return the segments that start in a window; windows adjoin from the start of a run."""
        ...

    def values(self, block: Block) -> Values:
        """Return its columns over a block."""
        ...

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return its blocks of ``metrics.json``, of one pool or of all; known after the run."""
        ...
