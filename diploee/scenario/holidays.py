"""Public holidays of a country, from the package `holidays`."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from types import ModuleType

import numpy as np

from diploee.errors import did_you_mean, one_of, shown
from diploee.tables import Int64Array


def check_country(text: str) -> str:
    """Return a country such as ``US``, or one with its subdivision such as ``DE-BY``."""
    country, _, part = text.partition("-")
    known: dict[str, list[str]] = _package().list_supported_countries()
    if country not in known:
        raise ValueError(
            f"unknown country {shown(country)}, expected a code such as 'US' or 'DE-BY'"
            f"{_nearest(country)}"
        )
    if "-" in text and part not in known[country]:
        raise ValueError(
            f"{country} has no subdivision {shown(part)} (has: {one_of(known[country])})"
            f"{did_you_mean(part, known[country])}"
        )
    return text


@lru_cache(maxsize=64)
def holidays_of(text: str, first_year: int, last_year: int) -> Int64Array:
    """Return the public holidays of the years as days since 1970-01-01, as far as known."""
    country, _, part = text.partition("-")
    years = range(first_year, last_year + 1)
    found = _package().country_holidays(country, subdiv=part or None, years=years)
    return np.array(sorted(found), dtype="datetime64[D]").astype(np.int64)


def _nearest(word: str) -> str:
    """Return the codes of the countries whose names or codes are nearest, as a hint."""
    from holidays.registry import COUNTRIES

    code_of = {key.replace("_", " "): names[1] for key, names in COUNTRIES.items()}
    near = get_close_matches(word.lower(), code_of)
    near += get_close_matches(word.upper(), code_of.values())[: 3 - len(near)]
    names = {code: key.title() for key, code in code_of.items()}
    hints = [f"'{code}' ({names[code]})" for code in dict.fromkeys(code_of.get(n, n) for n in near)]
    return f"; the nearest are {', '.join(hints)}" if hints else ""


def _package() -> ModuleType:
    try:
        import holidays
    except ImportError:
        raise ValueError(
            "holidays need the package of that name; pip install 'diploee[holidays]'"
        ) from None
    return holidays
