"""Sources of benchmark measurements, one file per format; nothing else knows a foreign name."""

from diploee.importers.benchmarks.leaderboard import LeaderboardSource
from diploee.importers.benchmarks.mlenergy_hub import MlEnergySource
from diploee.importers.benchmarks.openg2g_specs import OpenG2GSource
from diploee.importers.benchmarks.results_json import ResultsSource

__all__ = ["LeaderboardSource", "MlEnergySource", "OpenG2GSource", "ResultsSource"]
