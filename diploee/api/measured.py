"""Use of measured data: fits of job logs, and import of measured power as profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, overload

from pydantic import InstanceOf

from diploee.api.sites import AnyProfiles, AnyScenario, load_scenario, open_library
from diploee.base.arguments import allowed, as_list, checked_arguments
from diploee.profiles.profile import PowerProfile
from diploee.scenario.log_replay import ClassRule, JobState

if TYPE_CHECKING:
    from diploee.fits.jobs.job_log_fit import JobLogFit

Files: TypeAlias = Annotated[
    Path | str | Sequence[Path | str], allowed("a path, or a list of paths")
]
Rules: TypeAlias = Annotated[
    Path | str | Sequence[InstanceOf[ClassRule] | Mapping[str, Any]],
    allowed("a file of rules, or a list of rules"),
]


@checked_arguments
def fit(
    log: Path | str,
    workload: str | None = None,
    *,
    rules: Rules | None = None,
    scenario: AnyScenario | None = None,
    pool: str | None = None,
    stream: str = "jobs",
    profiles: AnyProfiles = (),
    out: Path | str | None = None,
    force: bool = False,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    calendar: str | None = None,
    months: bool | None = None,
    confidence: float | None = None,
    durations: Literal["quantiles", "profile"] = "quantiles",
    arrivals: str | None = None,
    years: Literal["auto", "law", "weeks"] = "auto",
    holdout: float | None = None,
    max_classes: int | None = None,
    log_format: str | None = None,
    columns: Mapping[str, str] | None = None,
    gpus_per_node: int | None = None,
    utc_offset: str | None = None,
    time_format: str | None = None,
    time_unit: str | None = None,
    duration_unit: str | None = None,
    zero_durations: Literal["drop", "one-second"] | None = None,
    cpu_only: Literal["keep", "drop"] | None = None,
    states: Sequence[JobState] | None = None,
) -> JobLogFit:
    """Fit a job stream to a job log: submission times, job sizes and durations.

    Equivalent of ``diploee fit``, with its options as arguments.

    Parameters
    ----------
    log : path
        The log, in any format of `diploee.importers.JOB_LOG_FORMATS`.
    workload : str, optional
        Workload whose profiles give the power of all jobs; else `rules`.
    rules : path, or sequence of ClassRule or dict, optional
        Rules that map jobs to workloads; the first match applies.
    scenario : Scenario, mapping, path or name, optional
        Scenario that the stream is for. It gives the pool's nodes and GPUs and, if it
        replays a single log, the options for reading the log.
    pool : str, optional
        Pool of the stream; the scenario's only one by default, ``"main"`` without a
        scenario.
    stream : str
        Name of the stream.
    profiles : ProfileLibrary, path, or sequence of path
        Power profiles instead of the shipped ones.
    out : path, optional
        YAML file to write: the stream or, with `scenario`, the scenario in which the
        stream replaces those of its pool.
    force : bool
        Replace an existing file at `out`.
    start, end : datetime.datetime, optional
        Period of the log to fit, local time.
    calendar, months, confidence, durations, arrivals, years, holdout, max_classes
        Options of the fit, see `diploee.fits.JobFitOptions`.
    log_format, columns, gpus_per_node, utc_offset, time_format, time_unit
        Options for reading the log, see `diploee.scenario.LogReading`; by default the
        format is detected from the content.
    duration_unit, zero_durations, cpu_only, states
        Further options of `LogReading`: unit of durations, and jobs to include.

    Returns
    -------
    JobLogFit
        The fit. Its `fragment` is the text of `out`; its `figures` compare the log, the
        fitted stream and simulated jobs.

    Raises
    ------
    InputError
        If the log can't be read, neither or both of `workload` and `rules` are
        specified, or an option or a path is invalid.

    Examples
    --------
    >>> result = diploee.fit("sacct.txt", "llama2_70b_lora")  # doctest: +SKIP
    """
    chosen = {key: value for key, value in locals().items() if value is not None}
    from diploee.fits.fragment import Target, check_output_path, write_fragment
    from diploee.fits.jobs.arrivals import JobFitOptions
    from diploee.fits.jobs.from_log import fit_from_log
    from diploee.scenario.log_replay import LogReading

    fit_options = {
        key: chosen[key] for key in JobFitOptions.model_fields if key in chosen
    }
    reading_keys = ("log_format", *LogReading.model_fields)
    reading = {key: chosen[key] for key in reading_keys if key in chosen}
    class_rules = (
        rules
        if rules is None or isinstance(rules, Path | str)
        else [ClassRule.model_validate(rule) for rule in rules]
    )
    if isinstance(scenario, Mapping):
        scenario = load_scenario(scenario)
    path = None if out is None else Path(out)
    inputs = [item for item in (log, rules, scenario) if isinstance(item, Path | str)]
    check_output_path(path, force, *inputs)
    result = fit_from_log(
        Path(log),
        open_library(profiles),
        reading,
        JobFitOptions(**fit_options),
        Target(scenario, pool, stream, path),
        workload=workload,
        rules=class_rules,
    )
    write_fragment(result.fragment, path, force)
    return result


@overload
def import_profile(
    files: Files,
    source_format: Literal["nvidia-smi", "plain", "wattameter"],
    **facts: Any,
) -> PowerProfile: ...


@overload
def import_profile(
    files: Files, source_format: Literal["mlperf-power", "nlr-genai"], **facts: Any
) -> list[PowerProfile]: ...


@checked_arguments
def import_profile(
    files: Files,
    source_format: Literal[
        "nvidia-smi", "plain", "wattameter", "mlperf-power", "nlr-genai"
    ],
    *,
    out: Path | str | None = None,
    force: bool = False,
    **facts: Any,
) -> PowerProfile | list[PowerProfile]:
    """Read logs of measured power as profiles, as ``diploee profiles import`` does.

    Parameters
    ----------
    files : path or sequence of path
        Logs of one job, or the folder for ``"mlperf-power"`` and ``"nlr-genai"``.
    source_format : {"nvidia-smi", "plain", "wattameter", "mlperf-power", "nlr-genai"}
        Format of the files.
    out : path, optional
        Folder of a library to add the profiles to.
    force : bool
        Replace profiles of the same ids in the library.
    **facts : object
        Further options of the importer, such as ``workload`` (required for logs of one
        job), ``profile_id``, ``n_nodes``, ``licence``, or ``side`` of MLPerf's folders.

    Returns
    -------
    PowerProfile or list of PowerProfile
        The profile of one job, or the profiles of the runs in a folder; its ``skipped``
        lists unreadable runs.

    Raises
    ------
    InputError
        If there is no such format, or the files can't be read.
    """
    from diploee.importers.power_logs.read import add_profiles, read_profiles

    paths = [Path(file) for file in as_list(files)]
    profiles = read_profiles(paths, source_format, **facts)
    if out is not None:
        add_profiles(profiles, Path(out), force, paths)
    return profiles if source_format in ("mlperf-power", "nlr-genai") else profiles[0]
