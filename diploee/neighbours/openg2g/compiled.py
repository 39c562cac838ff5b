"""Data compiled for specs, and their cache: a folder each, named by what they are made from.

A folder ``<data>/<hash>/<kind>/`` has a few files and the manifest `_manifest.json` with their
hashes, which whoever reads compares. It appears whole or not at all: of several callers that
compile the same at once the first wins, and the others discard theirs.
"""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from pydantic import Field

from diploee import __version__
from diploee.errors import InputError, one_of
from diploee.files import FolderKind, check_is_file, is_staged, reason, remove_leftovers, writing
from diploee.neighbours.openg2g.measurements import BenchmarkRuns, BenchmarkSource
from diploee.neighbours.openg2g.sources import MlEnergySource, OpenG2GSource
from diploee.neighbours.openg2g.sources.openg2g import MANIFEST, openg2g_folder
from diploee.neighbours.openg2g.spec import InferenceModelSpec, content_hash
from diploee.plain_data import SHA256, Record, checked, read_json

_READ_ATTEMPTS, _PAUSE_S = 100, 0.005

T = TypeVar("T")


@dataclass(frozen=True)
class Artifact:
    """A complete artifact as it was read."""

    place: Path  # its folder
    files: Mapping[str, bytes]  # content of its files, checked against the manifest
    details: Mapping[str, Any]  # what its writer noted

    def file(self, name: str) -> tuple[Path, bytes]:
        """Return a file's path and content; `InputError` where there is none of that name."""
        if name not in self.files:
            raise InputError(f"{MANIFEST} lists no {name}")
        return self.place / name, self.files[name]


class _Manifest(Record):
    files: dict[
        Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]*$")],
        Annotated[str, Field(pattern=SHA256)],
    ]
    details: dict[str, Any]


@dataclass(frozen=True)
class Cached(Generic[T]):
    """One artifact of a cache: what it is made from, and how it is read."""

    data_dir: Path
    kind: str  # name of its kind, such as ``"inference_data"``, and of its folder
    made_from: Mapping[str, Any]  # JSON values: parameters and the version of its files
    # Makes the content of the files, or raises `InputError`: then it is damaged
    parse: Callable[[Artifact], T]
    source_sha256: str | None = None  # hash of the source data; None accepts it from any

    @property
    def place(self) -> Path:
        """Its folder."""
        return self.data_dir / content_hash(self.made_from) / self.kind

    def find(self) -> T | str:
        """Return the content, or as a clause why there is none to use."""
        remove_leftovers(self.place.parent)
        for _ in range(_READ_ATTEMPTS):
            is_written = is_staged(self.place.parent)
            found = self._read()
            if not (isinstance(found, str) and is_written):
                break
            time.sleep(_PAUSE_S)
        return found

    def load(self) -> T:
        """Return the content, or raise `InputError`."""
        found = self.find()
        if isinstance(found, str):
            raise InputError(
                f"{self.place}: the cached {self.kind} {found}; generate it from its source"
            )
        return found

    def save(self, files: Mapping[str, bytes], details: Mapping[str, Any]) -> None:
        """Write the artifact, unless another was quicker; a damaged one is replaced."""
        manifest = {
            "made_from": self.made_from,
            "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
            "details": details,
            "diploee_version": __version__,
        }
        kind = FolderKind("an artifact", MANIFEST, (), lambda _: (MANIFEST, *map(escape, files)))
        with writing(force=True) as new:
            item = new.folder(self.place, kind, option="--data-dir")
            item.unless = lambda: not isinstance(self._read(), str)
            for name, content in files.items():
                (item.path / name).write_bytes(content)
            text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False)
            (item.path / MANIFEST).write_text(f"{text}\n", encoding="utf-8")

    def _read(self) -> T | str:
        if not self.place.exists():
            return "is not there for these parameters"
        try:
            manifest = read_json(self.place / MANIFEST, _Manifest)
            if self.source_sha256 not in (None, manifest.details.get("source_sha256")):
                return "was made from other source data"
            files = {name: self._file(name, sha256) for name, sha256 in manifest.files.items()}
            return self.parse(Artifact(self.place, files, manifest.details))
        except InputError as error:
            return f"is damaged ({error})"

    def _file(self, name: str, sha256: str) -> bytes:
        check_is_file(self.place / name)
        try:
            content = (self.place / name).read_bytes()
        except OSError as error:
            raise InputError(f"{name}: {reason(error)}") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise InputError(f"{name} was changed")
        return content


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """Artifacts compiled for one spec."""

    spec: InferenceModelSpec
    # JSON values for the manifest: source, licence, what was dropped; `source_sha256` is the hash
    # of the source data
    details: Mapping[str, Any]


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
        """Compile the data of specs, whose labels differ, from where they were measured."""
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
        **changed: Any,
    ) -> Self:
        """Read the models of specs, and first compile those that are not there as wanted.

        A model is compiled when its cache is missing, not complete, of another schema version,
        made with other parameters or from other source data. Without a source the cache is used,
        whatever its source, then what OpenG2G wrote in the same folder, then the ML.ENERGY
        benchmark on the hub. Some parameters may be `changed`, by their names.
        """
        _check_labels(specs)
        params = params or cls.default_params
        if changed and params is None:
            raise InputError(f"{cls.__name__} has no parameters, found {one_of(changed)}")
        if changed:
            params = type(params)(**{**params.model_dump(), **changed})
        found: dict[str, M] = {}
        for asked in specs:
            given = source
            if given is None and not asked.batch_sizes:
                given = _default_source(data_dir, asked)
            spec = _with_batch_sizes(asked, given)
            sha256 = None if source is None else source.sha256(spec)
            model = cls._cached(data_dir, spec, params, sha256).find()
            if isinstance(model, str):
                made = cls.generate([spec], given or _default_source(data_dir, spec), params)
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


def _default_source(data_dir: Path | str, spec: InferenceModelSpec) -> BenchmarkSource:
    """Return where a spec is measured that no source is given for: OpenG2G's folder, or the hub."""
    folder = openg2g_folder(data_dir, spec)
    return OpenG2GSource(folder) if (folder / MANIFEST).is_file() else MlEnergySource()


def _with_batch_sizes(
    spec: InferenceModelSpec, source: BenchmarkSource | None
) -> InferenceModelSpec:
    """Return a spec with the batch sizes that its source has, where it names none."""
    if spec.batch_sizes:
        return spec
    if source is None:
        raise InputError(
            f"'{spec.model_label}': batch_sizes are absent, and no source has them; give either"
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
