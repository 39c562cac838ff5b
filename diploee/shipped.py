"""Where the shipped scenarios and profiles lie: in the wheel, or atop a source checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped_folder(kind: str) -> Path:
    """Return the folder of what ships with the package.

    Parameters
    ----------
    kind : {"scenarios", "profiles"}
        The top-level folder's name.

    Returns
    -------
    pathlib.Path
        The checkout's folder where the package runs from one, else the copy inside the wheel.
    """
    checkout = _PACKAGE.parent / kind
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return _PACKAGE / "_shipped" / kind
