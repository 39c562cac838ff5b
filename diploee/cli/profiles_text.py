"""Words that the commands on profiles and on Zeus share: counts, and the names of options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


def count_text(n: int, what: str, plural: str = "s") -> str:
    """Return a count with its noun, such as ``1 node`` or ``1,200 nodes``."""
    return f"{n:,} {what}{'' if n == 1 else plural}"


@contextmanager
def naming_options(**options: str) -> Iterator[None]:
    """Name options, not arguments of Python, in what an argument's error says.

    Parameters
    ----------
    **options : str
        By argument, such as ``idle_w="--idle-w"``. Errors on files are left as they are.
    """
    from diploee.errors import ProfileError, WorkloadError

    try:
        yield
    except (ProfileError, WorkloadError) as error:
        words = "|".join(map(re.escape, options))
        text = re.sub(rf"\b({words})\b", lambda found: options[found[1]], str(error))
        raise type(error)(text) from error
