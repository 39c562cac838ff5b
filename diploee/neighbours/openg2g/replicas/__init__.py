"""Replicas of served models: templates of power by batch size, and who chooses batch sizes."""

from diploee.neighbours.openg2g.replicas.base import (
    BatchController,
    Constraint,
    ControlSetting,
    ControlView,
    Observed,
)

__all__ = ["BatchController", "Constraint", "ControlSetting", "ControlView", "Observed"]
