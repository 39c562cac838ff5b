"""Functions of `diploee` in Python beside sweeps and pages: one for each command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from diploee.base.errors import InputError, did_you_mean, one_of
from diploee.base.files.places import ShippedKind, shipped
from diploee.base.progress import NotebookProgress, in_notebook
from diploee.grid.limits.file import Limits
from diploee.grid.limits.report import LimitReport
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.runs.reader import Run, open_run
from diploee.scenario.loading import (
    as_described,
    load_scenario,
    scenario_from_dict,
    target_values,
    with_value,
)
from diploee.scenario.log_replay import ClassRule
from diploee.scenario.models import Scenario
from diploee.scenario.yaml_lines import load_yaml_with_lines
from diploee.simulation.run import simulate

if TYPE_CHECKING:
    from diploee.fits.jobs.job_log_fit import JobLogFit

Files = Path | str | Sequence[Path | str]


def scenarios(kind: ShippedKind = "scenario") -> dict[str, str]:
    """Return the files that ship, each name with its description.

    Parameters
    ----------
    kind : {"scenario", "sweep", "limits"}
        Kind of the files.
    """
    return {name: _told(path, kind) for name, path in shipped(kind).items()}


def _told(path: Path, kind: ShippedKind) -> str:
    """Return a file's description, its name, or its first comment."""
    content, _ = load_yaml_with_lines(path, "keys")
    first = path.read_text("utf-8").partition("\n")[0].removeprefix("#").strip()
    return str(content.get("name" if kind == "limits" else "description") or first)


def _opened(run: Run | Path | str) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def run(
    scenario: Scenario | Path | str,
    out: Path | str | None = None,
    *,
    target_utilization: float | None = None,
    seed: int | None = None,
    values: Mapping[str, Any] | None = None,
    profiles: Sequence[Path | str] = (),
    **options: Any,
) -> Run:
    """Simulate a scenario by name, file or object; a notebook shows how it goes.

    Parameters
    ----------
    scenario : Scenario, path or str
        A scenario, its file, or the name of a shipped one such as
        ``"colocation_10mw"``.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    target_utilization : float, optional
        Mean node occupancy to reach, 0-1, of the scenario's only stream.
    seed : int, optional
        Seed of every random draw.
    values : mapping, optional
        Values by dotted key, such as ``{"duration": "8 weeks"}``.
    profiles : sequence of path
        Folders of power profiles instead of the shipped ones.
    **options : object
        Further arguments of `simulate`, such as ``engine="compiled"``.

    Returns
    -------
    Run
        The finished run.

    Raises
    ------
    ScenarioError
        If the scenario or a value is wrong; the text names the key as it was given
        here.
    InputError
        If there is no such option, or the profiles or the output folder are not usable.
    """
    known = {**signature(run).parameters, **signature(simulate).parameters}
    for name in options.keys() - known:
        raise InputError(
            f"{name}: not an argument of diploee.run{did_you_mean(name, known)}"
        )
    asked = {**(values or {}), **({} if seed is None else {"seed": seed})}
    resolved, names = _with_values(scenario, asked, {}), {}
    if target_utilization is not None:
        target = target_values(resolved, target_utilization)
        names = dict.fromkeys(target, "target_utilization")
        resolved = _with_values(scenario, asked | target, names)
    if profiles:
        options["library"] = ProfileLibrary.open(*map(str, profiles))
    if in_notebook():
        options.setdefault("progress", NotebookProgress())
    return simulate(resolved, out, **options)


def _with_values(
    scenario: Scenario | Path | str, values: Mapping[str, Any], names: Mapping[str, str]
) -> Scenario:
    if not isinstance(scenario, Scenario):
        return load_scenario(scenario, values=values, names=names)
    data = scenario.model_dump(mode="json")
    for key, value in values.items():
        data = with_value(data, key, value, partial(str, names.get(key, key)))
    data = as_described(data, scenario.model_dump(mode="json"), values)
    return scenario_from_dict(data).beside(scenario.folder) if values else scenario


def limits(run: Run | Path | str, against: Limits | Path | str) -> LimitReport:
    """Check a run against limits.

    Parameters
    ----------
    run : Run or path
        Run, or its folder.
    against : Limits, path or str
        Limits, their file, or the name of a preset.
    """
    return _opened(run).limits(against)


def export(
    run: Run | Path | str,
    format_name: str,
    out: Path | str | None = None,
    **options: Any,
) -> Path:
    """Write a run's power in the format of a planner's tool, and return its path.

    Parameters
    ----------
    run : Run or path
        Run, or its folder.
    format_name : str
        A name in `diploee.grid.export.FORMATS`.
    out : path, optional
        File or folder to write; named after the run by default.
    **options : object
        Fields of `diploee.grid.export.Options`, and ``force=True``.
    """
    return _opened(run).export(format_name, out, **options)


def datasheet(
    run: Run | Path | str, out: Path | str = "datasheet.html", **options: Any
) -> Path:
    """Write what an interconnection asks of a load on one page, and return its place.

    Parameters
    ----------
    run : Run or path
        A finished run, or its folder.
    out : path
        The page.
    **options : object
        Further arguments of `diploee.reports.datasheet.write_datasheet`, such as
        ``limits=["ercot_lcl_2026_06"]`` or ``csv_file=...``.
    """
    from diploee.reports.datasheet import write_datasheet

    return write_datasheet(_opened(run).folder, out, **options)[0]


def fit(
    log: Path | str,
    workload: str | None = None,
    *,
    rules: Path | str | Sequence[ClassRule] | None = None,
    log_format: str | None = None,
    scenario: Scenario | Path | str | None = None,
    pool: str | None = None,
    stream: str = "jobs",
    profiles: Sequence[Path | str] = (),
    out: Path | str | None = None,
    force: bool = False,
    **options: Any,
) -> JobLogFit:
    """Learn from a job log when jobs come, how wide they are and how long they run.

    What ``diploee fit`` does, with its options as arguments.

    Parameters
    ----------
    log : path
        The log, in any format of `diploee.importers.JOB_LOG_FORMATS`.
    workload : str, optional
        Workload that all jobs take their power from; else `rules`.
    rules : path or sequence of ClassRule, optional
        Which jobs take their power from which workload; the first that fits.
    log_format : str, optional
        Recognised by content by default.
    scenario : Scenario, path or name, optional
        What the stream is for: gives the pool, its nodes and GPUs, and how to read the
        log where its only replay of a log says so.
    pool : str, optional
        Pool of the stream; the scenario's only one by default, ``"main"`` without a
        scenario.
    stream : str
        Name of the stream.
    profiles : sequence of path
        Folders of power profiles instead of the shipped ones.
    out : path, optional
        YAML file of the stream or, with `scenario`, of the scenario with it in place of
        the streams of its pool.
    force : bool
        Replace an existing file at `out`.
    **options : object
        Fields of `JobFitOptions`, such as ``months=False``, and of `LogReading`, such
        as ``columns={"submit": "came", ...}``, ``gpus_per_node=4`` or
        ``states=("completed",)``.

    Returns
    -------
    JobLogFit
        Its `fragment` is what `out` holds or would hold; its `figures` compare the log,
        the fragment and the jobs that it generates.

    Raises
    ------
    InputError
        If the log can't be read, neither or both of `workload` and `rules` are given,
        or an option or a place is none.

    Examples
    --------
    >>> found = diploee.fit("sacct.txt", "llama2_70b_lora", out="stream.yaml")  # doctest: +SKIP
    """  # noqa: E501
    from diploee.fits.fragment import check_place, write_fragment
    from diploee.fits.jobs.arrivals import JobFitOptions
    from diploee.fits.jobs.from_log import fit_from_log

    of_fit = {
        key: options.pop(key) for key in [*options] if key in JobFitOptions.model_fields
    }
    place = None if out is None else Path(out)
    read = [item for item in (log, rules, scenario) if isinstance(item, Path | str)]
    check_place(place, force, *read)
    found = fit_from_log(
        Path(log),
        ProfileLibrary.open(*map(str, profiles)),
        options,
        JobFitOptions(**of_fit),
        log_format=log_format,
        workload=workload,
        rules=rules,
        scenario=scenario,
        pool=pool,
        stream=stream,
        out=place,
    )
    write_fragment(found.fragment, place, force)
    return found


@overload
def import_profile(
    files: Files,
    source_format: Literal["nvidia-smi", "plain", "wattameter"],
    **told: Any,
) -> PowerProfile: ...


@overload
def import_profile(
    files: Files, source_format: Literal["mlperf-power", "nlr-genai"], **told: Any
) -> list[PowerProfile]: ...


def import_profile(
    files: Files,
    source_format: str,
    *,
    out: Path | str | None = None,
    force: bool = False,
    **facts: Any,
) -> PowerProfile | list[PowerProfile]:
    """Read measured power as profiles, as ``diploee profiles import`` does.

    Parameters
    ----------
    files : path or sequence of path
        Logs of one job; of ``"mlperf-power"`` and ``"nlr-genai"`` the folder.
    source_format : {"nvidia-smi", "plain", "wattameter", "mlperf-power", "nlr-genai"}
        Their format.
    out : path, optional
        Folder of a library to add the profiles to.
    force : bool
        Replace profiles of the same ids there.
    **facts : object
        What the importer takes besides, such as ``workload``, which logs of one job
        need, ``profile_id``, ``n_nodes``, ``licence``, or ``side`` of MLPerf's folders.

    Returns
    -------
    PowerProfile or list of PowerProfile
        The profile of one job, or those of the runs in a folder, of which ``skipped``
        names the runs that can't be read.

    Raises
    ------
    InputError
        If there is no such format, or the files can't be read.
    """
    from diploee.importers.power_logs.formats import (
        FORMATS,
        add_profiles,
        read_profiles,
    )

    if source_format not in FORMATS:
        near = did_you_mean(source_format, FORMATS)
        raise InputError(
            f"import_profile: no format '{source_format}' (have: "
            f"{one_of(FORMATS)}){near}"
        )
    paths = (
        [Path(files)]
        if isinstance(files, Path | str)
        else [Path(file) for file in files]
    )
    profiles = read_profiles(paths, source_format, **facts)
    if out is not None:
        add_profiles(profiles, Path(out), force, paths)
    return profiles if source_format in ("mlperf-power", "nlr-genai") else profiles[0]
