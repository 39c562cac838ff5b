"""Power profiles of jobs: the type, the Parquet store, the library."""

from diploee.profiles.library import REFERENCE, ProfileLibrary
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.store import add_profile, read_profile, write_profile

__all__ = [
    "REFERENCE",
    "PowerProfile",
    "ProfileLibrary",
    "Provenance",
    "add_profile",
    "read_profile",
    "write_profile",
]
