"""Colours and line styles, the same in every figure.

The palette of Okabe and Ito keeps apart for readers with any colour vision; sequential colours are
cividis, made for the same end.
"""

from __future__ import annotations

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
DASHES = ("solid", "dash", "dot")

INK = "#1b2733"
MUTED = "#5d6b78"
GRID = "#e3e8ec"
PEAK = "#8a97a3"

SEQUENTIAL = "cividis"
CIVIDIS = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173",
    "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
)  # fmt: skip
"""Ten even steps of matplotlib's cividis."""


def colour(index: int) -> str:
    """Return the colour of the n-th run, service or group."""
    return PALETTE[index % len(PALETTE)]


def dash(index: int) -> str:
    """Return the dash of the n-th line: it changes when the colours start again."""
    return DASHES[index // len(PALETTE) % len(DASHES)]
