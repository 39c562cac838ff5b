"""The commands. Only the module of the one that is called is imported, so that help is quick."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from diploee import __version__
from diploee.cli.helped import App

COMMANDS = {
    "run": "run:run_command",
    "validate": "run:validate",
    "init": "init:init_command",
    "schema": "schema:schema",
    "report": "report:report_command",
    "compare": "compare:compare_command",
    "datasheet": "report:datasheet_command",
    "export": "export:export_command",
    "limits": "limits:limits_command",
    "battery": "limits:battery_command",
    "sweep": "sweep:sweep_command",
    "ensemble": "sweep:ensemble_command",
    "fit": "fit:fit_command",
    "fit-requests": "fit_requests:fit_requests_command",
    "deconvolve": "deconvolve:deconvolve_command",
    "zeus": "zeus:zeus_command",
}
GROUPS = {
    "scenarios": (
        "scenarios:scenarios_app",
        "List, show and copy the scenarios, sweeps and limits that ship.",
    ),
    "profiles": (
        "profiles:profiles_app",
        "List, show, import, record, check and compare power profiles.",
    ),
    "benchmark": (
        "benchmark:benchmark_app",
        "Served models from benchmark data, and synthetic training power.",
    ),
}
"""Where commands and groups of commands stand, in the order of the help."""


def application(called: str | None = None, *, alone: bool = False) -> typer.Typer:
    """Return the command line."""
    alone = alone and (called in COMMANDS or called in GROUPS)
    app = App(
        name="diploee",
        help="Year-long power load of AI data centers, synthesised from published measurements.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, place in COMMANDS.items():
        if not alone or name == called:
            app.command(name)(_found(place) if called in (None, name) else _stand_in(place))
    for name, (place, words) in GROUPS.items():
        if not alone or name == called:
            group = _found(place) if called in (None, name) else App()
            app.add_typer(group, name=name, help=words, no_args_is_help=True)
    return app


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"diploee.cli.{module}"), name)


def _stand_in(place: str) -> Callable[[], None]:
    """Return a command that has the docstring of another one alone, without importing that."""
    module, _, name = place.partition(":")
    source = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
    functions = {node.name: node for node in source.body if isinstance(node, ast.FunctionDef)}

    def stand_in() -> None:
        raise AssertionError("only the help of this command is loaded")

    stand_in.__doc__ = ast.get_docstring(functions[name])
    return stand_in


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"diploee {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass
