"""Shared by the commands that learn a stream: where it goes, and what they print of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

from diploee.cli.options import print_result
from diploee.learn.fragment import write_fragment


def give_fragment(
    text: str,
    out: Path | None,
    force: bool,
    data: Callable[[], dict[str, Any]] | None,
    lines: Callable[[], Iterable[str]],
) -> None:
    """Write a fragment where it was asked for; print the rest."""
    write_fragment(text, out, force)
    if data is not None:
        print_result(data())
    elif out is None:
        typer.echo(text, nl=False)
    else:
        for line in [*lines(), f"Written: {out}"]:
            typer.echo(line)
