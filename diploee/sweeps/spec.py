"""Sweep file models: base scenario, axes, seeds and draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, SerializeAsAny, model_validator

from diploee.base.errors import did_you_mean, one_of
from diploee.base.metric import find_metric
from diploee.base.model import MAX_SEED, Model, default, unset
from diploee.base.validation import KeyPath
from diploee.metrics.catalogue import declared_metrics
from diploee.sweeps.draws import DRAWS, Draw

Problem = tuple[KeyPath, str]
Values = Annotated[
    dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)
]
Keep = Literal["metrics", "series", "all"]

KEPT_FILES: dict[Keep, tuple[str, ...]] = {
    "metrics": (),
    "series": ("facility.parquet",),
    "all": ("facility.parquet", "jobs.parquet"),
}
"""Large files of a run folder that each choice of `keep` keeps; the small ones always
stay."""

_KINDS = ("grid", "zip", "cases")
_NOT_AN_AXIS = {
    "seed": "the seed is no key to vary here; list seeds under 'seeds:'",
    "name": "a name changes no result; use 'cases:' to name runs",
    "description": "a description changes no result; use 'cases:' to name runs",
}


class SweepAxis(Model):
    """Block of axes of a sweep.

    A sweep has a point for each combination of its blocks' points.
    """

    grid: Values | None = unset("Values by dotted key; every combination is run.")
    zip: Values | None = unset(
        "Lists of equal length by dotted key; run k takes the k-th value of each."
    )
    cases: Annotated[dict[str, dict[str, Any]], Field(min_length=1)] | None = unset(
        "Named sets of values by dotted key."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> SweepAxis:
        given = [name for name in _KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            result = one_of(given) if given else "none"
            raise ValueError(
                f"give exactly one of 'grid', 'zip', 'cases' per block, found {result}"
            )
        return self

    @property
    def kind(self) -> str:
        """Kind of the block: ``grid``, ``zip`` or ``cases``."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @property
    def values(self) -> Values:
        """Values of a grid or a zip, by dotted key."""
        return self.grid or self.zip or {}

    def keys(self) -> dict[str, KeyPath]:
        """Return the key path in the sweep file of each dotted key that varies."""
        if self.cases is None:
            return {key: (self.kind, key) for key in self.values}
        return {
            key: ("cases", case, key)
            for case, values in self.cases.items()
            for key in values
        }

    def n_points(self) -> int:
        """Return the number of points of the block."""
        if self.cases is not None:
            return len(self.cases)
        lengths = [len(values) for values in self.values.values()]
        return prod(lengths) if self.zip is None else lengths[0]

    def problems(self) -> Iterator[Problem]:
        """Yield the problems within the block."""
        lengths = {key: len(values) for key, values in (self.zip or {}).items()}
        if len(set(lengths.values())) > 1:
            result = ", ".join(
                f"{length} for '{key}'" for key, length in lengths.items()
            )
            yield ("zip",), f"zipped lists must have one length, found {result}"


class SweepSpec(Model):
    """Contents of a sweep file."""

    description: str = default("", "Purpose of the sweep.")
    base: str = Field(
        description=(
            "Base scenario of every run: a built-in name, or a file relative to the "
            "sweep file."
        )
    )
    set: dict[str, Any] = Field(
        default_factory=dict, description="Values by dotted key for every run."
    )
    axes: tuple[SweepAxis, ...] = default(
        (), "Blocks of axes: grid, zip or cases; blocks multiply."
    )
    seeds: PositiveInt | tuple[Annotated[int, Field(ge=0, le=MAX_SEED)], ...] | None = (
        unset("Seeds of every point: a list, or n for 0 to n-1.")
    )
    keep: Keep = default(
        "series",
        "Files that are kept per run: metrics (with manifest and load shape), series "
        "(also facility.parquet) or all (also jobs.parquet).",
    )
    draw: dict[str, Annotated[SerializeAsAny[Draw], DRAWS]] = Field(
        default_factory=dict,
        description="Distributions by dotted key, sampled separately for each seed.",
    )
    accuracy: Annotated[float, Field(ge=1e-6, lt=1)] = default(
        0.01,
        (
            "Relative half-width of a 95 % confidence interval, for which the ensemble "
            "reports the required number of seeds."
        ),
    )

    metrics: tuple[str, ...] = default(
        (),
        (
            "Dotted keys of the metrics in tables and figures, such as "
            "grid.ramps.intervals.60s.up.max_mw; by default those that planners need "
            "first. The files contain all."
        ),
    )

    def seed_list(self, seed_of_base: int) -> tuple[int, ...]:
        """Return the seeds of every point."""
        if self.seeds is None:
            return (seed_of_base,)
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def n_seeds(self) -> int:
        """Return the number of seeds of every point."""
        return self.seeds if isinstance(self.seeds, int) else len(self.seeds or (None,))

    def n_points(self) -> int:
        """Return the number of combinations of the axes."""
        return prod(axis.n_points() for axis in self.axes)

    def varied_keys(self) -> Iterator[tuple[str, KeyPath]]:
        """Return every dotted key of axes and draws, with its path in the file."""
        for number, axis in enumerate(self.axes):
            for key, key_path in axis.keys().items():
                yield key, ("axes", number, *key_path)
        for key in self.draw:
            yield key, ("draw", key)


def spec_problems(spec: SweepSpec) -> Iterator[Problem]:
    """Yield problems within a sweep file, each with its key path."""
    for number, axis in enumerate(spec.axes):
        for key_path, text in axis.problems():
            yield ("axes", number, *key_path), text
    for key, key_path in [
        *spec.varied_keys(),
        *((key, ("set", key)) for key in spec.set),
    ]:
        if key in _NOT_AN_AXIS and not (key_path[0] == "set" and key != "seed"):
            yield key_path, _NOT_AN_AXIS[key]
    declared = declared_metrics()
    for number, key in enumerate(spec.metrics):
        if find_metric(key, declared) is None:
            near = did_you_mean(key, [metric.key for metric in declared])
            yield (
                ("metrics", number),
                f"no metric '{key}' (docs/OUTPUTS.md lists them){near}",
            )
    yield from _overlaps(spec)
    if isinstance(spec.seeds, tuple):
        twice = sorted(seed for seed, n in Counter(spec.seeds).items() if n > 1)
        if not spec.seeds:
            yield (
                ("seeds",),
                "an empty list; give seeds, a number of seeds, or remove it",
            )
        if twice:
            yield ("seeds",), f"seed {twice[0]} is given twice; every seed is one run"


def _overlaps(spec: SweepSpec) -> Iterator[Problem]:
    """Yield a problem for each key set twice: by two axes, or an axis and `set`."""
    key_paths: dict[str, KeyPath] = {}
    key_in_group: dict[str, str] = {}  # of each group of keys, one that was seen in it
    for key, key_path in spec.varied_keys():
        if key_path[0] == "draw" and spec.draw[key].is_relative:
            continue  # changes what is there, whoever put it there
        if key in key_paths:
            yield (
                key_path,
                (
                    f"two axes on one key, the other at {_format_key(key_paths[key])}; "
                    "remove one"
                ),
            )
        groups = parent_keys(key)
        others = [group for group in groups if group in key_paths]
        for other in [*others, key_in_group[key]] if key in key_in_group else others:
            yield (
                key_path,
                (
                    f"overlaps '{other}' at {_format_key(key_paths[other])}: one would "
                    "undo the other"
                ),
            )
        if key in spec.set:
            yield (
                key_path,
                "is also given under 'set', which the axis would undo; remove one",
            )
        key_paths[key] = key_path
        key_in_group |= dict.fromkeys(groups, key)


def parent_keys(key: str) -> list[str]:
    """Return the parent keys of a dotted key, ``a``, ``a.b`` of ``a.b.c``."""
    return [key[:end] for end, sign in enumerate(key) if sign == "."]


def _format_key(key_path: KeyPath) -> str:
    return (
        ".".join(map(str, key_path[:2])) if key_path[0] == "axes" else str(key_path[0])
    )
