"""A published figure beside that of the program, and sections of such figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diploee import Run

Simulate = Callable[[str, tuple[str, ...]], Run]
"""Runs a shipped scenario with ``key=value`` changes."""


@dataclass(frozen=True)
class Check:
    """A figure, as it was published and as the program gives it.

    Every published figure has a range, fixed before the comparison; one outside says
    why.
    """

    what: str  # the figure, and of what
    unit: str  # empty where it has none
    # None where the source gives a range alone, or says there is none
    published: float | None
    found: float | None  # figure of the program; None where it has none
    # Lowest and highest; None where there must be no figure
    accepted: tuple[float, float] | None
    # The program's inputs were fitted to it, or follow from such figures
    fitted: bool = False
    why: str = ""  # reason of one outside its range

    def __post_init__(self) -> None:
        if self.published is not None and self.accepted is None:
            raise ValueError(f"{self.what}: a published figure needs an accepted range")

    @classmethod
    def near(
        cls,
        what: str,
        unit: str,
        published: float | None,
        found: float | None,
        *,
        relative: float = 0.0,
        absolute: float = 0.0,
        fitted: bool = False,
        why: str = "",
    ) -> Check:
        """Return one that is accepted within a distance of what was published."""
        if published is None:
            return cls(what, unit, None, found, None, fitted, why)
        off = max(abs(published) * relative, absolute)
        return cls(
            what,
            unit,
            published,
            found,
            (published - off, published + off),
            fitted,
            why,
        )

    @property
    def holds(self) -> bool:
        """Whether it is accepted."""
        if self.accepted is None:
            return self.found is None
        return (
            self.found is not None
            and self.accepted[0] <= self.found <= self.accepted[1]
        )

    @property
    def off(self) -> float | None:
        """Distance from what was published, as a fraction of it."""
        if not self.published or self.found is None:
            return None
        return self.found / self.published - 1


@dataclass(frozen=True)
class Section:
    """Figures of one source."""

    title: str  # the comparison
    source: str  # of the published figures, and their licence or mark
    checks: Sequence[Check]
    remark: str = ""  # what the reader must know to judge them
