"""Sources of benchmark measurements, one file per format; nothing else knows a foreign name."""

from diploee.benchmark.sources.leaderboard import LeaderboardSource
from diploee.benchmark.sources.mlenergy_hub import MlEnergySource
from diploee.benchmark.sources.openg2g_specs import OpenG2GSource
from diploee.benchmark.sources.results_json import ResultsSource

__all__ = ["LeaderboardSource", "MlEnergySource", "OpenG2GSource", "ResultsSource"]
