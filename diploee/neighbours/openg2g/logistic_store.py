"""`LogisticModelStore`: logistic fits of power, latency and throughput of served models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diploee.errors import InputError, one_of
from diploee.neighbours.openg2g.compiled import Artifact, CompiledData, CompiledModel
from diploee.neighbours.openg2g.logistic import LogisticModel
from diploee.neighbours.openg2g.measurements import BenchmarkRun, BenchmarkRuns, run_power_w
from diploee.neighbours.openg2g.serving import ServingFits
from diploee.neighbours.openg2g.sources.openg2g import FIT_FILE, FITS, fits_of
from diploee.neighbours.openg2g.spec import InferenceModelSpec

FILE_SCHEMA = "logistic_v1"
_TRACE_STEP_S = 0.1
# What a run has of each quantity, and the words for what it lacks.
_MEASURED = {
    "power": ("mean_power_w", "mean power and no power in time"),
    "itl": ("median_itl_s", "inter-token latency"),
    "throughput": ("throughput_tps", "throughput"),
}


@dataclass(frozen=True, eq=False)
class ModelFits(CompiledModel):
    """The fits of one served model: power, latency and throughput against batch size."""

    fits: ServingFits


class LogisticModelStore(CompiledData[ModelFits]):
    """The fits of several served models.

    The points are the medians over the runs of each batch size in `fit_batch_sizes`: mean power
    [W], median inter-token latency [s] and throughput [tokens/s] against log2 of the batch size. A
    source that gives fits itself (OpenG2G's cache) is taken at its word.
    """

    def __getitem__(self, model_label: str) -> ServingFits:
        return self.models[model_label].fits

    kind = "logistic_models"
    schema_version = 1

    @classmethod
    def _compile(
        cls, spec: InferenceModelSpec, runs: BenchmarkRuns, _: Any, details: dict[str, Any]
    ) -> ModelFits:
        models, points = _curves(runs, spec.fit_batch_sizes)
        details["points"] = {"batch_size": list(spec.fit_batch_sizes), **points}
        return _fits(spec, models, details)

    @classmethod
    def _files(cls, model: ModelFits) -> dict[str, bytes]:
        content = {
            "schema": FILE_SCHEMA,
            "model_label": model.spec.model_label,
            **{name: getattr(model.fits, quantity).to_dict() for name, quantity in FITS.items()},
        }
        return {FIT_FILE: f"{json.dumps(content, indent=2)}\n".encode()}

    @classmethod
    def _parse(cls, spec: InferenceModelSpec, _: Any, artifact: Artifact) -> ModelFits:
        return _fits(spec, fits_of(*artifact.file(FIT_FILE)), artifact.details)


def _fits(
    spec: InferenceModelSpec, models: Mapping[str, LogisticModel], details: Mapping[str, Any]
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
        raise InputError(f"one batch size, {sizes[0]}, gives no curve; give two or more")
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
            f"no {words} of batch size {runs[0].batch_size}; use a source that has it, or leave "
            "this size out of the fit"
        )
    return float(np.median(known))
