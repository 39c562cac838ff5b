"""Complete check of a profile library: every problem of every file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diploee.base.errors import Brief, ProfileError
from diploee.profiles.library import library_files
from diploee.profiles.profile import PowerProfile
from diploee.profiles.store import StoredProfile

IDLE_W, RATED_W, GPUS_W = 420.0, 3_520.0, 2_800.0
"""Idle and rated device power of the published node (4 x H100, 2 x EPYC 9554), and the
TDP of its GPUs [W] (arXiv:2604.07345)."""
ABOVE_RATED = 1.2
"""Maximum plausible sample in per unit of the rated power; the maximum mean is 1."""


@dataclass(frozen=True)
class _FileCheck:
    """The check of one file of a library."""

    path: Path  # the file
    # As in the file's metadata; empty and 0 if it can't be read
    profile_id: str
    workload: str
    n_nodes: int
    problems: tuple[str, ...]  # one line each


@dataclass(frozen=True)
class LibraryCheck(Brief):
    """The check of all files of a library."""

    files: tuple[_FileCheck, ...]  # in the order of their paths

    @property
    def n_problems(self) -> int:
        """Number of problems over all files."""
        return sum(len(file.problems) for file in self.files)

    @property
    def classes(self) -> dict[tuple[str, int], int]:
        """Number of readable profiles by workload and node count, sorted."""
        result = Counter(
            (file.workload, file.n_nodes) for file in self.files if file.profile_id
        )
        return dict(sorted(result.items()))


def check_library(
    *folders: Path | str, idle_w: float | None = None, rated_w: float | None = None
) -> LibraryCheck:
    """Read every file of one or several folders, and list its problems.

    Parameters
    ----------
    *folders : path
        Folders of profiles.
    idle_w, rated_w : float, optional
        Idle and rated power of a node [W], with which profiles are compared.
    """
    low_w = IDLE_W if idle_w is None else idle_w
    high_w = RATED_W if rated_w is None else rated_w
    if not 0 <= low_w < high_w < np.inf:
        raise ProfileError(
            f"a node idle at {low_w:g} W and rated {high_w:g} W, expected 0 or more, "
            "the rated power above the idle power"
        )
    first: dict[str, Path] = {}
    checks = []
    for path in library_files(*folders):
        head: tuple[str, str, int] = "", "", 0
        try:
            stored = StoredProfile(path)
            head = stored.profile_id, stored.workload, stored.n_nodes
            problems = list(_value_problems(stored.profile, idle_w, rated_w))
        except ProfileError as error:
            problems = [str(error).removeprefix(f"{path}: ")]
        first_path = first.setdefault(head[0], path)
        if head[0] and first_path is not path:
            problems.append(f"its id '{head[0]}' is that of {first_path}, too")
        checks.append(_FileCheck(path, *head, tuple(problems)))
    return LibraryCheck(tuple(checks))


def _value_problems(
    profile: PowerProfile, idle_w: float | None, rated_w: float | None
) -> Iterator[str]:
    """Yield a text for each implausible value of a profile.

    Implausible are samples far above the rated power, and a mean that is not between
    idle and rated power.
    """
    origin = profile.provenance
    gpus_w = (origin.gpus_per_node or 0) * (origin.gpu_tdp_w or 0) or GPUS_W
    idle_w = IDLE_W * gpus_w / GPUS_W if idle_w is None else idle_w
    rated_w = RATED_W * gpus_w / GPUS_W if rated_w is None else rated_w
    node_w = profile.power_w.astype(np.float64) / profile.n_nodes
    is_high = node_w > ABOVE_RATED * rated_w
    if is_high.any():
        yield (
            f"{int(is_high.sum())} values above {ABOVE_RATED:g} times the rated "
            f"{rated_w:,g} W of a node, up to {node_w.max():,.4g} W: is it of "
            f"{profile.n_nodes} nodes, and in W?"
        )
    mean_w = float(node_w.mean())
    if not idle_w <= mean_w <= rated_w:
        yield (
            f"mean of {mean_w:,.4g} W a node is outside {idle_w:,g} W idle to "
            f"{rated_w:,g} W rated: is it of {profile.n_nodes} nodes, in W, and of a "
            "job?"
        )
