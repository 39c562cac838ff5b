"""Requests above the measured throughput wait, first in first out, as a fluid."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from diploee.scenario.overloads import OverloadSpec


class Queue(OverloadSpec):
    """Keep what is above the measured throughput waiting, and serve it later."""

    kind: Literal["queue"] = Field(
        default="queue",
        description="Let what is above the measured throughput wait.",
    )
    drain_s: Annotated[float, Field(gt=0, le=86_400)] = Field(
        default=60.0,
        description="Eq. 4 counts what waits in, so that it is served within this time [s] where "
        "nodes are free.",
    )

    @property
    def needs_throughput(self) -> bool:
        """The queue depends on what an instance completes."""
        return True

    def completion_rate_rps(
        self,
        max_rate_rps: float,  # noqa: ARG002
        throughput_rps: float,
    ) -> float:
        """Return the measured throughput."""
        return throughput_rps

    @property
    def drain_time_s(self) -> float:
        """Time of the scenario."""
        return self.drain_s
