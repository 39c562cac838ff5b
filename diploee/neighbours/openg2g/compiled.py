"""What all data compiled per spec shares: its places in the cache, `save`, `load`, `ensure`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from diploee.errors import InputError
from diploee.neighbours.openg2g.cache import (
    MANIFEST,
    Artifact,
    Recipe,
    find_artifact,
    load_artifact,
)
from diploee.neighbours.openg2g.cache_writing import save_artifact
from diploee.neighbours.openg2g.openg2g_folder import openg2g_folder
from diploee.neighbours.openg2g.runs import BenchmarkSource
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.problems import checked


class CompiledModel(Protocol):
    """What was compiled for one spec."""

    @property
    def spec(self) -> InferenceModelSpec:
        """The spec."""
        ...

    @property
    def details(self) -> Mapping[str, Any]:
        """JSON values for the manifest; `source_sha256` is the hash of the source data."""
        ...


M = TypeVar("M", bound=CompiledModel)


@dataclass(frozen=True, eq=False)
class CompiledData(ABC, Generic[M]):
    """What was compiled for several specs."""

    models: Mapping[str, M]  # by label
    params: Any = None  # how they were compiled, where there is a choice

    @classmethod
    @abstractmethod
    def _recipe(cls, spec: InferenceModelSpec, params: Any) -> Recipe:
        """Return what a spec's artifact is made from, and how it is read."""

    @classmethod
    @abstractmethod
    def _compile(cls, spec: InferenceModelSpec, source: BenchmarkSource, params: Any) -> M:
        """Make the data of a spec."""

    @classmethod
    @abstractmethod
    def _files(cls, model: M) -> Mapping[str, bytes]:
        """Return the files of a spec's data."""

    @classmethod
    def _default_params(cls) -> Any:
        return None

    @classmethod
    def generate(
        cls, specs: Sequence[InferenceModelSpec], source: BenchmarkSource, params: Any = None
    ) -> Self:
        """Compile the data of specs from a source.

        Parameters
        ----------
        specs : sequence of InferenceModelSpec
            Models; their labels differ.
        source : BenchmarkSource
            Where they were measured.
        params : object, optional
            How they are compiled, where there is a choice.
        """
        _check_source(source)
        params = params or cls._default_params()
        specs = [_with_batch_sizes(spec, source) for spec in specs]
        models = {spec.model_label: cls._compile(spec, source, params) for spec in specs}
        return cls(models, params)

    def save(self, data_dir: Path | str) -> None:
        """Write every model to ``<data_dir>/<hash of its spec>/<kind>/``."""
        params = self.params or self._default_params()
        for model in self.models.values():
            recipe = self._recipe(model.spec, params)
            whole = replace(recipe, source_sha256=str(model.details.get("source_sha256", "")))
            place = _place(data_dir, model.spec, recipe)
            save_artifact(place, whole, self._files(model), model.details)

    @classmethod
    def load(
        cls, data_dir: Path | str, specs: Sequence[InferenceModelSpec], params: Any = None
    ) -> Self:
        """Read the models of specs, as `save` wrote them with the same parameters."""
        _check_labels(specs)
        params = params or cls._default_params()
        found: dict[str, M] = {}
        for spec in (_with_batch_sizes(spec, None) for spec in specs):
            recipe = cls._recipe(spec, params)
            place = _place(data_dir, spec, recipe)
            found[spec.model_label] = load_artifact(place, recipe).content
        return cls(found, params)

    @classmethod
    def ensure(
        cls,
        data_dir: Path | str,
        specs: Sequence[InferenceModelSpec],
        source: BenchmarkSource | None = None,
        params: Any = None,
    ) -> Self:
        """Read the models of specs, and first compile those that are not there as wanted.

        A model is compiled when its cache is missing, not complete, of an older schema version,
        made with other parameters or from other source data.

        Parameters
        ----------
        data_dir : pathlib.Path or str
            The cache.
        specs : sequence of InferenceModelSpec
            Models; their labels differ.
        source : BenchmarkSource, optional
            Where they were measured. Without it the cache is used, whatever its source, then what
            OpenG2G wrote in the same folder, then the ML.ENERGY benchmark on the hub.
        params : object, optional
            How they are compiled, where there is a choice.
        """
        _check_labels(specs)
        params = params or cls._default_params()
        found: dict[str, M] = {}
        for asked in specs:
            given = source
            if given is None and not asked.batch_sizes:
                given = default_source(data_dir, asked)
            spec = _with_batch_sizes(asked, given)
            recipe = cls._recipe(spec, params)
            place = _place(data_dir, spec, recipe)
            if source is not None:
                recipe = replace(recipe, source_sha256=source.sha256(spec))
            cached = find_artifact(place, recipe)
            if isinstance(cached, Artifact):
                found[spec.model_label] = cached.content
                continue
            made = cls.generate([spec], given or default_source(data_dir, spec), params)
            made.save(data_dir)
            found |= made.models
        return cls(found, params)


def default_source(data_dir: Path | str, spec: InferenceModelSpec) -> BenchmarkSource:
    """Return where a spec is measured that no source is given for: OpenG2G's folder, or the hub."""
    sources = import_module("diploee.neighbours.openg2g.sources")
    folder = openg2g_folder(data_dir, spec)
    if (folder / MANIFEST).is_file():
        source: BenchmarkSource = sources.OpenG2GSource(folder)
        return source
    source = sources.MlEnergySource()
    return source


def _with_batch_sizes(
    spec: InferenceModelSpec, source: BenchmarkSource | None
) -> InferenceModelSpec:
    """Return a spec with the batch sizes that its source has, where it names none."""
    if spec.batch_sizes:
        return spec
    if source is None:
        raise InputError(
            f"'{spec.model_label}': batch_sizes are absent, and no source tells them; give either"
        )
    sizes = tuple(source.read(spec, traces=False).by_batch())
    given = spec.model_dump() | {"batch_sizes": sizes}
    where = f"'{spec.model_label}'"
    return checked(given, InferenceModelSpec, lambda _: where)


def _place(data_dir: Path | str, spec: InferenceModelSpec, recipe: Recipe) -> Path:
    return artifact_folder(Path(data_dir), spec.cache_hash(), recipe.kind)


def artifact_folder(data_dir: Path, key: str, kind: str) -> Path:
    """Return the folder of an artifact, ``<data_dir>/<key>/<kind>``."""
    return data_dir / key / kind


def _check_labels(specs: Sequence[InferenceModelSpec]) -> None:
    labels = [spec.model_label for spec in specs]
    if not labels:
        raise InputError("no model spec given; give one or more")
    twice = sorted(label for label, n in Counter(labels).items() if n > 1)
    if twice:
        raise InputError(f"two specs have the label '{twice[0]}'; labels must differ")


def _check_source(source: object) -> None:
    """Refuse what can't be read as a source of measurements, as None."""
    if not callable(getattr(source, "read", None)):
        raise InputError(
            f"source is of type {type(source).__name__}, expected one of measurements such as "
            "ResultsSource(...)"
        )
