"""A user's limits on the load as YAML: ramps, swings, band levels, peak, daily energy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from diploee.model import Model
from diploee.problems import checked
from diploee.scenario.spans import parse_resolution_ms
from diploee.scenario.yaml_lines import load_yaml_with_lines, located
from diploee.units import MS_PER_MIN, MS_PER_S

PositiveMw = Annotated[float, Field(gt=0)]
SpanMs = Annotated[int, BeforeValidator(parse_resolution_ms)]
OptionalSpanMs = Annotated[
    int | None,
    BeforeValidator(lambda text: None if text is None else parse_resolution_ms(text)),
]


class RampLimit(Model):
    """Largest ramp: the difference of the means of two adjacent intervals over their length."""

    interval: SpanMs = Field(description="Length of each of the two intervals, such as '1 min'.")
    up_mw_per_s: PositiveMw | None = Field(default=None, description="Largest rise [MW/s].")
    down_mw_per_s: PositiveMw | None = Field(default=None, description="Largest fall [MW/s].")
    up_mw_per_min: PositiveMw | None = Field(default=None, description="Largest rise [MW/min].")
    down_mw_per_min: PositiveMw | None = Field(default=None, description="Largest fall [MW/min].")

    @model_validator(mode="after")
    def _some_rate(self) -> RampLimit:
        if not self.rates():
            raise ValueError(
                "give a rate: up_mw_per_s, down_mw_per_s, up_mw_per_min or down_mw_per_min"
            )
        return self

    def rates(self) -> list[tuple[str, float, str, int]]:
        """Return direction, rate, its unit and the unit's time [ms] of every limit that is set."""
        found = [
            ("up", self.up_mw_per_s, "MW/s", MS_PER_S),
            ("down", self.down_mw_per_s, "MW/s", MS_PER_S),
            ("up", self.up_mw_per_min, "MW/min", MS_PER_MIN),
            ("down", self.down_mw_per_min, "MW/min", MS_PER_MIN),
        ]
        return [(way, rate, unit, per_ms) for way, rate, unit, per_ms in found if rate is not None]


class SwingLimit(Model):
    """Largest range, the largest less the smallest value, within a sliding window."""

    window: SpanMs = Field(description="Length of the window, such as '10 s'.")
    max_mw: PositiveMw = Field(description="Largest range [MW].")


class BandLimit(Model):
    """Largest rms of the load in a frequency band, over 10-minute windows."""

    low_hz: Annotated[float, Field(gt=0)] = Field(description="Lower edge of the band [Hz].")
    high_hz: Annotated[float, Field(gt=0)] = Field(description="Upper edge of the band [Hz].")
    max_rms_mw: PositiveMw = Field(description="Largest rms [MW].")

    @model_validator(mode="after")
    def _rising(self) -> BandLimit:
        if self.high_hz <= self.low_hz:
            raise ValueError(
                f"high_hz must be above low_hz, found {self.low_hz:g} to {self.high_hz:g}"
            )
        return self


class PeakLimit(Model):
    """Largest power: of a mean over clock intervals, or of the run's own interval means."""

    max_mw: PositiveMw = Field(description="Largest power [MW].")
    interval: OptionalSpanMs = Field(
        default=None, description="Clock interval of the mean; the run's resolution if absent."
    )


class Limits(Model):
    """What a load must keep; every key may be left out."""

    name: str = Field(default="", description="Where the limits come from.")
    ramps: tuple[RampLimit, ...] = Field(default=(), description="Limits on ramps.")
    swings: tuple[SwingLimit, ...] = Field(default=(), description="Limits on swings.")
    band_rms: tuple[BandLimit, ...] = Field(default=(), description="Limits on band levels.")
    peaks: tuple[PeakLimit, ...] = Field(default=(), description="Limits on power.")
    daily_energy_mwh: PositiveMw | None = Field(
        default=None, description="Largest energy of a local calendar day [MWh]."
    )

    @model_validator(mode="after")
    def _some_limit(self) -> Limits:
        if not (self.ramps or self.swings or self.band_rms or self.peaks or self.daily_energy_mwh):
            raise ValueError(
                "sets no limit; give ramps, swings, band_rms, peaks or daily_energy_mwh"
            )
        return self


def load_limits(path: Path | str) -> Limits:
    """Load and check a file of limits.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, what was found, what is allowed.
    """
    data, lines = load_yaml_with_lines(Path(path), "limits such as 'daily_energy_mwh: 100'")
    return checked(data, Limits, partial(located, path, lines))
