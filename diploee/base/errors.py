"""Exceptions with a one-line text for users, and helpers to write that line.

A line says where the problem is, what was found, what is allowed, and the remedy. The
command line prints it without a traceback. `InputError` ends with exit code 2, as the
user can correct the input; any other `DiploeeError` ends with 1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from difflib import get_close_matches
from enum import StrEnum
from itertools import accumulate, islice
from pathlib import PurePath
from typing import Any

MAX_VALUE_LENGTH = 60
"""Maximum length of a value in an error message [characters]."""

MAX_LIST_LENGTH = 300
"""Maximum length of the list of allowed values in an error message [characters]."""

MAX_LINE_LENGTH = 490
"""Maximum length of one line of an error message [characters]."""

MAX_REPR_LENGTH = 200
"""Maximum length of an object's repr in a notebook [characters]."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")

MAX_PROBLEMS = 50
"""Maximum number of problems that one error lists."""


class DiploeeError(Exception):
    """Base class of all errors that this package raises on purpose.

    Parameters
    ----------
    problems : str or iterable of str
        One line per problem. Control characters are escaped and long lines are
        shortened, so that a message is safe to print on a terminal.

    Attributes
    ----------
    problems : tuple of str
        The lines.
    """

    def __init__(self, problems: str | Iterable[str] = "") -> None:
        lines = iter((problems,) if isinstance(problems, str) else problems)
        shortened = [one_line(line) for line in islice(lines, MAX_PROBLEMS)]
        if next(lines, None) is not None:
            shortened.append("and more problems: mend those above first")
        self.problems = tuple(shortened)
        # Arguments with which another process rebuilds the error
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class InputError(DiploeeError):
    """An error in the user's input; its text names the place and the remedy."""


class ScenarioError(InputError):
    """An error in a scenario; `problems` has one line per problem."""


class ProfileError(InputError):
    """A power profile or profile library that is missing or unusable."""


class LogFormatError(InputError):
    """A file of another tool that does not have the format of its importer."""


class WorkloadError(InputError):
    """A workload that can't be generated, such as an unreachable utilization."""


class PolicyError(InputError):
    """A queue policy that starts jobs it must not start, or leaves a pool idle."""


class StageError(InputError):
    """A stage that returns undeclared columns or columns of the wrong shape."""


class OutputError(DiploeeError):
    """A result that can't be written, for example because the disk is full."""


class OutputExistsError(InputError):
    """An output path that exists and may not be overwritten."""


class RunTooLongError(InputError):
    """A run forecast to exceed the maximum duration; `time_s` is the forecast [s]."""

    time_s = 0.0


class EarlyStopError(DiploeeError):
    """A run stopped early because its limits can't be met any more.

    `reports` are the limit reports on the simulated part of the run.
    """

    reports: tuple[Any, ...] = ()


ON_COMMAND_LINE = ContextVar("ON_COMMAND_LINE", default=False)
"""True within a command of `diploee`, whose errors name options, not arguments."""
_ARGUMENTS = {"force": "force=True", "set": "values"}
_OPTIONS = {"from": "first", "to": "until"}


def with_arguments(error: DiploeeError, names: Collection[str]) -> None:
    """Replace command-line options in an error's text by names of arguments."""

    def argument(match: re.Match[str]) -> str:
        if match[1] is None:  # a command line
            return match[0]
        word = match[1].replace("-", "_")
        near = (n for n in (word, f"{word}_s", _OPTIONS.get(word, word)) if n in names)
        return _ARGUMENTS.get(word, next(near, word))

    if not ON_COMMAND_LINE.get():
        error.problems = tuple(
            re.sub(r"'diploee [^']*'|--([a-z][a-z-]+)", argument, line)
            for line in error.problems
        )
        error.args = (error.problems,)


_IN_PYTHON = ContextVar("_IN_PYTHON", default=False)


@contextmanager
def python_words(active: bool) -> Iterator[None]:
    """Write None and True, not null and true, in errors within the block."""
    token = _IN_PYTHON.set(active and not ON_COMMAND_LINE.get())
    try:
        yield
    finally:
        _IN_PYTHON.reset(token)


_NAMES_OPTIONS = ContextVar("_NAMES_OPTIONS", default=True)


def option(flag: str) -> str:
    """Return a command-line option in brackets to append to a name: `` (--seed)``.

    The text is empty within `hide_options`.
    """
    return f" ({flag})" if _NAMES_OPTIONS.get() else ""


@contextmanager
def hide_options() -> Iterator[None]:
    """Omit command-line options from error messages within the block.

    A scenario uses keys instead of these options.
    """
    token = _NAMES_OPTIONS.set(False)
    try:
        yield
    finally:
        _NAMES_OPTIONS.reset(token)


def printable(text: str) -> str:
    """Return the text with line ends and other control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def spreadsheet_cell(value: Any) -> Any:
    """Return a value for a spreadsheet cell; text like a formula is quoted."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


def one_line(text: str) -> str:
    """Return the text as one line: control characters escaped, long text shortened."""
    half = MAX_LINE_LENGTH // 2
    if len(text) > 4 * MAX_LINE_LENGTH:  # megabytes of text: keep only both ends
        text = f"{text[: 2 * MAX_LINE_LENGTH]}{text[-2 * MAX_LINE_LENGTH :]}"
    line = printable(text)
    return (
        line
        if len(line) <= MAX_LINE_LENGTH
        else f"{line[:half]} ... {line[5 - half :]}"
    )


def shown(value: object) -> str:
    """Format a value for an error message, as YAML would write it."""
    match value:
        case None | bool() if _IN_PYTHON.get():
            return repr(value)
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
    """Base class of records and models with a repr of one line.

    The repr has at most about `MAX_REPR_LENGTH` characters, whatever the fields
    contain. It has the text of the method `brief`, or else the fields.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            # A dataclass keeps a repr that its class defines
            cls.__repr__ = Brief.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        class_: Any = type(self)
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            text = one_line(class_.brief(self))
            return f"<{class_.__name__} {text:.{MAX_REPR_LENGTH - 40}}>"
        parts: list[str] = []
        for name in (
            getattr(class_, "__dataclass_fields__", None) or class_.model_fields
        ):
            parts.append(f"{name}={_short_repr(getattr(self, name, None))}")
            if len(", ".join(parts)) > MAX_REPR_LENGTH - 80:
                parts[-1:] = ["..."]
                break
        return f"{class_.__name__}({', '.join(parts)})"

    def __str__(self) -> str:
        return repr(self)


def _short_repr(value: object) -> str:
    """Return the repr of a short value, or type and size of a long one."""
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

    A long list is cut, with the number of omitted values.
    """
    names = [f"'{name}'" for name in allowed]
    ends = accumulate(len(name) + 2 for name in names)
    n_shown = max(1, sum(end <= MAX_LIST_LENGTH for end in ends))
    more = [f"{len(names) - n_shown} more"] if n_shown < len(names) else []
    return ", ".join([*names[:n_shown], *more]) or "none"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, such as ``1 run`` or ``1,200 runs``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(texts: Iterable[Iterable[str]], n_items: int, noun: str) -> list[str]:
    """Return each distinct text with the number of items that it applies to.

    Texts that differ only in their numbers count as one.
    """
    by_pattern: dict[str, list[str]] = {}
    for item_texts in texts:
        for pattern, text in {
            re.sub(r"\d[\d.,]*", "#", text): text for text in item_texts
        }.items():
            by_pattern.setdefault(pattern, []).append(text)
    return [
        f"{matches[0]} ({len(matches):,} of {plural(n_items, noun)})"
        for matches in by_pattern.values()
    ]


def did_you_mean(word: str, allowed: Iterable[str], cutoff: float = 0.5) -> str:
    """Return ``; did you mean 'x'?`` for the closest allowed words, or ""."""
    names = {name.lower(): name for name in allowed}
    matches = get_close_matches(
        word.lower(), names, n=2, cutoff=0.9
    )  # 0.9: about a letter off
    matches = matches or get_close_matches(word.lower(), names, n=1, cutoff=cutoff)
    near = " or ".join(repr(names[match]) for match in matches)
    return f"; did you mean {near}?" if matches else ""
