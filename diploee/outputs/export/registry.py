"""All formats, and the export itself."""

from __future__ import annotations

from pathlib import Path

from diploee.errors import InputError, did_you_mean, one_of
from diploee.outputs.export.base import Format, Job, Options, flag
from diploee.outputs.export.calendar_year import year_spans
from diploee.outputs.export.opendss import OPENDSS
from diploee.outputs.export.openg2g import OPENG2G
from diploee.outputs.export.pandapower import PANDAPOWER
from diploee.outputs.export.place import check_free, new_export, sidecar_of
from diploee.outputs.export.plain import CSV
from diploee.outputs.export.playback import PLAYBACK
from diploee.outputs.export.pypsa import PYPSA
from diploee.outputs.export.reactive import read_reactive_table
from diploee.outputs.export.series import Series, Span, open_series
from diploee.outputs.export.sidecar import describe
from diploee.outputs.export.source import Source, source_of
from diploee.outputs.export.stamps import named_zone
from diploee.outputs.export.window import check_step, parse_step_ms, rows_between
from diploee.outputs.export.year_files import HOURS_8760, REOPT, REOPT_JSON, SAM
from diploee.outputs.manifest import write_json
from diploee.outputs.reader import Run, open_run
from diploee.units import MS_PER_H
from diploee.watch import Watch

FORMATS: dict[str, Format] = {
    fmt.name: fmt
    for fmt in (
        CSV,
        HOURS_8760,
        SAM,
        REOPT,
        REOPT_JSON,
        OPENDSS,
        PYPSA,
        PANDAPOWER,
        PLAYBACK,
        OPENG2G,
    )
}
"""The formats by name."""


def export_run(
    run: Run | Path | str,
    format_name: str,
    out: Path | str | None = None,
    options: Options | None = None,
    *,
    force: bool = False,
    watch: Watch | None = None,
) -> Path:
    """Export the power of a run or of one of its zooms, with a sidecar on what its numbers are.

    Parameters
    ----------
    run : Run or path
        A finished run, or its folder.
    format_name : str
        One of `FORMATS`.
    out : path, optional
        File or folder to write; ``<run folder>[-<zoom>]-<format><suffix>`` beside the run by
        default.
    options : Options, optional
        Column, step, zoom or part of the run and what the format takes besides.
    force : bool
        Replace an export that stands there.
    watch : Watch, optional
        Told of the progress.

    Returns
    -------
    pathlib.Path
        What was written.

    Raises
    ------
    InputError
        If run, format, options and place don't go together; nothing is written then.
    OutputError
        If it can't be written; nothing is kept then.
    """
    fmt, options = _format(format_name), options or Options()
    _check_options(fmt, options)
    run = run if isinstance(run, Run) else open_run(run)
    source = source_of(run, options.zoom)
    place = Path(out) if out is not None else _default_place(run, fmt, options)
    _check_suffix(fmt, place)
    check_free(place, fmt.is_folder, force)
    series, leap_rule = _series(source, fmt, options)
    reactive = read_reactive_table(options.q_table) if options.q_table is not None else None

    done = 0.0
    with (watch or Watch()).stage(f"export {fmt.name}") as update:

        def progress(fraction: float) -> None:
            nonlocal done
            done = fraction
            update(fraction, f"{fraction * series.n_steps:,.0f} steps")

        series.progress = progress
        with new_export(place, fmt.is_folder, force, lambda: done) as target:
            job = Job(run, series, options, reactive, target)
            sidecar = describe(fmt, job, fmt.write(job), leap_rule)
            write_json(sidecar_of(target, fmt.is_folder), sidecar)
    return place


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise InputError(
            f"unknown export format '{name}' (have: {one_of(FORMATS)}){did_you_mean(name, FORMATS)}"
        )
    return FORMATS[name]


def _check_options(fmt: Format, options: Options) -> None:
    for name in options.given():
        if name not in fmt.accepts():
            takers = [other.name for other in FORMATS.values() if name in other.accepts()]
            raise InputError(
                f"{flag(name)}: the format '{fmt.name}' has no use for it (these have: "
                f"{one_of(takers)}); leave it out"
            )
    if options.time_zone is not None:
        named_zone(options.time_zone)


def _default_place(run: Run, fmt: Format, options: Options) -> Path:
    # The name of '.' or '..' shows only in the whole path.
    folder = run.folder if run.folder.name not in ("", "..") else run.folder.resolve()
    names = [folder.name, *([options.zoom] if options.zoom else []), fmt.name]
    return folder.with_name("-".join(names) + (fmt.suffixes or ("",))[0])


def _check_suffix(fmt: Format, place: Path) -> None:
    if len(fmt.suffixes) > 1 and place.suffix not in fmt.suffixes:
        raise InputError(
            f"--out: '{place.name}' must end in {' or '.join(fmt.suffixes)} for '{fmt.name}'"
        )


def _series(source: Source, fmt: Format, options: Options) -> tuple[Series, str | None]:
    default_ms = MS_PER_H if fmt.whole_year else source.step_ms
    step_ms = default_ms if options.step is None else parse_step_ms(options.step)
    spans: tuple[Span, ...]
    leap_rule = None
    check_step(source, step_ms)
    if fmt.whole_year:
        year = year_spans(source, options, step_ms, fmt.name)
        spans, leap_rule = year.spans, year.leap_rule
    else:
        spans = (rows_between(source, options.first, options.until, step_ms),)
    open_series(source, options.column).close()  # a missing column shows before anything is written
    return Series(source, options.column, step_ms, spans), leap_rule
