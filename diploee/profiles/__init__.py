"""Power profiles of jobs: the type, the Parquet store, the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.errors import ProfileError as ProfileError
    from diploee.base.files.places import shipped_folder as shipped_folder
    from diploee.profiles.check import LibraryCheck as LibraryCheck
    from diploee.profiles.check import check_library as check_library
    from diploee.profiles.flat import flat_profile as flat_profile
    from diploee.profiles.iterations import loop_of_iterations as loop_of_iterations
    from diploee.profiles.library import ProfileLibrary as ProfileLibrary
    from diploee.profiles.meters import Meter as Meter
    from diploee.profiles.meters import known_meter as known_meter
    from diploee.profiles.profile import PowerProfile as PowerProfile
    from diploee.profiles.profile import Provenance as Provenance
    from diploee.profiles.store import add_profile as add_profile
    from diploee.profiles.store import read_profile as read_profile
    from diploee.profiles.store import write_profile as write_profile
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
