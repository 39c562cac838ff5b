"""JSON of foreign files: every fault is one line with file, line or key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from diploee.errors import LogFormatError, one_of, shown
from diploee.tables import Float64Array


def read_bytes(path: Path) -> bytes:
    """Return a file's content.

    Raises
    ------
    LogFormatError
        If it can't be read.
    """
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise LogFormatError(f"{path}: can't be read ({why}); give a readable file") from error


def parse_object(path: Path, content: bytes) -> dict[str, Any]:
    """Parse a file that holds one JSON object.

    Raises
    ------
    LogFormatError
        If it is not valid JSON, or another value.
    """
    try:
        data = json.loads(content)
    except json.JSONDecodeError as error:
        raise LogFormatError(
            f"{path}:{error.lineno}: not valid JSON ({error.msg}); is the file complete?"
        ) from error
    except UnicodeDecodeError as error:
        raise LogFormatError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise LogFormatError(f"{path}: is nested too deeply to be a benchmark's file") from error
    if not isinstance(data, dict):
        raise LogFormatError(f"{path}:1: expected a group of keys, found {shown(data)}")
    return data


def get(data: dict[str, Any], key: str, where: str) -> Any:
    """Return the value at a dotted key.

    Raises
    ------
    LogFormatError
        If it is missing; the text lists the keys that stand in its place.
    """
    here: Any = data
    for part in key.split("."):
        if not isinstance(here, dict) or part not in here:
            have = one_of(list(here)[:12]) if isinstance(here, dict) else shown(here)
            raise LogFormatError(f"{where}: '{key}' is missing (found: {have}); is it complete?")
        here = here[part]
    return here


def number(data: dict[str, Any], key: str, where: str, *, above: float = 0.0) -> float:
    """Return the number at a dotted key.

    Raises
    ------
    LogFormatError
        If it is missing, not a finite number or not above `above`.
    """
    value = get(data, key, where)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise LogFormatError(f"{where}: '{key}' must be a number, found {shown(value)}")
    if value <= above:
        raise LogFormatError(f"{where}: '{key}' must be above {above:g}, found {value:g}")
    return float(value)


def optional_number(data: dict[str, Any], key: str, where: str) -> float | None:
    """Return the positive number at a dotted key, None where it is missing or null."""
    here: Any = data
    for part in key.split("."):
        here = here.get(part) if isinstance(here, dict) else None
    return None if here is None else number(data, key, where)


def whole(data: dict[str, Any], key: str, where: str) -> int:
    """Return the positive whole number at a dotted key.

    Raises
    ------
    LogFormatError
        If it is missing, or not a whole number above 0.
    """
    value = number(data, key, where)
    if value != int(value):
        raise LogFormatError(f"{where}: '{key}' must be a whole number, found {value:g}")
    return int(value)


def numbers(values: Any, where: str) -> Float64Array:
    """Return a list (of lists) of numbers as an array.

    Raises
    ------
    LogFormatError
        If it is none.
    """
    try:
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "iuf":
            raise TypeError(f"a value of type {array.dtype}")
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise LogFormatError(f"{where}: expected numbers alone ({_line(error)})") from error


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0][:80]
