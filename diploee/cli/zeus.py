"""`diploee recurring`: the trace-driven simulator of recurring training jobs, alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from pydantic import Field

from diploee.cli.display import show_table
from diploee.cli.options import Json, options, print_result
from diploee.errors import InputError, WorkloadError, one_of, shown
from diploee.model import MAX_SEED, Model, default, unset
from diploee.neighbours.zeus import (
    Savings,
    TrainingTraces,
    TrainingWorkload,
    ZeusSpec,
    best_savings,
    chosen_workloads,
    read_groups,
    read_traces,
    simulate_groups,
    simulate_sequence,
    summarize,
)
from diploee.neighbours.zeus.simulator import (
    MAX_RECURRENCES,
    SETTLED_FROM,
    WorkloadSummary,
    settings_of,
)
from diploee.neighbours.zeus.workload import default_pair
from diploee.plain_data import checked
from diploee.scenario.recurring import BATCH_SIZE_OPTIMIZERS, POWER_LIMIT_OPTIMIZERS


class Recurrences(Model):
    """Workloads to simulate, and the optimizers that take part."""

    gpu: str | None = unset("GPU model, such as v100.")
    workload: tuple[str, ...] = default(
        (), "Dataset of a workload; may be repeated. All known ones by default."
    )
    optimizer: str = default(
        "zeus", f"Optimizer of the batch size: {one_of(BATCH_SIZE_OPTIMIZERS)}."
    )
    power_limit_optimizer: str | None = unset(
        f"Optimizer of the power limit: {one_of(POWER_LIMIT_OPTIMIZERS)}; by default what goes "
        "with --optimizer."
    )
    power_limit: float | None = unset("A fixed power limit in watts, one that was measured.")
    batch_size: int | None = unset("Default batch size instead of the workload's own.")
    target: float | None = unset("Target metric instead of the workload's own.")
    eta: float = default(0.5, "Weight of energy in the cost, 0 to 1.")
    beta: float = default(2.0, "Early stop at this multiple of the lowest cost.")
    groups: Path | None = unset("Alibaba group trace, CSV; its starts instead of --recurrences.")
    recurrences: Annotated[int, Field(ge=1, le=MAX_RECURRENCES)] | None = unset(
        "Recurrences of each workload; 40 by default."
    )
    seeds: Annotated[int, Field(ge=1, le=MAX_RECURRENCES)] = default(
        20, "Histories of each workload."
    )
    seed: Annotated[int, Field(ge=0, le=MAX_SEED - MAX_RECURRENCES)] = default(
        0, "Seed of the first history."
    )
    savings: bool = default(False, "Only what the knobs can save, without simulating.")


@options(optimizer="--optimizer NAME", power_limit_optimizer="--power-limit-optimizer NAME")
def zeus_command(
    asked: Recurrences,
    train_csv: Annotated[
        Path | None, typer.Argument(help="summary_train.csv; the shipped SYNTHETIC traces without.")
    ] = None,
    power_csv: Annotated[
        Path | None, typer.Argument(help="summary_power_<gpu>.csv, or a folder of them.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate training jobs that recur and learn to save energy, as Zeus has them.

    Without files it runs on SYNTHETIC traces, which no one measured (profiles/zeus).
    """
    limit, eta = asked.power_limit, asked.eta
    if asked.groups is not None and asked.recurrences is not None:
        raise InputError("--groups and --recurrences: expected one of them")
    if limit is not None and asked.power_limit_optimizer is not None:
        raise InputError("--power-limit and --power-limit-optimizer: expected one of them")
    spec = _spec(asked.optimizer, asked.power_limit_optimizer or limit, eta, asked.beta)
    traces = _traces(train_csv, power_csv, asked.gpu)
    try:
        chosen = chosen_workloads(
            traces, asked.workload, target_metric=asked.target, default_batch_size=asked.batch_size
        )
    except WorkloadError as error:
        given = {"--target": asked.target, "--batch-size": asked.batch_size}
        named = [f"{option} {shown(value)}" for option, value in given.items() if value is not None]
        raise WorkloadError(f"{', '.join(named)}: {error}" if named else str(error)) from error
    found = {one.name: (best_savings(one, 1.0), best_savings(one, eta)) for one in chosen}
    result = None if asked.savings else _simulated(traces, chosen, spec, asked)
    summaries = None if result is None else summarize(chosen, result, eta)
    left_out = _left_out(traces, chosen, result)
    if as_json:
        content: dict[str, Any] = {
            "gpu": traces.gpu,
            "settings": settings_of(spec),
            "left_out": left_out,
            "savings": {
                name: {"energy": asdict(energy), "cost": asdict(cost)}
                for name, (energy, cost) in found.items()
            },
        }
        if summaries is not None:
            content["simulated"] = [asdict(summary) for summary in summaries]
        print_result(content)
        return
    title = f"Best savings over the default pair of batch size and power limit on {traces.gpu}"
    show_table(title, *_savings_rows(spec, chosen, found))
    if summaries is not None:
        _show_summaries(spec, summaries)
    for cause, n in left_out.items():
        typer.echo(f"  {n:,} {cause}")


def _spec(optimizer: str, limit: str | float | None, eta: float, beta: float) -> ZeusSpec:
    option = "--power-limit" if isinstance(limit, float) else "--power-limit-optimizer"
    names = {"batch_size_optimizer": "--optimizer", "power_limit": option}
    given = {"batch_size_optimizer": optimizer, "power_limit": limit}
    own = {key: {"path": v} for key, v in given.items() if isinstance(v, str) and ":" in v}
    return checked(
        {**given, **own, "eta": eta, "beta": beta},
        ZeusSpec,
        lambda place: names.get(str(place[0]), f"--{place[0]}"),
        lambda problems: WorkloadError("; ".join(problems)),
    )


def _traces(train_csv: Path | None, power_csv: Path | None, gpu: str | None) -> TrainingTraces:
    if train_csv is None and gpu is not None:
        raise InputError(
            f"--gpu: chooses among given traces, found {gpu!r}; name TRAIN_CSV and POWER_CSV"
        )
    if train_csv is not None and power_csv is None:
        raise InputError(f"{train_csv}: expected a power trace too; give TRAIN_CSV and POWER_CSV")
    return read_traces(train_csv, power_csv, gpu)


def _simulated(
    traces: TrainingTraces, chosen: list[TrainingWorkload], spec: ZeusSpec, asked: Recurrences
) -> pd.DataFrame:
    seeds = range(asked.seed, asked.seed + asked.seeds)
    if asked.groups is None:
        return simulate_sequence(chosen, spec, asked.recurrences or 40, seeds)
    return simulate_groups(chosen, read_groups(asked.groups, traces.datasets), spec, seeds)


def _savings_rows(
    spec: ZeusSpec, chosen: list[TrainingWorkload], found: dict[str, tuple[Savings, Savings]]
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return header and rows: percent saved by the limit, by the batch size, by both."""
    header = (
        "workload",
        "default pair",
        *("energy: limit %", "batch %", "both %", "pair"),
        *(f"cost at eta {spec.eta:g}: limit %", "batch %", "both %", "pair"),
    )
    rows = []
    for workload in chosen:
        base = default_pair(workload, spec.eta)
        cells: list[Any] = [workload.name, f"{base.batch_size}, {base.power_limit_w:g} W"]
        for savings in found[workload.name]:
            parts = (savings.power_limit_only, savings.batch_size_only, savings.both)
            cells += [100 * part.fraction for part in parts]
            cells.append(f"{savings.both.pair.batch_size}, {savings.both.pair.power_limit_w:g} W")
        rows.append(tuple(cells))
    return header, rows


def _show_summaries(spec: ZeusSpec, summaries: list[WorkloadSummary]) -> None:
    """Print a row for each workload that was simulated, and what its columns mean."""
    settings = settings_of(spec)
    title = (
        f"{settings['batch_size_optimizer']} with power limit "
        f"{settings['power_limit_optimizer']}, eta {spec.eta:g}, beta {spec.beta:g}"
    )
    header = (
        *("workload", "runs", "late cost %", "energy %", "time %", "stopped %"),
        *("late pair", "oracle's pair"),
    )
    rows = [
        (
            one.workload,
            one.n_recurrences,
            "-" if one.settled_cost_ratio is None else 100 * one.settled_cost_ratio,
            100 * one.energy_ratio,
            100 * one.time_ratio,
            100 * one.stopped_fraction,
            f"{one.batch_size}, {one.power_limit_w:g} W",
            f"{one.oracle_batch_size}, {one.oracle_power_limit_w:g} W",
        )
        for one in summaries
    ]
    show_table(title, header, rows)
    typer.echo(
        f"  late cost: from a job's recurrence {SETTLED_FROM + 1} on, over the oracle's; "
        "energy and time: over the default pair's; late pair: the most frequent of the last "
        "quarter"
    )
    if any(one.settled_cost_ratio is None for one in summaries):
        typer.echo(f"  -: no job recurs more than {SETTLED_FROM} times")


def _left_out(
    traces: TrainingTraces, chosen: list[TrainingWorkload], result: pd.DataFrame | None
) -> dict[str, int]:
    """Return what the join and the rules left out, by cause."""
    counts = Counter(
        {cause: n for cause, n in traces.counts.items() if not cause.endswith(" rows")}
    )
    for one in chosen:
        counts.update({cause: n for cause, n in one.counts.items() if cause != "paths"})
    if result is not None:
        n_other = result.attrs.get("recurrences_of_other_datasets", 0)
        counts["recurrences of other datasets in the group trace"] = n_other
    return {cause: n for cause, n in counts.items() if n}
