"""`diploee init`: write a first scenario of a site from seven answers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from diploee.base.errors import InputError, OutputExistsError, ScenarioError
from diploee.cli.options import Force, Json, path_option, print_result
from diploee.scenario.starter import SiteAnswers

NO_SHARES = {"training_share": 0.0, "colocation_share": 0.0}
"""Shares (fractions of 1) used until the user answers their questions."""


def _option(name: str, **more: Any) -> Any:
    return typer.Option(help=SiteAnswers.model_fields[name].description, **more)


def init_command(
    poi_mw: Annotated[float | None, _option("poi_mw")] = None,
    training_share: Annotated[float | None, _option("training_share")] = None,
    colocation_share: Annotated[float | None, _option("colocation_share")] = None,
    largest_job: Annotated[float | None, _option("largest_job")] = None,
    occupancy: Annotated[float | None, _option("occupancy")] = None,
    time_zone: Annotated[str | None, _option("time_zone", metavar="ZONE")] = None,
    climate: Annotated[str | None, _option("climate", metavar="STATION")] = None,
    defaults: Annotated[
        bool,
        typer.Option(
            "--defaults", help="Ask nothing; use defaults for missing options."
        ),
    ] = False,
    out: Annotated[Path, path_option("The scenario file.")] = Path("my_site.yaml"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a first scenario of your site from the answers to seven questions.

    Only missing options are asked for. The file is valid and can be run as it is;
    assumed values are marked.
    """
    from diploee.api.sites import starter
    from diploee.base.files import check_output_file, whole_file
    from diploee.importers.text.file_bytes import open_file

    check_output_file(out, force)
    if out.is_file():
        with open_file(out) as file:
            if not re.search(rb"(?m)^facility:|\A\s*\Z", file.read(1 << 20)):
                raise OutputExistsError(
                    f"{out}: exists and is no scenario (no key 'facility'); --force "
                    "replaces scenarios only, choose another --out"
                )
    options = {
        "poi_mw": poi_mw,
        "training_share": training_share,
        "colocation_share": colocation_share,
        "largest_job": largest_job,
        "occupancy": occupancy,
        "time_zone": time_zone,
        "climate": climate,
    }
    answers = {name: value for name, value in options.items() if value is not None}
    _site(NO_SHARES | answers)
    for name in (name for name in options if name not in answers and not defaults):
        answers[name] = _ask(name, answers)
    site = _site(answers)
    with whole_file(out, force) as path:
        text, n_nodes = starter(site, out.stem)
        path.write_text(text, encoding="utf-8")
    text = (
        f"{out}: written; next: diploee validate {out}, then diploee run {out} "
        "--engine compiled"
    )
    print_result({"written": [out], "n_nodes": n_nodes}, [text], as_json=as_json)


def _site(answers: dict[str, Any]) -> SiteAnswers:
    from diploee.base.validation import checked

    def where(place: tuple[str | int, ...]) -> str:
        return f"--{str(place[0]).replace('_', '-')}" if place else "the shares"

    return checked(
        answers, SiteAnswers, where, lambda problems: InputError("; ".join(problems))
    )


def _ask(name: str, answers: dict[str, Any]) -> Any:
    """Ask a question of the user until the answer is valid, and return the answer."""
    from diploee.scenario.yaml_lines import read_value

    field = SiteAnswers.model_fields[name]
    while True:
        question = str(field.description).removesuffix(".")
        typer.echo(f"{question} ({field.default}): ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise InputError(
                f"--{name.replace('_', '-')}: there is nobody to ask; give it, or "
                "--defaults"
            )
        text = line.strip()
        if not text:
            return field.default
        try:
            value = (
                text if field.annotation is not float else read_value(text, "answer")
            )
            return getattr(_site(NO_SHARES | answers | {name: value}), name)
        except (InputError, ScenarioError) as error:
            typer.echo("; ".join(error.problems), err=True)
