"""`diploee schema`: what scenario and sweep files may hold, and what a run writes."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A reference of every key as Markdown instead.")
    ] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Of sweep and ensemble files instead.")
    ] = False,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Markdown of what a run writes instead.")
    ] = False,
    limits: Annotated[
        bool, typer.Option("--limits", help="Markdown of limits: verdicts, presets, keys instead.")
    ] = False,
    commands: Annotated[
        bool, typer.Option("--commands", help="Markdown of every command and option instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of scenario files, or a reference of their keys."""
    from diploee.model import Model
    from diploee.scenario import Scenario
    from diploee.scenario.key_reference import markdown_reference

    if outputs:
        from diploee.outputs.reference import outputs_reference

        typer.echo(outputs_reference("diploee schema --outputs"), nl=False)
        return
    if limits:
        from diploee.metrics.limits.reference import limits_reference

        typer.echo(limits_reference("diploee schema --limits"), nl=False)
        return
    if commands:
        from diploee.cli.reference import commands_reference

        typer.echo(commands_reference("diploee schema --commands"), nl=False)
        return
    model: type[Model] = Scenario
    if sweep:
        from diploee.sweeps import SweepSpec

        model = SweepSpec
    if markdown:
        title = "Every key of a sweep file" if sweep else "Every key of a scenario file"
        command = f"diploee schema {'--sweep ' if sweep else ''}--markdown"
        typer.echo(markdown_reference(model, title, command), nl=False)
    else:
        typer.echo(json.dumps(model.model_json_schema(), indent=2))
