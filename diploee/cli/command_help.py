"""Commands with help of a sentence and an example, options named in words."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES = {
    "": "diploee run colocation_10mw --engine compiled",
    "run": (
        "diploee run colocation_10mw --target-utilization 0.4 --out runs/colocation-40"
    ),
    "validate": "diploee validate my_site.yaml",
    "scenarios": "diploee scenarios list",
    "scenarios list": "diploee scenarios list",
    "scenarios show": "diploee scenarios show colocation_10mw",
    "scenarios copy": "diploee scenarios copy colocation_10mw --out my_site.yaml",
    "init": (
        "diploee init --poi-mw 150 --training-share 0.7 --time-zone America/Chicago"
    ),
    "studio": "diploee studio my_site.yaml",
    "schema": "diploee schema --markdown",
    "report": "diploee report runs/colocation-40 --out colocation.html",
    "compare": "diploee compare runs/today runs/next-year --out changes.csv",
    "datasheet": (
        "diploee datasheet runs/site --limits ercot_lcl_2026_06 --csv datasheet.csv"
    ),
    "export": "diploee export opendss runs/site --step '15 min' --bus b12 --kv 34.5",
    "series": "diploee series runs/site --of rack:17 --from 2018-01-02 --to 2018-01-03",
    "limits": "diploee limits ercot_lcl_2026_06 runs/site --fail",
    "battery": "diploee battery runs/site --limits ieso_3_0",
    "ride-through": "diploee ride-through runs/site --event nerc_2024_07_10",
    "sweep": (
        "diploee sweep colocation_utilization --out sweeps/utilization --workers 2"
    ),
    "ensemble": "diploee ensemble colocation_10mw --seeds 4 --out sweeps/spread",
    "fit": "diploee fit sacct.txt --workload llama2_70b_lora --out stream.yaml",
    "fit-requests": "diploee fit-requests trace.csv --out stream.yaml",
    "fit-models": "diploee fit-models specs.yaml --from leaderboard.json",
    "serving-trace": (
        "diploee serving-trace requests.csv --set parameters_b=8 --out my_profiles"
    ),
    "profiles": "diploee profiles list",
    "profiles list": (
        "diploee profiles list --profiles my_profiles --profiles reference"
    ),
    "profiles show": "diploee profiles show llama2_70b_lora-16n-1 --out llama2.png",
    "profiles check": "diploee profiles check my_profiles",
    "profiles compare": "diploee profiles compare my_profiles reference",
    "profiles import": (
        "diploee profiles import nvidia-smi gpus.csv --workload mine --out lib"
    ),
    "profiles import wattameter": (
        "diploee profiles import wattameter job_4711 --workload mine --out my_profiles"
    ),
    "profiles import plain": (
        "diploee profiles import plain power.csv --workload mine --nodes 2 --out "
        "my_profiles"
    ),
    "profiles import nvidia-smi": (
        "diploee profiles import nvidia-smi gpus.csv --workload mine --out my_profiles"
    ),
    ("profiles import mlperf-power"): (
        "diploee profiles import mlperf-power results --out measured"
    ),
    ("profiles import nlr-genai"): (
        "diploee profiles import nlr-genai dataset --out measured"
    ),
}
"""An example of every command and group, which its help shows behind the first
sentence."""

_WORDS = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "bool": None,
}


class _Helped:
    """Base of commands and groups."""

    help: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, which name what they take in the field's words."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            _say_plainly(parameter, ctx)
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the command's example behind its first sentence.

        A paragraph is as wide as the terminal, not as its source.
        """
        names: list[str] = []
        at = ctx
        while at.parent is not None:
            names.insert(0, at.info_name)
            at = at.parent
        first, *rest = (" ".join(p.split()) for p in (self.help or "").split("\n\n"))
        if (example := EXAMPLES.get(" ".join(names))) is not None:
            rest.insert(0, f"Example: {example}")
        self.help = "\n\n".join([first, *rest])
        super().format_help(ctx, formatter)  # type: ignore[misc]


def _say_plainly(parameter: Any, ctx: Any) -> None:
    """Replace what typer shows of types (``<str>``) and defaults (``(s)``)."""
    if hasattr(parameter, "_get_default_string"):
        parameter._get_default_string = partial(_default_shown, parameter)
    # Not every version of typer shows a type.
    if (show := getattr(parameter, "display_type_rich", None)) is None:
        return
    shown = show(ctx)
    if shown is None or not shown.startswith("<"):
        return
    inner = (
        shown.strip("<>")
        .removeprefix("list[")
        .removesuffix("]")
        .removesuffix(" range")
        .lower()
    )
    is_argument = parameter.param_type_name == "argument"  # its name says what it is
    words = "TIME" if inner.startswith("%") else _WORDS.get(inner, shown.strip("<>"))
    parameter.display_type_rich = lambda ctx: None if is_argument else words  # noqa: ARG005


def _default_shown(parameter: Any, **asked: Any) -> str:
    """Return a default as it is typed: typer puts given ones in brackets."""
    shown: str = type(parameter)._get_default_string(parameter, **asked)
    if asked["show_default_is_str"]:
        shown = shown.removeprefix("(").removesuffix(")")
    return re.sub(r"^(\d+)\.0$", r"\1", shown)


class Command(_Helped, TyperCommand):
    """A command, whose long parts show a bar each unless it is quiet or prints JSON."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        is_silent = ctx.params.get("quiet") or ctx.params.get("as_json")
        if is_silent or not sys.stderr.isatty():
            return super().invoke(ctx)
        from diploee.base.progress import show_progress
        from diploee.cli.display import ProgressBars

        with show_progress(ProgressBars()):
            return super().invoke(ctx)


class CommandGroup(_Helped, TyperGroup):
    """A group of commands."""


class App(typer.Typer):
    """A group that makes such commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=CommandGroup, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Return a decorator of a command, as typer's."""
        return super().command(name, **({"cls": Command} | options))
