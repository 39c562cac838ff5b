"""One measured job of the published data set, and the names that it goes by."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

TRAINING = "training"
WORKLOADS = {"llama2_70b_lora": ("llama2", "llama_2"), "stable_diffusion": ("stable_diffusion",)}
"""Workloads as scenarios and the reference profiles name them, by parts of the set's names."""
LONGEST_NAME = 80

Origin = Literal["raw", "aggregated"]


@dataclass(frozen=True)
class DatasetRun:
    """One measured job of the data set.

    Parameters
    ----------
    origin : {"raw", "aggregated"}
        Logs of all its nodes, or their published sum.
    workload : str
        Class of work, as scenarios name it.
    n_nodes : int
        Nodes.
    name : str
        What tells it from others of its class: the Slurm job, or where it lies.
    is_training : bool
        A job of a class, rather than a test of a served model.
    paths : tuple of pathlib.Path
        Its logs, or its Parquet file.
    place : str
        Where it lies, below the data set's folder.
    slurm_id : str
        Its Slurm job; empty where the set does not tell.
    remarks : str
        What the set's metadata tells about it.
    """

    origin: Origin
    workload: str
    n_nodes: int
    name: str
    is_training: bool
    paths: tuple[Path, ...]
    place: str
    slurm_id: str = ""
    remarks: str = ""

    @property
    def profile_id(self) -> str:
        """Id of its profile, such as ``"llama2_70b_lora-16n-1234567"``."""
        return f"{self.workload}-{self.n_nodes}n-{self.name}"


@dataclass(frozen=True)
class SkippedRun:
    """A run, or a folder of runs, that can't be read.

    Parameters
    ----------
    place : str
        Which one.
    problem : str
        Why, in one line.
    """

    place: str
    problem: str


@dataclass(frozen=True)
class Dataset:
    """What was found in a folder.

    Parameters
    ----------
    folder : pathlib.Path
        The data set.
    runs : list of DatasetRun
        Runs, by class and name.
    skipped : list of SkippedRun
        What can't be used, and why.
    """

    folder: Path
    runs: list[DatasetRun] = field(default_factory=list)
    skipped: list[SkippedRun] = field(default_factory=list)

    def place(self, path: Path) -> str:
        """Return a path as the data set knows it."""
        return path.relative_to(self.folder).as_posix()


def workload_of(name: str) -> str:
    """Return the class of work that a folder or a model's name stands for.

    Parameters
    ----------
    name : str
        Such as ``"training_llama2_70b_lora"`` or ``"Stable-Diffusion-v2"``.
    """
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not plain.startswith("inference"):
        for workload, parts in WORKLOADS.items():
            if any(part in plain for part in parts):
                return workload
    return plain.removeprefix(f"{TRAINING}_")[:LONGEST_NAME]


def slug(name: str) -> str:
    """Return a name as part of a file's name; the end of a long one tells it from others."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[-LONGEST_NAME:].strip("-.") or "run"
