"""Sources of benchmark measurements, which alone know a foreign file's names."""

from diploee.integrations.openg2g.sources.ml_energy import (
    LeaderboardSource as LeaderboardSource,
)
from diploee.integrations.openg2g.sources.ml_energy import (
    MlEnergySource as MlEnergySource,
)
from diploee.integrations.openg2g.sources.ml_energy import (
    ResultsSource as ResultsSource,
)
