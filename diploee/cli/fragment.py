"""Shared by the commands that learn a stream: where it goes, and what they print of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

from diploee.files import Writing
from diploee.learn.fragment import write_fragment


def give_fragment(
    text: str,
    out: Path | None,
    force: bool,
    data: Callable[[], dict[str, Any]] | None,
    tell: Callable[[], Iterable[str]],
    plots: Path | None = None,
    draw: Callable[[Path, Writing], list[Path]] | None = None,
) -> None:
    """Write a fragment and its pictures, where they were asked for, together; print the rest."""
    written = write_fragment(text, out, force, plots, draw)
    if data is not None:
        typer.echo(json.dumps(data(), indent=2))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        for line in [*tell(), f"Written: {', '.join(map(str, written))}"]:
            typer.echo(line)
