"""`diploee battery`: battery size and alternatives to keep a site within limits."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from diploee.api import open_run
from diploee.api import run as run_scenario
from diploee.base.units import MS_PER_S, S_PER_MIN
from diploee.cli.display import show_sections
from diploee.cli.options import Json, Profiles, print_result, shipped_names
from diploee.cli.run import AT_MOST_MIN
from diploee.grid.limits.file import load_limits
from diploee.grid.limits.mitigation import mitigate, sizing_steps_ms
from diploee.reports.battery_alternatives import battery_sections
from diploee.runs.sections import as_dict
from diploee.scenario.loading import load_scenario, locate_errors


def battery_command(
    site: Annotated[
        str,
        typer.Argument(
            metavar="SITE|RUN_DIR",
            help="Folder of a finished run, or a scenario to simulate first.",
        ),
    ],
    limits: Annotated[
        list[str],
        typer.Option(
            "--limits",
            metavar="NAME",
            help="Limits to meet (preset or file); may be repeated.",
            autocompletion=shipped_names("limits"),
        ),
    ],
    at_most: Annotated[
        float,
        typer.Option(
            metavar="MINUTES",
            min=0,
            help="Maximum forecast time of the run, and of all alternatives together.",
        ),
    ] = AT_MOST_MIN,
    profiles: Profiles = None,
    as_json: Json = False,
) -> None:
    """Find the smallest battery that keeps a site within limits, and alternatives."""
    rules = [load_limits(name) for name in limits]
    again = partial(run_scenario, profiles=profiles or (), engine="compiled")
    with TemporaryDirectory() as folder:
        if Path(site).is_dir():
            run = open_run(site)
        else:
            steps_ms = [sizing_steps_ms(rule, load_scenario(site)) for rule in rules]
            step = f"{min(sum(steps_ms, ())) / MS_PER_S:g} s"
            scenario = load_scenario(site, [f"resolution='{step}'"])
            with locate_errors(site):
                run = again(
                    scenario,
                    Path(folder) / scenario.name,
                    at_most_s=at_most * S_PER_MIN,
                )
        result = mitigate(run, *rules)
        sections = battery_sections(run, rules, result, again, at_most * S_PER_MIN)
    if as_json:
        print_result({**result.as_dict(), "sections": as_dict(sections)})
    else:
        show_sections(sections)
