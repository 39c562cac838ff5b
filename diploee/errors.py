"""Exceptions whose text is one clear line: where, what, found, allowed, remedy.

The command line prints them without a traceback: `InputError` ends with exit code 2 (the user can
mend the input), any other `DiploeeError` with 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class DiploeeError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(DiploeeError):
    """Something that the user gave is wrong; the text names the place and the remedy."""


class ScenarioError(InputError):
    """A scenario does not load; `problems` holds one line for each thing found."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(map(one_line, problems))
        super().__init__("\n".join(self.problems))


class ProfileError(InputError):
    """A power profile or a profile library is missing or not usable."""


class LogFormatError(InputError):
    """A foreign file does not have the format that its importer reads."""


class WorkloadError(InputError):
    """The requested workload can't be generated, such as a utilization out of reach."""


class OutputError(DiploeeError):
    """A result can't be written, such as a full disk or a folder without permission."""


class OutputExistsError(InputError):
    """The output folder exists and may not be overwritten."""


LONGEST_VALUE = 60
"""Characters of a value that an error message shows."""


def one_line(text: str) -> str:
    """Return the text with line ends and other control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """Return a value that was found as text for an error message, as YAML would say it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "a group of keys" if value else "an empty group of keys"
        case list() | tuple():
            return f"a list of {len(value)}" if value else "an empty list"
        case int() if abs(value) >= 10**LONGEST_VALUE:  # Python may refuse to print it
            return f"a number of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, str | int | float) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def one_of(allowed: Iterable[object]) -> str:
    """Return the allowed values as text for an error message, ``'a', 'b'``."""
    return ", ".join(f"'{name}'" for name in allowed) or "none"


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest allowed word, or an empty string."""
    near = get_close_matches(word, list(allowed), n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ""
