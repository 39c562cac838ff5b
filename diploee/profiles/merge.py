"""Merge libraries into a new one; the files are copied byte by byte."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diploee.errors import ProfileError
from diploee.files import check_folder, whole_folder
from diploee.profiles.library import library_files
from diploee.profiles.store import StoredProfile, place_of


@dataclass(frozen=True)
class Merged:
    """What a merge did."""

    n_profiles: int  # profiles of the new library
    n_same: int  # profiles that several libraries have with the same content, taken once
    n_replaced: int  # profiles left out because an earlier library has another one of their id


def merge_libraries(
    folders: Sequence[Path | str], out: Path, *, prefer_first: bool = False
) -> Merged:
    """Copy the profiles of several libraries into a new one."""
    check_folder(out)
    taken: dict[str, StoredProfile] = {}
    conflicts: list[tuple[StoredProfile, StoredProfile]] = []
    n_same = 0
    for path in library_files(*folders):
        stored = StoredProfile(path)
        first = taken.setdefault(stored.profile_id, stored)
        if first is not stored:
            if _same(first, stored):
                n_same += 1
            else:
                conflicts.append((first, stored))
    if conflicts and not prefer_first:
        first, second = conflicts[0]
        raise ProfileError(
            f"{second.path}: another profile than {first.path} has the id '{first.profile_id}' "
            f"({len(conflicts)} such ids); rename one of each, or take the first library's with "
            "'--prefer first'"
        )
    with whole_folder(out) as folder:
        for stored in taken.values():
            shutil.copyfile(stored.path, place_of(stored.profile_id, folder))
    return Merged(len(taken), n_same, len(conflicts))


def _same(first: StoredProfile, second: StoredProfile) -> bool:
    return (first.sha256, first.workload) == (second.sha256, second.workload)
