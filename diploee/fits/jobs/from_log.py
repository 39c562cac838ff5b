"""Fit of a job log as the stream of a scenario, for the command and for Python."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from diploee.base.errors import InputError, one_of
from diploee.base.plain_data import checked
from diploee.base.units import HOURS_PER_WEEK
from diploee.fits.fragment import (
    Named,
    Target,
    naming_the_other_command,
    pool_of,
    stream_yaml,
)
from diploee.fits.jobs.arrivals import JobFitOptions
from diploee.fits.jobs.classes import read_rules
from diploee.fits.jobs.goodness_of_fit import (
    LIKE,
    errors_of,
    with_generated_years,
    worst_error,
)
from diploee.fits.jobs.holdout import split_of, with_holdout
from diploee.fits.jobs.job_log_fit import JobLogFit, fit_job_log
from diploee.fits.jobs.summary import head_of, job_stream
from diploee.importers.job_logs import read_job_log
from diploee.loads.jobs.job_log import JobLog
from diploee.profiles.derived import gpus_text, is_other_hardware, origin_gpus
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.log_replay import ClassRule, JobReplay, LogReading
from diploee.scenario.models import Facility, Scenario

MIN_WEEKS = 2
"""Weeks of a log from which on a year may play them in random order."""

MIN_BUSY = 0.1
"""ASSUMPTION: share of a pool's nodes under which a log is of another machine than the
pool [J]."""

FEW_WEEKS = 13
"""ASSUMPTION: weeks from which on a log shows more than one season's work [J]."""


def fit_from_log(
    log: Path,
    library: ProfileLibrary,
    reading: Mapping[str, Any],
    choices: JobFitOptions,
    target: Target,
    *,
    workload: str | None = None,
    rules: Path | str | Sequence[ClassRule] | None = None,
) -> JobLogFit:
    """Read and fit a job log, compare the fit with the log, and build a stream."""
    scenario, pool, _, out, named = target
    chosen = _rules(workload, rules, library, named)
    base, pool_name = pool_of(scenario, pool, named=named)
    log_format, options = _as_replayed(base, reading)
    of_replay = [key for key in options if key not in reading]
    of_pool = None if base is None else base.facility.pools[pool_name]
    n_gpus = None if base is None else base.facility.node_type_of(pool_name).n_gpus
    known = log_format or ("csv" if "columns" in options else None)
    reads = partial(read_job_log, log, log_format, pool_gpus_per_node=n_gpus or None)
    with naming_the_other_command(log, "fit", known):
        read = reads(**options)
    notes = []
    has_zone = base is not None and base.facility.model_fields_set & {
        "time_zone",
        "utc_offset",
    }
    if base and has_zone and read.is_naive:  # which it is not where a zone was given
        options["utc_offset"] = base.facility.time_zone or base.facility.utc_offset
        read = reads(**options)
        notes = [
            f"stamps without a zone are in the scenario's, {options['utc_offset']}"
        ]

    def fitted(choices: JobFitOptions) -> JobLogFit:
        fit = fit_job_log(
            read,
            chosen,
            library,
            choices,
            pool_n_nodes=None if of_pool is None else of_pool.n_nodes,
            gpus_per_node=n_gpus or int(options.get("gpus_per_node") or 0),
            allocates_gpus=of_pool is not None and of_pool.allocate == "gpus",
        )
        law = with_generated_years(fit, library)
        is_short = fit.arrivals.hours.covered_hours < MIN_WEEKS * HOURS_PER_WEEK
        is_like = is_short or worst_error(law) <= 1
        if choices.years == "law" or (choices.years == "auto" and is_like):
            return replace(law, decision="; ".join(_why(law, law, None)))
        replay = _replay(log, read, log_format, options, chosen, choices)
        weeks = with_generated_years(replace(fit, replay=replay), library)
        taken = weeks
        if choices.years == "auto" and worst_error(law) < worst_error(weeks):
            taken = law
        return replace(taken, decision="; ".join(_why(taken, law, weeks)))

    fit = fitted(choices)
    if choices.holdout is not None:
        part = choices.model_copy(update={"end": split_of(fit, choices.holdout)})
        fit = with_holdout(fit, fitted(part), library)
    if of_replay:
        notes.append(
            f"the log was read with {', '.join(of_replay)} of the scenario's replay"
        )
    if of_pool is not None and fit.mean_busy_nodes < MIN_BUSY * of_pool.n_nodes:
        notes.append(
            f"the log asks for {fit.mean_busy_nodes:,.3g} nodes on average, pool "
            f"'{pool_name}' has {of_pool.n_nodes:,}, mostly idle with it: set "
            f"facility.pools.{pool_name}.n_nodes to those of the log's machine"
        )
    if base is not None:
        notes += _other_gpu_notes(fit, base.facility, pool_name, library, named)
    fit = replace(fit, notes=(*fit.notes, *notes))
    if fit.replay is not None:
        folder = out.parent if out else base.folder if base else Path()
        name = os.path.relpath(log.absolute(), folder.absolute())
        fit = replace(fit, replay=fit.replay | {"log": Path(name).as_posix()})
    entry = job_stream(fit, pool_name)
    text = stream_yaml(head_of(fit), "streams", entry, target, base)
    return replace(fit, fragment=text)


def _replay(
    log: Path,
    read: JobLog,
    log_format: str | None,
    options: Mapping[str, Any],
    rules: Sequence[ClassRule],
    choices: JobFitOptions,
) -> dict[str, Any]:
    """Return the `replay` of a stream that replays fitted weeks in random order."""
    replay = JobReplay(
        log=str(log.absolute()),
        format=log_format or read.log_format,
        rules=tuple(rules),
        repeat="shuffled",
        start=choices.start,
        end=choices.end,
        cpu_jobs="rules",
        unmatched="drop",
        too_wide="drop",
        **options,
    )
    return replay.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def _why(taken: JobLogFit, law: JobLogFit, weeks: JobLogFit | None) -> Iterator[str]:
    """Say where years come from, how far either kind is off, what weeks lack."""
    yield (
        "Years are drawn from the fitted distributions"
        if taken is law
        else "Years play the log's own weeks in random order"
    )
    for kind, fit in (("law", law), ("weeks", weeks)):
        if fit is not None and (errors := errors_of(fit)):
            told = ", ".join(f"{off:+.0%} ({name})" for name, off in errors.items())
            yield f"those of --years {kind} differ from the log by {told}"
    if weeks is not None and worst_error(taken) > 1:
        aims = ", ".join(f"{limit:.0%} ({name})" for name, limit in LIKE.items())
        yield f"this is more than is aimed at: {aims}"
    n_weeks = taken.arrivals.hours.covered_hours / HOURS_PER_WEEK
    if taken is weeks and n_weeks < FEW_WEEKS:
        yield (
            f"the log is short: {n_weeks:.1f} weeks fill a year, each some "
            f"{52 / n_weeks:.0f} times; what it does not hold, such as a season or a "
            "shutdown, no year of it has"
        )


def _other_gpu_notes(
    fit: JobLogFit, facility: Facility, pool: str, library: ProfileLibrary, named: Named
) -> Iterator[str]:
    """Yield notes that a run will refuse profiles of other GPUs."""
    node = facility.node_type_of(pool)
    if facility.pools[pool].scale_profiles is not None or node.busy_power_factor != 1:
        return
    for workload in sorted({one.workload for one in fit.classes}):
        origins = [e.provenance for e in library.entries if e.workload == workload]
        if origins and all(is_other_hardware(origin, node) for origin in origins):
            yield (
                f"profiles of '{workload}' are of nodes with "
                f"{origin_gpus(origins[0])}, pool '{pool}' has nodes with "
                f"{gpus_text(node.n_gpus, node.gpu_tdp_w)}: before it runs set "
                f"facility.pools.{pool}.scale_profiles: by_tdp, or give profiles of "
                f"these nodes ({named('profiles')})"
            )


def _as_replayed(
    base: Scenario | None, reading: Mapping[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return the reading options of the log.

    As given, else as the scenario's only replay of a log says.
    """
    given = dict(reading)
    log_format = given.pop("log_format", None)
    streams = () if base is None else base.streams.values()
    replays = [stream.replay for stream in streams if stream.replay is not None]
    if len(replays) != 1:
        return log_format, given
    (spec,) = replays
    keys = set(LogReading.model_fields) & spec.model_fields_set
    if log_format is None and "columns" not in given:
        log_format = spec.format
    elif log_format not in (None, "csv"):
        keys -= {"columns", "time_format", "time_unit", "duration_unit"}
    of_replay = {key: getattr(spec, key) for key in keys}
    of_replay = {
        key: of_replay[key] for key in sorted(keys) if of_replay[key] is not None
    }
    return log_format, of_replay | given


def _rules(
    workload: str | None,
    rules: Path | str | Sequence[ClassRule] | None,
    library: ProfileLibrary,
    named: Named,
) -> Sequence[ClassRule]:
    if (workload is None) == (rules is None):
        workloads = sorted({profile.workload for profile in library.entries})
        raise InputError(
            f"fit: give either {named('workload')} or {named('rules')}, which say "
            f"where jobs take their power from (the profiles have {one_of(workloads)})"
        )
    if workload is not None:
        rule = {"workload": workload}
        return (checked(rule, ClassRule, lambda _: named("workload")),)
    return read_rules(rules) if isinstance(rules, Path | str) else rules or ()
