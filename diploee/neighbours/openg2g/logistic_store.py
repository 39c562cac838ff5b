"""`LogisticModelStore`: logistic fits of power, latency and throughput of served models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from diploee.errors import InputError
from diploee.json_files import Record, parse_json
from diploee.neighbours.openg2g.cache import Artifact, Recipe
from diploee.neighbours.openg2g.compiled import CompiledData
from diploee.neighbours.openg2g.logistic import LogisticModel
from diploee.neighbours.openg2g.runs import BenchmarkRun, BenchmarkRuns, BenchmarkSource
from diploee.neighbours.openg2g.serving_fits import ServingFits
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.neighbours.openg2g.steady_state import run_power_w

KIND = "logistic_models"
SCHEMA_VERSION = 1
FILE = "logistic_fit.json"
FILE_SCHEMA = "logistic_v1"
FITS = {"power": "power", "latency": "itl", "throughput": "throughput"}
"""Names in the file, as in OpenG2G's, and the fields of `ServingFits`."""
_TRACE_STEP_S = 0.1
_WITHOUT = {
    "power": "mean power and no power in time",
    "itl": "inter-token latency",
    "throughput": "throughput",
}


@dataclass(frozen=True, eq=False)
class ModelFits:
    """The fits of one served model.

    Parameters
    ----------
    spec : InferenceModelSpec
        Which one.
    fits : ServingFits
        Power, latency and throughput against batch size, over the sizes that were fitted.
    details : mapping
        Source, licence and points.
    """

    spec: InferenceModelSpec
    fits: ServingFits
    details: Mapping[str, Any] = field(default_factory=dict)


class LogisticModelStore(CompiledData[ModelFits]):
    """The fits of several served models.

    The points are the medians over the runs of each batch size in `fit_batch_sizes`: mean power
    [W], median inter-token latency [s] and throughput [tokens/s] against log2 of the batch size. A
    source that gives fits itself (OpenG2G's cache) is taken at its word.
    """

    def __getitem__(self, model_label: str) -> ServingFits:
        return self.models[model_label].fits

    def files_of(self, model_label: str) -> dict[str, bytes]:
        """Return the files of a model by name, which OpenG2G's spec folders hold as well."""
        return _files(self.models[model_label])

    @classmethod
    def _recipe(cls, spec: InferenceModelSpec, params: Any) -> Recipe:  # noqa: ARG003  # no choice
        return Recipe(KIND, SCHEMA_VERSION, spec.data_fields(), parse=partial(_parse, spec))

    @classmethod
    def _compile(cls, spec: InferenceModelSpec, source: BenchmarkSource, params: Any) -> ModelFits:  # noqa: ARG003
        return _compile(spec, source)

    @classmethod
    def _files(cls, model: ModelFits) -> dict[str, bytes]:
        return _files(model)


def _compile(spec: InferenceModelSpec, source: BenchmarkSource) -> ModelFits:
    runs = source.read(spec, traces=False)
    sizes = spec.fit_batch_sizes
    try:
        models, points = _curves(runs, sizes)
        fits = ServingFits(**models, smallest_batch=sizes[0], largest_batch=sizes[-1])
    except InputError as error:
        raise InputError(f"{runs.source}: '{spec.model_label}': {error}") from error
    details: dict[str, Any] = {
        "model_label": spec.model_label,
        "source": runs.source,
        "licence": runs.licence,
        "source_sha256": runs.sha256,
        "points": {"batch_size": list(sizes), **points},
    }
    return ModelFits(spec, fits, details)


def _curves(
    runs: BenchmarkRuns, sizes: Sequence[int]
) -> tuple[dict[str, LogisticModel], dict[str, list[float]]]:
    """Return the three curves and the points that were fitted."""
    models, points = dict(runs.fits), {}
    by_batch = runs.by_batch()
    missing = [quantity for quantity in FITS.values() if quantity not in models]
    if missing and len(sizes) < 2:
        raise InputError(f"one batch size, {sizes[0]}, tells no curve; give two or more")
    for quantity in missing:
        points[quantity] = [_median(by_batch[size], quantity) for size in sizes]
        models[quantity] = LogisticModel.fit(np.log2(sizes), points[quantity])
    return models, points


def _median(runs: Sequence[BenchmarkRun], quantity: str) -> float:
    values = [value for run in runs if (value := _value(run, quantity)) is not None]
    if not values:
        raise InputError(
            f"no {_WITHOUT[quantity]} of batch size {runs[0].batch_size}; use a source that has "
            "it, or leave this size out of the fit"
        )
    return float(np.median(values))


def _value(run: BenchmarkRun, quantity: str) -> float | None:
    if quantity == "itl":
        return run.median_itl_s
    if quantity == "throughput":
        return run.throughput_tps
    if run.mean_power_w is None and run.power:
        return float(run_power_w(run, _TRACE_STEP_S).mean())
    return run.mean_power_w


def _files(model: ModelFits) -> dict[str, bytes]:
    content = {
        "schema": FILE_SCHEMA,
        "model_label": model.spec.model_label,
        **{name: getattr(model.fits, quantity).to_dict() for name, quantity in FITS.items()},
    }
    return {FILE: f"{json.dumps(content, indent=2)}\n".encode()}


class _Fits(Record):
    power: dict[str, Any]
    latency: dict[str, Any]
    throughput: dict[str, Any]


def _parse(spec: InferenceModelSpec, artifact: Artifact) -> ModelFits:
    content = parse_json(artifact.file(FILE), FILE, _Fits)
    models = {
        quantity: LogisticModel.from_dict(getattr(content, name)) for name, quantity in FITS.items()
    }
    sizes = spec.fit_batch_sizes
    fits = ServingFits(**models, smallest_batch=sizes[0], largest_batch=sizes[-1])
    return ModelFits(spec, fits, artifact.details)
