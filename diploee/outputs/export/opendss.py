"""OpenDSS: a LoadShape with its files, and the Load that follows it."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from diploee.errors import InputError
from diploee.outputs.export.base import Format, Job, Written
from diploee.outputs.export.text import CsvFile
from diploee.tables import Float64Array
from diploee.units import MS_PER_MIN, W_PER_KW

DIGITS = 12
"""Decimals of a normalised multiplier; the peak is exactly 1."""

KW_DIGITS = 6
KVAR_PER_MVAR = 1e3


def _write(job: Job) -> Written:
    peak_kw, peak_kvar = _peaks(job)
    kw_base, kvar_base = (1.0, 1.0) if job.options.actual else (peak_kw, peak_kvar or 1.0)
    digits = KW_DIGITS if job.options.actual else DIGITS
    with ExitStack() as stack:
        p_file = stack.enter_context(CsvFile(job.place / "p.csv"))
        q_file = stack.enter_context(CsvFile(job.place / "q.csv")) if job.reactive else None
        for block in job.series.blocks():
            p_file.write(np.round(block.power_w / W_PER_KW / kw_base, digits))
            if q_file is not None and job.reactive is not None:
                kvar = job.reactive.at(block.power_w) * KVAR_PER_MVAR
                q_file.write(np.round(kvar / kvar_base, digits))
    script = job.place / f"{job.options.name}.dss"
    script.write_text(_script(job, peak_kw, peak_kvar), encoding="utf-8")
    return Written(
        {script.name: "New LoadShape and New Load; Redirect it", **_units(job, peak_kw, peak_kvar)},
        (
            "the first value is the mean over the first step: OpenDSS applies it to the solution "
            "at the step's end",
            "bus1 and kV of the Load are those of --bus and --kv; phases and connection are "
            "OpenDSS's defaults",
        ),
    )


def _units(job: Job, peak_kw: float, peak_kvar: float) -> dict[str, str]:
    """Return what the files of multipliers hold."""
    if job.options.actual:
        units = {"p.csv": "pmult, kW", "q.csv": "qmult, kvar"}
    else:
        units = {
            "p.csv": f"pmult, 1, of the peak {peak_kw:.6f} kW",
            "q.csv": f"qmult, 1, of {peak_kvar:.6f} kvar",
        }
    return units if job.reactive is not None else {"p.csv": units["p.csv"]}


def _peaks(job: Job) -> tuple[float, float]:
    """Return the largest power [kW] and the largest reactive power of either sign [kvar]."""
    peak_w = peak_kvar = 0.0
    for block in job.series.blocks():
        peak_w = max(peak_w, float(block.power_w.max()))
        if job.reactive is not None:
            peak_kvar = max(peak_kvar, _largest_kvar(job.reactive.at(block.power_w)))
    if peak_w <= 0:
        raise InputError(
            f"{job.run.folder}: '{job.options.column}' is never above 0 W; no load to export"
        )
    return peak_w / W_PER_KW, peak_kvar


def _largest_kvar(q_mvar: Float64Array) -> float:
    return float(np.abs(q_mvar).max()) * KVAR_PER_MVAR


def _script(job: Job, peak_kw: float, peak_kvar: float) -> str:
    options, series = job.options, job.series
    interval = (
        f"minterval={series.step_ms // MS_PER_MIN}"
        if series.step_ms % MS_PER_MIN == 0
        else f"sinterval={series.step_s:g}"
    )
    qmult = " qmult=(file=q.csv)" if job.reactive is not None else ""
    reactive = (
        "! Reactive power: from the user's Q(P) table, above 0 drawn by the load."
        if job.reactive is not None
        else "! Reactive power: the run has none; kvar=0 is no statement on a power factor."
    )
    shape = options.name
    return "\n".join(
        (
            f"! diploee export of {job.run.scenario.name}, {options.column} (device power).",
            f"! Means over steps of {series.step_s:g} s from {series.edge(series.spans[0][0])}.",
            "! A playback of P(t) supports no fault study.",
            reactive,
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
