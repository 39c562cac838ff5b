"""A batch size controller of the user's own, by import path."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from diploee.errors import shown
from diploee.replicas.base import BatchController, ControlSetting
from diploee.scenario.replica_streams import BatchControllerSpec


def _imported(path: str) -> str:
    """Return an import path of something that can be called; refuse all others."""
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name) if module and name else None
    except (ImportError, AttributeError) as error:
        raise ValueError(f"can't import '{path}' ({error}); set PYTHONPATH to its folder") from None
    if not callable(found):
        raise ValueError(
            f"expected 'module:Class', found {shown(path)}; name a class that takes a "
            "ControlSetting"
        )
    return path


class OwnSpec(BatchControllerSpec):
    """A controller of the user's own; it gets a ControlSetting, and the other keys as arguments."""

    model_config = ConfigDict(extra="allow")
    kind: Literal["path"] = Field(default="path", description="One of your own, by import path.")
    path: Annotated[str, AfterValidator(_imported)] = Field(
        description="Import path of a controller, module:Class, made from a ControlSetting and "
        "the keys."
    )

    def open(self, setting: ControlSetting) -> BatchController:
        """Return a new one."""
        module, _, name = self.path.partition(":")
        made: BatchController = getattr(import_module(module), name)(
            setting, **(self.model_extra or {})
        )
        return made
