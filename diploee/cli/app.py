"""Command-line application; only the module of the called command is imported."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from diploee.cli.command_help import HELP_ALL, App

COMMANDS = {
    "Start": {
        "init": "init:init_command",
        "studio": "studio:studio_command",
        "validate": "run:validate",
        "run": "run:run_command",
        "scenarios": "scenarios:scenarios_app",
        "profiles": "profiles:profiles_app",
    },
    "Look": {
        "report": "report:report_command",
        "compare": "compare:compare_command",
        "datasheet": "report:datasheet_command",
    },
    "Grid": {
        "limits": "limits:limits_command",
        "battery": "battery:battery_command",
        "firm": "firm:firm_command",
        "ride-through": "ride_through:ride_through_command",
        "model-quality": "model_quality:model_quality_command",
        "export": "export:export_command",
        "package": "package:package_command",
        "series": "layout_series:series_command",
    },
    "Learn": {
        "fit": "fit:fit_command",
        "fit-requests": "fit_requests:fit_requests_command",
        "fit-models": "serving_models:fit_models",
    },
    "Research": {
        "sweep": "sweep:sweep_command",
        "ensemble": "sweep:ensemble_command",
        "serving-trace": "serving_models:serving_trace",
        "schema": "schema:schema",
    },
}
"""Locations (module:function) of commands and groups, by panel of the help."""
GROUPS = {
    "scenarios": "List, show and copy the scenarios, sweeps and limits that ship.",
    "profiles": "List, show, import, check and compare power profiles of jobs.",
}
"""Groups of commands, and the summary in their help."""


def application(called: str | None = None, *, alone: bool = False) -> typer.Typer:
    """Return the command line, with only the called command imported.

    With `alone`, other commands are left out.
    """
    alone = alone and any(called in names for names in COMMANDS.values())
    app = App(
        name="diploee",
        help=(
            "Year-long power load of AI data centers, synthesised from published "
            "measurements."
        ),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help", HELP_ALL]},
    )
    app.callback()(_root)
    for panel, names in COMMANDS.items():
        for name, location in names.items():
            if alone and name != called:
                continue
            is_loaded = called in (None, name)
            if name in GROUPS:
                group = _load(location) if is_loaded else App()
                app.add_typer(
                    group,
                    name=name,
                    help=GROUPS[name],
                    no_args_is_help=True,
                    rich_help_panel=panel,
                )
            else:
                command = _load(location) if is_loaded else _placeholder(location)
                app.command(name, rich_help_panel=panel)(command)
    return app


def _load(location: str) -> Any:
    """Import a command or group from its location, module:name."""
    module, _, name = location.partition(":")
    return getattr(import_module(f"diploee.cli.{module}"), name)


def _placeholder(location: str) -> Callable[[], None]:
    """Return a substitute for a command that is not imported, with its docstring."""
    module, _, name = location.partition(":")
    source = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
    functions = {
        node.name: node for node in source.body if isinstance(node, ast.FunctionDef)
    }

    def placeholder() -> None:
        raise AssertionError("only the help of this command is loaded")

    placeholder.__doc__ = ast.get_docstring(functions[name])
    return placeholder


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from diploee.base.version import full_version

        typer.echo(f"diploee {full_version()}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version.",
        ),
    ] = False,
) -> None:
    pass
