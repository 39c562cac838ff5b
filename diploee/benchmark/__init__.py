"""Benchmark measurements of serving models, compiled into cached artifacts.

A spec says which measurements; a source reads them; `InferenceData` and `LogisticModelStore` are
compiled from them and cached, `TrainingTrace` is synthesised. `operating_points` turns a request
rate into power and latency.
"""

from diploee.benchmark.inference_data import InferenceData
from diploee.benchmark.itl_mixture import ITLMixtureModel
from diploee.benchmark.logistic import LogisticModel
from diploee.benchmark.logistic_store import LogisticModelStore, ModelFits
from diploee.benchmark.model_data import InferenceDataParams, ModelData
from diploee.benchmark.runs import BenchmarkRun, BenchmarkRuns, BenchmarkSource, PowerReadings
from diploee.benchmark.serving_fits import ServingFits
from diploee.benchmark.serving_point import (
    OperatingPoints,
    ServingCurve,
    operating_points,
    sampled_operating_points,
)
from diploee.benchmark.spec import InferenceModelSpec
from diploee.benchmark.spec_files import load_specs, specs_from_data
from diploee.benchmark.training_power import TrainingTraceParams
from diploee.benchmark.training_trace import TrainingTrace

__all__ = [
    "BenchmarkRun",
    "BenchmarkRuns",
    "BenchmarkSource",
    "ITLMixtureModel",
    "InferenceData",
    "InferenceDataParams",
    "InferenceModelSpec",
    "LogisticModel",
    "LogisticModelStore",
    "ModelData",
    "ModelFits",
    "OperatingPoints",
    "PowerReadings",
    "ServingCurve",
    "ServingFits",
    "TrainingTrace",
    "TrainingTraceParams",
    "load_specs",
    "operating_points",
    "sampled_operating_points",
    "specs_from_data",
]
