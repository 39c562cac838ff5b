"""All requests are served, at the latency of the measured curve at R / K (section 2.3.2)."""

from __future__ import annotations

from math import inf
from typing import Literal

from pydantic import Field

from diploee.scenario.overloads import OverloadSpec


class Degrade(OverloadSpec):
    """Serve all requests at once; instances are given more than R_max where they must."""

    kind: Literal["degrade"] = Field(
        default="degrade",
        description="Serve all requests at once, at the latency of the measured curve.",
    )

    @property
    def needs_throughput(self) -> bool:
        """The latency beyond R_max is read off the measured curve."""
        return True

    def completion_rate_rps(
        self,
        max_rate_rps: float,  # noqa: ARG002
        throughput_rps: float,  # noqa: ARG002
    ) -> float:
        """Return no limit."""
        return inf
