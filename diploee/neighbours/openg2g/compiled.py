"""Common parts of data compiled per spec: their places in the cache, `save`, `load`, `ensure`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from diploee.errors import InputError
from diploee.neighbours.openg2g.cache import MANIFEST, Artifact, Cached
from diploee.neighbours.openg2g.openg2g_folder import openg2g_folder
from diploee.neighbours.openg2g.runs import BenchmarkRuns, BenchmarkSource
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.plain_data import checked


class CompiledModel(Protocol):
    """Artifacts compiled for one spec."""

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
    """Data compiled for several specs."""

    models: Mapping[str, M]  # by label
    params: Any = None  # how they were compiled, where there is a choice

    kind: ClassVar[str]
    schema_version: ClassVar[int]
    default_params: ClassVar[Any] = None
    needs_traces: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def _compile(
        cls, spec: InferenceModelSpec, runs: BenchmarkRuns, params: Any, details: dict[str, Any]
    ) -> M:
        """Make the data of a spec; more details may be added."""

    @classmethod
    @abstractmethod
    def _files(cls, model: M) -> Mapping[str, bytes]:
        """Return the files of a spec's data."""

    @classmethod
    @abstractmethod
    def _parse(cls, spec: InferenceModelSpec, params: Any, artifact: Artifact) -> M:
        """Read them back."""

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
        if not callable(getattr(source, "read", None)):
            raise InputError(
                f"source is of type {type(source).__name__}, expected one of measurements such as "
                "ResultsSource(...)"
            )
        params = params or cls.default_params
        models = {}
        for spec in (_with_batch_sizes(spec, source) for spec in specs):
            runs = source.read(spec, traces=cls.needs_traces)
            details = {
                "model_label": spec.model_label,
                "source": runs.source,
                "licence": runs.licence,
                "source_sha256": runs.sha256,
            }
            try:
                models[spec.model_label] = cls._compile(spec, runs, params, details)
            except InputError as error:
                raise InputError(f"{runs.source}: '{spec.model_label}': {error}") from error
        return cls(models, params)

    def save(self, data_dir: Path | str) -> None:
        """Write every model to ``<data_dir>/<hash of what it is made from>/<kind>/``."""
        for model in self.models.values():
            sha256 = str(model.details.get("source_sha256", ""))
            cached = self._cached(data_dir, model.spec, self.params, sha256)
            cached.save(self._files(model), model.details)

    @classmethod
    def load(
        cls, data_dir: Path | str, specs: Sequence[InferenceModelSpec], params: Any = None
    ) -> Self:
        """Read the models of specs, as `save` wrote them with the same parameters."""
        _check_labels(specs)
        params = params or cls.default_params
        whole = (_with_batch_sizes(spec, None) for spec in specs)
        found = {s.model_label: cls._cached(data_dir, s, params).load() for s in whole}
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

        A model is compiled when its cache is missing, not complete, of another schema version,
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
        params = params or cls.default_params
        found: dict[str, M] = {}
        for asked in specs:
            given = source
            if given is None and not asked.batch_sizes:
                given = default_source(data_dir, asked)
            spec = _with_batch_sizes(asked, given)
            sha256 = None if source is None else source.sha256(spec)
            model = cls._cached(data_dir, spec, params, sha256).find()
            if isinstance(model, str):
                made = cls.generate([spec], given or default_source(data_dir, spec), params)
                made.save(data_dir)
                model = made.models[spec.model_label]
            found[spec.model_label] = model
        return cls(found, params)

    @classmethod
    def _cached(
        cls, data_dir: Path | str, spec: InferenceModelSpec, params: Any, sha256: str | None = None
    ) -> Cached[M]:
        made_from = {"schema_version": cls.schema_version, **spec.data_fields()}
        if params is not None:
            made_from |= params.model_dump(mode="json")
        parse = partial(cls._parse, spec, params)
        return Cached(Path(data_dir), cls.kind, made_from, parse, sha256)


def default_source(data_dir: Path | str, spec: InferenceModelSpec) -> BenchmarkSource:
    """Return where a spec is measured that no source is given for: OpenG2G's folder, or the hub."""
    sources = import_module("diploee.neighbours.openg2g.sources")
    folder = openg2g_folder(data_dir, spec)
    is_there = (folder / MANIFEST).is_file()
    source: BenchmarkSource = (
        sources.OpenG2GSource(folder) if is_there else sources.MlEnergySource()
    )
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


def _check_labels(specs: Sequence[InferenceModelSpec]) -> None:
    labels = [spec.model_label for spec in specs]
    if not labels:
        raise InputError("no model spec given; give one or more")
    twice = sorted(label for label, n in Counter(labels).items() if n > 1)
    if twice:
        raise InputError(f"two specs have the label '{twice[0]}'; labels must differ")
