"""Command classes whose help has a summary, an example and plain type names."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

HELP_ALL = "--help-all"
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
    "package": "diploee package my_site.yaml --limits ercot_lcl_2026_06 --out package",
    "series": "diploee series runs/site --of rack:17 --from 2018-01-02 --to 2018-01-03",
    "limits": "diploee limits ercot_lcl_2026_06 runs/site --fail",
    "battery": "diploee battery runs/site --limits ieso_3_0",
    "firm": "diploee firm demand_response_3h --set 'duration=1 week' --out firm.csv",
    "ride-through": "diploee ride-through runs/site --event nerc_2024_07_10",
    "model-quality": "diploee model-quality runs/site --out quality.html",
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
"""Example of every command and group, shown in its help after the summary."""

ADVANCED = {
    "": "--install-completion --show-completion",
    "run": "--event-windows --by-load --before-stores --nodes-file --until-decided",
    "fit": (
        "--gpus-per-node --utc-offset --time-format --time-unit --duration-unit "
        "--zero-durations --cpu-only --state --calendar --months --confidence "
        "--durations --arrivals --years --holdout --max-classes"
    ),
    "fit-requests": (
        "--time-unit --utc-offset --zero-hour-of-week --step-s --calendar --months "
        "--confidence"
    ),
    "export": (
        "--year --leap-day --time-zone --actual --mva --at --zone --area --bus-number "
        "--parts --drives --vd1 --vd2 --frcel --perc1-head --hz --fast-hz --equal "
        "--signal"
    ),
    "firm": "--step --profiles",
    "ensemble": "--dask --max-runs --accuracy --assumed",
    "profiles import plain": (
        "--restore --max-gap-s --max-lost --averaging-s --sampling-s --bandwidth-hz "
        "--time-column --device-column --devices --step-ms --add-w --idle-w --licence"
    ),
    "profiles import wattameter": (
        "--restore --max-gap-s --max-lost --averaging-s --max-reading-w "
        "--counter-range-j --step-ms"
    ),
    "profiles import nvidia-smi": (
        "--restore --max-gap-s --max-lost --averaging-s --max-reading-w --add-w "
        "--step-ms"
    ),
    "profiles import mlperf-power": "--restore --max-gap-s --max-lost --gpu-tdp-w",
}
"""Options of a command that only `--help-all` shows, in a panel of their own."""

_TYPE_NAMES = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "bool": None,
}


class _CommandWithHelp:
    """Base class of commands and groups that formats their help."""

    help: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with plain type names and defaults."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            _simplify_display(parameter, ctx)
        return parameters

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and note whether all options are to be shown."""
        ctx.meta[HELP_ALL] = HELP_ALL in args
        parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return parsed

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the command's example after the summary.

        Source line breaks within a paragraph are removed. Advanced options are
        hidden unless `--help-all` was given.
        """
        path = _command_path(ctx)
        summary, *rest = (" ".join(p.split()) for p in (self.help or "").split("\n\n"))
        if (example := EXAMPLES.get(path)) is not None:
            rest.insert(0, f"Example: {example}")
        self.help = "\n\n".join([summary, *rest])
        advanced = ADVANCED.get(path, "").split()
        for parameter in self.params:  # type: ignore[attr-defined]
            if parameter.opts[0] in advanced:
                parameter.rich_help_panel = "Advanced"
                parameter.hidden = not ctx.meta[HELP_ALL]
        super().format_help(ctx, formatter)  # type: ignore[misc]


def _command_path(ctx: Any) -> str:
    """Return the names of a command and its groups, without the program's name."""
    return str(ctx.command_path).partition(" ")[2]


def _simplify_display(parameter: Any, ctx: Any) -> None:
    """Replace typer's display of types (``<str>``) and defaults (``(s)``)."""
    if hasattr(parameter, "_get_default_string"):
        parameter._get_default_string = partial(_format_default, parameter)
    # Not every version of typer shows a type.
    if (show := getattr(parameter, "display_type_rich", None)) is None:
        return
    type_text = show(ctx)
    if type_text is None or not type_text.startswith("<"):
        return
    inner = (
        type_text.strip("<>")
        .removeprefix("list[")
        .removesuffix("]")
        .removesuffix(" range")
        .lower()
    )
    is_argument = parameter.param_type_name == "argument"  # shown by name alone
    name = _TYPE_NAMES.get(inner, type_text.strip("<>"))
    text = "TIME" if inner.startswith("%") else name
    parameter.display_type_rich = lambda ctx: None if is_argument else text  # noqa: ARG005


def _format_default(parameter: Any, **options: Any) -> str:
    """Return a default as a user types it, without typer's brackets."""
    text: str = type(parameter)._get_default_string(parameter, **options)
    if options["show_default_is_str"]:
        text = text.removeprefix("(").removesuffix(")")
    return re.sub(r"^(\d+)\.0$", r"\1", text)


class Command(_CommandWithHelp, TyperCommand):
    """A command with a progress bar per long step, unless quiet or printing JSON."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with progress bars on a terminal."""
        is_silent = ctx.params.get("quiet") or ctx.params.get("as_json")
        if is_silent or not sys.stderr.isatty():
            return super().invoke(ctx)
        from diploee.base.progress import show_progress
        from diploee.cli.display import ProgressBars

        with show_progress(ProgressBars()):
            return super().invoke(ctx)


class CommandGroup(_CommandWithHelp, TyperGroup):
    """A group of commands whose help has an example."""


class App(typer.Typer):
    """A typer application or subgroup whose commands have this help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=CommandGroup, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Return a decorator that registers a function as a command."""
        return super().command(name, **({"cls": Command} | options))
