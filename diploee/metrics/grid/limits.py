"""A user's limits on the load as YAML: ramps, swings, band levels, peak, daily energy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from diploee.errors import InputError, did_you_mean, one_of, shown
from diploee.scenario.base import Model
from diploee.scenario.spans import parse_resolution_ms
from diploee.scenario.yaml_lines import KeyPath, dotted, line_of, load_yaml_with_lines
from diploee.units import MS_PER_MIN, MS_PER_S

PositiveMw = Annotated[float, Field(gt=0)]
SpanMs = Annotated[int, BeforeValidator(parse_resolution_ms)]
OptionalSpanMs = Annotated[
    int | None,
    BeforeValidator(lambda text: None if text is None else parse_resolution_ms(text)),
]


class LimitsError(InputError):
    """A limits file does not load; one line for each thing found."""


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
    LimitsError
        With one line for each problem: file, line, key, what was found, what is allowed.
    """
    place = Path(path)
    if not place.is_file():
        raise LimitsError(f"{path}: no such file of limits")
    if not place.read_bytes().strip():
        raise LimitsError(f"{path}: is empty; set limits such as 'daily_energy_mwh: 100'")
    data, lines = load_yaml_with_lines(place)
    if not isinstance(data, dict):
        raise LimitsError(f"{path}:1: expected keys such as 'ramps:', found {data!r:.40}")
    try:
        return Limits.model_validate(data)
    except ValidationError as error:
        problems = [_problem(place, lines, detail) for detail in error.errors()]
        raise LimitsError("\n".join(problems)) from error


def _problem(path: Path, lines: dict[KeyPath, int], detail: ErrorDetails) -> str:
    place: KeyPath = detail["loc"]
    where = f"{path}:{line_of(place, lines)} {dotted(place)}".rstrip()
    return f"{where}: {_message(detail)}"


def _message(detail: ErrorDetails) -> str:
    kind, text = detail["type"], detail["msg"].removeprefix("Value error, ")
    found = shown(detail["input"])
    if kind == "extra_forbidden":
        word, allowed = str(detail["loc"][-1]), tuple(_model_at(detail["loc"]).model_fields)
        return f"unknown key '{word}' (allowed: {one_of(allowed)}){did_you_mean(word, allowed)}"
    if kind == "missing":
        return "this key is missing; add it"
    if kind == "value_error":
        return text
    if kind == "tuple_type":
        return f"must be a list, each item after '-', found {found}"
    if kind == "model_type":
        return f"must be a group of keys, found {found}"
    return f"{text.replace('Input should be', 'must be')}, found {found}"


def _model_at(place: KeyPath) -> type[BaseModel]:
    """Return the model that the last key of a place was given to."""
    if len(place) < 2:
        return Limits
    item: Any = get_args(Limits.model_fields[str(place[0])].annotation)[0]
    return item if isinstance(item, type) and issubclass(item, BaseModel) else Limits
