"""`LibraryBuilder`: a library to which the streams add the profiles that they make themselves."""

from __future__ import annotations

from collections.abc import Sequence

from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.flat import flat_profile
from diploee.profiles.smoothing import smoothed
from diploee.profiles.stretching import stretched
from diploee.scenario import NodeType, ProfileVariants
from diploee.scenario.power_smoothing import PowerSmoothing


class LibraryBuilder:
    """Profiles by index: those of a library, and those added.

    Parameters
    ----------
    library : ProfileLibrary
        Its profiles keep their indices.
    """

    def __init__(self, library: ProfileLibrary) -> None:
        self._library = library
        self._added: dict[str, PowerProfile] = {}

    @property
    def library(self) -> ProfileLibrary:
        """The library with all profiles added so far."""
        return self._library.extended(self._added.values()) if self._added else self._library

    def index_of(self, profile: PowerProfile) -> int:
        """Add a profile, unless one of its id was added before, and return its index."""
        self._added.setdefault(profile.profile_id, profile)
        return len(self._library) + list(self._added).index(profile.profile_id)

    def select(self, workload: str, n_nodes: int) -> tuple[int, ...]:
        """Return the indices of the library's own profiles; what streams added is theirs alone."""
        return self._library.select(workload, n_nodes)

    def node_counts(self, workload: str) -> list[int]:
        """Return the node counts of a workload's profiles in the library."""
        return [e.n_nodes for e in self._library.entries if e.workload == workload]

    def variants(self, profile_ids: Sequence[int], spec: ProfileVariants) -> tuple[int, ...]:
        """Add the slower and faster copies of profiles and return the indices of all copies."""
        return tuple(
            profile_id
            if factor == 1
            else self.index_of(stretched(self._library[profile_id], factor))
            for profile_id in profile_ids
            for factor in spec.time_factors()
        )

    def smoothed(
        self, profile_ids: Sequence[int], spec: PowerSmoothing, node: NodeType
    ) -> tuple[int, ...]:
        """Add profiles as GPUs with power smoothing draw them, and return their indices."""
        library = self.library
        return tuple(self.index_of(smoothed(library[index], spec, node)) for index in profile_ids)

    def flat(self) -> int:
        """Return the index of the flat profile."""
        return self.index_of(flat_profile())
