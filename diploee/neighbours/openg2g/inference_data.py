"""`InferenceData`: power traces and latency mixtures of served models, compiled and cached."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from diploee.errors import InputError, one_of
from diploee.files import FolderKind, writing
from diploee.neighbours.openg2g.cache import MANIFEST, Artifact
from diploee.neighbours.openg2g.compiled import CompiledData
from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel
from diploee.neighbours.openg2g.logistic_store import LogisticModelStore
from diploee.neighbours.openg2g.model_data import InferenceDataParams, ModelData
from diploee.neighbours.openg2g.openg2g_folder import (
    FIT_FILE,
    ITL_FILE,
    TRACE_COLUMNS,
    TRACE_FILE,
    format_columns,
    manifest_of,
    mixtures_of,
    openg2g_folder,
    traces_of,
)
from diploee.neighbours.openg2g.runs import BenchmarkRun, BenchmarkRuns, BenchmarkSource
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.neighbours.openg2g.steady_state import median_trace_w, sampling_interval_s

ITL_SCHEMA = "itl_fit.lognormal_mixture_2"


class InferenceData(CompiledData[ModelData]):
    """Traces and mixtures of several served models.

    For every batch size the steady-state power is summed over the GPUs and resampled to the median
    duration of its runs, and a mixture is fitted to the latencies of all its runs. `params` are
    `InferenceDataParams`: the step of the traces, the thinning of the samples.
    """

    kind = "inference_data"
    schema_version = 1
    default_params = InferenceDataParams()
    needs_traces = True

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
        params = params or cls.default_params
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
                **self._files(model),
                **fits._files(fits.models[label]),
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
        return ModelData(spec, params.dt_s, power_w, itl, details)

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
            "per_batch": {str(size): mixture.to_dict() for size, mixture in model.itl.items()},
        }
        return {
            TRACE_FILE: format_columns(dict(zip(TRACE_COLUMNS, columns, strict=True))),
            ITL_FILE: f"{json.dumps(itl, indent=2)}\n".encode(),
        }

    @classmethod
    def _parse(
        cls, spec: InferenceModelSpec, params: InferenceDataParams, artifact: Artifact
    ) -> ModelData:
        batch, _, power_w = traces_of(*artifact.file(TRACE_FILE))
        itl = mixtures_of(*artifact.file(ITL_FILE))
        sizes = sorted(spec.batch_sizes)
        lacking = [size for size in sizes if not (batch == size).any() or size not in itl]
        if lacking:
            raise InputError(f"nothing of batch size {lacking[0]}")
        traces_w = {size: power_w[batch == size] for size in sizes}
        itl = {size: itl[size] for size in sizes}
        return ModelData(spec, params.dt_s, traces_w, itl, artifact.details)


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
