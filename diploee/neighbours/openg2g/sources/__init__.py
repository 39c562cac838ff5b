"""Sources of benchmark measurements; nothing else knows a foreign name."""

from diploee.neighbours.openg2g.sources.ml_energy import (
    LeaderboardSource,
    MlEnergySource,
    ResultsSource,
)
from diploee.neighbours.openg2g.sources.openg2g import OpenG2GSource

__all__ = ["LeaderboardSource", "MlEnergySource", "OpenG2GSource", "ResultsSource"]
