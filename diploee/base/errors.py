"""Exceptions whose text is one clear line: where, what, found, allowed, remedy.

The command line prints them without a traceback: `InputError` ends with exit code 2
(the user can mend the input), any other `DiploeeError` with 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from enum import StrEnum
from itertools import accumulate, islice
from pathlib import PurePath
from typing import Any

MAX_VALUE_LENGTH = 60
"""Characters of a value that an error message shows."""

MAX_LIST_LENGTH = 300
"""Characters of the allowed values that an error message lists."""

MAX_LINE_LENGTH = 490
"""Characters of one line of an error message."""

MAX_REPR_LENGTH = 200
"""Characters of an object that a notebook shows."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")

MAX_PROBLEMS = 50
"""Problems that one error lists; a file of aliases may hold thousands of the same."""


class DiploeeError(Exception):
    """Base of every error that this package raises on purpose.

    Parameters
    ----------
    problems : str or iterable of str
        What is wrong; several things have a line each. Control characters are escaped
        and long lines cut here, so that no message can carry them to a terminal.

    Attributes
    ----------
    problems : tuple of str
        The lines.
    """

    def __init__(self, problems: str | Iterable[str] = "") -> None:
        lines = iter((problems,) if isinstance(problems, str) else problems)
        kept = [one_line(line) for line in islice(lines, MAX_PROBLEMS)]
        if next(lines, None) is not None:
            kept.append("and more problems: mend those above first")
        self.problems = tuple(kept)
        # What an error that crosses processes is made of again
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class InputError(DiploeeError):
    """Something that the user gave is wrong.

    The text names the place and the remedy.
    """


class ScenarioError(InputError):
    """A scenario does not load; `problems` holds one line for each thing found."""


class ProfileError(InputError):
    """A power profile or a profile library is missing or not usable."""


class LogFormatError(InputError):
    """A foreign file does not have the format that its importer reads."""


class WorkloadError(InputError):
    """The requested workload can't be generated, such as a utilization out of reach."""


class PolicyError(InputError):
    """A queue discipline starts what it may not, or leaves a pool idle."""


class StageError(InputError):
    """A stage gives a column that it did not declare, or of a wrong shape."""


class OutputError(DiploeeError):
    """A result can't be written, such as a full disk or a folder without permission."""


class OutputExistsError(InputError):
    """The output folder exists and may not be overwritten."""


class RunTooLongError(InputError):
    """A run is forecast to take longer than allowed; `time_s` is the forecast [s]."""

    time_s = 0.0


class DecidedError(DiploeeError):
    """A run stopped as its limits are not met whatever follows.

    `reports` are on what it had of the run until then.
    """

    reports: tuple[Any, ...] = ()


_NAMES_OPTIONS = ContextVar("_NAMES_OPTIONS", default=True)


def option(flag: str) -> str:
    """Return an option of the commands in brackets, which follows the name of what it gives.

    Empty within `without_options`.
    """  # noqa: E501
    return f" ({flag})" if _NAMES_OPTIONS.get() else ""


@contextmanager
def without_options() -> Iterator[None]:
    """Name no options of commands in messages.

    A scenario gives by keys what they give.
    """
    before = _NAMES_OPTIONS.set(False)
    try:
        yield
    finally:
        _NAMES_OPTIONS.reset(before)


def printable(text: str) -> str:
    """Return the text with line ends and other control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def cell(value: Any) -> Any:
    """Return a value for a table that a spreadsheet opens.

    Text like a formula is quoted.
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


def one_line(text: str) -> str:
    """Return the text with control characters escaped, shortened where long."""
    half = MAX_LINE_LENGTH // 2
    if len(text) > 4 * MAX_LINE_LENGTH:  # of megabytes, what could be shown
        text = f"{text[: 2 * MAX_LINE_LENGTH]}{text[-2 * MAX_LINE_LENGTH :]}"
    line = printable(text)
    return (
        line
        if len(line) <= MAX_LINE_LENGTH
        else f"{line[:half]} ... {line[5 - half :]}"
    )


def shown(value: object) -> str:
    """Return a found value as text for an error message, as in YAML."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "a group of keys" if value else "an empty group of keys"
        case list() | tuple():
            return f"a list of {len(value)}" if value else "an empty list"
        case int() if (
            abs(value) >= 10**MAX_VALUE_LENGTH
        ):  # Python may refuse to print it
            return f"a number of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, str | int | float) else str(value)
    return (
        text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 3]}..."
    )


class Brief:
    """Base of records and models.

    Whatever they hold, they show in one line of `MAX_REPR_LENGTH`.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass keeps it
        cls.__repr__ = Brief.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        of: Any = type(self)
        parts: list[str] = []
        for name in getattr(of, "__dataclass_fields__", None) or of.model_fields:
            parts.append(f"{name}={_sized(getattr(self, name, None))}")
            if len(", ".join(parts)) > MAX_REPR_LENGTH - 80:
                parts[-1:] = ["..."]
                break
        return f"{of.__name__}({', '.join(parts)})"

    __str__ = __repr__


def _sized(value: object) -> str:
    """Return a value if it is short, else its type and size."""
    if value is None or isinstance(value, str | int | float | PurePath):
        return one_line(
            shown(str(value) if isinstance(value, PurePath | StrEnum) else value)
        )
    if (shape := getattr(value, "shape", None)) is not None:
        return f"{type(value).__name__}{list(shape)}"
    size = f"[{len(value)}]" if isinstance(value, Sized) else ""
    return f"{type(value).__name__}{size}"


def one_of(allowed: Iterable[object]) -> str:
    """Return the allowed values as text for an error message, ``'a', 'b'``.

    Not all of many.
    """
    names = [f"'{name}'" for name in allowed]
    ends = accumulate(len(name) + 2 for name in names)
    n_shown = max(1, sum(end <= MAX_LIST_LENGTH for end in ends))
    more = [f"{len(names) - n_shown} more"] if n_shown < len(names) else []
    return ", ".join([*names[:n_shown], *more]) or "none"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, ``1 run`` or ``1,200 runs``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(texts: Iterable[Iterable[str]], n_of: int, what: str) -> list[str]:
    """Return each text once, with how many of the things it was said of."""
    result: dict[str, list[str]] = {}
    for of_one in texts:
        for alike, text in {
            re.sub(r"\d[\d.,]*", "#", text): text for text in of_one
        }.items():
            result.setdefault(alike, []).append(text)
    return [f"{of[0]} ({len(of):,} of {plural(n_of, what)})" for of in result.values()]


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest allowed words, or ""."""
    words = list(allowed)
    near = get_close_matches(word, words, n=2, cutoff=0.9)  # 0.9: about a letter off
    near = near or get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
