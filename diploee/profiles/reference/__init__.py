"""The shipped reference profiles: synthesised from published facts, not measured.

`facts` holds the numbers and their sources, `llama2` and `stable_diffusion` the structure in time,
`shaping` the readings made of it; `eight_gpus` is the library of nodes with eight GPUs, by itself.
Rebuilding gives the shipped files.
"""

from __future__ import annotations

from pathlib import Path

from diploee.files import writing
from diploee.profiles.library import EIGHT_GPUS, REFERENCE
from diploee.profiles.profile import PowerProfile
from diploee.profiles.reference import facts
from diploee.profiles.reference.eight_gpus import build_eight_gpu_profiles
from diploee.profiles.reference.llama2 import llama2_class
from diploee.profiles.reference.stable_diffusion import diffusion_class
from diploee.profiles.store import add_profile


def build_reference_profiles() -> list[PowerProfile]:
    """Build all reference profiles.

    Returns
    -------
    list of PowerProfile
        One per published run at 0.1 s in whole watts: Llama-2 on 2, 4, 8 and 16 nodes, then Stable
        Diffusion on 1, 2, 4, 8 and 16 nodes. Always the same.
    """
    llama2 = [profile for item in facts.LLAMA2_CLASSES for profile in llama2_class(item)]
    diffusion = [profile for item in facts.DIFFUSION_CLASSES for profile in diffusion_class(item)]
    return llama2 + diffusion


def write_reference_profiles(
    folder: Path, force: bool = False, library: str = REFERENCE
) -> list[Path]:
    """Build all profiles of a shipped library and write one Parquet file each, all or none.

    Parameters
    ----------
    folder : pathlib.Path
        Made if it does not exist.
    force : bool
        Replace files of the same names.
    library : {"reference", "reference-8gpu"}
        Which one.

    Returns
    -------
    list of pathlib.Path
        The files, named by profile id.
    """
    build = build_eight_gpu_profiles if library == EIGHT_GPUS else build_reference_profiles
    profiles = build()
    with writing(force) as files:
        return [add_profile(profile, folder, joins=files) for profile in profiles]


__all__ = ["build_eight_gpu_profiles", "build_reference_profiles", "write_reference_profiles"]
