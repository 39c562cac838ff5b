"""Extension loads, whose settings and code come from an entry point."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from diploee.base.column_specs import Columns
from diploee.base.metric import Metric
from diploee.base.model import Model, entry_point_objects

LOADS = "diploee.loads"
"""Entry point group of extension loads, by the scenario key of their streams."""


class LoadSpec(Model):
    """Settings of a stream of an extension load."""

    pool: str = Field(
        description="Name of an entry of facility.pools, for this stream only."
    )

    @property
    def files(self) -> tuple[str, ...]:
        """Input files and folders of the stream, as named in the scenario."""
        return ()

    @property
    @abstractmethod
    def step_ms(self) -> int:
        """Step of the stream's power, a divisor of the resolution [ms]."""


@dataclass(frozen=True)
class LoadKind:
    """Kind of extension load, named by an entry point."""

    spec: type[LoadSpec]  # settings of a stream
    metrics: tuple[Metric, ...]  # metrics of all streams
    # Function that returns the columns of streams; without streams, all possible ones
    columns_of: Callable[[Mapping[str, Any] | None], Columns]
    open: Callable[..., Any]  # function that opens the load, a `loads.base.OpenLoad`


def load_kind(key: str) -> LoadKind:
    """Return the kind of load for a scenario key."""
    result: LoadKind = entry_point_objects(LOADS)[key]
    return result


class StreamOf:
    """Annotation metadata of a stream of an extension load."""

    def __init__(self, key: str) -> None:
        self._key = key

    def _read(self, value: Any) -> Any:
        """Return the validated settings of a stream."""
        return load_kind(self._key).spec.model_validate(value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the validator, which loads the entry point."""
        return core_schema.no_info_before_validator_function(
            self._read, handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of a stream."""
        return handler(load_kind(self._key).spec.__pydantic_core_schema__)
