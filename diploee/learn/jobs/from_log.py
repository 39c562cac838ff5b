"""From a job log to the stream of a scenario, for the command and for Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from diploee.errors import InputError, one_of
from diploee.importers.job_logs import read_job_log
from diploee.learn.fragment import Named, into_scenario, naming_the_other_command, pool_of
from diploee.learn.jobs.arrivals import JobFitOptions
from diploee.learn.jobs.classes import read_rules
from diploee.learn.jobs.job_log_fit import JobLogFit, fit_job_log
from diploee.learn.jobs.likeness import with_generated_year
from diploee.learn.jobs.summary import fragment_text
from diploee.profiles import ProfileLibrary
from diploee.profiles.derived import gpus_of, gpus_shown, is_other_hardware
from diploee.scenario import ClassRule, Facility, Scenario
from diploee.scenario.log_replay import LogReading


def fit_from_log(
    log: Path,
    library: ProfileLibrary,
    reading: Mapping[str, Any],
    choices: JobFitOptions,
    *,
    log_format: str | None = None,
    workload: str | None = None,
    rules: Path | str | Sequence[ClassRule] | None = None,
    scenario: Scenario | Path | str | None = None,
    pool: str | None = None,
    stream: str = "jobs",
    out: Path | None = None,
    named: Named = str,
) -> JobLogFit:
    """Read and fit a job log, compare the fit with it, and make a stream of it."""
    chosen = _rules(workload, rules, library, named)
    base, pool_name = pool_of(scenario, pool, named=named)
    log_format, options = _as_replayed(base, log_format, reading)
    of_pool = None if base is None else base.facility.pools[pool_name]
    n_gpus = base and base.facility.node_type_of(pool_name).n_gpus
    known = log_format or ("csv" if "columns" in options else None)
    with naming_the_other_command(log, "fit", known):
        read = read_job_log(log, log_format, pool_gpus_per_node=n_gpus or None, **options)
    fit = fit_job_log(
        read,
        chosen,
        library,
        choices,
        pool_n_nodes=None if of_pool is None else of_pool.n_nodes,
        gpus_per_node=n_gpus or int(options.get("gpus_per_node") or 0),
        allocates_gpus=of_pool is not None and of_pool.allocate == "gpus",
    )
    fit = with_generated_year(fit, library)
    if of_replay := [key for key in options if key not in reading]:
        note = f"the log was read with {', '.join(of_replay)} of the scenario's replay"
        fit = replace(fit, notes=(*fit.notes, note))
    if base is not None:
        notes = tuple(_of_other_gpus(fit, base.facility, pool_name, library, named))
        fit = replace(fit, notes=(*fit.notes, *notes))
    text = fragment_text(fit, stream, pool_name)
    return replace(fit, fragment=into_scenario(text, base, pool_name, out, named))


def _of_other_gpus(
    fit: JobLogFit, facility: Facility, pool: str, library: ProfileLibrary, named: Named
) -> Iterator[str]:
    """Say that a run will refuse the profiles, as the pool has other GPUs and scales none."""
    node = facility.node_type_of(pool)
    if facility.pools[pool].scale_profiles is not None or node.busy_power_factor != 1:
        return
    for workload in sorted({one.workload for one in fit.classes}):
        origins = [e.provenance for e in library.entries if e.workload == workload]
        if origins and all(is_other_hardware(origin, node) for origin in origins):
            yield (
                f"profiles of '{workload}' are of nodes with {gpus_of(origins[0])}, pool '{pool}' "
                f"has nodes with {gpus_shown(node.n_gpus, node.gpu_tdp_w)}: before it runs set "
                f"facility.pools.{pool}.scale_profiles: by_tdp, or give profiles of these nodes "
                f"({named('profiles')})"
            )


def _as_replayed(
    base: Scenario | None, log_format: str | None, given: Mapping[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return how to read the log: as given, else as the scenario's only replay of a log says."""
    streams = () if base is None else base.streams.values()
    replays = [stream.replay for stream in streams if stream.replay is not None]
    if len(replays) != 1:
        return log_format, dict(given)
    (spec,) = replays
    keys = set(LogReading.model_fields) & spec.model_fields_set
    if log_format is None and "columns" not in given:
        log_format = spec.format
    elif log_format not in (None, "csv"):
        keys -= {"columns", "time_format", "duration_unit"}
    of_replay = {key: getattr(spec, key) for key in keys}
    of_replay = {key: of_replay[key] for key in sorted(keys) if of_replay[key] is not None}
    return log_format, of_replay | dict(given)


def _rules(
    workload: str | None,
    rules: Path | str | Sequence[ClassRule] | None,
    library: ProfileLibrary,
    named: Named,
) -> Sequence[ClassRule]:
    if (workload is None) == (rules is None):
        workloads = sorted({profile.workload for profile in library.entries})
        raise InputError(
            f"fit: give either {named('workload')} or {named('rules')}, which say where jobs take "
            f"their power from (the profiles have {one_of(workloads)})"
        )
    if workload is not None:
        return (ClassRule(workload=workload),)
    return read_rules(rules) if isinstance(rules, Path | str) else rules or ()
