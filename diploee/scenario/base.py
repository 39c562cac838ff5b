"""Base of all scenario models: frozen, closed to unknown keys, strict about types."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

PROBABILITY_TOLERANCE = 1e-6


class Model(BaseModel):
    """A part of a scenario. Every key has a description; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=False
    )


def check_probabilities(probabilities: Iterable[float], of_what: str) -> None:
    """Raise `ValueError` unless the probabilities sum to 1 (within 1e-6)."""
    total = sum(probabilities)
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(f"the probabilities of the {of_what} must sum to 1, found {total:.6g}")
