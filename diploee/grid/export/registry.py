"""Registry of export formats, and `export_run`, which writes an export."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from glob import escape
from math import inf
from os.path import abspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diploee.base.boundary import named_errors
from diploee.base.errors import InputError
from diploee.base.files import (
    FolderKind,
    check_output_file,
    local_path,
    whole_file,
    whole_folder,
)
from diploee.base.model import Registry
from diploee.base.progress import Progress
from diploee.base.units import J_PER_MWH, MS_PER_H, MS_PER_S, S_PER_H, W_PER_MW
from diploee.base.version import full_version
from diploee.grid.export.base import (
    ExportRequest,
    Format,
    Options,
    WrittenFiles,
    option_flag,
)
from diploee.grid.export.by_year import build_out
from diploee.grid.export.dynamics import write_andes, write_comtrade, write_pscad
from diploee.grid.export.pjm_lla import write_by_year, write_pjm_lla
from diploee.grid.export.power_flow import (
    write_gridlabd,
    write_opendss,
    write_pandapower,
    write_pypsa,
)
from diploee.grid.export.psse import write_psse
from diploee.grid.export.series import (
    CONVENTION,
    REACTIVE_OF,
    ReactiveTable,
    check_power_column,
    check_step,
    rows_between,
    year_spans,
)
from diploee.grid.export.single_file import (
    write_facility,
    write_lines,
    write_load,
    write_per_gpu,
    write_plain,
    write_playback,
    write_reopt_json,
    write_reopt_lines,
)
from diploee.metrics.spectral_bands import profile_support, recorded_readings
from diploee.runs.folder import run_files, write_json
from diploee.runs.reader import RunFolder
from diploee.runs.series import Rows, RunSeries
from diploee.scenario.times import parse_step_ms

if TYPE_CHECKING:
    from pandas import DataFrame

FOLDER_SIDECAR = "diploee_export.json"


def _entries(sidecar: Mapping[str, Any]) -> Iterator[str]:
    yield FOLDER_SIDECAR
    yield from map(
        escape, sidecar["files"] if isinstance(sidecar["files"], dict) else ()
    )


EXPORT_FOLDER = FolderKind(
    "an exported folder",
    FOLDER_SIDECAR,
    ("format", "diploee_version", "files"),
    _entries,
)


def sidecar_path(path: Path, is_folder: bool) -> Path:
    """Return the path of the JSON sidecar that describes an export's file or folder."""
    return (
        path / FOLDER_SIDECAR
        if is_folder
        else path.parent / f"{path.name}.meta.json"  # / has no name
    )


FOLDER, Q, NAMED = (), frozenset({"q_table"}), frozenset({"q_table", "name"})
PSSE = NAMED | {
    "at",
    "bus_number",
    "parts",
    "drives",
    "vd1",
    "vd2",
    "frcel",
    "perc1_head",
    "hz",
    "fast_hz",
    "equal",
}
FORMATS: Registry[Format] = Registry(
    "export",
    (
        Format(
            "csv",
            "plain CSV: timestamp with its UTC offset, power in W",
            write_plain,
            options=frozenset({"time_zone"}),
        ),
        Format(
            "facility-csv",
            "columns of the published DIPLOEE years: timestamp,power_W,utilization",
            write_facility,
        ),
        Format(
            "8760",
            "one kW value a line for a year of 8,760 hours, also at 30 or 15 min",
            write_lines,
            whole_year=True,
        ),
        Format(
            "sam",
            "SAM (System Advisor Model): 8,760, 17,520 or 35,040 lines of kW",
            write_lines,
            whole_year=True,
        ),
        Format(
            "reopt",
            "REopt CSV for ElectricLoad.path_to_csv: 8,760 x steps per hour, kW",
            write_reopt_lines,
            whole_year=True,
        ),
        Format(
            "reopt-json",
            "REopt JSON: ElectricLoad.loads_kw with year, Settings.time_steps_per_hour",
            write_reopt_json,
            (".json",),
            whole_year=True,
        ),
        Format(
            "opendss",
            (
                "OpenDSS folder: LoadShape (of the peak, or --actual kW) and a "
                "matching Load"
            ),
            write_opendss,
            FOLDER,
            NAMED | {"bus", "kv", "actual"},
        ),
        Format(
            "pypsa",
            "PyPSA CSV folder: snapshots, loads, loads-p_set in MW, naive UTC",
            write_pypsa,
            FOLDER,
            NAMED | {"bus"},
        ),
        Format(
            "pandapower",
            "pandapower DFData table (Parquet or CSV): integer step, MW and Mvar",
            write_pandapower,
            (".parquet", ".csv"),
            NAMED,
        ),
        Format(
            "playback",
            "playback CSV for dynamic models: t_s,p_mw[,q_mvar]",
            write_playback,
            options=Q,
        ),
        Format(
            "openg2g",
            "OpenG2G training trace: t_s,power_W per GPU",
            partial(write_per_gpu, header=("t_s", "power_W")),
            column="it_power_w",
        ),
        Format("openg2g-load", "OpenG2G facility load: t_s,p_kw", write_load),
        Format(
            "gpu-data",
            "GPU_data.csv of data center dynamic models: t_seconds,P_gpu_W per GPU",
            partial(write_per_gpu, header=("t_seconds", "P_gpu_W")),
            column="it_power_w",
        ),
        Format(
            "andes",
            "ANDES folder: data and row of a TimeSeries device, in pu of --mva",
            write_andes,
            FOLDER,
            NAMED | {"mva"},
        ),
        Format(
            "gridlabd",
            "GridLAB-D folder: player of P+Qj (steps of whole seconds) and its load",
            write_gridlabd,
            FOLDER,
            NAMED,
        ),
        Format(
            "comtrade",
            "COMTRADE 2013 record (FLOAT32) of an event window or a span: P, and Q "
            "where known",
            partial(write_comtrade, revision=2013),
            FOLDER,
            NAMED,
        ),
        Format(
            "comtrade-1999",
            "COMTRADE 1999 record (ASCII), which older tools read",
            partial(write_comtrade, revision=1999),
            FOLDER,
            NAMED,
        ),
        Format(
            "psse",
            "PSS/E folder: RAW load records of peak, minimum, 15 min, --at (need Q) "
            "and dynamic records, by --parts",
            write_psse,
            FOLDER,
            PSSE,
        ),
        Format(
            "pscad",
            "PSCAD File Read: time from 0, step pairs, consumption and Q drawn above 0",
            write_pscad,
            (".txt",),
            Q | {"signal", "mva"},
        ),
        Format(
            "pjm-lla",
            "PJM large-load workbook: MW by calendar year, and a ramp schedule",
            write_pjm_lla,
            FOLDER,
            frozenset({"zone", "area"}),
            hourly=True,
        ),
        Format(
            "by-year",
            "table by year and step of a build-out: MW, Mvar, IT, cooling, contract at "
            "seasons' peaks, with ERCOT's LCP and pjm-lla's tables",
            write_by_year,
            FOLDER,
            Q | {"zone", "area", "peaks", "excel"},
            hourly=True,
        ),
    ),
)
"""Registry of export formats; ``FORMATS.register`` adds one of another package."""


def export_run(
    run: RunFolder | Path | str,
    format_name: str,
    out: Path | str | None = None,
    options: Options | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Export the power of a run, or of one of its event windows.

    A JSON sidecar describes the export.

    Parameters
    ----------
    run : RunFolder or path
        A finished run, or its folder.
    format_name : str
        One of `FORMATS`.
    out : path, optional
        File or folder to write; by default
        ``<run folder>[-<event window>]-<format><suffix>`` beside the run.
    options : Options, optional
        Column, step, event window, period, and options of the format.
    force : bool
        Replace an existing export.
    progress : Progress, optional
        Receives the progress.

    Returns
    -------
    pathlib.Path
        The file or folder that was written.

    Raises
    ------
    InputError
        If run, format, options and path do not fit together; nothing is written.
    OutputError
        If the file or folder cannot be written; nothing is left of it.
    """
    remedy = "; specify your own by its import path, 'module:NAME'"
    fmt, options = FORMATS.named("export", format_name, remedy), options or Options()
    _check_options(fmt, options)
    run = RunFolder.open(run)
    path = _default_path(run, fmt, options) if out is None else local_path(out)
    if len(fmt.suffixes) > 1 and path.suffix not in fmt.suffixes:
        raise InputError(
            f"--out: '{path.name}' must end in {' or '.join(fmt.suffixes)} for "
            f"'{fmt.name}'"
        )
    inputs = [
        *run_files(run.folder),
        options.q_table.path if options.q_table else None,
        *{span.path for span in options.peaks or ()},
    ]
    request, leap_rule = _request(run, fmt, options)
    whole = partial(whole_folder, kind=EXPORT_FOLDER) if fmt.is_folder else whole_file
    if not fmt.is_folder:
        check_output_file(sidecar_path(path, is_folder=False), force, inputs=inputs)
    with (
        (progress or Progress()).stage(f"export {fmt.name}") as request.progress,
        whole(path, force, inputs=inputs) as request.path,
    ):
        content = _describe_export(
            fmt, request, _write_checked(fmt, request), leap_rule
        )
        if fmt.is_folder:
            write_json(sidecar_path(request.path, is_folder=True), content)
        else:
            sidecar_file = sidecar_path(path, is_folder=False)
            with whole_file(sidecar_file, force, inputs=inputs) as sidecar:
                write_json(sidecar, content)
    return path


def by_year(run: RunFolder, options: Options) -> DataFrame:
    """Return the rows of a run's table by year, unrounded."""
    fmt = FORMATS["by-year"]
    _check_options(fmt, options)
    request, _ = _request(run, fmt, options)
    return build_out(request).rows


def _request(
    run: RunFolder, fmt: Format, options: Options
) -> tuple[ExportRequest, str | None]:
    """Return the request of an export, without a path, and the rule for leap days."""
    if not options.column:
        options = options.model_copy(update={"column": fmt.column})
    source = run.series(options.event_window)
    step_ms, spans, leap_rule = _rows_to_export(run, source, fmt, options)
    reactive = _reactive_source(source, fmt, options)
    request = ExportRequest(run, options, Path(), source, step_ms, spans, reactive)
    return request, leap_rule


def _write_checked(fmt: Format, request: ExportRequest) -> WrittenFiles:
    """Run a format's writer; raise `InputError` if it fails or omits a step."""

    def error(text: str) -> InputError:
        return InputError(f"export format '{fmt.name}'{text}")

    with named_errors("its writer", error, OSError):
        written = fmt.write(request)
        written.files, written.notes  # noqa: B018
    if request.peak_w == -inf or not request.path.exists():
        raise error(
            ": its writer must write request.path, and take all of request.blocks()"
        )
    return written


def _check_options(fmt: Format, options: Options) -> None:
    """Raise `InputError` if an option is set that the format does not accept."""
    if unused := options.changed_names() - fmt.accepted_options():
        raise InputError(
            f"{option_flag(min(unused))}: the format '{fmt.name}' has no use for it; "
            "leave it out"
        )


def _default_path(run: RunFolder, fmt: Format, options: Options) -> Path:
    # Only the absolute path has the name of '.' or '..'.
    """Return the default path of an export, beside the run."""
    path = Path(abspath(run.folder))  # noqa: PTH100
    names = filter(None, (path.name, options.event_window, fmt.name))
    return path.with_name("-".join(names) + (fmt.suffixes or ("",))[0])


def _rows_to_export(
    run: RunFolder, source: RunSeries, fmt: Format, options: Options
) -> tuple[int, tuple[Rows, ...], str | None]:
    """Return the step [ms], the rows to export, and the rule for a leap day."""
    check_power_column(source, options.column)  # before anything is written
    default_ms = MS_PER_H if fmt.whole_year or fmt.hourly else source.step_ms
    step_ms = parse_step_ms(options.step) if options.step else default_ms
    check_step(run, source, step_ms)
    if fmt.whole_year:
        year, leap_day = options.year, options.leap_day
        return step_ms, *year_spans(source, year, leap_day, step_ms, fmt.name)
    rows = rows_between(source, options.first, options.until, step_ms)
    return step_ms, (rows,), None


def _reactive_source(
    source: RunSeries, fmt: Format, options: Options
) -> ReactiveTable | str | None:
    """Return the source of reactive power: the user's table, else the run's column."""
    if options.q_table is not None:
        return options.q_table
    column = REACTIVE_OF.get(options.column)
    return column if "q_table" in fmt.options and column in source.check() else None


NO_FAULT_STUDY = (
    "a playback of P(t) holds no response to voltage or frequency: it supports no "
    "fault study, nor claims on flicker, torsion or harmonics"
)
FIXED_OFFSET = "none: fixed UTC offset"
INTERVAL = "each value is the mean over the step that starts at its stamp or position"


def _describe_export(
    fmt: Format, request: ExportRequest, written: WrittenFiles, leap_rule: str | None
) -> dict[str, Any]:
    """Return the content of the sidecar of a finished export."""
    run = request.run
    energy_mwh = request.energy_j / J_PER_MWH
    notes = [*written.notes, NO_FAULT_STUDY]
    support = profile_support(recorded_readings(run.manifest))
    if support.readings[0].names and support.readings_hz < inf:
        notes.append(
            support.aliasing_reason
            or (
                "the power profiles hold no oscillation above "
                f"{support.readings_hz:g} Hz, whatever the step"
            )
        )
    return {
        "format": fmt.name,
        "diploee_version": full_version(),
        "files": written.files,
        "column": request.options.column,
        "power_boundary": run.boundary(request.options.column),
        "reactive_power": _reactive_text(fmt, request),
        "interval_convention": INTERVAL,
        "step_s": request.step_s,
        "n_steps": request.n_steps,
        "start": request.start.isoformat(),
        "end": request.source.at(request.spans[-1][1]).isoformat(),
        "utc_offset": request.start.isoformat()[-6:],
        "time_zone": request.options.time_zone
        or run.scenario.facility.time_zone
        or FIXED_OFFSET,
        "leap_day": leap_rule or "nothing is left out",
        "energy_mwh": energy_mwh,
        "mean_mw": energy_mwh * S_PER_H / (request.n_steps * request.step_s),
        "peak_mw": request.peak_w / W_PER_MW,
        "run": _run_identity(run, request.source),
        "done": _processing_texts(request, leap_rule),
        "notes": notes,
    }


def _reactive_text(fmt: Format, request: ExportRequest) -> str:
    """Return a text on the source of the reactive power."""
    column, result = request.options.column, request.reactive
    if "q_table" not in fmt.options:
        return "none: the format holds active power alone"
    if result is None:
        return f"none: the run holds none of '{column}', and no power factor is made up"
    if isinstance(result, str):
        assumed = request.run.manifest.get("assumed")
        terms = f"; assumed terms: {', '.join(assumed)}" if assumed else ""
        return (
            f"modelled, the run's '{result}' ({request.run.boundary(result)}){terms}; "
            f"{CONVENTION}"
        )
    run_column = REACTIVE_OF.get(column)
    replacement = (
        f", in place of the run's own '{run_column}'"
        if run_column in request.source.check()
        else ""
    )
    return (
        f"interpolated at each step's mean power in {result.path.name}{replacement}; "
        f"{CONVENTION}"
    )


def _processing_texts(request: ExportRequest, leap_rule: str | None) -> list[str]:
    """Return texts on the processing of the series: averages, event window, period."""
    source = request.source
    texts = [
        (
            f"means over {request.rows_per_step} intervals of {source.step_s:g} s; "
            "they keep its energy"
        )
        if request.rows_per_step > 1
        else f"the {source.noun}'s own step of {source.step_s:g} s"
    ]
    if source.event_window:
        texts.insert(
            0, f"the event window '{source.event_window}' of the run, at 0.1 s"
        )
    if leap_rule is not None:
        texts.append(f"one calendar year of 8,760 hours; {leap_rule}")
    elif request.spans != ((0, source.n_rows),):
        texts.append(f"a part of the {source.noun}, from 'start' to 'end'")
    return texts


def _run_identity(run: RunFolder, source: RunSeries) -> dict[str, Any]:
    """Return the identity of the run: names, hashes, seed and resolution."""
    with source.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    result = {
        "scenario": run.scenario.name,
        "scenario_sha256": run.manifest["scenario_sha256"],
        f"{source.path.stem}_parquet_sha256": digest,
        "seed": run.scenario.seed,
        "resolution_s": run.scenario.resolution_ms / MS_PER_S,
    }
    # Kind of the event, its time and its size
    if source.event_window:
        entry = run.event_window_entry(source.event_window)
        result["zoom"] = {key: entry.get(key) for key in ("name", "at", "value_mw")} | {
            "resolution_s": source.step_s,
            "basis": run.metrics["zooms"].get("basis", ""),
        }
    return result
