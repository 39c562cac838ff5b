"""A file of limits as YAML, and those that ship as presets by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pydantic import Field, model_validator

from diploee.metrics.limits.check import LimitSpec, Positive
from diploee.metrics.limits.demand import (
    DailyEnergyLimit,
    LoadFactorLimit,
    MinimumTakeLimit,
    PeakLimit,
)
from diploee.metrics.limits.ramps import RampLimit
from diploee.metrics.limits.reactive import PowerFactorLimit, ReactivePowerLimit
from diploee.metrics.limits.spectra import BandLimit, LineLimit
from diploee.metrics.limits.swings import ChangeLimit, SwingLimit
from diploee.model import Model
from diploee.problems import checked
from diploee.scenario.yaml_lines import load_yaml_with_lines, located
from diploee.shipped import find_shipped, shipped_folder

CHECK_PRIMARY = "check the primary source before you rely on it"


class Limits(Model):
    """What a load must keep; every key may be left out."""

    name: str = Field(default="", description="Where the limits come from.")
    source: str = Field(default="", description="Document, and where it was seen.")
    date: str = Field(default="", description="Date of the document.")
    status: str = Field(default="", description="Such as 'proposed' or 'in force'.")
    notes: tuple[str, ...] = Field(default=(), description="What the file leaves out or assumes.")
    not_stated: tuple[str, ...] = Field(
        default=(), description="What the source limits without a figure that was seen."
    )
    ramps: tuple[RampLimit, ...] = Field(default=(), description="Limits on ramps.")
    changes: tuple[ChangeLimit, ...] = Field(
        default=(), description="Limits on the rate of changes above a size."
    )
    swings: tuple[SwingLimit, ...] = Field(default=(), description="Limits on swings.")
    band_rms: tuple[BandLimit, ...] = Field(default=(), description="Limits on band levels.")
    lines: tuple[LineLimit, ...] = Field(
        default=(), description="Limits on amplitudes of spectral lines."
    )
    peaks: tuple[PeakLimit, ...] = Field(default=(), description="Limits on power.")
    daily_energy_mwh: Positive | None = Field(
        default=None, description="Largest energy of a local calendar day [MWh]."
    )
    load_factor: tuple[LoadFactorLimit, ...] = Field(
        default=(), description="Least load factors of the run."
    )
    minimum_take: tuple[MinimumTakeLimit, ...] = Field(
        default=(), description="Least demand of every month."
    )
    power_factor: tuple[PowerFactorLimit, ...] = Field(
        default=(), description="Least power factors."
    )
    reactive_power: tuple[ReactivePowerLimit, ...] = Field(
        default=(), description="Ranges of reactive power."
    )

    @model_validator(mode="after")
    def _some_limit(self) -> Limits:
        if not list(self.each()):
            raise ValueError("sets no limit; give ramps, swings, band_rms, peaks or others")
        return self

    def each(self) -> Iterator[tuple[str, LimitSpec]]:
        """Yield the key and the spec of every limit, such as ``ramps.0``."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name == "daily_energy_mwh" and value is not None:
                yield name, DailyEnergyLimit(max_mwh=value)
            elif isinstance(value, tuple):
                specs = (spec for spec in value if isinstance(spec, LimitSpec))
                yield from ((f"{name}.{k}", spec) for k, spec in enumerate(specs))

    @property
    def origin(self) -> str:
        """Source, date and status in one line; empty for a user's own."""
        status = f"status: {self.status}" if self.status else ""
        told = "; ".join(filter(None, (self.source, self.date, status)))
        return f"{told}; {CHECK_PRIMARY}" if told else ""


def shipped_limits() -> dict[str, Path]:
    """Return the shipped files of limits by name."""
    folder = shipped_folder("scenarios") / "limits"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_limits(name_or_path: Path | str) -> Path:
    """Return the file of limits given by path or by shipped name.

    Raises
    ------
    ScenarioError
        If there is no such file and no such name.
    """
    return find_shipped("limits", name_or_path, shipped_limits())


def load_limits(name_or_path: Path | str) -> Limits:
    """Load and check limits.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        A YAML file, or the name of a preset such as ``"ercot_lcl_2026_06"``.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, what was found, what is allowed.
    """
    path = find_limits(name_or_path)
    data, lines = load_yaml_with_lines(path, "limits such as 'daily_energy_mwh: 100'")
    return checked(data, Limits, partial(located, path, lines))
