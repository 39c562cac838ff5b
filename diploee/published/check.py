"""A published figure beside that of the program, and sections of such figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """A figure, as it was published and as the program gives it.

    Parameters
    ----------
    what : str
        What it is, and of what.
    unit : str
        Its unit; empty where it has none.
    published : float or None
        The figure of the source; None where it gives a range alone, or says that there is none.
    found : float or None
        The figure of the program; None where it has none.
    accepted : (float, float), optional
        Lowest and highest figure that is accepted; none is asked for where not given.
    """

    what: str
    unit: str
    published: float | None
    found: float | None
    accepted: tuple[float, float] | None = None

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
    ) -> Check:
        """Return one that is accepted within a distance of what was published."""
        if published is None:
            return cls(what, unit, None, found)
        off = max(abs(published) * relative, absolute)
        return cls(what, unit, published, found, (published - off, published + off))

    @property
    def holds(self) -> bool | None:
        """Whether it is accepted; None where nothing is asked for."""
        if self.published is None and self.accepted is None:
            return self.found is None
        if self.accepted is None:
            return None
        return self.found is not None and self.accepted[0] <= self.found <= self.accepted[1]

    @property
    def off(self) -> float | None:
        """Distance from what was published, as a fraction of it."""
        if not self.published or self.found is None:
            return None
        return self.found / self.published - 1


@dataclass(frozen=True)
class Section:
    """Figures of one source.

    Parameters
    ----------
    title : str
        What is compared.
    source : str
        Where the published figures are from, and their licence or mark.
    checks : sequence of Check
        The figures.
    remark : str
        What the reader must know to judge them.
    """

    title: str
    source: str
    checks: Sequence[Check]
    remark: str = ""
