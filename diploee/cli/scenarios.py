"""`diploee scenarios`: list, show and copy shipped scenarios, sweeps and limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diploee.cli.command_help import App
from diploee.cli.options import (
    Force,
    Json,
    path_option,
    print_result,
    print_written,
    shipped_names,
)

if TYPE_CHECKING:
    from diploee.base.files.paths import ShippedKind

KINDS: tuple[ShippedKind, ...] = ("scenario", "sweep", "limits")
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of a built-in scenario, sweep or preset of limits.",
        autocompletion=shipped_names(*KINDS),
    ),
]

scenarios_app = App()


@scenarios_app.command("list")
def _list_scenarios(as_json: Json = False) -> None:
    """List the shipped scenarios, sweeps and presets of limits."""
    from diploee.api import scenarios
    from diploee.cli.display import show_table

    rows = [
        (name, kind, about) for kind in KINDS for name, about in scenarios(kind).items()
    ]
    if as_json:
        names = ("name", "kind", "description")
        print_result([dict(zip(names, row, strict=True)) for row in rows])
    else:
        show_table("Shipped with diploee", ("name", "kind", "holds"), rows)


@scenarios_app.command("show")
def _show_scenario(name: Name) -> None:
    """Print a shipped file, with the source of every number in its comments."""
    typer.echo(_shipped_path(name).read_text("utf-8"), nl=False)


@scenarios_app.command("copy")
def _copy_scenario(
    name: Name,
    out: Annotated[Path | None, path_option("The copy; NAME.yaml by default.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Copy a shipped file, for you to edit."""
    from diploee.base.files import whole_file

    source = _shipped_path(name)
    target = out or Path(f"{name}.yaml")
    with whole_file(target, force) as path:
        path.write_bytes(source.read_bytes())
    print_written([target], as_json)


def _shipped_path(name: str) -> Path:
    from diploee.base.errors import InputError, did_you_mean, one_of
    from diploee.base.files.paths import shipped

    files = {each: path for kind in KINDS for each, path in shipped(kind).items()}
    if name not in files:
        raise InputError(
            f"scenarios: NAME must be one of {one_of(files)}, found '{name}'"
            f"{did_you_mean(name, files)}"
        )
    return files[name]
