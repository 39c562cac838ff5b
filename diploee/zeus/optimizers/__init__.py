"""The optimizers of batch size and power limit, one a module, and their names."""

from diploee.scenario.recurring import BATCH_SIZE_OPTIMIZERS, POWER_LIMIT_OPTIMIZERS
from diploee.zeus.optimizers.default import FixedBatchSize, FixedPowerLimit
from diploee.zeus.optimizers.grid_search import GridBatchSize, GridPowerLimit
from diploee.zeus.optimizers.jit_power_limit import JitPowerLimit
from diploee.zeus.optimizers.oracle import OraclePowerLimit
from diploee.zeus.optimizers.pruning import PruningRounds
from diploee.zeus.optimizers.pruning_gts import PruningThompson
from diploee.zeus.optimizers.setting import Setting
from diploee.zeus.optimizers.thompson import GaussianArm

__all__ = [
    "BATCH_SIZE_OPTIMIZERS",
    "POWER_LIMIT_OPTIMIZERS",
    "FixedBatchSize",
    "FixedPowerLimit",
    "GaussianArm",
    "GridBatchSize",
    "GridPowerLimit",
    "JitPowerLimit",
    "OraclePowerLimit",
    "PruningRounds",
    "PruningThompson",
    "Setting",
]
