"""Benchmark measurements of serving models, compiled into cached artifacts.

A spec says which measurements; a source reads them; `InferenceData` and `LogisticModelStore` are
compiled from them and cached, `TrainingTrace` is synthesised. `operating_points` turns a request
rate into power and latency.
"""

from diploee.neighbours.openg2g.inference_data import (
    InferenceData,
    InferenceDataParams,
    LogisticModelStore,
)
from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel
from diploee.neighbours.openg2g.logistic import LogisticModel
from diploee.neighbours.openg2g.serving import ServingFits, operating_points
from diploee.neighbours.openg2g.spec import InferenceModelSpec, load_specs
from diploee.neighbours.openg2g.training_trace import TrainingTrace, TrainingTraceParams

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.neighbours.openg2g.inference_data import InferenceData as InferenceData
    from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel as ITLMixtureModel
    from diploee.neighbours.openg2g.logistic import LogisticModel as LogisticModel
    from diploee.neighbours.openg2g.logistic_store import LogisticModelStore as LogisticModelStore
    from diploee.neighbours.openg2g.model_data import InferenceDataParams as InferenceDataParams
    from diploee.neighbours.openg2g.serving_fits import ServingFits as ServingFits
    from diploee.neighbours.openg2g.serving_point import OperatingPoints as OperatingPoints
    from diploee.neighbours.openg2g.serving_point import operating_points as operating_points
    from diploee.neighbours.openg2g.sources.leaderboard import (
        LeaderboardSource as LeaderboardSource,
    )
    from diploee.neighbours.openg2g.sources.mlenergy_hub import MlEnergySource as MlEnergySource
    from diploee.neighbours.openg2g.sources.openg2g_specs import OpenG2GSource as OpenG2GSource
    from diploee.neighbours.openg2g.sources.results_json import ResultsSource as ResultsSource
    from diploee.neighbours.openg2g.spec import InferenceModelSpec as InferenceModelSpec
    from diploee.neighbours.openg2g.spec_files import load_specs as load_specs
    from diploee.neighbours.openg2g.training_power import TrainingTraceParams as TrainingTraceParams
    from diploee.neighbours.openg2g.training_trace import TrainingTrace as TrainingTrace
else:
    from diploee.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
