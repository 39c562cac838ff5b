"""A batch size controller of the user's own, by import path."""

from __future__ import annotations

from pydantic import ConfigDict

from diploee.model import OwnKind
from diploee.scenario.replica_streams import BatchControllerSpec


class OwnSpec(OwnKind, BatchControllerSpec):
    """A controller of the user's own, made from a `ControlSetting` and the other keys."""

    model_config = ConfigDict(extra="allow")
