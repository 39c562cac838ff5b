"""Deconvolution: from the observed load of a facility back to when its jobs were submitted."""

from diploee.learn.deconvolution.recover import RecoveredWeights, recover_weights

__all__ = ["RecoveredWeights", "recover_weights"]
