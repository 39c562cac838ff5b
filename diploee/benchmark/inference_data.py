"""`InferenceData`: power traces and latency mixtures of served models, compiled and cached."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from diploee.benchmark.cache import Artifact, Stamp
from diploee.benchmark.compiled import check_source, ensure_each, load_each, save_each
from diploee.benchmark.csv_columns import format_columns, parse_columns
from diploee.benchmark.itl_mixture import ITLMixtureModel
from diploee.benchmark.model_data import InferenceDataParams, ModelData
from diploee.benchmark.runs import BenchmarkRun, BenchmarkSource
from diploee.benchmark.spec import InferenceModelSpec
from diploee.benchmark.steady_state import median_trace_w, sampling_interval_s
from diploee.errors import InputError

KIND = "inference_data"
SCHEMA_VERSION = 1
TRACE_FILE, ITL_FILE = "trace.csv", "itl_fit.json"
TRACE_COLUMNS = ("batch_size", "relative_time_s", "power_total_W")
ITL_SCHEMA = "itl_fit.lognormal_mixture_2"


@dataclass(frozen=True, eq=False)
class InferenceData:
    """Traces and mixtures of several served models.

    Parameters
    ----------
    models : mapping of str to ModelData
        By label.
    params : InferenceDataParams
        How they were compiled.
    """

    models: Mapping[str, ModelData]
    params: InferenceDataParams = field(default_factory=InferenceDataParams)

    def __getitem__(self, model_label: str) -> ModelData:
        return self.models[model_label]

    @classmethod
    def generate(
        cls,
        specs: Sequence[InferenceModelSpec],
        source: BenchmarkSource,
        params: InferenceDataParams | None = None,
    ) -> Self:
        """Compile the data of specs from a source.

        For every batch size the steady-state power is summed over the GPUs and resampled to the
        median duration of its runs, and a mixture is fitted to the latencies of all its runs.

        Parameters
        ----------
        specs : sequence of InferenceModelSpec
            Models; their labels differ.
        source : BenchmarkSource
            Where they were measured.
        params : InferenceDataParams, optional
            Step of the traces, thinning of the samples.

        Raises
        ------
        InputError
            If there is no source, or it has no such measurements, or no power in time or latency
            samples.
        """
        check_source(source)
        params = params or InferenceDataParams()
        return cls({spec.model_label: _compile(spec, source, params) for spec in specs}, params)

    def save(self, data_dir: Path | str) -> None:
        """Write every model to ``<data_dir>/<hash of its spec>/inference_data/``.

        Raises
        ------
        InputError
            If one of a newer schema version stands there.
        OutputError
            If it can't be written.
        """
        save_each(
            Path(data_dir),
            [
                (m.spec, _stamp(m.spec, self.params), _files(m), m.details)
                for m in self.models.values()
            ],
        )

    @classmethod
    def load(
        cls,
        data_dir: Path | str,
        specs: Sequence[InferenceModelSpec],
        params: InferenceDataParams | None = None,
    ) -> Self:
        """Read the models of specs, as `save` wrote them with the same parameters.

        Raises
        ------
        InputError
            If one is not there, not complete, made with other parameters or by a newer version.
        """
        params = params or InferenceDataParams()
        found = load_each(Path(data_dir), specs, lambda spec: _stamp(spec, params))
        return cls({s.model_label: _parse(s, params, a) for s, a in found}, params)

    @classmethod
    def ensure(
        cls,
        data_dir: Path | str,
        specs: Sequence[InferenceModelSpec],
        source: BenchmarkSource | None = None,
        params: InferenceDataParams | None = None,
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
            Where they were measured. Without it only the cache is used, whatever its source.
        params : InferenceDataParams, optional
            Step of the traces, thinning of the samples.

        Raises
        ------
        InputError
            As `generate`, or as `load` where there is no source.
        OutputError
            If the cache can't be written.
        """
        params = params or InferenceDataParams()
        found = ensure_each(
            Path(data_dir),
            specs,
            source,
            stamp=lambda spec: _stamp(spec, params),
            generate=lambda spec, used: _compile(spec, used, params),
            files=_files,
            parse=lambda spec, artifact: _parse(spec, params, artifact),
        )
        return cls(found, params)


def _stamp(spec: InferenceModelSpec, params: InferenceDataParams) -> Stamp:
    return Stamp(KIND, SCHEMA_VERSION, {**spec.data_fields(), **params.model_dump(mode="json")})


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


def _parse(spec: InferenceModelSpec, params: InferenceDataParams, artifact: Artifact) -> ModelData:
    path = artifact.place / TRACE_FILE
    batch, _, power_w = parse_columns(path, artifact.files[TRACE_FILE], TRACE_COLUMNS)
    sizes = sorted(spec.batch_sizes)
    per_batch = json.loads(artifact.files[ITL_FILE])["per_batch"]
    return ModelData(
        spec,
        params.dt_s,
        {size: power_w[batch == size] for size in sizes},
        {size: ITLMixtureModel.from_dict(per_batch[str(size)]) for size in sizes},
        artifact.details,
    )
