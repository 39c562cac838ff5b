"""What is known of GPUs by their model's name."""

from __future__ import annotations

import re

TDP_W = {
    r"\bH[12]00\b.*\bSXM": 700.0,
    r"\bH100\b.*\bPCIE": 350.0,
    r"\bA100\b.*\bSXM": 400.0,
    r"\bV100\b.*\bSXM": 300.0,
    r"\bB200\b.*\bSXM": 1_000.0,
    r"\bL40S\b": 350.0,
}
"""Thermal design power of one GPU [W] by a pattern of its name, of the makers' data sheets [M]."""


def tdp_of(model: str) -> float | None:
    """Return the thermal design power of a GPU [W]; None where its model is not known.

    Parameters
    ----------
    model : str
        Its name, such as ``"NVIDIA H100-SXM5-80GB"``.
    """
    return next((w for name, w in TDP_W.items() if re.search(name, model.upper())), None)
