"""Benchmark measurements of serving models, compiled into cached artifacts.

A spec says which measurements; a source reads them; `InferenceData` and `LogisticModelStore` are
compiled from them and cached, `TrainingTrace` is synthesised. `operating_points` turns a request
rate into power and latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.integrations.openg2g.compiled import InferenceData as InferenceData
    from diploee.integrations.openg2g.compiled import InferenceDataParams as InferenceDataParams
    from diploee.integrations.openg2g.compiled import LogisticModelStore as LogisticModelStore
    from diploee.integrations.openg2g.itl_mixture import ITLMixtureModel as ITLMixtureModel
    from diploee.integrations.openg2g.logistic import LogisticModel as LogisticModel
    from diploee.integrations.openg2g.serving import OperatingPoints as OperatingPoints
    from diploee.integrations.openg2g.serving import ServingFits as ServingFits
    from diploee.integrations.openg2g.serving import operating_points as operating_points
    from diploee.integrations.openg2g.sources.ml_energy import (
        LeaderboardSource as LeaderboardSource,
    )
    from diploee.integrations.openg2g.sources.ml_energy import MlEnergySource as MlEnergySource
    from diploee.integrations.openg2g.sources.ml_energy import ResultsSource as ResultsSource
    from diploee.integrations.openg2g.sources.openg2g import OpenG2GSource as OpenG2GSource
    from diploee.integrations.openg2g.spec import InferenceModelSpec as InferenceModelSpec
    from diploee.integrations.openg2g.spec import load_specs as load_specs
    from diploee.integrations.openg2g.training_trace import TrainingTrace as TrainingTrace
    from diploee.integrations.openg2g.training_trace import (
        TrainingTraceParams as TrainingTraceParams,
    )
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
