"""`LibraryBuilder`: a library to which the streams add the profiles that they make themselves."""

from __future__ import annotations

from diploee.errors import ProfileError, did_you_mean, plural
from diploee.loads.jobs.source import StreamFrame
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.flat import flat_profile
from diploee.profiles.hardware import gpus_of, gpus_shown, is_other_hardware, scaled_by_tdp
from diploee.profiles.smoothing import smoothed
from diploee.profiles.stretching import stretched
from diploee.scenario import JobStream


class LibraryBuilder:
    """Profiles by index: those of a library, which keep theirs, and those added."""

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

    def select(self, workload: str, n_nodes: int, frame: StreamFrame) -> tuple[int, ...]:
        """Return the indices of the library's own profiles, as the nodes of a stream play them."""
        return self.on_nodes(self._library.select(workload, n_nodes), frame)

    def named(self, profile_id: str, frame: StreamFrame) -> tuple[int, ...]:
        """Return the index of one of the library's own profiles, likewise."""
        known = self._library.ids
        if profile_id not in known:
            raise ProfileError(
                f"no profile '{profile_id}' among the {len(known)} of the library"
                f"{did_you_mean(profile_id, known)}; add it (--profiles)"
            )
        return self.on_nodes((known.index(profile_id),), frame)

    def on_nodes(self, profile_ids: tuple[int, ...], frame: StreamFrame) -> tuple[int, ...]:
        """Return profiles as the nodes of a stream play them, those of other GPUs scaled."""
        node, entries = frame.node_type, self.library.entries
        other = [k for k in profile_ids if is_other_hardware(entries[k].provenance, node)]
        # With a factor of their own, users scale the power to the hardware themselves.
        if not other or node.busy_power_factor != 1:
            return profile_ids
        if not frame.scales_by_tdp:
            raise ProfileError(
                f"pool '{frame.pool}' has nodes with {gpus_shown(node.n_gpus, node.gpu_tdp_w)}, "
                f"{plural(len(other), 'profile')} such as '{entries[other[0]].profile_id}' "
                f"are of nodes with {gpus_of(entries[other[0]].provenance)}; use profiles of these "
                f"nodes (--profiles), or set facility.pools.{frame.pool}.scale_profiles: by_tdp"
            )
        library = self.library
        return tuple(
            self.index_of(scaled_by_tdp(library[k], node)) if k in other else k for k in profile_ids
        )

    def node_counts(self, workload: str) -> list[int]:
        """Return the node counts of a workload's profiles in the library."""
        return [e.n_nodes for e in self._library.entries if e.workload == workload]

    def variants(self, profile_ids: tuple[int, ...], spec: JobStream) -> tuple[int, ...]:
        """Add the slower and faster copies that a stream plays; return the indices of all."""
        if spec.profile_variants is None:
            return profile_ids
        library, factors = self.library, spec.profile_variants.time_factors()
        return tuple(
            index if factor == 1 else self.index_of(stretched(library[index], factor))
            for index in profile_ids
            for factor in factors
        )

    def smoothed(
        self, profile_ids: tuple[int, ...], spec: JobStream, frame: StreamFrame
    ) -> tuple[int, ...]:
        """Add profiles as the GPUs of a stream with power smoothing draw them."""
        if (smoothing := spec.power_smoothing) is None:
            return profile_ids
        library, node = self.library, frame.node_type
        return tuple(self.index_of(smoothed(library[k], smoothing, node)) for k in profile_ids)

    def flat(self) -> int:
        """Return the index of the flat profile."""
        return self.index_of(flat_profile())
