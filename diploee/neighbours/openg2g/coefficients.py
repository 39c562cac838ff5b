"""The numbers of a fitted model as they stand in a file, under their symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diploee.errors import InputError, one_of, shown


def read_coefficients(
    data: Mapping[str, Any], what: str, symbols: Mapping[str, str], quality: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of a model."""
    missing = [symbol for symbol in symbols if symbol not in data]
    if missing:
        raise InputError(
            f"{what} needs {one_of(symbols)}, missing: {one_of(missing)} (found: {one_of(data)})"
        )
    found = {name: data[symbol] for symbol, name in symbols.items()}
    found |= {name: data[name] for name in quality if data.get(name) is not None}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            symbol = {argument: symbol for symbol, argument in symbols.items()}.get(name, name)
            raise InputError(f"{what}'s {symbol} must be a number, found {shown(value)}")
    return found
