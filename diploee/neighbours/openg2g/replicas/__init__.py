"""Replicas of served models: templates of power by batch size, and who chooses batch sizes."""

from diploee.neighbours.openg2g.replicas.control import (
    Constraint,
    ControlSetting,
    ControlView,
    Observed,
)

__all__ = ["Constraint", "ControlSetting", "ControlView", "Observed"]
