"""Overload rules: treatment of a stream's requests above its capacity."""

from __future__ import annotations

from math import inf
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from diploee.base.model import Kind, Kinds, default


class OverloadSpec(Kind):
    """Base of the settings of an overload rule in a scenario."""

    needs_throughput: ClassVar[bool] = False
    """Whether the measured throughput of an instance must be known."""

    def completion_rate_rps(
        self,
        max_rate_rps: float,
        throughput_rps: float,  # noqa: ARG002
    ) -> float:
        """Return the maximum completion rate of an instance [1/s].

        `max_rate_rps` is the maximum rate that the load balancer assigns to an instance
        while others are free, R_max of Eqs. 4-5 [1/s]. `throughput_rps` is its measured
        sustained throughput [1/s].
        """
        return max_rate_rps

    @property
    def drain_time_s(self) -> float:
        """Time in which additional instances serve the queue [s]; 0 without a queue."""
        return 0.0


class Degrade(OverloadSpec):
    """Rule to serve all requests at once, if necessary above R_max."""

    kind: Literal["degrade"] = default(
        "degrade",
        "All requests are served at once, at the latency of the measured curve.",
    )
    needs_throughput = True

    def completion_rate_rps(self, max_rate_rps: float, throughput_rps: float) -> float:  # noqa: ARG002
        """Return infinity: the rate has no limit."""
        return inf


class Queue(OverloadSpec):
    """Rule to queue requests above the throughput, first in, first out."""

    kind: Literal["queue"] = default(
        "queue", "Requests above the measured throughput wait in a queue."
    )
    drain_s: Annotated[float, Field(gt=0, le=86_400)] = default(
        60.0,
        (
            "Time within which waiting requests are to be served if nodes are free "
            "[s]; Eq. 4 includes them in the rate."
        ),
    )
    needs_throughput = True

    def completion_rate_rps(self, max_rate_rps: float, throughput_rps: float) -> float:  # noqa: ARG002
        """Return the measured throughput of an instance [1/s]."""
        return throughput_rps

    @property
    def drain_time_s(self) -> float:
        """Drain time of the queue from the scenario [s]."""
        return self.drain_s


class Reject(OverloadSpec):
    """Rule to reject requests above capacity, as in the paper.

    The rejected requests are R_incomplete of Eq. 6 (section 2.3.2).
    """

    kind: Literal["reject"] = default(
        "reject", "Requests above capacity are not served."
    )


OVERLOADS: Kinds[OverloadSpec] = Kinds(
    "overload", OverloadSpec, "diploee.scenario.overloads"
)
"""Overload rules by name: those of the package, and those of extensions."""
