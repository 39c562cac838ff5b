"""Loads whose settings and code an entry point names: the core knows their interface alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from diploee.base.columns import Columns
from diploee.base.metric import Metric
from diploee.base.model import Model, installed, with_keys

LOADS = "diploee.loads"
"""Group of entry points: the settings of loads, by the key of a scenario that has their streams."""


class LoadSpec(Model):
    """Settings of a stream of a load that an entry point names."""

    pool: str = Field(description="Name of an entry of facility.pools; no other stream uses it.")

    metrics: ClassVar[tuple[Metric, ...]] = ()
    """Metrics of all streams of the kind."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files and folders that the stream reads, as the scenario names them."""
        return ()

    @property
    def step_ms(self) -> int:
        """Step of the stream's power, which divides the resolution [ms]."""
        raise NotImplementedError

    @classmethod
    def columns_of(cls, specs: Mapping[str, Any] | None) -> Columns:
        """Return the columns that streams add to the series; without any, all that they may."""
        raise NotImplementedError

    @classmethod
    def read(cls, specs: Mapping[str, Any], folder: Path) -> Any:
        """Read the files of streams, relative to a folder."""
        raise NotImplementedError

    @classmethod
    def open_load(cls, scenario: Any, inputs: Any, library: Any) -> Any:
        """Open the load of all streams, as `diploee.loads.base.OpenLoad` says."""
        raise NotImplementedError


def load_spec(key: str) -> type[LoadSpec]:
    """Return the settings of the load whose streams stand under a key of a scenario."""
    found: type[LoadSpec] = installed(LOADS)[key]
    return found


class StreamOf:
    """As metadata of an annotation: a stream of the load under a key of `LOADS`."""

    def __init__(self, key: str) -> None:
        self._key = key

    def _read(self, value: Any) -> Any:
        spec = load_spec(self._key)
        if isinstance(value, spec):
            return value
        try:
            return spec.model_validate(value)
        except ValidationError as error:
            raise with_keys(error, spec) from None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the check, which opens the entry point when there is a stream."""
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of a stream."""
        return handler(load_spec(self._key).__pydantic_core_schema__)
