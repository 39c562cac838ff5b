"""Schema of the keys of `manifest.json` that readers of a run folder need.

Keys that no reader needs may be missing; unknown keys of newer versions are allowed.
The hashes in the manifest show whether the result files are unchanged.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from diploee.base.tables import MAX_SIZE
from diploee.base.validation import SHA256, Record
from diploee.profiles.profile import Provenance

Number = Annotated[float, Field(ge=-MAX_SIZE, le=MAX_SIZE)]


class _Profile(Record):
    """Workload and provenance of a power profile."""

    workload: str
    provenance: Provenance


class _StageMetric(Record):
    """Declaration of a metric, as in `base.metric.Metric`."""

    key: str
    unit: str
    label: str
    format: Annotated[str, Field(pattern=r"^\{:,?(\.[0-9])?[efg%]\}$")]
    text: str
    view: Literal["main", "table", "detail"]
    factor: Number
    of_means: bool


class _OwnPart(Record):
    """A custom component of a run: kind, name and hash of its code."""

    kind: str
    name: str
    sha256: Annotated[str, Field(pattern=SHA256)]


class Manifest(Record):
    """Content of ``manifest.json``; the scenario is validated by its own model."""

    schema_version: int
    scenario: dict[str, Any]
    scenario_name: str
    scenario_sha256: Annotated[str, Field(pattern=SHA256)]
    seed: Annotated[int, Field(ge=0)]
    engine: str
    diploee_version: str
    versions: dict[str, str] = Field(default_factory=dict)
    profiles: dict[str, _Profile] = Field(default_factory=dict)
    curves: dict[str, Any] = Field(default_factory=dict)
    metrics: list[_StageMetric] = Field(default_factory=list)
    own_parts: list[_OwnPart] = Field(default_factory=list)
    assumed: list[str] = Field(default_factory=list)
    serving_samples: dict[str, Any] = Field(default_factory=dict)
    power_samples: dict[str, dict[str, Provenance]] = Field(default_factory=dict)
    results_sha256: dict[str, str] = Field(default_factory=dict)
    warnings: list[str]
