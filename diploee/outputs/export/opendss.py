"""OpenDSS: a LoadShape with its files, and the Load that follows it."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from diploee.errors import InputError, printable
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.text import CsvFile
from diploee.units import MS_PER_MIN, W_PER_KW

DIGITS = 12
"""Decimals of a normalised multiplier; the peak is exactly 1."""

KW_DIGITS = 6
KVAR_PER_MVAR = 1e3


def _write(request: ExportRequest) -> Written:
    peak_kw, peak_kvar = _peaks(request)
    kw_base, kvar_base = (1.0, 1.0) if request.options.actual else (peak_kw, peak_kvar or 1.0)
    digits = KW_DIGITS if request.options.actual else DIGITS
    with ExitStack() as stack:
        p_file = stack.enter_context(CsvFile(request.path / "p.csv"))
        q_file = (
            stack.enter_context(CsvFile(request.path / "q.csv")) if request.has_reactive else None
        )
        for block in request.series.blocks():
            p_file.write(np.round(block.power_w / W_PER_KW / kw_base, digits))
            if q_file is not None and block.q_mvar is not None:
                q_file.write(np.round(block.q_mvar * KVAR_PER_MVAR / kvar_base, digits))
    script = request.path / f"{request.options.name}.dss"
    script.write_text(_script(request, peak_kw, peak_kvar), encoding="utf-8")
    return Written(
        {
            script.name: "New LoadShape and New Load; Redirect it",
            **_units(request, peak_kw, peak_kvar),
        },
        (
            "the first value is the mean over the first step: OpenDSS applies it to the solution "
            "at the step's end",
            "bus1 and kV of the Load are those of --bus and --kv; phases and connection are "
            "OpenDSS's defaults",
        ),
    )


def _units(request: ExportRequest, peak_kw: float, peak_kvar: float) -> dict[str, str]:
    """Return what the files of multipliers hold."""
    if request.options.actual:
        units = {"p.csv": "pmult, kW", "q.csv": "qmult, kvar"}
    else:
        units = {
            "p.csv": f"pmult, 1, of the peak {peak_kw:.6f} kW",
            "q.csv": f"qmult, 1, of {peak_kvar:.6f} kvar",
        }
    return units if request.has_reactive else {"p.csv": units["p.csv"]}


def _peaks(request: ExportRequest) -> tuple[float, float]:
    """Return the largest power [kW] and the largest reactive power of either sign [kvar]."""
    peak_w = peak_kvar = 0.0
    for block in request.series.blocks():
        peak_w = max(peak_w, float(block.power_w.max()))
        if block.q_mvar is not None:
            peak_kvar = max(peak_kvar, float(np.abs(block.q_mvar).max()) * KVAR_PER_MVAR)
    if peak_w <= 0:
        raise InputError(
            f"{request.run.folder}: '{request.options.column}' is never above 0 W; no load "
            "to export"
        )
    return peak_w / W_PER_KW, peak_kvar


def _script(request: ExportRequest, peak_kw: float, peak_kvar: float) -> str:
    options, series = request.options, request.series
    interval = (
        f"minterval={series.step_ms // MS_PER_MIN}"
        if series.step_ms % MS_PER_MIN == 0
        else f"sinterval={series.step_s:g}"
    )
    qmult = " qmult=(file=q.csv)" if request.has_reactive else ""
    match series.reactive:
        case None:
            reactive = "the run has none; kvar=0 is no statement on a power factor"
        case str(column):
            reactive = f"the run's {column}, above 0 drawn by the load"
        case _:
            reactive = "from the user's Q(P) table, above 0 drawn by the load"
    shape = options.name
    return "\n".join(
        (
            # A line end in the text of a doctored file would begin a command.
            printable(f"! diploee export of {request.run.scenario.name}, {options.column}."),
            printable(f"! Power boundary: {request.run.boundary(options.column)}."),
            f"! Means over steps of {series.step_s:g} s from {series.edge(series.spans[0][0])}.",
            "! A playback of P(t) supports no fault study.",
            f"! Reactive power: {reactive}.",
            f"New LoadShape.{shape} npts={series.n_steps} {interval} pmult=(file=p.csv){qmult} "
            f"useactual={'yes' if options.actual else 'no'}",
            f"New Load.{shape} bus1={options.bus} kV={options.kv:g} model=1 status=variable "
            f"kW={peak_kw!r} kvar={peak_kvar!r} yearly={shape} daily={shape} duty={shape}",
            "",
        )
    )


OPENDSS = Format(
    name="opendss",
    summary="OpenDSS folder: LoadShape (of the peak, or --actual kW) and a matching Load",
    write=_write,
    suffixes=(),
    options=frozenset({"q_table", "name", "bus", "kv", "actual"}),
)
