"""The shipped reference profiles: synthesised from published facts, not measured.

`facts` holds the numbers and their sources, `llama2` and `stable_diffusion` the
structure in time, `shaping` the readings made of it; `eight_gpus` and `commissioning`
are libraries by themselves. `just profiles` rebuilds the shipped files.
"""

from __future__ import annotations

from pathlib import Path

from diploee.profiles.library import COMMISSIONING, EIGHT_GPUS, REFERENCE
from diploee.profiles.profile import PowerProfile
from diploee.profiles.store import add_profile
from profiles.build import facts
from profiles.build.commissioning import build_commissioning_profiles
from profiles.build.eight_gpus import build_eight_gpu_profiles
from profiles.build.llama2 import llama2_class
from profiles.build.stable_diffusion import diffusion_class


def build_reference_profiles() -> list[PowerProfile]:
    """Build one profile per published run at 0.1 s in whole watts; always the same."""
    llama2 = [
        profile for item in facts.LLAMA2_CLASSES for profile in llama2_class(item)
    ]
    diffusion = [
        profile for item in facts.DIFFUSION_CLASSES for profile in diffusion_class(item)
    ]
    return llama2 + diffusion


LIBRARIES = {
    REFERENCE: build_reference_profiles,
    EIGHT_GPUS: build_eight_gpu_profiles,
    COMMISSIONING: build_commissioning_profiles,
}
"""Builders of the profiles of each shipped library."""


def write_reference_profiles(folder: Path, library: str) -> list[Path]:
    """Build all profiles of a shipped library as Parquet files."""
    profiles = LIBRARIES[library]()
    return [add_profile(profile, folder, force=True) for profile in profiles]
