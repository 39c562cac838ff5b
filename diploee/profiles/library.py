"""`ProfileLibrary`: the power profiles of a scenario, by workload and node count."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from diploee.base.errors import ProfileError, did_you_mean, one_of, plural
from diploee.base.files.paths import shipped_folder
from diploee.profiles.derived import DerivedProfile
from diploee.profiles.profile import PowerProfile
from diploee.profiles.store import StoredProfile

REFERENCE, EIGHT_GPUS, COMMISSIONING = "reference", "reference-8gpu", "commissioning"
SHIPPED = (REFERENCE, EIGHT_GPUS, COMMISSIONING)
"""The shipped libraries: nodes with 4 x H100; nodes with 8 x H100, AC power; and
stress, idle and HPL tests of nodes with 4 x H100."""

Entry = PowerProfile | StoredProfile | DerivedProfile
"""A profile of a library; stored and derived profiles have their power on demand."""


def library_files(*folders: Path | str) -> list[Path]:
    """Return the profile files of folders, in the order of the folders."""
    result: list[Path] = []
    for folder in folders:
        path = (
            shipped_folder("profiles") / folder if folder in SHIPPED else Path(folder)
        )
        # Unlike pathlib's, no error for any text
        if not os.path.isdir(path):  # noqa: PTH112
            raise ProfileError(
                f"{folder}: no such profile folder; give a folder of profile files "
                f"or a shipped one ({one_of(SHIPPED)})"
            )
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise ProfileError(
                f"{folder}: no *.parquet profiles in this folder; "
                "import some with 'diploee profiles import'"
            )
        result.extend(files)
    return result


class ProfileLibrary:
    """A set of power profiles, sorted by id.

    Parameters
    ----------
    profiles : iterable of PowerProfile or StoredProfile
        Profiles with distinct ids.

    Raises
    ------
    ProfileError
        If there is none, or two share an id.
    """

    def __init__(self, profiles: Iterable[Entry]) -> None:
        self._set_profiles(sorted(profiles, key=lambda profile: profile.profile_id))
        if not self._profiles:
            raise ProfileError("a profile library needs at least one profile")
        duplicates = [a for a, b in zip(self.ids, self.ids[1:], strict=False) if a == b]
        if duplicates:
            raise ProfileError(
                f"two profiles have the id '{duplicates[0]}'; rename or remove one"
            )

    @classmethod
    def open(cls, *folders: Path | str) -> ProfileLibrary:
        """Open the profiles of folders; ``"reference"`` has the shipped profiles.

        If several folders have profiles of the same workload and node count, only those
        of the first such folder are used.

        Parameters
        ----------
        *folders : pathlib.Path or str
            Searched for ``*.parquet`` at any depth; none means ``"reference"``.

        Raises
        ------
        ProfileError
            If a folder does not exist or has no profile, or a file is not usable.
        """
        stored: list[StoredProfile] = []
        for folder in folders or (REFERENCE,):
            files = library_files(folder)
            known_classes = {(profile.workload, profile.n_nodes) for profile in stored}
            profiles = map(StoredProfile, files)
            stored.extend(
                p for p in profiles if (p.workload, p.n_nodes) not in known_classes
            )
        return cls(stored)

    @classmethod
    def in_order(cls, profiles: Iterable[Entry]) -> ProfileLibrary:
        """Build a library that is accessed by index, such as from rows of segments.

        The profiles keep their order; there may be none, and ids may repeat (`get`
        returns the first).
        """
        library = cls.__new__(cls)
        library._set_profiles(list(profiles))
        return library

    def extended(self, profiles: Iterable[Entry]) -> ProfileLibrary:
        """Return a library with this library's profiles, followed by others."""
        return ProfileLibrary.in_order([*self._profiles, *profiles])

    def _set_profiles(self, profiles: list[Entry]) -> None:
        """Store the profiles and their ids."""
        self._profiles = profiles
        self.ids = tuple(profile.profile_id for profile in profiles)

    def __repr__(self) -> str:
        return f"ProfileLibrary({plural(len(self), 'profile')})"

    def __len__(self) -> int:
        return len(self._profiles)

    def __getitem__(self, index: int) -> PowerProfile:
        profile = self._profiles[index]
        return profile if isinstance(profile, PowerProfile) else profile.profile

    @property
    def entries(self) -> Sequence[Entry]:
        """Profiles without loading their power: id, workload, nodes, duration."""
        return tuple(self._profiles)

    def get(self, profile_id: str) -> PowerProfile:
        """Return a profile by its id.

        Raises
        ------
        ProfileError
            If there is none; the text suggests the closest id.
        """
        if profile_id not in self.ids:
            raise ProfileError(
                f"no profile '{profile_id}' among the {len(self)} of the library; "
                "'diploee profiles list' shows "
                f"them{did_you_mean(profile_id, self.ids)}"
            )
        return self[self.ids.index(profile_id)]

    def select(self, workload: str, n_nodes: int) -> tuple[int, ...]:
        """Return the indices of all profiles of a workload and node count.

        Raises
        ------
        ProfileError
            If there is none; the text lists the existing ones.
        """
        indices = tuple(
            index
            for index, profile in enumerate(self._profiles)
            if (profile.workload, profile.n_nodes) == (workload, n_nodes)
        )
        if indices:
            return indices
        nodes_by_workload: dict[str, list[int]] = {}
        for profile in self._profiles:
            nodes_by_workload.setdefault(profile.workload, []).append(profile.n_nodes)
        nodes = ", ".join(map(str, sorted({*nodes_by_workload.get(workload, ())})))
        mismatch = f"on {n_nodes} nodes (have: {nodes}); to scale one linearly, set "
        raise ProfileError(
            f"no profile of workload '{workload}' "
            + (
                f"{mismatch}'scale_from_n_nodes'"
                if nodes
                else f"(have: {one_of(sorted(nodes_by_workload))})"
                f"{did_you_mean(workload, nodes_by_workload)}"
            )
        )
