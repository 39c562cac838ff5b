"""Rebuild the shipped libraries in place: ``python -m profiles.build``."""

from pathlib import Path

from profiles.build import LIBRARIES, write_reference_profiles

for library in LIBRARIES:
    write_reference_profiles(Path(__file__).parents[1] / library, library)
