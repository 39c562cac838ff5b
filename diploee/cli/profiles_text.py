"""Words that the commands on profiles share."""

from __future__ import annotations


def count_text(n: int, what: str, plural: str = "s") -> str:
    """Return a count with its noun, such as ``1 node`` or ``1,200 nodes``."""
    return f"{n:,} {what}{'' if n == 1 else plural}"
