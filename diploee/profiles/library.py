"""`ProfileLibrary`: a scenario's profiles, by workload and node count."""

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
"""The shipped libraries: of nodes with 4 x H100, with 8 x H100 at their AC input, and
stress, idle and HPL tests of the former."""

Entry = PowerProfile | StoredProfile | DerivedProfile
"""A profile of a library; all but the first read or compute their power when it is
needed."""


def library_files(*folders: Path | str) -> list[Path]:
    """Return the profile files of folders, one folder after the other."""
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
    """A set of power profiles, in the order of their ids.

    `extended` appends further ones.

    Parameters
    ----------
    profiles : iterable of PowerProfile or StoredProfile
        Their ids must differ.

    Raises
    ------
    ProfileError
        If there is none, or two share an id.
    """

    def __init__(self, profiles: Iterable[Entry]) -> None:
        self._hold(sorted(profiles, key=lambda profile: profile.profile_id))
        if not self._profiles:
            raise ProfileError("a profile library needs at least one profile")
        twice = [a for a, b in zip(self.ids, self.ids[1:], strict=False) if a == b]
        if twice:
            raise ProfileError(
                f"two profiles have the id '{twice[0]}'; rename or remove one"
            )

    @classmethod
    def open(cls, *folders: Path | str) -> ProfileLibrary:
        """Open profiles of folders, ``"reference"`` meaning the shipped ones.

        An earlier folder's profiles of a workload and node count replace those of later
        folders, so that measured profiles before ``"reference"`` swap their classes and
        leave the others.

        Parameters
        ----------
        *folders : pathlib.Path or str
            Searched for ``*.parquet`` at any depth; none means ``"reference"``.

        Raises
        ------
        ProfileError
            If a folder does not exist or holds no profile, or a file is not usable.
        """
        stored: list[StoredProfile] = []
        for folder in folders or (REFERENCE,):
            files = library_files(folder)
            known = {(profile.workload, profile.n_nodes) for profile in stored}
            result = map(StoredProfile, files)
            stored.extend(p for p in result if (p.workload, p.n_nodes) not in known)
        return cls(stored)

    @classmethod
    def in_order(cls, profiles: Iterable[Entry]) -> ProfileLibrary:
        """Build a library that is indexed, as by rows of segments, not drawn from.

        The profiles stay in this order; there may be none, and ids may repeat (`get`
        finds the first).
        """
        library = cls.__new__(cls)
        library._hold(list(profiles))
        return library

    def extended(self, profiles: Iterable[Entry]) -> ProfileLibrary:
        """Return a library with this one's profiles first, and others behind."""
        return ProfileLibrary.in_order([*self._profiles, *profiles])

    def _hold(self, profiles: list[Entry]) -> None:
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
        """The profiles' heads (id, workload, nodes, duration) without power."""
        return tuple(self._profiles)

    def get(self, profile_id: str) -> PowerProfile:
        """Return one profile by its id.

        Raises
        ------
        ProfileError
            If there is none; the text names the nearest id.
        """
        if profile_id not in self.ids:
            raise ProfileError(
                f"no profile '{profile_id}' among the {len(self)} of the library; "
                "'diploee profiles list' shows "
                f"them{did_you_mean(profile_id, self.ids)}"
            )
        return self[self.ids.index(profile_id)]

    def select(self, workload: str, n_nodes: int) -> tuple[int, ...]:
        """Return the indices of all profiles of a workload on a node count.

        Raises
        ------
        ProfileError
            If there is none; the text lists what there is.
        """
        result = tuple(
            index
            for index, profile in enumerate(self._profiles)
            if (profile.workload, profile.n_nodes) == (workload, n_nodes)
        )
        if result:
            return result
        have: dict[str, list[int]] = {}
        for profile in self._profiles:
            have.setdefault(profile.workload, []).append(profile.n_nodes)
        nodes = ", ".join(map(str, sorted({*have.get(workload, ())})))
        on = f"on {n_nodes} nodes (have: {nodes}); to scale one linearly, set "
        raise ProfileError(
            f"no profile of workload '{workload}' "
            + (
                f"{on}'scale_from_n_nodes'"
                if nodes
                else f"(have: {one_of(sorted(have))}){did_you_mean(workload, have)}"
            )
        )
