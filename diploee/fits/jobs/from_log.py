"""Fit of a job log as a scenario's stream, for the command and for Python."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from diploee.base.errors import InputError, LogFormatError, one_of
from diploee.base.files import check_is_file
from diploee.base.units import HOURS_PER_WEEK
from diploee.base.validation import checked
from diploee.fits.fragment import (
    Named,
    Target,
    find_pool,
    stream_yaml,
    suggest_other_command,
)
from diploee.fits.jobs.arrivals import JobFitOptions
from diploee.fits.jobs.classes import read_rules
from diploee.fits.jobs.goodness_of_fit import (
    TOLERANCES,
    generated_errors,
    with_generated_years,
    worst_error,
)
from diploee.fits.jobs.holdout import holdout_split, with_holdout
from diploee.fits.jobs.job_log_fit import JobLogFit, fit_job_log
from diploee.fits.jobs.scenario_entry import job_stream, stream_comments
from diploee.importers.job_logs import read_job_log
from diploee.loads.jobs.job_log import JobLog
from diploee.profiles.derived import gpus_text, is_other_hardware, origin_gpus
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.log_replay import ClassRule, JobReplay, LogReading
from diploee.scenario.models import Facility, Scenario

MIN_WEEKS = 2
"""Minimum length [weeks] of a log whose weeks are played in random order."""

MIN_BUSY = 0.1
"""Mean fraction of busy nodes below which a log comes from another machine than the
pool's (ASSUMPTION, judgement)."""

FEW_WEEKS = 13
"""Length [weeks] from which a log shows several seasons (ASSUMPTION, judgement)."""


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
    """Read and fit a job log, compare log and fit, and write the fit as a stream.

    A scenario's years come from the fitted distributions ("law") or from the log's
    weeks in random order ("weeks"), as `choices.years` says.
    """
    if not log.is_dir():
        check_is_file(log, LogFormatError)
    scenario, pool, _, out, named = target
    chosen = _class_rules(workload, rules, library, named)
    base, pool_name = find_pool(scenario, pool, named=named)
    log_format, options = _reading_options(base, reading)
    replay_options = [key for key in options if key not in reading]
    pool_spec = None if base is None else base.facility.pools[pool_name]
    n_gpus = None if base is None else base.facility.node_type_of(pool_name).n_gpus
    log_format_name = log_format or ("csv" if "columns" in options else None)
    read_log = partial(read_job_log, log, log_format, pool_gpus_per_node=n_gpus or None)
    with suggest_other_command(log, "fit", log_format_name):
        read = read_log(**options)
    notes = []
    has_zone = base is not None and base.facility.model_fields_set & {
        "time_zone",
        "utc_offset",
    }
    if base and has_zone and read.is_naive:  # False if a zone is specified
        options["utc_offset"] = base.facility.time_zone or base.facility.utc_offset
        read = read_log(**options)
        notes = [
            f"stamps without a zone are in the scenario's, {options['utc_offset']}"
        ]

    def fit_part(choices: JobFitOptions) -> JobLogFit:
        fit = fit_job_log(
            read,
            chosen,
            library,
            choices,
            pool_n_nodes=None if pool_spec is None else pool_spec.n_nodes,
            gpus_per_node=n_gpus or int(options.get("gpus_per_node") or 0),
            allocates_gpus=pool_spec is not None and pool_spec.allocate == "gpus",
        )
        law = with_generated_years(fit, library)
        is_short = fit.arrivals.hours.covered_hours < MIN_WEEKS * HOURS_PER_WEEK
        is_like = is_short or worst_error(law) <= 1
        if choices.years == "law" or (choices.years == "auto" and is_like):
            return replace(law, decision="; ".join(_decision_texts(law, law, None)))
        replay = _replay_key(log, read, log_format, options, chosen, choices)
        weeks = with_generated_years(replace(fit, replay=replay), library)
        taken = weeks
        if choices.years == "auto" and worst_error(law) < worst_error(weeks):
            taken = law
        return replace(taken, decision="; ".join(_decision_texts(taken, law, weeks)))

    fit = fit_part(choices)
    if choices.holdout is not None:
        part = choices.model_copy(update={"end": holdout_split(fit, choices.holdout)})
        fit = with_holdout(fit, fit_part(part), library)
    if replay_options:
        notes.append(
            f"the log was read with {', '.join(replay_options)} of the scenario's "
            "replay"
        )
    if pool_spec is not None and fit.mean_busy_nodes < MIN_BUSY * pool_spec.n_nodes:
        notes.append(
            f"the log asks for {fit.mean_busy_nodes:,.3g} nodes on average, pool "
            f"'{pool_name}' has {pool_spec.n_nodes:,}, mostly idle with it: set "
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
    text = stream_yaml(stream_comments(fit), "streams", entry, target, base)
    return replace(fit, fragment=text)


def _replay_key(
    log: Path,
    read: JobLog,
    log_format: str | None,
    options: Mapping[str, Any],
    rules: Sequence[ClassRule],
    choices: JobFitOptions,
) -> dict[str, Any]:
    """Return the `replay` key that plays the log's weeks in random order."""
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


def _decision_texts(
    taken: JobLogFit, law: JobLogFit, weeks: JobLogFit | None
) -> Iterator[str]:
    """Yield the source of years, the errors of both sources, and their shortcomings."""
    yield (
        "Years are drawn from the fitted distributions"
        if taken is law
        else "Years play the log's own weeks in random order"
    )
    for kind, fit in (("law", law), ("weeks", weeks)):
        if fit is not None and (errors := generated_errors(fit)):
            errors_text = ", ".join(
                f"{off:+.0%} ({name})" for name, off in errors.items()
            )
            yield f"those of --years {kind} differ from the log by {errors_text}"
    if weeks is not None and worst_error(taken) > 1:
        aims = ", ".join(f"{limit:.0%} ({name})" for name, limit in TOLERANCES.items())
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
    """Yield notes on profiles of other GPUs: profiles that a run will refuse."""
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


def _reading_options(
    base: Scenario | None, reading: Mapping[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return format and options for reading the log.

    The defaults are those of the scenario's replay, if it has exactly one.
    """
    explicit = dict(reading)
    log_format = explicit.pop("log_format", None)
    streams = () if base is None else base.streams.values()
    replays = [stream.replay for stream in streams if stream.replay is not None]
    if len(replays) != 1:
        return log_format, explicit
    (spec,) = replays
    keys = set(LogReading.model_fields) & spec.model_fields_set
    if log_format is None and "columns" not in explicit:
        log_format = spec.format
    elif log_format not in (None, "csv"):
        keys -= {"columns", "time_format", "time_unit", "duration_unit"}
    replay_options = {key: getattr(spec, key) for key in keys}
    replay_options = {
        key: replay_options[key]
        for key in sorted(keys)
        if replay_options[key] is not None
    }
    return log_format, replay_options | explicit


def _class_rules(
    workload: str | None,
    rules: Path | str | Sequence[ClassRule] | None,
    library: ProfileLibrary,
    named: Named,
) -> Sequence[ClassRule]:
    """Return the class rules: a single rule for a workload, or the specified rules."""
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
