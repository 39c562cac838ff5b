"""`diploee studio`: local web page to configure a site and simulate its year."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from diploee.base.errors import InputError
from diploee.cli.options import Quiet
from diploee.cli.run import AT_MOST_MIN

NEEDED = ("starlette", "uvicorn")


def studio_command(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="Scenario file or built-in name to start from; the template by "
            "default."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Folder of scenarios and runs (in runs/); by default that of the "
                "scenario file, else the current one."
            ),
        ),
    ] = None,
    at_most: Annotated[
        float,
        typer.Option(
            metavar="MINUTES", help="Refuse runs with a longer forecast time."
        ),
    ] = AT_MOST_MIN,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 for any free port.")
    ] = 0,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser", help="Print the address without opening a browser."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Open a local web page to configure a site and simulate its year.

    The page is served on this machine only, by an address with a token.

    Ctrl-C closes it.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise InputError(
            f"{' and '.join(missing)} not installed; install: pip install "
            "'diploee[studio]'"
        )
    if not at_most > 0:  # nan
        raise InputError(f"--at-most must be minutes above 0, found {at_most:g}")
    from diploee.base.files.paths import find_shipped, shipped
    from diploee.cli import Interrupted
    from diploee.studio.page_contents import StudioFolder
    from diploee.studio.server import Studio

    name = scenario or ""
    is_file = name and name not in shipped("scenario")
    file = find_shipped("scenario", name).resolve() if is_file else None
    studio_folder = StudioFolder(
        (folder or (file.parent if file else Path())).resolve()
    )
    if not studio_folder.folder.is_dir():
        raise InputError(
            f"--folder: {studio_folder.folder} is no folder; make it first"
        )
    if file:
        name = str(studio_folder.resolve_inside(file).relative_to(studio_folder.folder))
    studio = Studio(studio_folder, at_most * 60, port, name)

    def show_address() -> None:
        if not quiet:
            typer.echo(f"Studio: {studio.address} (Ctrl-C closes it)", err=True)
        if not no_browser:
            webbrowser.open(studio.address)

    with suppress(Interrupted, KeyboardInterrupt), studio.results_folder:
        studio.serve(show_address)
    if not quiet:
        typer.echo(f"Runs are in {studio.runs_folder}.")
