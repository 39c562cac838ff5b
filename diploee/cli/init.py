"""`diploee init`: five questions, and a commented scenario that runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from diploee.cli.options import Force, place_option
from diploee.errors import InputError, OutputExistsError, ScenarioError
from diploee.scenario.starter import Site, starter_text

DRAFT_NODES = 1000
"""Nodes of the site whose power says how many make the one that is asked for."""


def _option(name: str, **more: Any) -> Any:
    return typer.Option(help=Site.model_fields[name].description, **more)


def init_command(
    poi_mw: Annotated[float | None, _option("poi_mw")] = None,
    training_share: Annotated[float | None, _option("training_share")] = None,
    occupancy: Annotated[float | None, _option("occupancy")] = None,
    time_zone: Annotated[str | None, _option("time_zone", metavar="ZONE")] = None,
    climate: Annotated[str | None, _option("climate", metavar="STATION")] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Ask nothing; take the default of what is not given.")
    ] = False,
    out: Annotated[Path, place_option("The scenario file.")] = Path("my_site.yaml"),
    force: Force = False,
) -> None:
    """Write a commented scenario of a site at its meter from the answers to five questions.

    What is given as an option is not asked. The file validates and runs as it is; what in it is
    assumed is marked.
    """
    from diploee.files import check_file, whole_file
    from diploee.inputs import load_inputs
    from diploee.scenario import load_scenario
    from diploee.site import settle
    from diploee.textio.source import open_file

    check_file(out, force)
    if out.is_file():
        with open_file(out) as file:
            if not re.search(rb"(?m)^facility:|\A\s*\Z", file.read(1 << 20)):
                raise OutputExistsError(
                    f"{out}: exists and is no scenario (no key 'facility'); --force replaces "
                    "scenarios only, choose another --out"
                )
    given = {
        "poi_mw": poi_mw,
        "training_share": training_share,
        "occupancy": occupancy,
        "time_zone": time_zone,
        "climate": climate,
    }
    for name, value in given.items():
        if value is not None:
            _site({name: value})
    for name in (name for name, value in given.items() if value is None and not defaults):
        given[name] = _asked(name)
    site = _site({name: value for name, value in given.items() if value is not None})
    with whole_file(out, force) as path:
        path.write_text(starter_text(site, out.stem, DRAFT_NODES), encoding="utf-8")
        size = {"facility.size": {"poi_mw": site.poi_mw}}
        draft = load_scenario(path, values=size)
        n_nodes = settle(draft, load_inputs(draft)).facility.n_nodes
        path.write_text(starter_text(site, out.stem, n_nodes), encoding="utf-8")
        load_scenario(path)
    typer.echo(f"{out}: written; now: diploee run {out} --engine compiled")


def _site(answers: dict[str, Any]) -> Site:
    from diploee.plain_data import checked

    def where(place: tuple[str | int, ...]) -> str:
        return f"--{str(place[0]).replace('_', '-')}"

    return checked(answers, Site, where, lambda problems: InputError("; ".join(problems)))


def _asked(name: str) -> Any:
    """Return the answer to a question; ask again until it is one."""
    from diploee.scenario.yaml_lines import read_value

    field = Site.model_fields[name]
    while True:
        words = str(field.description).removesuffix(".")
        typer.echo(f"{words} ({field.default}): ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise InputError(
                f"--{name.replace('_', '-')}: there is nobody to ask; give it, or --defaults"
            )
        text = line.strip()
        if not text:
            return field.default
        try:
            value = text if field.annotation is not float else read_value(text, "answer")
            return getattr(_site({name: value}), name)
        except (InputError, ScenarioError) as error:
            typer.echo("; ".join(error.problems), err=True)
