"""Sources of benchmark measurements, with one module per publisher."""

from diploee.integrations.openg2g.sources.ml_energy import (
    LeaderboardSource as LeaderboardSource,
)
from diploee.integrations.openg2g.sources.ml_energy import (
    MlEnergySource as MlEnergySource,
)
from diploee.integrations.openg2g.sources.ml_energy import (
    ResultsSource as ResultsSource,
)
