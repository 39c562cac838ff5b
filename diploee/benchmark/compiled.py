"""What all data compiled per spec shares: its places in the cache, `save`, `load`, `ensure`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from diploee.benchmark.cache import Artifact, Stamp, find_artifact, load_artifact
from diploee.benchmark.cache_writing import save_artifact
from diploee.benchmark.runs import BenchmarkSource
from diploee.benchmark.spec import InferenceModelSpec
from diploee.errors import InputError


class Compiled(Protocol):
    """What was compiled for one spec."""

    @property
    def details(self) -> Mapping[str, Any]:
        """JSON values for the manifest; `source_sha256` is the hash of the source data."""
        ...


C = TypeVar("C", bound=Compiled)


def artifact_folder(data_dir: Path, key: str, kind: str) -> Path:
    """Return the folder of an artifact, ``<data_dir>/<key>/<kind>``."""
    return data_dir / key / kind


def check_labels(specs: Sequence[InferenceModelSpec]) -> None:
    """Refuse specs whose labels do not differ.

    Raises
    ------
    InputError
        If there is no spec, or two have one label.
    """
    labels = [spec.model_label for spec in specs]
    if not labels:
        raise InputError("no model spec given; give one or more")
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(f"two specs have the label '{twice[0]}'; labels must differ")


def check_source(source: object) -> None:
    """Refuse what can't be read as a source of measurements.

    Raises
    ------
    InputError
        If it has no method `read`, as None.
    """
    if not callable(getattr(source, "read", None)):
        raise InputError(
            f"source is of type {type(source).__name__}, expected one of measurements such as "
            "ResultsSource(...)"
        )


def save_each(
    data_dir: Path,
    parts: Iterable[tuple[InferenceModelSpec, Stamp, Mapping[str, bytes], Mapping[str, Any]]],
) -> None:
    """Write artifacts: for each its spec, stamp, files and details.

    Raises
    ------
    InputError
        If one of a newer schema version stands there.
    OutputError
        If one can't be written.
    """
    for spec, stamp, files, details in parts:
        whole = replace(stamp, source_sha256=str(details.get("source_sha256", "")))
        place = artifact_folder(data_dir, spec.cache_hash(), stamp.kind)
        save_artifact(place, whole, files, details)


def load_each(
    data_dir: Path,
    specs: Sequence[InferenceModelSpec],
    stamp: Callable[[InferenceModelSpec], Stamp],
) -> list[tuple[InferenceModelSpec, Artifact]]:
    """Read the artifacts of specs, from whatever source they were made.

    Raises
    ------
    InputError
        If one is not there as wanted.
    """
    check_labels(specs)
    return [
        (spec, load_artifact(artifact_folder(data_dir, spec.cache_hash(), of.kind), of))
        for spec in specs
        for of in [stamp(spec)]
    ]


def ensure_each(
    data_dir: Path,
    specs: Sequence[InferenceModelSpec],
    source: BenchmarkSource | None,
    *,
    stamp: Callable[[InferenceModelSpec], Stamp],
    generate: Callable[[InferenceModelSpec, BenchmarkSource], C],
    files: Callable[[C], Mapping[str, bytes]],
    parse: Callable[[InferenceModelSpec, Artifact], C],
) -> dict[str, C]:
    """Read what is cached as wanted; generate and save the rest.

    Parameters
    ----------
    data_dir : pathlib.Path
        The cache.
    specs : sequence of InferenceModelSpec
        Models; their labels differ.
    source : BenchmarkSource or None
        Without it only the cache is used, whatever source it was made from.
    stamp, generate, files, parse : callable
        Of the kind of data: its stamp, how to make it, write it and read it.

    Returns
    -------
    dict of str to object
        What was compiled, by label.

    Raises
    ------
    InputError
        If something is neither cached nor can be generated, or is of a newer schema version.
    OutputError
        If the cache can't be written.
    """
    check_labels(specs)
    found: dict[str, C] = {}
    for spec in specs:
        wanted = stamp(spec)
        place = artifact_folder(data_dir, spec.cache_hash(), wanted.kind)
        if source is None:
            found[spec.model_label] = parse(spec, load_artifact(place, wanted))
            continue
        cached = find_artifact(place, replace(wanted, source_sha256=source.sha256(spec)))
        if isinstance(cached, Artifact):
            found[spec.model_label] = parse(spec, cached)
            continue
        made = generate(spec, source)
        save_each(data_dir, [(spec, wanted, files(made), made.details)])
        found[spec.model_label] = made
    return found
