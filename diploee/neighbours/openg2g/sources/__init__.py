"""Sources of benchmark measurements, one file per format; nothing else knows a foreign name."""

from diploee.neighbours.openg2g.sources.leaderboard import LeaderboardSource as LeaderboardSource
from diploee.neighbours.openg2g.sources.mlenergy_hub import MlEnergySource as MlEnergySource
from diploee.neighbours.openg2g.sources.openg2g_specs import OpenG2GSource as OpenG2GSource
from diploee.neighbours.openg2g.sources.results_json import ResultsSource as ResultsSource
