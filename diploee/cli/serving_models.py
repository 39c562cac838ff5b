"""`diploee fit-models` and `diploee serving-trace`: models of inference services.

`fit-models` fits them to benchmark data. `serving-trace` makes a power profile from a
request trace, with the batch power model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from diploee.base.errors import (
    InputError,
    ScenarioError,
    did_you_mean,
    one_line,
    one_of,
)
from diploee.base.units import MS_PER_S, TimeUnit
from diploee.base.validation import checked
from diploee.cli.options import (
    Force,
    Json,
    ToLibrary,
    print_result,
)
from diploee.importers.request_traces.read import read_request_trace
from diploee.integrations.openg2g.artifact_cache import LogisticModelStore, ModelFits
from diploee.integrations.openg2g.inference_model_spec import (
    InferenceModelSpec,
    load_specs,
)
from diploee.integrations.openg2g.sources import LeaderboardSource, ResultsSource
from diploee.loads.services.batch_power_model import served_profile
from diploee.profiles.store import add_profile
from diploee.scenario.serving import BatchPowerModel
from diploee.scenario.yaml_lines import read_value

LOW_R2 = 0.9
"""R2 of a fitted curve below which its quality is noted."""

SourceName = Literal["leaderboard", "results", "openg2g", "hub"]


def fit_models(
    specs: Annotated[
        Path,
        typer.Argument(
            help="YAML file of model specs, under `models:`.", metavar="SPECS"
        ),
    ],
    source: Annotated[
        SourceName,
        typer.Option(
            help=(
                "leaderboard: JSON files of ML.ENERGY; results: folders with "
                "results.json; openg2g: its data/specs; hub: the gated data set, with "
                "the package mlenergy-data."
            )
        ),
    ] = "leaderboard",
    path: Annotated[
        Path | None,
        typer.Option("--from", help="File or folder of the source; none for hub."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit power, latency and speed of served models to benchmark data, for a scenario.

    Models that can't be fitted are listed at the end, one line each.
    """
    specs_to_fit, read = load_specs(specs), _source(source, path)
    models: dict[str, ModelFits] = {}
    problems: dict[str, None] = {}
    for spec in specs_to_fit:
        try:
            models |= read([spec]).models
        except InputError as error:
            problems[str(error)] = None
    if as_json and models:
        print_result({label: _curves_as_dict(model) for label, model in models.items()})
    elif models:
        snippets = (_yaml_snippet(*item) for item in models.items())
        typer.echo("".join(snippets), nl=False)
    if problems:
        raise ScenarioError(list(problems))


def serving_trace(
    trace: Annotated[
        Path,
        typer.Argument(help="Request trace with the tokens of prompts and responses."),
    ],
    out: ToLibrary,
    n_nodes: Annotated[
        int,
        typer.Option("--nodes", min=1, max=1_000_000, help="Nodes of the replicas."),
    ] = 1,
    workload: Annotated[
        str, typer.Option(help="Name of the workload in scenarios.")
    ] = "served",
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key of batch_power_model, such as parameters_b=8; may be repeated.",
        ),
    ] = None,
    time_unit: Annotated[
        TimeUnit | None,
        typer.Option(help="Unit of numeric times; inferred if absent."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make the power profile of a served model from a request trace.

    Prefill rate and time per token give the number of concurrent sequences in steps of
    0.1 s, and the batch power model (experimental) gives their power.
    """
    law = _batch_power_model(parameters or ())
    read = read_request_trace(trace, time_unit=time_unit, requests=True)
    profile = served_profile(law, read.requests, n_nodes, workload)
    place = add_profile(profile, out, force)
    duration_s, mean_w = profile.duration_ms / 1000, profile.mean_power_w
    note = "experimental: energy within 12 % of open traces, levels of nine in ten"
    content = {
        "written": [place],
        "duration_s": duration_s,
        "mean_power_w": mean_w,
        "note": note,
    }
    content["rows"] = rows = "; ".join(read.counts.lines())
    words = f"{place}: {duration_s:,.1f} s, mean {mean_w / 1000:,.2f} kW; {note}"
    print_result(content, [words, f"Rows: {rows}"], as_json=as_json)


def _batch_power_model(texts: Sequence[str]) -> BatchPowerModel:
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        keys = list(BatchPowerModel.model_fields)
        if not equals or key not in keys:
            raise InputError(
                f"--set {text}: expected KEY=VALUE with a key of {one_of(keys)}"
                f"{did_you_mean(key, keys)}"
            )
        values[key] = read_value(value, f"--set {key}")
    return checked(
        values,
        BatchPowerModel,
        lambda place: f"--set {'.'.join(map(str, place))}".rstrip(),
    )


def _source(
    name: SourceName, path: Path | None
) -> Callable[[list[InferenceModelSpec]], LogisticModelStore]:
    if name == "hub":
        return LogisticModelStore.generate
    if path is None:
        raise InputError(f"--source {name} needs --from, the file or folder to read")
    if name == "openg2g":
        return partial(LogisticModelStore.load, path)
    source = LeaderboardSource(path) if name == "leaderboard" else ResultsSource(path)
    return partial(LogisticModelStore.generate, source=source)


def _curves_as_dict(model: ModelFits) -> dict[str, Any]:
    """Return the fitted curves by scenario key, with notes on poor fits."""
    fits = model.fits
    curves = {
        "power_w": (fits.power, 1.0),
        "itl_ms": (fits.itl, MS_PER_S),
        "throughput_tps": (fits.throughput, 1.0),
    }
    result: dict[str, Any] = {
        name: {
            "L": curve.span * factor,
            "k": curve.steepness,
            "x0": curve.midpoint,
            "b0": curve.base * factor,
            "r2": curve.r2,
            "n_points": curve.n_points,
        }
        for name, (curve, factor) in curves.items()
    }
    notes = [
        (
            f"{name}: R2 {curve['r2']:.2f} over {curve['n_points']} points: the batch "
            "size hardly explains it"
        )
        for name, curve in result.items()
        if curve["r2"] is not None and curve["r2"] < LOW_R2
    ]
    result |= {
        "smallest_batch": fits.smallest_batch,
        "largest_batch": fits.largest_batch,
    }
    return (
        result | ({"notes": notes} if notes else {}) | {"details": dict(model.details)}
    )


def _yaml_snippet(label: str, model: ModelFits) -> str:
    spec, result = model.spec, _curves_as_dict(model)
    replica = f"{spec.model_id} on {spec.gpus_per_replica} x {spec.gpu_model}"
    # A line break in a user's names must not end the comment
    lines = [one_line(f"# {label}: {replica}")]
    lines += [f"# Note: {note}" for note in result.get("notes", ())]
    if spec.itl_deadline_s is not None:
        lines.append(
            f"latency_cap: {{metric: mean_itl, limit_s: {spec.itl_deadline_s:g}}}"
        )
    lines.append("logistic:")
    if source := result["details"].get("source"):
        lines.append(f"  source: {json.dumps(str(source))}")
    for name in ("power_w", "itl_ms", "throughput_tps"):
        curve = result[name]
        numbers = ", ".join(
            f"{symbol}: {curve[symbol]:.6g}" for symbol in ("L", "k", "x0", "b0")
        )
        r2 = curve["r2"]
        quality = "" if r2 is None else f"   # R2 {r2:.4f}, {curve['n_points']} points"
        lines.append(f"  {name}: {{{numbers}}}{quality}")
    lines += [
        f"  {name}: {result[name]:g}" for name in ("smallest_batch", "largest_batch")
    ]
    return "\n".join(lines) + "\n"
