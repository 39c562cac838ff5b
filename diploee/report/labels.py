"""Names of runs in legends, and the unit of power that suits their size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diploee.outputs import Run
from diploee.units import J_PER_MWH, W_PER_KW, W_PER_MW

MAX_DIFFERENCES = 2


@dataclass(frozen=True)
class PowerUnit:
    """A unit of power and the unit of energy that goes with it."""

    power: str
    energy: str
    watts: float
    joules: float


MEGAWATT = PowerUnit("MW", "MWh", W_PER_MW, J_PER_MWH)
KILOWATT = PowerUnit("kW", "kWh", W_PER_KW, J_PER_MWH / 1000)


def power_unit(max_w: float) -> PowerUnit:
    """Return MW from 0.1 MW on, else kW."""
    return MEGAWATT if max_w >= 0.1 * W_PER_MW else KILOWATT


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Return one label for each run, all different.

    A single run is named by its scenario. Several runs of one scenario are named by what differs
    between their resolved scenarios if that is one or two keys, else by their folders.
    """
    names = [str(run.manifest.get("scenario_name", run.folder.name)) for run in runs]
    if _unique(names):
        return names
    by_difference = _by_difference([_settings(run) for run in runs])
    if by_difference and _unique(by_difference):
        return by_difference
    folders = [run.folder.absolute().name for run in runs]
    if _unique(folders):
        return folders
    counts: Counter[str] = Counter()
    labels = []
    for folder in folders:
        counts[folder] += 1
        labels.append(f"{folder} ({counts[folder]})" if counts[folder] > 1 else folder)
    return labels


def _unique(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _settings(run: Run) -> dict[str, Any]:
    return {
        **dict(_leaves(run.manifest.get("scenario", {}))),
        "engine": run.manifest.get("engine"),
        "version": run.manifest.get("diploee_version"),
    }


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, repr(tree) if isinstance(tree, list) else tree


def _by_difference(settings: Sequence[dict[str, Any]]) -> list[str]:
    keys = sorted({key for one in settings for key in one})
    differing = [key for key in keys if len({repr(one.get(key)) for one in settings}) > 1]
    short = [key.rsplit(".", 1)[-1].replace("_", " ") for key in differing]
    if not 0 < len(differing) <= MAX_DIFFERENCES or not _unique(short):
        return []
    values = [[one.get(key) for key in differing] for one in settings]
    if any(len(str(value)) > 20 for row in values for value in row):
        return []
    return [
        ", ".join(f"{name} {value}" for name, value in zip(short, row, strict=True))
        for row in values
    ]
