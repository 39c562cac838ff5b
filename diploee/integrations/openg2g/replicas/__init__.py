"""Replicas of served models: templates of power by batch size, and who chooses batch sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.integrations.openg2g.replicas.control import Constraint as Constraint
    from diploee.integrations.openg2g.replicas.control import ControlSetting as ControlSetting
    from diploee.integrations.openg2g.replicas.control import ControlView as ControlView
    from diploee.integrations.openg2g.replicas.control import ModelSetting as ModelSetting
    from diploee.integrations.openg2g.replicas.control import Observed as Observed
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
