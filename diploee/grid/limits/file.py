"""Limits files in YAML, and the presets that ship with diploee."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import Field, InstanceOf, model_validator
from pydantic.fields import FieldInfo

from diploee.base.arguments import allowed
from diploee.base.errors import InputError
from diploee.base.files.paths import find_shipped
from diploee.base.model import Kinds, Model, default
from diploee.base.validation import checked
from diploee.grid.limits.check import LimitSpec
from diploee.scenario.models import Scenario
from diploee.scenario.yaml_lines import (
    dotted_key,
    key_location,
    load_yaml_with_lines,
)

K = TypeVar("K", bound=LimitSpec)

CHECK_PRIMARY = "check the primary source before you rely on it"


class _LimitKinds(Kinds[LimitSpec]):
    """Registry of limit kinds by their key in a limits file."""

    def register(self, spec: type[K]) -> type[K]:
        """Register a limit kind of another package and return it, as a decorator."""
        key = getattr(spec, "key", None)
        if key in Limits.model_fields and key not in self.by_name:
            raise InputError(
                f"limit kind '{key}': files of limits have that key; give it another"
            )
        super().register(spec)
        Limits.add_kinds({spec.key: spec})
        return spec


LIMITS = _LimitKinds(
    "limit",
    LimitSpec,  # type: ignore[type-abstract]  # the base of what is registered
    "diploee.grid.limits.kinds",
    key="key",
)


class Limits(Model):
    """Content of a limits file: one optional key for each limit kind."""

    name: str = default("", "Name of the limits.")
    source: str = default("", "Document, and the source in which it was seen.")
    date: str = default("", "Date of the document.")
    status: str = default(
        "", "Status of the document, such as 'proposed' or 'in force'."
    )
    notes: tuple[str, ...] = default((), "Omissions and assumptions of the file.")
    not_stated: tuple[str, ...] = default(
        (), "Quantities that the source limits by an unknown value."
    )

    @classmethod
    def add_kinds(cls, kinds: Mapping[str, type[LimitSpec]]) -> None:
        """Add a field for each kind: a list of limits, or a number."""
        for key, spec in kinds.items():
            text = str(spec.__doc__).splitlines()[0]
            field: Any = Field(default=(), description=text)
            annotation: Any = tuple[spec, ...]  # type: ignore[valid-type]
            if spec.number:
                field = Field(default=None, description=text)
                annotation = spec.model_fields[spec.number].rebuild_annotation() | None
            cls.model_fields[key] = FieldInfo.from_annotated_attribute(
                annotation, field
            )
        cls.model_rebuild(force=True)

    @model_validator(mode="after")
    def _some_limit(self) -> Limits:
        if not list(self.each()):
            raise ValueError(
                "sets no limit; give ramps, swings, band_rms, peaks or others"
            )
        return self

    def each(self) -> Iterator[tuple[str, LimitSpec]]:
        """Yield the key, such as ``ramps.0``, and the spec of every limit."""
        for key, spec in LIMITS.by_name.items():
            value = getattr(self, key)
            if spec.number and value is not None:
                yield key, spec(**{spec.number: value})
            elif not spec.number:
                yield from ((f"{key}.{k}", entry) for k, entry in enumerate(value))

    @property
    def origin(self) -> str:
        """Source, date and status of the limits as text; empty without them."""
        status = f"status: {self.status}" if self.status else ""
        text = "; ".join(filter(None, (self.source, self.date, status)))
        return f"{text}; {CHECK_PRIMARY}" if text else ""


Limits.add_kinds(LIMITS.by_name)


AnyLimits: TypeAlias = Annotated[
    InstanceOf[Limits]
    | Mapping[str, Any]
    | Path
    | str
    | Sequence[InstanceOf[Limits] | Mapping[str, Any] | Path | str],
    allowed(
        "limits, their file or the name of a preset, their content as a dict, or a "
        "list of these"
    ),
]


def load_limits(name_or_path: Limits | Mapping[str, Any] | Path | str) -> Limits:
    """Load a limits file and check its content; loaded limits are returned unchanged.

    Parameters
    ----------
    name_or_path : Limits, mapping, str or pathlib.Path
        The content of a file, a YAML file, or the name of a preset such as
        ``"ercot_lcl_2026_06"``.

    Returns
    -------
    Limits
        The limits, at least one.

    Raises
    ------
    ScenarioError
        If the file is invalid. The text has a line for each problem: file, line, key,
        required value and value found.
    """
    if isinstance(name_or_path, Limits):
        return name_or_path
    if isinstance(name_or_path, Mapping):
        return checked(
            {**name_or_path}, Limits, lambda key_path: dotted_key(("limits", *key_path))
        )
    path = find_shipped("limits", name_or_path)
    data, lines = load_yaml_with_lines(path, "limits such as 'daily_energy_mwh: 100'")
    return checked(data, Limits, partial(key_location, path, lines))


def load_scenario_limits(scenario: Scenario) -> list[Limits]:
    """Return the limits named by a scenario: presets, or files next to its own file."""
    paths = ((name, scenario.folder / name) for name in scenario.limits)
    return [load_limits(path if path.exists() else name) for name, path in paths]
