"""`InferenceData`: power traces and latency mixtures of served models, compiled and cached."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from diploee.errors import InputError, one_of
from diploee.files import FolderKind, writing
from diploee.json_files import Record, parse_json
from diploee.neighbours.openg2g.cache import MANIFEST, Artifact, Recipe
from diploee.neighbours.openg2g.compiled import CompiledData
from diploee.neighbours.openg2g.csv_columns import format_columns, parse_columns
from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel
from diploee.neighbours.openg2g.logistic_store import FILE as FIT_FILE
from diploee.neighbours.openg2g.logistic_store import LogisticModelStore
from diploee.neighbours.openg2g.model_data import InferenceDataParams, ModelData
from diploee.neighbours.openg2g.openg2g_folder import manifest_of, openg2g_folder
from diploee.neighbours.openg2g.runs import BenchmarkRun, BenchmarkSource
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.neighbours.openg2g.steady_state import median_trace_w, sampling_interval_s

KIND = "inference_data"
SCHEMA_VERSION = 1
TRACE_FILE, ITL_FILE = "trace.csv", "itl_fit.json"
TRACE_COLUMNS = ("batch_size", "relative_time_s", "power_total_W")
ITL_SCHEMA = "itl_fit.lognormal_mixture_2"


class InferenceData(CompiledData[ModelData]):
    """Traces and mixtures of several served models.

    For every batch size the steady-state power is summed over the GPUs and resampled to the median
    duration of its runs, and a mixture is fitted to the latencies of all its runs. `params` are
    `InferenceDataParams`: the step of the traces, the thinning of the samples.
    """

    def __getitem__(self, model_label: str) -> ModelData:
        return self.models[model_label]

    @classmethod
    def ensure(
        cls,
        data_dir: Path | str,
        specs: Sequence[InferenceModelSpec],
        source: BenchmarkSource | None = None,
        params: InferenceDataParams | None = None,
        *,
        dt_s: float | None = None,
    ) -> Self:
        """Read the models of specs, and first compile those that are not there as wanted.

        As `CompiledData.ensure`; `dt_s` is the step of the traces [s], also that of `params`.
        """
        params = params or cls._default_params()
        if dt_s is not None:
            params = InferenceDataParams(**{**params.model_dump(), "dt_s": dt_s})
        return super().ensure(data_dir, specs, source, params)

    def write_openg2g(
        self, data_dir: Path | str, fits: LogisticModelStore, *, force: bool = False
    ) -> tuple[Path, ...]:
        """Write every model as a spec folder that OpenG2G loads, ``<data_dir>/<its hash>/``.

        Parameters
        ----------
        data_dir : path
            OpenG2G's ``data/specs``.
        fits : LogisticModelStore
            The logistic fits of the same models.
        force : bool
            Replace folders that stand there.

        Raises
        ------
        InputError
            If a model has no fits or no deadline, or a folder stands there.
        OutputError
            If one can't be written; none is kept then.
        """
        lacking = sorted(set(self.models) - set(fits.models))
        if lacking:
            raise InputError(f"no logistic fits of {one_of(lacking)}; fit the same specs")
        kind = FolderKind(
            "a spec folder", MANIFEST, (), lambda _: (TRACE_FILE, ITL_FILE, FIT_FILE, MANIFEST)
        )
        files = {
            openg2g_folder(data_dir, model.spec): {
                **_files(model),
                **fits.files_of(label),
                MANIFEST: manifest_of(model.spec),
            }
            for label, model in self.models.items()
        }
        with writing(force=force) as new:
            for place, of_place in files.items():
                item = new.folder(place, kind)
                for name, content in of_place.items():
                    (item.path / name).write_bytes(content)
        return tuple(files)

    @classmethod
    def _default_params(cls) -> InferenceDataParams:
        return InferenceDataParams()

    @classmethod
    def _recipe(cls, spec: InferenceModelSpec, params: InferenceDataParams) -> Recipe:
        return Recipe(
            KIND,
            SCHEMA_VERSION,
            {**spec.data_fields(), **params.model_dump(mode="json")},
            parse=partial(_parse, spec, params),
        )

    @classmethod
    def _compile(
        cls, spec: InferenceModelSpec, source: BenchmarkSource, params: InferenceDataParams
    ) -> ModelData:
        return _compile(spec, source, params)

    @classmethod
    def _files(cls, model: ModelData) -> dict[str, bytes]:
        return _files(model)


def _compile(
    spec: InferenceModelSpec, source: BenchmarkSource, params: InferenceDataParams
) -> ModelData:
    runs = source.read(spec)
    power_w, itl = {}, {}
    by_batch = runs.by_batch()
    for size, of_size in by_batch.items():
        try:
            power_w[size] = median_trace_w(of_size, params.dt_s)
            itl[size] = _mixture(of_size, params)
        except InputError as error:
            raise InputError(
                f"{runs.source}: '{spec.model_label}', batch size {size}: {error}"
            ) from error
    details = {
        "model_label": spec.model_label,
        "source": runs.source,
        "licence": runs.licence,
        "source_sha256": runs.sha256,
        "runs": {str(size): len(of_size) for size, of_size in by_batch.items()},
        "sampling_interval_s": sampling_interval_s(runs.runs),
        "counts": {name: n for name, n in runs.counts.items() if n},
    }
    return ModelData(spec, params.dt_s, power_w, itl, details)


def _mixture(runs: Sequence[BenchmarkRun], params: InferenceDataParams) -> ITLMixtureModel:
    samples = [run.itl_samples_s for run in runs if run.itl_samples_s is not None]
    if samples:
        return ITLMixtureModel.fit(
            np.concatenate(samples),
            location=params.itl_location,
            max_samples=params.max_itl_samples,
            seed=params.seed,
        )
    fits = [run.itl_fit for run in runs if run.itl_fit is not None]
    if not fits:
        raise InputError("no latency samples and no fit; use a source that has them")
    return fits[0]


def _files(model: ModelData) -> dict[str, bytes]:
    sizes = list(model.power_w)
    lengths = [model.power_w[size].size for size in sizes]
    columns = (
        np.repeat(np.array(sizes, dtype=np.int64), lengths),
        np.concatenate([np.arange(n) * model.dt_s for n in lengths]),
        np.concatenate([model.power_w[size] for size in sizes]),
    )
    itl = {
        "schema": ITL_SCHEMA,
        "model_label": model.spec.model_label,
        "per_batch": {str(size): mixture.to_dict() for size, mixture in model.itl.items()},
    }
    return {
        TRACE_FILE: format_columns(dict(zip(TRACE_COLUMNS, columns, strict=True))),
        ITL_FILE: f"{json.dumps(itl, indent=2)}\n".encode(),
    }


class _Mixtures(Record):
    per_batch: dict[str, dict[str, Any]]


def _parse(spec: InferenceModelSpec, params: InferenceDataParams, artifact: Artifact) -> ModelData:
    path = artifact.place / TRACE_FILE
    batch, _, power_w = parse_columns(path, artifact.file(TRACE_FILE), TRACE_COLUMNS)
    sizes = sorted(spec.batch_sizes)
    per_batch = parse_json(artifact.file(ITL_FILE), ITL_FILE, _Mixtures).per_batch
    lacking = [size for size in sizes if not (batch == size).any() or str(size) not in per_batch]
    if lacking:
        raise InputError(f"nothing of batch size {lacking[0]}")
    return ModelData(
        spec,
        params.dt_s,
        {size: power_w[batch == size] for size in sizes},
        {size: ITLMixtureModel.from_dict(per_batch[str(size)]) for size in sizes},
        artifact.details,
    )
