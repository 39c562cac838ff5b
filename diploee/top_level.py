"""What `diploee` offers in Python beside runs, sweeps and pages: one function for each command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from diploee.errors import InputError, one_of
from diploee.metrics.limits import LimitReport, Limits, shipped_limits
from diploee.outputs import Run, open_run
from diploee.profiles import PowerProfile, ProfileLibrary, add_profile
from diploee.scenario import ClassRule, shipped_scenarios
from diploee.scenario.yaml_lines import load_yaml_with_lines
from diploee.sweep import shipped_sweeps

if TYPE_CHECKING:
    from diploee.learn.jobs.job_log_fit import JobLogFit

ShippedKind = Literal["scenario", "sweep", "limits"]
_SHIPPED = {"scenario": shipped_scenarios, "sweep": shipped_sweeps, "limits": shipped_limits}


def shipped(kind: ShippedKind = "scenario") -> dict[str, Path]:
    """Return the files that ship by name: scenarios, sweeps over them, or presets of limits."""
    return _SHIPPED[kind]()


def scenarios(kind: ShippedKind = "scenario") -> dict[str, str]:
    """Return what ships by name with what it says that it is."""
    return {name: _told(path, kind) for name, path in shipped(kind).items()}


def _told(path: Path, kind: ShippedKind) -> str:
    """Return a file's description, its name, or its first comment."""
    content, _ = load_yaml_with_lines(path, "keys")
    first = path.read_text("utf-8").partition("\n")[0].removeprefix("#").strip()
    return str(content.get("name" if kind == "limits" else "description") or first)


def _opened(run: Run | Path | str) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def limits(run: Run | Path | str, against: Limits | Path | str) -> LimitReport:
    """Hold a run against limits: loaded ones, their file, or the name of a preset."""
    return _opened(run).limits(against)


def export(
    run: Run | Path | str, format_name: str, out: Path | str | None = None, **options: Any
) -> Path:
    """Write a run's power in the format of a planner's tool; options as of `Run.export`."""
    return _opened(run).export(format_name, out, **options)


def datasheet(run: Run | Path | str, out: Path | str = "datasheet.html", **options: Any) -> Path:
    """Write what an interconnection asks of a load on one page, and return its place.

    Parameters
    ----------
    run : Run or path
        A finished run, or its folder.
    out : path
        The page.
    **options : object
        Further arguments of `diploee.report.datasheet_files.write_datasheet`, such as
        ``limits=["ercot-lel"]`` or ``csv_file=...``.
    """
    from diploee.report.datasheet_files import write_datasheet

    return write_datasheet(_opened(run).folder, out, **options)[0]


def fit(
    log: Path | str,
    workload: str | None = None,
    *,
    rules: Path | str | Sequence[ClassRule] | None = None,
    log_format: str | None = None,
    profiles: Sequence[Path | str] = (),
    pool_n_nodes: int | None = None,
    gpus_per_node: int = 0,
    **options: Any,
) -> JobLogFit:
    """Learn from a job log when jobs come, how wide they are and how long they run.

    Parameters
    ----------
    log : path
        The log, in any format of `diploee.importers.JOB_LOG_FORMATS`.
    workload : str, optional
        Workload that all jobs take their power from; else `rules`.
    rules : path or sequence of ClassRule, optional
        Which jobs take their power from which workload; the first that fits.
    log_format : str, optional
        Told by content by default.
    profiles : sequence of path
        Folders of power profiles instead of the shipped ones.
    pool_n_nodes, gpus_per_node : int
        Nodes of the pool, wider jobs are left out, and GPUs of a node, 0 where they are not known.
    **options : object
        Fields of `JobFitOptions`, such as ``months=False``; the others are arguments of
        `diploee.importers.read_job_log`, such as ``states=("COMPLETED",)``.

    Returns
    -------
    JobLogFit
        `diploee.learn.jobs.fragment.fragment_text` makes a stream of a scenario of it.

    Raises
    ------
    InputError
        If the log can't be read, or neither or both of `workload` and `rules` are given.
    """
    from diploee.importers.job_logs import read_job_log
    from diploee.learn.jobs.job_log_fit import JobFitOptions, fit_job_log
    from diploee.learn.jobs.rules_file import read_rules

    library = ProfileLibrary.open(*map(str, profiles))
    if (workload is None) == (rules is None):
        workloads = sorted({profile.workload for profile in library.entries})
        raise InputError(f"fit: give either workload or rules (workloads: {one_of(workloads)})")
    if workload is not None:
        chosen: Sequence[ClassRule] = (ClassRule(workload=workload),)
    else:
        chosen = read_rules(Path(rules)) if isinstance(rules, Path | str) else rules or ()
    of_fit = {key: options.pop(key) for key in [*options] if key in JobFitOptions.model_fields}
    read = read_job_log(Path(log), log_format, pool_gpus_per_node=gpus_per_node or None, **options)
    return fit_job_log(
        read, chosen, library, JobFitOptions(**of_fit),
        pool_n_nodes=pool_n_nodes, gpus_per_node=gpus_per_node,
    )  # fmt: skip


def _importers() -> Mapping[str, Any]:
    from diploee.importers.power_logs.nvidia_smi import import_nvidia_smi
    from diploee.importers.power_logs.plain import import_plain
    from diploee.importers.power_logs.wattameter import import_wattameter

    return {
        "nvidia-smi": import_nvidia_smi,
        "plain": lambda files, **told: import_plain(files[0], **told),
        "wattameter": import_wattameter,
    }


def import_profile(
    files: Path | str | Sequence[Path | str],
    source_format: str,
    *,
    workload: str,
    out: Path | str | None = None,
    force: bool = False,
    **told: Any,
) -> PowerProfile:
    """Read the measured power of one job as a profile.

    Parameters
    ----------
    files : path or sequence of path
        Its logs.
    source_format : {"nvidia-smi", "plain", "wattameter"}
        Their format.
    workload : str
        Workload, as scenarios name it.
    out : path, optional
        Folder of a library to add the profile to.
    force : bool
        Replace a profile of the same id there.
    **told : object
        What the importer takes besides, such as ``profile_id``, ``n_nodes``, ``licence``.

    Raises
    ------
    InputError
        If there is no such format, or the files can't be read.
    """
    importers = _importers()
    if source_format not in importers:
        raise InputError(f"import_profile: no format '{source_format}' (have: {one_of(importers)})")
    paths = [Path(files)] if isinstance(files, Path | str) else [Path(file) for file in files]
    profile: PowerProfile = importers[source_format](paths, workload=workload, **told)
    if out is not None:
        add_profile(profile, Path(out), force, inputs=paths)
    return profile
