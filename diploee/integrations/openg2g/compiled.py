"""Data compiled for specs, and their cache: `InferenceData`, `LogisticModelStore`.

The one are power traces and latency mixtures, the other logistic fits of power, latency
and throughput. A folder ``<data>/<spec.cache_hash()>/<kind>/`` has a few files and
`_manifest.json`, and appears whole or not at all; with other parameters than the
default ones it has their hash in its name.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from pydantic import Field

from diploee.base.errors import Brief, InputError, one_of
from diploee.base.files import FolderKind, whole_folder
from diploee.base.model import Model, default
from diploee.base.plain_data import Record, checked, read_json
from diploee.base.tables import Float64Array
from diploee.base.units import whole_ms
from diploee.base.version import full_version
from diploee.importers.text.source import read_bytes
from diploee.integrations.openg2g.itl_mixture import (
    MAX_SAMPLES,
    MIN_SAMPLES,
    ITLMixtureModel,
)
from diploee.integrations.openg2g.logistic import LogisticModel
from diploee.integrations.openg2g.measurements import (
    REPLICA_POWER,
    BenchmarkRun,
    BenchmarkRuns,
    BenchmarkSource,
    median_trace_w,
    run_power_w,
    sampling_interval_s,
)
from diploee.integrations.openg2g.serving import ServingFits
from diploee.integrations.openg2g.sources.ml_energy import MlEnergySource
from diploee.integrations.openg2g.sources.openg2g import (
    FIT_FILE,
    FITS,
    ITL_FILE,
    MANIFEST,
    TRACE_COLUMNS,
    TRACE_FILE,
    OpenG2GSource,
    fits_of,
    format_columns,
    mixtures_of,
    openg2g_folder,
    traces_of,
)
from diploee.integrations.openg2g.spec import InferenceModelSpec, StepS, content_hash
from diploee.profiles.meters import reach
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.resample import round_keeping_energy

ITL_SCHEMA = "itl_fit.lognormal_mixture_2"
FIT_SCHEMA = "logistic_v1"
_TRACE_STEP_S = 0.1
# What a run has of each quantity, and the words for what it lacks.
_MEASURED = {
    "power": ("mean_power_w", "mean power and no power in time"),
    "itl": ("median_itl_s", "inter-token latency"),
    "throughput": ("throughput_tps", "throughput"),
}


class _CompiledManifest(Record):
    details: dict[str, Any]


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """Data compiled for one spec."""

    spec: InferenceModelSpec
    # JSON values for the manifest: source, licence, what was dropped; `source_sha256`
    # is the hash of the source data
    details: Mapping[str, Any]


M = TypeVar("M", bound=CompiledModel)
Files = Mapping[str, tuple[Path, bytes]]
"""Places and contents of files by name."""


@dataclass(frozen=True, eq=False)
class CompiledData(Brief, ABC, Generic[M]):
    """Data compiled for several specs."""

    models: Mapping[str, M]  # by label
    params: Any = None  # how they were compiled, where there is a choice

    kind: ClassVar[str]
    names: ClassVar[tuple[str, ...]]  # of its files
    schema_version: ClassVar[int] = 1
    default_params: ClassVar[Any] = None
    needs_traces: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def _compile(
        cls,
        spec: InferenceModelSpec,
        runs: BenchmarkRuns,
        params: Any,
        details: dict[str, Any],
    ) -> M:
        """Make the data of a spec; more details may be added."""

    @classmethod
    @abstractmethod
    def _files(cls, model: M) -> Mapping[str, bytes]:
        """Return the files of a spec's data."""

    @classmethod
    @abstractmethod
    def _parse(
        cls,
        spec: InferenceModelSpec,
        params: Any,
        files: Files,
        details: Mapping[str, Any],
    ) -> M:
        """Read them back, or raise `InputError`."""

    @classmethod
    def generate(
        cls,
        specs: Sequence[InferenceModelSpec],
        source: BenchmarkSource | None = None,
        params: Any = None,
        **changed: Any,
    ) -> Self:
        """Compile the data of specs with different labels from their measurements.

        That is the ML.ENERGY benchmark on the hub where no source is given. Some
        parameters may be `changed`, by their names, such as ``dt_s=0.1``.
        """
        params, source = cls._params(params, changed), source or MlEnergySource()
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
                raise InputError(
                    f"{runs.source}: '{spec.model_label}': {error}"
                ) from error
        return cls(models, params)

    def save(self, data_dir: Path | str) -> None:
        """Write every model to ``<data_dir>/<spec.cache_hash()>/<kind>/``."""
        kind = FolderKind(
            "an artifact", MANIFEST, (), lambda _: (MANIFEST, *self.names)
        )
        for model in self.models.values():
            manifest = {
                "made_from": model.spec.data_fields() | self._how(self.params),
                "details": model.details,
                "diploee_version": full_version(),
            }
            text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False)
            files = {**self._files(model), MANIFEST: f"{text}\n".encode()}
            place = self._place(data_dir, model.spec, self.params)
            with whole_folder(place, True, kind=kind, option="--data-dir") as folder:
                for name, content in files.items():
                    (folder / name).write_bytes(content)

    @classmethod
    def load(
        cls,
        data_dir: Path | str,
        specs: Sequence[InferenceModelSpec],
        params: Any = None,
    ) -> Self:
        """Read the models of specs, as `save` wrote them with the same parameters."""
        _check_labels(specs)
        params, found = params or cls.default_params, {}
        for spec in (_with_batch_sizes(spec, None) for spec in specs):
            model = cls._find(data_dir, spec, params)
            if isinstance(model, str):
                raise InputError(
                    f"{cls._place(data_dir, spec, params)}: the cached {cls.kind} "
                    f"{model}; generate it from its source"
                )
            found[spec.model_label] = model
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
        """Read the models of specs, compiling first those that are missing.

        A model is compiled when its cache is missing, not complete, of another schema
        version, made with other parameters or from other source data. Without a source
        the cache is used, whatever its source, then what OpenG2G wrote in the same
        folder, then the ML.ENERGY benchmark on the hub. Some parameters may be
        `changed`, by their names.
        """
        _check_labels(specs)
        params = cls._params(params, changed)
        found: dict[str, M] = {}
        for asked in specs:
            given = source
            if given is None and not asked.batch_sizes:
                given = _default_source(data_dir, asked)
            spec = _with_batch_sizes(asked, given)
            sha256 = None if source is None else source.sha256(spec)
            model = cls._find(data_dir, spec, params, sha256)
            if isinstance(model, str):
                made = cls.generate(
                    [spec], given or _default_source(data_dir, spec), params
                )
                made.save(data_dir)
                model = made.models[spec.model_label]
            found[spec.model_label] = model
        return cls(found, params)

    @classmethod
    def _params(cls, params: Any, changed: Mapping[str, Any]) -> Any:
        params = params or cls.default_params
        if changed and params is None:
            raise InputError(
                f"{cls.__name__} has no parameters, found {one_of(changed)}"
            )
        return type(params)(**{**params.model_dump(), **changed}) if changed else params

    @classmethod
    def _how(cls, params: Any) -> dict[str, Any]:
        """Return what else than a spec the data follow from."""
        how = {} if params is None else params.model_dump(mode="json")
        return {"schema_version": cls.schema_version, **how}

    @classmethod
    def _place(
        cls, data_dir: Path | str, spec: InferenceModelSpec, params: Any
    ) -> Path:
        how = cls._how(params)
        usual = how == {**cls._how(cls.default_params), "schema_version": 1}
        name = cls.kind if usual else f"{cls.kind}-{content_hash(how)[:8]}"
        return Path(data_dir) / spec.cache_hash() / name

    @classmethod
    def _find(
        cls,
        data_dir: Path | str,
        spec: InferenceModelSpec,
        params: Any,
        sha256: str | None = None,
    ) -> M | str:
        """Return a model of the cache, or as a clause why there is none to use.

        Without a hash of the source data it may be from any.
        """
        place = cls._place(data_dir, spec, params)
        if not place.exists():
            return "is not there for these parameters"
        try:
            details = read_json(place / MANIFEST, _CompiledManifest).details
            if sha256 not in (None, details.get("source_sha256")):
                return "was made from other source data"
            files = {
                name: (place / name, read_bytes(place / name)) for name in cls.names
            }
            return cls._parse(spec, params, files, details)
        except InputError as error:
            return f"is damaged ({error})"


def _default_source(data_dir: Path | str, spec: InferenceModelSpec) -> BenchmarkSource:
    """Return where a spec is measured that no source is given for.

    OpenG2G's folder, or the hub.
    """
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
            f"'{spec.model_label}': batch_sizes are absent, and no source has them; "
            "give either"
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


@dataclass(frozen=True, eq=False)
class ModelFits(CompiledModel):
    """The fits of one served model.

    Power, latency and throughput against batch size.
    """

    fits: ServingFits


class LogisticModelStore(CompiledData[ModelFits]):
    """The fits of several served models.

    The points are the medians over the runs of each batch size in `fit_batch_sizes`:
    mean power [W], median inter-token latency [s] and throughput [tokens/s] against
    log2 of the batch size. A source that gives fits itself (OpenG2G's cache) is taken
    at its word.
    """

    def __getitem__(self, model_label: str) -> ServingFits:
        return self.models[model_label].fits

    kind, names = "logistic_models", (FIT_FILE,)

    @classmethod
    def _compile(
        cls,
        spec: InferenceModelSpec,
        runs: BenchmarkRuns,
        _: Any,
        details: dict[str, Any],
    ) -> ModelFits:
        models, points = _curves(runs, spec.fit_batch_sizes)
        details["points"] = {"batch_size": list(spec.fit_batch_sizes), **points}
        return _fits(spec, models, details)

    @classmethod
    def _files(cls, model: ModelFits) -> dict[str, bytes]:
        content = {
            "schema": FIT_SCHEMA,
            "model_label": model.spec.model_label,
            **{
                name: getattr(model.fits, quantity).to_dict()
                for name, quantity in FITS.items()
            },
        }
        return {FIT_FILE: f"{json.dumps(content, indent=2)}\n".encode()}

    @classmethod
    def _parse(
        cls, spec: InferenceModelSpec, _: Any, files: Files, details: Mapping[str, Any]
    ) -> ModelFits:
        return _fits(spec, fits_of(*files[FIT_FILE]), details)


def _fits(
    spec: InferenceModelSpec,
    models: Mapping[str, LogisticModel],
    details: Mapping[str, Any],
) -> ModelFits:
    lacking = [quantity for quantity in FITS.values() if quantity not in models]
    if lacking:
        raise InputError(f"no fit of {one_of(lacking)}")
    sizes = spec.fit_batch_sizes
    fits = ServingFits(**models, smallest_batch=sizes[0], largest_batch=sizes[-1])
    return ModelFits(spec, details, fits)


def _curves(
    runs: BenchmarkRuns, sizes: Sequence[int]
) -> tuple[dict[str, LogisticModel], dict[str, list[float]]]:
    """Return the three curves and the points that were fitted."""
    models, points = dict(runs.fits), {}
    by_batch = runs.by_batch()
    missing = [quantity for quantity in FITS.values() if quantity not in models]
    if missing and len(sizes) < 2:
        raise InputError(
            f"one batch size, {sizes[0]}, gives no curve; give two or more"
        )
    for quantity in missing:
        points[quantity] = [_median(by_batch[size], quantity) for size in sizes]
        models[quantity] = LogisticModel.fit(np.log2(sizes), points[quantity])
    return models, points


def _median(runs: Sequence[BenchmarkRun], quantity: str) -> float:
    name, words = _MEASURED[quantity]
    values = [getattr(run, name) for run in runs]
    if quantity == "power":
        for k, run in enumerate(runs):
            if values[k] is None and run.power:
                values[k] = float(run_power_w(run, _TRACE_STEP_S).mean())
    known = [value for value in values if value is not None]
    if not known:
        raise InputError(
            f"no {words} of batch size {runs[0].batch_size}; use a source that has "
            "it, or leave this size out of the fit"
        )
    return float(np.median(known))


class InferenceDataParams(Model):
    """Settings by which traces and mixtures are compiled."""

    dt_s: StepS = default(0.1, "Step of the traces [s].")
    max_itl_samples: Annotated[int, Field(ge=MIN_SAMPLES)] = default(
        MAX_SAMPLES, "Latency samples of a fit; more are thinned at random."
    )
    seed: Annotated[int, Field(ge=0)] = default(0, "Seed of the thinning.")


@dataclass(frozen=True, eq=False)
class ModelData(CompiledModel):
    """Traces and mixtures of one served model."""

    dt_s: float  # step of the traces [s]
    # By batch size: power of one replica, the sum over its GPUs, in the steady state
    # [W]
    power_w: Mapping[int, Float64Array]
    itl: Mapping[int, ITLMixtureModel]  # inter-token latency by batch size

    def profile(self, batch_size: int, n_nodes: int = 1) -> PowerProfile:
        """Return the trace of a batch size as the measured power of one replica."""
        if batch_size not in self.power_w:
            raise InputError(
                f"'{self.spec.model_label}' has no trace of batch size {batch_size} "
                f"(have: {one_of(self.power_w)})"
            )
        interval_s = float(self.details.get("sampling_interval_s", self.dt_s))
        n_runs = self.details.get("runs", {}).get(str(batch_size), 1)
        provenance = Provenance(
            kind="measured",
            source=str(self.details.get("source", "")),
            licence=str(self.details.get("licence", "unknown")),
            source_sha256=str(self.details.get("source_sha256", "")),
            sampling_interval_s=interval_s,
            averaging_window_s=self.dt_s,
            bandwidth_hz=reach(self.dt_s, interval_s).flagged_hz,
            power_boundary=REPLICA_POWER,
            notes=f"Steady state at batch size {batch_size}, resampled; "
            + (
                f"median over {n_runs} runs at each step." if n_runs > 1 else "one run."
            ),
            counts=dict(self.details.get("counts", {})),
        )
        label = "".join(
            c if c.isalnum() or c in "._-" else "_" for c in self.spec.model_label
        )
        return PowerProfile(
            profile_id=f"serving-{label}-batch{batch_size}",
            workload=f"serving-{label}",
            n_nodes=n_nodes,
            dt_ms=whole_ms(self.dt_s),
            power_w=round_keeping_energy(self.power_w[batch_size]),
            provenance=provenance,
        )


class InferenceData(CompiledData[ModelData]):
    """Traces and mixtures of several served models.

    For every batch size the steady-state power is summed over the GPUs and resampled to
    the median duration of its runs, and a mixture is fitted to the latencies of all its
    runs. `params` are `InferenceDataParams`: the step of the traces, the thinning of
    the samples; `ensure` takes each by its name, too, such as ``dt_s=0.1``.
    """

    kind, names = "inference_data", (TRACE_FILE, ITL_FILE)
    default_params = InferenceDataParams()
    needs_traces = True

    def __getitem__(self, model_label: str) -> ModelData:
        return self.models[model_label]

    @classmethod
    def _compile(
        cls,
        spec: InferenceModelSpec,
        runs: BenchmarkRuns,
        params: InferenceDataParams,
        details: dict[str, Any],
    ) -> ModelData:
        power_w, itl = {}, {}
        by_batch = runs.by_batch()
        for size, of_size in by_batch.items():
            try:
                power_w[size] = median_trace_w(of_size, params.dt_s)
                itl[size] = _mixture(of_size, params)
            except InputError as error:
                raise InputError(f"batch size {size}: {error}") from error
        details |= {
            "runs": {str(size): len(of_size) for size, of_size in by_batch.items()},
            "sampling_interval_s": sampling_interval_s(runs.runs),
            "counts": {name: n for name, n in runs.counts.items() if n},
        }
        return ModelData(spec, details, params.dt_s, power_w, itl)

    @classmethod
    def _files(cls, model: ModelData) -> dict[str, bytes]:
        lengths = [power_w.size for power_w in model.power_w.values()]
        columns = (
            np.repeat(np.array(list(model.power_w), dtype=np.int64), lengths),
            np.concatenate([np.arange(n) * model.dt_s for n in lengths]),
            np.concatenate(list(model.power_w.values())),
        )
        itl = {
            "schema": ITL_SCHEMA,
            "model_label": model.spec.model_label,
            "per_batch": {
                str(size): mixture.to_dict() for size, mixture in model.itl.items()
            },
        }
        return {
            TRACE_FILE: format_columns(dict(zip(TRACE_COLUMNS, columns, strict=True))),
            ITL_FILE: f"{json.dumps(itl, indent=2)}\n".encode(),
        }

    @classmethod
    def _parse(
        cls,
        spec: InferenceModelSpec,
        params: InferenceDataParams,
        files: Files,
        details: Mapping[str, Any],
    ) -> ModelData:
        batch, _, power_w = traces_of(*files[TRACE_FILE])
        itl = mixtures_of(*files[ITL_FILE])
        sizes = sorted(spec.batch_sizes)
        lacking = [
            size for size in sizes if not (batch == size).any() or size not in itl
        ]
        if lacking:
            raise InputError(f"nothing of batch size {lacking[0]}")
        traces_w = {size: power_w[batch == size] for size in sizes}
        itl = {size: itl[size] for size in sizes}
        return ModelData(spec, details, params.dt_s, traces_w, itl)


def _mixture(
    runs: Sequence[BenchmarkRun], params: InferenceDataParams
) -> ITLMixtureModel:
    samples = [run.itl_samples_s for run in runs if run.itl_samples_s is not None]
    if samples:
        return ITLMixtureModel.fit(
            np.concatenate(samples),
            max_samples=params.max_itl_samples,
            seed=params.seed,
        )
    fits = [run.itl_fit for run in runs if run.itl_fit is not None]
    if not fits:
        raise InputError("no latency samples and no fit; use a source that has them")
    return fits[0]
