"""Rules for requests above capacity that a stream may name."""

from __future__ import annotations

from math import inf
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from diploee.base.model import Kind, Kinds, default


class OverloadSpec(Kind):
    """Settings for requests above capacity in a scenario."""

    needs_throughput: ClassVar[bool] = False
    """Whether the measured throughput of an instance must be known."""

    def completion_rate_rps(
        self,
        max_rate_rps: float,
        throughput_rps: float,  # noqa: ARG002
    ) -> float:
        """Return the rate that an instance completes at most [1/s].

        `max_rate_rps` is what it is given at most while there are others, R_max of Eqs.
        4-5 [1/s], `throughput_rps` its measured sustained throughput [1/s].
        """
        return max_rate_rps

    @property
    def drain_time_s(self) -> float:
        """Time within which more instances are to serve what waits [s].

        0: nothing waits.
        """
        return 0.0


class Degrade(OverloadSpec):
    """Serve all requests at once.

    Instances are given more than R_max where they must.
    """

    kind: Literal["degrade"] = default(
        "degrade", "Serve all requests at once, at the latency of the measured curve."
    )
    needs_throughput = True

    def completion_rate_rps(self, max_rate_rps: float, throughput_rps: float) -> float:  # noqa: ARG002
        """Return no limit."""
        return inf


class Queue(OverloadSpec):
    """Keep what is above the throughput waiting, first in, first out."""

    kind: Literal["queue"] = default(
        "queue", "Let what is above the measured throughput wait."
    )
    drain_s: Annotated[float, Field(gt=0, le=86_400)] = default(
        60.0,
        (
            "Eq. 4 counts what waits in, so that it is served within this time [s] "
            "where nodes are free."
        ),
    )
    needs_throughput = True

    def completion_rate_rps(self, max_rate_rps: float, throughput_rps: float) -> float:  # noqa: ARG002
        """Return the measured throughput."""
        return throughput_rps

    @property
    def drain_time_s(self) -> float:
        """Time of the scenario."""
        return self.drain_s


class Reject(OverloadSpec):
    """Leave what is above capacity unserved: R_incomplete of Eq. 6 (section 2.3.2)."""

    kind: Literal["reject"] = default(
        "reject", "Leave what is above capacity unserved."
    )


OVERLOADS: Kinds[OverloadSpec] = Kinds(
    "overload", OverloadSpec, "diploee.scenario.overloads"
)
"""Ways by name: those of the package, and those registered from outside."""
