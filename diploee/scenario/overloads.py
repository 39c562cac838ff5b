"""Rules for requests above capacity that a stream may name."""

from __future__ import annotations

from diploee.model import Kind, Kinds


class OverloadSpec(Kind):
    """Settings for requests above capacity in a scenario."""

    @property
    def needs_throughput(self) -> bool:
        """Whether the measured throughput of an instance must be known."""
        return False

    def completion_rate_rps(
        self,
        max_rate_rps: float,
        throughput_rps: float,  # noqa: ARG002
    ) -> float:
        """Return the rate that an instance completes at most [1/s].

        Parameters
        ----------
        max_rate_rps : float
            Rate that it is given at most while there are others, R_max of Eqs. 4-5 [1/s].
        throughput_rps : float
            Measured sustained throughput [1/s].
        """
        return max_rate_rps

    @property
    def drain_time_s(self) -> float:
        """Time within which more instances are to serve what waits [s]; 0: nothing waits."""
        return 0.0


OVERLOADS: Kinds[OverloadSpec] = Kinds("overload", OverloadSpec, "diploee.loads.services.overloads")
"""Ways by name: those of the package, and those registered from outside."""
