"""Benchmark measurements of serving models, compiled into cached artifacts.

A spec says which measurements; a source reads them; `InferenceData` and `LogisticModelStore` are
compiled from them and cached, `TrainingTrace` is synthesised. `operating_points` turns a request
rate into power and latency.
"""

from diploee.neighbours.openg2g.inference_data import InferenceData
from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel
from diploee.neighbours.openg2g.logistic import LogisticModel
from diploee.neighbours.openg2g.logistic_store import LogisticModelStore
from diploee.neighbours.openg2g.model_data import InferenceDataParams
from diploee.neighbours.openg2g.serving_fits import ServingFits
from diploee.neighbours.openg2g.serving_point import operating_points
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.neighbours.openg2g.spec_files import load_specs
from diploee.neighbours.openg2g.training_power import TrainingTraceParams
from diploee.neighbours.openg2g.training_trace import TrainingTrace

__all__ = [
    "ITLMixtureModel",
    "InferenceData",
    "InferenceDataParams",
    "InferenceModelSpec",
    "LogisticModel",
    "LogisticModelStore",
    "ServingFits",
    "TrainingTrace",
    "TrainingTraceParams",
    "load_specs",
    "operating_points",
]
