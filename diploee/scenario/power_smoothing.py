"""GPU power smoothing: the driver's settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from diploee.model import Model

HIGHEST_FLOOR = 0.9
COARSEST_MS = 10_000
"""Smoothing acts within seconds; intervals longer than this show nothing of it."""


class PowerSmoothing(Model):
    """A floor, ramps and a hysteresis that every GPU of a stream's jobs holds while they run."""

    floor: Annotated[float, Field(ge=0, le=HIGHEST_FLOOR)] = Field(
        default=0.65,
        description="Least power of a GPU while its job runs, as a part of its TDP, at most 0.9 "
        "(assumed where not given).",
    )
    up_per_s: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.1,
        description="Largest rise of a GPU's power in a second, as a part of its TDP; work that "
        "waits for it makes the job longer (assumed where not given).",
    )
    down_per_s: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.1,
        description="Largest fall in a second, as a part of its TDP (assumed where not given).",
    )
    hysteresis_s: Annotated[float, Field(ge=0, le=60)] = Field(
        default=2.0,
        description="Time for which a power is held before it falls (assumed where not given).",
    )
